"""How noise varies by round and by agent: public numbers, in units of what a budget is calibrated to.

A schedule says how large the noise multiplier of agent i is when a private phase comes for the k-th time, beside those
of other times and agents. A budget, alpha or multiplier then settles the unit: of a budget, such that all rounds of
each agent together exhaust it; 003's alpha_i(k) is alpha divided by the number that stands here. Privacy rests on the
multipliers that come out, each of which has its own event; whatever the numbers are, the account is true.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._ranges import SIZES, PublicRange, check_ranges, ranged
from dpadmm.admm.sequences import Listed
from dpadmm.admm.setting import Setting
from dpadmm.errors import InputError


class NoiseSchedule(ABC):
    """A rule for the scale of the noise, from public facts."""

    name: ClassVar[str]
    about: ClassVar[str]
    varies: ClassVar[bool] = True  # False where all scales are one

    def check(self, setting: Setting) -> None:
        """Raises an `InputError` where the rule does not fit the agents."""

    @abstractmethod
    def scale(self, setting: Setting, time: int) -> float | FloatArray:
        """The scale when a phase comes for the k-th time: one for all agents, or one for each of the batch (n,)."""


@dataclass(frozen=True)
class ConstantNoise(NoiseSchedule):
    """The same noise in all rounds."""

    name = "constant"
    about = "the same noise in all rounds"
    varies = False

    def scale(self, setting: Setting, time: int) -> float | FloatArray:
        return 1.0


@dataclass(frozen=True)
class GeometricNoise(NoiseSchedule):
    """scale_i * growth_i^(k-1), within the range of sizes. Numbers are one for all agents, or one for each."""

    growth: float | tuple[float, ...] = ranged(PublicRange(0.5, 2.0), 1.0)
    start: float | tuple[float, ...] = ranged(SIZES, 1.0)

    name = "geometric"
    about = "start * growth^(time - 1) (default 1, 1); lists give every agent its own"

    def __post_init__(self) -> None:
        check_ranges(self, f"noise schedule {self.name!r}")

    def check(self, setting: Setting) -> None:
        for name, values in (("growth", self.growth), ("start", self.start)):
            if isinstance(values, tuple) and len(values) != setting.agents:
                raise InputError(
                    f"noise schedule {self.name!r}: {len(values)} numbers for {name}, and {setting.agents} agents: "
                    f"give one, or one for each."
                )

    def scale(self, setting: Setting, time: int) -> float | FloatArray:
        growth, start = (
            np.asarray(values, dtype=np.float64)[setting.members] if isinstance(values, tuple) else values
            for values in (self.growth, self.start)
        )
        least, most = np.log(SIZES.low), np.log(SIZES.high)
        found = np.exp(np.clip(np.log(start) + (time - 1.0) * np.log(growth), least, most))
        return found if np.ndim(found) else float(found)


@dataclass(frozen=True)
class SequenceNoise(Listed, NoiseSchedule):
    """Scales as they are listed."""

    name = "sequence"
    about = "as listed: how many numbers a time has, then all of them, time after time (default 1, 1)"

    def check(self, setting: Setting) -> None:
        self.check_agents("noise schedule", setting.agents)

    def scale(self, setting: Setting, time: int) -> float | FloatArray:
        return self.at(setting, time)


NOISE_SCHEDULES: dict[str, type[NoiseSchedule]] = {
    rule.name: rule for rule in (ConstantNoise, GeometricNoise, SequenceNoise)
}
"""How noise can vary, by name."""


def scales(rule: NoiseSchedule, setting: Setting, times: int) -> FloatArray | None:
    """(times, n), or (1, n) where all times are alike; None where nothing varies.

    Raises:
        InputError: a rule gives something else than positive numbers of a public range.
    """
    if not rule.varies:
        return None
    found = [np.broadcast_to(rule.scale(setting, time), (setting.agents,)) for time in range(1, times + 1)]
    rows = np.array(found, dtype=np.float64)
    if not ((rows >= SIZES.low) & (rows <= SIZES.high)).all():
        raise InputError(f"noise schedule {rule.name!r}: each number must be {SIZES}.")
    if (rows == rows[:1]).all():
        rows = rows[:1]
    return None if (rows == 1.0).all() else rows
