"""All agents in this process, as one `Agent` of the whole cohort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.base import Release
from dpadmm.admm.rounds import AgentState
from dpadmm.engine.executors.base import RUN, Reading, look
from dpadmm.owner.request import Request

if TYPE_CHECKING:
    from dpadmm.engine.loop import Cohort, State


class InProcessExecutor:
    """All agents as one, here."""

    def __init__(self, cohort: Cohort, state: State) -> None:
        self._agent = cohort.agent(state)
        self._problem, self._shards = cohort.plan.setting.problem, cohort.shards

    def answer(self, request: Request) -> Release:
        return self._agent.answer(request)

    def state(self) -> AgentState:
        return self._agent.state(RUN)

    def look(self, readings: Sequence[Reading]) -> list[FloatArray]:
        return look(self._problem, self._shards, readings)

    def close(self) -> None:
        """There is nothing to end."""


class Local:
    """The engine that is always there: this process."""

    def start(self) -> None:
        """There is nothing to begin."""

    def executor(self, cohort: Cohort, state: State) -> InProcessExecutor:
        return InProcessExecutor(cohort, state)

    def close(self) -> None:
        """There is nothing to end."""
