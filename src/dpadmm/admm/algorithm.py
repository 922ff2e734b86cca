"""A recipe, the plan it resolves to, and one round of it.

An `Algorithm` is a frozen value: parts put together. With the public terms of a run and a request for noise it resolves
to a `Plan`, in which every number is fixed before round one. An agent computes the same plan by itself; nothing in a
round's message tells it how much noise to add.

What a plan does round by round is in `rounds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._ranges import SIZES, check_ranges, ranged
from dpadmm.admm.consensus import Consensus
from dpadmm.admm.noise_schedule import ConstantNoise, NoiseSchedule, scales
from dpadmm.admm.perturbations.base import Perturbation
from dpadmm.admm.rho import ConstantRho, Rho, RhoSchedule
from dpadmm.admm.schedules import Fixed, Schedule
from dpadmm.admm.setting import Density, Noise, NoiseLevel, NoiseRequest, PaperNoise, Setting, TotalBudget, step_epsilon
from dpadmm.admm.solvers.base import Solver
from dpadmm.errors import InputError
from dpadmm.privacy.accounting import Accounts, best
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import DpEvent
from dpadmm.privacy.mechanisms import Laplace, Mechanism

COURSE = 2_000_000  # rounds times agents that noise can be planned for one by one


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
    dual_rho: RhoSchedule | None = None  # of the dual step, where it is not that of the subproblem
    noise_schedule: NoiseSchedule = field(default_factory=ConstantNoise)
    base_rho: float = ranged(SIZES, 0.1)  # where no other is asked for, as the two below
    base_loss: str = "logistic"
    base_radius: float = ranged(SIZES, 100.0)  # a public guess of the optimum's length
    weighting: str = "owners"  # whether all owners count alike, or all records
    as_printed: bool = False  # True where the noise is a paper's own formula, and the budget asked for its claim
    twin: str | None = None  # the recipe this one becomes without noise

    def __post_init__(self) -> None:
        check_ranges(self, f"algorithm {self.name!r}")

    @property
    def private(self) -> bool:
        return all(phase.perturbation.private for phase in self.phases)

    def phase(self, round: int) -> int:
        """Which phase round k = 1.. is in."""
        return (round - 1) % len(self.phases)

    def cycle(self, round: int) -> int:
        """How many times its phase has come with round k = 1..; round 0 is before all of them."""
        return (round - 1) // len(self.phases) + 1

    def times(self, phase: int, rounds: int) -> int:
        """How often a phase comes in that many rounds."""
        return (rounds - phase + len(self.phases) - 1) // len(self.phases) if rounds > phase else 0

    def recycles(self, round: int) -> bool:
        """Whether a round is made of what was released before it."""
        return not self.phases[self.phase(round)].solver.reads_records

    def penalty(self, rule: RhoSchedule, setting: Setting, level: NoiseLevel, cycle: int) -> Rho:
        """ADMM's penalty by a rule: one for all agents, one for each of the batch, or, where penalties are those of
        edges, one for every node of the graph."""
        return rule.value(setting.of_all_nodes() if self.consensus.by_edge else setting, level, cycle)

    def local(self, setting: Setting) -> Setting:
        """The terms as agents see them: without the penalty, where the server applies it."""
        return setting.without_penalty() if self.consensus.penalises else setting

    def check(self, setting: Setting) -> None:
        """Raises an `InputError` that names the part and what it misses; runs before round one."""
        setting = self.local(setting)
        if self.private and not np.isfinite(setting.gradient_sensitivity()).all():
            raise InputError(f"loss {setting.problem.loss.name!r} without a bound on its slope has no sensitivity.")
        setting.problem.domain.check(setting.dimension)
        self.consensus.check(setting)
        for rule in (self.rho, self.dual_rho or self.rho):
            rule.check(setting, shared=not self.consensus.decentralised)
        if self.consensus.by_edge and self.dual_rho is not None:
            raise InputError(
                f"algorithm {self.name!r}: the dual step has a penalty of its own, the same for all nodes, which edge "
                f"penalties do not go with; leave one of the two out. Either leads to the pooled optimum."
            )
        if self.consensus.by_edge and not self.rho.by_place:
            raise InputError(
                f"edge penalties need the penalties of all nodes, and rule {self.rho.name!r} may look at a node's own "
                f"facts; use 'constant', 'geometric' or 'sequence'."
            )
        for before, phase in zip((None, *self.phases), self.phases, strict=False):
            if not phase.solver.reads_records and (before is None or before.solver.first_order):
                raise InputError(
                    f"algorithm {self.name!r}: solver {phase.solver.name!r} goes by the answer of an exact minimiser, "
                    f"so it must follow one in the cycle."
                )
            phase.solver.check(setting)
            phase.perturbation.check(setting, phase.solver)
            if self.rho.follows_noise and not phase.perturbation.any_rho:
                raise InputError(
                    f"perturbation {phase.perturbation.name!r} needs a rho that is known before its noise, and "
                    f"{self.rho.name!r} follows it; use 'constant' or 'geometric'."
                )
            if self.noise_schedule.varies and phase.solver.reads_records and not phase.perturbation.takes_scales:
                raise InputError(
                    f"perturbation {phase.perturbation.name!r} has the same noise in all rounds, and noise schedule "
                    f"{self.noise_schedule.name!r} varies it; use a recipe with noise on answers, gradients or in "
                    f"the objective."
                )
        self.noise_schedule.check(setting)
        self.schedule.check(setting)

    def tuned(self, **changes: Any) -> Algorithm:
        """The same recipe with another schedule or rho, or with fields of its solver, perturbation, consensus or
        schedule set (mechanism, updates, momentum); an `InputError` where no part of the recipe has such a field."""
        whole = ("schedule", "rho", "dual_rho", "noise_schedule", "weighting")
        own = {name: changes.pop(name) for name in whole if name in changes}
        schedule = own.pop("schedule", self.schedule)
        for name in changes:
            parts = [self.consensus, schedule, *(part for p in self.phases for part in (p.solver, p.perturbation))]
            if not any(_has(part, name) for part in parts):
                raise InputError(f"algorithm {self.name!r} has no {name.replace('_', ' ')} to set.")
        phases = tuple(
            replace(p, solver=_with(p.solver, changes), perturbation=_with(p.perturbation, changes))
            for p in self.phases
        )
        return replace(
            self, consensus=_with(self.consensus, changes), schedule=_with(schedule, changes), phases=phases, **own
        )

    def plan(self, setting: Setting, request: NoiseRequest) -> Plan:
        """Fixes every number of the run."""
        self.check(setting)
        local, first = self.local(setting), self.phases[0]
        noise = tuple(self._noise(local, index, request) for index in range(len(self.phases)))
        level = NoiseLevel(
            sigma=first.perturbation.gradient_noise(local, noise[0]),
            epsilon=step_epsilon(noise[0].mechanism, request.delta),
            slope=float(local.gradient_bound.max(initial=0.0)),
            diameter=local.problem.domain.diameter(local.dimension),
            steps=first.solver.steps,
            spread=first.solver.spread(local) if first.solver.sampled else None,
        )
        plan = Plan(self, setting, noise, level, request)
        plan.check_numbers()
        if isinstance(request, TotalBudget) and self.private:
            plan.check_budget(request.of_each(setting.agents))
        return plan

    def _noise(self, setting: Setting, index: int, request: NoiseRequest) -> Noise:
        """What a phase draws, each time it comes."""
        solver, perturbation = self.phases[index].solver, self.phases[index].perturbation
        if isinstance(request, Density) and solver.reads_records and not perturbation.takes_alpha:
            raise InputError(f"algorithm {self.name!r} has no noise of density exp(-alpha |.|); give a budget.")
        times = max(1, self.times(index, setting.rounds))
        varied = self.noise_schedule.varies and solver.reads_records
        if varied:
            if isinstance(request, PaperNoise):
                raise InputError("the papers' noise is the same in all rounds; leave the noise schedule out.")
            self._refuse_course(setting, times)
        louder = scales(self.noise_schedule, setting, times) if varied else None
        setting = replace(setting, rounds=times, louder=louder)
        if perturbation.any_rho:
            return perturbation.calibrate(setting, solver, request)
        silent = NoiseLevel(np.zeros(setting.agents), np.inf)
        last = 1 if isinstance(self.rho, ConstantRho) else times
        self._refuse_course(setting, last)
        rhos = [self.penalty(self.rho, setting, silent, time) for time in range(1, last + 1)]
        kappas = np.array([self.consensus.kappa(setting, rho) for rho in rhos])
        same = (kappas == kappas[0]).all()
        return perturbation.calibrate(setting, solver, request, kappas[:1] if same else kappas)

    @staticmethod
    def _refuse_course(setting: Setting, times: int) -> None:
        """Terms come from strangers, and a billion rounds would fill the memory."""
        if times * setting.agents > COURSE:
            raise InputError(
                f"{times:,} rounds of {setting.agents:,} agents with penalties or noise that change are too many to "
                f"plan (at most {COURSE:,} together); use constant ones, or fewer rounds."
            )


def _has(part: Any, name: str) -> bool:
    return is_dataclass(part) and any(entry.name == name and entry.init for entry in fields(part))


def _with(part: Any, changes: Mapping[str, Any]) -> Any:
    """All at once: what a part allows may depend on several fields together."""
    own = {name: value for name, value in changes.items() if _has(part, name)}
    return replace(part, **own) if own else part


@dataclass(frozen=True, eq=False)
class Plan:
    """A recipe with all its numbers. Per-agent arrays have one row per agent of the batch."""

    algorithm: Algorithm
    setting: Setting
    noise: tuple[Noise, ...]
    level: NoiseLevel  # of the noise that steps and penalties are tuned to
    request: NoiseRequest  # what was asked for
    evaluation: Mechanism | None = None  # what covers one estimate of the error on each agent's own records
    before: tuple[DpEvent, ...] = ()  # what each agent released of these records to get here, such as second moments

    @property
    def local(self) -> Setting:
        """The terms as agents see them."""
        return self.algorithm.local(self.setting)

    def eta(self, round: int) -> FloatArray:
        """The step of each agent in a round; (n,)."""
        return self.algorithm.schedule.eta(self.local, self.level, round)

    def rho(self, round: int) -> Rho:
        """ADMM's penalty in a round: one for all agents, or on a graph one for each."""
        return self.algorithm.penalty(self.algorithm.rho, self.setting, self.level, self.algorithm.cycle(round))

    def dual_rho(self, round: int) -> Rho:
        """The penalty that the dual step of a round takes."""
        rule = self.algorithm.dual_rho or self.algorithm.rho
        return self.algorithm.penalty(rule, self.setting, self.level, self.algorithm.cycle(round))

    def noise_in(self, round: int) -> Noise:
        """What is drawn in a round."""
        return self.noise[self.algorithm.phase(round)].at(self.algorithm.cycle(round))

    def events(self, round: int) -> tuple[DpEvent, ...]:
        """What a round costs each agent."""
        return self.noise_in(round).events

    def accounts(self, rounds: int | None = None) -> Accounts:
        """What the agents have spent after this many rounds; None means all of it, with the evaluation."""
        accounts = Accounts(self.setting.agents, self.setting.relation)
        done = self.setting.rounds if rounds is None else rounds
        if self.before:
            accounts.spend(self.before)
        for phase, noise in enumerate(self.noise):
            times = self.algorithm.times(phase, done)
            if times and not noise.course:
                accounts.spend(noise.events, times)
            for each in noise.course[:times]:
                accounts.spend(each.events)
        if rounds is None and self.evaluation is not None:
            accounts.spend(self.evaluation.events())
        return accounts

    def printed(self) -> FloatArray | None:
        """003's bound P(t) on the cost of the first t rounds, of the worst agent; None where its theorem is silent."""
        total, course = np.zeros(self.setting.agents), []
        for round in range(1, self.setting.rounds + 1):
            phase = self.algorithm.phases[self.algorithm.phase(round)]
            kappa = self.algorithm.consensus.kappa(self.local, self.rho(round))
            said = phase.perturbation.printed(self.local, self.noise_in(round), kappa)
            if said is None or np.isnan(said).any():
                return None
            total = total + said
            course.append(total.max())
        return np.array(course)

    def tallies(self) -> list[dict[DpEvent, int]]:
        """The cost of the whole run for each agent, as events and how often."""
        accounts = self.accounts()
        return [accounts.tally(agent) for agent in range(self.setting.agents)]

    def check_numbers(self) -> None:
        """Steps and penalties divide and multiply whatever is released: absurd ones are refused before round one."""
        for round in (1, self.setting.rounds):
            for name, values in (("step", self.eta(round)), ("rho", np.atleast_1d(self.rho(round)))):
                fits = (values >= SIZES.low) & (values <= SIZES.high)
                if not fits.all():
                    raise InputError(
                        f"round {round}: {name} = {float(values[np.argmin(fits)])!r} must be {SIZES}; change the "
                        f"schedule, the set or the noise."
                    )
            solver = self.algorithm.phases[self.algorithm.phase(round)].solver
            kappa = self.algorithm.consensus.kappa(self.local, self.rho(round))
            solver.check_step(self.local, kappa, self.eta(round))

    def check_budget(self, budgets: Sequence[Budget]) -> None:
        """The last word is the accountant's: whatever was calibrated, no agent's whole run may exceed its budget."""
        for budget, tally in set(zip(budgets, (frozenset(t.items()) for t in self.tallies()), strict=True)):
            cost = best(dict(tally), budget.delta, self.setting.relation).epsilon
            if not cost <= budget.epsilon:
                raise InputError(f"the run would cost epsilon {cost:g}, and the budget is {budget.epsilon:g}.")

    def with_evaluation(self, epsilon: float) -> Plan:
        """With one estimate of the error on each agent's own records, which costs this much more."""
        return replace(self, evaluation=Laplace(np.full(self.setting.agents, 1.0 / epsilon)))

    def take(self, agents: Any) -> Plan:
        """The rows of these agents; the plan of one agent is the plan of a batch of one."""
        return replace(
            self,
            setting=self.setting.take(agents),
            noise=tuple(noise.take(agents) for noise in self.noise),
            level=self.level.take(agents),
            evaluation=None if self.evaluation is None else self.evaluation.take(agents),
            before=tuple(self.before[i] for i in agents) if self.before else (),
        )
