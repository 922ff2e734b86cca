"""What is promised, in one sentence that a lawyer can read and one line that a privacy engineer can check.

The sentence is the definition itself: the probability of any conclusion is at most e^epsilon times what it would be
without the record's influence, plus delta. Bounds are rounded to the reader's disadvantage, never to ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpadmm.privacy.accounting import ACCOUNTANTS
from dpadmm.report.document import GuaranteeText, State

LARGE = 5.0  # an epsilon from which on the factor promises little
HUGE = 20.0  # and from which on it is not worth writing out

SIMULATED = (
    "This is a simulation: its noise is seeded and can be subtracted by whoever knows the seed, so this very run "
    "protects nobody."
)
ONE_BY_ONE = "Several records of one person are protected one by one, not together."
LEFT_OUT = (
    "Not covered: how columns, bounds and settings were chosen, and losses or errors that are measured on the records."
)
SCALED = (
    "This run is not private as a whole: the records were scaled by statistics of the records themselves, which no "
    "promise covers."
)
UNKNOWN = GuaranteeText(False, "Nothing is known of this run yet, and nothing is promised.", "no plan yet")


@dataclass(frozen=True)
class Promise:
    """Everything a guarantee must say."""

    state: State
    round: int
    rounds: int
    epsilon: float | None  # of the whole run; None: infinite
    delta: float
    relation: str
    accountant: str
    simulated: bool
    spent: float | None = None  # so far, or a little more
    unit_size: int = 1  # records that are protected together
    holder: str = "agent"
    noise: str = ""  # kinds, multipliers, releases
    public_preprocessing: bool = True
    claimed: float | None = None  # what a paper would say
    neighbours: str = ""  # of power flow, whose records are the loads of a bus


def open_run(holder: str = "agent") -> GuaranteeText:
    """Of a recipe that is not private."""
    return GuaranteeText(
        False,
        f"This run promises no privacy: every {holder} sends answers that are computed from its records without any "
        f"noise, and what is sent may give records away.",
        "epsilon is infinite: the recipe adds no noise",
    )


def guarantee(promise: Promise) -> GuaranteeText:
    """Of a recipe that is."""
    if promise.epsilon is None:
        return GuaranteeText(
            False,
            f"This run promises no privacy: its noise was set to zero, or is not enough for any bound, so what every "
            f"{promise.holder} sends may give records away.",
            f"epsilon is infinite at delta {promise.delta:g}, {promise.relation} relation",
        )
    plain, notes = _sentence(promise), _notes(promise)
    if promise.simulated:
        plain = f"With real noise, {plain[0].lower()}{plain[1:]}"
        notes.insert(0, SIMULATED)
    if not promise.public_preprocessing:
        notes.insert(0, f"Of the rounds alone: {plain}")
        plain = SCALED
    return GuaranteeText(promise.public_preprocessing, plain, _exact(promise), tuple(notes), promise.simulated)


def _sentence(promise: Promise) -> str:
    assert promise.epsilon is not None
    if promise.state == "finished":
        scope = f"everything that every {promise.holder} sent in all {promise.rounds:,} rounds together"
        return _bound(promise, promise.epsilon, scope)
    if promise.round == 0 or promise.spent is None:
        whole = f"everything that every {promise.holder} is to send in all {promise.rounds:,} rounds together"
        return _bound(promise, promise.epsilon, whole)
    scope = f"everything that every {promise.holder} sent up to round {promise.round:,} of {promise.rounds:,}"
    return _bound(promise, promise.spent, scope)


def _notes(promise: Promise) -> list[str]:
    assert promise.epsilon is not None
    notes = []
    if promise.state != "finished" and promise.round and promise.spent is not None:
        rest = "When all rounds are over" if promise.state == "running" else "Whatever was sent after that, in all"
        notes.append(f"{rest} it is at most {_factor(promise.epsilon)} times{_plus(promise.delta)}.")
    if promise.epsilon > LARGE:
        notes.append("So large a factor promises little.")
    if promise.unit_size == 1 and not promise.neighbours:
        notes.append(ONE_BY_ONE)
    return [*notes, LEFT_OUT]


def _bound(promise: Promise, epsilon: float, scope: str) -> str:
    return (
        f"Whatever anybody concludes from {scope} is at most {_factor(epsilon)} times as likely as it would be if "
        f"{_otherwise(promise)}{_plus(promise.delta)}; this holds for {_whom(promise)}."
    )


def _whom(promise: Promise) -> str:
    if promise.neighbours:
        return f"every bus of every {promise.holder}"
    if promise.unit_size == 1:
        return f"every single record of every {promise.holder}"
    return f"every person at every {promise.holder}, with all of up to {promise.unit_size:,} records"


def _otherwise(promise: Promise) -> str:
    """What the world is compared with."""
    if promise.neighbours:
        return f"the truth differed in {promise.neighbours}"
    whose = "that record" if promise.unit_size == 1 else "that person's records"
    if promise.relation == "replace":
        return f"{whose} had been any other" + ("" if promise.unit_size == 1 else "s")
    return f"{whose} had not counted (the number of records is public)"


def _factor(epsilon: float) -> str:
    """e^epsilon with three digits, rounded up."""
    if epsilon > HUGE:
        return f"e^{math.ceil(epsilon):,}"
    up = _rounded_up(math.exp(epsilon), 3)
    return f"{up:,.2f}" if up < 10 else f"{up:,.1f}" if up < 100 else f"{up:,.0f}"


def _rounded_up(value: float, digits: int) -> float:
    if value <= 0.0:
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return math.ceil(value / unit * (1.0 - 1e-12)) * unit


def _epsilon(value: float | None) -> str:
    """With four digits, rounded up."""
    return f"epsilon {_rounded_up(value or 0.0, 4):#.4g}"


def _plus(delta: float) -> str:
    return f", plus a chance of 1 in {math.floor(1.0 / delta * (1.0 + 1e-12)):,}" if delta > 0.0 else ""


def _exact(promise: Promise) -> str:
    label = ACCOUNTANTS[promise.accountant].label if promise.accountant in ACCOUNTANTS else promise.accountant
    unit = promise.neighbours or (
        "one record" if promise.unit_size == 1 else f"one person, up to {promise.unit_size:,} records"
    )
    total = f"{_epsilon(promise.epsilon)}, delta {promise.delta:g} in total"
    parts = [total if promise.state == "finished" else f"{total} for all {promise.rounds:,} rounds"]
    if promise.state != "finished" and promise.spent is not None:
        parts.append(f"{_epsilon(promise.spent)} up to round {promise.round:,}")
    parts += [f"{promise.relation} relation", label, f"unit: {unit} of the worst {promise.holder}"]
    if promise.noise:
        parts.append(promise.noise)
    if promise.claimed is not None:
        verdict = "safe but wasteful" if (promise.epsilon or 0.0) <= promise.claimed else "false"
        parts.append(f"by its paper's formula {promise.claimed:#.4g}, which is {verdict}")
    if promise.simulated:
        parts.append("seeded noise")
    return "; ".join(parts)
