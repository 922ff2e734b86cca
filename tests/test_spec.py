"""A spec file says what is run: it reads back as it was written, and what is wrong in it is named with its place."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from dpadmm.admm.noise import Density, Multiplier, PaperNoise, TotalBudget
from dpadmm.admm.perturbations import Objective, Output
from dpadmm.admm.rho import BalancedRho, ConstantRho, GeometricRho, GrowingRho
from dpadmm.admm.schedules import Fixed, Free53, InverseRoot
from dpadmm.admm.solvers import Exact, LocalUpdates, Recycled, Sgd, Svrg
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.relations import Relation
from dpadmm.problems.losses import SmoothedHinge
from dpadmm.problems.penalties import ElasticNet
from dpadmm.problems.sets import Ball, Box, Intersection
from dpadmm.spec import resolve
from dpadmm.spec.declare import STRAGGLERS, DataSpec, Experiment, FederationSpec, RunSpec, SimulationSpec
from dpadmm.spec.toml import dumps, loads, read

TABLES = {"run": RunSpec, "data": DataSpec, "simulation": SimulationSpec}

numbers = some.floats(allow_nan=False, allow_infinity=False)
texts = some.text(some.characters(exclude_categories=("Cs",)), max_size=20)
counts = some.integers(1, 2**62)
BY_TYPE = {
    "str": texts,
    "str | None": some.none() | texts,
    "float": numbers,
    "float | None": some.none() | numbers,
    "int": counts,
    "int | None": some.none() | counts,
    "bool": some.booleans(),
    "bool | None": some.none() | some.booleans(),
    "tuple[float, ...]": some.lists(numbers, max_size=3).map(tuple),
}
columns = some.lists(
    some.fixed_dictionaries(
        {"name": texts}, optional={"values": some.lists(texts, max_size=3), "low": numbers, "high": numbers}
    ),
    max_size=3,
).map(tuple)


def anything(table):
    """Any value a table's fields can hold, by their types."""
    values = {
        entry.name: columns if "Mapping" in str(entry.type) else BY_TYPE[str(entry.type)] for entry in fields(table)
    }
    return some.builds(table, **values)


federations = some.builds(
    FederationSpec,
    owners=some.lists(texts, max_size=3, unique=True).map(tuple),
    stragglers=some.sampled_from(list(STRAGGLERS)),
    timeout=some.floats(1e-300, 1e300),
    min_owners=counts,
    public_test=some.none() | texts,
    records_per_person=counts,
)


@given(some.builds(Experiment, **{name: anything(table) for name, table in TABLES.items()}, federation=federations))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_what_is_written_reads_back(experiment):
    assert loads(dumps(experiment)) == experiment


