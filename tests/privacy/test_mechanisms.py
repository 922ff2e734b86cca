"""Each mechanism has its distribution, row by row, and names the event that goes with it.

Discrete noise is tested in tests/release/test_perturb.py; gamma-norm noise, which simulations only can have, here.
"""

import math

import numpy as np
import pytest
from scipy import stats

from dpadmm.admm.perturbations.base import simulated
from dpadmm.errors import InputError
from dpadmm.privacy.events import GaussianDpEvent, LaplaceDpEvent, NonPrivateDpEvent, PureDpEvent
from dpadmm.privacy.mechanisms import MECHANISMS, GammaNorm, Gaussian, Laplace, Mechanism, mechanism_class
from dpadmm.problems.shards import Shards
from dpadmm.release.perturb import release_value
from dpadmm.release.random_bits import SeededRandomness, Stream


def stream(rows: int, seed: int = 5) -> Stream:
    return SeededRandomness(seed).stream(np.zeros(rows, dtype=np.int64), np.arange(rows), 0, "test")


def drawn(mechanism: Mechanism, scale: float, rows: int, dimension: int) -> np.ndarray:
    many, zeros = mechanism.take(np.zeros(rows, dtype=np.int64)), np.zeros((rows, dimension))
    make = simulated if isinstance(mechanism, GammaNorm) else release_value
    return make(zeros, many, np.full(rows, scale), stream(rows))


@pytest.mark.parametrize(("kind", "law"), [(Gaussian, stats.norm(scale=2.5)), (Laplace, stats.laplace(scale=2.5))])
def test_marginals(kind: type[Mechanism], law: stats.rv_continuous) -> None:
    noise = drawn(kind(np.ones(1)), 2.5, 2000, 20)
    assert stats.kstest(noise.ravel(), law.cdf).pvalue > 0.01
    # Neighbouring coordinates share no bits.
    assert abs(np.corrcoef(noise[:, 0], noise[:, 1])[0, 1]) < 0.08
    assert abs(np.corrcoef(np.abs(noise[:, 0]), np.abs(noise[:, 1]))[0, 1]) < 0.08


def test_gamma_norm_f13() -> None:
    d, scale, rows = 6, 0.4, 40000
    noise = drawn(GammaNorm(np.ones(1)), scale, rows, d)
    length = np.linalg.norm(noise, axis=1)
    assert stats.kstest(length, stats.gamma(d, scale=scale).cdf).pvalue > 0.01
    assert length.mean() == pytest.approx(d * scale, rel=0.01)
    assert length.var() == pytest.approx(d * scale**2, rel=0.03)
    # A coordinate of a uniform direction: (1 + c) / 2 is Beta((d-1)/2, (d-1)/2); and it tells nothing of the length.
    direction = noise / length[:, None]
    beta = stats.beta((d - 1) / 2, (d - 1) / 2)
    for coordinate in range(d):
        assert stats.kstest((1 + direction[:, coordinate]) / 2, beta.cdf).pvalue > 0.001
    np.testing.assert_allclose(np.cov(direction.T), np.eye(d) / d, atol=0.005)
    assert abs(np.corrcoef(direction[:, 0], length)[0, 1]) < 0.02


def test_gamma_norm_in_one_dimension_is_laplace() -> None:
    noise = drawn(GammaNorm(np.ones(1)), 3.0, 20000, 1)
    assert stats.kstest(noise.ravel(), stats.laplace(scale=3.0).cdf).pvalue > 0.01


def test_extreme_words_give_finite_symmetric_noise() -> None:
    top, kind = 2**63, GammaNorm(np.ones(1))
    low = np.array([[0, 0, top - 1, top - 1]], dtype=np.uint64)
    noise = kind.unit(2, low)
    mirrored = kind.unit(2, low | np.uint64(top))
    assert np.all(np.isfinite(noise))
    np.testing.assert_array_equal(noise, -mirrored)


