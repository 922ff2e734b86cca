"""Figures and tables of the papers on graphs and on curves (003, 004), at the small scale."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dpadmm.reproducing import collection

FOLDER = collection.DECLARED
PATHS = sorted(FOLDER.glob("00[34]-*.toml"))
WANTED = {
    *(f"003-figure-{number}" for number in range(1, 6)),
    *(f"004-figure-{number}" for number in range(1, 7)),
    *(f"004-table-{number}" for number in range(1, 7)),
}


def test_every_figure_is_declared() -> None:
    assert {path.stem for path in PATHS} >= WANTED


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_target_stands(path: Path, stands: Callable[[Path], None]) -> None:
    stands(path)
