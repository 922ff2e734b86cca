"""A recipe, the plan it resolves to, and one round of it.

An `Algorithm` is a frozen value: parts put together. With the public terms of a run and a request for noise it resolves
to a `Plan`, in which every number is fixed before round one. An agent computes the same plan by itself; nothing in a
round's message tells it how much noise to add.

One round: the agent takes in what was broadcast (`dual`), forms its subproblem (`terms`), solves and perturbs it
(`release`); the server combines the releases. `answer` is the agent's half, `combine` the server's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from dpadmm.admm.consensus import Consensus, Server
from dpadmm.admm.noise import Level, Noise, Request, TotalBudget, step_epsilon
from dpadmm.admm.perturbations.base import Perturbation, Release, Task, Words
from dpadmm.admm.rho import ConstantRho, RhoSchedule
from dpadmm.admm.schedules import Fixed, Schedule
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.base import Memory, Solver
from dpadmm.admm.subproblem import Subproblem
from dpadmm.errors import InputError
from dpadmm.privacy.accounting import Accounts, best
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import DpEvent
from dpadmm.privacy.mechanisms import Mechanism
from dpadmm.problems.shards import FloatArray, Shards

LARGEST = 1e15  # of a step or a penalty; its inverse is the smallest


@dataclass(frozen=True)
class Phase:
    """One round's work: how the subproblem is solved, where the noise enters, whether duals move afterwards."""

    solver: Solver
    perturbation: Perturbation
    moves_dual: bool = True


@dataclass(frozen=True)
class Algorithm:
    """A recipe: consensus, a cycle of phases, a schedule. Running it changes nothing in it."""

    name: str
    about: str
    paper: str
    consensus: Consensus
    phases: tuple[Phase, ...]
    schedule: Schedule = field(default_factory=Fixed)  # solvers that take no step ignore it
    rho: RhoSchedule = field(default_factory=ConstantRho)
    weighting: str = "owners"  # whether all owners count alike, or all records
    as_printed: bool = False  # True where the noise is a paper's own formula, and the budget asked for its claim
    twin: str | None = None  # the recipe this one becomes without noise

    @property
    def private(self) -> bool:
        return all(phase.perturbation.private for phase in self.phases)

    def phase(self, round: int) -> int:
        """Which phase round k = 1.. is in."""
        return (round - 1) % len(self.phases)

    def local(self, setting: Setting) -> Setting:
        """The terms as agents see them: without the penalty, where the server applies it."""
        return setting.without_penalty() if self.consensus.penalises else setting

    def check(self, setting: Setting) -> None:
        """Raises an `InputError` that names the part and what it misses; runs before round one."""
        setting = self.local(setting)
        if self.private and not np.isfinite(setting.gradient_sensitivity()).all():
            raise InputError(f"loss {setting.problem.loss.name!r} without a bound on its slope has no sensitivity.")
        setting.problem.domain.check(setting.dimension)
        for phase in self.phases:
            phase.solver.check(setting)
            phase.perturbation.check(setting, phase.solver)
            if not (phase.perturbation.any_rho or isinstance(self.rho, ConstantRho)):
                raise InputError(
                    f"perturbation {phase.perturbation.name!r} has a lemma for a constant rho only, not for "
                    f"{self.rho.name!r}."
                )
        self.schedule.check(setting)

    def tuned(self, **changes: Any) -> Algorithm:
        """The same recipe with another schedule or rho, or with fields of its solver or perturbation set (mechanism,
        updates, tolerance, extra_curvature); an `InputError` where no part of the recipe has such a field."""
        recipe = self
        for name, value in changes.items():
            if name in ("schedule", "rho", "weighting"):
                recipe = replace(recipe, **{name: value})
                continue
            if not any(_has(p.solver, name) or _has(p.perturbation, name) for p in recipe.phases):
                raise InputError(f"algorithm {self.name!r} has no {name.replace('_', ' ')} to set.")
            phases = tuple(
                replace(p, solver=_with(p.solver, name, value), perturbation=_with(p.perturbation, name, value))
                for p in recipe.phases
            )
            recipe = replace(recipe, phases=phases)
        return recipe

    def plan(self, setting: Setting, request: Request) -> Plan:
        """Fixes every number of the run."""
        self.check(setting)
        local, first = self.local(setting), self.phases[0]
        noise = tuple(phase.perturbation.calibrate(local, phase.solver, request) for phase in self.phases)
        level = Level(
            sigma=first.perturbation.gradient_noise(local, noise[0]),
            epsilon=step_epsilon(noise[0].mechanism, request.delta),
            slope=float(local.gradient_bound.max(initial=0.0)),
            diameter=local.problem.domain.diameter(local.dimension),
            steps=first.solver.steps,
            spread=first.solver.spread(local) if first.solver.sampled else None,
        )
        plan = Plan(self, setting, noise, level)
        plan.check_numbers()
        if isinstance(request, TotalBudget) and self.private:
            plan.check_budget(request.of_each(setting.agents))
        return plan


