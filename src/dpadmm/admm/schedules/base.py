"""What a rule for step sizes eta_i^k must say: public facts and how loud the noise will be go in, steps come out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.noise import NoiseLevel
from dpadmm.admm.setting import Setting
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


def smoothness(setting: Setting, schedule: str, instead: str) -> FloatArray:
    """L_f of each agent, where the rule needs a smooth objective."""
    if setting.smoothness is None:
        raise InputError(
            f"schedule {schedule!r} needs a smooth objective; loss {setting.problem.loss.name!r} with penalty "
            f"{setting.problem.penalty.name!r} has a kink. Use {instead!r}."
        )
    return setting.smoothness


def check_positive(name: str, value: float) -> None:
    if not 0.0 < value < np.inf:
        raise InputError(f"schedule {name!r}: {value!r} must be a positive number.")
