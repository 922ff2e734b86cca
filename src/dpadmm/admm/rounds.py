"""One round: the agents' half and the half of whoever combines their releases.

The agent takes in what was broadcast (`absorb`), forms its subproblem, solves and perturbs it (`solve_and_perturb`).
Whoever combines sees releases and nothing else: `advance` leads from one `State` and the releases of a round to the
next, with what is broadcast then: one vector for all from a server, or on a graph to every node the mean of its
neighbours' releases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.consensus import Server
from dpadmm.admm.perturbations.base import RandomBits, Release, Task
from dpadmm.admm.solvers.base import Memory, Subproblem, Trail
from dpadmm.admm.state import State
from dpadmm.problems.shards import Shards


@dataclass(frozen=True, eq=False)
class AgentState:
    """What a batch of agents carries from round to round.

    `released`, `dual`, `slope` and the memory's point are functions of what was released and broadcast. What else the
    memory holds may be private, and only solvers that are not `first_order` get it.
    """

    released: FloatArray
    dual: FloatArray
    memory: Memory
    slope: FloatArray | None = None  # the gradient that the last release gives away, where the next round recycles it

    def to_arrays(self) -> dict[str, FloatArray]:
        """As named arrays, for a ledger or a checkpoint; the private ones are marked by their names."""
        private = {f"private.{name}": values for name, values in self.memory.private.items()}
        slope = {} if self.slope is None else {"slope": self.slope}
        return {"released": self.released, "dual": self.dual, "point": self.memory.point, **slope, **private}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray]) -> AgentState:
        private = {name.removeprefix("private."): a for name, a in arrays.items() if name.startswith("private.")}
        return cls(arrays["released"], arrays["dual"], Memory(arrays["point"], private), arrays.get("slope"))


def begin(plan: Plan) -> AgentState:
    """Models at the public start, which is zero where no other is agreed, or at the nearest point of the set; duals at
    zero, as the papers' proofs require. Nothing depends on data."""
    zeros, start = np.zeros((plan.setting.agents, plan.setting.dimension)), plan.setting.start
    first = plan.setting.problem.domain.project(zeros if start is None else zeros + start)
    return AgentState(released=first, dual=zeros, memory=plan.algorithm.phases[0].solver.start(first))


def first_state(plan: Plan, runs: int) -> State:
    """Before round one, for the plan of all agents: where they begin, and what they hear first, is in the terms."""
    first, consensus = begin(plan).released, plan.algorithm.consensus
    server = consensus.opening(plan.setting, first, runs)
    released = np.repeat(first[None], runs, axis=0)
    model = consensus.model(server, released)
    return State(0, server, model, np.zeros_like(model), released)


def absorb(plan: Plan, state: AgentState, common: FloatArray, round: int, absent: bool = False) -> AgentState:
    """Takes in what the releases of round `round` were combined to; `common` has one row per agent.

    `absent` says that the agent does not answer that broadcast, and its last release is used in its place.
    """
    consensus, moving = plan.algorithm.consensus, round + 1 if plan.algorithm.consensus.server_first else round
    skips = not absent if consensus.server_first else round == 0
    if skips or not plan.algorithm.phases[plan.algorithm.phase(moving)].moves_dual:
        return state
    return replace(state, dual=consensus.dual(plan.setting, plan.dual_rho(moving), state.dual, state.released, common))


def undo_dual_step(plan: Plan, state: AgentState, common: FloatArray, round: int) -> AgentState:
    """The state before the dual step that came with its answer to `common` in round `round`, which was never used."""
    consensus = plan.algorithm.consensus
    if not consensus.server_first or not plan.algorithm.phases[plan.algorithm.phase(round)].moves_dual:
        return state
    back = consensus.dual(plan.local, -plan.dual_rho(round), state.dual, state.released, common)
    return replace(state, dual=back)


def subproblem(plan: Plan, state: AgentState, shards: Shards, common: FloatArray, round: int) -> Subproblem:
    """What is to be solved in a round; all of it but the records is public."""
    setting = plan.local
    terms = plan.algorithm.consensus.terms(setting, plan.rho(round), state.dual, state.released, common)
    return Subproblem(setting.problem, shards, setting.weights, *terms)


def solve_and_perturb(
    plan: Plan, state: AgentState, shards: Shards, common: FloatArray, round: int, random_bits: RandomBits
) -> tuple[Release, AgentState]:
    """The agents' half of a round: the only code that leads from records to releases.

    `state` has absorbed the previous round; `common` is what was broadcast then, one row per agent.
    """
    setting, consensus = plan.local, plan.algorithm.consensus
    phase = plan.algorithm.phases[plan.algorithm.phase(round)]
    given = subproblem(plan, state, shards, common, round)
    eta = plan.eta(round)[:, None]
    memory = state.memory
    if not phase.solver.reads_records:
        assert state.slope is not None
        memory = replace(memory, trail=Trail(state.released, state.slope))
    # A first-order step is a release because of where it starts: at a public point. So it must not see, nor inherit
    # from a phase before it, what a solver with the records in its hands has found.
    public = phase.solver.first_order
    offered = replace(memory, private={}) if public else memory
    task = Task(setting, plan.noise_in(round), phase.solver, given, offered, eta, random_bits)
    release, after = phase.perturbation.release(task)
    memory = Memory(after.point, memory.private) if public else Memory(release.value, after.private)
    dual, slope = state.dual, None
    if consensus.server_first and phase.moves_dual:
        dual = consensus.dual(setting, plan.dual_rho(round), dual, release.value, common)
    if plan.algorithm.recycles(round + 1):
        # Of the release, not of the minimiser behind it: that one differs by the solver's residual, which is private.
        slope = -(given.tilt + given.kappa * (release.value - given.centre))
    return release, AgentState(release.value, dual, memory, slope)


def advance(
    plan: Plan,
    state: State,
    releases: FloatArray,
    answered: Sequence[int] | None = None,
    skip_absent: bool = False,
) -> State:
    """The state after one more round: what simulation and coordinator both call.

    Args:
        plan: The plan of all agents of a run.
        state: Where the runs stand.
        releases: What was released in this round, (runs, agents, D), in the order of the agents.
        answered: Which agents those are, in order; None: all.
        skip_absent: Whether the others are left out of what is combined. Otherwise their last releases are used again.

    Returns:
        The next state, with what is broadcast next.
    """
    round, consensus = state.round + 1, plan.algorithm.consensus
    released = releases
    if answered is not None:
        released = state.released.copy()
        released[:, answered] = releases
    used = releases if skip_absent else released
    server = next_server(plan, state.server, used, round)
    model = consensus.model(server, used)
    # With the server first, the releases of this round answered the model before it.
    measured = state.model if consensus.server_first else model
    return State(
        round=round,
        server=server,
        model=model,
        mean_model=state.mean_model + (measured - state.mean_model) / plan.algorithm.schedule.mean_divisor(round),
        released=released,
    )


def next_server(plan: Plan, server: Server, releases: FloatArray, round: int) -> Server:
    """What the server holds after a round, from releases (runs, agents, D)."""
    return plan.algorithm.consensus.combine(
        plan.setting,
        server,
        releases,
        round=round,
        eta=plan.eta(round),
        rho=plan.rho(round),
        next_rho=plan.rho(round + 1),
    )