def test_a_file_reads_as_its_text(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text('[run]\nalgorithm = "pvp"\nrounds = 7\nepsilon = 1\n[data]\nagents = 3\n[simulation]\nseed = 5\n')
    found = read(path)
    assert found.run == RunSpec(algorithm="pvp", rounds=7, epsilon=1.0)
    assert found.data == DataSpec(agents=3)
    assert found.simulation == SimulationSpec(seed=5)
    assert isinstance(found.run.epsilon, float)
    assert loads("") == Experiment()


def test_what_is_left_to_the_recipe_is_left_out():
    text = dumps(Experiment())
    assert "schedule" not in text
    assert "epsilon" not in text
    assert 'algorithm = "dp-admm"' in text
    assert "epsilon = 1.5" in dumps(Experiment().changed(epsilon=1.5))


def test_every_key_belongs_to_one_table():
    names = [entry.name for table in TABLES.values() for entry in fields(table)]
    assert len(names) == len(set(names))


WRONG = {
    "unknown table": ("[runs]\n", r"unknown table in HERE 'runs'; did you mean 'run'"),
    "unknown key": ("[run]\nepsilom = 1.0\n", r"unknown key in \[run\] of HERE 'epsilom'; did you mean 'epsilon'"),
    "key of another table": ("[data]\nseed = 1\n", r"unknown key in \[data\] of HERE 'seed'"),
    "no table": ("rounds = 3\n", r"unknown table in HERE 'rounds'"),
    "a value for a table": ("run = 3\n", r"HERE: run must be a table, \[run\]"),
    "text for a number": ('[run]\nepsilon = "1"\n', r"HERE: epsilon = '1' must be a .*number"),
    "fraction for a whole number": ("[run]\nrounds = 2.5\n", r"HERE: rounds = 2.5 must be a whole number"),
    "truth for a number": ("[run]\nrho = true\n", r"HERE: rho = True must be a .*number"),
    "truth for a whole number": ("[run]\nrounds = true\n", r"HERE: rounds = True must be a whole number"),
    "number for truth": ("[run]\nintercept = 1\n", r"HERE: intercept = 1 must be true or false"),
    "number for text": ("[run]\nloss = 3\n", r"HERE: loss = 3 must be a text"),
    "list for a number": ("[data]\nagents = [3]\n", r"HERE: agents = \[3\] must be a whole number"),
    "nan": ("[run]\nepsilon = nan\n", r"HERE: epsilon = nan must be a finite number"),
    "infinity": ("[run]\nepsilon = inf\n", r"HERE: epsilon = inf must be a finite number"),
    "infinitely many": ("[run]\nrounds = inf\n", r"HERE: rounds = inf must be a whole number"),
    "far too many": (f"[run]\nrounds = {10**400}\n", r"HERE: rounds = 10+ must be a whole number"),
    "far too much": (f"[run]\nepsilon = {10**400}\n", r"HERE: epsilon = 10+ must be a finite number"),
    "a number for columns": ("[data]\ncolumns = 3\n", r"HERE: columns = 3 must be"),
    "a text for columns": ('[data]\ncolumns = "age"\n', r"HERE: columns = 'age' must be"),
    "a number for a list": ("[run]\nepsilons = 1.0\n", r"HERE: epsilons = 1.0 must be a list of finite numbers"),
    "texts for numbers": ('[run]\nalpha = ["1"]\n', r"HERE: alpha = \['1'\] must be a list of finite numbers"),
    "truths for numbers": ("[run]\ndeltas = [true]\n", r"HERE: deltas = \[True\] must be a list of finite numbers"),
    "nan in a list": ("[run]\nalpha = [1.0, nan]\n", r"HERE: alpha = \[1.0, nan\] must be a list of finite"),
    "infinity in a list": ("[run]\nalpha = [inf]\n", r"HERE: alpha = \[inf\] must be a list of finite numbers"),
    "texts for columns": ('[data]\ncolumns = ["age"]\n', r"HERE: columns = \['age'\] must be"),
    "not TOML": ("[run\n", r"HERE is not TOML"),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named_with_its_place(text, said, tmp_path):
    with pytest.raises(InputError, match=said.replace("HERE", "my.toml")):
        loads(text, where="my.toml")
    path = tmp_path / "spec.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=str(path)):
        read(path)


def test_far_too_much_in_a_list_is_named_as_well():
    with pytest.raises(InputError, match=r"my.toml: alpha = \[10+\] must be a list of finite numbers"):
        loads(f"[run]\nalpha = [{10**400}]\n", where="my.toml")


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path):
    with pytest.raises(InputError, match=r"spec file '.*none.toml' cannot be read: No such file"):
        read(tmp_path / "none.toml")
    with pytest.raises(InputError, match=r"cannot be read"):
        read(tmp_path)
    (tmp_path / "image.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"image.toml' is not text"):
        read(tmp_path / "image.toml")


def test_a_change_overrides_and_none_leaves_a_field_as_it_is():
    before = loads('[run]\nrounds = 7\nloss = "softmax"\n[simulation]\nseed = 3\n')
    after = before.changed(rounds=9, loss=None, seed=None, agents=4, epsilon=2)
    assert after.run == replace(before.run, rounds=9, epsilon=2.0)
    assert after.data == DataSpec(agents=4)
    assert after.simulation == SimulationSpec(seed=3)
    assert before.run.rounds == 7
    assert before.changed() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilom": 1.0}, r"unknown key in the flags 'epsilom'; did you mean 'epsilon'"),
        ({"agents": "three"}, r"the flags: agents = 'three' must be a whole number"),
        ({"epsilon": float("nan")}, r"the flags: epsilon"),
        ({"repeats": 0}, r"repeats 0"),
    ],
)
def test_a_wrong_change_is_named(change, said):
    with pytest.raises(InputError, match=said):
        Experiment().changed(where="the flags", **change)


