"""The steps of 000 (Huang et al.): theorem 3 is for objectives with a kink, theorem 4 for smooth ones.

Their constant-step versions know the number of rounds and are fully proved (claims C1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.noise import NoiseLevel
from dpadmm.admm.schedules.base import Schedule, smoothness
from dpadmm.admm.setting import Setting


def _second_moment(setting: Setting, level: NoiseLevel) -> FloatArray:
    """X_i = (c_1 + strength c_2)² + D sigma²: how long a noisy gradient can be, in the mean square."""
    bound = setting.problem.penalty.gradient_bound(setting.dimension, setting.radius)
    return (setting.gradient_bound + setting.problem.strength * bound) ** 2 + setting.dimension * level.sigma**2


@dataclass(frozen=True)
class Theorem3(Schedule):
    """eta = c_w / sqrt(2 k X)."""

    name = "theorem-3"
    about = "DP-ADMM's decreasing step for objectives with a kink"

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        return setting.radius / np.sqrt(2.0 * round * _second_moment(setting, level))


@dataclass(frozen=True)
class Theorem4(Schedule):
    """1/eta = L_f + sqrt(2 k D) sigma / c_w."""

    name = "theorem-4"
    about = "DP-ADMM's decreasing step for smooth objectives"

    def check(self, setting: Setting) -> None:
        smoothness(setting, self.name, self.name.replace("4", "3"))

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        noise = np.sqrt(2.0 * round * setting.dimension) * level.sigma / setting.radius
        return 1.0 / (smoothness(setting, self.name, self.name.replace("4", "3")) + noise)


@dataclass(frozen=True)
class Constant3(Schedule):
    """eta = c_w / sqrt(T X)."""

    name = "constant-3"
    about = "theorem 3 with the number of rounds known: one step for all"

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        return setting.radius / np.sqrt(setting.rounds * _second_moment(setting, level))


@dataclass(frozen=True)
class Constant4(Schedule):
    """1/eta = L_f + sqrt(T D) sigma / c_w."""

    name = "constant-4"
    about = "theorem 4 with the number of rounds known: one step for all"

    def check(self, setting: Setting) -> None:
        smoothness(setting, self.name, self.name.replace("4", "3"))

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        noise = np.sqrt(float(setting.rounds * setting.dimension)) * level.sigma / setting.radius
        return 1.0 / (smoothness(setting, self.name, self.name.replace("4", "3")) + noise)


@dataclass(frozen=True)
class Theorem(Schedule):
    """Theorem 4 where the objective is smooth, theorem 3 elsewhere: what DP-ADMM's authors do."""

    name = "theorem"
    about = "theorem 4 for smooth objectives, theorem 3 for the others"

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        rule = Theorem3() if setting.smoothness is None else Theorem4()
        return rule.eta(setting, level, round)


@dataclass(frozen=True)
class Constant(Schedule):
    """Constant-step version of `Theorem`."""

    name = "constant"
    about = "the constant-step version of 'theorem'"

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        rule = Constant3() if setting.smoothness is None else Constant4()
        return rule.eta(setting, level, round)
