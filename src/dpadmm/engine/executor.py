"""Who does the agents' work in a run: this process, or others.

An `Executor` has all agents of a cohort, wherever they are. It collects their releases as one `Agent` of the whole
cohort would answer, says where the agents stand, and reads records where they lie: losses without noise are asked of
it, so that no record travels to whoever measures. What agents compute does not depend on it. The loop over rounds
(`loop`) and the executors (`executors`) know this interface, and not each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.base import Release
from dpadmm.admm.rounds import AgentState
from dpadmm.engine.cohort import RUN, Cohort, SimulationState
from dpadmm.owner.request import Request
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import Shards


@dataclass(frozen=True, eq=False)
class Broadcast:
    """What all agents of a run have in common, one row per run: it is written out where it is read."""

    common: FloatArray

    def rows(self, count: int) -> FloatArray:
        return np.repeat(self.common, count // len(self.common), axis=0)


Reading = tuple[Callable[..., FloatArray], tuple[Any, ...]]
"""A metric of (problem, shards, ...), one number per agent, and what else it needs; arrays have one row per agent."""


def read_records(problem: Problem, shards: Shards, readings: Sequence[Reading]) -> list[FloatArray]:
    """What the metrics say of these agents."""
    count = shards.agents
    return [
        metric(problem, shards, *(a.rows(count) if isinstance(a, Broadcast) else a for a in arguments))
        for metric, arguments in readings
    ]


class Executor(Protocol):
    """Where agents work. Entering it starts what they work on, once for all cohorts; leaving it ends that."""

    def __enter__(self) -> Self:
        """Gets ready, so that what follows is the run and nothing else."""

    def __exit__(self, *error: object) -> None:
        """Lets the agents go, with all that is theirs, and ends what was started."""

    def place(self, cohort: Cohort, state: SimulationState) -> None:
        """Takes in a cohort's agents, standing where `state` says; those of a cohort before are let go."""

    def collect(self, request: Request) -> Release:
        """All agents' answers, one row and one event each; afterwards the agents stand a round further."""

    def agent_states(self) -> AgentState:
        """Where the agents stand."""

    def read(self, readings: Sequence[Reading]) -> list[FloatArray]:
        """Metrics that need records: for simulations only."""


class InProcessExecutor:
    """All agents as one, here; there is nothing to start."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """There is nothing to end."""

    def place(self, cohort: Cohort, state: SimulationState) -> None:
        self._agent = cohort.whole.agent(state.agents, state.round)
        self._problem, self._shards = cohort.plan.setting.problem, cohort.shards

    def collect(self, request: Request) -> Release:
        return self._agent.answer(request)

    def agent_states(self) -> AgentState:
        return self._agent.state(RUN)

    def read(self, readings: Sequence[Reading]) -> list[FloatArray]:
        return read_records(self._problem, self._shards, readings)
