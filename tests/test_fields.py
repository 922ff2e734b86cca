"""Values from files and flags take the types of their fields, or are refused with the place they came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dpadmm._fields import names, typed
from dpadmm.errors import InputError


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