@pytest.mark.parametrize("dimension", [1, 7, 104])
def test_a_simulated_batch_equals_batches_of_one_and_any_selection(dimension: int) -> None:
    rows = 33
    random = np.random.default_rng(0)
    mechanism = GammaNorm(random.uniform(0.5, 2.0, rows))
    value, sensitivity = random.normal(size=(rows, dimension)), random.uniform(0.1, 1.0, rows)
    full = simulated(value, mechanism, sensitivity, stream(rows))
    for some in [*(np.array([i]) for i in range(rows)), np.array([5, 2, 30]), np.arange(4, 21)]:
        part = simulated(value[some], mechanism.take(some), sensitivity[some], stream(rows).take(some))
        np.testing.assert_array_equal(part.view(np.uint64), full[some].view(np.uint64))


def test_a_simulated_scale_is_multiplier_times_sensitivity_and_zero_is_bit_for_bit() -> None:
    mechanism = GammaNorm(np.array([0.0, 2.0, 2.0]))
    sensitivity = np.array([1.0, 0.0, 3.0])
    value = np.array([[-0.0, np.nan], [-0.0, 1e-320], [0.0, 0.0]])
    noisy = simulated(value, mechanism, sensitivity, stream(3))
    np.testing.assert_array_equal(noisy[:2].view(np.uint64), value[:2].view(np.uint64))
    bits = stream(3).words(0, mechanism.words_needed(2))
    np.testing.assert_allclose(noisy[2], 6.0 * mechanism.unit(2, bits)[2], rtol=1e-15)
    assert np.all(noisy[2] != 0.0)


def test_events_and_norms() -> None:
    multipliers = np.array([2.0, 0.0, 2.0])
    expected = {
        "gaussian": (GaussianDpEvent(2.0), 2),
        "laplace": (LaplaceDpEvent(2.0), 1),
        "gamma-norm": (PureDpEvent(0.5), 2),
    }
    assert set(expected) == set(MECHANISMS)
    for name, (event, norm) in expected.items():
        mechanism = MECHANISMS[name](multipliers)
        assert mechanism.events() == (event, NonPrivateDpEvent(), event)
        assert mechanism.norm == norm


@pytest.mark.parametrize("bad", [[-1.0], [np.nan], [np.inf], 3.0])
def test_bad_multipliers_are_refused(bad: object) -> None:
    with pytest.raises(InputError, match="gaussian mechanism"):
        Gaussian(np.array(bad))


@pytest.mark.parametrize("kind", MECHANISMS.values(), ids=MECHANISMS)
def test_the_log_density_is_that_of_the_noise(kind: type[Mechanism]) -> None:
    """E p(noise + shift) / p(noise) is one, since the density of what is moved sums to one as well."""
    noise = drawn(kind(np.ones(1)), 1.0, 40_000, 3)
    ratios = np.exp(kind.log_density(noise + np.array([0.2, -0.1, 0.3])) - kind.log_density(noise))
    assert abs(ratios.mean() - 1.0) <= 4.5 * ratios.std() / math.sqrt(ratios.size)
    assert ratios.std() > 0.1


def test_a_mechanism_is_a_registry_name_or_a_class() -> None:
    class Own(Laplace):
        name = "own"

    assert mechanism_class("laplace") is Laplace
    assert mechanism_class(Own) is Own
    with pytest.raises(InputError, match=r"unknown mechanism 'laplac'.*laplace"):
        mechanism_class("laplac")
    with pytest.raises(InputError, match="unknown mechanism"):
        mechanism_class(Shards)  # type: ignore[arg-type]


def test_a_mechanism_without_a_density_cannot_be_audited() -> None:
    class Silent(Laplace):
        name = "silent"

        @classmethod
        def log_density(cls, noise: np.ndarray) -> np.ndarray:
            return super(Laplace, cls).log_density(noise)

    with pytest.raises(InputError, match="mechanism 'silent' has no log_density"):
        Silent.log_density(np.zeros((1, 1)))
