"""Owners on a graph in one process: real agents, policies and ledgers, and a thread for the rounds of each node.

The agents work in the thread of the test, which their ledgers belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import owners as sample
from ledgers import amount

from dpadmm.admm.perturbations.base import Release
from dpadmm.errors import Refused
from dpadmm.federation.client.peer import Inbox, Peer, Turns
from dpadmm.owner.agent import Agent
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.request import Request
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.problems.shards import Shards, gather

WIDTH = 3
GLANCE = 0.01  # seconds between looks at whether any node can go on


def table(owner: int, count: int, variant: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Made-up records of an owner; another variant has others."""
    draw = np.random.default_rng((owner, variant))
    features = draw.normal(size=(count, WIDTH))
    return features, np.where(features @ [1.0, 2.0, 3.0] + draw.normal(size=count) > 0, 1.0, -1.0)


def owned(owner: int, count: int, variant: int = 0) -> Shards:
    features, targets = table(owner, count, variant)
    return gather(features, targets, np.zeros(count, dtype=np.int64), norm_bound=1.0, names=[f"owner {owner}"])


def pooled(counts: Sequence[int]) -> Shards:
    """The same records, as a simulation has them."""
    tables = [table(owner, count) for owner, count in enumerate(counts)]
    owner = np.repeat(np.arange(len(counts)), counts)
    names = [f"owner {i}" for i in range(len(counts))]
    features, targets = (np.concatenate(part) for part in zip(*tables, strict=True))
    return gather(features, targets, owner, norm_bound=1.0, names=names)


class Watched:
    """An agent that keeps what it was asked and what it gave, and that can be made to fail in a round."""

    def __init__(self, agent: Agent, fails: dict[int, Exception] | None = None) -> None:
        self.agent, self.fails = agent, fails or {}
        self.asked: list[Request] = []
        self.gave: list[np.ndarray] = []
        self.spent: list[float] = []  # epsilon after each round
        self.others: list[tuple[Any, ...]] = []

    def join(self, run: str, agreement: Agreement) -> None:
        self.others.append(("join", run, agreement))
        self.agent.join(run, agreement)

    def rounds_answered(self, run: str) -> int:
        self.others.append(("rounds_answered", run))
        return self.agent.rounds_answered(run)

    def repeat(self, run: str, round: int) -> Release:
        self.others.append(("repeat", run, round))
        return self.agent.repeat(run, round)

    def answer(self, request: Request) -> Release:
        self.asked.append(request)
        if request.step in self.fails:
            raise self.fails[request.step]
        release = self.agent.answer(request)
        self.gave.append(release.value)
        self.spent.append(amount(self.agent.ledger))
        return release


@dataclass
class Job:
    """One attempt at a run: where all began, what each node released by round, and how each ended."""

    start: int
    gave: list[dict[int, np.ndarray]]
    ends: list[Release | Exception] = field(default_factory=list)

    @property
    def released(self) -> np.ndarray:
        """What all nodes have released, (rounds, n, D), in the rounds after the start that all of them have."""
        last = min(max(rounds, default=0) for rounds in self.gave)
        return np.array([[rounds[k] for rounds in self.gave] for k in range(self.start + 1, last + 1)])


class GraphOwners:
    """The owners of a graph, with their ledgers in a folder; asked for agents, it makes those of fresh processes."""

    def __init__(self, folder: Path, terms: Agreement) -> None:
        self.folder, self.terms = folder, terms
        folder.mkdir(exist_ok=True)

    def agent(self, owner: int, randomness: Any = None, variant: int = 0, **policy: Any) -> Agent:
        return Agent(
            owned(owner, self.terms.counts[owner], variant),
            sample.policy(**policy),
            self.ledger(owner),
            randomness or sample.Repeatable(),
            members=(owner,),
        )

    def agents(self, randomness: Any = None) -> list[Agent]:
        return [self.agent(owner, randomness) for owner in range(len(self.terms.counts))]

    def ledger(self, owner: int) -> SqliteLedger:
        return sample.ledger(self.folder / f"{owner}.ledger")

    def debits(self) -> list[list[str]]:
        """The steps that each owner has paid for, in order."""
        owners = range(len(self.terms.counts))
        return [[e["step"] for e in self.ledger(i).entries() if e["kind"] == "debit"] for i in owners]

    def join(self, nodes: Sequence[Any]) -> int:
        """All agree to the run, or take it up again; the lowest round that all of them have."""
        for node in nodes:
            node.join("run", self.terms)
        return min(node.rounds_answered("run") for node in nodes)

    def run(self, nodes: Sequence[Any], until: int | None = None) -> Job:
        """All rounds that are left, or those up to `until`. Where a node fails, the others go as far as they can."""
        return run(self.terms, nodes, self.join(nodes), until)

    def released(self, nodes: Sequence[Any], until: int | None = None) -> np.ndarray:
        """What all nodes release in the rounds of a run that nothing disturbs, (rounds, n, D)."""
        job = self.run(nodes, until)
        for end in job.ends:
            if isinstance(end, Exception) and until is None:
                raise end
        return job.released


def run(terms: Agreement, nodes: Sequence[Any], start: int, until: int | None = None) -> Job:
    """`Peer.run_rounds` of all nodes at once."""
    inboxes = [_Inbox(name, terms) for name in terms.owners]
    job, calls, told = Job(start, [{} for _ in nodes]), _Calls(), []

    def rounds_of(place: int) -> Release | Exception:
        def tell(names: list[str], round: int, value: bytes) -> None:
            job.gave[place][round] = np.frombuffer(value)
            if until is not None and round >= until:
                raise OSError("the test ends here")
            for name in names:
                inboxes[terms.owners.index(name)].put(terms.owners[place], round, value)
                told.append((place, round))

        peer = Peer(terms.owners[place], "run", terms, nodes[place], inboxes[place], lambda: None)
        try:
            release = peer.run_rounds(start, tell, GLANCE, Turns(calls))  # type: ignore[arg-type]
        except Exception as error:
            return error
        job.gave[place][terms.run.rounds] = release.value[0]
        return release

    with ThreadPoolExecutor(len(nodes)) as threads:
        ends = [threads.submit(rounds_of, place) for place in range(len(nodes))]
        while not all(end.done() for end in ends):
            calls.work(GLANCE)
            # If nothing was told while all are found waiting, then nobody will ever be told anything.
            before = len(told)
            if all(end.done() or inbox.waits for end, inbox in zip(ends, inboxes, strict=True)) and len(told) == before:
                for inbox in inboxes:
                    inbox.hopeless = True
        job.ends = [end.result() for end in ends]
    return job


class _Inbox(Inbox):
    """Waits until no node can go on, however long that takes on a busy machine."""

    hopeless = False
    _sought: int | None = None

    @property
    def waits(self) -> bool:
        return self._sought is not None and len(self._kept.get(self._sought, {})) < len(self.neighbours)

    def wait(self, round: int, timeout: float) -> np.ndarray:
        self._sought = round
        try:
            while not self.hopeless:
                try:
                    return super().wait(round, timeout)
                except Refused:
                    continue
            return super().wait(round, 0.0)
        finally:
            self._sought = None


class _Calls:
    """What other threads submit is done by the one that calls `work`."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._queue.put((future, call))
        return future

    def work(self, seconds: float) -> None:
        """One call, or none if there is none for so long."""
        try:
            future, call = self._queue.get(timeout=seconds)
        except Empty:
            return
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)
