"""A federation that was made by commands, as fixtures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

COLUMNS = """
target = "ill"
classes = ["no", "yes"]

[[columns]]
name = "age"
low = 0
high = 100
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where agents keep their state."""
    place = tmp_path / "state"
    monkeypatch.setenv("DPADMM_STATE", str(place))
    monkeypatch.chdir(tmp_path)
    return place


@pytest.fixture
def study(dpadmm: Any, state: Path, tmp_path: Path) -> Path:
    """A coordinator's folder."""
    (tmp_path / "columns.toml").write_text(COLUMNS)
    result = dpadmm("federation", "init", "study", "--host", "localhost", "--columns", "columns.toml", "--port", "1")
    assert result.exit_code == 0, result.output
    return tmp_path / "study"


@pytest.fixture
def given(study: Path, tmp_path: Path) -> dict[str, Path]:
    """What an owner makes its agent of."""
    records, policy = tmp_path / "patients.csv", tmp_path / "policy.toml"
    draw = np.random.default_rng(0)
    rows = [f"{age:.1f},{'yes' if age > 50 else 'no'}" for age in draw.uniform(0, 100, 40)]
    records.write_text("\n".join(["age,ill", *rows]) + "\n")
    policy.write_text('dataset = "patients"\nepsilon = 4.0\ndelta = 1e-6\nsmallest_count = 30\n')
    policy.chmod(0o644)
    return {"invitation": study / "invitation.json", "policy": policy, "data": records}


def flags(given: dict[str, Path]) -> list[object]:
    """As options of `agent init`."""
    return [part for name, value in given.items() for part in (f"--{name}", value)]


@pytest.fixture
def north(dpadmm: Any, given: dict[str, Path]) -> dict[str, Any]:
    """An owner's agent; what its making has said."""
    result = dpadmm("agent", "init", "north", *flags(given), "--json")
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))
