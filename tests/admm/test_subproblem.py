"""The subproblem is what it says: f_i(x) + <tilt, x> + (kappa/2)|x - centre|²."""

import numpy as np
import pytest

from dpadmm.problems.losses import LOSSES
from dpadmm.problems.penalties import L1, L2, PENALTIES
from dpadmm.problems.problem import Problem

STEP = 1e-6


def written_out(sub, x):
    """The objective of each agent, term by term."""
    pull = 0.5 * sub.kappa[:, 0] * ((x - sub.centre) ** 2).sum(axis=1)
    return sub.problem.objective(sub.shards, x) + (sub.tilt * x).sum(axis=1) + pull


def away_from_kinks(shape):
    rng = np.random.default_rng(3)
    return rng.choice([-1.0, 1.0], shape) * rng.uniform(0.1, 1.0, shape)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_is_the_slope_of_the_written_objective(loss, penalty, simulated, subproblem):
    problem = Problem(LOSSES[loss](), PENALTIES[penalty](), 0.3)
    sub = subproblem(problem, simulated(problem.loss))
    x = away_from_kinks(sub.tilt.shape)
    slope = sub.gradient(x)
    for j in range(x.shape[1]):
        move = np.zeros_like(x)
        move[:, j] = STEP
        numeric = (written_out(sub, x + move) - written_out(sub, x - move)) / (2 * STEP)
        np.testing.assert_allclose(slope[:, j], numeric, atol=2e-9)
    np.testing.assert_allclose(slope - sub.penalty_gradient(x), sub.smooth_gradient(x), atol=1e-15)


@pytest.mark.parametrize("penalty", ["none", "l2"])
@pytest.mark.parametrize("loss", ["logistic", "softmax", "smoothed-hinge", "smoothed-quantile"])
def test_hessian_is_the_slope_of_the_gradient(loss, penalty, simulated, subproblem):
    problem = Problem(LOSSES[loss](), PENALTIES[penalty](), 0.3)
    sub = subproblem(problem, simulated(problem.loss))
    x = away_from_kinks(sub.tilt.shape)
    hessian = sub.hessian(x)
    assert hessian.shape == (4, x.shape[1], x.shape[1])
    for j in range(x.shape[1]):
        move = np.zeros_like(x)
        move[:, j] = STEP
        numeric = (sub.gradient(x + move) - sub.gradient(x - move)) / (2 * STEP)
        np.testing.assert_allclose(hessian[:, :, j], numeric, atol=2e-8)


def test_stiffened_adds_a_quadratic_up_to_a_constant(simulated, subproblem):
    sub = subproblem(Problem(penalty=L2(), strength=0.1), simulated())
    rng = np.random.default_rng(4)
    extra = rng.uniform(0.2, 2.0, sub.tilt.shape[0])
    stiff = sub.stiffened(extra)
    x, other = rng.standard_normal((2, *sub.tilt.shape))

    def added(point):
        return written_out(stiff, point) - written_out(sub, point) - 0.5 * extra * (point**2).sum(axis=1)

    np.testing.assert_allclose(added(x), added(other), atol=1e-12)
    np.testing.assert_allclose(stiff.gradient(x), sub.gradient(x) + extra[:, None] * x, atol=1e-13)
    np.testing.assert_allclose(stiff.hessian(x), sub.hessian(x) + extra[:, None, None] * np.eye(x.shape[1]), atol=1e-13)


def test_an_agent_stiffened_by_nothing_keeps_its_problem_to_the_bit(simulated, subproblem):
    """Others in its batch may need extra curvature; that must not show in its own answer."""
    sub = subproblem(Problem(), simulated())
    x = np.random.default_rng(5).standard_normal(sub.tilt.shape)
    stiff = sub.stiffened(np.array([0.0, 0.3, 0.0, 2.0]))
    np.testing.assert_array_equal(stiff.gradient(x)[[0, 2]], sub.gradient(x)[[0, 2]])
    assert (stiff.gradient(x)[[1, 3]] != sub.gradient(x)[[1, 3]]).all()


def test_tilted_adds_a_linear_term(simulated, subproblem):
    sub = subproblem(Problem(penalty=L1(), strength=0.1), simulated())
    rng = np.random.default_rng(6)
    extra, x = rng.standard_normal((2, *sub.tilt.shape))
    np.testing.assert_allclose(
        written_out(sub.tilted(extra), x), written_out(sub, x) + (extra * x).sum(axis=1), atol=1e-13
    )
    np.testing.assert_allclose(sub.tilted(extra).gradient(x), sub.gradient(x) + extra, atol=1e-14)


@pytest.mark.parametrize("loss", LOSSES)
def test_take_is_the_same_problem_for_fewer_agents(loss, simulated, subproblem):
    problem = Problem(LOSSES[loss](), L2(), 0.3)
    sub = subproblem(problem, simulated(problem.loss))
    x = away_from_kinks(sub.tilt.shape)
    chosen = np.array([3, 0])
    np.testing.assert_array_equal(sub.take(chosen).gradient(x[chosen]), sub.gradient(x)[chosen])
    assert sub.take(chosen).shards.names == (sub.shards.names[3], sub.shards.names[0])
