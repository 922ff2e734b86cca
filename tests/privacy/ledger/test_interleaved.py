"""Whatever is joined, answered, finished and changed in whatever order, what was released stays within the cap.

Nothing of the ledger's own sums is used: they are made again here, in floating point, from its debits.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from ledgers import debit
from scipy.stats import norm

from dpadmm.errors import Refused
from dpadmm.privacy import gaussian
from dpadmm.privacy.accounting import best
from dpadmm.privacy.events import DpEvent, GaussianDpEvent, LaplaceDpEvent, PureDpEvent, Relation
from dpadmm.privacy.events import SampledWithoutReplacementDpEvent as Sampled
from dpadmm.privacy.filter import Cap
from dpadmm.privacy.gdp import mu_of_pure
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify
from dpadmm.privacy.units import Unit

TALLIES: tuple[dict[DpEvent, int], ...] = (  # few, because a curve takes a while
    {GaussianDpEvent(2.0): 1},
    {GaussianDpEvent(2.0): 2},
    {GaussianDpEvent(20.0): 5},
    {GaussianDpEvent(20.0): 2, GaussianDpEvent(5.0): 1},
    {PureDpEvent(0.01): 5},
    {PureDpEvent(1.0): 2},
    {LaplaceDpEvent(3.0): 1, GaussianDpEvent(20.0): 1},
    {Sampled(100, 5, GaussianDpEvent(4.0)): 5},
)
CAPS = (Cap(1.0, 1e-6), Cap(4.0, 1e-6), Cap(4.0, 1e-6, Unit(3)), Cap(2.0, 1e-6, slack_share=0.5), Cap(3.0, 0.0))


def _spent(event: DpEvent) -> tuple[float, float]:
    """mu^2 and epsilon of a release by itself."""
    if isinstance(event, GaussianDpEvent):
        return event.noise_multiplier**-2, math.inf
    epsilon = event.epsilon if isinstance(event, PureDpEvent) else 1.0 / event.noise_multiplier
    return mu_of_pure(epsilon) ** 2, epsilon


def _is_within(cap: Cap, ledger: SqliteLedger) -> bool:
    """By the rule of the page: (epsilon, delta) for groups as large as the cap's, or one run alone by its own."""
    mu2 = delta0 = pure = 0.0
    runs = [run for run in ledger.runs().values() if run.spent]
    for run in runs:
        steps = math.ceil(cap.unit.records / run.account.unit.records)
        if run.account.whole is not None and cap.delta > 0.0:
            mu, one = run.account.whole.mu, run.account.whole.delta0
            mu2 += (steps * mu) ** 2
            moved = sum(norm.cdf(norm.ppf(one) + i * mu) for i in range(steps))
            delta0 += one if steps == 1 else moved / (1.0 - gaussian.delta(0.0, steps * mu))
            continue
        counted = run.agreed if run.account.alone else run.spent
        if any(isinstance(event, Sampled) for event in counted):
            mu2 = pure = math.inf
            break
        mu2 += steps**2 * sum(count * _spent(event)[0] for event, count in counted.items())
        pure += steps * sum(count * _spent(event)[1] for event, count in counted.items())
    if cap.delta == 0.0:
        return pure <= cap.epsilon * (1 + 1e-12)
    if delta0 < cap.delta and gaussian.delta(cap.epsilon, math.sqrt(mu2)) + delta0 <= cap.delta * (1 + 1e-9):
        return True
    (run,) = runs  # else it is alone, and within the cap by its own guarantee
    assert run.account.alone
    if run.account.unit.records >= cap.unit.records:
        return best(run.agreed, cap.delta, Relation.REPLACE).epsilon <= cap.epsilon
    return cap.alone(run.charge(held=False)) <= cap.epsilon  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(1, 5))
def test_whatever_is_released_is_within_every_cap_that_was_in_force(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    ledger = SqliteLedger.create(tmp_path / "ledger", "patients", "d" * 64, Relation.REPLACE)
    ledger._connection.execute("PRAGMA synchronous = OFF")
    under: dict[str, Cap] = {}
    due: dict[str, list[DpEvent]] = {}
    today, done = draw.choice(CAPS), Counter[str]()
    for turn in range(120):
        choice, run = draw.random(), f"run {turn}"
        if choice < 0.15:
            today = draw.choice(CAPS)
        elif choice < 0.35:
            tally = draw.choice(TALLIES)
            with suppress(Refused):
                unit = Unit(draw.choice([1, 1, 3]))
                ledger.reserve(run, "terms", [tally], today, unit, {}, draw.random() < 0.6)
                under[run], due[run] = today, [event for event, count in tally.items() for _ in range(count)]
                draw.shuffle(due[run])
                done["joined"] += 1
        elif due:
            run = draw.choice(list(due))
            if choice < 0.42 or not due[run]:
                ledger.finish(run)
                del due[run]
                continue
            cap = under[run].tightened_by(today)
            with suppress(Refused):
                debit(ledger, run, turn, due[run][-1], cap=cap)
                due[run].pop()
                done["released"] += 1
                for each in (under[run], today):  # pure releases are added up where only one of them has a delta
                    assert _is_within(each if cap.delta else cap, ledger)
    assert done["joined"] >= 1
    assert done["released"] >= 1
    assert verify(ledger) == []
