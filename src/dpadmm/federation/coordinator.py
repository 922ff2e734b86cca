"""The coordinator's half of a run: it holds no records, asks the owners, combines what they release, writes it down.

How messages travel is the line's business: FLARE's in a federation, a function call in a test. What arrives is checked
before it is used, and whoever sent nonsense is named. A round in which somebody does not answer ends the job (`wait`),
or goes on with its last release (`stale`) or without it (`drop`), as the terms say.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._threads import one_thread_pool
from dpadmm.admm.algorithm import Plan
from dpadmm.engine.output.history import History
from dpadmm.errors import ClusterError, InputError, Refused
from dpadmm.federation.gauge import Gauge
from dpadmm.federation.joining import Assembly, Interrupted, Line, Replies
from dpadmm.federation.messages import Nonsense, longest_release, release_in, to_bytes
from dpadmm.federation.runs import RunFolder
from dpadmm.federation.standing import Standing
from dpadmm.federation.walking import together
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.request import EVALUATION
from dpadmm.spec.declare import WAIT

GLANCE = 0.25  # seconds between words on how far a run is, and between looks at nodes that walk
LARGEST_ESTIMATE = 1e9  # of an error, with its noise


class Coordinator:
    """One job of one run."""

    def __init__(self, name: str, folder: RunFolder, line: Line) -> None:
        self.name, self.folder = name, folder
        self._experiment = folder.experiment
        self._terms = self._experiment.federation
        self._owners = Assembly(name, folder, line)
        self._told = 0.0  # when the status was last written

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
        self.folder.tell(state, message, seconds=time.monotonic() - began, lost=sorted(self._owners.lost))

    def _run(self) -> None:
        known = self.folder.agreement()
        if known is not None and self.folder.finished:  # and a job before this one was lost while it said so
            self._close(known)
            return
        self.folder.tell("joining")
        agreement = self._owners.agreement()
        plan = agreement.plan()
        standing, history = self.folder.standing(plan, agreement.digest)
        gauge = Gauge(agreement, plan, self.folder.schema, self._terms.public_test)
        began = time.monotonic()
        self._owners.join(agreement, standing)
        if agreement.run.topology is None:
            standing = self._rounds(agreement, plan, standing, history, gauge)
        else:
            standing = self._walk(agreement, plan, history, gauge)
        if plan.evaluation is not None and standing.estimates is None:
            standing = self._evaluate(agreement, standing)
            self.folder.keep(agreement.digest, standing, history)
        facts = {"seconds": time.monotonic() - began, "simulated": self._owners.rehearsal, "warnings": self._warnings()}
        self.folder.finish(agreement, plan, standing, history, facts)
        self._finish(agreement)

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
        self.folder.keep(agreement.digest, standing, history, durable=last or agreement.missing != WAIT)
        if not last and time.monotonic() - self._told < GLANCE:
            return
        self._told = time.monotonic()
        absent = [agreement.owners[agent] for agent in standing.missed.get(standing.round, ())]
        silent = [name for name in absent if name not in self._owners.barred]
        self.folder.tell("running", round=standing.round, rounds=gauge.rounds, missing=absent, silent=silent)

    def _round(self, agreement: Agreement, plan: Plan, standing: Standing) -> dict[int, tuple[FloatArray, Any]]:
        """The releases of one round, by owner; those that were not given or cannot be are missing."""
        round, inputs = standing.round + 1, to_bytes(standing.server.common)
        calls = {}
        for agent, name in enumerate(agreement.owners):
            if self._owners.there(name):
                # Where nobody may be missing, an owner that is ahead repeats what it has answered.
                reached = 0 if agreement.missing == WAIT else self._owners.reached.pop(name, 0)
                missed = {str(k): to_bytes(row) for k, row in standing.missed_by(agent, reached).items()}
                given = {"run": self.name, "digest": agreement.digest, "step": round, "inputs": inputs}
                calls[name] = {**given, "missed": missed, "counted": standing.counted(agent, reached)}
        replies = self._owners.ask("answer", calls)
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
                self._owners.barred.add(name)
                self.folder.note(f"{name}, round {round}: {nonsense}")
        if agreement.missing == WAIT and len(found) < len(agreement.owners):
            absent = [name for agent, name in enumerate(agreement.owners) if agent not in found]
            raise Interrupted(f"{', '.join(absent)} did not answer in round {round}")
        if len(found) < min(self._terms.least, len(agreement.owners)):
            raise Interrupted(f"{len(found)} of {len(agreement.owners)} owners answered in round {round}")
        return found

    # -- without one -----------------------------------------------------------------------------------------------

    def _walk(self, agreement: Agreement, plan: Plan, history: History, gauge: Gauge) -> Standing:
        """The nodes walk all rounds by themselves, from the lowest that all of them have; what they end with."""
        reached = self._owners.reached
        if len(reached) < len(agreement.owners):
            raise Interrupted("on a graph all owners must be there")
        start, rounds = min(reached.values(), default=0), plan.setting.rounds
        self.folder.tell("running", round=start, rounds=rounds)
        given = {"run": self.name, "digest": agreement.digest, "start": start, "patience": self._terms.patience}
        names = agreement.owners
        replies = self._owners.ask("walk", dict.fromkeys(names, given))
        while True:
            self._interrupt_if_any_left(names, replies)
            if all("value" in reply for reply in replies.values()):
                break
            time.sleep(GLANCE)
            replies = self._owners.ask("walked", {name: {"run": self.name} for name in names})
            least = min((reply["round"] for reply in replies.values() if type(reply.get("round")) is int), default=None)
            if least is not None:
                self.folder.tell("running", round=least, rounds=rounds)
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

    def _interrupt_if_any_left(self, names: tuple[str, ...], replies: Replies) -> None:
        """A walk needs everybody: one that stopped has a reason, and one that is silent has left."""
        for name, reply in replies.items():
            if "refused" in reply:
                raise Interrupted(f"{name}: {reply['refused']}")
        absent = [name for name in names if name not in replies]
        if absent:
            raise Interrupted(f"{', '.join(absent)} did not answer")

    # -- after the rounds ------------------------------------------------------------------------------------------

    def _evaluate(self, agreement: Agreement, standing: Standing) -> Standing:
        """The owners' private estimates of the model's error on their own records, where the terms have them."""
        alone = agreement.run.topology is not None  # then every node has a model of its own
        calls = {}
        for agent, name in enumerate(agreement.owners):
            if self._owners.there(name):
                model = standing.released[agent : agent + 1] if alone else standing.model
                given = {"run": self.name, "digest": agreement.digest, "step": EVALUATION, "counted": None}
                calls[name] = {**given, "missed": dict[str, bytes](), "inputs": to_bytes(model)}
        found = self._owners.ask("answer", calls)
        estimates = np.full(len(agreement.owners), np.nan)
        for name, reply in found.items():
            try:
                estimates[agreement.owners.index(name)] = release_in(reply, 1, LARGEST_ESTIMATE)[0][0, 0]
            except Nonsense as nonsense:
                raise ClusterError(f"{name}, evaluation: {reply.get('refused', nonsense)}.") from None
        if np.isnan(estimates).any() and agreement.missing == WAIT:
            raise Interrupted("not all owners have estimated their error")
        return replace(standing, estimates=estimates[~np.isnan(estimates)])

    def _close(self, agreement: Agreement) -> None:
        """For owners that were not told yet; those that were refuse to join again."""
        calls = {name: {"run": self.name, "terms": agreement.dumps(), "seen": None} for name in agreement.owners}
        self._owners.ask("join", {name: call for name, call in calls.items() if self._owners.there(name)})
        self._finish(agreement)

    def _finish(self, agreement: Agreement) -> None:
        """Lets the owners close the run; one that is away, or has closed it already, needs no telling."""
        self._owners.ask("finish", {name: {"run": self.name} for name in agreement.owners if self._owners.there(name)})
        self.folder.tell("finished", round=agreement.plan().setting.rounds)

    def _warnings(self) -> tuple[str, ...]:
        if not self._owners.rehearsal:
            return ()
        return ("this was a rehearsal: at least one owner's noise is seeded and protects nobody.",)
