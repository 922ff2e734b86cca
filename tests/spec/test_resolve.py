"""A recipe, a problem and a plan have the parts that their spec names; what cannot be made is refused."""

from dataclasses import replace

import numpy as np
import pytest

from dpadmm.admm.perturbations import Objective, Output
from dpadmm.admm.rho import BalancedRho, ConstantRho, GeometricRho, GrowingRho
from dpadmm.admm.schedules import Fixed, Free53, InverseRoot
from dpadmm.admm.solvers import Exact, LocalUpdates, Recycled, Sgd, Svrg
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses import SmoothedHinge
from dpadmm.problems.penalties import ElasticNet
from dpadmm.problems.sets import Box
from dpadmm.spec import resolve
from dpadmm.spec.declare import RunSpec


def test_a_recipe_has_the_changes_of_its_spec():
    spec = RunSpec("dvp", tolerance=1e-6, extra_curvature=2.0, schedule="fixed:0.3")
    recipe = resolve.recipe(spec)
    assert recipe.phases[0].solver == Exact(1e-6)
    assert recipe.phases[0].perturbation == Objective(extra_curvature=2.0)
    assert recipe.schedule == Fixed(0.3)
    assert resolve.recipe(RunSpec("dp-admm")) == ALGORITHMS["dp-admm"]
    assert resolve.recipe(RunSpec("dp-admm", schedule="inverse-sqrt")).schedule == InverseRoot(1.0)
    assert resolve.recipe(RunSpec("pvp", mechanism="gamma-norm")).phases[0].perturbation.mechanism == "gamma-norm"


def test_a_problem_has_the_parts_its_spec_names():
    problem = resolve.problem(RunSpec(loss="smoothed-hinge:0.25", penalty="elastic-net:0.3", strength=0.1, set="box:2"))
    assert problem.loss == SmoothedHinge(0.25)
    assert problem.penalty == ElasticNet(0.3)
    assert problem.strength == 0.1
    assert problem.domain == Box(2.0)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (RunSpec("dp-adm"), r"unknown algorithm 'dp-adm'; did you mean 'dp-admm'"),
        (RunSpec("admm", mechanism="gaussian"), r"'admm' has no mechanism"),
        (RunSpec("dp-admm", tolerance=1e-3), r"'dp-admm' has no tolerance"),
        (RunSpec("dp-admm", schedule="theorm"), r"unknown schedule 'theorm'; did you mean 'theorem'"),
        (RunSpec("dp-admm", schedule="fixed:x"), r"what follows the colon must be a number"),
        (RunSpec("dp-admm", schedule="theorem:2"), r"'theorem' does not take 1 number"),
        (RunSpec("dvp", extra_curvature=-1.0), r"extra_curvature = -1.0"),
    ],
)
def test_a_recipe_that_cannot_be_made_is_refused(spec, said):
    with pytest.raises(InputError, match=said):
        resolve.recipe(spec)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"loss": "logistik"}, r"unknown loss 'logistik'; did you mean 'logistic'"),
        ({"penalty": "l3"}, r"unknown penalty 'l3'"),
        ({"set": "sphere"}, r"unknown set 'sphere'"),
        ({"strength": -1.0}, r"strength = -1.0 must be"),
        ({"set": "box:-2"}, r"bound = -2.0 must be"),
    ],
)
def test_a_problem_that_cannot_be_made_is_refused(changes, said):
    with pytest.raises(InputError, match=said):
        resolve.problem(RunSpec(**changes))


def test_a_plan_is_made_of_public_facts():
    spec = RunSpec(
        "dp-admm", loss="softmax", epsilon=1.0, delta=1e-5, relation="zero-out", rounds=9, rho=0.3, radius=7.0,
        norm_bound=2.0,
    )  # fmt: skip
    setting = resolve.plan(spec, np.array([5, 6]), 4, 3).setting
    assert (setting.dimension, setting.norm_bound, setting.rounds, setting.rho, setting.radius) == (
        12,
        2.0,
        9,
        0.3,
        7.0,
    )
    assert setting.relation is Relation.ZERO_OUT
    assert setting.problem == resolve.problem(spec)
    with pytest.raises(InputError, match="unknown relation 'replaced'; did you mean 'replace'"):
        resolve.plan(replace(spec, relation="replaced"), np.array([5, 6]), 4, 3)