def test_numbers_of_numpy_are_taken_as_pythons():
    given = {
        "rounds": np.int64(9),
        "epsilon": np.float32(0.5),
        "strength": np.int32(1),
        "tau": (np.float64(0.5), np.int8(1)),
    }
    run = Experiment().changed(**given).run
    assert [type(value) for value in (run.rounds, run.epsilon, run.strength, *run.tau)] == [int, *[float] * 4]
    assert run == Experiment().changed(rounds=9, epsilon=0.5, strength=1.0, tau=(0.5, 1.0)).run
    for wrong in ({"rounds": np.float64(2.5)}, {"epsilon": np.float64("nan")}, {"paper_noise": np.True_}):
        with pytest.raises(InputError, match="must be"):
            Experiment().changed(**wrong)


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
        (RunSpec("dvp", extra_curvature=-1.0), r"extra curvature -1.0"),
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
        ({"strength": -1.0}, r"penalty strength -1.0"),
        ({"set": "box:-2"}, r"bound -2.0"),
    ],
)
def test_a_problem_that_cannot_be_made_is_refused(changes, said):
    with pytest.raises(InputError, match=said):
        resolve.problem(RunSpec(**changes))


def test_requests():
    assert resolve.noise_request(RunSpec("admm")) == Multiplier(0.0)
    assert resolve.noise_request(RunSpec("dp-admm", epsilon=1.0, delta=1e-5)) == TotalBudget((Budget(1.0, 1e-5),))
    assert resolve.noise_request(RunSpec("dvp", epsilon=1.0)) == TotalBudget((Budget(1.0, 0.0),))
    paper = RunSpec("dp-admm", epsilon=0.1, delta=1e-5, paper_noise=True)
    assert resolve.noise_request(paper) == PaperNoise(Budget(0.1, 1e-5))
    assert resolve.noise_request(RunSpec("dp-admm", noise_multiplier=2.0, delta=1e-5)) == Multiplier(2.0, 1e-5)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (RunSpec("dp-admm"), r"'dp-admm' is private: give a total budget"),
        (RunSpec("dp-admm", delta=1e-5), r"'dp-admm' is private: give a total budget"),
        (RunSpec("admm", epsilon=1.0), r"'admm' is not private, so epsilon 1 means nothing"),
        (RunSpec("admm", noise_multiplier=2.0), r"'admm' is not private, so noise multiplier 2 means nothing"),
        (RunSpec("pvp", epsilon=1.0, noise_multiplier=2.0), r"give an epsilon or a noise multiplier, not both"),
        (RunSpec("pvp", noise_multiplier=-2.0), r"noise multiplier -2.0"),
        (RunSpec("pvp", epsilon=0.0, delta=1e-5), r"epsilon must be positive"),
        (RunSpec("pvp", epsilon=-1.0, delta=1e-5), r"epsilon must be positive"),
        (RunSpec("pvp", epsilon=1.0, delta=1.0), r"delta 1: must lie between 0 and 1"),
        (RunSpec("pvp", epsilon=1.0, delta=-0.1), r"delta -0.1: must lie between 0 and 1"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(spec, said):
    with pytest.raises(InputError, match=said):
        resolve.noise_request(spec)


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


# -- Ryu & Kim's recipes, sets, weights and precision ------------------------------------------------------------------


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
        assert plan.setting.problem == resolve.problem(spec, 20 if (weighting or own) == "records" else None)
        np.testing.assert_array_equal(plan.take([1]).setting.weights, weights[weighting or own][1:])


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (RunSpec("obj-g", weighting="record"), r"unknown weighting 'record'; did you mean 'records'"),
        (RunSpec("obj-g", weighting="owner"), r"unknown weighting 'owner'; did you mean 'owners'"),
        (RunSpec("dp-admm", weighting=""), r"unknown weighting ''; there are: owners, records"),
        (RunSpec("obj-g", rho=0.3, rho_schedule="balanced"), r"give a rho or the rho schedule 'balanced', not both"),
        (RunSpec("obj-g", rho_schedule="growin"), r"unknown rho schedule 'growin'; did you mean 'growing'"),
        (RunSpec("obj-g", rho_schedule="growing:0"), r"'growing': base 0.0"),
        (RunSpec("obj-g", updates=0), r"'local-updates': 0 updates; a round has between 1 and 10,000"),
        (RunSpec("obj-g", updates=10_001), r"'local-updates': 10001 updates; a round has between 1 and 10,000"),
        (RunSpec("obj-g", updates=-2), r"'local-updates': -2 updates"),
        (RunSpec("dp-admm", updates=2), r"'dp-admm' has no updates to set"),
        (RunSpec("pvp", updates=1), r"'pvp' has no updates to set"),
        (RunSpec("dp-admm", unit_gain=True), r"'dp-admm' has no unit gain to set"),
        (RunSpec("obj-g", unit_gain=False), r"'obj-g' has no unit gain to set"),
    ],
)
def test_a_recipe_that_cannot_be_made_so_is_refused(spec, said):
    with pytest.raises(InputError, match=said):
        resolve.recipe(spec)


