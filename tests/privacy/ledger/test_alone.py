"""One run alone may have all of the cap by its own guarantee, and nothing follows it (theory 10.3)."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledgers import debit, join

from dpadmm.errors import Refused
from dpadmm.privacy import gaussian
from dpadmm.privacy.accounting import best
from dpadmm.privacy.events import DpEvent, GaussianDpEvent, Relation, SampledWithoutReplacementDpEvent
from dpadmm.privacy.filter import Cap
from dpadmm.privacy.ledger.sqlite import SqliteLedger

CAP = Cap(1.0, 1e-6)
TINY = GaussianDpEvent(1e6)
GAUSSIAN = GaussianDpEvent(2.0 / gaussian.mu(1.0, 1e-6))  # four of them come to the cap
BATCHES = SampledWithoutReplacementDpEvent(100, 10, GaussianDpEvent(1.5))


@pytest.fixture
def ledger(tmp_path: Path) -> SqliteLedger:
    made = SqliteLedger.create(tmp_path / "ledger", "patients", "d" * 64, Relation.REPLACE)
    made._connection.execute("PRAGMA synchronous = OFF")
    return made


def _cap(event: DpEvent, count: int, share: float = 0.1) -> Cap:
    """Just enough for such a run by its own guarantee."""
    return Cap(best({event: count}, 1e-6, Relation.REPLACE).epsilon, 1e-6, slack_share=share)


@pytest.mark.parametrize(("event", "share"), [(GAUSSIAN, 0.1), (BATCHES, 0.1), (BATCHES, 0.0)])
def test_the_first_run_may_have_all_of_the_cap_and_nothing_follows(
    ledger: SqliteLedger, event: DpEvent, share: float
) -> None:
    cap = _cap(event, 4, share)
    with pytest.raises(Refused, match="would come to epsilon"):
        join(ledger, "more", {event: 5}, cap=cap)
    join(ledger, "first", {event: 4}, cap=cap)
    assert ledger.runs()["first"].account.alone
    for refused in ({TINY: 1}, {event: 1}):
        with pytest.raises(Refused):
            join(ledger, "beside", refused, cap=cap)
    debit(ledger, "first", 1, event, cap=cap)
    ledger.finish("first")  # three were never made, and are counted all the same: who ended the run has seen the first
    with pytest.raises(Refused):
        join(ledger, "second", {TINY: 1}, cap=cap)
    assert ledger.charges()[0].tally == {event: 4}


def test_a_run_is_not_alone_after_a_release_beside_what_is_held_or_where_nothing_may_be_held(
    ledger: SqliteLedger,
) -> None:
    with pytest.raises(Refused):
        join(ledger, "without a hold", {GAUSSIAN: 4}, cap=CAP, hold=False)
    join(ledger, "held", {TINY: 1}, cap=CAP)
    with pytest.raises(Refused):
        join(ledger, "beside", {GAUSSIAN: 4}, cap=CAP)
    ledger.finish("held")  # nothing was released, so nobody has learned anything
    join(ledger, "alone", {GAUSSIAN: 4}, cap=CAP)
    ledger.finish("alone")
    join(ledger, "small", {TINY: 1}, cap=CAP)
    debit(ledger, "small", 1, TINY, cap=CAP)
    ledger.finish("small")
    with pytest.raises(Refused):
        join(ledger, "after", {GAUSSIAN: 4}, cap=CAP)


def test_a_run_that_holds_nothing_is_refused_its_steps_beside_one_that_is_alone(ledger: SqliteLedger) -> None:
    join(ledger, "before", {TINY: 1}, cap=CAP, hold=False)
    join(ledger, "alone", {GAUSSIAN: 4}, cap=CAP)
    for _ in range(2):
        with pytest.raises(Refused):
            debit(ledger, "before", 1, TINY, cap=CAP)
        if not ledger.runs()["alone"].finished:
            debit(ledger, "alone", 1, GAUSSIAN, cap=CAP)
            ledger.finish("alone")


def test_a_higher_cap_counts_a_run_that_was_alone_like_any_other(ledger: SqliteLedger) -> None:
    join(ledger, "alone", {GAUSSIAN: 4}, cap=CAP)
    debit(ledger, "alone", 1, GAUSSIAN, cap=CAP)
    higher = Cap(1.5, 1e-6)
    left = (higher.mu_total**2 - gaussian.mu(1.0, 1e-6) ** 2) ** 0.5
    with pytest.raises(Refused):
        join(ledger, "too much", {GaussianDpEvent(0.999 / left): 1}, cap=higher)
    second = GaussianDpEvent(1.001 / left)
    join(ledger, "second", {second: 1}, cap=higher)
    debit(ledger, "second", 1, second, cap=higher)
    with pytest.raises(Refused):  # its own cap, by which it was alone, has no room for both
        debit(ledger, "alone", 2, GAUSSIAN, cap=CAP.tightened_by(higher))


def test_batches_are_debited_in_full_with_the_first_release(ledger: SqliteLedger) -> None:
    cap = Cap(4.0, 1e-6)
    for run, released in (("one", 0), ("two", 1)):
        join(ledger, run, {BATCHES: 4}, cap=cap)
        assert ledger.runs()[run].account.whole is not None
        for step in range(released):
            debit(ledger, run, step, BATCHES, cap=cap)
        ledger.finish(run)
    whole = cap.cost(ledger.charges()[0])
    assert len(ledger.charges()) == 1
    assert float(whole.delta0) > 0.0
    assert ledger.amount(cap) == pytest.approx(best({BATCHES: 4}, 1e-6, Relation.REPLACE).epsilon)
