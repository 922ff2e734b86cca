"""A spec file reads back as it was written, and what is wrong in it is named with its place."""

from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from dpadmm._ranges import RANGE
from dpadmm.errors import InputError
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
    "str | Part": texts,
    "str | Part | None": some.none() | texts,
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
    values = {entry.name: columns if "Mapping" in str(entry.type) else allowed(entry) for entry in fields(table)}
    return some.builds(table, **values)


def allowed(entry):
    """Any value of a field's type, and of its range."""
    kind = str(entry.type)
    if RANGE not in entry.metadata:
        return BY_TYPE[kind]
    within = entry.metadata[RANGE]
    ends = some.integers if within.whole else some.floats
    one = ends(within.low, within.high) | (some.just(0.0) if within.zero else some.nothing())
    if kind.startswith("tuple"):
        return some.lists(one, max_size=3).map(tuple)
    return some.none() | one if kind.endswith("| None") else one


federations = some.builds(
    FederationSpec,
    owners=some.lists(texts, max_size=3, unique=True).map(tuple),
    stragglers=some.sampled_from(list(STRAGGLERS)),
    public_test=some.none() | texts,
    **{
        entry.name: allowed(entry)
        for entry in fields(FederationSpec)
        if entry.name in ("timeout", "min_owners", "records_per_person")
    },
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
