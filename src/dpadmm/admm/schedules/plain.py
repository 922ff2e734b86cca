"""Steps that depend on the round at most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.noise import NoiseLevel
from dpadmm.admm.schedules.base import Schedule, check_positive
from dpadmm.admm.setting import Setting


@dataclass(frozen=True)
class InverseRoot(Schedule):
    """eta = scale / sqrt(k)."""

    scale: float = 1.0

    name = "inverse-sqrt"
    about = "scale / sqrt(round) (default scale 1)"

    def __post_init__(self) -> None:
        check_positive(self.name, self.scale)

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        return np.full(setting.agents, self.scale / np.sqrt(float(round)))


@dataclass(frozen=True)
class Fixed(Schedule):
    """The same step always; distributed gradient descent's learning rate."""

    step: float = 0.1

    name = "fixed"
    about = "the same step always (default 0.1)"

    def __post_init__(self) -> None:
        check_positive(self.name, self.step)

    def eta(self, setting: Setting, level: NoiseLevel, round: int) -> FloatArray:
        return np.full(setting.agents, self.step)
