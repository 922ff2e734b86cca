"""How a run comes together: owners introduce themselves, terms are written down, and all agree to them or refuse."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from dpadmm.errors import ClusterError, Refused
from dpadmm.federation.messages import VERSION, seal_to_list
from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.federation.server.state import CoordinatorState
from dpadmm.owner.agreement import Agreement
from dpadmm.spec import auto
from dpadmm.spec.declare import AUTO

Replies = dict[str, Any]
POLL = 2.0  # seconds between looks at whether an owner has given its word
COUNT = 10**9


class Transport(Protocol):
    """How owners are asked. `present` are those of this job; who does not answer is not in the replies."""

    @property
    def present(self) -> tuple[str, ...]: ...

    def ask(self, method: str, calls: Mapping[str, Mapping[str, Any]], seconds: float) -> Replies:
        """Calls a method of several owners at once; a reply for everybody who answered in time."""


class Interrupted(ClusterError):
    """The run cannot go on in this job; nothing is lost, and another one takes it up."""


class Owners:
    """The owners of one job: who is there, and what they were asked."""

    def __init__(self, run: str, folder: RunFolder, transport: Transport) -> None:
        self._run, self._folder, self._transport = run, folder, transport
        self._experiment = folder.experiment
        self._terms = self._experiment.federation
        self.lost: set[str] = set()  # who did not answer in this job: FLARE does not bring it back into one
        self.barred: set[str] = set()  # who answered what cannot be used
        self.rounds_answered: dict[str, int] = {}  # how far each was when it joined
        self.dry_run = False  # whether somebody's noise is seeded

    def there(self, name: str) -> bool:
        return name in self._transport.present and name not in self.lost and name not in self.barred

    def call(self, method: str, calls: Mapping[str, Mapping[str, Any]]) -> Replies:
        """What those say who answer in time; who does not is lost to this job."""
        if not calls:
            return {}
        replies = self._transport.ask(method, calls, self._terms.timeout)
        self.lost |= calls.keys() - replies.keys()
        return {name: reply if isinstance(reply, Mapping) else {} for name, reply in replies.items()}

    def agreement(self) -> Agreement:
        """What was agreed; in the first job, made of what the owners say of themselves."""
        known = self._folder.agreement()
        owners = tuple(self._terms.owners if known is None else known.owners)
        calls: dict[str, dict[str, Any]] = {name: {} for name in owners if name in self._transport.present}
        found = self.call("introduce", calls)
        _refuse_any(found)
        mine = self._folder.schema
        self.dry_run = self._folder.is_dry_run(any(reply.get("dry_run") is True for reply in found.values()))
        for name, reply in found.items():
            if reply.get("version") != VERSION:
                raise Refused(f"{name} has another version of dpadmm; use the same everywhere.")
            if reply.get("columns") != mine.digest:
                raise Refused(f"{name} has agreed to other columns than the coordinator's columns.toml.")
            if type(reply.get("count")) is not int or not 1 <= reply["count"] <= COUNT:
                raise ClusterError(f"{name} says it has {reply.get('count')!r} records.")
        if known is not None:
            for name, reply in found.items():
                if reply["count"] != known.counts[owners.index(name)]:
                    raise Refused(f"{name} has another number of records than when the run began.")
            return known
        absent = [name for name in owners if name not in found]
        if absent:
            raise Interrupted(f"{', '.join(absent)} must be there to begin.")
        agreement = self._drafted(tuple(found[name]["count"] for name in owners), owners)
        self._folder.agree(agreement)
        return agreement

    def _drafted(self, counts: tuple[int, ...], owners: tuple[str, ...]) -> Agreement:
        run, schema = self._experiment.run, self._folder.schema
        classes = len(schema.classes)
        if run.algorithm == AUTO:
            auto.check(run)
            width = schema.width + auto.with_intercept(run)
            run, _ = auto.choose(run, auto.Facts(np.array(counts), width, classes, plain=False))
        width = schema.width + bool(run.intercept)
        return Agreement(
            run, counts, width, classes, self._terms.stragglers, self._terms.records_per_person, owners, schema
        )

    def join(self, agreement: Agreement, state: CoordinatorState) -> None:
        """All agree to the run, or take it up again."""
        terms = agreement.dumps()
        seen = dict(zip(agreement.owners, state.seals, strict=True))
        waiting = [name for name in agreement.owners if name in self._transport.present]
        while waiting:
            calls = {name: {"run": self._run, "terms": terms, "seen": seal_to_list(seen[name])} for name in waiting}
            found = self.call("join", calls)
            _refuse_any(found)
            for name, reply in found.items():
                if reply.get("joined") == agreement.digest and type(reply.get("rounds_answered")) is int:
                    self.rounds_answered[name] = reply["rounds_answered"]
                elif reply.get("waiting") != agreement.digest:
                    raise ClusterError(f"{name} did not say whether it takes part.")
            waiting = [name for name in calls if name in found and name not in self.rounds_answered]
            if waiting:
                self._folder.tell("waiting", f"for the word of {', '.join(waiting)}", waiting=waiting)
                time.sleep(POLL)


def _refuse_any(replies: Replies) -> None:
    said = [f"{name}: {reply['refused']}" for name, reply in replies.items() if "refused" in reply]
    if said:
        raise Refused("; ".join(said))
