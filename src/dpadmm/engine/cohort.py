"""The agents of simulated runs as one batch, and where they stand.

A `Cohort` is all agents of some independent runs. Nothing in a round depends on which other runs or agents share a
batch, so any grouping gives the same numbers. A `Batch` answers through the same `Agent` as a real owner, with a ledger
in memory and seeded noise: what is simulated is what is deployed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.rounds import AgentState, begin, first_state
from dpadmm.admm.solvers.base import Randomness
from dpadmm.admm.state import State
from dpadmm.owner.agent import Agent
from dpadmm.privacy.ledger.memory import MemoryLedger
from dpadmm.problems.shards import Shards

RUN = "simulation"  # the name that simulated agents join a run by
_AGENTS = "agents."


@dataclass(frozen=True, eq=False)
class Batch:
    """Some agents in some runs, a row each, with what it takes to be them; it holds nobody else's records."""

    plan: Plan
    shards: Shards
    runs: IntArray
    agents: IntArray
    randomness: Randomness

    def agent(self, state: AgentState, round: int) -> Agent:
        """All of them as one agent, standing where `state` says after `round` rounds."""
        ledger = MemoryLedger(self.plan.setting.agents, self.plan.setting.relation)
        agent = Agent(self.shards, None, ledger, self.randomness, members=self.agents, runs=self.runs)
        agent.simulate(RUN, self.plan, state, round)
        return agent


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
        """The agents of these runs, which differ in their noise only."""
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

    @property
    def whole(self) -> Batch:
        """All agents as one batch."""
        return Batch(self.rows, self.shards, self.runs, self.agents, self.randomness)

    def by_run(self, rows: FloatArray) -> FloatArray:
        """(runs * agents, ...) as (runs, agents, ...)."""
        return rows.reshape(-1, self.size, *rows.shape[1:])

    def to_rows(self, common: FloatArray) -> FloatArray:
        """What was broadcast in each run, one row per agent."""
        return np.repeat(common, self.size, axis=0)


@dataclass(frozen=True, eq=False)
class SimulationState:
    """Where a cohort stands: the state that a coordinator would have, and beside it what only a simulation knows."""

    shared: State
    agents: AgentState  # their duals take in the broadcast when the next round begins
    mean_local: FloatArray  # over rounds 1..k
    mean_local_before: FloatArray  # over rounds 0..k-1: where theorem 3's objective is evaluated

    @classmethod
    def of(cls, cohort: Cohort) -> SimulationState:
        """Before round one."""
        agents = begin(cohort.rows)
        zeros = np.zeros_like(agents.released)
        return cls(first_state(cohort.plan, len(zeros) // cohort.size), agents, zeros, zeros)

    @property
    def round(self) -> int:
        """How many rounds are done."""
        return self.shared.round

    def to_arrays(self) -> dict[str, Any]:
        """What is held beside the shared state, as named arrays: for a checkpoint. It holds solver memory."""
        agents = {f"{_AGENTS}{name}": values for name, values in self.agents.to_arrays().items()}
        del agents[f"{_AGENTS}released"]  # the shared state has it
        return {"mean_local": self.mean_local, "mean_local_before": self.mean_local_before, **agents}

    @classmethod
    def from_arrays(cls, shared: State, arrays: Mapping[str, Any]) -> SimulationState:
        """The state written by `to_arrays`; a `KeyError` names what is missing."""
        agents = {name.removeprefix(_AGENTS): each for name, each in arrays.items() if name.startswith(_AGENTS)}
        agents["released"] = shared.released.reshape(-1, shared.released.shape[-1])
        return cls(shared, AgentState.from_arrays(agents), arrays["mean_local"], arrays["mean_local_before"])
