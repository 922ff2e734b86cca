"""Where the noise enters. A perturbation owns the sensitivity lemma and the privacy event that follow from that place.

Only here is a release made: a value and what it costs. Everything that leaves an agent has passed through `release`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._fields import option
from dpadmm.admm.setting import Density, Multiplier, Noise, NoiseRequest, PaperNoise, Setting
from dpadmm.admm.solvers.base import Emit, Memory, Oracle, RandomBits, Solver, Subproblem, as_it_is
from dpadmm.errors import Unpublished
from dpadmm.privacy.calibration import classic_multiplier, noise_multipliers
from dpadmm.privacy.events import DpEvent, SelfComposedDpEvent
from dpadmm.privacy.ledger.protocol import Seal
from dpadmm.privacy.mechanisms import MECHANISMS, Gaussian, Mechanism, mechanism_class

__all__ = ["Additive", "Perturbation", "RandomBits", "Release", "Task", "repeated"]


@dataclass(frozen=True, eq=False)
class Release:
    """What leaves a batch of agents: one value (row) and one event per agent; a real owner's ledger adds its seal."""

    value: FloatArray
    events: tuple[DpEvent, ...]
    seal: Seal | None = None


@dataclass(frozen=True, eq=False)
class Task:
    """What a batch of agents has in hand in one round."""

    setting: Setting
    noise: Noise
    solver: Solver
    subproblem: Subproblem
    memory: Memory
    eta: FloatArray  # (n, 1)
    random_bits: RandomBits

    def solve(
        self, oracle: Oracle | None = None, subproblem: Subproblem | None = None, emit: Emit = as_it_is
    ) -> tuple[FloatArray, Memory]:
        """The solver's answers; by default to the subproblem as it is, and without noise."""
        given = subproblem or self.subproblem
        return self.solver.solve(given, oracle or self.gradients(given), self.memory, self.eta, emit)

    def gradients(self, subproblem: Subproblem | None = None, on_anchor: Emit = as_it_is) -> Oracle:
        """The gradients that the solver works with: whole ones, or of mini-batches."""
        return self.solver.gradients(subproblem or self.subproblem, self.random_bits, on_anchor)

    def noisy(self, mechanism: Mechanism, sensitivity: FloatArray, purpose: str) -> Emit:
        """Adds this mechanism's noise to a value, afresh at each of the solver's steps and no more often than that."""
        steps = iter(range(1, self.solver.steps + 1))

        def add(value: FloatArray) -> FloatArray:
            step = next(steps, None)
            if step is None:
                raise RuntimeError(f"solver {self.solver.name!r} took more steps than the {self.solver.steps} it pays.")
            name = purpose if step == 1 else f"{purpose}.{step}"
            return mechanism.add(value, sensitivity, self.random_bits(name, mechanism.words_needed(value.shape[1])))

        return add


class Perturbation(ABC):
    """Turns a solver's work into a release."""

    name: ClassVar[str]
    about: ClassVar[str]
    private: ClassVar[bool] = True
    takes_alpha: ClassVar[bool] = False  # whether the noise can be asked for by its density, as 003 does
    any_rho: ClassVar[bool] = True  # False where the lemma must know the penalties of all rounds beforehand

    @abstractmethod
    def check(self, setting: Setting, solver: Solver) -> None:
        """Raises an `InputError` where the lemma does not cover this solver, problem or mechanism."""

    @abstractmethod
    def calibrate(
        self, setting: Setting, solver: Solver, request: NoiseRequest, kappas: FloatArray | None = None
    ) -> Noise:
        """The noise of every round and its events, from public facts alone.

        `setting.rounds` is how often this phase comes. `kappas` is the curvature that consensus gives the subproblems
        each time, (rounds, n) or (1, n) where it is always the same; only perturbations that ask for it get it.
        """

    @abstractmethod
    def release(self, task: Task) -> tuple[Release, Memory]:
        """Solves, perturbs, and says what that costs."""

    def printed(self, setting: Setting, noise: Noise, kappa: FloatArray) -> FloatArray | None:
        """What 003 would say that a round costs each agent; None where it says nothing."""
        return None

    def gradient_noise(self, setting: Setting, noise: Noise) -> FloatArray:
        """Standard deviation of a coordinate of the noise as seen by the gradient, which steps are tuned to; (n,)."""
        deviation = noise.mechanism.deviation(setting.dimension)
        return deviation * noise.mechanism.noise_multiplier * setting.gradient_sensitivity(noise.mechanism.norm)


@dataclass(frozen=True)
class Additive(Perturbation):
    """Noise added to one vector a step, whose sensitivity is known in the norm that the mechanism needs.

    The mechanism is a registry name or, in a recipe by value, a class of one's own.
    """

    mechanism: str | type[Mechanism] = option(
        "gaussian", help="Noise, from 'dpadmm mechanisms'.", panel="Privacy", shown="the algorithm's"
    )

    def check(self, setting: Setting, solver: Solver) -> None:
        mechanism_class(self.mechanism)

    def calibrate(
        self, setting: Setting, solver: Solver, request: NoiseRequest, kappas: FloatArray | None = None
    ) -> Noise:
        mechanism = mechanism_class(self.mechanism)(self._multipliers(setting, solver, request))
        return Noise(mechanism, repeated(mechanism.events(), solver.steps))

    def _multipliers(self, setting: Setting, solver: Solver, request: NoiseRequest) -> FloatArray:
        if isinstance(request, Multiplier):
            return np.full(setting.agents, request.value)
        if isinstance(request, PaperNoise):
            budget, kind = request.per_step, mechanism_class(self.mechanism)
            if kind not in MECHANISMS.values():
                raise Unpublished(f"no paper has a rule for {kind.name!r} noise; give a total budget.")
            if kind is Gaussian:
                return np.full(setting.agents, classic_multiplier(budget.epsilon, budget.delta))
            return np.full(setting.agents, 1.0 / budget.epsilon)
        assert not isinstance(request, Density)
        return noise_multipliers(request.of_each(setting.agents), setting.rounds * solver.steps, self.mechanism)


def repeated(events: tuple[DpEvent, ...], steps: int) -> tuple[DpEvent, ...]:
    """A round's events, from those of one of its steps."""
    if steps == 1:
        return events
    known = {event: SelfComposedDpEvent(event, steps) for event in set(events)}
    return tuple(known[event] for event in events)
