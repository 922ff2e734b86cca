"""ADMM's penalty rho^k, round by round. All agents and the server use the same, so it follows from public facts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpadmm.admm.noise import Level
from dpadmm.admm.setting import Setting
from dpadmm.errors import InputError


class RhoSchedule(ABC):
    """A rule for the penalty of round k = 1, 2, ...: nondecreasing and bounded, as the proofs require."""

    name: ClassVar[str]
    about: ClassVar[str]

    @abstractmethod
    def value(self, setting: Setting, level: Level, round: int) -> float:
        """rho of a round."""


@dataclass(frozen=True)
class ConstantRho(RhoSchedule):
    """The rho of the run, in all rounds."""

    name = "constant"
    about = "the same rho in all rounds"

    def value(self, setting: Setting, level: Level, round: int) -> float:
        return setting.rho


@dataclass(frozen=True)
class GrowingRho(RhoSchedule):
    """min(1e9, c_1 1.2^floor(k / T_c) + c_2 / epsilon): 001 (E.1), epsilon that of one step.

    The defaults are the paper's for MNIST; its constants belong to objectives in which every record weighs 1/(all
    records).
    """

    base: float = 2.0
    noise_part: float = 5.0
    period: float = 10_000.0

    name = "growing"
    about = "base * 1.2^floor(round / period) + noise_part / (epsilon of a step) (default 2, 5, 10,000)"

    def __post_init__(self) -> None:
        if not (0 < self.base < np.inf and 0 <= self.noise_part < np.inf and 1 <= self.period < np.inf):
            raise InputError(
                f"rho schedule 'growing': base {self.base!r} and period {self.period!r} must be positive (the period "
                f"at least 1) and the noise part {self.noise_part!r} not negative, as in 'growing:2:5:10000'."
            )

    def value(self, setting: Setting, level: Level, round: int) -> float:
        grown = 1.2 ** min(np.floor(round / self.period), 500.0)
        return float(min(1e9, self.base * grown + self.noise_part / level.epsilon))


@dataclass(frozen=True)
class BalancedRho(RhoSchedule):
    """2 G / U, for gradients of agents' objectives no longer than G and a set of diameter U.

    In the bounds of theorems 5.3 to 5.5 rho appears as P U² rho + (gamma + |y^1|)² / rho, with gamma at least twice the
    length of the optimal duals. Those are gradients at the optimum, so sqrt(P) G bounds them, and 2 G / U balances the
    two, up to the cap of (E.1). An unbounded set counts as a ball of the public radius.
    """

    scale: float = 1.0

    name = "balanced"
    about = "scale * 2 * (longest gradient) / (diameter of the set): what balances Ryu & Kim's bounds (default scale 1)"

    def __post_init__(self) -> None:
        if not 0 < self.scale < np.inf:
            raise InputError(f"rho schedule 'balanced': scale {self.scale!r} must be a positive number.")

    def value(self, setting: Setting, level: Level, round: int) -> float:
        diameter = level.diameter if np.isfinite(level.diameter) else 2.0 * setting.radius
        longest = self.scale * 2.0 * level.slope
        return min(1e9, longest / diameter) if diameter > 0.0 else 1e9


RHO_SCHEDULES: dict[str, type[RhoSchedule]] = {rule.name: rule for rule in (ConstantRho, GrowingRho, BalancedRho)}
