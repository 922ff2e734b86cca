"""Noise that survives floating point (claims E1): value and noise on one lattice, paid for by the scale."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpadmm.errors import InputError
from dpadmm.privacy.mechanisms import MECHANISMS, GammaNorm, Gaussian, Laplace, Mechanism
from dpadmm.privacy.randomness import SeededRandomness, SystemRandomness

DRAWS = 1_000_000
SIGMA = 4.84  # the classic (1, 1e-5) noise of claims E1
KINDS = pytest.mark.parametrize("kind", MECHANISMS.values(), ids=MECHANISMS)

Sample = Callable[[float], np.ndarray]


def event(noisy: np.ndarray) -> float:
    """How often {|y| < 1/16 and y not a multiple of 2^-53} happens: the event that gives plain sums away."""
    scaled = noisy * 2.0**53
    return float(np.mean((np.abs(noisy) < 1 / 16) & (scaled != np.rint(scaled))))


def assert_tells_nothing(sample: Sample) -> None:
    """Neighbours 0 and 1: the event has probability zero under both."""
    found = event(sample(0.0)), event(sample(1.0))
    assert found == (0.0, 0.0), found


def added(mechanism: Mechanism) -> Sample:
    """That mechanism's outputs for a value with sensitivity 1, from the operating system's words."""
    rows = np.arange(DRAWS)
    many = mechanism.take(np.zeros(DRAWS, dtype=np.int64))

    def sample(value: float) -> np.ndarray:
        random_bits = SystemRandomness().random_bits(rows, rows, 0, "test", many.words_needed(1))
        return many.add(np.full((DRAWS, 1), value), np.ones(DRAWS), random_bits)

    return sample


def numpy_normal(value: float) -> np.ndarray:
    return np.random.default_rng(5).normal(value, SIGMA, DRAWS)


def numpy_laplace(value: float) -> np.ndarray:
    return np.random.default_rng(5).laplace(value, 1.0, DRAWS)


REAL = {
    "gaussian": Gaussian(np.array([SIGMA])),
    "laplace": Laplace(np.array([1.0])),
    "gamma-norm": GammaNorm(np.array([1.0])),
}


@pytest.mark.parametrize("name", REAL)
def test_the_event_tells_nothing_on_the_lattice(name: str) -> None:
    assert_tells_nothing(added(REAL[name].on_lattice()))


@pytest.mark.parametrize(
    ("sample", "likely"),
    [
        (numpy_normal, 0.0098),
        (added(REAL["gaussian"]), 0.0098),
        (numpy_laplace, 0.058),
        (added(REAL["laplace"]), 0.058),
        (added(REAL["gamma-norm"]), 0.058),
    ],
    ids=["numpy normal", "plain gaussian", "numpy laplace", "plain laplace", "plain gamma-norm"],
)
def test_the_same_event_gives_plain_sums_away(sample: Sample, likely: float) -> None:
    with pytest.raises(AssertionError):
        assert_tells_nothing(sample)
    assert event(sample(0.0)) == pytest.approx(likely, rel=0.06)
    assert event(sample(1.0)) == 0.0


def spacing(scale: float) -> float:
    """g = 2^(floor(log2 scale) - 32), by the exponent itself."""
    return 2.0 ** (math.frexp(scale)[1] - 1 - 32)


@KINDS
@pytest.mark.parametrize("multiplier", [0.37, 4.84, 1000.0])
def test_both_neighbours_lie_on_one_lattice(kind: type[Mechanism], multiplier: float) -> None:
    mechanism = kind(np.full(2, multiplier)).on_lattice()
    draw = np.random.default_rng(1)
    value = draw.normal(size=(1, 50))
    neighbour = value + draw.normal(size=(1, 50)) * 1e-3
    sensitivity = np.full(2, 0.013)
    random_bits = SystemRandomness().random_bits(np.zeros(2), np.arange(2), 0, "test", mechanism.words_needed(50))
    noisy = mechanism.add(np.vstack([value, neighbour]), sensitivity, random_bits)
    step = spacing(float(mechanism.scale(sensitivity, 50)[0]))
    assert np.array_equal(noisy / step, np.rint(noisy / step))
    # The spacing is that of the scale and no finer one: half of it is met by half of the points only.
    assert not np.array_equal(noisy / (2 * step), np.rint(noisy / (2 * step)))
    plain = kind(np.full(2, multiplier)).add(np.vstack([value, neighbour]), sensitivity, random_bits)
    assert not np.array_equal(plain / step, np.rint(plain / step))
    np.testing.assert_allclose(noisy, plain, rtol=1e-5, atol=1e-5 * multiplier)


@KINDS
@given(
    multiplier=st.floats(1e-3, 1e5),
    sensitivity=st.floats(1e-12, 1e6),
    dimension=st.sampled_from([1, 2, 7, 104, 1000, 7840]),
)
def test_the_scale_pays_for_the_rounding(
    kind: type[Mechanism], multiplier: float, sensitivity: float, dimension: int
) -> None:
    mechanism = kind(np.array([multiplier])).on_lattice()
    growth = dimension if mechanism.norm == 1 else math.sqrt(dimension)
    scale = float(mechanism.scale(np.array([sensitivity]), dimension)[0])
    needed = multiplier * (sensitivity + spacing(scale) * growth)
    assert scale >= needed * (1 - 4e-16)
    assert scale > kind(np.array([multiplier])).scale(np.array([sensitivity]), dimension)[0] or growth < 1e-6
    # And for no more than twice the rounding: g is within a factor 2 of scale * 2^-32.
    assert scale <= multiplier * (sensitivity + 2 * spacing(scale) * growth) * (1 + 4e-16)


@KINDS
@given(multiplier=st.floats(1e-3, 1e3), sensitivity=st.floats(1e-6, 1e3), seed=st.integers(0, 1000))
def test_rounding_moves_neighbours_apart_by_one_spacing_at_most(
    kind: type[Mechanism], multiplier: float, sensitivity: float, seed: int
) -> None:
    """What was paid for is what happens: the same noise on both, so the outputs differ by the rounded values."""
    mechanism, d = kind(np.full(2, multiplier)).on_lattice(), 5
    draw = np.random.default_rng(seed)
    value = draw.normal(size=d) * sensitivity * 10
    move = draw.normal(size=d)
    move *= sensitivity / np.linalg.norm(move, ord=mechanism.norm)
    random_bits = np.repeat(
        SeededRandomness(seed).random_bits(np.zeros(1), np.zeros(1), 0, "n", mechanism.words_needed(d)), 2, axis=0
    )
    scale = mechanism.scale(np.full(2, sensitivity), d)
    one, other = mechanism.add(np.vstack([value, value + move]), np.full(2, sensitivity), random_bits)
    apart = np.linalg.norm(one - other, ord=mechanism.norm)
    assert multiplier * apart <= scale[0] * (1 + 1e-12)


@KINDS
def test_the_distribution_is_still_the_mechanisms(kind: type[Mechanism]) -> None:
    rows, d, multiplier, sensitivity = 20_000, 3, 1.7, 0.5
    mechanism = kind(np.full(rows, multiplier)).on_lattice()
    random_bits = SeededRandomness(3).random_bits(
        np.zeros(rows, dtype=np.int64), np.arange(rows), 0, "ks", mechanism.words_needed(d)
    )
    value = np.array([[0.3, -20.0, 0.0]])
    noise = mechanism.add(np.repeat(value, rows, axis=0), np.full(rows, sensitivity), random_bits) - value
    scale = multiplier * sensitivity
    if kind is GammaNorm:
        found = stats.kstest(np.linalg.norm(noise, axis=1), stats.gamma(d, scale=scale).cdf)
        assert found.pvalue > 0.001
        np.testing.assert_allclose(np.cov(noise.T), np.eye(d) * (d + 1) * scale**2, atol=0.25)
    else:
        law = {Gaussian: stats.norm, Laplace: stats.laplace}[kind](scale=scale)
        for column in range(d):
            assert stats.kstest(noise[:, column], law.cdf).pvalue > 0.001
    # The same with 5% more noise would be noticed: the test has power.
    if kind is Gaussian:
        assert stats.kstest(1.05 * noise.ravel(), law.cdf).pvalue < 0.001


@KINDS
def test_far_values_are_cut_at_a_fixed_point_and_sums_stay_exact(kind: type[Mechanism]) -> None:
    values = np.array([[1e3, -1e3], [1e100, -1e100], [2.0**20, -(2.0**20)], [1e300, 3.0]])
    mechanism = kind(np.ones(4)).on_lattice()
    random_bits = SystemRandomness().random_bits(np.zeros(4), np.arange(4), 0, "far", mechanism.words_needed(2))
    scale = mechanism.scale(np.ones(4), 2)
    step = spacing(float(scale[0]))
    points = mechanism.add(values, np.ones(4), random_bits) / step
    noise = np.rint(mechanism.draw(scale, 2, random_bits) / step)
    for row, column in np.ndindex(values.shape):
        whole = int(Fraction(round(Fraction(values[row, column]) / Fraction(step))))
        cut = max(-(2**52), min(2**52, whole))
        assert abs(points[row, column]) < 2**53
        assert int(points[row, column]) == cut + int(noise[row, column])
    assert abs(points[1]).min() > 2**51  # it was cut far out, at 2^20 scales, not near


@KINDS
def test_no_noise_is_no_rounding(kind: type[Mechanism]) -> None:
    mechanism = kind(np.array([0.0, 1.0, 1.0])).on_lattice()
    value = np.array([[0.1, np.pi], [0.1, -0.0], [0.1, np.pi]])
    random_bits = SystemRandomness().random_bits(np.zeros(3), np.arange(3), 0, "none", mechanism.words_needed(2))
    noisy = mechanism.add(value, np.array([1.0, 0.0, 1.0]), random_bits)
    np.testing.assert_array_equal(noisy[:2].view(np.uint64), value[:2].view(np.uint64))
    assert np.all(noisy[2] != value[2])


def test_noise_too_large_for_the_lattice_is_refused() -> None:
    for kind, dimension in ((Gaussian, 10_000), (GammaNorm, 10_000), (Laplace, 100)):
        largest = 2.0**31 / 100
        kind(np.array([0.9 * largest])).on_lattice().scale(np.ones(1), dimension)
        with pytest.raises(InputError, match="too large"):
            kind(np.array([1.1 * largest])).on_lattice().scale(np.ones(1), dimension)
        kind(np.array([1.1 * largest])).scale(np.ones(1), dimension)  # a plain sum knows no lattice


@KINDS
@pytest.mark.parametrize("multiplier", [0.3, 50.0, 1e4, 1e6])
def test_a_whispers_lattice_reaches_far_and_pays_for_being_coarse(kind: type[Mechanism], multiplier: float) -> None:
    """What covers a minimiser's tolerance is tiny beside the minimiser: it must not be cut at a million scales."""
    dimension, sensitivity = 30, np.array([1e-9])
    whisper = kind(np.array([multiplier])).on_lattice(far=True)
    scale = whisper.scale(sensitivity, dimension)
    apart = dimension if kind.norm == 1 else math.sqrt(dimension)
    random_bits = SeededRandomness(0).random_bits(
        np.zeros(1, int), np.zeros(1, int), 1, "whisper", whisper.words_needed(dimension)
    )
    reach = 2.0 ** (52 - 4 - max(4, math.ceil(math.log2(multiplier * apart)))) * scale[0]
    assert reach > 2.0**22 * scale[0]
    value = np.linspace(-0.4, 0.4, dimension)[None, :] * reach
    noisy = whisper.add(value, sensitivity, random_bits)
    step = 2.0 ** min(32, max(8, math.ceil(math.log2(max(multiplier * apart, 1))) + 4))
    spacing = 2.0 ** math.floor(math.log2(scale[0])) / step
    np.testing.assert_array_equal(np.rint(noisy / spacing) * spacing, noisy)  # all of it on one lattice
    noise = whisper.draw(scale, dimension, random_bits)
    np.testing.assert_allclose(noisy - value, noise, atol=1.001 * spacing + 1e-15 * reach)
    assert scale[0] >= multiplier * (sensitivity[0] + spacing * apart) * (1 - 1e-12)
    assert scale[0] <= 1.07 * multiplier * sensitivity[0]
    usual = kind(np.array([multiplier])).on_lattice()
    assert np.abs(usual.add(value, sensitivity, random_bits)).max() < 0.5 * np.abs(value).max()  # which is cut
