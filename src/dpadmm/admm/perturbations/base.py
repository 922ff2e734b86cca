"""Where the noise enters. A perturbation owns the sensitivity lemma and the privacy event that follow from that place.

Only here is a release made: a value and what it costs. Everything that leaves an agent has passed through `release`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpadmm.admm.noise import Multiplier, Noise, PaperNoise, Request
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.base import Memory, Oracle, Solver
from dpadmm.admm.subproblem import Subproblem
from dpadmm.errors import InputError, unknown
from dpadmm.privacy.calibration import classic_multiplier, noise_multipliers
from dpadmm.privacy.chain import Seal
from dpadmm.privacy.events import DpEvent
from dpadmm.privacy.mechanisms import MECHANISMS, Mechanism
from dpadmm.privacy.randomness import WordArray
from dpadmm.problems.shards import FloatArray

Words = Callable[[str, int], WordArray]
"""Words for this batch and this round, by purpose and count."""


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
    words: Words

    def solve(self, oracle: Oracle | None = None, subproblem: Subproblem | None = None) -> tuple[FloatArray, Memory]:
        """The solver's answers; by default to the subproblem as it is, with exact gradients."""
        given = subproblem or self.subproblem
        return self.solver.solve(given, oracle or given.loss_gradient, self.memory, self.eta)

    def noisy(self, mechanism: Mechanism, value: FloatArray, sensitivity: FloatArray, purpose: str) -> FloatArray:
        """`value` with this mechanism's noise on it."""
        return mechanism.add(value, sensitivity, self.words(purpose, mechanism.words_needed(value.shape[1])))


class Perturbation(ABC):
    """Turns a solver's work into a release."""

    name: ClassVar[str]
    about: ClassVar[str]
    private: ClassVar[bool] = True

    @abstractmethod
    def check(self, setting: Setting, solver: Solver) -> None:
        """Raises an `InputError` where the lemma does not cover this solver, problem or mechanism."""

    @abstractmethod
    def calibrate(self, setting: Setting, solver: Solver, request: Request) -> Noise:
        """The noise of every round and its events, from public facts alone."""

    @abstractmethod
    def release(self, task: Task) -> tuple[Release, Memory]:
        """Solves, perturbs, and says what that costs."""

    def gradient_noise(self, setting: Setting, noise: Noise) -> FloatArray:
        """Standard deviation of a coordinate of the noise as seen by the gradient, which steps are tuned to; (n,)."""
        deviation = noise.mechanism.deviation(setting.dimension)
        return deviation * noise.mechanism.noise_multiplier * setting.gradient_sensitivity


@dataclass(frozen=True)
class Additive(Perturbation):
    """Noise added to one vector whose Euclidean sensitivity is known."""

    mechanism: str = "gaussian"

    def check(self, setting: Setting, solver: Solver) -> None:
        check_norm(self.name, self.mechanism)

    def calibrate(self, setting: Setting, solver: Solver, request: Request) -> Noise:
        mechanism = MECHANISMS[self.mechanism](self._multipliers(setting, request))
        return Noise(mechanism, mechanism.events())

    def _multipliers(self, setting: Setting, request: Request) -> FloatArray:
        if isinstance(request, Multiplier):
            return np.full(setting.agents, request.value)
        if isinstance(request, PaperNoise):
            budget = request.per_round
            if self.mechanism == "gaussian":
                return np.full(setting.agents, classic_multiplier(budget.epsilon, budget.delta))
            return np.full(setting.agents, 1.0 / budget.epsilon)
        return noise_multipliers(request.of_each(setting.agents), setting.rounds, self.mechanism)


def check_norm(perturbation: str, mechanism: str) -> type[Mechanism]:
    """The mechanism by name, if it takes the Euclidean sensitivity that these lemmas give."""
    if mechanism not in MECHANISMS:
        raise unknown("mechanism", mechanism, MECHANISMS)
    found = MECHANISMS[mechanism]
    if found.norm != 2:
        raise InputError(
            f"mechanism {mechanism!r} needs an L{found.norm} sensitivity, but the lemma of perturbation "
            f"{perturbation!r} gives an L2 one; use 'gaussian' or 'gamma-norm'."
        )
    return found
