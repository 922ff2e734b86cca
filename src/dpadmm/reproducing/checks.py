"""Whether what a paper claims is so here: every claim is a set of comparisons, each with its standard error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpadmm.reproducing.estimates import Estimate, combination, trend
from dpadmm.reproducing.outcome import Outcome
from dpadmm.reproducing.target import Check, Job, Target

Finding = tuple[Job, Outcome]


@dataclass(frozen=True)
class Comparison:
    """One difference or trend that a claim speaks of."""

    estimate: Estimate
    told: int  # 1: as claimed by two standard errors; -1: the contrary; 0: cannot be told
    agrees: bool  # whether the mean alone is as claimed


@dataclass(frozen=True)
class CheckResult:
    """How often a claim was looked at, and how often it was so."""

    says: str
    comparisons: tuple[Comparison, ...]
    asserted: bool = False
    variant: bool = False  # about a curve of ours, not about what the paper printed

    @property
    def holds(self) -> int:
        return sum(each.told == 1 for each in self.comparisons)

    @property
    def fails(self) -> int:
        return sum(each.told == -1 for each in self.comparisons)

    @property
    def of(self) -> int:
        return len(self.comparisons)

    @property
    def always(self) -> bool:
        """Whether every mean is as claimed."""
        return all(each.agrees for each in self.comparisons)

    def __str__(self) -> str:
        counts = {"yes": self.holds, "no": self.fails, "cannot be told": self.of - self.holds - self.fails}
        told = [f"{name} ({count} of {self.of})" for name, count in counts.items() if count]
        return f"{self.says}: {', '.join(told) or 'not run'}"


def answers(target: Target, findings: Sequence[Finding]) -> list[CheckResult]:
    """What each check of a target comes to."""
    return [_answer(check, findings) for check in target.checks]


def word(holds: int, fails: int, of: int) -> str:
    """Of one claim's comparisons: it can be told if at least half of them can."""
    told = holds + fails
    if not of:
        return "not run"
    if 2 * told < of:
        return "cannot be told"
    return "holds" if not fails else "does not hold" if holds < fails else "holds in part"


def verdict(found: Sequence[CheckResult]) -> str:
    """One word for the table: of a figure, whose checks count alike, however many comparisons each has."""
    words = [word(each.holds, each.fails, each.of) for each in found if each.of]
    if not words:
        return "not run"
    if len(set(words)) == 1:
        return words[0]
    if not {"holds", "holds in part"} & set(words):
        return "does not hold"
    return "holds in part"


def _answer(check: Check, findings: Sequence[Finding]) -> CheckResult:
    inside = [(job, outcome) for job, outcome in findings if job.fits(check.where)]
    found = _pairs(check, inside) if check.below or check.near else _along(check, inside)
    return CheckResult(check.says, tuple(found), check.asserted, check.variant)


def _pairs(check: Check, inside: Sequence[Finding]) -> Iterator[Comparison]:
    first, *others = check.below or check.near
    for job, theirs in inside:
        if job.curve not in others:
            continue
        for mate, mine in inside:
            if mate.curve == first and _together(job, mate):
                yield _below(check, mine, theirs) if check.below else _near(check, mine, theirs)


def _below(check: Check, mine: Outcome, theirs: Outcome) -> Comparison:
    """Below the other, or below (1 + slack) times the other: `slack = -0.2` is a fifth less."""
    found = combination([1.0, -(1.0 + check.slack)], [mine, theirs], check.metric, check.when)
    return Comparison(found, found.below(), found.mean < 0.0)


def _near(check: Check, mine: Outcome, theirs: Outcome) -> Comparison:
    found = combination([1.0, -1.0], [mine, theirs], check.metric, check.when)
    return _within(found, check.slack * abs(theirs.value(check.metric, check.when)))


def _within(found: Estimate, width: float) -> Comparison:
    return Comparison(found, found.within(width), abs(found.mean) <= width)


def _together(one: Job, other: Job) -> bool:
    """Whether two runs lie in the same cell, along the axes that both have."""
    return all(other.place[axis].value == point.value for axis, point in one.place.items() if axis in other.place)


def _along(check: Check, inside: Sequence[Finding]) -> Iterator[Comparison]:
    axis = check.falls or check.rises or check.flat
    lines: dict[tuple[str, ...], list[Outcome]] = {}
    for job, outcome in inside:
        if axis in job.place and (not check.curves or job.curve in check.curves):
            rest = tuple(point.label for name, point in job.place.items() if name != axis)
            lines.setdefault((job.curve, *rest), []).append(outcome)
    for line in lines.values():
        if len(line) > 1:
            yield _flat(check, line) if check.flat else _sloped(check, line)


def _sloped(check: Check, line: Sequence[Outcome]) -> Comparison:
    """Whether the trend over all points falls, or rises."""
    found = trend(line, check.metric, check.when)
    if check.rises:
        found = Estimate(-found.mean, found.error)
    return Comparison(found, found.below(), found.mean < 0.0)


def _flat(check: Check, line: Sequence[Outcome]) -> Comparison:
    """Whether the largest is within `slack` of the smallest, relative to it."""
    ordered = sorted(line, key=lambda outcome: outcome.value(check.metric, check.when))
    least, most = ordered[0], ordered[-1]
    found = combination([1.0, -1.0], [most, least], check.metric, check.when)
    return _within(found, check.slack * abs(least.value(check.metric, check.when)))


def totals(findings: Sequence[Finding]) -> Mapping[str, tuple[float, float]]:
    """The least and the largest true total of each private curve."""
    found: dict[str, list[float]] = {}
    for job, outcome in findings:
        if outcome.epsilon is not None:
            found.setdefault(job.curve, []).append(outcome.epsilon)
    return {curve: (min(values), max(values)) for curve, values in found.items()}
