"""The loop over rounds, which exists once.

A `Cohort` is all agents of some independent runs as one batch. Nothing in a round depends on which other runs or agents
share the batch, so any grouping gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from dpadmm.admm.algorithm import AgentState, Plan, absorb, answer, begin, combine
from dpadmm.privacy.randomness import IntArray, Randomness, WordArray
from dpadmm.problems.shards import FloatArray, Shards


@dataclass(frozen=True, eq=False)
class Cohort:
    """The agents of `runs` runs, one run after the other; `rows` is the plan with one row per agent and run."""

    plan: Plan
    rows: Plan
    shards: Shards
    runs: IntArray
    agents: IntArray
    randomness: Randomness

    @classmethod
    def of(cls, plan: Plan, shards: Shards, runs: Sequence[int], randomness: Randomness) -> Cohort:
        agents = np.tile(np.arange(shards.agents), len(runs))
        return cls(
            plan=plan,
            rows=plan.take(agents) if len(runs) > 1 else plan,
            shards=shards.tile(len(runs)),
            runs=np.repeat(np.asarray(runs, dtype=np.int64), shards.agents),
            agents=agents,
            randomness=randomness,
        )

    @property
    def size(self) -> int:
        """Agents of one run."""
        return self.plan.setting.agents

    def by_run(self, rows: FloatArray) -> FloatArray:
        """(runs * agents, ...) as (runs, agents, ...)."""
        return rows.reshape(-1, self.size, *rows.shape[1:])

    def to_rows(self, common: FloatArray) -> FloatArray:
        """What was broadcast in each run, one row per agent."""
        return np.repeat(common, self.size, axis=0)

    def words(self, round: int) -> Callable[[str, int], WordArray]:
        return lambda purpose, count: self.randomness.words(self.runs, self.agents, round, purpose, count)


@dataclass(frozen=True, eq=False)
class State:
    """Where a cohort stands after `round` rounds: broadcasts, agents, and the running means that metrics need."""

    round: int
    common: FloatArray  # (runs, D)
    agents: AgentState
    mean_common: FloatArray  # over rounds 1..k
    mean_local: FloatArray  # over rounds 1..k
    mean_local_before: FloatArray  # over rounds 0..k-1: where theorem 3's objective is evaluated


def start(cohort: Cohort) -> State:
    agents = begin(cohort.rows)
    runs = agents.released.shape[0] // cohort.size
    common, local = np.zeros((runs, agents.released.shape[1])), np.zeros_like(agents.released)
    return State(0, common, agents, common, local, local)


def step(cohort: Cohort, state: State) -> State:
    """One round: the agents answer, the server combines, the agents take the result in."""
    round = state.round + 1
    release, agents = answer(
        cohort.rows, state.agents, cohort.shards, cohort.to_rows(state.common), round, cohort.words(round)
    )
    common = combine(cohort.plan, state.common, cohort.by_run(release.value), round)
    return State(
        round=round,
        common=common,
        agents=absorb(cohort.rows, agents, cohort.to_rows(common), round),
        mean_common=_mean(state.mean_common, common, round),
        mean_local=_mean(state.mean_local, release.value, round),
        mean_local_before=_mean(state.mean_local_before, state.agents.released, round),
    )


def rounds(cohort: Cohort, state: State) -> Iterator[State]:
    """The states after each remaining round."""
    with one_thread_pool():
        for _ in range(state.round, cohort.plan.setting.rounds):
            state = step(cohort, state)
            yield state


@contextmanager
def one_thread_pool() -> Iterator[None]:
    """Threads belong to the compiled loops; BLAS called inside them must not start its own."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def _mean(before: FloatArray, value: FloatArray, count: int) -> FloatArray:
    return before + (value - before) / count


def without_memory(state: State) -> State:
    """A state that holds nothing private: for what leaves the engine."""
    return replace(state, agents=replace(state.agents, memory=replace(state.agents.memory, private={})))
