"""The options of `train` and the fields of a spec are the same things."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from dpadmm._fields import FILE_ONLY, declarations
from dpadmm.cli.main import app
from dpadmm.spec.declare import PANELS, TABLES, Experiment

ALL = [(table, field) for table, spec in TABLES.items() for field in declarations(spec)]
# Columns are tables, which only a spec file can say; a federation has a spec file always.
FIELDS = [(table, field) for table, field in ALL if table != "federation" and field.name != "columns"]
NEEDED_FIRST = {"source", "target", "owner", "agents", "algorithm", "loss", "rounds", "epsilon", "delta"}


def _name(value: Any) -> str:
    return value if isinstance(value, str) else value.name


def _option(name: str) -> Any:
    command: Any = get_command(app)
    return next(option for option in command.commands["train"].params if option.name == name)


def test_every_field_of_a_spec_is_declared() -> None:
    assert [field.name for _, field in ALL] == [name for spec in TABLES.values() for name in _names(spec)]


def _names(spec: Any) -> list[str]:
    own = [name for name in spec.__annotations__ if not name.startswith("_")]
    return own + [name for base in spec.__bases__ for name in getattr(base, "__annotations__", ())]


@pytest.mark.parametrize(("table", "field"), ALL, ids=_name)
def test_every_field_has_help_a_panel_and_a_flag(table: str, field: Any) -> None:
    assert field.help.endswith(".")
    assert field.panel in PANELS
    assert (field.flag == FILE_ONLY) == ((table, field) not in FIELDS)
    assert bool(field.off_flag) == field.type.startswith("bool")


@pytest.mark.parametrize(("table", "field"), FIELDS, ids=_name)
def test_every_field_has_an_option_that_leaves_it_alone(table: str, field: Any) -> None:
    option = _option(field.name)
    assert option.default is None
    assert (option.opts, option.secondary_opts) == ([field.flag], [field.off_flag] if field.off_flag else [])
    assert option.help == field.help


def test_flags_that_differ_from_their_fields_are_declared() -> None:
    differ = {f.name: f.flag for _, f in FIELDS if f.flag != f"--{f.name.replace('_', '-')}"}
    assert differ == {"source": "--data"}


@pytest.mark.parametrize(
    "field", [field for _, field in FIELDS if field.default not in (None, ())], ids=lambda f: f.name
)
def test_the_help_shows_the_true_default(field: Any) -> None:
    shown = _option(field.name).show_default
    if isinstance(field.default, bool):
        assert shown in {"total", "free", "of second moments"}
        assert field.default is False
    elif isinstance(field.default, int | float):
        assert float(shown) == field.default
    else:
        assert shown == field.default


def test_a_list_of_which_nothing_is_given_shows_no_default() -> None:
    found = [field for _, field in FIELDS if field.default == ()]
    assert [field.name for field in found] == ["tau", "epsilons", "deltas", "alpha", "start"]
    assert all(_option(field.name).show_default is False for field in found if field.name != "start")


VALUES = {"float": ("0.25", 0.25), "int": ("7", 7), "str": ("some-name", "some-name")}
LISTS = ("0.5,0.25", (0.5, 0.25))


def _arriving(dpadmm: Any, monkeypatch: pytest.MonkeyPatch, *flags: str) -> Experiment:
    """The experiment that `train` makes of these flags, without running it."""
    arrived: list[Experiment] = []
    monkeypatch.setattr("dpadmm.cli.train._run", lambda experiment, *_: arrived.append(experiment))
    assert dpadmm("train", *flags).exit_code == 0
    return arrived[0]


@pytest.mark.parametrize(("table", "field"), FIELDS, ids=_name)
def test_every_flag_sets_its_field(dpadmm: Any, monkeypatch: pytest.MonkeyPatch, table: str, field: Any) -> None:
    kind = field.type.removesuffix(" | None")
    if kind == "bool":
        for flag, wanted in ((field.flag, True), (field.off_flag, False)):
            found = _arriving(dpadmm, monkeypatch, flag)
            assert found == Experiment().changed(**{field.name: wanted})
            assert getattr(getattr(found, table), field.name) is wanted
        return
    text, wanted = LISTS if kind == "tuple[float, ...]" else VALUES[kind]
    found = _arriving(dpadmm, monkeypatch, field.flag, text)
    assert getattr(getattr(found, table), field.name) == wanted
    assert found == Experiment().changed(**{field.name: wanted})


def test_sets_and_topologies_are_read_from_files(dpadmm: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text("box:2\n")
    (tmp_path / "ring.edges").write_text("0 1\n1 2\n2 0\n")
    files = ("--set", f"@{tmp_path / 'set.json'}", "--topology", f"@{tmp_path / 'ring.edges'}")
    found = _arriving(dpadmm, monkeypatch, *files)
    assert found.run.set == "box:2"
    assert "[0,1]" in (found.run.topology or "").replace(" ", "")


def test_options_that_people_need_first_come_before_all_panels() -> None:
    command: Any = get_command(app)
    params = command.commands["train"].params
    loose = [option.name for option in params if option.rich_help_panel is None]
    assert {option for option in loose if option in {field.name for _, field in FIELDS}} == NEEDED_FIRST
    assert [option.name for option in params[:10]] == loose[:10]
    assert "out" in loose[:10]


def test_panels_are_in_their_order() -> None:
    command: Any = get_command(app)
    panels = [option.rich_help_panel for option in command.commands["train"].params]
    told = list(dict.fromkeys(panel for panel in panels if panel))
    assert told == ["Data", "Problem", "Algorithm", "Privacy", "Simulation", "Run"]


def test_other_verbs_say_the_same_of_the_same_field() -> None:
    command: Any = get_command(app)
    for verb, names in {
        "compare": ("delta", "source", "data_dir", "target", "owner", "split", "test", "rounds", "repeats", "seed"),
        "audit": ("updates", "mechanism", "evaluation_epsilon"),
        "reconstruct": ("target", "data_dir"),
        "power-flow": ("rounds", "delta", "noise_multiplier"),
    }.items():
        found = {option.name: option.help for option in command.commands[verb].params}
        assert {name: found[name] for name in names} == {name: _option(name).help for name in names}


def test_the_help_says_how_many_agents_there_are_where_nothing_says_it() -> None:
    from dpadmm.engine.data import AGENTS

    assert _option("agents").show_default == f"{AGENTS}, or the graph's"


def test_the_help_says_the_penalties_that_recipes_begin_with() -> None:
    from dpadmm.papers import ALGORITHMS

    found = {recipe.base_rho for recipe in ALGORITHMS.values() if not recipe.consensus.decentralised}
    graphs = {recipe.base_rho for recipe in ALGORITHMS.values() if recipe.consensus.decentralised}
    assert (found, graphs) == ({0.1}, {1 / 1750, 0.02})
    assert "0.1, 1/1750 on graphs" in _option("rho").help
