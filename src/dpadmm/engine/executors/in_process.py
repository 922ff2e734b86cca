"""All agents in this process, as one `Agent` of the whole cohort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.base import Release
from dpadmm.admm.rounds import AgentState
from dpadmm.engine.cohort import RUN, Cohort, SimulationState
from dpadmm.engine.executor import Reading, read_records
from dpadmm.owner.request import Request


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
