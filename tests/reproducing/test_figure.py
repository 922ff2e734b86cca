"""How lines of a figure are told apart, and that its legends say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from dpadmm.reproducing.figure import MOST_INSIDE, draw
from dpadmm.reproducing.outcome import Outcome, Track
from dpadmm.reproducing.results import Results
from dpadmm.reproducing.target import Target

Declared = Callable[..., Target]
Drawn = Callable[..., Figure]
EPSILONS = ("epsilon = [0.1, 1.0]", "epsilon = [0.1, 0.5, 1.0]")
LOUDER = ('[[curve]]\nname = "quiet"', '[[curve]]\nname = "louder"\n[[curve]]\nname = "quiet"')
PUBLISHED = ("[scale.small]", '[published]\nfile = "f.csv"\ncolumn = "loss"\nmetric = "epsilon"\n[scale.small]')


@pytest.fixture
def drawn(declared: Declared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """The figure of the small target with these changes; its numbers differ from run to run."""
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))

    def make(*changes: tuple[str, str], published: Mapping[str, float] | None = None) -> Figure:
        target = declared(*changes)
        findings = []
        for place, job in enumerate(target.jobs("small")):
            track = Track(*((place + 1.0, place + 1.5) for _ in range(4)))
            metrics = {"epsilon": track, "train_loss": track}
            private = job.curve != "quiet"
            findings.append((job, Outcome((2, 4), metrics, 1, 1.0, private, 1e-3, "replace", None, 0.0)))
        draw(Results(target, "small", tuple(findings), "", "", "", 0.0), published or {}, tmp_path / "f.png")
        return figures.pop()

    return make


def looks(lines: Sequence[Any]) -> list[tuple[str, str]]:
    return [(to_hex(line.get_color()), line.get_linestyle()) for line in lines]


def named(axis: Any) -> dict[str, tuple[str, str]]:
    entries = axis.get_legend().legend_handles
    return {str(entry.get_label()): look for entry, look in zip(entries, looks(entries), strict=True)}


def test_dashes_are_curves_and_colours_are_cells(drawn: Drawn) -> None:
    axis = drawn(EPSILONS, LOUDER).axes[0]
    found = looks(axis.lines)  # noisy at three epsilons, louder at three, quiet
    assert len(found) == 7
    assert [colour for colour, _ in found[:3]] == [colour for colour, _ in found[3:6]]
    assert len({colour for colour, _ in found[:3]}) == 3
    assert {dashes for _, dashes in found[:3]} == {"-"}
    assert {dashes for _, dashes in found[3:6]} == {"--"}
    assert found[6] == ("#000000", ":")


def test_a_legend_names_dashes_and_colours_where_that_is_shorter_than_all_runs(drawn: Drawn) -> None:
    axis = drawn(EPSILONS, LOUDER).axes[0]
    found, legend = looks(axis.lines), named(axis)
    assert list(legend) == ["noisy", "louder", "quiet", "epsilon 0.1", "epsilon 0.5", "epsilon 1"]
    assert [legend[name][1] for name in ("noisy", "louder", "quiet")] == ["-", "--", ":"]
    assert [legend[f"epsilon {cell}"][0] for cell in ("0.1", "0.5", "1")] == [colour for colour, _ in found[:3]]


def test_a_legend_names_every_run_where_there_are_few(drawn: Drawn) -> None:
    axis = drawn().axes[0]
    legend = named(axis)
    assert list(legend) == ["noisy, epsilon 0.1", "noisy, epsilon 1", "quiet"]
    assert list(legend.values()) == looks(axis.lines)


def test_colours_are_curves_where_there_is_one_cell(drawn: Drawn) -> None:
    axis = drawn(LOUDER).axes[1]  # over epsilon: a line for each curve
    assert list(named(axis)) == ["noisy", "louder", "quiet"]
    colours = [colour for colour, _ in named(axis).values()]
    assert len(set(colours)) == 3
    assert colours[2] == "#000000"


def test_a_long_legend_covers_no_curve(drawn: Drawn) -> None:
    figure = drawn(EPSILONS, LOUDER)
    assert len(named(figure.axes[0])) > MOST_INSIDE
    FigureCanvasAgg(figure).draw()  # which lays it out
    legend, axis = figure.axes[0].get_legend(), figure.axes[0]
    assert legend is not None
    assert legend.get_window_extent().y1 < axis.get_window_extent().y0
    assert legend.get_window_extent().y0 >= 0.0


def test_numbers_that_curves_share_are_drawn_once(drawn: Drawn, declared: Declared) -> None:
    jobs = declared(LOUDER, PUBLISHED).jobs("small")
    theirs = {job.name: 7.0 if "0.1" in job.name else 8.0 for job in jobs if job.curve != "quiet"}
    axis = drawn(LOUDER, PUBLISHED, published=theirs).axes[1]
    crosses = [line for line in axis.lines if line.get_marker() == "x"]
    assert [list(line.get_ydata()) for line in crosses] == [[7.0, 8.0]]
    assert list(named(axis)) == ["noisy", "louder", "quiet", "the paper"]
