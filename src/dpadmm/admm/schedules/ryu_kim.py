"""The steps of 001 (Ryu & Kim): theorem 5.3 is for smooth objectives, 5.4 for those with a kink, 5.5 for strongly
convex ones. The theorems need a bounded set; `ryu-kim` takes their steps on any set and claims nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._ranges import SIZES, check_ranges, ranged
from dpadmm.admm.schedules.base import Schedule, smoothness
from dpadmm.admm.setting import NoiseLevel, Setting
from dpadmm.errors import InputError


def _check_bounded(setting: Setting, schedule: str) -> None:
    """The theorems need U, how far apart two points of the set can be; one point is no set to take steps in."""
    diameter = setting.problem.domain.diameter(setting.dimension)
    if not 0.0 < diameter < math.inf:
        lacks = "is not" if diameter else "is a single point"
        raise InputError(
            f"schedule {schedule!r} needs a bounded set, {setting.problem.domain.name!r} {lacks}; give one, such as "
            f"--set box:1, or use 'ryu-kim', the same steps without the theorem."
        )


def _damped(setting: Setting, theta: FloatArray | float, round: int, schedule: str) -> FloatArray:
    """1/eta = L_f + sqrt(k)/theta; theta is infinite without noise."""
    with np.errstate(over="ignore"):  # a step that is no number is refused with the plan
        return 1.0 / (smoothness(setting, schedule, "theorem-5.4") + np.sqrt(float(round)) / theta)


@dataclass(frozen=True)
class Theorem53(Schedule):
    """1/eta = L_f + sqrt(k)/epsilon, epsilon that of one step."""

    name = "theorem-5.3"
    about = "Ryu & Kim's decreasing step for smooth objectives over bounded sets"

    def check(self, setting: Setting) -> None:
        _check_bounded(setting, self.name)
        smoothness(setting, self.name, "theorem-5.4")

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        return _damped(setting, level.epsilon, round, self.name)


@dataclass(frozen=True)
class Free53(Schedule):
    """1/eta = L_f + sqrt(k)/theta; the theorem's bound is smallest at theta = U / (sigma sqrt(2 D E)) (theory 4.1)."""

    theta: float | None = ranged(SIZES, None)

    name = "free-5.3"
    about = "theorem 5.3 with a free constant theta (default: the one with the smallest bound)"

    def __post_init__(self) -> None:
        check_ranges(self, f"schedule {self.name!r}")

    def check(self, setting: Setting) -> None:
        if self.theta is None:
            _check_bounded(setting, self.name)
        smoothness(setting, self.name, "theorem-5.4")

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        if self.theta is not None:
            return _damped(setting, self.theta, round, self.name)
        spread = level.sigma * math.sqrt(2.0 * setting.dimension * level.steps)
        with np.errstate(divide="ignore"):  # without noise theta is infinite, and the step 1/L_f
            return _damped(setting, level.diameter / spread, round, self.name)


@dataclass(frozen=True)
class Theorem54(Schedule):
    """eta = 1/sqrt(k)."""

    name = "theorem-5.4"
    about = "Ryu & Kim's step for objectives with a kink over bounded sets"

    def check(self, setting: Setting) -> None:
        _check_bounded(setting, self.name)

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        return np.full(setting.agents, 1.0 / np.sqrt(float(round)))


@dataclass(frozen=True)
class Theorem55(Schedule):
    """eta = 2 / (alpha (k + 2)), alpha the strong convexity that the penalty guarantees."""

    name = "theorem-5.5"
    about = "Ryu & Kim's step for strongly convex objectives over bounded sets"

    def check(self, setting: Setting) -> None:
        _check_bounded(setting, self.name)
        if not setting.problem.strong_convexity > 0.0:
            raise InputError(
                f"schedule {self.name!r} needs a strongly convex objective; give the penalty 'l2' a strength, or use "
                f"'theorem-5.3'."
            )

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        return np.full(setting.agents, 2.0 / (setting.problem.strong_convexity * (round + 2)))

    def mean_divisor(self, round: int) -> float:
        """(5.3c): round t of T has the weight 2t / (T (T + 1))."""
        return (round + 1) / 2.0


@dataclass(frozen=True)
class RyuKim(Schedule):
    """The steps of theorem 5.3 where the objective is smooth, of 5.4 elsewhere, on any set."""

    name = "ryu-kim"
    about = "theorem 5.3's steps for smooth objectives, 5.4's for others; on any set"

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        rule = Theorem54() if setting.smoothness is None else Theorem53()
        return rule.eta(setting, level, round)
