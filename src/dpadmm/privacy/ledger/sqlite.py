"""An owner's budget on disk: written before the release leaves, never under-counted.

Joining a run holds budget for the whole of it (a reservation: events and how often). Each release debits one step, and
debit, release and the solver state for the next step are one transaction; only when it is on disk does the release
leave. Finishing gives back what was not used. A step that was released once is answered with what is stored, byte for
byte, for ever. Across runs, the filter decides (`privacy/filter.py`); each entry says what unit its events protect, and
totals are formed for the unit that the owner's cap protects (see `hash_chain` for the file itself).
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from dpadmm._files import json_value
from dpadmm.errors import NOT_ALLOWED, Refused
from dpadmm.privacy.events import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PureDpEvent,
    Relation,
    Tally,
    canonical,
    digest,
    event_from_dict,
    event_to_dict,
    flatten,
    pack,
    tally_to_list,
    unpack,
)
from dpadmm.privacy.filter import Bound, Cap, Charge
from dpadmm.privacy.gdp import entry
from dpadmm.privacy.ledger.hash_chain import ENDS, FORGOTTEN, OLDER, Chain, keyed_digest, now, place_of
from dpadmm.privacy.ledger.protocol import Account, Run, Step, Stored
from dpadmm.privacy.ledger.record import LedgerRecord
from dpadmm.privacy.ledger.recovery import accounts_in, forgotten
from dpadmm.privacy.units import Unit

LOST_DELTA0 = 1e-9
"""The delta0 of past releases for which no cap is known."""

REASONS = 1000  # kept apart; what is refused for yet another reason is counted together

UNUSED = {"create", "records"}
"""The kinds of entries of a ledger that no run has joined and that was never locked."""


class SqliteLedger(Chain):
    """The ledger of one data set; make it with `create` or `open`."""

    schema = 3
    migrated_from = 2  # version 0.1.0's
    # `runs` and `balances` repeat what the chain says, so that a step need not read all of it; `verify` compares them.
    tables = """
    CREATE TABLE runs (
        name TEXT PRIMARY KEY, terms_digest TEXT NOT NULL, terms TEXT NOT NULL, holds INTEGER NOT NULL,
        finished INTEGER NOT NULL, account TEXT NOT NULL);
    CREATE TABLE balances (
        run TEXT NOT NULL, event TEXT NOT NULL, agreed INTEGER NOT NULL, spent INTEGER NOT NULL,
        PRIMARY KEY (run, event));
    CREATE TABLE releases (
        run TEXT NOT NULL, step TEXT NOT NULL, inputs TEXT NOT NULL, entry INTEGER NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (run, step));
    CREATE TABLE states (run TEXT PRIMARY KEY, entry INTEGER NOT NULL, arrays BLOB NOT NULL, mark TEXT NOT NULL);
    CREATE TABLE refusals (reason TEXT PRIMARY KEY, times INTEGER NOT NULL, last TEXT NOT NULL);
    """

    @classmethod
    def create(cls, path: Path, dataset: str, data_digest: str, relation: Relation, folder: Path | None = None) -> Self:
        """A new ledger for the data set of this name and content; its key and log go into `folder`."""
        return cls._create(path, {"dataset": dataset, "data": data_digest, "relation": str(relation)}, folder)

    @classmethod
    def make_anew(cls, path: Path, note: Mapping[str, str], folder: Path) -> Self:
        """A ledger in place of one that is gone, with its key; it is locked until it counts what its log knows."""
        facts = {name: note[name] for name in ("dataset", "data", "relation")}
        return cls._create(path, facts, folder, LedgerRecord(folder, note["identity"]).key())

    @property
    def dataset(self) -> str:
        return self.meta["dataset"]

    @property
    def relation(self) -> Relation:
        return Relation.parse(self.meta["relation"])

    def runs(self) -> dict[str, Run]:
        """Every run that was ever joined."""
        agreed: dict[str, dict[DpEvent, int]] = {}
        spent: dict[str, dict[DpEvent, int]] = {}
        for run, text, held, gone in self._connection.execute("SELECT * FROM balances"):
            event = event_from_dict(json_value(text))
            agreed.setdefault(run, {})[event] = held
            if gone:
                spent.setdefault(run, {})[event] = gone
        return {
            name: Run(
                name,
                mark,
                json_value(terms),
                bool(holds),
                bool(done),
                agreed.get(name, {}),
                spent.get(name, {}),
                Account.from_dict(json_value(account)),
            )
            for name, mark, terms, holds, done, account in self._connection.execute("SELECT * FROM runs ORDER BY rowid")
        }

    def terms(self, run: str) -> Mapping[str, Any] | None:
        """What was written down when a run was joined."""
        with self._guard():
            row = self._connection.execute("SELECT terms FROM runs WHERE name = ?", (run,)).fetchone()
        return None if row is None else json_value(row[0])

    def spent(self) -> dict[DpEvent, int]:
        """All events that were ever released."""
        return _sum(run.spent for run in self.runs().values())

    def committed(self) -> dict[DpEvent, int]:
        """All events that were released or are held for open runs."""
        return _sum(part for run in self.runs().values() for part in (run.spent, run.held))

    def charges(self, held: bool = False) -> list[Charge]:
        """What each run is debited with; with `held`, what open runs have set aside as well."""
        charges = (run.charge(held) for run in self.runs().values())
        return [charge for charge in charges if charge is not None]

    def amount(self, cap: Cap, held: bool = False) -> float:
        """What all releases so far come to, as an epsilon for the unit and delta of the cap.

        With `held`, as if every open run were completed. It is no guarantee by itself; the cap is.
        """
        return cap.amount(self.charges(held))

    def find(self, run: str, step: str) -> Stored | None:
        """The release of a step, if there was one."""
        with self._guard():
            row = self._connection.execute(
                "SELECT inputs, entry, value, body, head FROM releases JOIN entries ON entry = number "
                "WHERE releases.run = ? AND step = ?",
                (run, step),
            ).fetchone()
        if row is None:
            return None
        inputs, number, value, body, head = row
        debit = json_value(body)
        if debit["value"] != digest(value):
            raise Refused(f"run {run!r}, step {step}: the stored release was changed; its owner must look.")
        self._make_sure_of_log()
        return Stored(unpack(value)["value"], (event_from_dict(debit["event"]),), inputs, self.seal(head), number)

    def state(self, run: str) -> dict[str, NDArray[Any]] | None:
        """The solver state after a run's last step."""
        with self._guard():
            row = self._connection.execute("SELECT entry, arrays, mark FROM states WHERE run = ?", (run,)).fetchone()
        if row is None:
            return None
        entry, arrays, mark = row
        if mark != self.state_mark(run, entry, arrays):
            raise Refused(f"run {run!r}: the stored state was changed; its owner must look.")
        return unpack(arrays)

    def position(self, run: str) -> int:
        """The entry that a run's state is of; 0 before its first step."""
        with self._guard():
            row = self._connection.execute("SELECT entry FROM states WHERE run = ?", (run,)).fetchone()
        return 0 if row is None else int(row[0])

    def refusals(self) -> list[tuple[str, int, str]]:
        """Reasons for which something was refused, how often, and when last."""
        return list(self._connection.execute("SELECT reason, times, last FROM refusals ORDER BY last"))

    def reserve(
        self,
        run: str,
        terms_digest: str,
        tallies: Sequence[Tally],
        cap: Cap,
        unit: Unit,
        terms: Mapping[str, Any],
        hold: bool = True,
    ) -> None:
        """Opens a run, if what was released and is held leaves room for the whole of it; joining again is no news.

        With `hold` the room is kept for this run. Without it, other runs may take it, and a step is refused when they
        have.
        """
        (tally,) = tallies  # a ledger on disk is one owner's
        with self._transaction():
            account = self._room(run, terms_digest, tally, cap, unit, hold)
            if account is None:
                return
            pairs, kept = tally_to_list(tally), account.as_dict()
            body = {"digest": terms_digest, "tally": pairs, "terms": dict(terms), "holds": hold, "account": kept}
            self._append("reserve", run, body)
            row = (run, terms_digest, canonical(dict(terms)), int(hold), 0, canonical(kept))
            self._connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)", row)
            rows = [(run, canonical(entry), count, 0) for entry, count in pairs]
            self._connection.executemany("INSERT INTO balances VALUES (?, ?, ?, ?)", rows)

    def take_records(self, data_digest: str) -> bool:
        """Whether the ledger is now that of other records: only while nothing was ever joined or counted in it."""
        with self._transaction():
            with self.record.held() as log:
                known = [] if log is None else log.lines()
            if {line.kind for line in (*known, *self._lines())} - UNUSED:
                return False
            data = keyed_digest(self._key, data_digest)
            self._append("records", "", {"data": data})
            self._connection.execute("UPDATE meta SET value = ? WHERE name = 'data'", (data,))
        self.meta["data"] = data
        return True

    def check_room(
        self, run: str, terms_digest: str, tallies: Sequence[Tally], cap: Cap, unit: Unit, hold: bool = True
    ) -> None:
        """Refuses what `reserve` would refuse, and writes nothing."""
        (tally,) = tallies
        with self._transaction():
            self._room(run, terms_digest, tally, cap, unit, hold)

    def commit(self, step: Step, cap: Cap) -> Stored:
        """Debits one step and keeps its release and the state after it; returns what may leave.

        If another process released the step meanwhile, its release is returned and this one is forgotten. If it
        released another step of the run, so that the state at `step.position` is no longer the last, this is refused.
        """
        (event,), run = step.events, step.run
        packed, kept, text = pack({"value": step.value}), pack(step.state), canonical(event_to_dict(event))
        with self._transaction():
            earlier = self.find(run, step.name)
            if earlier is not None:
                if earlier.inputs != step.inputs:
                    raise Refused(f"run {run!r}, step {step.name} was answered for other inputs.")
                return earlier
            if self.position(run) != step.position:
                raise Refused(f"run {run!r} has moved on meanwhile, by another process; ask again.")
            taken = self._connection.execute(
                "UPDATE balances SET spent = spent + 1 WHERE run = ? AND event = ? AND spent < agreed AND EXISTS "
                "(SELECT 1 FROM runs WHERE name = run AND NOT finished)",
                (run, text),
            ).rowcount
            if taken != 1:
                raise Refused(f"run {run!r}, step {step.name}: nothing is left of what was agreed for such a release.")
            # What is held for this run it may spend; a run that holds nothing must leave what is held for others.
            (holds,) = self._connection.execute("SELECT holds FROM runs WHERE name = ?", (run,)).fetchone()
            self._check(self.charges(held=not holds), cap, self.runs()[run].account.alone)
            body = {"step": step.name, "inputs": step.inputs, "event": json_value(text), "value": digest(packed)}
            number, head = self._append("debit", run, body)
            row: tuple[Any, ...] = (run, step.name, step.inputs, number, packed)
            self._connection.execute("INSERT INTO releases VALUES (?, ?, ?, ?, ?)", row)
            row = (run, number, kept, self.state_mark(run, number, kept))
            self._connection.execute("INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?)", row)
        return Stored(step.value, step.events, step.inputs, self.seal(head), number)

    def finish(self, run: str) -> None:
        """Closes a run and gives back what it did not use, unless it entered as a whole or alone; its solver state is
        forgotten."""
        with self._transaction():
            known = self.runs().get(run)
            if known is None:
                raise Refused(f"run {run!r} is not in this ledger.")
            if not known.finished:
                self._append("finish", run, {"given_back": tally_to_list(known.held)})
                self._connection.execute("UPDATE runs SET finished = 1 WHERE name = ?", (run,))
                self._connection.execute("DELETE FROM states WHERE run = ?", (run,))
        self.fold()

    def refuse(self, reason: str) -> None:
        """Notes that something was refused. Not in the chain, and bounded: no stranger can make the ledger grow."""
        with self._transaction():
            known = self._connection.execute("SELECT COUNT(*), SUM(reason = ?) FROM refusals", (reason,)).fetchone()
            if known[0] >= REASONS and not known[1]:
                reason = "other reasons"
            self._connection.execute(
                "INSERT INTO refusals VALUES (?, 1, ?) ON CONFLICT(reason) DO UPDATE SET times = times + 1, last = ?",
                (reason, now(), now()),
            )

    def confirm(self) -> None:
        """The owner has looked: this file, at this place, is the one to go on with.

        What the registry knows was released and this file does not count is counted first, so no total becomes lower.

        Raises:
            Refused: It was shown a seal that neither knows; what was lost must be counted by `record_lost`.
        """
        if self.locked == FORGOTTEN:
            raise Refused(f"the ledger is locked: {FORGOTTEN}; {ENDS[FORGOTTEN]}.")
        if self.recorded:
            self.record.begin(self._key, self._lines())  # where its log is gone
        self._go_on(None)

    def record_lost(self, tally: Tally, unit: Unit | None = None) -> None:
        """Counts releases that left but are not in this file, and ends a lock. The owner's doing."""
        if not flatten(tally):
            raise Refused("what was lost must be at least one release.")
        self._go_on((tally, unit or Unit(1, self.relation)))

    def forgotten(self) -> dict[str, dict[DpEvent, int]]:
        """What the registry knows was released and this file does not count, by run."""
        with self._guard(), self.record.held() as log:
            return forgotten([] if log is None else log.lines(), self._lines())

    def _go_on(self, lost: tuple[Tally, Unit] | None) -> None:
        with self._guard("written"), self._writing() as log:
            lines = [] if log is None else log.lines()
            before = self._lines()
            accounts = accounts_in([*lines, *before])
            for run, missing in forgotten(lines, before).items():
                account = accounts.get(run) or Account(Unit(1, self.relation))
                whole = account.whole or whole_of(missing, account.unit)
                self._append_lost(missing, Account(account.unit, whole, claimed=account.claimed), {"of": run})
            if lost is not None:
                tally, unit = lost
                self._append_lost(tally, Account(unit, whole_of(tally, unit)), {})
            reason = self.locked or (OLDER if self._mismatch(log) == OLDER else "")
            if reason or self.moved:
                place = place_of(self.path)
                self._append("confirm", "", {"was": reason, "place": place})
                changes = [("", "locked"), (place, "place")]
                self._connection.executemany("UPDATE meta SET value = ? WHERE name = ?", changes)
            heads = {line.head for line in lines}
            self._added[:0] = [line for line in before if line.head not in heads]
        self.fold()

    def _append_lost(self, tally: Tally, account: Account, more: Mapping[str, Any]) -> None:
        run, pairs, kept = f"lost-{secrets.token_hex(4)}", tally_to_list(tally), account.as_dict()
        self._append("lost", run, {"tally": pairs, "account": kept, **more})
        self._connection.execute("INSERT INTO runs VALUES (?, '', '{}', 0, 1, ?)", (run, canonical(kept)))
        rows = [(run, canonical(entry), count, count) for entry, count in pairs]
        self._connection.executemany("INSERT INTO balances VALUES (?, ?, ?, ?)", rows)

    def state_mark(self, run: str, entry: int, arrays: bytes) -> str:
        """Beside the chain, not in it: its heads leave, and a state is private."""
        return self._mac("state", run, str(entry), arrays)

    def _room(self, run: str, terms_digest: str, tally: Tally, cap: Cap, unit: Unit, hold: bool) -> Account | None:
        """How a run may enter; None if it has. Refused where it may not."""
        known = self.runs().get(run)
        if known is None:
            return self._admitted(tally, cap, unit, hold)
        if known.terms_digest != terms_digest:
            raise Refused(f"run {run!r} was joined on other terms.")
        if known.finished:
            raise Refused(f"run {run!r} is finished.")
        return None

    def _admitted(self, tally: Tally, cap: Cap, unit: Unit, hold: bool) -> Account:
        """How a run enters beside all that was released and is held; refused where it may not."""
        charges, mine = self.charges(held=True), Charge(tally, unit, cap.bound(tally, unit))
        alone = hold and not charges and not cap.within(cap.cost(mine))
        self._check([*charges, mine], cap, alone)
        return Account(unit, mine.whole, alone)

    def _check(self, charges: list[Charge], cap: Cap, alone: bool) -> None:
        """Refuses what the filter does not permit; a run that is alone may have its own guarantee instead."""
        cost = cap.total(charges)
        if cap.within(cost):
            return
        reason = cap.why_not(cost)
        if alone and len(charges) == 1 and cap.delta > 0.0:
            own = cap.alone(charges[0])
            if own <= cap.epsilon:
                return
            reason = cap.too_much(own)
        raise Refused(f"data set {self.dataset!r} {reason}.", told=NOT_ALLOWED)


def whole_of(tally: Tally, unit: Unit, delta0: float = LOST_DELTA0) -> Bound | None:
    """Past releases as one bound, where they are not all Gaussian or pure: no cap was known when they were chosen."""
    if all(isinstance(event, (GaussianDpEvent, PureDpEvent, LaplaceDpEvent)) for event in flatten(tally)):
        return None
    mu = entry(tally, unit.relation, delta0)
    return None if mu is None else Bound(mu, delta0)


def _sum(tallies: Any) -> dict[DpEvent, int]:
    total: Counter[DpEvent] = Counter()
    for tally in tallies:
        total.update(tally)
    return dict(total)
