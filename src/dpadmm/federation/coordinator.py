"""The coordinator's half of a run: it holds no records, asks the owners, combines what they release, writes it down.

How messages travel is the line's business: FLARE's in a federation, a function call in a test. What arrives is checked
before it is used, and whoever sent nonsense is named. A round in which somebody does not answer ends the job (`wait`),
or goes on with its last release (`stale`) or without it (`drop`), as the terms say.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from dpadmm.admm.algorithm import Plan
from dpadmm.agreement import Agreement
from dpadmm.engine.automatic import Facts, drafted, settled, with_loss
from dpadmm.engine.history import History
from dpadmm.errors import ClusterError, InputError, Refused
from dpadmm.federation.gauge import Gauge
from dpadmm.federation.messages import VERSION, Nonsense, longest_release, release_in, seal_to_list, to_bytes
from dpadmm.federation.runs import RunFolder
from dpadmm.federation.standing import Standing
from dpadmm.federation.walking import together
from dpadmm.parties import WAIT
from dpadmm.problems.compiled import one_thread_pool
from dpadmm.problems.shards import FloatArray
from dpadmm.request import EVALUATION
from dpadmm.spec import AUTO

Replies = dict[str, Any]
POLL = 2.0  # seconds between looks at whether an owner has given its word
COUNT = 10**9


class Line(Protocol):
    """How parties are reached. `present` are those of this job; who does not answer is missing from the replies."""

    @property
    def present(self) -> tuple[str, ...]: ...

    def ask(self, method: str, calls: Mapping[str, Mapping[str, Any]], seconds: float) -> Replies:
        """Calls a method of several owners at once; a reply for everybody who answered in time."""

    def ask_first(self, method: str, calls: Mapping[str, Mapping[str, Any]], seconds: float) -> Replies:
        """The same, but as soon as one of them refuses, the rest is not waited for."""


class Interrupted(ClusterError):
    """The run cannot go on in this job; nothing is lost, and another one takes it up."""


@dataclass
class Coordinator:
    """One job of one run."""

    name: str
    folder: RunFolder
    line: Line

    def run(self) -> None:
        """To the end, or as far as this job gets; the folder says which."""
        began = time.monotonic()
        try:
            with one_thread_pool():
                self._run()
        except Interrupted as error:
            self._tell("interrupted", str(error), began)
        except Refused as refused:
            self._tell("refused", str(refused), began)
        except (InputError, ClusterError) as error:
            self._tell("failed", str(error), began)

    def _tell(self, state: str, message: str, began: float) -> None:
        self.folder.tell(state, message, seconds=time.monotonic() - began, lost=sorted(self._lost))

    def __post_init__(self) -> None:
        self._lost: set[str] = set()  # who did not answer in this job: FLARE does not bring it back into one
        self._barred: set[str] = set()  # who answered what cannot be used
        self._experiment = self.folder.experiment
        self._terms = self._experiment.federation

    def _run(self) -> None:
        known = self.folder.agreement()
        if known is not None and self.folder.finished:  # and a job before this one was lost while it said so
            self._close(known)
            return
        self.folder.tell("joining")
        agreement = self._agreement()
        plan = agreement.plan()
        standing, history = self.folder.standing(plan, agreement.digest)
        gauge = Gauge(agreement, plan, self.folder.schema, self._terms.public_test)
        began, reached = time.monotonic(), self._join(agreement, standing)
        if agreement.run.topology is None:
            standing = self._rounds(agreement, plan, standing, history, gauge)
        else:
            standing = self._walk(agreement, plan, reached, history, gauge)
        if plan.evaluation is not None and standing.estimates is None:
            standing = self._evaluate(agreement, standing)
            self.folder.keep(agreement.digest, standing, history)
        facts = {"seconds": time.monotonic() - began, "simulated": self._rehearsal, "warnings": self._warnings()}
        self.folder.finish(agreement, plan, standing, history, facts)
        self._finish(agreement)

    # -- before the rounds -----------------------------------------------------------------------------------------

    def _agreement(self) -> Agreement:
        """What was agreed; in the first job, made of what the owners say of themselves."""
        known = self.folder.agreement()
        owners = tuple(self._terms.owners if known is None else known.owners)
        calls: dict[str, dict[str, Any]] = {name: {} for name in owners if name in self.line.present}
        found = self._ask("introduce", calls)
        self._refuse_any(found)
        mine = self.folder.schema
        self._rehearsal = any(reply.get("rehearsal") is True for reply in found.values())
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
        self.folder.agree(agreement)
        return agreement

    def _drafted(self, counts: tuple[int, ...], owners: tuple[str, ...]) -> Agreement:
        run, schema = self._experiment.run, self.folder.schema
        classes = len(schema.classes)
        if run.algorithm == AUTO:
            run = with_loss(drafted(run), classes)
            run, _ = settled(run, Facts(np.array(counts), schema.width + bool(run.intercept), classes, plain=False))
        width = schema.width + bool(run.intercept)
        return Agreement(
            run, counts, width, classes, self._terms.missing, self._terms.records_per_person, owners, schema
        )

    def _join(self, agreement: Agreement, standing: Standing) -> dict[str, int]:
        """All agree to the run, or take it up again: how far each of them is."""
        terms = agreement.dumps()
        seen = dict(zip(agreement.owners, standing.seals, strict=True))
        waiting = [name for name in agreement.owners if name in self.line.present]
        reached: dict[str, int] = {}
        while waiting:
            calls = {name: {"run": self.name, "terms": terms, "seen": seal_to_list(seen[name])} for name in waiting}
            found = self._ask("join", calls)
            self._refuse_any(found)
            for name, reply in found.items():
                if reply.get("joined") == agreement.digest and type(reply.get("reached")) is int:
                    reached[name] = reply["reached"]
                elif reply.get("waiting") != agreement.digest:
                    raise ClusterError(f"{name} did not say whether it takes part.")
            waiting = [name for name in calls if name in found and name not in reached]
            if waiting:
                self.folder.tell("waiting", f"for the word of {', '.join(waiting)}", waiting=waiting)
                time.sleep(POLL)
        return reached

    # -- with a server ---------------------------------------------------------------------------------------------

    def _rounds(self, agreement: Agreement, plan: Plan, standing: Standing, history: History, gauge: Gauge) -> Standing:
        """All rounds that are left. What is measured and written down is so while the next round is under way, where
        the owners would answer that round alike again; where rounds may be missed, they might not."""
        with ThreadPoolExecutor(1) as scribe:
            written: Future[None] | None = None
            while standing.round < plan.setting.rounds:
                found = self._round(agreement, plan, standing)
                standing = standing.following(plan, agreement.missing, found)
                if written is not None:
                    written.result()
                written = scribe.submit(self._write, agreement, standing, history, gauge)
                if agreement.missing != WAIT:
                    written.result()
                    if self.folder.asked_to_pause:
                        self.folder.pause(False)
                        raise Interrupted("a party is back")
            if written is not None:
                written.result()
        return standing

    def _write(self, agreement: Agreement, standing: Standing, history: History, gauge: Gauge) -> None:
        last = standing.round == gauge.rounds
        if last or standing.round % self._experiment.simulation.measure_every == 0:
            history.add(standing.round, gauge.measure(standing))
        self.folder.keep(agreement.digest, standing, history)
        absent = [agreement.owners[agent] for agent in standing.missed.get(standing.round, ())]
        silent = [name for name in absent if name not in self._barred]
        self.folder.tell("running", round=standing.round, rounds=gauge.rounds, missing=absent, silent=silent)

    def _round(self, agreement: Agreement, plan: Plan, standing: Standing) -> dict[int, tuple[FloatArray, Any]]:
        """The releases of one round, by owner; those that were not given or cannot be are missing."""
        round, inputs = standing.round + 1, to_bytes(standing.server.common)
        calls = {}
        for agent, name in enumerate(agreement.owners):
            if self._there(name):
                missed = {str(k): to_bytes(row) for k, row in standing.missed_by(agent).items()}
                given = {"run": self.name, "digest": agreement.digest, "step": round, "inputs": inputs}
                calls[name] = {**given, "missed": missed}
        replies = self._ask("answer", calls)
        longest = longest_release(plan, standing.server.common, standing.released, round)
        found: dict[int, tuple[FloatArray, Any]] = {}
        for name, reply in replies.items():
            try:
                if "refused" in reply:
                    raise Nonsense(f"it refuses: {reply['refused']}")
                found[agreement.owners.index(name)] = release_in(reply, plan.setting.dimension, longest)
            except Nonsense as nonsense:
                if agreement.missing == WAIT:
                    raise ClusterError(f"{name}, round {round}: {nonsense}.") from None
                self._barred.add(name)
                self.folder.note(f"{name}, round {round}: {nonsense}")
        if agreement.missing == WAIT and len(found) < len(agreement.owners):
            absent = [name for agent, name in enumerate(agreement.owners) if agent not in found]
            raise Interrupted(f"{', '.join(absent)} did not answer in round {round}")
        if len(found) < min(self._terms.least, len(agreement.owners)):
            raise Interrupted(f"{len(found)} of {len(agreement.owners)} owners answered in round {round}")
        return found

    # -- without one -----------------------------------------------------------------------------------------------

    def _walk(
        self, agreement: Agreement, plan: Plan, reached: Mapping[str, int], history: History, gauge: Gauge
    ) -> Standing:
        """The nodes walk all rounds by themselves, from the lowest that all of them have; what they end with."""
        start, rounds = min(reached.values()), plan.setting.rounds
        if len(reached) < len(agreement.owners):
            raise Interrupted("on a graph all owners must be there")
        self.folder.tell("running", round=start, rounds=rounds)
        given = {"run": self.name, "digest": agreement.digest, "start": start, "patience": self._terms.patience}
        longest_wait = (rounds - start + 2) * self._terms.patience
        replies = self.line.ask_first("walk", dict.fromkeys(agreement.owners, given), longest_wait)
        for name, reply in replies.items():
            if "refused" in reply:
                raise Interrupted(f"{name}: {reply['refused']}")
        if len(replies) < len(agreement.owners):
            raise Interrupted("not all nodes came to the end")
        rows = []
        begun = Standing.start(plan)
        longest = longest_release(plan, begun.released, begun.released, rounds)
        for name in agreement.owners:
            try:
                rows.append(release_in(replies[name], plan.setting.dimension, longest)[0])
            except Nonsense as nonsense:
                raise ClusterError(f"{name}: {nonsense}.") from None
        released = together(rows)
        model = plan.algorithm.consensus.model(begun.server, released)
        standing = replace(begun, round=rounds, model=model, mean_model=model, released=released[0])
        if rounds not in history.rounds:  # it is, where a job before this one was lost after its evaluation
            history.add(rounds, gauge.measure(standing), gauge.of_nodes(standing))
        return standing

    # -- after the rounds ------------------------------------------------------------------------------------------

    def _evaluate(self, agreement: Agreement, standing: Standing) -> Standing:
        """The owners' private estimates of the model's error on their own records, where the terms have them."""
        alone = agreement.run.topology is not None  # then every node has a model of its own
        calls = {}
        for agent, name in enumerate(agreement.owners):
            if self._there(name):
                model = standing.released[agent : agent + 1] if alone else standing.model
                given = {"run": self.name, "digest": agreement.digest, "step": EVALUATION, "missed": {}}
                calls[name] = {**given, "inputs": to_bytes(model)}
        found = self._ask("answer", calls)
        estimates = np.full(len(agreement.owners), np.nan)
        for name, reply in found.items():
            try:
                estimates[agreement.owners.index(name)] = release_in(reply, 1, COUNT)[0][0, 0]
            except Nonsense as nonsense:
                raise ClusterError(f"{name}, evaluation: {reply.get('refused', nonsense)}.") from None
        if np.isnan(estimates).any() and agreement.missing == WAIT:
            raise Interrupted("not all owners have estimated their error")
        return replace(standing, estimates=estimates[~np.isnan(estimates)])

    def _close(self, agreement: Agreement) -> None:
        """For owners that were not told yet; those that were refuse to join again."""
        calls = {name: {"run": self.name, "terms": agreement.dumps(), "seen": None} for name in agreement.owners}
        self._ask("join", {name: call for name, call in calls.items() if name in self.line.present})
        self._finish(agreement)

    def _finish(self, agreement: Agreement) -> None:
        """Lets the owners close the run; one that is away, or has closed it already, needs no telling."""
        self._ask("finish", {name: {"run": self.name} for name in agreement.owners if self._there(name)})
        self.folder.tell("finished", round=agreement.plan().setting.rounds)

    def _warnings(self) -> tuple[str, ...]:
        if not self._rehearsal:
            return ()
        return ("this was a rehearsal: at least one owner's noise is seeded and protects nobody.",)

    # -- asking ----------------------------------------------------------------------------------------------------

    def _ask(self, method: str, calls: Mapping[str, Mapping[str, Any]]) -> Replies:
        if not calls:
            return {}
        replies = self.line.ask(method, calls, self._terms.patience)
        self._lost |= calls.keys() - replies.keys()
        return {name: reply if isinstance(reply, Mapping) else {} for name, reply in replies.items()}

    def _there(self, name: str) -> bool:
        return name in self.line.present and name not in self._lost and name not in self._barred

    def _refuse_any(self, replies: Replies) -> None:
        said = [f"{name}: {reply['refused']}" for name, reply in replies.items() if "refused" in reply]
        if said:
            raise Refused("; ".join(said))
