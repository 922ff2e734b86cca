"""Step sizes eta_i^k. `sigma` is the standard deviation of the noise on each agent's gradient, known beforehand.

The names follow 000: theorem 3 is for objectives with a kink, theorem 4 for smooth ones. Their constant-step versions
know the number of rounds and are fully proved (AUDIT C1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpadmm.admm.setting import Setting
from dpadmm.errors import InputError
from dpadmm.problems.shards import FloatArray


class Schedule(ABC):
    """A rule for the step of round k = 1..T, from public facts."""

    name: ClassVar[str]
    about: ClassVar[str]

    def check(self, setting: Setting) -> None:
        """Raises an `InputError` where the rule does not apply."""

    @abstractmethod
    def eta(self, setting: Setting, sigma: FloatArray, round: int) -> FloatArray:
        """The step of each agent; (n,)."""


def _second_moment(setting: Setting, sigma: FloatArray) -> FloatArray:
    """X_i = (c_1 + strength c_2)² + D sigma²: how long a noisy gradient can be, in the mean square."""
    bound = setting.problem.penalty.gradient_bound(setting.dimension, setting.radius)
    return (setting.gradient_bound + setting.problem.strength * bound) ** 2 + setting.dimension * sigma**2


def _smoothness(setting: Setting, schedule: str) -> FloatArray:
    if setting.smoothness is None:
        raise InputError(
            f"schedule {schedule!r} needs a smooth objective; loss {setting.problem.loss.name!r} with penalty "
            f"{setting.problem.penalty.name!r} has a kink. Use {schedule.replace('4', '3')!r}."
        )
    return setting.smoothness


@dataclass(frozen=True)
class Theorem3(Schedule):
    """eta = c_w / sqrt(2 k X)."""

    name = "theorem-3"
    about = "DP-ADMM's decreasing step for objectives with a kink"

    def eta(self, setting: Setting, sigma: FloatArray, round: int) -> FloatArray:
        return setting.radius / np.sqrt(2.0 * round * _second_moment(setting, sigma))


@dataclass(frozen=True)
class Theorem4(Schedule):
    """1/eta = L_f + sqrt(2 k D) sigma / c_w."""

    name = "theorem-4"
    about = "DP-ADMM's decreasing step for smooth objectives"

    def check(self, setting: Setting) -> None:
        _smoothness(setting, self.name)

    def eta(self, setting: Setting, sigma: FloatArray, round: int) -> FloatArray:
        noise = np.sqrt(2.0 * round * setting.dimension) * sigma / setting.radius
        return 1.0 / (_smoothness(setting, self.name) + noise)


@dataclass(frozen=True)
class Constant3(Schedule):
    """eta = c_w / sqrt(T X)."""

    name = "constant-3"
    about = "theorem 3 with the number of rounds known: one step for all"

    def eta(self, setting: Setting, sigma: FloatArray, round: int) -> FloatArray:
        return setting.radius / np.sqrt(setting.rounds * _second_moment(setting, sigma))


@dataclass(frozen=True)
class Constant4(Schedule):
    """1/eta = L_f + sqrt(T D) sigma / c_w."""

    name = "constant-4"
    about = "theorem 4 with the number of rounds known: one step for all"

    def check(self, setting: Setting) -> None:
        _smoothness(setting, self.name)

    def eta(self, setting: Setting, sigma: FloatArray, round: int) -> FloatArray:
        noise = np.sqrt(float(setting.rounds * setting.dimension)) * sigma / setting.radius
        return 1.0 / (_smoothness(setting, self.name) + noise)


@dataclass(frozen=True)
class Theorem(Schedule):
    """Theorem 4 where the objective is smooth, theorem 3 elsewhere: what DP-ADMM's authors do."""

    name = "theorem"
    about = "theorem 4 for smooth objectives, theorem 3 for the others"

    def eta(self, setting: Setting, sigma: FloatArray, round: int) -> FloatArray:
        rule = Theorem3() if setting.smoothness is None else Theorem4()
        return rule.eta(setting, sigma, round)


@dataclass(frozen=True)
class Constant(Schedule):
    """Constant-step version of `Theorem`."""

    name = "constant"
    about = "the constant-step version of 'theorem'"

    def eta(self, setting: Setting, sigma: FloatArray, round: int) -> FloatArray:
        rule = Constant3() if setting.smoothness is None else Constant4()
        return rule.eta(setting, sigma, round)


@dataclass(frozen=True)
class InverseRoot(Schedule):
    """eta = scale / sqrt(k)."""

    scale: float = 1.0

    name = "inverse-sqrt"
    about = "scale / sqrt(round) (default scale 1)"

    def __post_init__(self) -> None:
        _check_positive(self.name, self.scale)

    def eta(self, setting: Setting, sigma: FloatArray, round: int) -> FloatArray:
        return np.full(setting.agents, self.scale / np.sqrt(float(round)))


@dataclass(frozen=True)
class Fixed(Schedule):
    """The same step always; distributed gradient descent's learning rate."""

    step: float = 0.1

    name = "fixed"
    about = "the same step always (default 0.1)"

    def __post_init__(self) -> None:
        _check_positive(self.name, self.step)

    def eta(self, setting: Setting, sigma: FloatArray, round: int) -> FloatArray:
        return np.full(setting.agents, self.step)


def _check_positive(name: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise InputError(f"schedule {name!r}: {value!r} must be a positive number.")


SCHEDULES: dict[str, type[Schedule]] = {
    rule.name: rule for rule in (Theorem, Constant, Theorem3, Theorem4, Constant3, Constant4, InverseRoot, Fixed)
}