@pytest.mark.parametrize("precision", ["float16", "double", ""])
def test_a_precision_there_is_not_is_refused(precision):
    with pytest.raises(InputError, match=rf"unknown precision '{precision}'"):
        resolve.plan(RunSpec("obj-g", precision=precision, epsilon=1.0, delta=1e-5), np.array([5, 6]), 4, 2)


def test_a_plan_knows_the_width_of_records_and_their_precision():
    spec = RunSpec("obj-l", loss="softmax", epsilon=1.0, precision="float32", norm_bound=2.0)
    plan = resolve.plan(spec, np.array([5, 15]), 4, 3)
    assert (plan.setting.width, plan.setting.dimension, plan.setting.precision) == (4, 12, "float32")
    lost = (
        2 * np.array([5, 15]) / 20 * 2 * 2 * 2 * plan.setting.problem.loss.summation_error(np.array([5, 15]), "float32")
    )
    np.testing.assert_allclose(plan.setting.gradient_sensitivity(1), 4 * 2 * 2 / 20 + lost, rtol=2e-9)


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("ball:2", Ball(2.0)),
        ("box:0.1,ball:2", Intersection((Box(0.1), Ball(2.0)))),
        ('{"ball": {"radius": 1}}', Ball(1.0)),
        ('{"ball": {"radius": 1, "centre": [0, 1, 0]}}', Ball(1.0, (0.0, 1.0, 0.0))),
    ],
)
def test_a_set_is_a_text_in_a_spec_and_reads_back(text, domain, tmp_path):
    experiment = Experiment().changed(set=text)
    (tmp_path / "spec.toml").write_text(dumps(experiment))
    assert read(tmp_path / "spec.toml").run.set == text
    assert resolve.problem(read(tmp_path / "spec.toml").run).domain == domain


# -- graphs ------------------------------------------------------------------------------------------------------------


