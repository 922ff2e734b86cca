"""The enclosures that decide what noise is: their bounds against multiple precision, their decisions bit by bit."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dpadmm.release import noise as module
from dpadmm.release.noise import (
    ERROR_BOUND,
    acceptance,
    below,
    exponential,
    gaussian_tail,
    geometric_tail,
    thresholds,
)

SCALES = (1, 3, 1024, 1025, 2**26 + 12345, 3 * 2**50 + 1, 2**52 - 3, 2**52 - 1)


@pytest.fixture(autouse=True)
def multiple_precision():
    with mpmath.workprec(700):
        yield


def worst_error(level, scale, places, gaussian):
    """The largest |acceptance - true value| over these integers below the scale."""
    worst = mpmath.mpf(0)
    for place in places:
        x = mpmath.mpf(place) / scale
        with mpmath.workprec(160):
            true = mpmath.exp(-x * (level + x / 2) if gaussian else -x)
        worst = max(worst, abs(mpmath.mpf(acceptance(place, level, 1.0 / scale, gaussian)) - true))
    return worst


def places_of(scale, level, gaussian, rng):
    """Random ones, both ends, and all three around each edge of the table."""
    edges = np.arange(0, 128 * (level + 0.5) if gaussian else 128) / 128
    x = np.sqrt(level**2 + 2 * edges) - level if gaussian else edges
    around = (np.rint(x * scale).astype(np.int64)[:, None] + np.arange(-1, 2)).ravel()
    places = np.r_[0, 1, scale - 2, scale - 1, rng.integers(0, scale, 150), around]
    return np.unique(places[(places >= 0) & (places < scale)]).tolist()


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("scale", SCALES)
def test_acceptance_is_as_near_as_proved(scale, gaussian):
    rng = np.random.default_rng(0)
    assert ERROR_BOUND == 2.0**-49
    for level in range(8) if gaussian else (0, 27):
        assert worst_error(level, scale, places_of(scale, level, gaussian, rng), gaussian) <= ERROR_BOUND


def test_tables_are_correctly_rounded():
    """mpmath rounds to the nearest double."""
    assert module._POWERS.tolist() == [float(mpmath.exp(-mpmath.mpf(entry) / 128)) for entry in range(962)]
    weights = [mpmath.exp(-mpmath.mpf(k * k) / 2) for k in range(60)]
    tails = [float(sum(weights[level:]) / sum(weights)) for level in range(1, 9)]
    assert thresholds(gaussian_tail, 2.0**-40).tolist() == [np.inf, *tails[:7], 0.0]
    assert tails[7] < 2.0**-40 <= tails[6]
    geometric = [float(mpmath.exp(-level)) for level in range(1, 29)]
    assert thresholds(geometric_tail, 2.0**-40).tolist() == [np.inf, *geometric[:27], 0.0]
    assert geometric[27] < 2.0**-40 <= geometric[26]


@pytest.mark.parametrize("bits", [*range(8, 90), 133, 400])
def test_enclosures_hold_the_true_value_and_are_narrow(bits):
    for numerator, denominator in [(0, 1), (1, 2**60), (1, 3), (2**52 - 1, 2**52), (1, 1), (15, 2), (200, 7), (900, 1)]:
        low, high = exponential(numerator, denominator, bits)
        assert low <= mpmath.exp(-mpmath.mpf(numerator) / denominator) * 2**bits <= high
        assert high - low <= 2 * bits + numerator // denominator
    weights = [mpmath.exp(-mpmath.mpf(k * k) / 2) for k in range(60)]
    for level in (1, 2, 5, 9, 30):
        low, high = gaussian_tail(level, bits)
        assert low <= sum(weights[level:]) / sum(weights) * 2**bits <= high
        assert high - low <= 2 * bits + 1000
        low, high = geometric_tail(level, bits)
        assert low <= mpmath.exp(-level) * 2**bits <= high
    assert exponential(0, 5, bits) == (2**bits, 2**bits)


def first_bits(threshold, bits):
    return int(mpmath.floor(threshold * 2**bits))


@pytest.mark.parametrize("agreeing", [0, 1, 3])
@pytest.mark.parametrize("shift", [-1, 1])
def test_further_bits_decide(agreeing, shift):
    """The uniform variable differs from the threshold by one in its prefix, or after `agreeing` further words."""
    bits = 53 + 64 * agreeing
    uniform = first_bits(mpmath.exp(-mpmath.mpf(2) / 7), bits) + (shift if agreeing == 0 else 0)
    following = first_bits(mpmath.exp(-mpmath.mpf(2) / 7), bits + 64) % 2**64 + shift
    asked = []

    def further(number):
        asked.append(number)
        if number == agreeing + 1:
            return following
        return uniform >> (bits - 53 - 64 * number) & (2**64 - 1)

    word = uniform >> (bits - 53) << 11 | 0b1010  # the lowest bits of a word are no part of the variable
    assert below(word, further, lambda bits: exponential(2, 7, bits)) is (shift < 0)
    assert asked == (list(range(1, agreeing + 2)) if agreeing else [])


def test_everything_is_below_one():
    def no_more(number):
        raise AssertionError("53 bits suffice")

    assert below(2**64 - 1, no_more, lambda bits: exponential(0, 3, bits))


def test_the_table_reaches_the_largest_exponent():
    """x may round to 1: the last entry that is read is number 960."""
    scale = 2**52 - 1
    assert acceptance(scale - 1, 7, 1.0 / scale, True) == pytest.approx(np.exp(-7.5), rel=1e-14)
    assert module._POWERS.size > 7.5 * 128
