"""What a report page shows, as plain values. Python decides what is said; the page only knows how to draw it.

A `Document` holds runs side by side and charts. Every chart is one of three kinds: lines over a numeric axis, bars by
name, or a network. The page draws each and puts a table of the same numbers behind it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

State = Literal["running", "finished", "crashed", "interrupted"]
Section = Literal["convergence", "budget", "noise", "model", "network"]
DIGITS = 5  # significant ones of every drawn number; the run's own files have them all


@dataclass(frozen=True)
class Axis:
    label: str
    log: bool = False  # a wish: a page may draw it linear where values are not positive


@dataclass(frozen=True)
class Series:
    """One line, or one colour of bars. None is a gap."""

    name: str
    y: Sequence[float | None]
    x: Sequence[float] = ()  # empty: the chart's own
    low: Sequence[float | None] = ()  # a band around it, from here
    high: Sequence[float | None] = ()  # to here
    style: Literal["line", "thin", "limit"] = "line"  # thin: one of many alike; limit: a bound that must not be crossed
    run: int = 0  # index into the document's runs, which gives the colour


@dataclass(frozen=True)
class DrawnNode:
    name: str
    x: float
    y: float
    group: str = ""  # coloured by it
    value: float | None = None
    about: str = ""  # what hovering says


@dataclass(frozen=True)
class Edge:
    source: int
    target: int
    value: float | None = None
    about: str = ""
    strong: bool = False  # drawn thick: between groups


@dataclass(frozen=True)
class Chart:
    id: str  # unique in the document, fit for an HTML id
    section: Section
    title: str
    about: str  # one sentence: what is drawn, and how to read it
    kind: Literal["lines", "bars", "network"]
    x: Axis = field(default_factory=lambda: Axis(""))
    y: Axis = field(default_factory=lambda: Axis(""))
    at: Sequence[float] = ()  # the common x of series without their own
    names: Sequence[str] = ()  # of bars
    series: Sequence[Series] = ()
    nodes: Sequence[DrawnNode] = ()
    edges: Sequence[Edge] = ()
    simulated: bool = False  # shows what only a simulation may look at, and is labelled so


@dataclass(frozen=True)
class GuaranteeText:
    accounted: bool  # epsilon is finite and covers everything that was done with the records
    plain: str  # one sentence that a lawyer can read
    exact: str  # one line that a privacy engineer can check
    notes: Sequence[str] = ()  # what the sentence does not say
    simulated: bool = False  # the noise is seeded: the sums are those of a private run, and nobody is protected


@dataclass(frozen=True)
class RunCard:
    name: str
    state: State
    round: int
    rounds: int
    guarantee: GuaranteeText
    facts: Sequence[tuple[str, str]]  # what was run: label and value
    warnings: Sequence[str] = ()
    error: str = ""  # of a run that crashed, where it is known
    spec: str = ""  # as it was run


@dataclass(frozen=True)
class Document:
    title: str
    made: str  # ISO date and time, UTC
    version: str
    runs: Sequence[RunCard]
    charts: Sequence[Chart]

    def to_json(self) -> dict[str, Any]:
        """For the page: what is empty is left out, numbers have few digits, nothing is infinite."""
        return _plain(self)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        found = {each.name: getattr(value, each.name) for each in fields(value)}
        return {name: _plain(each) for name, each in found.items() if name in _ALWAYS or not _empty(each)}
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return [_plain(each) for each in value]


def _empty(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | Sequence) and len(value) == 0)


_ALWAYS = {"runs", "charts", "series", "warnings", "facts", "y", "accounted"}  # the page may count on these
