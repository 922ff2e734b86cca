"""What a power-flow run is asked to do, and the noise that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpadmm.admm.setting import step_epsilon
from dpadmm.applications.power_flow.formulation import FORMULATIONS
from dpadmm.applications.power_flow.releases import PROTECTIONS, Adjacency, Protection
from dpadmm.errors import InputError, unknown
from dpadmm.privacy.calibration import Budget, classic_multiplier, noise_multipliers
from dpadmm.privacy.claims import Claim
from dpadmm.privacy.mechanisms import MECHANISMS

# 001 uses 100 for its gradient steps. For exact rounds that is too stiff: see docs/power_flow.md.
LINEARISED_RHO, EXACT_RHO = 100.0, 1.0
STEPS = ("smooth", "paper")
NOISE_ON = ("loads", "all")


@dataclass(frozen=True)
class Terms:
    """Public. Epsilon and delta are those of the whole run, or with `paper_noise` of every update as in 001."""

    algorithm: str = "input"
    rounds: int = 100
    updates: int = 1
    rho: float | None = None
    steps: str = "smooth"  # 1/eta = L + sqrt(k)/epsilon as in theorem 5.3, or "paper": eta = 1/sqrt(k) as 001 runs it
    epsilon: float | None = None
    delta: float | None = None
    beta: float = 0.01  # per unit: how much a load may differ between neighbours
    both_loads: bool = True
    paper_noise: bool = False
    noise_multiplier: float | None = None
    formulation: str = "slack"  # of gradient steps: (D.3), or "eliminated", (6.1)
    noise_on: str | None = None  # of obj: "loads", the entries of the gradient that these move, or "all" as in 001

    def __post_init__(self) -> None:
        if self.algorithm not in PROTECTIONS:
            raise unknown("power-flow algorithm", self.algorithm, PROTECTIONS)
        if self.steps not in STEPS:
            raise unknown("steps", self.steps, STEPS)
        if self.formulation not in FORMULATIONS:
            raise unknown("formulation", self.formulation, FORMULATIONS)
        if self.noise_on is not None:
            if self.noise_on not in NOISE_ON:
                raise unknown("noise-on", self.noise_on, NOISE_ON)
            if not self.algorithm.startswith("obj"):
                raise InputError(f"algorithm {self.algorithm!r} has no noise on gradients; noise-on is for obj.")
        for name, least in (("rounds", 1), ("updates", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} {getattr(self, name)}: at least {least}.")
        for name in ("rho", "beta"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise InputError(f"{name} {value!r}: must be a positive number.")
        if self.updates > 1 and not self.linearised:
            raise InputError(f"algorithm {self.algorithm!r} solves every round exactly: it has no local updates.")
        if self.mechanism is None:
            if self.epsilon is not None or self.noise_multiplier is not None:
                raise InputError(f"algorithm {self.algorithm!r} is not private, so a budget means nothing to it.")
        elif (self.epsilon is None) == (self.noise_multiplier is None):
            raise InputError(f"algorithm {self.algorithm!r} is private: give an epsilon, or a noise multiplier.")
        if self.paper_noise and (self.algorithm == "input" or self.epsilon is None):
            raise InputError("paper noise is the paper's, for obj and out with an epsilon for every update.")

    @property
    def linearised(self) -> bool:
        return PROTECTIONS[self.algorithm].linearised

    @property
    def mechanism(self) -> str | None:
        return PROTECTIONS[self.algorithm].mechanism

    @property
    def penalty(self) -> float:
        """rho, chosen where none is given."""
        return self.rho if self.rho is not None else (LINEARISED_RHO if self.linearised else EXACT_RHO)

    @property
    def everywhere(self) -> bool:
        """Whether gradient noise is on all entries: where it is asked for, and where the paper's noise is."""
        return self.paper_noise if self.noise_on is None else self.noise_on == "all"

    @property
    def releases(self) -> int:
        """How often noise is drawn."""
        return 1 if self.algorithm == "input" else self.rounds * self.updates

    def protection(self) -> Protection:
        """The algorithm with its noise."""
        adjacency = Adjacency(self.beta, self.both_loads)
        return PROTECTIONS[self.algorithm](self._multiplier, adjacency, self.paper_noise, self.everywhere)

    def eta(self, smoothness: float, round: int) -> float:
        """The step of an update, for an objective whose gradient has this Lipschitz constant."""
        if self.steps == "paper":
            return 1.0 / np.sqrt(float(round))
        if self.mechanism is None:
            return 1.0 / smoothness
        noise = MECHANISMS[self.mechanism](np.array([self._multiplier]))
        return 1.0 / (smoothness + np.sqrt(float(round)) / step_epsilon(noise, self.delta or 1e-6))

    def claimed(self) -> float | None:
        """What 001 would say its noise costs in all."""
        if not self.paper_noise or self.epsilon is None:
            return None
        if self.mechanism == "laplace":
            return self.releases * self.epsilon
        return Claim("power flow", self.epsilon, self.delta or 0.0, self.releases).total

    @cached_property
    def _multiplier(self) -> float:
        if self.mechanism is None:
            return 0.0
        if self.noise_multiplier is not None:
            if not 0 <= self.noise_multiplier < np.inf:
                raise InputError(f"noise multiplier {self.noise_multiplier!r}: must be zero or a positive number.")
            return self.noise_multiplier
        assert self.epsilon is not None
        budget = Budget(self.epsilon, self.delta or 0.0)
        if self.paper_noise:
            return (
                classic_multiplier(budget.epsilon, budget.delta) if self.mechanism == "gaussian" else 1 / self.epsilon
            )
        return float(noise_multipliers([budget], self.releases, self.mechanism)[0])
