"""Values from files and flags take the types of their fields, or are refused with the place they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from dpadmm._fields import from_table, names, typed
from dpadmm.errors import InputError
from dpadmm.owner.policy import Policy
from dpadmm.spec.declare import Experiment
from dpadmm.spec.toml import loads


@dataclass(frozen=True)
class Table:
    share: float = 0.0
    rounds: int = 0
    quiet: bool = False
    name: str = ""
    levels: tuple[float, ...] = ()
    owners: tuple[str, ...] = ()


def test_names_are_in_order() -> None:
    assert names(Table) == ["share", "rounds", "quiet", "name", "levels", "owners"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("share", 2, 2.0),
        ("share", np.float32(0.5), 0.5),
        ("share", np.int64(3), 3.0),
        ("rounds", 5.0, 5),
        ("rounds", np.int32(7), 7),
        ("levels", [1, 0.5], (1.0, 0.5)),
        ("owners", ("a", "b"), ("a", "b")),
    ],
)
def test_value_takes_the_type_of_its_field(name: str, value: Any, expected: Any) -> None:
    found = typed(Table, name, value, "a file")
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share", True),
        ("share", "1"),
        ("share", float("nan")),
        ("share", 2**63),
        ("rounds", 1.5),
        ("rounds", False),
        ("quiet", 1),
        ("quiet", np.True_),
        ("name", 3),
        ("levels", [1.0, "2"]),
        ("owners", "ab"),
    ],
)
def test_other_types_are_refused_with_their_place(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"a file: {name} = .* must be"):
        typed(Table, name, value, "a file")


@dataclass(frozen=True)
class Optional:
    share: float | None = None
    table: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[Mapping[str, Any], ...] | None = None


def test_none_is_for_fields_that_may_be_none() -> None:
    assert from_table(Optional, {"share": None, "rows": None}, "a file") == Optional()
    with pytest.raises(InputError, match="a file: share = None must be a finite number"):
        typed(Table, "share", None, "a file")


def test_tables_within_a_table() -> None:
    found = from_table(Optional, {"table": {"a": [1]}, "rows": [{"b": 2}]}, "a file")
    assert found == Optional(table={"a": [1]}, rows=({"b": 2},))
    for name, value, expected in (("table", [], "a table"), ("rows", [3], "a list of tables")):
        with pytest.raises(InputError, match=f"a file: {name} = .* must be {expected}"):
            from_table(Optional, {name: value}, "a file")


@pytest.mark.parametrize("entries", [[], "share", None, 5])
def test_what_is_no_table_is_refused(entries: Any) -> None:
    with pytest.raises(InputError, match="a file must hold an object"):
        from_table(Optional, entries, "a file")


def test_one_number_is_a_list_of_one_in_python_only() -> None:
    assert Experiment().changed(alpha=1750.0).run.alpha == (1750.0,)
    assert Experiment().changed(epsilons=2).run.epsilons == (2.0,)
    with pytest.raises(InputError, match=r"alpha = 1750.0 must be a list of finite numbers"):
        loads("[run]\nalpha = 1750.0\n")
    with pytest.raises(InputError, match="alpha = 'much' must be a list of finite numbers"):
        Experiment().changed(alpha="much")


def test_table_becomes_a_dataclass() -> None:
    assert from_table(Policy, {"dataset": "d", "epsilon": 1, "delta": 0.0}, "p.toml") == Policy("d", 1.0, 0.0)
    with pytest.raises(InputError, match=r"p.toml lacks epsilon, delta\."):
        from_table(Policy, {"dataset": "d"}, "p.toml")
    with pytest.raises(InputError, match=r"unknown key in p.toml 'epsilom'; did you mean 'epsilon'\?"):
        from_table(Policy, {"epsilom": 1.0}, "p.toml")
    with pytest.raises(InputError, match=r"p.toml: delta = 'small' must be a finite number"):
        from_table(Policy, {"delta": "small"}, "p.toml")