# -- Ryu & Kim's recipes, sets and weights -----------------------------------------------------------------------------


def test_local_updates_and_their_parts_have_the_changes_of_their_spec():
    recipe = resolve.recipe(RunSpec("out-g", updates=3, unit_gain=True, mechanism="laplace", schedule="free-5.3:0.7"))
    assert recipe.phases[0].solver == LocalUpdates(3)
    assert recipe.phases[0].perturbation == Output("laplace", may_leave=True, unit_gain=True)
    assert recipe.schedule == Free53(0.7)
    assert resolve.recipe(RunSpec("obj-g")) == ALGORITHMS["obj-g"]


def test_mini_batches_and_their_mean_have_the_changes_of_their_spec():
    spec = RunSpec("ps-admm", updates=7, batch=64.0, average="over-relaxed", reach=0.5)
    assert resolve.recipe(spec).phases[0].solver == Svrg(7, "over-relaxed", 64.0, "poisson", 0.5)
    uniform = RunSpec("scas-admm", batch=1.0, sampling="uniform")
    assert resolve.recipe(uniform).phases[0].solver == Svrg(batch=1.0, sampling="uniform")
    assert resolve.recipe(RunSpec("ps-admm-sgd", batch=0.1)).phases[0].solver == Sgd(batch=0.1)
    # All at once: neither 64 of the records with one draw each, nor one record by coins, would do.
    printed = resolve.recipe(RunSpec("ps-admm-paper", batch=64.0, sampling="poisson")).phases[0].solver
    assert printed == replace(ALGORITHMS["ps-admm-paper"].phases[0].solver, batch=64.0, sampling="poisson")
    assert ALGORITHMS["ps-admm-paper"].phases[0].solver.sampling == "uniform"
    for name, value in (("batch", 0.1), ("sampling", "poisson"), ("average", "plain"), ("reach", 1.0)):
        with pytest.raises(InputError, match=f"algorithm 'dp-admm' has no {name} to set"):
            resolve.recipe(replace(RunSpec("dp-admm"), **{name: value}))


def test_a_rho_is_constant_and_none_leaves_the_recipes_schedule():
    assert resolve.recipe(RunSpec("obj-g")).rho == GrowingRho()
    assert resolve.recipe(RunSpec("dp-admm")).rho == ConstantRho()
    assert resolve.recipe(RunSpec("obj-g", rho=0.3)).rho == ConstantRho()
    assert resolve.recipe(RunSpec("dp-admm", rho_schedule="balanced:2")).rho == BalancedRho(2.0)
    assert resolve.recipe(RunSpec("obj-g", rho_schedule="growing:0.005:0.05:2000")).rho == GrowingRho(
        0.005, 0.05, 2000.0
    )
    counts = np.array([5, 6])
    plan = resolve.plan(RunSpec("obj-g", rho=0.3, epsilon=1.0, delta=1e-5), counts, 4, 2)
    assert [plan.rho(k) for k in (1, 50, 20_000)] == [0.3] * 3
    plan = resolve.plan(RunSpec("obj-g", rho_schedule="constant", epsilon=1.0, delta=1e-5), counts, 4, 2)
    assert plan.rho(1) == 0.1


