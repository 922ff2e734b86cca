"""Owners on a graph, each with its own agent, policy and ledger, and no server.

A node is asked with the mean of its neighbours' last releases and with nothing else. Each keeps its own books, and a
release that was made once can be had again, at no cost. So after a crash the nodes go on from the lowest round that all
of them have; those that were ahead answer what they answered before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.perturbations.base import Release
from dpadmm.admm.rounds import begin
from dpadmm.admm.topology.graph import Topology
from dpadmm.errors import ClusterError, InputError, Refused
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.request import Request


class Node(Protocol):
    """What the others see of an owner: an `Agent`, or something that speaks for one far away."""

    def join(self, run: str, agreement: Agreement) -> None: ...

    def rounds_answered(self, run: str) -> int: ...

    def repeat(self, run: str, round: int) -> Release: ...

    def answer(self, request: Request) -> Release: ...


class Peers:
    """A run among nodes, in the order of the agreement's agents."""

    def __init__(self, run: str, agreement: Agreement, nodes: Sequence[Node], names: Sequence[str] = ()) -> None:
        self.plan: Plan = agreement.plan()
        if self.plan.setting.graph is None:
            raise InputError(f"algorithm {agreement.run.algorithm!r} has a server; peers need one for graphs.")
        if len(nodes) != self.plan.setting.agents:
            raise InputError(f"{len(nodes)} nodes for terms of {self.plan.setting.agents} agents.")
        self.graph: Topology = self.plan.setting.graph
        self.names = tuple(names) or tuple(f"node {i}" for i in range(len(nodes)))
        self._run, self._agreement, self._nodes = run, agreement, nodes

    def join(self) -> int:
        """All agree to the run, or take it up again; the lowest round that all of them have."""
        for i, node in enumerate(self._nodes):
            try:
                node.join(self._run, self._agreement)
            except Refused as refused:
                raise Refused(f"{self.names[i]} does not take part: {refused}") from None
            except OSError as error:
                raise ClusterError(f"{self.names[i]} cannot be reached ({error}); the run waits for it.") from error
        return min(node.rounds_answered(self._run) for node in self._nodes)

    def rounds(self) -> Iterator[FloatArray]:
        """What all nodes have released, (n, D), after each round that was left to do."""
        done = self.join()
        released = self.released(done)
        for round in range(done + 1, self.plan.setting.rounds + 1):
            heard = self.graph.means(released)
            released = np.concatenate([self._ask(i, round, heard[i : i + 1]) for i in range(len(self._nodes))])
            yield released

    def released(self, round: int) -> FloatArray:
        """What the nodes released in a round that all of them have; before round one, where they begin."""
        if round == 0:
            return begin(self.plan).released
        return np.concatenate([node.repeat(self._run, round).value for node in self._nodes])

    def _ask(self, node: int, round: int, heard: FloatArray) -> FloatArray:
        request = Request(self._run, self._agreement.digest, round, heard)
        try:
            return self._nodes[node].answer(request).value
        except (Refused, OSError) as error:
            near = ", ".join(self.names[j] for j in self.graph.neighbours(node))
            raise ClusterError(
                f"{self.names[node]} has left in round {round} ({error}): its neighbours {near} cannot go on without "
                f"its release. When it is back, the run goes on from its last round; to do without it, agree on a new "
                f"run over a graph that is connected without it."
            ) from error
