"""The command line as a function, a small file of records, and a package of somebody's own parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_federation import given, north, state, study  # noqa: F401
from own_parts import somebody  # noqa: F401
from typer.testing import CliRunner, Result

from dpadmm.cli.main import app

Command = Callable[..., Result]


@pytest.fixture
def dpadmm(monkeypatch: pytest.MonkeyPatch) -> Command:
    """`dpadmm("train", "--json")`; an exception that is not an exit comes through."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(word) for word in arguments], catch_exceptions=False)

    return run


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """60 records of two numbers, a label and an owner; every fifth row is longer than 1."""
    draw = np.random.default_rng(0)
    lines = ["height,weight,ill,clinic"]
    for row in range(60):
        x, y = draw.uniform(-0.5, 0.5, 2) + (2.0 if row % 5 == 0 else 0.0)
        lines.append(f"{x:.6f},{y:.6f},{'yes' if x + y > 0 else 'no'},{'north' if row % 3 else 'south'}")
    path = tmp_path / "records.csv"
    path.write_text("\n".join(lines) + "\n")
    return path
