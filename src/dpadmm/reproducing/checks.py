"""Whether what a paper claims is so here: every claim is a comparison of final numbers, counted cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpadmm.reproducing.outcome import Outcome
from dpadmm.reproducing.target import Check, Job, Target

Finding = tuple[Job, Outcome]


@dataclass(frozen=True)
class CheckResult:
    """How often a claim was looked at, and how often it was so."""

    says: str
    holds: int
    of: int
    asserted: bool

    @property
    def always(self) -> bool:
        return self.holds == self.of

    def __str__(self) -> str:
        how = "yes" if self.always else "in part" if self.holds else "no"
        return f"{self.says}: {how} ({self.holds} of {self.of})"


def answers(target: Target, findings: Sequence[Finding]) -> list[CheckResult]:
    """What each check of a target comes to."""
    return [_answer(check, findings) for check in target.checks]


def verdict(found: Sequence[CheckResult]) -> str:
    """One word for the table."""
    holds, of = sum(answer.holds for answer in found), sum(answer.of for answer in found)
    if not of:
        return "not run"
    return "holds" if holds == of else "does not hold" if 2 * holds < of else "holds in part"


def _answer(check: Check, findings: Sequence[Finding]) -> CheckResult:
    inside = [(job, outcome) for job, outcome in findings if job.fits(check.where)]
    results = _pairs(check, inside) if check.below or check.near else _along(check, inside)
    return CheckResult(check.says, sum(results), len(results), check.asserted)


def _pairs(check: Check, inside: Sequence[Finding]) -> list[bool]:
    first, *others = check.below or check.near
    results = []
    for job, outcome in inside:
        if job.curve not in others:
            continue
        for mate, theirs in inside:
            if mate.curve != first or not _together(job, mate):
                continue
            mine, other = (each.value(check.metric, check.when) for each in (theirs, outcome))
            if check.below:
                results.append(mine < other * (1.0 + check.slack))
            else:
                results.append(abs(mine - other) <= check.slack * abs(other))
    return results


def _together(one: Job, other: Job) -> bool:
    """Whether two runs lie in the same cell, along the axes that both have."""
    return all(other.place[axis].value == point.value for axis, point in one.place.items() if axis in other.place)


def _along(check: Check, inside: Sequence[Finding]) -> list[bool]:
    axis = check.falls or check.rises or check.flat
    lines: dict[tuple[str, ...], list[float]] = {}
    for job, outcome in inside:
        if axis in job.place and (not check.curves or job.curve in check.curves):
            rest = tuple(point.label for name, point in job.place.items() if name != axis)
            lines.setdefault((job.curve, *rest), []).append(outcome.value(check.metric, check.when))
    return [_so(check, values) for values in lines.values() if len(values) > 1]


def _so(check: Check, values: Sequence[float]) -> bool:
    """Values are in the order of the axis."""
    first, last = values[0], values[-1]
    if check.falls:
        return last < first * (1.0 + check.slack)
    if check.rises:
        return first < last * (1.0 + check.slack)
    return max(values) - min(values) <= check.slack * abs(min(values))


def totals(findings: Sequence[Finding]) -> Mapping[str, tuple[float, float]]:
    """The least and the largest true total of each private curve."""
    found: dict[str, list[float]] = {}
    for job, outcome in findings:
        if outcome.epsilon is not None:
            found.setdefault(job.curve, []).append(outcome.epsilon)
    return {curve: (min(values), max(values)) for curve, values in found.items()}
