"""How much noise was asked for, and what it came to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.errors import InputError
from dpadmm.privacy.calibration import Budget, classic_multiplier
from dpadmm.privacy.events import DpEvent
from dpadmm.privacy.mechanisms import Gaussian, Mechanism


@dataclass(frozen=True)
class TotalBudget:
    """The normal request: what the whole run may cost, for all agents alike or for each."""

    budgets: tuple[Budget, ...]

    @property
    def delta(self) -> float:
        return min(budget.delta for budget in self.budgets)

    def of_each(self, agents: int) -> Sequence[Budget]:
        if len(self.budgets) not in (1, agents):
            raise InputError(f"{len(self.budgets)} budgets for {agents} agents: give one, or one for each.")
        return self.budgets * agents if len(self.budgets) == 1 else self.budgets


@dataclass(frozen=True)
class PaperNoise:
    """The papers' request, for reproductions: (epsilon, delta) of every single step, or in 002 of the whole run."""

    per_step: Budget

    @property
    def delta(self) -> float:
        return self.per_step.delta


@dataclass(frozen=True)
class Density:
    """003's request: noise of density exp(-alpha |.|), alpha for all agents alike or for each; the total follows."""

    alphas: tuple[float, ...]
    delta: float = 1e-6  # as in a multiplier

    def __post_init__(self) -> None:
        if not all(0.0 < alpha < np.inf for alpha in self.alphas):
            raise InputError(f"alpha {min(self.alphas)!r}: must be a positive number.")

    def of_each(self, agents: int) -> FloatArray:
        if len(self.alphas) not in (1, agents):
            raise InputError(f"{len(self.alphas)} alphas for {agents} agents: give one, or one for each.")
        return np.broadcast_to(np.asarray(self.alphas, dtype=np.float64), (agents,))


@dataclass(frozen=True)
class Multiplier:
    """Noise in units of the sensitivity; 0 makes a private recipe its own twin, and the account says non-private."""

    value: float
    delta: float = 1e-6  # for rules that count a step's epsilon as the papers do; it enters no privacy proof

    def __post_init__(self) -> None:
        if not (np.isfinite(self.value) and self.value >= 0):
            raise InputError(f"noise multiplier {self.value!r}: must be zero or a positive number.")


NoiseRequest = TotalBudget | PaperNoise | Density | Multiplier


@dataclass(frozen=True, eq=False)
class NoiseLevel:
    """How loud the noise is, for the rules that set steps and penalties. A twin keeps it and adds none."""

    sigma: FloatArray  # (n,) standard deviation of a coordinate, as the gradient sees it
    epsilon: float  # of one step at the most cautious agent, as the papers count it; infinite without noise
    slope: float = 1.0  # no agent's gradient is longer, as far as records go
    diameter: float = np.inf  # of the largest agent's set
    steps: int = 1  # in a round
    spread: FloatArray | None = None  # (n,) of gradients of mini-batches, in the mean square; None: whole gradients
    together: float = -1.0  # of a coordinate of the mean of all agents' gradients; negative: as sigma has it

    def __post_init__(self) -> None:
        if self.together < 0.0:
            object.__setattr__(self, "together", math.sqrt(float((self.sigma**2).sum())) / max(1, self.sigma.size))

    def take(self, agents: Any) -> NoiseLevel:
        """The rows of these agents; the rest is the same for all, because all must use the same penalties."""
        return replace(self, sigma=self.sigma[agents], spread=None if self.spread is None else self.spread[agents])


def step_epsilon(mechanism: Mechanism, delta: float) -> float:
    """What the papers would call the epsilon of one step: classic for Gaussian noise, else the pure one."""
    loudest = float(mechanism.noise_multiplier.max(initial=0.0))
    if loudest == 0.0:
        return np.inf
    return (classic_multiplier(1.0, delta) if isinstance(mechanism, Gaussian) else 1.0) / loudest


@dataclass(frozen=True, eq=False)
class Noise:
    """A resolved request: what one phase draws each round, and what that costs every agent. One row per agent."""

    mechanism: Mechanism
    events: tuple[DpEvent, ...]
    output: Mechanism | None = None  # objective perturbation's cover for an inexact minimiser
    curvature: FloatArray | None = None  # objective perturbation's extra quadratic term
    anchor: Mechanism | None = None  # of the whole gradient that mini-batches correct, where it has noise of its own
    course: tuple[Noise, ...] = ()  # one for each time the phase comes, where they differ; all else is of the first

    def at(self, time: int) -> Noise:
        """What is drawn when the phase comes for the k-th time, k = 1, 2, ..."""
        return self.course[time - 1] if self.course else self

    def on_lattice(self) -> Noise:
        """For real releases: what is added to a released value lies on one lattice with it.

        A minimiser's cover is a whisper beside the minimiser: its lattice must reach far.
        """
        output = None if self.output is None else self.output.on_lattice(far=True)
        anchor = None if self.anchor is None else self.anchor.on_lattice()
        course = tuple(noise.on_lattice() for noise in self.course)
        return replace(self, mechanism=self.mechanism.on_lattice(), output=output, anchor=anchor, course=course)

    def take(self, agents: Any) -> Noise:
        """The rows of these agents."""
        return replace(
            self,
            mechanism=self.mechanism.take(agents),
            events=tuple(self.events[i] for i in agents),
            output=None if self.output is None else self.output.take(agents),
            curvature=None if self.curvature is None else self.curvature[agents],
            anchor=None if self.anchor is None else self.anchor.take(agents),
            course=tuple(noise.take(agents) for noise in self.course),
        )
