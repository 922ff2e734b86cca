"""Steps for explicit gradient steps, several a round (002; theory 5.2 leaves them open [?])."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.noise import NoiseLevel
from dpadmm.admm.schedules.base import Schedule, check_positive, smoothness
from dpadmm.admm.setting import Setting


@dataclass(frozen=True)
class Stable(Schedule):
    """eta = 1 / (factor (L + rho)): stable for any factor from 1, over-relaxed for any above 2."""

    factor: float = 4.0

    name = "stable"
    about = "1 / (factor * (L + rho)) (default factor 4)"

    def __post_init__(self) -> None:
        check_positive(self.name, self.factor)

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
