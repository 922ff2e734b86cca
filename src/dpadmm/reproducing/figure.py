"""A target's figure: a panel for each pair of axes, a line for each run, the paper's own numbers as crosses.

Dashes tell curves apart, colours the cells of the grid; where a panel has one cell, colours tell curves apart too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from dpadmm._plots import empty_figure, save
from dpadmm.reproducing.checks import Finding
from dpadmm.reproducing.outcome import Outcome
from dpadmm.reproducing.results import Results
from dpadmm.reproducing.target import Job, Panel

WIDTH, HEIGHT = 4.6, 3.6
COLUMNS = 3
LETTERS = 44  # of a title above one panel, or of a legend below it
MOST_INSIDE = 5  # entries of a legend that covers a part of its panel; a longer one stands below it
MOST_NAMED = 14
DASHES = ("-", "--", ":", "-.")


def draw(results: Results, published: Mapping[str, float], path: Path) -> None:
    """As a PNG that comes out the same for the same numbers."""
    panels = results.target.panels
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = empty_figure((WIDTH * columns, HEIGHT * rows + 0.5))
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    source = results.target.published
    for axis, panel in zip(axes, panels, strict=False):
        theirs = published if source is not None and source.metric == panel.metric else {}
        _panel(axis, panel, results.findings, theirs)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    title = f"{results.target.paper}, {results.target.figure}: {results.target.title} ({results.scale} scale)"
    figure.suptitle(fill(title, LETTERS * columns))
    save(figure, path, "figure", dpi=90)


def _panel(axis: Any, panel: Panel, findings: Sequence[Finding], published: Mapping[str, float]) -> None:
    inside = [(job, outcome) for job, outcome in findings if job.fits(panel.where) and panel.metric in outcome.tracks]
    lines = _lines(panel, inside)
    looks = Looks.of(panel, lines)
    if panel.over == "round":
        for (job, outcome), *_ in lines:
            _over_rounds(axis, panel, outcome, looks.of_run(job))
    else:
        _over_axis(axis, panel, lines, looks, published)
    if panel.log_x:
        axis.set_xscale("log")
    if panel.log_y:
        axis.set_yscale("log")
    axis.set(title=panel.title, xlabel=panel.over, ylabel=panel.label)
    axis.title.set_fontsize("medium")
    axis.grid(color="0.92", linewidth=0.6)
    _legend(axis, looks, [line[0][0] for line in lines])


def _lines(panel: Panel, inside: Sequence[Finding]) -> list[list[Finding]]:
    """The runs of each line: one over the rounds, or all that differ along the panel's axis only."""
    lines: dict[tuple[str, ...], list[Finding]] = {}
    for job, outcome in inside:
        rest = (point.label for name, point in job.place.items() if name != panel.over)
        lines.setdefault((job.curve, *rest), []).append((job, outcome))
    return list(lines.values())


def _over_rounds(axis: Any, panel: Panel, outcome: Outcome, look: Mapping[str, Any]) -> None:
    track = outcome.tracks[panel.metric]
    axis.plot(outcome.rounds, track.mean, linewidth=1.2, **look)
    if outcome.repeats > 1:
        axis.fill_between(outcome.rounds, track.least, track.most, alpha=0.12, linewidth=0.0, color=look["color"])


def _over_axis(
    axis: Any, panel: Panel, lines: Sequence[list[Finding]], looks: Looks, published: Mapping[str, float]
) -> None:
    points = [job.place[panel.over] for line in lines for job, _ in line if panel.over in job.place]
    entries = list(dict.fromkeys(point.label for point in points))
    crosses: set[tuple[float, ...]] = set()
    for line in lines:
        look = looks.of_run(line[0][0])
        if panel.over not in line[0][0].place:  # it has no such axis, and is the same all along it
            axis.axhline(line[0][1].value(panel.metric), linewidth=1.2, **look)
            continue
        places = [_number(job.place[panel.over].value, entries) for job, _ in line]
        values = [outcome.value(panel.metric) for _, outcome in line]
        spread = [outcome.tracks[panel.metric].deviation[-1] for _, outcome in line]
        axis.errorbar(places, values, yerr=spread, linewidth=1.2, markersize=4, marker="o", **look)
        theirs = tuple(published.get(job.name, math.nan) for job, _ in line)
        if not all(map(math.isnan, theirs)) and theirs not in crosses:  # variants of ours share the paper's
            label = None if crosses else "the paper"
            crosses.add(theirs)
            axis.plot(places, theirs, "x", color=look["color"], label=label)
    if not all(isinstance(point.value, int | float) for point in points):
        axis.set_xticks(range(len(entries)), entries, rotation=20, fontsize="small")