def test_recipes_on_graphs_have_the_changes_of_their_spec():
    spec = RunSpec("private-mr-admm", damping=0.3, dual_rho=0.2, rho=0.1, rho_schedule="geometric:1.1:2:50")
    recipe = resolve.recipe(spec)
    assert recipe.phases[1].solver == Recycled(0.3)
    assert (recipe.rho, recipe.dual_rho) == (GeometricRho(1.1, 2.0, 50.0), ConstantRho(0.2))
    plan = resolve.plan(replace(spec, topology="path:3", epsilon=1.0, rounds=5), np.array([5, 6, 7]), 4, 2)
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
    "a dual rho of nothing": (RunSpec("mr-admm", topology="ring:3", dual_rho=0.0), r"rho 0.0: must be a positive"),
    "damping without recycling": (RunSpec("m-admm", topology="ring:3", damping=0.1), r"'m-admm' has no damping to set"),
    "negative damping": (RunSpec("mr-admm", topology="ring:3", damping=-0.1), r"'recycled': damping -0.1"),
    "too few budgets": (
        RunSpec("private-r-admm", topology="ring:3", epsilons=(1.0, 2.0)),
        r"2 budgets for 3 agents: give one, or one for each",
    ),
    "too many alphas": (
        RunSpec("private-r-admm", topology="ring:3", alpha=(1.0,) * 4),
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


# -- requests for noise ------------------------------------------------------------------------------------------------


def test_requests_for_each_agent_and_by_density():
    spec = RunSpec("private-mr-admm")
    assert resolve.noise_request(replace(spec, alpha=(2.0,))) == Density((2.0,))
    assert resolve.noise_request(replace(spec, alpha=(2.0, 3.0), delta=1e-4)) == Density((2.0, 3.0), 1e-4)
    budgets = (Budget(1.0, 1e-5), Budget(2.0, 1e-5))
    assert resolve.noise_request(replace(spec, epsilons=(1.0, 2.0), delta=1e-5)) == TotalBudget(budgets)
    assert resolve.noise_request(replace(spec, epsilons=(1.0, 2.0), deltas=(1e-5,))) == TotalBudget(budgets)
    assert resolve.noise_request(replace(spec, epsilons=(1.0,), deltas=(1e-5,))) == TotalBudget(budgets[:1])
    apart = (Budget(1.0, 1e-5), Budget(2.0, 0.0))
    assert resolve.noise_request(replace(spec, epsilons=(1.0, 2.0), deltas=(1e-5, 0.0))) == TotalBudget(apart)
    assert resolve.noise_request(replace(spec, epsilons=(1.0, 2.0))) == TotalBudget(
        (Budget(1.0, 0.0), Budget(2.0, 0.0))
    )
    part = resolve.noise_request(replace(spec, epsilons=(1.0, 2.0), evaluation_epsilon=0.25))
    assert part == TotalBudget((Budget(0.75, 0.0), Budget(1.75, 0.0)))
    assert TotalBudget(apart).delta == 0.0
    assert resolve.noise_request(RunSpec("admm", noise_multiplier=0.0)) == Multiplier(0.0)
    assert resolve.noise_request(RunSpec("admm", delta=1e-5)) == Multiplier(0.0)
    assert resolve.noise_request(replace(spec, noise_multiplier=0.0)) == Multiplier(0.0)
    assert resolve.noise_request(RunSpec("ps-admm-paper", epsilon=1.0, delta=1e-5)) == PaperNoise(Budget(1.0, 1e-5))


PRIVATE_GRAPH = RunSpec("private-r-admm")
CONFLICTS = {
    "epsilon and epsilons": ({"epsilon": 1.0, "epsilons": (1.0,)}, r"give an epsilon or an epsilons, not both"),
    "epsilon and alpha": ({"epsilon": 1.0, "alpha": (1.0,)}, r"give an epsilon or an alpha, not both: each follows"),
    "epsilons and alpha": ({"epsilons": (1.0,), "alpha": (1.0,)}, r"give an epsilons or an alpha, not both"),
    "epsilon and multiplier": (
        {"epsilon": 1.0, "noise_multiplier": 0.0},
        r"an epsilon or a noise multiplier, not both",
    ),
    "epsilons and multiplier": ({"epsilons": (1.0,), "noise_multiplier": 2.0}, r"epsilons or a noise multiplier, not"),
    "alpha and multiplier": (
        {"alpha": (1.0,), "noise_multiplier": 2.0},
        r"give an alpha or a noise multiplier, not both",
    ),
    "nothing": (
        {},
        r"'private-r-admm' is private: give a total budget \(epsilon, and delta unless the noise is pure\)",
    ),
    "deltas alone": ({"deltas": (1e-5,)}, r"is private: give a total budget"),
    "a delta of one": ({"epsilon": 1.0, "delta": 1.0}, r"delta 1: must lie between 0 and 1, such as 1e-6"),
    "a delta below zero": ({"alpha": (1.0,), "delta": -0.5}, r"delta -0.5: must lie between 0 and 1"),
    "a multiplier's delta": ({"noise_multiplier": 1.0, "delta": 2.0}, r"delta 2: must lie between 0 and 1"),
    "one of the deltas": ({"epsilons": (1.0, 2.0), "deltas": (0.1, 1.5)}, r"delta must be in \[0, 1\), got 1.5"),
    "one of the epsilons": ({"epsilons": (1.0, -2.0)}, r"epsilon must be positive and finite, got -2.0"),
    "more deltas": ({"epsilons": (1.0,), "deltas": (0.1, 0.2)}, r"2 deltas for 1 epsilons: give one, or one for each"),
    "fewer deltas": ({"epsilons": (1.0,) * 3, "deltas": (0.1, 0.2)}, r"2 deltas for 3 epsilons: give one, or one for"),
    "deltas for one epsilon": ({"epsilon": 1.0, "deltas": (0.1, 0.2)}, r"2 deltas for 1 epsilons"),
    "alpha of zero": ({"alpha": (1.0, 0.0)}, r"alpha 0.0: must be a positive number"),
    "alpha below zero": ({"alpha": (-1.0,)}, r"alpha -1.0: must be a positive number"),
    "evaluation of alpha": ({"alpha": (1.0,), "evaluation_epsilon": 0.1}, r"evaluation_epsilon is a part of a total"),
    "evaluation of noise": ({"noise_multiplier": 1.0, "evaluation_epsilon": 0.1}, r"is a part of a total budget"),
    "evaluation of nothing": ({"evaluation_epsilon": 0.1}, r"is a part of a total budget; give one, as epsilon and"),
    "evaluation of a round": (
        {"epsilon": 1.0, "paper_noise": True, "evaluation_epsilon": 0.1},
        r"evaluation_epsilon is a part of a total budget",
    ),
    "evaluation of more": (
        {"epsilons": (3.0, 1.0), "evaluation_epsilon": 1.0},
        r"evaluation_epsilon 1.0: must be positive and below epsilon 1",
    ),
    "evaluation below zero": (
        {"epsilon": 1.0, "evaluation_epsilon": -0.1},
        r"evaluation_epsilon -0.1: must be positive",
    ),
    "paper noise of alpha": (
        {"alpha": (1.0,), "paper_noise": True},
        r"paper_noise .* goes with epsilon and delta only",
    ),
    "paper noise of noise": ({"noise_multiplier": 1.0, "paper_noise": True}, r"paper_noise makes noise of an epsilon"),
    "paper noise of nothing": ({"paper_noise": True}, r"paper_noise makes noise of an epsilon for every round"),
    "paper noise of each": (
        {"epsilons": (1.0, 2.0), "paper_noise": True},
        r"the papers' noise is the same for all agents; give one epsilon and one delta",
    ),
}


@pytest.mark.parametrize(("changes", "said"), CONFLICTS.values(), ids=CONFLICTS)
def test_requests_for_noise_that_contradict_themselves_are_refused(changes, said):
    with pytest.raises(InputError, match=said):
        resolve.noise_request(replace(PRIVATE_GRAPH, **changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epsilon": 1.0}, r"'r-admm' is not private, so epsilon 1 means nothing to it; leave the budget out"),
        ({"epsilons": (1.0, 2.0)}, r"'r-admm' is not private, so epsilons \(1.0, 2.0\) means nothing"),
        ({"alpha": (2.0,)}, r"'r-admm' is not private, so alpha \(2.0,\) means nothing"),
        ({"noise_multiplier": 2.5}, r"'r-admm' is not private, so noise multiplier 2.5 means nothing"),
        ({"paper_noise": True, "epsilon": 1.0}, r"paper_noise makes noise"),
        ({"evaluation_epsilon": 0.1}, r"evaluation_epsilon is a part of a total budget"),
    ],
)
def test_a_recipe_that_is_not_private_takes_no_noise(changes, said):
    with pytest.raises(InputError, match=said):
        resolve.noise_request(replace(RunSpec("r-admm"), **changes))


def test_a_recipe_as_printed_takes_one_budget_and_no_evaluation():
    printed = RunSpec("ps-admm-paper", epsilon=1.0, delta=1e-5)
    with pytest.raises(InputError, match="evaluation_epsilon is a part of a total budget"):
        resolve.noise_request(replace(printed, evaluation_epsilon=0.1))
    with pytest.raises(InputError, match="the papers' noise is the same for all agents"):
        resolve.noise_request(replace(printed, epsilon=None, epsilons=(1.0, 2.0)))


def test_one_delta_or_several_not_both():
    with pytest.raises(InputError, match="give one delta for all agents or deltas for each, not both"):
        resolve.noise_request(RunSpec(epsilons=(1.0, 2.0), deltas=(1e-5, 1e-6), delta=1e-5))


def test_a_federation_is_a_table_of_its_own(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text('[federation]\nowners = ["a", "b"]\nstragglers = "reuse"\ntimeout = 5\nmin_owners = 2\n')
    found = read(path)
    assert found.federation == FederationSpec(("a", "b"), "reuse", 5.0, 2)
    assert isinstance(found.federation.timeout, float)
    assert found.run == RunSpec()
    assert loads("").federation == FederationSpec()
    assert Experiment().changed(stragglers="skip", owners=["c"]).federation == FederationSpec(("c",), "skip")


def test_a_run_without_owners_far_away_says_nothing_of_them():
    assert "federation" not in dumps(Experiment())
    assert "owners" not in dumps(Experiment())
    text = dumps(Experiment().changed(stragglers="reuse"))
    assert '[federation]\nstragglers = "reuse"' in text
    assert "\nowners" not in text.split("[federation]")[1]
    assert "public_test" not in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("federation = 5", "federation must be a table"),
        ("[federation]\nowner = 5", "unknown key in .federation. of .* 'owner'"),
        ("[federation]\nstragglers = 5", "stragglers = 5 must be a text"),
        ('[federation]\nstragglers = "rejuse"', "'rejuse'; did you mean 'reuse'"),
        ('[federation]\nowners = "a"', "owners = 'a' must be a list of texts"),
        ("[federation]\nowners = [1]", "must be a list of texts"),
        ('[federation]\nowners = ["a", "a"]', "each can take part once"),
        ("[federation]\ntimeout = 0", "timeout 0.0: must be positive"),
        ("[federation]\ntimeout = nan", "must be a finite number"),
        ("[federation]\nmin_owners = 0", "must be at least 1"),
        ("[federation]\nmin_owners = 1.5", "must be a whole number"),
        ("[federation]\nrecords_per_person = 0", "must be at least 1"),
        ("[federation]\npublic_test = 1", "must be a text"),
    ],
)
def test_a_federation_that_makes_no_sense_is_refused(text, said):
    with pytest.raises(InputError, match=said):
        loads(text)
