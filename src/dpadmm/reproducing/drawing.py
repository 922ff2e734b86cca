"""A target's figure: a panel for each pair of axes, a line for each run, the paper's own numbers as crosses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from dpadmm.reproducing.checks import Finding
from dpadmm.reproducing.results import Results
from dpadmm.reproducing.target import Job, Panel

WIDTH, HEIGHT = 4.6, 3.6
COLUMNS = 3
LETTERS = 44  # of a title, above one column
MOST_NAMED = 14  # entries of a legend


def draw(results: Results, published: Mapping[str, float], path: Path) -> None:
    """As a PNG that comes out the same for the same numbers."""
    from matplotlib.figure import Figure  # no windows, no global state

    panels = results.target.panels
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(WIDTH * columns, HEIGHT * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    source = results.target.published
    for axis, panel in zip(axes, panels, strict=False):
        theirs = published if source is not None and source.metric == panel.metric else {}
        _panel(axis, panel, results.findings, theirs)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    title = f"{results.target.paper}, {results.target.figure}: {results.target.title} ({results.scale} scale)"
    figure.suptitle(fill(title, LETTERS * columns))
    figure.savefig(path, dpi=90, metadata={"Software": None})


def _panel(axis: Any, panel: Panel, findings: Sequence[Finding], published: Mapping[str, float]) -> None:
    inside = [(job, outcome) for job, outcome in findings if job.fits(panel.where) and panel.metric in outcome.tracks]
    if panel.over == "round":
        _over_rounds(axis, panel, inside)
    else:
        _over_axis(axis, panel, inside, published)
    if panel.log_x:
        axis.set_xscale("log")
    if panel.log_y:
        axis.set_yscale("log")
    axis.set(title=panel.title, xlabel=panel.over, ylabel=panel.label)
    axis.title.set_fontsize("medium")
    axis.grid(color="0.92", linewidth=0.6)
    handles, labels = axis.get_legend_handles_labels()
    if 1 < len(labels) <= MOST_NAMED:
        axis.legend(handles, labels, fontsize="x-small", frameon=False)


def _over_rounds(axis: Any, panel: Panel, inside: Sequence[Finding]) -> None:
    varying = _varying(inside)
    for (job, outcome), look in zip(inside, _looks(inside), strict=True):
        track = outcome.tracks[panel.metric]
        axis.plot(outcome.rounds, track.mean, label=_label(job, varying), linewidth=1.2, **look)
        if outcome.repeats > 1:
            axis.fill_between(outcome.rounds, track.least, track.most, alpha=0.12, linewidth=0.0, color=look["color"])


def _over_axis(axis: Any, panel: Panel, inside: Sequence[Finding], published: Mapping[str, float]) -> None:
    lines: dict[tuple[str, tuple[str, ...]], list[Finding]] = {}
    for job, outcome in inside:
        rest = tuple(point.label for name, point in job.place.items() if name != panel.over)
        lines.setdefault((job.curve, rest), []).append((job, outcome))
    varying = [name for name in _varying(inside) if name != panel.over]
    heads = [line[0] for line in lines.values()]
    entries = list(dict.fromkeys(job.place[panel.over].label for job, _ in inside if panel.over in job.place))
    crosses: set[tuple[float, ...]] = set()
    for line, look in zip(lines.values(), _looks(heads), strict=True):
        label = _label(line[0][0], varying)
        if panel.over not in line[0][0].place:  # it has no such axis, and is the same all along it
            axis.axhline(line[0][1].value(panel.metric), label=label, linewidth=1.2, **look)
            continue
        places = [_number(job.place[panel.over].value, entries) for job, _ in line]
        values = [outcome.value(panel.metric) for _, outcome in line]
        spread = [outcome.tracks[panel.metric].deviation[-1] for _, outcome in line]
        axis.errorbar(places, values, yerr=spread, label=label, linewidth=1.2, markersize=4, marker="o", **look)
        theirs = tuple(published.get(job.name, math.nan) for job, _ in line)
        if not all(map(math.isnan, theirs)) and theirs not in crosses:  # variants of ours share the paper's
            crosses.add(theirs)
            axis.plot(places, theirs, "x", color=look["color"], label=f"{label}, the paper")
    if not all(isinstance(job.place[panel.over].value, int | float) for job, _ in inside if panel.over in job.place):
        axis.set_xticks(range(len(entries)), entries, rotation=20, fontsize="small")


def _number(value: Any, entries: Sequence[str]) -> float:
    return float(value) if isinstance(value, int | float) else float(entries.index(str(value)))


def _varying(inside: Sequence[Finding]) -> list[str]:
    """Axes along which these runs differ."""
    found: dict[str, set[str]] = {}
    for job, _ in inside:
        for axis, point in job.place.items():
            found.setdefault(axis, set()).add(point.label)
    return [axis for axis, labels in found.items() if len(labels) > 1]


def _label(job: Job, varying: Sequence[str]) -> str:
    cell = [f"{axis} {job.place[axis].label}" for axis in varying if axis in job.place]
    return ", ".join((job.curve, *cell))


def _looks(inside: Sequence[Finding]) -> list[dict[str, Any]]:
    """A dash pattern for each curve, a colour for each run; a curve's only one is black where it has no privacy."""
    from matplotlib import colormaps

    runs = Counter(job.curve for job, _ in inside)
    curves = list(runs)
    bright = [place for place, (job, outcome) in enumerate(inside) if outcome.private or runs[job.curve] > 1]
    colours = {place: colormaps["viridis"](0.92 * rank / max(1, len(bright) - 1)) for rank, place in enumerate(bright)}
    dashes = ("-", "--", ":", "-.")
    return [
        {"color": colours.get(place, "black"), "linestyle": dashes[curves.index(job.curve) % len(dashes)]}
        for place, (job, _) in enumerate(inside)
    ]
