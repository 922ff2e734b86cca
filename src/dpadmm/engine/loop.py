"""The loop over rounds, which exists once: agents answer, wherever they work, and their releases are combined."""

from __future__ import annotations

from collections.abc import Iterator

from dpadmm._arrays import FloatArray
from dpadmm._threads import one_thread_pool
from dpadmm.admm.rounds import advance
from dpadmm.engine.cohort import RUN, Cohort, SimulationState
from dpadmm.engine.executor import Executor
from dpadmm.owner.request import EVALUATION, Request


def rounds(cohort: Cohort, state: SimulationState, executor: Executor) -> Iterator[SimulationState]:
    """The states after each remaining round, by agents that the executor takes in and keeps."""
    with one_thread_pool():
        executor.place(cohort, state)
        for _ in range(state.round, cohort.plan.setting.rounds):
            state = _after_round(cohort, executor, state)
            yield state


def _after_round(cohort: Cohort, executor: Executor, state: SimulationState) -> SimulationState:
    """One round: the agents answer what they heard last, and their releases are combined to what they hear next."""
    round = state.round + 1
    divisor = cohort.plan.algorithm.schedule.mean_divisor(round)
    release = executor.collect(Request(RUN, RUN, round, state.shared.server.common))
    return SimulationState(
        shared=advance(cohort.plan, state.shared, cohort.by_run(release.value)),
        agents=executor.agent_states(),
        mean_local=_mean(state.mean_local, release.value, divisor),
        mean_local_before=_mean(state.mean_local_before, state.agents.released, divisor),
    )


def evaluate(cohort: Cohort, state: SimulationState, executor: Executor) -> FloatArray:
    """The owners' private estimates of the error of the last model on their own records; (runs, agents).

    The executor has the cohort's agents already, as it has after `rounds`.
    """
    alone = cohort.plan.algorithm.consensus.decentralised  # then every node has a model of its own
    model = state.agents.released if alone else state.shared.model
    release = executor.collect(Request(RUN, RUN, EVALUATION, model))
    return cohort.by_run(release.value)[:, :, 0]


def _mean(before: FloatArray, value: FloatArray, divisor: float) -> FloatArray:
    return before + (value - before) / divisor
