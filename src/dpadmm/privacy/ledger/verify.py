"""Whether a ledger's tables, releases and states are what its chain of entries says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dpadmm.privacy.events import canonical, digest
from dpadmm.privacy.ledger.sqlite import SqliteLedger

_NO_KINDS = ("book", "counts", "_init__")  # what else of `Replay` begins like that


def verify(ledger: SqliteLedger) -> list[str]:
    """What does not add up: nothing, for a ledger that nobody tampered with."""
    problems = ledger.broken_links()
    if problems:  # what such entries say is not worth comparing with
        return problems
    with ledger.reading() as rows:
        expected = Replay(ledger.entries())
        tables = (
            (
                "SELECT name, value FROM meta WHERE name NOT IN ('schema', 'key', 'identity')",
                expected.meta,
                "the ledger's facts",
            ),
            (
                "SELECT name, terms_digest || terms || holds || finished || account FROM runs",
                expected.run_texts(),
                "the runs",
            ),
            ("SELECT run || event, agreed || ':' || spent FROM balances", expected.balances, "the balances"),
        )
        for query, content, what in tables:
            if dict(rows(query)) != content:
                problems.append(f"{what} are not what the entries say")
        problems += _changed_releases(rows("SELECT * FROM releases"), expected.debits)
        return problems + _changed_states(ledger, rows("SELECT * FROM states"), expected)


def _changed_releases(rows: Iterable[Any], debits: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[str]:
    problems, without = [], dict(debits)
    for run, step, inputs, number, value in rows:
        found = without.pop((run, step), None)
        if found is None:
            problems.append(f"run {run!r}, step {step}: a release without a debit")
        elif (found["value"], found["inputs"], found["number"]) != (digest(value), inputs, number):
            problems.append(f"run {run!r}, step {step}: the stored release was changed")
    return problems + [f"run {run!r}, step {step}: a debit without its release" for run, step in without]


def _changed_states(ledger: SqliteLedger, rows: Iterable[Any], expected: Replay) -> list[str]:
    last = {run: entry["number"] for (run, _), entry in expected.debits.items() if not expected.runs[run]["finished"]}
    found = {}
    for run, entry, arrays, mark in rows:
        found[run] = entry if mark == ledger.state_mark(run, entry, arrays) else None
    return [
        f"run {run!r}: the stored state was changed"
        for run in sorted(last.keys() | found.keys())
        if last.get(run) != found.get(run, 0)
    ]


class Replay:
    """What the tables must say if the entries are true."""

    def __init__(self, entries: Iterable[Mapping[str, Any]]) -> None:
        self.meta: dict[str, str] = {"locked": ""}
        self.runs: dict[str, dict[str, Any]] = {}
        self.debits: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._counts: dict[tuple[str, str], list[int]] = {}
        for entry in entries:
            find = getattr(self, f"_{entry['kind']}", None)
            if find is None or entry["kind"] in _NO_KINDS:
                raise ValueError(f"entry {entry['number']} is of an unknown kind")
            find(entry)

    @property
    def balances(self) -> dict[str, str]:
        return {run + event: f"{agreed}:{spent}" for (run, event), (agreed, spent) in self._counts.items()}

    def run_texts(self) -> dict[str, str]:
        return {
            name: f"{run['digest']}{canonical(run['terms'])}{int(run['holds'])}{int(run['finished'])}"
            f"{canonical(run['account'])}"
            for name, run in self.runs.items()
        }

    def _create(self, entry: Mapping[str, Any]) -> None:
        self.meta |= {name: entry[name] for name in ("dataset", "data", "relation", "place")}

    def _records(self, entry: Mapping[str, Any]) -> None:
        self.meta["data"] = entry["data"]

    def _reserve(self, entry: Mapping[str, Any]) -> None:
        self.runs[entry["run"]] = {**entry, "finished": False}
        self._book(entry, 0)

    def _debit(self, entry: Mapping[str, Any]) -> None:
        self.debits[entry["run"], entry["step"]] = entry
        self._counts[entry["run"], canonical(entry["event"])][1] += 1

    def _finish(self, entry: Mapping[str, Any]) -> None:
        self.runs[entry["run"]]["finished"] = True

    def _lost(self, entry: Mapping[str, Any]) -> None:
        self.runs[entry["run"]] = {**entry, "digest": "", "terms": {}, "holds": False, "finished": True}
        self._book(entry, 1)

    def _migrate(self, entry: Mapping[str, Any]) -> None:
        for run, account in entry["accounts"].items():
            self.runs[run]["account"] = account
        self.meta["locked"] = entry["locked"]

    def _lock(self, entry: Mapping[str, Any]) -> None:
        self.meta["locked"] = entry["reason"]

    def _confirm(self, entry: Mapping[str, Any]) -> None:
        self.meta |= {"locked": "", "place": entry["place"]}

    def _book(self, entry: Mapping[str, Any], spent: int) -> None:
        for event, count in entry["tally"]:
            self._counts[entry["run"], canonical(event)] = [count, spent * count]
