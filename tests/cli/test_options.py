"""The options of `train` and the fields of a spec are the same things."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import pytest
from typer.main import get_command

from dpadmm.cli.main import app
from dpadmm.spec.declare import DataSpec, RunSpec, SimulationSpec

# Columns are tables, which only a spec file can say; an evaluation is an owner's answer, not part of a simulation.
FILE_ONLY = {"columns", "evaluation_epsilon"}
FIELDS = [
    entry for kind in (RunSpec, DataSpec, SimulationSpec) for entry in fields(kind) if entry.name not in FILE_ONLY
]
FLAGS = {"source": "--data"}


def _option(name: str) -> Any:
    command: Any = get_command(app)
    flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
    return next(option for option in command.commands["train"].params if flag in option.opts)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_every_field_has_an_option_that_leaves_it_alone(field: Any) -> None:
    assert _option(field.name).default is None


@pytest.mark.parametrize(
    "field", [entry for entry in FIELDS if entry.default not in (None, MISSING)], ids=lambda f: f.name
)
def test_the_help_shows_the_true_default(field: Any) -> None:
    shown = _option(field.name).show_default
    if field.default == ():  # a list of which nothing is given, as None elsewhere
        assert shown is False
    elif isinstance(field.default, bool):
        assert shown in {"no", "total", "free"}
        assert field.default is False
    elif isinstance(field.default, int | float):
        assert float(shown) == field.default
    else:
        assert shown == field.default


def test_the_help_says_how_many_agents_there_are_where_nothing_says_it() -> None:
    from dpadmm.engine.data import AGENTS

    assert _option("agents").show_default == f"{AGENTS}, or the graph's"


def test_the_help_says_the_penalties_that_recipes_begin_with() -> None:
    from dpadmm.papers import ALGORITHMS

    found = {recipe.base_rho for recipe in ALGORITHMS.values() if not recipe.consensus.decentralised}
    graphs = {recipe.base_rho for recipe in ALGORITHMS.values() if recipe.consensus.decentralised}
    assert (found, graphs) == ({0.1}, {1 / 1750})
    assert "0.1, 1/1750 on graphs" in _option("rho").help
