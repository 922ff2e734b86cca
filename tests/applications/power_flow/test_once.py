"""Noise on the loads, once, is never worse than noise on every gradient in slack form: theory 4.3, computed."""

import numpy as np
import pytest

from dpadmm.applications.power_flow.formulation import Formulation
from dpadmm.applications.power_flow.rounds import run
from dpadmm.applications.power_flow.terms import Terms

K = 7
BUDGET = {"epsilon": 1.0, "delta": 1e-2}


@pytest.mark.parametrize("both", [False, True])
def test_the_mean_of_all_noisy_gradients_is_what_noise_on_the_loads_is_at_the_same_total(halves, both):
    """So noise on the loads has all that they tell: the mean of Gaussian copies is sufficient."""
    often, once = (Terms(name, rounds=K, both_loads=both, **BUDGET) for name in ("obj-g", "input"))
    for zone in halves.zones:
        problem, adjacency = Formulation.of(zone, "slack"), often.protection().adjacency
        of_copy = often.protection().multiplier * adjacency.of_gradient(problem, 2) / 2.0  # of the loads: half of 2 d
        of_loads = once.protection().multiplier * adjacency.of_loads(2)
        assert of_copy / np.sqrt(K) == pytest.approx(of_loads, rel=1e-6)
        assert (problem.of_loads(zone.relaxation.loads)[problem.entered] == 2.0 * zone.relaxation.loads).all()


def test_gaussian_copies_can_be_made_of_one():
    """Noise that sums to zero is added to it; the covariance of what comes out is that of independent copies."""
    sigma, ones = 3.0, np.ones((K, K))
    one_copy = sigma**2 / K * ones
    added = sigma**2 * (np.eye(K) - ones / K)
    np.testing.assert_allclose(one_copy + added, sigma**2 * np.eye(K), atol=1e-12)
    assert np.linalg.eigvalsh(added).min() > -1e-12  # a covariance
    rng = np.random.default_rng(0)
    fresh = sigma * rng.normal(size=(100_000, K))
    made = sigma / np.sqrt(K) * rng.normal(size=(100_000, 1)) + fresh - fresh.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(np.cov(made.T), sigma**2 * np.eye(K), atol=0.03 * sigma**2)


def test_laplace_copies_can_be_made_of_one():
    """Two copies of scale 2 b of one of scale b, on a grid: what is added has a law without negative mass, and its
    convolution with the one copy is the two."""
    b, step = 1.0, 0.25
    grid = step * np.arange(-240, 241)
    copy = np.exp(-np.abs(grid) / (2 * b))
    copies = np.outer(copy, copy) / np.outer(copy, copy).sum()
    frequency = 2 * np.pi * np.fft.fftfreq(grid.size, step)
    # Of integers times the step: 1 / (1 + c (1 - cos)) is the characteristic function of a discrete Laplace number.
    ratio = np.exp(-step / b)
    one = (1 - ratio) ** 2 / (1 + ratio**2 - 2 * ratio * np.cos(step * (frequency[:, None] + frequency[None, :])))
    added = np.fft.ifft2(np.fft.fft2(np.fft.ifftshift(copies)) / one).real
    assert added.sum() == pytest.approx(1.0)
    assert added.min() > -1e-9
    # By the formula: between the axes the share 1 - (sum of signs)^2 / K^2 of the density, so 0 where signs agree.
    middle = np.fft.fftshift(added)
    origin = grid.size // 2
    agree, differ = middle[origin + 8, origin + 8], middle[origin + 8, origin - 8]
    density = copies[origin + 8, origin + 8]
    assert abs(agree) < 0.02 * density
    assert differ == pytest.approx(density, rel=0.02)


def test_and_not_for_a_single_copy_that_is_noisier():
    """Two copies of scale 1.5 b tell more than one of scale b: the law would need negative mass."""
    grid = 0.25 * np.arange(-240, 241)
    copy = np.exp(-np.abs(grid) / 1.5)
    copies = np.outer(copy, copy) / np.outer(copy, copy).sum()
    frequency = 2 * np.pi * np.fft.fftfreq(grid.size, 0.25)
    ratio = np.exp(-0.25)
    one = (1 - ratio) ** 2 / (1 + ratio**2 - 2 * ratio * np.cos(0.25 * (frequency[:, None] + frequency[None, :])))
    assert np.fft.ifft2(np.fft.fft2(np.fft.ifftshift(copies)) / one).real.min() < -1e-6


@pytest.mark.parametrize("delta", [1e-2, 1e-5])
@pytest.mark.parametrize("count", [5, 100])
def test_one_copy_is_as_exact_as_any_use_of_laplace_copies(halves, count, delta):
    """At the library's own calibration: no unbiased estimate from so many copies has less variance than a^2 / count.
    Where they are paid for as pure releases, the one copy is a Laplace one, of scale a / count."""
    often, once = (Terms(name, rounds=count, epsilon=1.0, delta=delta) for name in ("obj-l", "input"))
    adjacency = often.protection().adjacency
    problem = Formulation.of(halves.zones[0], "slack")
    scale = often.protection().multiplier * adjacency.of_gradient(problem, 1) / 2.0
    gaussian = (once.protection().multiplier * adjacency.of_loads(2)) ** 2
    pure = often.protection().multiplier == pytest.approx(count, rel=1e-6)
    assert pure == (count == 5 and delta == 1e-5)
    assert (2.0 * (scale / count) ** 2 if pure else gaussian) <= scale**2 / count


@pytest.mark.parametrize("algorithm", ["obj-g", "obj-l"])
def test_at_one_total_it_leaves_less_unmet_load(overloaded, halves, algorithm):
    """Means of five runs of thirty rounds."""
    once = [run(halves, Terms(rounds=30, **BUDGET), seed).objective for seed in range(5)]
    often = [run(halves, Terms(algorithm, rounds=30, **BUDGET), seed).objective for seed in range(5)]
    assert np.mean(once) < np.mean(often)
