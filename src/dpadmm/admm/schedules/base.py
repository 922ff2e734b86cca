"""Rules for step sizes eta_i^k: public facts and the scale of the noise go in, steps come out.

Here are what a rule must say and all rules but Ryu & Kim's: those of 000 (Huang et al.), whose theorem 3 is for
objectives with a kink and theorem 4 for smooth ones, and whose constant-step versions know the number of rounds and are
fully proved (claims C1); steps that depend on the round at most; a step for the whole horizon; and steps for explicit
gradient steps, several a round (002; theory 5.2 leaves them open [?]).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._ranges import SIZES, check_ranges, ranged
from dpadmm.admm.setting import NoiseLevel, Setting
from dpadmm.errors import InputError


class Schedule(ABC):
    """A rule for the step of round k = 1..T, from public facts."""

    name: ClassVar[str]
    about: ClassVar[str]

    def check(self, setting: Setting) -> None:
        """Raises an `InputError` where the rule does not apply."""

    @abstractmethod
    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        """The step of each agent; (n,)."""

    def mean_divisor(self, round: int) -> float:
        """The mean over rounds moves by (value - mean) / divisor: all rounds count alike, unless a theorem differs."""
        return float(round)


def smoothness(setting: Setting, schedule: str, instead: str) -> FloatArray:
    """L_f of each agent, where the rule needs a smooth objective."""
    if setting.smoothness is None:
        raise InputError(
            f"schedule {schedule!r} needs a smooth objective; loss {setting.problem.loss.name!r} with penalty "
            f"{setting.problem.penalty.name!r} has a kink. Use {instead!r}."
        )
    return setting.smoothness


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
    """1/eta = s + sqrt(T X) / c_w, with s the curvature of a quadratic penalty and X without its gradient.

    The gradient of a quadratic is bounded by a ball that noisy iterates leave, so it must not be in X; its curvature is
    known, and stands beside the step instead (theory 3.4).
    """

    name = "constant-3"
    about = "theorem 3 with the number of rounds known: one step for all"

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        penalty, strength = setting.problem.penalty, setting.problem.strength
        kink = penalty.gradient_bound(setting.dimension, 0.0)
        second = (setting.gradient_bound + strength * kink) ** 2 + setting.dimension * level.sigma**2
        return 1.0 / (strength * penalty.strong_convexity + np.sqrt(setting.rounds * second) / setting.radius)


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


@dataclass(frozen=True)
class InverseRoot(Schedule):
    """eta = scale / sqrt(k)."""

    scale: float = ranged(SIZES, 1.0)

    name = "inverse-sqrt"
    about = "scale / sqrt(round) (default scale 1)"

    def __post_init__(self) -> None:
        check_ranges(self, f"schedule {self.name!r}")

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        return np.full(setting.agents, self.scale / np.sqrt(float(round)))


@dataclass(frozen=True)
class Fixed(Schedule):
    """The same step always; distributed gradient descent's learning rate."""

    step: float = ranged(SIZES, 0.1)

    name = "fixed"
    about = "the same step always (default 0.1)"

    def __post_init__(self) -> None:
        check_ranges(self, f"schedule {self.name!r}")

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        return np.full(setting.agents, self.step)


@dataclass(frozen=True)
class Horizon(Schedule):
    """eta = min(longest, travel sqrt(width / K) / (R sigma)), sigma that of the mean of all agents' gradients.

    K steps of this size along noise alone lead every coefficient travel sqrt(width) / R away, in the mean square. The
    entries of rows of length R are about R / sqrt(width), so in a score each column's noise is about `travel`, before
    gradients begin to pull it back: a public number, the same for quiet and loud noise. All agents step alike.
    """

    travel: float = ranged(SIZES, 0.5)
    longest: float = ranged(SIZES, 4.0)  # 1 / L of the logistic loss over rows of length 1

    name = "horizon"
    about = "as long as the noise of all rounds allows: travel * sqrt(width / rounds) / sigma (default 0.5), at most 4"

    def __post_init__(self) -> None:
        check_ranges(self, f"schedule {self.name!r}")

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        sigma, width = level.together, setting.width or setting.dimension
        allowed = self.travel * math.sqrt(width / setting.rounds) / setting.norm_bound
        step = self.longest if sigma * self.longest <= allowed else allowed / sigma
        return np.full(setting.agents, step)


@dataclass(frozen=True)
class Stable(Schedule):
    """eta = 1 / (factor (L + rho)): stable for any factor from 1, over-relaxed for any above 2."""

    factor: float = ranged(SIZES, 4.0)

    name = "stable"
    about = "1 / (factor * (L + rho)) (default factor 4)"

    def __post_init__(self) -> None:
        check_ranges(self, f"schedule {self.name!r}")

    def check(self, setting: Setting) -> None:
        smoothness(setting, self.name, "inverse-sqrt")

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        return 1.0 / (self.factor * (smoothness(setting, self.name, "inverse-sqrt") + setting.rho))


@dataclass(frozen=True)
class Averaged(Schedule):
    """1/eta = L + rho + sqrt(K S (D sigma² + spread²)) / c_w.

    The step that balances distance against noise in the mean of K S noisy gradient steps (as `constant-4` does for one
    step a round), where noise is that of privacy and that of drawing mini-batches. Without a smooth loss, L is nothing
    and the gradient's length counts as noise.
    """

    name = "averaged"
    about = "a constant step for all inner steps of all rounds, from L, rho, the noise and the radius"

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        second = setting.dimension * level.sigma**2
        if level.spread is not None:
            second = second + level.spread**2
        if setting.smoothness is None:
            second = second + setting.gradient_bound**2
        steps = setting.rounds * level.steps
        bend = 0.0 if setting.smoothness is None else setting.smoothness
        return np.asarray(1.0 / (bend + setting.rho + np.sqrt(steps * second) / setting.radius))
