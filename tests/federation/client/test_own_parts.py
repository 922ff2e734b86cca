"""Terms hold registry names only: an owner refuses import paths and parts, and imports nothing that terms name."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from handlers import handler, reason, untouched

from dpadmm.errors import InputError
from dpadmm.owner.agreement import Agreement
from dpadmm.problems.losses import Logistic
from dpadmm.spec.part import Part

FIELDS = ("algorithm", "loss", "penalty", "set", "schedule", "rho_schedule")


@pytest.fixture(autouse=True)
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module `trap` that can be imported; who does so is found out."""
    (tmp_path / "trap.py").write_text("MINE = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    assert "trap" not in sys.modules


def naming(lived: Any, field: str, text: str = "trap:MINE") -> str:
    """Terms of the federation, with a path in one of their fields."""
    entries = json.loads(lived.terms().dumps())
    entries["run"][field] = text
    return json.dumps(entries)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("text", ["trap:MINE", "trap:MINE:0.5", "os:getcwd"])
def test_an_owner_refuses_a_path_and_imports_nothing(lived: Any, field: str, text: str) -> None:
    with untouched(lived):
        said = reason(handler(lived).join("study", naming(lived, field, text)))
    assert "registry names only" in said or "is not allowed here" in said  # its policy names recipes and losses


@pytest.mark.parametrize("field", FIELDS)
def test_terms_with_a_path_come_to_no_plan(lived: Any, field: str) -> None:
    agreement = Agreement.loads(naming(lived, field))
    with pytest.raises(
        InputError, match=r"'trap:MINE' is an import path, which is for simulations.*registry names only"
    ):
        agreement.plan()


def test_a_policy_cannot_allow_a_path(lived: Any) -> None:
    lived.allow("ahorn", algorithms=["trap:MINE"])
    with untouched(lived):
        assert "joined" not in handler(lived).join("study", naming(lived, "algorithm"))


@pytest.mark.parametrize("path", ["trap:MINE", None])
@pytest.mark.parametrize("field", FIELDS)
def test_terms_refuse_a_part(lived: Any, field: str, path: str | None) -> None:
    from dataclasses import replace

    terms = lived.terms()
    given = replace(terms, run=replace(terms.run, **{field: Part(Logistic(), path)}))
    with pytest.raises(
        InputError, match=rf"{field} .* is a part of your own.*terms of a federation .*registry names only"
    ):
        given.checked()
