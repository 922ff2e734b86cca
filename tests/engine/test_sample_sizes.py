"""Theorems VI.1 and VI.2 of 003 with the numbers of a run."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from dpadmm import Experiment
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.prepare import prepare
from dpadmm.engine.sample_sizes import Question, needed, noise_length, sample_sizes
from dpadmm.errors import InputError
from dpadmm.privacy.mechanisms import GammaNorm, Gaussian
from dpadmm.release.random_bits import SeededRandomness

RUN = {
    "source": "synthetic",
    "algorithm": "private-r-admm",
    "topology": "ring:5",
    "agents": 5,
    "rounds": 6,
    "strength": 0.05,
    "rho": 0.05,
}


def declared(**changes):
    return Experiment().changed(**(RUN | changes))


def paper(tau, excess, reference, failure, slack, dimension, alpha, c):
    """Theorem VI.2 as printed, for C = c, N = 7 and alpha in the paper's units."""
    nodes = 7
    noise = (1 + slack) * nodes * dimension**2 / (c * alpha**2) * math.log(dimension / failure) ** 2
    return c * nodes * math.log(1 / failure) / (nodes * c * (tau - excess) ** 2 / (2 * reference) - noise)


def test_the_formulas_are_the_papers_in_our_units():
    question = Question(0.3, 0.05, None, 0.5)
    excess, alpha, c, dimension = 0.04, 3.0, 1750.0, 11
    length = noise_length(GammaNorm(np.ones(1)), np.array([1.0 / (c * alpha)]), dimension, 0.05)
    ours = needed(question, 2.5, np.array([excess]), length, private=True)
    assert ours[0] == pytest.approx(paper(0.3, excess, 2.5, 0.05, 0.5, dimension, alpha, c), rel=1e-12)
    silent = needed(question, 2.5, np.array([excess]), np.zeros(1), private=False)
    assert silent[0] == pytest.approx(2.5 * math.log(20.0) / 0.26**2, rel=1e-12)
    for above, noise in ((0.3, 0.0), (0.5, 0.0), (0.0, 10.0)):
        assert needed(question, 2.5, np.array([above]), np.array([noise]), private=True)[0] == math.inf


def test_noise_is_seldom_longer_than_is_said():
    draw, count = np.random.default_rng(0), 100_000
    gaussian = np.linalg.norm(2.0 * draw.standard_normal((count, 5)), axis=1)
    assert np.mean(gaussian > noise_length(Gaussian(np.ones(1)), np.array([2.0]), 5, 0.05)) == pytest.approx(
        0.05, abs=0.004
    )
    gamma = draw.gamma(5, 2.0, count)
    assert np.mean(gamma > noise_length(GammaNorm(np.ones(1)), np.array([2.0]), 5, 0.05)) <= 0.05


def test_without_noise_the_excess_is_that_over_the_pooled_optimum():
    found = sample_sizes(declared(algorithm="mr-admm", rounds=9), Question(tau=0.2))
    assert found.theorem == "VI.1"
    assert found.needed.shape == (5, 5)
    assert found.excess[-1].max() < found.excess[0].max() < 0.2
    assert np.array_equal(found.largest, found.needed.max(axis=0))
    expected = found.reference * math.log(20.0) / (0.2 - found.excess) ** 2
    np.testing.assert_allclose(found.needed, expected, rtol=1e-12)
    summary = found.summary()
    assert [node["records"] for node in summary["nodes"]] == found.counts.tolist()
    tight = sample_sizes(declared(algorithm="mr-admm", rounds=9), Question(tau=1e-6))
    assert tight.summary()["nodes"][0]["needed"] is None


@pytest.mark.parametrize(
    "noise", [{"noise_multiplier": 30.0, "delta": 1e-5}, {"mechanism": "gamma-norm", "alpha": (40.0,)}], ids=str
)
def test_with_noise_the_excess_is_over_what_nodes_come_to_that_keep_it(noise):
    """Recomputed from the releases: zeta_i from the minimiser's condition, the optimum by another search."""
    spec = declared(extra_curvature=0.02, **noise)
    found = sample_sizes(spec, Question(tau=0.5))
    assert found.theorem == "VI.2"
    prepared = prepare(spec)
    plan, shards, test = prepared.plan, prepared.shards, prepared.test
    cohort = Cohort.of(plan, shards, [0], SeededRandomness(0))
    problem, weights = plan.setting.problem, plan.setting.weights
    for k, state in enumerate(rounds(cohort, SimulationState.of(cohort), InProcessExecutor()), start=1):
        if k % 2 == 0:
            continue
        x, slope = state.agents.released, state.agents.slope
        zeta = slope - problem.loss.gradient(shards, x, weights) - 0.05 * x - 0.02 * x

        def total(z, zeta=zeta):
            spread = np.tile(z, (5, 1))
            value = problem.loss.values(shards, spread, weights).sum() + 5 * 0.035 * z @ z + zeta.sum(axis=0) @ z
            slope = problem.loss.gradient(shards, spread, weights).sum(axis=0) + 5 * 0.07 * z + zeta.sum(axis=0)
            return value, slope

        kept = minimize(total, np.zeros(x.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-8}).x
        losses = [problem.loss.values(test, z[None], 1.0 / test.counts)[0] for z in (*x, kept)]
        np.testing.assert_allclose(found.excess[k // 2], np.maximum(np.array(losses[:-1]) - losses[-1], 0), atol=1e-6)
    assert found.excess.max() > 0.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"algorithm": "pvp-mr-admm", "noise_multiplier": 1.0, "delta": 1e-5}, "and not about 'pvp-mr-admm'"),
        ({"algorithm": "decentralised-admm"}, "and not about 'decentralised-admm'"),
        ({"algorithm": "r-admm", "penalty": "none"}, "and not 'none'"),
        ({"algorithm": "r-admm", "test": 0.0}, "no held-out records"),
    ],
)
def test_what_the_theorems_are_not_about_is_refused(changes, said):
    with pytest.raises(InputError, match=said):
        sample_sizes(declared(**changes), Question())
    with pytest.raises(InputError, match=r"sample sizes: tau = 0\.0 must be"):
        Question(0.0)
