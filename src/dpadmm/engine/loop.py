"""The loop over rounds, which exists once.

A `Cohort` is all agents of some independent runs as one batch. Nothing in a round depends on which other runs or agents
share the batch, so any grouping gives the same numbers. The batch answers through the same `Agent` as a real owner,
with a ledger in memory and seeded noise: what is simulated is what is deployed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm._threads import one_thread_pool
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.consensus import Server
from dpadmm.admm.rounds import AgentState, begin, combine, opening
from dpadmm.engine.executors.base import RUN, Executor
from dpadmm.engine.executors.in_process import InProcessExecutor
from dpadmm.owner.agent import Agent
from dpadmm.owner.request import EVALUATION, Request
from dpadmm.privacy.ledger.memory import MemoryLedger
from dpadmm.privacy.randomness import Randomness
from dpadmm.problems.shards import Shards


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

    def agent(self, state: State) -> Agent:
        """All of them as one agent, standing where `state` says."""
        ledger = MemoryLedger(self.rows.setting.agents, self.rows.setting.relation)
        agent = Agent(self.shards, None, ledger, self.randomness, members=self.agents, runs=self.runs)
        agent.simulate(RUN, self.rows, state.agents, state.round)
        return agent


@dataclass(frozen=True, eq=False)
class State:
    """Where a cohort stands after `round` rounds: broadcasts, agents, and the running means that metrics need."""

    round: int
    server: Server
    common: FloatArray  # what the run has come to, (runs, D): the last broadcast, or on a graph the nodes' mean
    agents: AgentState  # their duals take in the broadcast when the next round begins
    mean_common: FloatArray  # over rounds 1..k; with the server first, of the broadcasts that were answered
    mean_local: FloatArray  # over rounds 1..k
    mean_local_before: FloatArray  # over rounds 0..k-1: where theorem 3's objective is evaluated


def start(cohort: Cohort) -> State:
    agents = begin(cohort.rows)
    server = opening(cohort.plan, agents.released.shape[0] // cohort.size)
    common = cohort.plan.algorithm.consensus.model(server, cohort.by_run(agents.released))
    local = np.zeros_like(agents.released)
    return State(0, server, common, agents, np.zeros_like(common), local, local)


def rounds(cohort: Cohort, state: State, executor: Executor | None = None) -> Iterator[State]:
    """The states after each remaining round; the agents are in this process, or wherever the executor has them."""
    agents = executor or InProcessExecutor(cohort, state)
    with one_thread_pool():
        for _ in range(state.round, cohort.plan.setting.rounds):
            state = _step(cohort, agents, state)
            yield state


def _step(cohort: Cohort, agents: Executor, state: State) -> State:
    """One round: the agents answer what they heard last, and their releases are combined to what they hear next."""
    round, consensus = state.round + 1, cohort.plan.algorithm.consensus
    release = agents.answer(Request(RUN, RUN, round, state.server.common))
    released = cohort.by_run(release.value)
    server = combine(cohort.plan, state.server, released, round)
    common = consensus.model(server, released)
    answered = state.common if consensus.server_first else common
    return State(
        round=round,
        server=server,
        common=common,
        agents=agents.state(),
        mean_common=_mean(state.mean_common, answered, round),
        mean_local=_mean(state.mean_local, release.value, round),
        mean_local_before=_mean(state.mean_local_before, state.agents.released, round),
    )


def evaluate(cohort: Cohort, state: State, executor: Executor | None = None) -> FloatArray:
    """The owners' private estimates of the error of the last model on their own records; (runs, agents)."""
    alone = cohort.plan.algorithm.consensus.decentralised  # then every node has a model of its own
    model = state.agents.released if alone else state.common
    release = (executor or InProcessExecutor(cohort, state)).answer(Request(RUN, RUN, EVALUATION, model))
    return cohort.by_run(release.value)[:, :, 0]


def _mean(before: FloatArray, value: FloatArray, count: int) -> FloatArray:
    return before + (value - before) / count


def without_memory(state: State) -> State:
    """A state that holds nothing private: for what leaves the engine."""
    return replace(state, agents=replace(state.agents, memory=replace(state.agents.memory, private={})))
