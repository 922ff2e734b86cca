"""Scales that run a part of the grid only, and the paper's numbers where several curves share them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from dpadmm.errors import InputError
from dpadmm.reproducing.drawing import draw
from dpadmm.reproducing.outcome import Outcome, Track
from dpadmm.reproducing.results import Results
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


def test_numbers_that_curves_share_are_drawn_once(
    declared: Declared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = '[published]\nfile = "f.csv"\ncolumn = "loss"\nmetric = "epsilon"\n'
    louder = '[[curve]]\nname = "louder"\n[[curve]]\nname = "quiet"'
    target = declared(("[scale.small]", f"{published}[scale.small]"), ('[[curve]]\nname = "quiet"', louder))
    track = Track((1.0,), (0.0,), (1.0,), (1.0,))
    outcome = Outcome((4,), {"epsilon": track, "train_loss": track}, 1, 1.0, True, 1e-3, "replace", None, 0.0)
    findings = tuple((job, outcome) for job in target.jobs("small"))
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    theirs = {job.name: 7.0 if "0.1" in job.name else 8.0 for job, _ in findings if job.curve != "quiet"}
    draw(Results(target, "small", findings, "", "", "", 0.0), theirs, tmp_path / "f.png")
    labels = [str(line.get_label()) for line in figures[0].axes[1].lines]
    assert [label for label in labels if label.endswith("the paper")] == ["noisy, the paper"]
