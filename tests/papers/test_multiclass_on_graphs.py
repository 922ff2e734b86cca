"""003, VII.C: several classes on graphs, with noise on answers and, in simulations, in the objective."""

import math

import numpy as np
import pytest

from dpadmm.admm.setting import Multiplier, TotalBudget
from dpadmm.admm.topology.graph import parse_topology
from dpadmm.audit.likelihood import RATIO
from dpadmm.audit.run import audit
from dpadmm.audit.scene import Scenario, scene
from dpadmm.audit.transcripts import transcripts
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import PureDpEvent, Relation
from dpadmm.problems.losses import Softmax
from dpadmm.problems.penalties import L2
from dpadmm.problems.problem import Problem
from dpadmm.problems.reference import optimum

PROBLEM = Problem(Softmax(), L2(), 0.05)
SIZES = (6, 11, 8, 9, 7)


@pytest.fixture
def classes(simulated, terms):
    """classes(graph, **changes): records of three classes at five nodes, and their terms."""

    def make(graph="erdos-renyi:5:0.5", **changes):
        shards = simulated(Softmax(), SIZES)
        return shards, terms(PROBLEM, shards, graph=parse_topology(graph), **({"rho": 0.06} | changes))

    return make


@pytest.mark.parametrize("name", ["decentralised-admm", "r-admm", "mr-admm", "m-admm"])
def test_all_nodes_reach_the_pooled_optimum(name, classes, played):
    shards, terms = classes(rounds=200)
    recipe = ALGORITHMS[name].tuned(**({"damping": 0.01} if len(ALGORITHMS[name].phases) == 2 else {}))
    if name in ("m-admm", "mr-admm"):
        recipe = recipe.tuned(rho=type(recipe.rho)(1.01, 1.0, 3.0))
    released = played(recipe.plan(terms, Multiplier(0.0)), shards)[-1].agents.released
    best = optimum(PROBLEM, shards, terms.dimension, 1e-11)
    assert np.linalg.norm(best) > 0.5
    np.testing.assert_allclose(released, np.tile(best, (5, 1)), atol=1e-5)


@pytest.mark.parametrize("name", ["pvp-graph", "pvp-r-admm", "pvp-mr-admm"])
def test_noise_on_answers_keeps_its_budget(name, classes, played):
    shards, terms = classes(rounds=4)
    plan = ALGORITHMS[name].plan(terms, TotalBudget((Budget(1.0, 1e-5),)))
    assert 0.999 < plan.accounts().worst(1e-5).epsilon <= 1.0
    assert np.isfinite(played(plan, shards)[-1].agents.released).all()


@pytest.mark.parametrize("seed", range(20))
def test_no_record_multiplies_a_determinant_by_more_than_is_paid_for(seed, simulated):
    """det(H + G) / det(H) <= (1 + w |a|² / (C lambda))^(C-1), for records, models and curvatures at random."""
    draw = np.random.default_rng(seed)
    weight, least, size = draw.uniform(0.1, 5.0), draw.uniform(0.05, 1.0), draw.uniform(0.2, 1.0)
    shards = simulated(Softmax(), (1,), seed=seed)
    x = size * 10.0 * draw.standard_normal((1, 9)) * draw.choice([0.0, 1.0])
    added = Softmax().hessian(shards, x, np.array([weight]))[0]
    basis = np.linalg.qr(draw.standard_normal((9, 9)))[0]
    other = basis @ np.diag(least + draw.exponential(0.3, 9) * draw.choice([0.0, 1.0])) @ basis.T
    ratio = np.linalg.slogdet(other + added)[1] - np.linalg.slogdet(other)[1]
    rank, curvature = Softmax().added_curvature(1.0, 3)
    assert (rank, curvature) == (2, pytest.approx(1.0 / 3.0))
    assert ratio <= rank * math.log1p(weight * curvature / least) + 1e-12


def test_the_bound_is_attained():
    """At equal probabilities, a row of length one, and no curvature but lambda."""
    weight, least = 0.7, 0.2
    p = np.full(3, 1 / 3)
    added = weight * np.kron(np.diag(p) - np.outer(p, p), np.diag([1.0, 0.0]))
    found = np.linalg.slogdet(least * np.eye(6) + added)[1] - 6 * math.log(least)
    rank, curvature = Softmax().added_curvature(1.0, 3)
    assert found == pytest.approx(rank * math.log1p(weight * curvature / least), rel=1e-12)


@pytest.mark.parametrize("relation", list(Relation), ids=str)
def test_a_round_costs_its_noise_and_determinants_of_classes_less_one(relation, classes):
    _, terms = classes("path:5", rounds=3, relation=relation)
    recipe = ALGORITHMS["private-r-admm"].tuned(mechanism="gamma-norm", extra_curvature=0.0)
    plan = recipe.plan(terms, Multiplier(2.0))
    degrees = np.array([1, 2, 2, 2, 1])
    for i in range(5):
        ratio = (1.0 / SIZES[i]) / 3.0 / (0.05 + 2 * 0.06 * degrees[i])
        (event,) = {plan.events(1)[i]}
        assert isinstance(event, PureDpEvent)
        assert event.epsilon == pytest.approx(1.01 / 2.0 + 2 * math.log1p(ratio), rel=1e-12)
    budgeted = ALGORITHMS["private-r-admm"].tuned(mechanism="gamma-norm").plan(
        terms, TotalBudget((Budget(3.0, 0.0),))
    )  # fmt: skip
    assert 2.9999 < budgeted.accounts().worst(0.0).epsilon <= 3.0


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_no_claim_is_refuted(epsilon):
    stage = Scenario(loss="softmax")
    pure = ALGORITHMS["private-r-admm"].tuned(mechanism="gamma-norm")
    for recipe, delta in ((ALGORITHMS["pvp-mr-admm"], 1e-5), (pure, 0.0)):
        found = audit(recipe, epsilon, delta, stage=stage, transcripts=3000, seed=1)
        assert 0.05 < found.lower_bound <= found.claimed <= epsilon * (1.0 + 1e-12)


def test_a_likelihood_ratio_has_mean_one():
    """With the determinants of a softmax record in it."""
    recipe = ALGORITHMS["dvp"].tuned(mechanism="gamma-norm", extra_curvature=0.5)
    stage = Scenario(loss="softmax", relation="zero-out", rounds=2, records=1, agents=1, rho=0.3)
    found = transcripts(scene(recipe, Multiplier(3.0, 1e-5), stage), 10_000, seed=3)[..., RATIO].sum(axis=2)
    for ratios in (np.exp(found[0]), np.exp(-found[1])):
        assert abs(ratios.mean() - 1.0) <= 4.5 * ratios.std() / np.sqrt(ratios.size)


def test_gaussian_noise_in_the_objective_has_no_lemma_for_several_classes(classes):
    _, terms = classes()
    with pytest.raises(InputError, match=r"noise on the answer \('pvp-graph', 'pvp-mr-admm'\)"):
        ALGORITHMS["private-mr-admm"].plan(terms, TotalBudget((Budget(1.0, 1e-5),)))