def _has(part: Any, name: str) -> bool:
    return any(entry.name == name and entry.init for entry in fields(part))


def _with(part: Any, name: str, value: Any) -> Any:
    return replace(part, **{name: value}) if _has(part, name) else part


@dataclass(frozen=True, eq=False)
class Plan:
    """A recipe with all its numbers. Per-agent arrays have one row per agent of the batch."""

    algorithm: Algorithm
    setting: Setting
    noise: tuple[Noise, ...]
    level: Level  # of the noise that steps and penalties are tuned to
    evaluation: Mechanism | None = None  # what covers one estimate of the error on each agent's own records

    @property
    def local(self) -> Setting:
        """The terms as agents see them."""
        return self.algorithm.local(self.setting)

    def eta(self, round: int) -> FloatArray:
        """The step of each agent in a round; (n,)."""
        return self.algorithm.schedule.eta(self.local, self.level, round)

    def rho(self, round: int) -> float:
        """ADMM's penalty in a round, the same for all agents."""
        return self.algorithm.rho.value(self.setting, self.level, round)

    def events(self, round: int) -> tuple[DpEvent, ...]:
        """What a round costs each agent."""
        return self.noise[self.algorithm.phase(round)].events

    def accounts(self, rounds: int | None = None) -> Accounts:
        """What the agents have spent after this many rounds; None means all of it, with the evaluation."""
        accounts = Accounts(self.setting.agents, self.setting.relation)
        done, cycle = self.setting.rounds if rounds is None else rounds, len(self.algorithm.phases)
        for phase in range(min(cycle, done)):
            accounts.spend(self.events(phase + 1), (done - phase + cycle - 1) // cycle)
        if rounds is None and self.evaluation is not None:
            accounts.spend(self.evaluation.events())
        return accounts

    def tallies(self) -> list[dict[DpEvent, int]]:
        """The cost of the whole run for each agent, as events and how often."""
        accounts = self.accounts()
        return [accounts.tally(agent) for agent in range(self.setting.agents)]

    def check_numbers(self) -> None:
        """Steps and penalties divide and multiply whatever is released: absurd ones are refused before round one."""
        for round in (1, self.setting.rounds):
            for name, values in (("step", self.eta(round)), ("rho", np.array([self.rho(round)]))):
                fits = (values >= 1.0 / LARGEST) & (values <= LARGEST)
                if not fits.all():
                    raise InputError(
                        f"{name} {values[np.argmin(fits)]:g} in round {round}: must lie between {1 / LARGEST:g} and "
                        f"{LARGEST:g}; change the schedule, the set or the noise."
                    )
            solver = self.algorithm.phases[self.algorithm.phase(round)].solver
            solver.check_step(self.local, self.rho(round), self.eta(round))

    def check_budget(self, budgets: Sequence[Budget]) -> None:
        """The last word is the accountant's: whatever was calibrated, no agent's whole run may exceed its budget."""
        for budget, tally in set(zip(budgets, (frozenset(t.items()) for t in self.tallies()), strict=True)):
            cost = best(dict(tally), budget.delta, self.setting.relation).epsilon
            if not cost <= budget.epsilon:
                raise InputError(f"the run would cost epsilon {cost:g}, and the budget is {budget.epsilon:g}.")

    def on_lattice(self) -> Plan:
        """The plan of real releases."""
        evaluation = None if self.evaluation is None else self.evaluation.on_lattice()
        return replace(self, noise=tuple(noise.on_lattice() for noise in self.noise), evaluation=evaluation)

    def take(self, agents: Any) -> Plan:
        """The rows of these agents; the plan of one agent is the plan of a batch of one."""
        return replace(
            self,
            setting=self.setting.take(agents),
            noise=tuple(noise.take(agents) for noise in self.noise),
            level=self.level.take(agents),
            evaluation=None if self.evaluation is None else self.evaluation.take(agents),
        )


@dataclass(frozen=True, eq=False)
class AgentState:
    """What a batch of agents carries from round to round.

    `released` and `dual` are functions of what was released and broadcast; `memory` belongs to the solver and may be
    private.
    """

    released: FloatArray
    dual: FloatArray
    memory: Memory

    def to_arrays(self) -> dict[str, FloatArray]:
        """As named arrays, for a ledger or a checkpoint; the private ones are marked by their names."""
        private = {f"private.{name}": values for name, values in self.memory.private.items()}
        return {"released": self.released, "dual": self.dual, "point": self.memory.point, **private}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray]) -> AgentState:
        private = {name.removeprefix("private."): a for name, a in arrays.items() if name.startswith("private.")}
        return cls(arrays["released"], arrays["dual"], Memory(arrays["point"], private))