def _number(value: Any, entries: Sequence[str]) -> float:
    return float(value) if isinstance(value, int | float) else float(entries.index(str(value)))


@dataclass(frozen=True)
class Looks:
    """How the lines of a panel are told apart."""

    varying: tuple[str, ...]  # axes of the grid along which they differ
    dashes: Mapping[str, str]  # by curve
    colours: Mapping[str, Any]  # by cell, or by curve; what is not named is black

    @classmethod
    def of(cls, panel: Panel, lines: Sequence[list[Finding]]) -> Looks:
        from matplotlib import colormaps

        heads = [line[0] for line in lines]
        varying = _varying(panel, [job for job, _ in heads])
        curves = list(dict.fromkeys(job.curve for job, _ in heads))
        cells = list(dict.fromkeys(cell for job, _ in heads if (cell := _cell(job, varying))))
        private = list(dict.fromkeys(job.curve for job, outcome in heads if outcome.private))
        bright = cells if len(cells) > 1 else private or curves
        shades = [colormaps["viridis"](0.92 * rank / max(1, len(bright) - 1)) for rank in range(len(bright))]
        dashes = {curve: DASHES[rank % len(DASHES)] for rank, curve in enumerate(curves)}
        return cls(varying, dashes, dict(zip(bright, shades, strict=True)))

    def of_run(self, job: Job) -> dict[str, Any]:
        cell = _cell(job, self.varying)
        colour = self.colours.get(cell if cell in self.colours else job.curve, "black")
        return {"color": colour, "linestyle": self.dashes[job.curve]}


def _varying(panel: Panel, jobs: Sequence[Job]) -> tuple[str, ...]:
    found: dict[str, set[str]] = {}
    for job in jobs:
        for axis, point in job.place.items():
            found.setdefault(axis, set()).add(point.label)
    return tuple(axis for axis, labels in found.items() if len(labels) > 1 and axis != panel.over)


def _cell(job: Job, varying: Sequence[str]) -> str:
    return ", ".join(f"{axis} {job.place[axis].label}" for axis in varying if axis in job.place)


def _legend(axis: Any, looks: Looks, jobs: Sequence[Job]) -> None:
    """A line for each run, or, where that is shorter, one for each curve's dashes and one for each cell's colour."""
    from matplotlib.lines import Line2D

    named = {", ".join(filter(None, (job.curve, _cell(job, looks.varying)))): looks.of_run(job) for job in jobs}
    curves = {curve: {"color": "0.35", "linestyle": dashes} for curve, dashes in looks.dashes.items()}
    cells = {cell: {"color": colour, "linestyle": "-"} for cell, colour in looks.colours.items() if cell not in curves}
    if cells and len(curves) + len(cells) < len(named):
        named = {**(curves if len(curves) > 1 else {}), **cells}
    handles: list[Any] = [Line2D([], [], linewidth=1.2, label=label, **look) for label, look in named.items()]
    handles += axis.get_legend_handles_labels()[0]  # the paper's crosses
    if not 1 < len(handles) <= MOST_NAMED:
        return
    below = len(handles) > MOST_INSIDE
    columns = 2 if max(len(handle.get_label()) for handle in handles) <= LETTERS // 2 else 1
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": columns} if below else {}
    axis.legend(handles=handles, fontsize="x-small", frameon=not below, framealpha=0.7, edgecolor="none", **place)
