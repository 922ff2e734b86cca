"""Who does the agents' work: this process, or others. The loop over rounds is the same.

An `Executor` has all agents of a cohort, wherever they are. It answers a request as one `Agent` of the whole cohort
would, says where the agents stand, and reads records where they lie: losses without noise are asked of it, so that no
record travels to whoever measures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.base import Release
from dpadmm.admm.rounds import AgentState
from dpadmm.owner.request import Request
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import Shards

if TYPE_CHECKING:
    from dpadmm.engine.loop import Cohort, State

RUN = "simulation"


@dataclass(frozen=True, eq=False)
class Broadcast:
    """What all agents of a run have in common, one row per run: it is written out where it is read."""

    common: FloatArray

    def rows(self, count: int) -> FloatArray:
        return np.repeat(self.common, count // len(self.common), axis=0)


Reading = tuple[Callable[..., FloatArray], tuple[Any, ...]]
"""A metric of (problem, shards, ...), one number per agent, and what else it needs; arrays have one row per agent."""


def look(problem: Problem, shards: Shards, readings: Sequence[Reading]) -> list[FloatArray]:
    """What the metrics say of these agents."""
    count = shards.agents
    return [
        metric(problem, shards, *(a.rows(count) if isinstance(a, Broadcast) else a for a in arguments))
        for metric, arguments in readings
    ]


class Executor(Protocol):
    """The agents of a cohort."""

    def answer(self, request: Request) -> Release:
        """One row and one event per agent; afterwards the agents stand a round further."""

    def state(self) -> AgentState:
        """Where they stand."""

    def look(self, readings: Sequence[Reading]) -> list[FloatArray]:
        """Metrics that need records: for simulations only."""

    def close(self) -> None:
        """Lets the agents go; nothing of theirs is kept."""


class Engine(Protocol):
    """Where agents can be put to work."""

    def start(self) -> None:
        """Gets ready, so that what follows is the run and nothing else."""

    def executor(self, cohort: Cohort, state: State) -> Executor:
        """The cohort's agents, standing where `state` says."""

    def close(self) -> None:
        """Ends what `start` began."""
