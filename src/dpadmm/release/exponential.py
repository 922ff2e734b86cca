"""Comparing a uniform variable with an exponential: fast with a proved error, exactly where that does not suffice.

`acceptance` is the fast side, in floating point. The exact side encloses exponentials between integers, as narrowly as
needed, and reads further bits of the uniform variable until it lies on one side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import accumulate

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._kernels.compiled import compiled

Enclosure = Callable[[int], tuple[int, int]]  # of a real number p: bits -> (low, high) with low <= 2^bits p <= high
ERROR_BOUND = 2.0**-49
"""What `acceptance` and the entries of `thresholds` can be wrong by, absolutely."""
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