def begin(plan: Plan) -> AgentState:
    """Zeros, as the papers' proofs require, or the nearest point of a set without zero; nothing depends on data."""
    zeros = np.zeros((plan.setting.agents, plan.setting.dimension))
    first = plan.setting.problem.domain.project(zeros)
    return AgentState(released=first, dual=zeros, memory=plan.algorithm.phases[0].solver.start(first))


def opening(plan: Plan, runs: int) -> Server:
    """The server before round one, for the plan of all agents: it broadcasts the mean of where they begin."""
    mean = begin(plan).released.mean(axis=0)
    return Server(np.tile(mean, (runs, 1)), np.zeros((runs, mean.size)))


def absorb(plan: Plan, state: AgentState, common: FloatArray, round: int, missed: bool = False) -> AgentState:
    """Takes in what the releases of round `round` were combined to; `common` has one row per agent.

    `missed` says that the agent does not answer that broadcast, so that its last release stands for it.
    """
    consensus, moving = plan.algorithm.consensus, round + 1 if plan.algorithm.consensus.server_first else round
    skips = not missed if consensus.server_first else round == 0
    if skips or not plan.algorithm.phases[plan.algorithm.phase(moving)].moves_dual:
        return state
    return replace(state, dual=consensus.dual(plan.rho(moving), state.dual, state.released, common))


def answer(
    plan: Plan, state: AgentState, shards: Shards, common: FloatArray, round: int, words: Words
) -> tuple[Release, AgentState]:
    """The agents' half of a round: the only code that leads from records to releases.

    `state` has absorbed the previous round; `common` is what was broadcast then, one row per agent.
    """
    setting, index, consensus = plan.local, plan.algorithm.phase(round), plan.algorithm.consensus
    phase, rho = plan.algorithm.phases[index], plan.rho(round)
    tilt, kappa, centre = consensus.terms(rho, state.dual, common)
    subproblem = Subproblem(setting.problem, shards, setting.weights, tilt, kappa, centre)
    eta = plan.eta(round)[:, None]
    task = Task(setting, plan.noise[index], phase.solver, subproblem, state.memory, eta, words)
    release, memory = phase.perturbation.release(task)
    dual = state.dual
    if consensus.server_first and phase.moves_dual:
        dual = consensus.dual(rho, dual, release.value, common)
    return release, AgentState(released=release.value, dual=dual, memory=memory)


def combine(plan: Plan, server: Server, releases: FloatArray, round: int) -> Server:
    """The server's half, from releases (runs, agents, D)."""
    return plan.algorithm.consensus.combine(
        plan.setting, server, releases, eta=plan.eta(round), rho=plan.rho(round), next_rho=plan.rho(round + 1)
    )
