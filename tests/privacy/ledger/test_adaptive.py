"""Runs chosen by somebody who has seen what earlier ones released: what the ledger admits keeps the owner's delta.

Version 0.1.0 composed the events of all runs as if they had been fixed beforehand. What it admitted here came to 2.8
times delta (mini-batches), to 1.6, 1.9 and 2.0 times delta (pure runs), and likewise with runs that were open at once.
"""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

import pytest
from adaptive_runs import Curve, adaptive_delta, poisson, pure
from adaptive_runs import gaussian as gaussian_curve
from ledgers import debit, join

from dpadmm.errors import Refused
from dpadmm.privacy import gaussian
from dpadmm.privacy.accounting import best
from dpadmm.privacy.events import (
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    PureDpEvent,
    Relation,
    SampledWithoutReplacementDpEvent,
)
from dpadmm.privacy.filter import Cap
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.units import Unit


def _ledger(path: Path, relation: Relation = Relation.REPLACE) -> SqliteLedger:
    ledger = SqliteLedger.create(path, "patients", "d" * 64, relation)
    ledger._connection.execute("PRAGMA synchronous = OFF")
    return ledger


def _admits(ledger: SqliteLedger, event: DpEvent, cap: Cap) -> bool:
    """Whether a run of this event may be joined; it leaves again at once, and nothing was released."""
    run = f"run {len(ledger.runs())}"
    try:
        join(ledger, run, {event: 1}, cap=cap)
    except Refused:
        return False
    ledger.finish(run)
    return True


def _most(ledger: SqliteLedger, cap: Cap, make: type[DpEvent], low: float, high: float) -> float:
    """The largest number whose event the ledger admits, or the smallest, where low is admitted and high is not."""
    for _ in range(20):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _admits(ledger, make(middle), cap) else (low, middle)
    return low


@pytest.mark.parametrize(("epsilon", "delta", "share", "times"), [(1, 1e-5, 0.5, 1.57), (8, 1e-6, 0.7, 1.85)])
def test_a_pure_run_chosen_after_a_gaussian_one(
    tmp_path: Path, epsilon: float, delta: float, share: float, times: float
) -> None:
    cap = Cap(epsilon, delta)
    mu1 = share * cap.mu_total
    ledger = _ledger(tmp_path / "ledger")
    first = GaussianDpEvent(1.0 / mu1)
    join(ledger, "first", {first: 1}, cap=cap)
    debit(ledger, "first", 1, first, cap=cap)
    second = {
        GaussianDpEvent: _most(ledger, cap, GaussianDpEvent, 1e3, 1e-3),
        PureDpEvent: _most(ledger, cap, PureDpEvent, 1e-3, 2.0 * epsilon),
    }
    curves = [gaussian_curve(1.0 / second[GaussianDpEvent]), pure(second[PureDpEvent])]
    assert 0.8 * delta < adaptive_delta(epsilon, mu1, curves) <= delta
    # The rule of 0.1.0 admits more of both, and that is too much.
    old = {GaussianDpEvent: (1e3, 1e-3), PureDpEvent: (1e-3, 2.0 * epsilon)}
    for kind, (low, high) in old.items():
        for _ in range(40):
            middle = math.sqrt(low * high)
            fits = best({first: 1, kind(middle): 1}, delta, Relation.REPLACE).epsilon <= epsilon
            low, high = (middle, high) if fits else (low, middle)
        old[kind] = (low, high)
    fixed = [gaussian_curve(1.0 / old[GaussianDpEvent][0]), pure(old[PureDpEvent][0])]
    assert adaptive_delta(epsilon, mu1, fixed) > 0.95 * times * delta


def _batch(relation: Relation, one_in: int, noise: float) -> DpEvent:
    """A mini-batch of which a record is part with a chance of one in so many: by coins, or of a fixed size."""
    plain = GaussianDpEvent(noise)
    if relation is Relation.ZERO_OUT:
        return PoissonSampledDpEvent(1.0 / one_in, plain)
    return SampledWithoutReplacementDpEvent(one_in, 1, plain)


@pytest.mark.parametrize("relation", [Relation.ZERO_OUT, Relation.REPLACE])
def test_mini_batches_chosen_after_a_gaussian_run(tmp_path: Path, relation: Relation) -> None:
    """Batches of a fixed size are the other instance: a record replaced by the like of the others shows when drawn."""
    epsilon, delta = 4.0, 1e-6
    mu1 = 0.9 * gaussian.mu(epsilon, delta)
    first, rare = GaussianDpEvent(1.0 / mu1), _batch(relation, 333_333, 0.1845)
    rest = GaussianDpEvent(1.0 / math.sqrt(gaussian.mu(epsilon, delta) ** 2 * (1 - 1e-9) - mu1**2))
    for second in (rare, rest):  # each of them fits as if it had been fixed beforehand
        assert best({first: 1, second: 1}, delta, relation).epsilon <= epsilon
    curves = [poisson(1 / 333_333, 0.1845), gaussian_curve(1.0 / rest.noise_multiplier)]
    assert adaptive_delta(epsilon, mu1, curves) > 1.9 * delta
    cap = Cap(epsilon, delta, Unit(1, relation))
    ledger = _ledger(tmp_path / "ledger", relation)
    join(ledger, "first", {first: 1}, cap=cap)
    debit(ledger, "first", 1, first, cap=cap)
    assert not _admits(ledger, rare, cap)
    admitted: list[Curve] = [gaussian_curve(1.0 / _most(ledger, cap, GaussianDpEvent, 1e3, 1e-3))]
    for one_in, noise in ((30_000_000, 0.1), (1_000_000, 0.5), (100, 4.0), (100, 1.0)):
        if _admits(ledger, _batch(relation, one_in, noise), cap):
            admitted.append(poisson(1 / one_in, noise))
    assert len(admitted) >= 3
    assert adaptive_delta(epsilon, mu1, admitted) <= delta


def test_runs_that_are_open_at_once_and_hold_nothing(tmp_path: Path) -> None:
    """After a step of one run, the next is of whichever run makes more of it."""
    epsilon, delta = 8.0, 1e-6
    cap, steps = Cap(epsilon, delta), 16
    gauss = GaussianDpEvent(math.sqrt(steps) / (gaussian.mu(epsilon, delta) * (1 - 1e-9)))
    mu1 = math.sqrt(steps / 4) / gauss.noise_multiplier
    answer = PureDpEvent(epsilon - gaussian.epsilon(mu1, delta) - 1e-9)
    taken = dict.fromkeys(["noise", "answer"], 0)
    for choice in taken:
        ledger = _ledger(tmp_path / choice)
        for run, tally in (("noise", {gauss: steps - 1}), ("answer", {answer: 1})):
            with suppress(Refused):
                join(ledger, run, tally, hold=False, cap=cap)
        for number in range(steps // 4):
            debit(ledger, "noise", number, gauss, cap=cap)
        with suppress(Refused):
            for number in range(steps // 4, steps) if choice == "noise" else (99,):
                debit(ledger, choice, number, gauss if choice == "noise" else answer, cap=cap)
                taken[choice] += 1
    assert taken["noise"] > 8
    rest = gaussian_curve(math.sqrt(taken["noise"]) / gauss.noise_multiplier)
    assert adaptive_delta(epsilon, mu1, [rest, pure(answer.epsilon)]) > 1.3 * delta  # what 0.1.0 let happen
    assert adaptive_delta(epsilon, mu1, [rest, pure(answer.epsilon)] if taken["answer"] else [rest]) <= delta
