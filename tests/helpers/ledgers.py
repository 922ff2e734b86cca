"""Reservations and releases in a ledger on disk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm.privacy.events import DpEvent, GaussianDpEvent, LaplaceDpEvent, PureDpEvent
from dpadmm.privacy.filter import Cap
from dpadmm.privacy.ledger.protocol import Step, Stored
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.units import Unit

CAP = Cap(3.0, 1e-6)
GAUSSIAN, PURE, LAPLACE = GaussianDpEvent(20.0), PureDpEvent(0.01), LaplaceDpEvent(50.0)


def join(ledger: SqliteLedger, run: str, tally: dict[DpEvent, int], hold: bool = True, cap: Cap = CAP) -> None:
    """Reserve a run's budget."""
    ledger.reserve(run, f"terms of {run}", [tally], cap, Unit(1, ledger.relation), {"rounds": 3}, hold)


def debit(
    ledger: SqliteLedger,
    run: str,
    step: object,
    event: DpEvent,
    cap: Cap = CAP,
    inputs: str = "in",
    size: int = 3,
) -> Stored:
    """Release some value in a step of a run."""
    value = np.random.default_rng(len(str(step))).normal(size=(1, size))
    state = {"dual": value + 1, "round": np.array(1)}
    return ledger.commit(Step(run, str(step), inputs, (event,), value, state, ledger.position(run)), cap)


def amount(ledger: SqliteLedger, delta: float = 1e-6, held: bool = False) -> float:
    """What was spent so far, for a record, as an epsilon."""
    return ledger.amount(Cap(1.0, delta, Unit(1, ledger.relation)), held)


def kinds(ledger: SqliteLedger) -> list[str]:
    """The kinds of all entries, in order."""
    return [entry["kind"] for entry in ledger.entries()]


@dataclass(frozen=True)
class Snapshot:
    """A ledger's file, and what the state keeps of it, as they were."""

    file: bytes
    log: bytes


def snapshot(ledger: SqliteLedger) -> Snapshot:
    """What a backup of the whole machine would hold."""
    ledger.fold()
    return Snapshot(ledger.path.read_bytes(), ledger.record._log.read_bytes())


def put_back(ledger: SqliteLedger, kept: Snapshot, *, log: bool = False) -> None:
    """Puts an older copy in the ledger's place; with `log`, the state's log with it."""
    ledger.close()
    ledger.path.write_bytes(kept.file)
    if log:
        ledger.record._log.write_bytes(kept.log)


def filled(ledger: SqliteLedger) -> list[Stored]:
    """Two runs, one finished; six entries and three releases."""
    join(ledger, "first", {GAUSSIAN: 3})
    releases = [debit(ledger, "first", 1, GAUSSIAN), debit(ledger, "first", 2, GAUSSIAN)]
    ledger.finish("first")
    join(ledger, "second", {PURE: 2})
    return [*releases, debit(ledger, "second", 1, PURE)]