@pytest.mark.parametrize("algorithm", ["dp-admm", "obj-g"])
def test_weighting_is_the_recipes_unless_it_is_named(algorithm):
    counts, own = np.array([5, 15]), ALGORITHMS[algorithm].weighting
    assert own == ("records" if algorithm == "obj-g" else "owners")
    weights = {"owners": [1 / 5, 1 / 15], "records": [1 / 20, 1 / 20]}
    for weighting in (None, "owners", "records"):
        spec = RunSpec(algorithm, weighting=weighting, epsilon=1.0, delta=1e-5)
        plan = resolve.plan(spec, counts, 4, 2)
        np.testing.assert_array_equal(plan.setting.weights, weights[weighting or own])
        records = 20 if (weighting or own) == "records" else None
        assert plan.setting.problem == replace(resolve.problem(spec), records=records)
        np.testing.assert_array_equal(plan.take([1]).setting.weights, weights[weighting or own][1:])


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (RunSpec("obj-g", weighting="record"), r"unknown weighting 'record'; did you mean 'records'"),
        (RunSpec("obj-g", weighting="owner"), r"unknown weighting 'owner'; did you mean 'owners'"),
        (RunSpec("dp-admm", weighting=""), r"unknown weighting ''; there are: owners, records"),
        (RunSpec("obj-g", rho=0.3, rho_schedule="balanced"), r"give a rho or the rho schedule 'balanced', not both"),
        (RunSpec("obj-g", rho_schedule="growin"), r"unknown rho schedule 'growin'; did you mean 'growing'"),
        (RunSpec("obj-g", rho_schedule="growing:0"), r"'growing': base = 0.0 must be"),
        (RunSpec("obj-g", updates=0), r"updates = 0 must be"),
        (RunSpec("obj-g", updates=10_001), r"updates = 10001 must be"),
        (RunSpec("obj-g", updates=-2), r"updates = -2 must be"),
        (RunSpec("dp-admm", updates=2), r"'dp-admm' has no updates to set"),
        (RunSpec("pvp", updates=1), r"'pvp' has no updates to set"),
        (RunSpec("dp-admm", unit_gain=True), r"'dp-admm' has no unit gain to set"),
        (RunSpec("obj-g", unit_gain=False), r"'obj-g' has no unit gain to set"),
    ],
)
def test_a_recipe_that_cannot_be_made_so_is_refused(spec, said):
    with pytest.raises(InputError, match=said):
        resolve.recipe(spec)


def test_a_plan_knows_the_width_of_records():
    plan = resolve.plan(RunSpec("obj-l", loss="softmax", epsilon=1.0, norm_bound=2.0), np.array([5, 15]), 4, 3)
    assert (plan.setting.width, plan.setting.dimension) == (4, 12)
    # Two records, each with slopes of 1-norm 2 on a row of 1-norm at most sqrt(4) * 2. Slopes are rounded to whole
    # units, which costs a few millionths.
    found = plan.setting.gradient_sensitivity(1)
    np.testing.assert_allclose(found, 2 * 2 * np.sqrt(4) * 2 / 20, rtol=1e-5)
    assert (found >= 2 * 2 * np.sqrt(4) * 2 / 20).all()


# -- graphs ------------------------------------------------------------------------------------------------------------


def test_recipes_on_graphs_have_the_changes_of_their_spec():
    spec = RunSpec("private-mr-admm", damping=0.3, dual_rho=0.2, rho=0.1, rho_schedule="geometric:1.1:2:50")
    recipe = resolve.recipe(spec)
    assert recipe.phases[1].solver == Recycled(0.3)
    assert (recipe.rho, recipe.dual_rho) == (GeometricRho(1.1, 2.0, 50.0), ConstantRho(0.2))
    plan = resolve.plan(replace(spec, topology="path:3", epsilon=1.0, delta=1e-5, rounds=5), np.array([5, 6, 7]), 4, 2)
    assert [plan.rho(k) for k in (1, 2, 3)] == pytest.approx([0.1 * 2 * 1.1, 0.1 * 2 * 1.1, 0.1 * 2 * 1.1**2])
    assert [plan.dual_rho(k) for k in (1, 2, 3)] == [0.2] * 3
    np.testing.assert_array_equal(plan.setting.graph.edges, [[0, 1], [1, 2]])
    each = resolve.recipe(RunSpec("mr-admm", rho_schedule="geometric:1.1,1.2,1:2,3,4"))
    assert each.rho == GeometricRho((1.1, 1.2, 1.0), (2.0, 3.0, 4.0))
    own = resolve.plan(RunSpec("mr-admm", topology="ring:3", rounds=3), np.array([5, 6, 7]), 4, 2)
    assert own.setting.rho == pytest.approx(1 / 1750)
    assert own.rho(3) == pytest.approx(1.04**2 / 1750)
    fixed = resolve.plan(RunSpec("m-admm", topology="ring:3", rho=0.5), np.array([5, 6, 7]), 4, 2)
    assert (fixed.rho(2), fixed.dual_rho(2)) == (pytest.approx(0.5 * 1.04**2), 0.5)
    named = resolve.plan(RunSpec("mr-admm", topology='{"edges": [[0, 1], [2, 1]]}'), np.array([5, 6, 7]), 4, 2)
    np.testing.assert_array_equal(named.setting.graph.edges, [[0, 1], [1, 2]])


