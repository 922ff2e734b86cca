"""What an attacker sees of a run: the victim's release of every round, and what it was an answer to.

All of it is public: broadcasts, releases, and duals, which are made of those. What a solver remembers for itself is not
in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.admm.algorithm import Phase, Plan
from dpadmm.admm.perturbations.base import Release
from dpadmm.admm.rounds import AgentState, absorb
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import evaluate, rounds
from dpadmm.owner.request import Request

EVALUATION = 0  # the round that stands for the estimate of an error, which is asked for after the last


@dataclass(frozen=True, eq=False)
class Message:
    """One round of some victims, a row each; `before` has taken in what was broadcast."""

    plan: Plan
    round: int
    before: AgentState
    common: FloatArray
    release: FloatArray

    @property
    def phase(self) -> Phase:
        return self.plan.algorithm.phases[self.plan.algorithm.phase(self.round)]

    def repeated(self, count: int) -> Message:
        """One victim's message, to be read `count` times."""
        rows = np.zeros(count, dtype=np.int64)
        before = self.phase.solver.start(self.before.released[rows])
        return replace(
            self,
            plan=self.plan.take(rows),
            before=AgentState(self.before.released[rows], self.before.dual[rows], before),
            common=self.common[rows],
            release=self.release[rows],
        )


class Listening(InProcessExecutor):
    """Keeps what the agents answered last. That is what leaves, whatever they remember of it."""

    def collect(self, request: Request) -> Release:
        self.heard = super().collect(request)
        return self.heard


def messages(cohort: Cohort, state: SimulationState, victims: IntArray) -> Iterator[Message]:
    """The messages of these rows of a cohort, round by round, while it runs."""
    plan, executor = cohort.rows.take(victims), Listening()
    for after in rounds(cohort, state, executor):
        phase = plan.algorithm.phases[plan.algorithm.phase(after.round)]
        common = _heard(cohort, state)[victims]
        released, slope = state.agents.released[victims], state.agents.slope
        known = AgentState(
            released,
            state.agents.dual[victims],
            phase.solver.start(released),
            None if slope is None else slope[victims],
        )
        before = absorb(plan, known, common, state.round)
        yield Message(plan, after.round, before, common, executor.heard.value[victims])
        state = after
    if plan.evaluation is not None:
        evaluate(cohort, state, executor)
        alone = plan.algorithm.consensus.decentralised  # then every node has a model of its own
        model = state.agents.released if alone else cohort.to_rows(state.shared.model)
        yield Message(plan, EVALUATION, before, model[victims], executor.heard.value[victims])


def _heard(cohort: Cohort, state: SimulationState) -> FloatArray:
    """What every agent heard last, a row each; on a graph that is so already."""
    common = state.shared.server.common
    return common if cohort.plan.algorithm.consensus.decentralised else cohort.to_rows(common)
