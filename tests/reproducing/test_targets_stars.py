"""Figures and tables of the papers with a server (000, 001, 002), at the small scale."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dpadmm.reproducing import collection

FOLDER = collection.DECLARED
PATHS = sorted(FOLDER.glob("00[012]-*.toml"))
WANTED = {
    *(f"000-figure-{number}" for number in range(1, 7)),
    "000-table-2",
    *(f"001-figure-{number}" for number in range(3, 8)),
    "001-table-1",
    *(f"002-figure-{number}" for number in (2, 3)),
}


def test_every_figure_is_declared() -> None:
    assert {path.stem for path in PATHS} >= WANTED


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_target_stands(path: Path, stands: Callable[[Path], None]) -> None:
    stands(path)
