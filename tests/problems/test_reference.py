"""The reference optimum is the optimum: scikit-learn's where it has one, optimality conditions elsewhere."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from dpadmm.datasets import simulate
from dpadmm.errors import ConvergenceError
from dpadmm.problems.losses import Logistic, SmoothedHinge, Softmax
from dpadmm.problems.penalties import L1, L2, ElasticNet, NoPenalty
from dpadmm.problems.problem import Problem
from dpadmm.problems.reference import optimum
from dpadmm.problems.sets import Box
from dpadmm.problems.shards import gather

SIZES = (30, 70, 50)  # every agent counts the same, whatever its size


@pytest.fixture
def shards():
    data = simulate("classification", sum(SIZES), 5, 2)
    owner = np.repeat(np.arange(3), SIZES)
    return gather(data.features, Logistic().encode(data.targets, 2), owner, norm_bound=1.0, names=list("abc"))


def slope(problem, shards, z):
    """The mean over agents of the gradient of their losses."""
    weights = problem.weights(shards.counts)
    return problem.loss.gradient(shards, np.tile(z, (shards.agents, 1)), weights).mean(axis=0)


def test_l2_logistic_is_scikit_learn_s(shards):
    strength = 0.01
    best = optimum(Problem(Logistic(), L2(), strength), shards, 5)
    weights = np.repeat(1 / (3 * np.array(SIZES)), SIZES)
    model = LogisticRegression(C=1 / strength, fit_intercept=False, tol=1e-10, max_iter=10_000)
    model.fit(shards.real_rows, shards.targets, sample_weight=weights)
    np.testing.assert_allclose(best, model.coef_[0], rtol=1e-5)


@pytest.mark.parametrize("strength", [0.0, 0.01])
def test_where_records_count_alike_it_is_the_minimiser_of_the_pooled_records(strength, shards):
    """Scikit-learn on all records, with no weights; the penalty counts once for each of the three agents."""
    best = optimum(Problem(Logistic(), L2(), strength, records=150), shards, 5)
    C = 1 / (3 * strength) if strength else 1e12
    model = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10_000)
    model.fit(shards.real_rows, shards.targets, sample_weight=np.full(150, 1 / 150))
    np.testing.assert_allclose(best, model.coef_[0], rtol=2e-5)
    others = optimum(Problem(Logistic(), L2(), strength), shards, 5)
    assert np.linalg.norm(best - others) > 0.01  # where owners count alike it is another


@pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("domain", [None, Box(0.8)], ids=["whole", "box"])
@pytest.mark.parametrize("penalty", [NoPenalty(), L2(), L1(), ElasticNet(0.5)], ids=lambda penalty: penalty.name)
def test_no_direction_leads_down(penalty, domain, loss, shards):
    strength = 0.02
    problem = Problem(loss, penalty, strength)
    problem = problem if domain is None else replace(problem, domain=domain)
    z = optimum(problem, shards, 5, tolerance=1e-7)
    kink, bend = strength * getattr(penalty, "ratio", 0.0), strength * penalty.strong_convexity
    smooth = slope(problem, shards, z) + bend * z
    low, high = smooth + np.where(z > 0, kink, -kink), smooth + np.where(z < 0, -kink, kink)
    if domain is not None:
        high, low = np.where(z >= 0.8, np.inf, high), np.where(z <= -0.8, -np.inf, low)
        assert np.abs(z).max() == 0.8  # the box has something to do
    assert np.linalg.norm(np.clip(0.0, low, high)) < 1e-6
    if penalty.name == "l1" and domain is None:
        assert np.linalg.norm(z) > 0.5


def test_sparse_rows_and_softmax(shards):
    problem = Problem(Logistic(), L2(), 0.01)
    dense = optimum(problem, shards, 5)
    np.testing.assert_allclose(
        optimum(problem, replace(shards, features=csr_array(shards.features)), 5), dense, atol=1e-6
    )
    two_classes = replace(shards, targets=(shards.targets > 0).astype(np.int64))
    matrix = optimum(Problem(Softmax(), L2(), 0.02), two_classes, 10).reshape(5, 2)
    np.testing.assert_allclose(matrix[:, 1] - matrix[:, 0], dense, atol=1e-5)  # half the difference, twice the penalty


def test_no_other_point_is_better(shards):
    problem = Problem(Logistic(), L1(), 0.02)
    best = optimum(problem, shards, 5)
    rng = np.random.default_rng(0)

    def value(z):
        return problem.objective(shards, np.tile(z, (3, 1))).mean()

    assert all(value(best) < value(best + 0.05 * rng.standard_normal(5)) for _ in range(50))


@dataclass(frozen=True)
class Kinked(Logistic):
    """A loss that claims a kink."""

    name = "kinked"

    def curvature_bound(self, norm_bound):
        return None


def test_a_loss_with_kinks_has_no_reference(shards):
    with pytest.raises(ConvergenceError, match="'kinked' has kinks"):
        optimum(Problem(Kinked(), L1(), 0.02), shards, 5)
