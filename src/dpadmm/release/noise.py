"""Integer noise: discrete Gaussian and discrete Laplace variables, exact given uniform random bits.

How an attempt works, and why the numbers have exactly the distribution named, is in docs/theory/release.md, "Sampling".
Numbers are a function of the bits alone: neither floating-point hardware nor how rows are batched or cut into requests
can change one. An attempt reads at most three words of its row's stream: j (as many of the lowest bits as s - 1 has; if
j >= s the attempt ends there), the level with the sign, the acceptance. The m-th further word of word w is w + 2^48 m.

A uniform variable is compared with an exponential in floating point, with a proved error (`acceptance`). Where that
does not suffice, integers enclose the exponential, and further bits of the variable are read until it lies on one side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import accumulate
from typing import NamedTuple

import numba
import numpy as np

from dpadmm._arrays import FloatArray, IntArray, WordArray
from dpadmm._kernels.compiled import compiled
from dpadmm.errors import InputError
from dpadmm.release.random_bits import Stream

SMALLEST_SCALE = 2**10  # smaller ones would make the lemma on discrete Gaussians, and the rounding of sums, costly
LARGEST_SCALE = 2**52  # exclusive: scales are doubles, and numbers fit into 64 bits
WINDOW = 2.0**-40
"""Comparisons closer than this are decided exactly; far above ERROR_BOUND plus the 2^-53 that a prefix leaves open."""

_LAYER = 2**48  # words of a row's stream; the layers above hold their further bits
_LARGEST_REQUEST = 2**17  # words of all rows together, so that they stay in the cache
_SMALLEST_REQUEST = 256  # words of one row: where every row has a key of its own, each request costs microseconds
Enclosure = Callable[[int], tuple[int, int]]  # of a real number p: bits -> (low, high) with low <= 2^bits p <= high
ERROR_BOUND = 2.0**-49  # what `acceptance` and the entries of `thresholds` can be wrong by, absolutely
_TABLE_BITS = 256


def exponential(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Integers low <= 2^bits exp(-numerator / denominator) <= high, for numerator >= 0, few units apart.

    With m = floor(x) + 1, exp(-x) is the m-th power of exp(-y), y = x / m < 1. The series of exp(-y) alternates and
    decreases, so it differs from a partial sum by less than the last term. Every division rounds outwards.
    """
    power = numerator // denominator + 1
    denominator *= power
    one = 1 << bits
    low = high = term_low = term_high = one
    degree = 0
    while term_high > 1:
        degree += 1
        term_low = term_low * numerator // (denominator * degree)
        term_high = -(-term_high * numerator // (denominator * degree))
        low, high = (low - term_high, high - term_low) if degree % 2 else (low + term_low, high + term_high)
    if numerator:  # the terms left out
        low, high = max(low - term_high, 0), min(high + term_high, one)
    result_low = result_high = one
    for _ in range(power):
        result_low = result_low * low >> bits
        result_high = -(-result_high * high >> bits)
    return result_low, result_high


def geometric_tail(level: int, bits: int) -> tuple[int, int]:
    """Encloses P(V >= level) = exp(-level) for V >= 0 with weights exp(-v)."""
    return exponential(level, 1, bits)


@cache
def gaussian_tail(level: int, bits: int) -> tuple[int, int]:
    """Encloses P(K >= level) for K >= 0 with weights exp(-k^2 / 2); those beyond `last` sum to less than 2^-bits."""
    last = level + 1
    while last * last * 0.72 < bits + 8:  # exp(-k^2 / 2) < 2^(-0.72 k^2)
        last += 1
    lows, highs = zip(*(exponential(k * k, 2, bits) for k in range(last + 1)), strict=True)
    return (sum(lows[level:]) << bits) // (sum(highs) + 1), -(-((sum(highs[level:]) + 1) << bits) // sum(lows))


def below(word: int, further: Callable[[int], int], threshold: Enclosure) -> bool:
    """Whether a uniform variable lies below the threshold, exactly.

    The upper 53 bits of `word` are its first bits, `further(m)`, m = 1, 2, ..., the next 64 each, as far as needed.
    The threshold must be 1 or irrational, so that finitely many bits decide with probability 1.
    """
    prefix, bits, asked = word >> 11, 53, 0
    while True:
        low, high = threshold(bits + 16)
        if (prefix + 1) << 16 <= low:
            return True
        if prefix << 16 >= high:
            return False
        asked += 1
        prefix, bits = prefix << 64 | further(asked), bits + 64


def thresholds(tail: Callable[[int, int], tuple[int, int]], smallest: float) -> FloatArray:
    """The tails of level 1, 2, ... that are at least `smallest`, within 2^-53 relatively, between infinity and zero."""
    found: list[float] = []
    while not found or found[-1] >= smallest:
        # Division of integers is correctly rounded in Python, and the enclosure is relatively narrower than 2^-100.
        found.append(tail(len(found) + 1, _TABLE_BITS)[0] / 2**_TABLE_BITS)
    return np.array([np.inf, *found[:-1], 0.0])


def _powers() -> FloatArray:
    """exp(-b / 128) for b = 0, 1, ..., 961, correctly rounded: powers with 256 bits, cut, then divided by Python."""
    base = exponential(1, 128, _TABLE_BITS)[0]
    values = accumulate(range(961), lambda value, _: value * base >> _TABLE_BITS, initial=1 << _TABLE_BITS)
    return np.array([value / 2**_TABLE_BITS for value in values])


_POWERS = _powers()


@compiled(fast=False)
def acceptance(below_scale: int, level: int, inverse: float, gaussian: bool) -> float:
    """exp(-x (level + x / 2)) for the Gaussian, exp(-x) for Laplace, with x = below_scale / scale < 1.

    `below_scale` is an integer from 0 to scale - 1 for a scale below 2^52, `inverse` is 1.0 / scale, `level` is 0 to 7
    (any for Laplace). The absolute error is below 9 * 2^-53 < 2^-49 (docs/theory/release.md, "The exponential").
    """
    x = below_scale * inverse
    exponent = x * (level + 0.5 * x) if gaussian else x
    scaled = exponent * 128.0
    entry = np.int64(scaled)
    r = (scaled - entry) * 0.0078125
    series = 1.0 - r * (1.0 - r * (0.5 - r * (1.0 / 6.0 - r * (1.0 / 24.0 - r * (1.0 / 120.0)))))
    return _POWERS[entry] * series


class _Law(NamedTuple):
    """What is different between the two distributions."""

    gaussian: bool
    tail: Callable[[int, int], tuple[int, int]]
    thresholds: FloatArray
    accepted: float  # the part of attempts at large scales; only sets how many words are asked for


_Fast = tuple[FloatArray, bool, float]  # thresholds, gaussian, window
_GAUSSIAN = _Law(True, gaussian_tail, thresholds(gaussian_tail, WINDOW), 0.715)
_LAPLACE = _Law(False, geometric_tail, thresholds(geometric_tail, WINDOW), 0.632)


def discrete_gaussian(scales: IntArray, dimension: int, stream: Stream) -> IntArray:
    """Independent discrete Gaussian numbers: P(n) proportional to exp(-n^2 / (2 s^2)) on the integers.

    Args:
        scales: (B,) the integer scale s of each row, 2^10 <= s < 2^52, or 0 for zeros.
        dimension: How many numbers each row gets.
        stream: The random bits of the B rows.

    Returns:
        (B, dimension) integers; exact and independent, given independent uniform bits.
    """
    return _draw(_GAUSSIAN, _in_range(scales, stream), dimension, stream)


def discrete_laplace(scales: IntArray, dimension: int, stream: Stream) -> IntArray:
    """The same with discrete Laplace numbers: P(n) proportional to exp(-|n| / s) on the integers."""
    return _draw(_LAPLACE, _in_range(scales, stream), dimension, stream)


def _in_range(scales: IntArray, stream: Stream) -> IntArray:
    scales = np.ascontiguousarray(scales)
    if scales.shape != (stream.rows,) or scales.dtype != np.int64:
        given = f"{scales.dtype} noise scales of shape {scales.shape}"
        raise InputError(f"{given} for {stream.rows} rows: give one 64-bit integer per row")
    wrong = (scales != 0) & ((scales < SMALLEST_SCALE) | (scales >= LARGEST_SCALE))
    if wrong.any():
        raise InputError(f"a noise scale of {scales[wrong][0]} cells is out of range: 0, or from 2^10 to below 2^52")
    return scales


def _draw(law: _Law, scales: IntArray, dimension: int, stream: Stream, window: float = WINDOW) -> IntArray:
    """The numbers of all rows, for any scale below 2^52; a wider window than `WINDOW` decides more attempts exactly."""
    numbers = np.zeros((len(scales), dimension), dtype=np.int64)
    state = filled, position, undecided = np.zeros((3, len(scales)), dtype=np.int64)
    pending = np.flatnonzero(scales) if dimension else np.zeros(0, dtype=np.int64)
    while pending.size:
        # Who is pending has read all but two words at most, so one start fits all; even, so that words have no gaps.
        start = int(position[pending].min()) // 2 * 2
        words = stream.take(pending).words(start, _request(law, scales[pending], dimension - filled[pending]))
        while True:
            _attempts(words, start, pending, scales, (law.thresholds, law.gaussian, window), numbers, state)
            if not undecided.any():
                break
            for row in np.flatnonzero(undecided).tolist():
                number = _attempt(law, int(scales[row]), int(position[row]), stream.take(np.array([row])))
                position[row] += 3
                if number is not None:
                    numbers[row, filled[row]] = number
                    filled[row] += 1
        pending = pending[filled[pending] < dimension]
    return numbers


def _request(law: _Law, scales: IntArray, missing: IntArray) -> int:
    """How many words to ask for: what rows are expected to need and two standard deviations (3.5 for one number)."""
    power_of_two = np.exp2(np.ceil(np.log2(scales)))
    needed = (missing * (2.0 + power_of_two / scales) / law.accepted + 7.0 * np.sqrt(missing)).max() + 8.0
    return int(min(needed, max(_LARGEST_REQUEST // len(scales), _SMALLEST_REQUEST))) // 2 * 2


@compiled(parallel=True, fast=False)
def _attempts(
    words: WordArray, start: int, rows: IntArray, scales: IntArray, law: _Fast, numbers: IntArray, state: IntArray
) -> None:
    """Attempts of each row until it is full, fewer than three words are left, or one is undecided.

    Row `rows[r]` reads `words[r]`, the words of its stream from `start`. Its state: how many numbers it has, at which
    word its next attempt begins, whether that attempt is undecided. A uniform variable lies in [u, u + 2^-53).
    """
    thresholds, gaussian, window = law
    filled, position, undecided = state[0], state[1], state[2]
    dimension, count = numbers.shape[1], words.shape[1]
    for r in numba.prange(rows.size):
        row = rows[r]
        scale, inverse, mask = scales[row], 1.0 / scales[row], np.uint64(0)
        while mask < np.uint64(scale - 1):
            mask = mask << np.uint64(1) | np.uint64(1)
        place, full, undecided[row] = position[row] - start, filled[row], 0
        while full < dimension and place + 3 <= count:
            below_scale = np.int64(words[r, place] & mask)
            if below_scale >= scale:
                place += 1
                continue
            word = words[r, place + 1]
            uniform = np.float64(word >> np.uint64(11)) * 2.0**-53
            level = 0
            while uniform < thresholds[level + 1]:
                level += 1
            chance = acceptance(below_scale, level, inverse, gaussian)
            excess = np.float64(words[r, place + 2] >> np.uint64(11)) * 2.0**-53 - chance
            if min(thresholds[level] - uniform, uniform - thresholds[level + 1], abs(excess)) <= window:
                undecided[row] = 1
                break
            place += 3
            magnitude, negative = level * scale + below_scale, np.int64(word & np.uint64(1))
            numbers[row, full] = (magnitude ^ -negative) + negative  # without a branch, which nobody could predict
            full += (excess < 0.0) & ((magnitude > 0) | (negative == 0))
        position[row], filled[row] = place + start, full


def _attempt(law: _Law, scale: int, position: int, stream: Stream) -> int | None:
    """One attempt in exact arithmetic, from the words at `position` of one row: its number, or None if refused.

    A number of more than 64 bits (of probability below 2^-2900) wraps around, which costs no privacy.
    """
    first, second, third = stream.words(position, 3)[0].tolist()
    below_scale = first & ((1 << (scale - 1).bit_length()) - 1)

    def further(word: int, layer: int) -> int:
        return int(stream.words(position + word + layer * _LAYER, 1)[0, 0])

    level = 0
    while below(second, partial(further, 1), partial(law.tail, level + 1)):
        level += 1
    exponent = (below_scale * (2 * level * scale + below_scale), 2 * scale**2) if law.gaussian else (below_scale, scale)
    accepted = below(third, partial(further, 2), partial(exponential, *exponent))
    number = (level * scale + below_scale) * (-1 if second & 1 else 1)
    return (number + 2**63) % 2**64 - 2**63 if accepted and (number or not second & 1) else None
