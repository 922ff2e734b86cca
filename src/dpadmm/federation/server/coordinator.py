"""The coordinator's half of a run: it holds no records, asks the owners, combines what they release, writes it down.

How messages travel is the transport's business: gRPC's in a federation, a function call in a test. What arrives is
checked before it is used, and whoever sent something that cannot be a release is named. A round in which an owner does
not answer ends the job (`wait`), or goes on with its last release (`reuse`) or without it (`skip`), as the terms say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from dpadmm._threads import one_thread_pool
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.state import State
from dpadmm.engine.output.history import History
from dpadmm.errors import ClusterError, InputError, Refused
from dpadmm.federation.cards import Card
from dpadmm.federation.messages import InvalidRelease, longest_release, to_bytes
from dpadmm.federation.seals import to_lists
from dpadmm.federation.server.enrolment import Interrupted, Owners, Replies, Transport
from dpadmm.federation.server.metrics import CoordinatorMetrics
from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.federation.server.state import CoordinatorState, SignedRelease
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.request import EVALUATION
from dpadmm.spec.declare import WAIT

GLANCE = 0.25  # seconds between words on how far a run is, and between looks at peers under way
LARGEST_ESTIMATE = 1e9  # of an error, with its noise


class Coordinator:
    """One job of one run."""

    def __init__(
        self, name: str, folder: RunFolder, transport: Transport, pins: Callable[[], Mapping[str, Card]]
    ) -> None:
        self.name, self.folder = name, folder
        self._experiment = folder.experiment
        self._terms = self._experiment.federation
        self._transport, self._pins = transport, pins
        self._owners = Owners(name, folder, transport, {})
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
        before = self.folder.status()
        known = {"round": before.get("round"), "rounds": before.get("rounds")}
        self.folder.tell(state, message, seconds=time.monotonic() - began, lost=sorted(self._owners.lost), **known)

    def _run(self) -> None:
        self._owners = Owners(self.name, self.folder, self._transport, self._pins())
        known = self.folder.agreement()
        if known is not None and self.folder.finished:  # and a job before this one was lost while it said so
            self._close(known)
            return
        before = self.folder.status()
        self.folder.tell("joining", round=before.get("round"), rounds=before.get("rounds"))
        agreement = self._owners.agreement()
        plan = agreement.plan()
        state, history = self.folder.state(plan, agreement.digest)
        self._owners.check_kept(agreement, state)
        metrics = CoordinatorMetrics(agreement, plan, self.folder.schema, self._terms.public_test)
        began = time.monotonic()
        self._owners.join(agreement, state)
        if agreement.run.topology is None:
            state = self._rounds(agreement, plan, state, history, metrics)
        else:
            state = self._run_rounds(agreement, plan, history, metrics)
        if plan.evaluation is not None and state.estimates is None:
            state = self._collect_estimates(agreement, state)
            self.folder.keep(agreement.digest, state, history)
        facts = {"seconds": time.monotonic() - began, "simulated": self._owners.dry_run, "warnings": self._warnings()}
        self.folder.finish(agreement, plan, state, history, facts)
        self._finish(agreement)

    # -- with a server ---------------------------------------------------------------------------------------------

    def _rounds(
        self, agreement: Agreement, plan: Plan, state: CoordinatorState, history: History, metrics: CoordinatorMetrics
    ) -> CoordinatorState:
        """All rounds that are left. What is measured and written down is so while the next round is under way, where
        the owners would answer that round alike again; where owners may be absent, they might not."""
        with ThreadPoolExecutor(1) as scribe:
            written: Future[None] | None = None
            while state.round < plan.setting.rounds:
                found = self._collect(agreement, plan, state)
                state = state.after_round(plan, agreement.stragglers, found)
                if written is not None:
                    written.result()
                written = scribe.submit(self._write, agreement, state, history, metrics)
                if agreement.stragglers != WAIT:
                    written.result()
                    if self.folder.asked_to_pause:
                        self.folder.pause(False)
                        raise Interrupted("an owner is back")
            if written is not None:
                written.result()
        return state

    def _write(
        self, agreement: Agreement, state: CoordinatorState, history: History, metrics: CoordinatorMetrics
    ) -> None:
        last = state.round == metrics.rounds
        if last or state.round % self._experiment.simulation.measure_every == 0:
            history.add(state.round, metrics.measure(state))
        self.folder.keep(agreement.digest, state, history, durable=last or agreement.stragglers != WAIT)
        if not last and time.monotonic() - self._told < GLANCE:
            return
        self._told = time.monotonic()
        absent = [agreement.owners[agent] for agent in state.absent.get(state.round, ())]
        silent = [name for name in absent if name not in self._owners.barred]
        self.folder.seals.keep(self.name, dict(zip(agreement.owners, state.seals, strict=True)))
        self.folder.tell("running", round=state.round, rounds=metrics.rounds, absent=absent, silent=silent)

    def _collect(self, agreement: Agreement, plan: Plan, state: CoordinatorState) -> dict[int, SignedRelease]:
        """The releases of one round, by owner; those that were not given or cannot be are missing."""
        round, inputs = state.round + 1, to_bytes(state.shared.server.common)
        calls = {}
        for agent, name in enumerate(agreement.owners):
            if self._owners.there(name):
                # Where nobody may be missing, an owner that is ahead repeats what it has answered.
                answered = 0 if agreement.stragglers == WAIT else self._owners.rounds_answered.pop(name, 0)
                missed = {str(k): to_bytes(row) for k, row in state.inputs_missed_by(agent, answered).items()}
                given = {"run": self.name, "digest": agreement.digest, "step": round, "inputs": inputs}
                calls[name] = {**given, "missed_inputs": missed, "last_used": state.last_used(agent, answered)}
        replies = self._owners.call("answer_step", calls)
        longest = longest_release(plan, state.shared.server.common, state.shared.released[0], round)
        found: dict[int, SignedRelease] = {}
        for name, reply in replies.items():
            try:
                released = self._owners.release_in(agreement, name, reply, round, plan.setting.dimension, longest)
                found[agreement.owners.index(name)] = released
            except InvalidRelease as nonsense:
                if agreement.stragglers == WAIT:
                    raise ClusterError(f"{name}, round {round}: {nonsense}.") from None
                self._owners.barred.add(name)
                self.folder.note(f"{name}, round {round}: {nonsense}")
        if agreement.stragglers == WAIT and len(found) < len(agreement.owners):
            absent = [name for agent, name in enumerate(agreement.owners) if agent not in found]
            raise Interrupted(f"{', '.join(absent)} did not answer in round {round}")
        if len(found) < min(self._terms.min_owners, len(agreement.owners)):
            raise Interrupted(f"{len(found)} of {len(agreement.owners)} owners answered in round {round}")
        return found

    # -- without one -----------------------------------------------------------------------------------------------

    def _run_rounds(
        self, agreement: Agreement, plan: Plan, history: History, metrics: CoordinatorMetrics
    ) -> CoordinatorState:
        """The peers run all rounds by themselves, from the lowest that all have answered; what they end with."""
        answered = self._owners.rounds_answered
        if len(answered) < len(agreement.owners):
            raise Interrupted("on a graph all owners must be there")
        start, rounds = min(answered.values(), default=0), plan.setting.rounds
        self.folder.tell("running", round=start, rounds=rounds)
        given = {"run": self.name, "digest": agreement.digest, "start": start, "timeout": self._terms.timeout}
        names = agreement.owners
        replies = self._owners.call("run_rounds", dict.fromkeys(names, given))
        while True:
            self._interrupt_if_any_left(names, replies)
            if all("value" in reply for reply in replies.values()):
                break
            time.sleep(GLANCE)
            replies = self._owners.call("rounds_status", {name: {"run": self.name} for name in names})
            least = min((reply["round"] for reply in replies.values() if type(reply.get("round")) is int), default=None)
            if least is not None:
                self.folder.tell("running", round=least, rounds=rounds)
        rows = []
        begun = CoordinatorState.of(plan)
        first = begun.shared.released[0]
        longest = longest_release(plan, first, first, rounds)
        for name in agreement.owners:
            try:
                reply, dimension = replies[name], plan.setting.dimension
                rows.append(self._owners.release_in(agreement, name, reply, rounds, dimension, longest)[0])
            except InvalidRelease as nonsense:
                raise ClusterError(f"{name}: {nonsense}.") from None
        released = np.concatenate(list(rows))[None]  # (1, n, D)
        server = begun.shared.server
        model = plan.algorithm.consensus.model(server, released)
        state = replace(begun, shared=State(rounds, server, model, model, released))
        if rounds not in history.rounds:  # it is, where a job before this one was lost after its evaluation
            history.add(rounds, metrics.measure(state), metrics.of_nodes(state))
        return state

    def _interrupt_if_any_left(self, names: tuple[str, ...], replies: Replies) -> None:
        """On a graph everybody is needed: a peer that stopped gives a reason, one that is silent has left."""
        for name, reply in replies.items():
            if "refused" in reply:
                raise Interrupted(f"{name}: {reply['refused']}")
        absent = [name for name in names if name not in replies]
        if absent:
            raise Interrupted(f"{', '.join(absent)} did not answer")

    # -- after the rounds ------------------------------------------------------------------------------------------

    def _collect_estimates(self, agreement: Agreement, state: CoordinatorState) -> CoordinatorState:
        """The owners' private estimates of the model's error on their own records, where the terms have them."""
        alone = agreement.run.topology is not None  # then every node has a model of its own
        calls = {}
        for agent, name in enumerate(agreement.owners):
            if self._owners.there(name):
                model = state.shared.released[0, agent : agent + 1] if alone else state.shared.model
                given = {"run": self.name, "digest": agreement.digest, "step": EVALUATION, "last_used": None}
                calls[name] = {**given, "missed_inputs": dict[str, bytes](), "inputs": to_bytes(model)}
        found = self._owners.call("answer_step", calls)
        estimates = np.full(len(agreement.owners), np.nan)
        for name, reply in found.items():
            try:
                value, *_ = self._owners.release_in(agreement, name, reply, EVALUATION, 1, LARGEST_ESTIMATE)
                estimates[agreement.owners.index(name)] = value[0, 0]
            except InvalidRelease as nonsense:
                raise ClusterError(f"{name}, evaluation: {reply.get('refused', nonsense)}.") from None
        if np.isnan(estimates).any() and agreement.stragglers == WAIT:
            raise Interrupted("not all owners have estimated their error")
        return replace(state, estimates=estimates[~np.isnan(estimates)])

    def _close(self, agreement: Agreement) -> None:
        """For owners that were not told yet; those that were refuse to join again."""
        given: dict[str, Any] = {"run": self.name, "terms": agreement.dumps(), "seen": None, "known": []}
        calls: dict[str, dict[str, Any]] = dict.fromkeys(agreement.owners, given)
        self._owners.call("join", {name: call for name, call in calls.items() if self._owners.there(name)})
        self._finish(agreement)

    def _finish(self, agreement: Agreement) -> None:
        """Lets the owners close the run; one that is away, or has closed it already, needs no telling."""
        given = {"run": self.name, "seals": to_lists(self.folder.seals.of(agreement.owners))}
        self._owners.call("finish", {name: given for name in agreement.owners if self._owners.there(name)})
        self.folder.tell("finished", round=agreement.plan().setting.rounds)

    def _warnings(self) -> tuple[str, ...]:
        if not self._owners.dry_run:
            return ()
        return ("this was a dry_run: at least one owner's noise is seeded and protects nobody.",)
