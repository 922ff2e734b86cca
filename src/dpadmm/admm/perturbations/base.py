"""Where the noise enters. A perturbation owns the sensitivity lemma and the privacy event that follow from that place.

Only here is a release made: a value and what it costs. Everything that leaves an agent has passed through `release`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm._fields import option
from dpadmm.admm.setting import Density, Multiplier, Noise, NoiseRequest, PaperNoise, Setting
from dpadmm.admm.solvers.base import Emit, Memory, Oracle, RandomBits, Solver, Subproblem, Sum, Sums, as_it_is
from dpadmm.errors import Unpublished
from dpadmm.privacy.calibration import classic_multiplier, noise_multipliers, scaled_multipliers
from dpadmm.privacy.events import DpEvent, SelfComposedDpEvent
from dpadmm.privacy.ledger.protocol import Seal
from dpadmm.privacy.mechanisms import MECHANISMS, Gaussian, Mechanism, SimulatedMechanism, mechanism_class
from dpadmm.release.perturb import add_noise, release_value
from dpadmm.release.random_bits import Stream

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
        return self.solver.solve(given, oracle or self.exact(given), self.memory, self.eta, emit)

    def sums(self, subproblem: Subproblem | None = None) -> Sums:
        """The sums over records that the solver works with: of all of them, or of mini-batches."""
        return self.solver.sums(self.setting, subproblem or self.subproblem, self.random_bits)

    def exact(self, subproblem: Subproblem | None = None) -> Oracle:
        """The solver's gradients without noise."""
        at = self.sums(subproblem)
        return lambda point: at(point).value

    def noisy_sum(
        self, mechanism: Mechanism, purpose: str, sensitivity: float | None = None
    ) -> Callable[[Sum], FloatArray]:
        """Adds this mechanism's noise to a sum over records, afresh at each of the solver's steps and no more often.

        `sensitivity` is in units of the lattice of whole gradients; None is that of a whole gradient.
        """
        if isinstance(mechanism, SimulatedMechanism):
            streams, moved = self._streams(purpose), self.setting.gradient_sensitivity(mechanism.norm)
            return lambda found: simulated(found.value, mechanism, moved, next(streams))
        noisy_counts = self.noisy_counts(mechanism, purpose, sensitivity)
        return lambda found: noisy_counts(found) * found.units

    def noisy_counts(
        self, mechanism: Mechanism, purpose: str, sensitivity: float | None = None
    ) -> Callable[[Sum], IntArray]:
        """As `noisy_sum`, in units of the sum's lattice."""
        streams = self._streams(purpose)
        moved = self.setting.sensitivity(mechanism.norm) if sensitivity is None else sensitivity
        return lambda found: add_noise(found.counts, mechanism, moved * found.finer, next(streams))

    def noisy(self, mechanism: Mechanism, sensitivity: Callable[[], FloatArray] | FloatArray, purpose: str) -> Emit:
        """Adds this mechanism's noise to a value, afresh at each of the solver's steps and no more often than that."""
        streams = self._streams(purpose)

        def add(value: FloatArray) -> FloatArray:
            stream, moved = next(streams), sensitivity() if callable(sensitivity) else sensitivity
            if isinstance(mechanism, SimulatedMechanism):
                return simulated(value, mechanism, moved, stream)
            return release_value(value, mechanism, moved, stream)

        return add

    def _streams(self, purpose: str) -> Iterator[Stream]:
        """Random bits for one step after another, for as many as are paid for."""
        for step in range(1, self.solver.steps + 1):
            yield self.random_bits(purpose if step == 1 else f"{purpose}.{step}")
        raise RuntimeError(f"solver {self.solver.name!r} took more steps than the {self.solver.steps} it pays.")


def simulated(value: FloatArray, mechanism: SimulatedMechanism, sensitivity: FloatArray, stream: Stream) -> FloatArray:
    """A value with noise in floating point, outside the release path: for simulations only."""
    noise = mechanism.unit(value.shape[1], stream.words(0, mechanism.words_needed(value.shape[1])))
    scale = (mechanism.noise_multiplier * sensitivity)[:, None]
    return np.where(scale == 0.0, value, value + noise * scale)


class Perturbation(ABC):
    """Turns a solver's work into a release."""

    name: ClassVar[str]
    about: ClassVar[str]
    private: ClassVar[bool] = True
    takes_alpha: ClassVar[bool] = False  # whether the noise can be asked for by its density, as 003 does
    takes_scales: ClassVar[bool] = False  # whether its noise may differ from round to round, and by agent
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
        `setting.louder` is how loud each time is to be beside the others, where they differ.
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
        kind = mechanism_class(self.mechanism)
        times = np.atleast_2d(self._multipliers(setting, solver, request))
        course = tuple(Noise(kind(z), repeated(kind(z).events(), solver.steps)) for z in times)
        return course[0] if len(course) == 1 else replace(course[0], course=course)

    def _multipliers(self, setting: Setting, solver: Solver, request: NoiseRequest) -> FloatArray:
        if isinstance(request, Multiplier):
            return request.value * (np.ones(setting.agents) if setting.louder is None else setting.louder)
        if isinstance(request, PaperNoise):
            budget, kind = request.per_step, mechanism_class(self.mechanism)
            if kind not in MECHANISMS.values():
                raise Unpublished(f"no paper has a rule for {kind.name!r} noise; give a total budget.")
            if kind is Gaussian:
                return np.full(setting.agents, classic_multiplier(budget.epsilon, budget.delta))
            return np.full(setting.agents, 1.0 / budget.epsilon)
        assert not isinstance(request, Density)
        budgets = request.of_each(setting.agents)
        if setting.louder is None:
            return noise_multipliers(budgets, setting.rounds * solver.steps, self.mechanism)
        each = setting.rounds // len(setting.louder) * solver.steps
        return scaled_multipliers(budgets, setting.louder, each, self.mechanism)


def repeated(events: tuple[DpEvent, ...], steps: int) -> tuple[DpEvent, ...]:
    """A round's events, from those of one of its steps."""
    if steps == 1:
        return events
    known = {event: SelfComposedDpEvent(event, steps) for event in set(events)}
    return tuple(known[event] for event in events)
