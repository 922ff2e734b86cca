"""The simulation of paper 004: its numbers, and that every basis sees the same curves."""

import pickle

import numpy as np
import pytest
from scipy import stats

from dpadmm.datasets.curves import TRUTH, beta, error_quantile, parse, scores, simulate_curves, simulation
from dpadmm.errors import InputError
from dpadmm.privacy.randomness import generator

K = np.arange(1, 51)


@pytest.fixture(scope="module")
def large():
    return simulate_curves(records=40_000, seed=11, basis="cosine:50")


def test_truth_is_the_papers():
    assert TRUTH[:4] == pytest.approx([0.3, -1.0, 4 / 9, -0.25])
    assert TRUTH[49] == pytest.approx(-4 / 2500)
    assert np.linalg.norm(TRUTH) == pytest.approx(1.186, abs=5e-4)
    t = np.array([0.0, 0.2, 1.0])
    by_hand = 0.3 + np.sqrt(2) * sum(4 * (-1) ** (k + 1) / k**2 * np.cos((k - 1) * np.pi * t) for k in range(2, 51))
    np.testing.assert_allclose(beta(t), by_hand)
    with pytest.raises(ValueError, match="read-only"):
        TRUTH[0] = 1.0


def test_moments_of_the_coefficients(large):
    """Variance k^-2, uncorrelated; bounds are four standard errors, or five where there are many numbers."""
    A, m = large.features, len(large)
    squares = (A**2).sum(axis=1)
    assert np.sum(1.0 / K**2) == pytest.approx(1.625, abs=5e-4)
    assert squares.mean() == pytest.approx(1.625, abs=4 * np.sqrt(2 * np.sum(1.0 / K**4) / m))
    np.testing.assert_allclose(A.var(axis=0) * K**2, 1, atol=5 * np.sqrt(2 / m))
    np.testing.assert_allclose(A.mean(axis=0) * K, 0, atol=5 / np.sqrt(m))
    correlations = np.corrcoef(A.T) - np.eye(50)
    assert np.abs(correlations).max() < 5.5 / np.sqrt(m)
    assert stats.kstest(A[:, 2] * 3, "norm").pvalue > 1e-3


def test_norm_bound_clips_fewer_than_one_in_200(large):
    norms = np.linalg.norm(large.features, axis=1)
    assert large.norm_bound == 3.0
    assert 0.002 < (norms > 3).mean() < 0.005
    assert np.quantile(norms, 0.99) == pytest.approx(2.70, abs=0.05)


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.75])
def test_errors_are_students_and_shifted_to_zero(large, tau):
    shifted = simulate_curves(records=40_000, seed=11, shift=error_quantile(tau), basis="cosine:50")
    rest = shifted.targets - shifted.features @ TRUTH
    assert (rest <= 0).mean() == pytest.approx(tau, abs=4 * np.sqrt(tau * (1 - tau) / len(rest)))
    assert stats.kstest(rest + error_quantile(tau), stats.t(3).cdf).pvalue > 1e-3
    np.testing.assert_allclose(shifted.targets, large.targets - error_quantile(tau))


def test_error_quantiles():
    assert error_quantile(0.5) == pytest.approx(0, abs=1e-12)
    assert error_quantile(0.95) == pytest.approx(2.353363, abs=1e-6)
    assert error_quantile(0.05) == pytest.approx(-error_quantile(0.95))


def test_description():
    dataset = simulate_curves(records=5, basis="cosine:3")
    assert dataset.features.shape == (5, 3)
    assert dataset.feature_names == ("cosine 1", "cosine 2", "cosine 3")
    assert dataset.classes is None
    assert dataset.public_preprocessing
    assert dataset.basis == parse("cosine:3")
    assert dataset.truth is beta
    assert pickle.loads(pickle.dumps(dataset.truth)) is beta


def test_defaults_are_the_papers():
    dataset = simulate_curves(records=4)
    assert (simulate_curves.__defaults__, dataset.basis.text) == ((100_000, 0, 0.0, "cosine:10", 0.0), "cosine:10")


@pytest.mark.parametrize("size", [1, 10, 50])
def test_the_shortcut_equals_smoothing_the_observed_curves(size):
    everything = simulate_curves(records=200, seed=3, basis="cosine:50").features
    smoothed = scores(simulation.observed(everything), parse(f"cosine:{size}"))
    np.testing.assert_allclose(
        simulate_curves(records=200, seed=3, basis=f"cosine:{size}").features, smoothed, atol=1e-12
    )


@pytest.mark.parametrize("text", ["bspline:12", "fourier:9", "cosine:60"])
def test_other_bases_see_the_same_curves(monkeypatch, text):
    everything = simulate_curves(records=57, seed=3, basis="cosine:50")
    monkeypatch.setattr(simulation, "_BLOCK", 20)
    other = simulate_curves(records=57, seed=3, basis=text)
    np.testing.assert_array_equal(other.targets, everything.targets)
    values = everything.features @ parse("cosine:50").values((np.arange(100) + 0.5) / 100).T
    at_grid = parse(text).values((np.arange(100) + 0.5) / 100)
    np.testing.assert_allclose(other.features, np.linalg.lstsq(at_grid, values.T)[0].T, atol=1e-8)


def test_smoothing_is_not_lost_on_the_cosine_basis():
    rough, smooth = (simulate_curves(records=20, seed=3, smoothing=price).features for price in (0.0, 1e-3))
    shrunk = rough / (1 + 1e-3 * (np.pi * np.arange(10)) ** 4)
    np.testing.assert_allclose(smooth, shrunk, atol=1e-10)


def test_seeds_repeat_bit_for_bit_and_differ():
    for basis in ("cosine:10", "legendre:6"):
        once, again, other = (simulate_curves(records=50, seed=seed, basis=basis) for seed in (1, 1, 2))
        np.testing.assert_array_equal(once.features, again.features)
        np.testing.assert_array_equal(once.targets, again.targets)
        assert not np.isclose(once.features, other.features).any()
        assert not np.isclose(once.targets, other.targets).any()


def test_errors_depend_on_the_seed_and_are_drawn_apart_from_the_curves(large):
    errors = large.targets - large.features @ TRUTH
    other = simulate_curves(records=40_000, seed=12, basis="cosine:50")
    assert not np.isclose(errors, other.targets - other.features @ TRUTH).all()
    assert not np.isclose(errors, generator(11, "curves").standard_t(3, len(large))).all()
    ranks = stats.rankdata(errors)
    for column in range(3):
        assert abs(np.corrcoef(ranks, large.features[:, column])[0, 1]) < 5 / np.sqrt(len(large))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"records": 0}, "at least one"),
        ({"shift": np.nan}, "shift=nan"),
        ({"basis": "cosine:0"}, "whole number"),
        ({"basis": "wave:3"}, "unknown basis"),
        ({"smoothing": -1.0}, "price on roughness"),
        ({"records": 3, "basis": "cosine:101"}, "more components than grid points"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        simulate_curves(**arguments)


@pytest.mark.parametrize("tau", [0.0, 1.0, np.nan])
def test_levels(tau):
    with pytest.raises(InputError, match="between 0 and 1"):
        error_quantile(tau)