def test_a_rho_may_be_given_beside_a_schedule_that_starts_from_it():
    assert resolve.recipe(RunSpec("admm", rho=0.3, rho_schedule="geometric")).rho == GeometricRho()
    plan = resolve.plan(RunSpec("admm", rho=0.3, rho_schedule="geometric:1.5"), np.array([5, 6]), 4, 2)
    assert [plan.rho(k) for k in (1, 2)] == pytest.approx([0.45, 0.675])
    plan = resolve.plan(RunSpec("mr-admm", rho=0.3, topology="ring:3"), np.array([5, 6, 7]), 4, 2)
    assert plan.rho(1) == pytest.approx(0.312)
    for schedule in ("growing", "balanced:2"):
        with pytest.raises(InputError, match=f"give a rho or the rho schedule '{schedule}', not both"):
            resolve.recipe(RunSpec("obj-g", rho=0.3, rho_schedule=schedule))


GRAPH_TERMS = {
    "no topology": (RunSpec("mr-admm"), r"consensus 'graph' needs a topology: who talks to whom, as in 'ring:10'"),
    "too many nodes": (
        RunSpec("mr-admm", topology="ring:4"),
        r"topology 'ring:4' has 4 nodes, and there are 3 agents: it must have one for each",
    ),
    "far too many nodes": (RunSpec("mr-admm", topology="ring:200000"), r"has 200000 nodes, and there are 3 agents"),
    "too few nodes": (RunSpec("mr-admm", topology='{"edges": [[0, 1]]}'), r"has 2 nodes, and there are 3 agents"),
    "no such topology": (RunSpec("mr-admm", topology="rng:3"), r"unknown topology 'rng'; did you mean 'ring'"),
    "a server": (
        RunSpec("admm", topology="ring:3"),
        r"topology 'ring:3': algorithm 'admm' has a server .* on graphs are decentralised-admm, .*mr-admm",
    ),
    "too few penalties": (
        RunSpec("mr-admm", topology="ring:3", rho_schedule="geometric:1.1,1.2"),
        r"2 numbers for growth, and 3 nodes",
    ),
    "too many penalties": (
        RunSpec("mr-admm", topology="ring:3", rho_schedule="geometric:1.1:1,2,3,4"),
        r"4 numbers for scale, and 3 nodes",
    ),
    "penalties for a server": (
        RunSpec("admm", rho_schedule="geometric:1.1,1.2,1.3"),
        r"a growth for every node is for graphs",
    ),
    "a dual rho for a server": (RunSpec("admm", dual_rho=0.1), r"'admm' has a server, and one rho for all its steps"),
    "damping without recycling": (RunSpec("m-admm", topology="ring:3", damping=0.1), r"'m-admm' has no damping to set"),
    "negative damping": (RunSpec("mr-admm", topology="ring:3", damping=-0.1), r"'recycled': damping = -0.1"),
    "too few budgets": (
        RunSpec("private-r-admm", topology="ring:3", epsilons=(1.0, 2.0)),
        r"2 budgets for 3 agents: give one, or one for each",
    ),
    "too many alphas": (
        RunSpec("private-r-admm", topology="ring:3", alpha=(1.0,) * 4, mechanism="gamma-norm"),
        r"4 alphas for 3 agents: give one, or one for each",
    ),
    "alpha for gaussian noise": (
        RunSpec("private-r-admm", topology="ring:3", alpha=(1.0,), mechanism="gaussian"),
        r"alpha is of 'gamma-norm' noise, not of 'gaussian'",
    ),
    "alpha for gradient noise": (RunSpec("dp-admm", alpha=(1.0,)), r"'dp-admm' has no noise of density"),
    "penalty noise as published": (
        RunSpec("m-admm-penalty", topology="ring:3", epsilon=1.0, paper_noise=True),
        r"'penalty': its paper gives noise by its density",
    ),
    "a rho that follows the noise": (
        RunSpec("dvp-graph", topology="ring:3", epsilon=1.0, rho_schedule="balanced"),
        r"'objective' needs a rho that is known before its noise, and 'balanced' follows it",
    ),
}


@pytest.mark.parametrize(("spec", "said"), GRAPH_TERMS.values(), ids=GRAPH_TERMS)
def test_terms_that_fit_no_graph_are_refused(spec, said):
    with pytest.raises(InputError, match=said):
        resolve.plan(spec, np.array([5, 6, 7]), 4, 2)
