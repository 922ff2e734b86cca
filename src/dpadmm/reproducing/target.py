"""One figure or table of a paper, as its file in `declared/` declares it.

    paper = "000"                  figure = "figure 3"          title, claim: sentences
    [all]                          settings of every run, by the names of a spec's fields
    [grid]                         lists, multiplied; an entry is a value, or a table of settings with a name
    [[curve]]                      name, and settings of its own; `without` names grid axes it does not have
    [[panel]]                      what to draw: metric, over (round or an axis), where
    [[check]]                      what the paper claims, as a comparison (see `checks`)
    [scale.small], [scale.paper]   what differs at a scale: settings, lists of the grid, and `cells`: the parts of the
                                   grid that are run, where not all of it is
    guessed = ["gamma", "rounds"]  what the paper does not give, and we chose; the page marks it
    [scale.medium]                 the paper's data, and fewer rounds: only where the paper's own number takes days
    [published]                    file and column of the paper's own numbers

Nothing here runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from dpadmm._fields import from_table
from dpadmm._files import parse_toml, read_text
from dpadmm.errors import InputError, unknown

SCALES = ("small", "medium", "paper")  # from the least to the largest
REQUIRED = ("small", "paper")
KINDS = ("train", "power-flow")
WHEN = ("end", "mean", "jump")  # at the end, over the rounds, the largest rise from one to the next
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Point:
    """One entry of a grid's axis."""

    label: str
    value: Any  # what is given for the axis; a name where the entry has several settings
    settings: Settings

    @classmethod
    def of(cls, axis: str, given: Any) -> Point:
        if isinstance(given, Mapping):
            settings = {name: value for name, value in given.items() if name != "name"}
            return cls(str(given["name"]), str(given["name"]), settings)
        return cls(f"{given:g}" if isinstance(given, float) else str(given), given, {axis: given})


@dataclass(frozen=True)
class Curve:
    """One algorithm with its settings; a run of it for every cell of the grid that it has."""

    name: str
    settings: Settings
    without: tuple[str, ...] = ()
    only: Mapping[str, Any] = field(default_factory=dict)  # axes where it has some entries only


@dataclass(frozen=True)
class Panel:
    """One pair of axes of the figure."""

    metric: str
    label: str
    over: str = "round"
    title: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Check:
    """What a claim says, as something that numbers can contradict (see `checks`)."""

    says: str
    metric: str
    below: tuple[str, ...] = ()  # the first curve ends below each of the others; by a fifth if `slack` is -0.2
    near: tuple[str, ...] = ()  # the first curve ends within `slack` of each of the others
    falls: str = ""  # along this axis the metric has a falling trend over all entries
    rises: str = ""
    flat: str = ""  # along this axis it stays within `slack`, relative to its least
    curves: tuple[str, ...] = ()  # of falls, rises and flat; empty: all that have the axis
    where: Mapping[str, Any] = field(default_factory=dict)
    when: str = "end"  # "mean": over the rounds; "jump": the largest rise from one to the next
    slack: float = 0.0
    asserted: bool = False  # a sound claim, which tests must find to hold at the small scale
    variant: bool = False  # about a curve of ours: judged apart from what the paper printed


@dataclass(frozen=True)
class Published:
    """The paper's own numbers: a CSV file whose other columns say which run each belongs to."""

    file: str
    column: str
    metric: str


