"""A step for the whole horizon: as far as the noise lets a model go."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.noise import NoiseLevel
from dpadmm.admm.schedules.base import Schedule, check_positive
from dpadmm.admm.setting import Setting


@dataclass(frozen=True)
class Horizon(Schedule):
    """eta = min(longest, travel sqrt(width / K) / (R sigma)), sigma that of the mean of all agents' gradients.

    K steps of this size along noise alone lead every coefficient travel sqrt(width) / R away, in the mean square. The
    entries of rows of length R are about R / sqrt(width), so in a score each column's noise is about `travel`, before
    gradients begin to pull it back: a public number, the same for quiet and loud noise. All agents step alike.
    """

    travel: float = 0.5
    longest: float = 4.0  # 1 / L of the logistic loss over rows of length 1

    name = "horizon"
    about = "as long as the noise of all rounds allows: travel * sqrt(width / rounds) / sigma (default 0.5), at most 4"

    def __post_init__(self) -> None:
        check_positive(self.name, self.travel)
        check_positive(self.name, self.longest)

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        sigma, width = level.together, setting.width or setting.dimension
        allowed = self.travel * math.sqrt(width / setting.rounds) / setting.norm_bound
        step = self.longest if sigma * self.longest <= allowed else allowed / sigma
        return np.full(setting.agents, step)
