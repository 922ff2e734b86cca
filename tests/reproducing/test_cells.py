"""Scales that run a part of the grid only."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpadmm.errors import InputError
from dpadmm.reproducing.target import Target

Declared = Callable[..., Target]
GRID = ("epsilon = [0.1, 1.0]", "epsilon = [0.1, 1.0]\nrho = [0.5, 2.0]")


def names(target: Target, scale: str) -> list[str]:
    return [job.name for job in target.jobs(scale)]


def test_cells_are_the_parts_of_the_grid_that_are_run(declared: Declared) -> None:
    cells = "cells = [{ epsilon = 0.1, rho = 0.5 }, { rho = 2.0, curve = 'quiet' }]"
    target = declared(GRID, ("[scale.small]", f"[scale.small]\n{cells}"))
    assert names(target, "small") == ["noisy (epsilon 0.1, rho 0.5)", "quiet (rho 0.5)", "quiet (rho 2)"]
    assert len(names(target, "paper")) == 6
    assert all("cells" not in job.settings for job in target.jobs("small"))


@pytest.mark.parametrize(
    ("cell", "message"), [("agents = 3", "axis in a where 'agents'"), ("curve = ['loud']", "curve in a where 'loud'")]
)
def test_a_misspelt_cell_is_refused(cell: str, message: str, declared: Declared) -> None:
    with pytest.raises(InputError, match=message):
        declared(("[scale.small]", f"[scale.small]\ncells = [{{ {cell} }}]"))
