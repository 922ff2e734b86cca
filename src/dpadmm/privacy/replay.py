"""A ledger's entries read from the first to the last: what its tables must say, if the entries are true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dpadmm.privacy.wire import canonical


class Replay:
    """What the tables must say if the entries are true."""

    def __init__(self, entries: Iterable[Mapping[str, Any]]) -> None:
        self.meta: dict[str, str] = {"locked": ""}
        self.runs: dict[str, dict[str, Any]] = {}
        self.debits: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._counts: dict[tuple[str, str], list[int]] = {}
        for entry in entries:
            getattr(self, f"_{entry['kind']}")(entry)

    @property
    def balances(self) -> dict[str, str]:
        return {run + event: f"{agreed}:{spent}" for (run, event), (agreed, spent) in self._counts.items()}

    def run_texts(self) -> dict[str, str]:
        return {
            name: f"{run['digest']}{canonical(run['terms'])}{int(run['holds'])}{int(run['finished'])}"
            for name, run in self.runs.items()
        }

    def _create(self, entry: Mapping[str, Any]) -> None:
        self.meta |= {name: entry[name] for name in ("dataset", "data", "relation", "place")}

    def _reserve(self, entry: Mapping[str, Any]) -> None:
        self.runs[entry["run"]] = {**entry, "finished": False}
        self._book(entry, 0)

    def _debit(self, entry: Mapping[str, Any]) -> None:
        self.debits[entry["run"], entry["step"]] = entry
        self._counts[entry["run"], canonical(entry["event"])][1] += 1

    def _finish(self, entry: Mapping[str, Any]) -> None:
        self.runs[entry["run"]]["finished"] = True

    def _lost(self, entry: Mapping[str, Any]) -> None:
        self.runs[entry["run"]] = {"digest": "", "terms": {}, "holds": False, "finished": True}
        self._book(entry, 1)

    def _lock(self, entry: Mapping[str, Any]) -> None:
        self.meta["locked"] = entry["reason"]

    def _confirm(self, entry: Mapping[str, Any]) -> None:
        self.meta |= {"locked": "", "place": entry["place"]}

    def _book(self, entry: Mapping[str, Any], spent: int) -> None:
        for event, count in entry["tally"]:
            self._counts[entry["run"], canonical(event)] = [count, spent * count]