@dataclass(frozen=True)
class Job:
    """One run of a target."""

    kind: str
    curve: str
    place: Mapping[str, Point]  # by axis
    settings: Settings

    @property
    def name(self) -> str:
        cell = ", ".join(f"{axis} {point.label}" for axis, point in self.place.items())
        return f"{self.curve} ({cell})" if cell else self.curve

    @property
    def fingerprint(self) -> str:
        """The same for the same run, whichever figures it belongs to."""
        text = json.dumps([self.kind, dict(self.settings)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def fits(self, where: Mapping[str, Any]) -> bool:
        """Whether it lies in a part of the grid; a curve without an axis lies everywhere along it."""
        for axis, wanted in where.items():
            allowed = wanted if isinstance(wanted, list) else [wanted]
            if axis == "curve":
                if self.curve not in allowed:
                    return False
            elif axis in self.place and self.place[axis].value not in allowed:
                return False
        return True


@dataclass(frozen=True)
class Target:
    """A figure or table."""

    id: str  # the file's name
    paper: str
    figure: str
    title: str
    claim: str
    kind: str
    common: Settings
    grid: Mapping[str, Sequence[Any]]
    curves: tuple[Curve, ...]
    panels: tuple[Panel, ...]
    checks: tuple[Check, ...]
    scales: Mapping[str, Settings]
    published: Published | None = None
    remark: str = ""  # what the numbers do not say themselves
    guessed: tuple[str, ...] = ()  # what the paper does not give, and we chose
    shown: Mapping[str, Any] = field(default_factory=dict)  # the part of the grid that goes into the documentation

    def jobs(self, scale: str) -> list[Job]:
        """Every run at a scale that the target has, cell by cell, curves side by side."""
        given = self.scales[scale]
        common = {**self.common, **{name: value for name, value in given.items() if name not in ("grid", "cells")}}
        grid = {**self.grid, **given.get("grid", {})}
        axes = {axis: [Point.of(axis, entry) for entry in entries] for axis, entries in grid.items()}
        everything = (job for curve in self.curves for job in self._runs(curve, common, axes))
        parts = given.get("cells", [{}])
        return [job for job in everything if any(job.fits(part) for part in parts)]

    def _runs(self, curve: Curve, common: Settings, axes: Mapping[str, list[Point]]) -> Iterator[Job]:
        mine = {axis: points for axis, points in axes.items() if axis not in curve.without}
        drop = {axis for axis in axes if axis in curve.without} | set(curve.without)
        base = {name: value for name, value in common.items() if name not in drop}
        for points in product(*mine.values()):
            place = dict(zip(mine, points, strict=True))
            settings = {**base}
            for point in points:
                settings.update(point.settings)
            job = Job(self.kind, curve.name, place, {**settings, **curve.settings})
            if job.fits(curve.only):
                yield job

    @property
    def metrics(self) -> tuple[str, ...]:
        """All that is kept of a run."""
        published = (self.published.metric,) if self.published else ()
        named = [panel.metric for panel in self.panels] + [check.metric for check in self.checks]
        return tuple(dict.fromkeys((*named, *published)))


def read(path: Path) -> Target:
    """A target from its file; an `InputError` names the file and what is wrong in it."""
    given = parse_toml(read_text(path, "reproduction", "TOML"), path.name)
    try:
        return _target(path.stem, given)
    except KeyError as error:
        raise InputError(f"{path.name}: {error.args[0]!r} is missing.") from None
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None


@dataclass(frozen=True)
class _Written:
    """The names in a target's file."""

    paper: str
    figure: str
    title: str
    claim: str
    curve: tuple[Mapping[str, Any], ...]
    panel: tuple[Mapping[str, Any], ...]
    check: tuple[Mapping[str, Any], ...]
    scale: Mapping[str, Any]
    kind: str = "train"
    all: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Any] | None = None
    remark: str = ""
    guessed: tuple[str, ...] = ()
    shown: Mapping[str, Any] = field(default_factory=dict)


def _target(name: str, given: Mapping[str, Any]) -> Target:
    written = from_table(_Written, given, "the reproduction")
    for scale in written.scale:
        if scale not in SCALES:
            raise unknown("scale", scale, SCALES)
    if written.kind not in KINDS:
        raise unknown("kind", written.kind, KINDS)
    target = Target(
        id=name, paper=written.paper, figure=written.figure, title=written.title, claim=written.claim,
        kind=written.kind, common=written.all, grid=written.grid, curves=tuple(_curve(each) for each in written.curve),
        panels=tuple(from_table(Panel, each, "panel") for each in written.panel),
        checks=tuple(from_table(Check, each, "check") for each in written.check),
        scales={scale: written.scale[scale] for scale in SCALES if scale in (*REQUIRED, *written.scale)},
        published=None if written.published is None else from_table(Published, written.published, "published"),
        remark=written.remark.strip(), guessed=written.guessed, shown=written.shown,
    )  # fmt: skip
    _check_names(target)
    return target


def _curve(given: Mapping[str, Any]) -> Curve:
    own = ("name", "without", "only")
    settings = {name: value for name, value in given.items() if name not in own}
    return Curve(given["name"], settings, tuple(given.get("without", ())), given.get("only", {}))


def _check_names(target: Target) -> None:
    """Curves and axes that panels and checks speak of must be there: a misspelt one would be a check of nothing."""
    curves, axes = [curve.name for curve in target.curves], list(target.grid)
    for panel in target.panels:
        if panel.over not in ("round", *axes):
            raise unknown("axis of a panel", panel.over, ["round", *axes])
    for check in target.checks:
        for name in (*check.below, *check.near, *check.curves):
            if name not in curves:
                raise unknown("curve of a check", name, curves)
        for axis in (check.falls, check.rises, check.flat):
            if axis and axis not in axes:
                raise unknown("axis of a check", axis, axes)
        if sum(map(bool, (check.below, check.near, check.falls, check.rises, check.flat))) != 1:
            raise InputError(f"check {check.says!r}: give one of below, near, falls, rises, flat.")
        if check.when not in WHEN:
            raise unknown("when of a check", check.when, WHEN)
        if check.slack and (check.falls or check.rises):
            raise InputError(f"check {check.says!r}: a trend has no slack; leave it out.")
    places = [panel.where for panel in target.panels] + [check.where for check in target.checks]
    places += [part for scale in target.scales.values() for part in scale.get("cells", [])]
    for where in (*places, target.shown):
        for axis, wanted in where.items():
            if axis not in ("curve", *axes):
                raise unknown("axis in a where", axis, ["curve", *axes])
            for name in wanted if axis == "curve" and isinstance(wanted, list) else []:
                if name not in curves:
                    raise unknown("curve in a where", name, curves)
