"""A node's half of a run on a graph: it hears its neighbours, answers, and tells them; there is no server in it.

After a failure all nodes begin again at the lowest round that all of them have. Who was ahead answers what it answered
before, from its ledger and at no cost, because it hears what it heard before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.base import Release
from dpadmm.admm.rounds import begin
from dpadmm.errors import InputError, Refused
from dpadmm.federation.messages import InvalidRelease, longest_release, release_in, to_bytes
from dpadmm.owner.agent import Agent
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.request import Request

Tell = Callable[[list[str], int, bytes], None]
"""Sends a release of a round to these owners; raises `OSError` where one cannot be reached."""

_T = TypeVar("_T")


class Turns:
    """Lets an owner's agent work, one thing at a time and in one thread, which its ledger belongs to."""

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self._thread = thread

    def __call__(self, call: Callable[[], _T]) -> _T:
        return self._thread.submit(call).result()


class Inbox:
    """What the neighbours have released, by round, until it is used."""

    def __init__(self, name: str, agreement: Agreement) -> None:
        self.plan = agreement.plan()
        if self.plan.setting.graph is None:
            raise InputError(f"algorithm {agreement.run.algorithm!r} has a server, and no neighbours.")
        self.place = agreement.owners.index(name)
        self.neighbours = {agreement.owners[j]: int(j) for j in self.plan.setting.graph.neighbours(self.place)}
        self.round = 0  # how far the node itself is
        self._kept: dict[int, dict[str, FloatArray]] = {}
        self._changed = threading.Condition()

    def put(self, sender: str, round: Any, data: Any) -> None:
        """One release, if it can be one; the same again is no news, another in its place is refused."""
        if sender not in self.neighbours:
            raise Refused(f"{sender} is no neighbour here.")
        if type(round) is not int or not 1 <= round <= self.plan.setting.rounds:
            raise Refused("there is no such round.")
        dimension = self.plan.setting.dimension
        with self._changed:
            kept = self._kept.setdefault(round, {})
            others = np.concatenate([*kept.values(), np.zeros((1, dimension))])
            try:
                value, _ = release_in({"value": data}, dimension, longest_release(self.plan, others, others, round))
            except InvalidRelease as nonsense:
                raise Refused(f"{sender}, round {round}: {nonsense}.") from None
            if sender in kept and not np.array_equal(kept[sender], value):
                raise Refused(f"{sender} has told two different releases of round {round}.")
            kept[sender] = value
            self._changed.notify_all()

    def wait(self, round: int, timeout: float) -> FloatArray:
        """The neighbours' releases of a round, in a row for each node; rows of others are zero, and not read."""
        until = time.monotonic() + timeout
        with self._changed:
            while len(kept := self._kept.get(round, {})) < len(self.neighbours):
                left = until - time.monotonic()
                if left <= 0.0:
                    late = ", ".join(name for name in self.neighbours if name not in kept)
                    raise Refused(f"{late} did not tell its release of round {round} within {timeout:g} s.")
                self._changed.wait(left)
            rows = np.zeros((self.plan.setting.agents, self.plan.setting.dimension))
            for name, value in kept.items():
                rows[self.neighbours[name]] = value
            for old in [known for known in self._kept if known < round - 1]:
                del self._kept[old]
            return rows


class Peer:
    """One owner among its neighbours."""

    def __init__(
        self, name: str, run: str, agreement: Agreement, agent: Agent, inbox: Inbox, bind: Callable[[], None]
    ) -> None:
        self._name, self._run, self._agreement, self._agent, self._inbox = name, run, agreement, agent, inbox
        self._bind = bind  # holds the agent to the owner's policy of this moment

    def run_rounds(self, start: int, tell: Tell, timeout: float, turn: Turns) -> Release:
        """All rounds after `start`; the last release."""
        plan, inbox, graph = self._inbox.plan, self._inbox, self._inbox.plan.setting.graph
        assert graph is not None
        if not 0 <= start <= plan.setting.rounds:
            raise Refused("there is no such round.")
        release = turn(lambda: self._agent.repeat(self._run, start)) if start else None
        for round in range(start + 1, plan.setting.rounds + 1):
            if release is not None:
                self._tell(tell, round - 1, release.value)
            if release is None:
                heard = graph.means(begin(plan).released)
            else:
                told = inbox.wait(round - 1, timeout)
                heard = plan.algorithm.consensus.heard(plan.setting, told, plan.rho(round - 1))
            row = heard[inbox.place : inbox.place + 1]
            request = Request(self._run, self._agreement.digest, round, row)
            release = turn(lambda asked=request: self._answer(asked))  # type: ignore[misc]
            inbox.round = round
        if release is None:
            raise Refused("there are no rounds left.")
        return release

    def _answer(self, request: Request) -> Release:
        self._bind()
        return self._agent.answer(request)

    def _tell(self, tell: Tell, round: int, value: FloatArray) -> None:
        try:
            tell(list(self._inbox.neighbours), round, to_bytes(value))
        except OSError as error:
            raise Refused(f"a neighbour cannot be told the release of round {round} ({error}).") from None


class PeerRuns:
    """Runs on a graph that are under way in this process: one call starts one, other short calls ask about it."""

    def __init__(self) -> None:
        self._begun: dict[str, Future[dict[str, Any]]] = {}
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="peer")

    def begin(self, run: str, rounds: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        known = self._begun.get(run)
        if known is None or known.done():
            self._begun[run] = self._threads.submit(rounds)
        return {"running": run}

    def end(self, run: str) -> dict[str, Any] | None:
        """What the rounds of a run ended with; None while they go on."""
        known = self._begun.get(run)
        if known is None:
            return {"refused": "that run is not under way here."}
        return known.result() if known.done() else None
