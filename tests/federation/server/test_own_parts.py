"""A coordinator submits registry names only; others are refused before there is a run."""

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dpadmm.errors import InputError
from dpadmm.federation.server.federation import Federation
from dpadmm.federation.server.submission import submit as begin
from dpadmm.problems.losses import Logistic
from dpadmm.spec.part import Part


@pytest.fixture
def asked(small_federation: ModuleType, tmp_path: Path) -> Any:
    """asked(**changes): what a coordinator does first with a spec."""
    lived = small_federation.SmallFederation(tmp_path)
    federation = Federation.create(tmp_path / "study", host="localhost", columns=small_federation.SCHEMA)
    for identity in lived.identities.values():
        federation.add(identity.card)

    def submit(part: Part | None = None, **changes: Any) -> Any:
        given = lived.experiment(**changes)
        given = given if part is None else replace(given, run=replace(given.run, loss=part))
        return begin(federation, given, "run", tmp_path)

    return submit


@pytest.mark.parametrize("algorithm", ["dp-admm", "auto"])
def test_registry_names_make_a_run(asked: Any, algorithm: str) -> None:
    assert asked(algorithm=algorithm, loss="logistic").experiment.run.loss == "logistic"


@pytest.mark.parametrize("algorithm", ["dp-admm", "auto"])
@pytest.mark.parametrize("field", ["loss", "penalty", "set"])
def test_a_path_is_refused_before_there_is_a_run(asked: Any, algorithm: str, field: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"{field} 'nobody.parts:MINE' is an import path.*registry names only"):
        asked(algorithm=algorithm, **{field: "nobody.parts:MINE"})
    assert list((tmp_path / "study" / "runs").iterdir()) == []
    assert "nobody" not in sys.modules


@pytest.mark.parametrize("field", ["algorithm", "schedule", "rho_schedule"])
def test_a_path_of_a_recipe_or_schedule_is_refused_as_well(asked: Any, field: str) -> None:
    with pytest.raises(InputError, match=r"'nobody\.parts:MINE' is an import path.*registry names only"):
        asked(**{field: "nobody.parts:MINE"})


@pytest.mark.parametrize("path", ["somebody.losses:MyLoss", None])
def test_a_part_is_refused(asked: Any, path: str | None, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"loss .* is a part of your own.*terms of a federation.*registry names only"):
        asked(Part(Logistic(), path))
    assert list((tmp_path / "study" / "runs").iterdir()) == []


def test_a_name_that_nobody_has_is_refused_before_there_is_a_run(asked: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown loss 'logistik'; did you mean 'logistic'"):
        asked(loss="logistik")
    assert list((tmp_path / "study" / "runs").iterdir()) == []
