"""ADMM's penalty, round by round, from public facts.

Around a server all agents use the same rho^k. On a graph every node may have its own theta_i(k). In a recipe with
several phases k counts the cycles, so that all phases of one use the same penalty.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._ranges import SIZES, SIZES_OR_ZERO, PublicRange, check_ranges, ranged
from dpadmm.admm.sequences import Listed
from dpadmm.admm.setting import NoiseLevel, Setting
from dpadmm.errors import InputError

Rho = float | FloatArray
"""One number for all agents, or one for each (n,)."""


class RhoSchedule(ABC):
    """A rule for the penalty of round k = 1, 2, ...: nondecreasing and bounded, as the proofs require."""

    name: ClassVar[str]
    about: ClassVar[str]
    follows_noise: ClassVar[bool] = False  # whether it cannot be known before the noise is
    by_place: ClassVar[bool] = False  # whether an agent's penalty depends on its place and on no other of its facts

    @property
    def scales_rho(self) -> bool:
        """Whether it starts from the rho of the run."""
        return False

    def check(self, setting: Setting, shared: bool) -> None:
        """Raises an `InputError` where the rule does not fit the agents; `shared` says that all must use the same."""

    @abstractmethod
    def value(self, setting: Setting, level: NoiseLevel, round: int) -> Rho:
        """The penalty of a round, or of a cycle."""


@dataclass(frozen=True)
class ConstantRho(RhoSchedule):
    """The rho of the run, or this one, in all rounds."""

    fixed: float | None = ranged(SIZES, None)

    name = "constant"
    about = "the same rho in all rounds"
    by_place = True

    @property
    def scales_rho(self) -> bool:
        return self.fixed is None

    def __post_init__(self) -> None:
        check_ranges(self, f"rho schedule {self.name!r}")

    def value(self, setting: Setting, level: NoiseLevel, round: int) -> Rho:
        return setting.rho if self.fixed is None else self.fixed


@dataclass(frozen=True)
class GeometricRho(RhoSchedule):
    """rho * scale_i * growth_i^k, at most rho * bound: the penalties of M-ADMM and MR-ADMM (003).

    Steps get shorter as rounds pass, which keeps noise from carrying the iterates away. Growth and scale are one number
    for all nodes, or one for each.
    """

    growth: float | tuple[float, ...] = ranged(PublicRange(1.0, 2.0), 1.04)  # penalties must not fall
    scale: float | tuple[float, ...] = ranged(SIZES, 1.0)
    bound: float = ranged(SIZES, 1e6)

    by_place = True
    name = "geometric"
    about = "rho * scale * growth^round, at most rho * bound (default 1.04, 1, 1e6); lists give every node its own"

    @property
    def scales_rho(self) -> bool:
        return True

    def __post_init__(self) -> None:
        check_ranges(self, f"rho schedule {self.name!r}")
        if not np.max(self.scale) <= self.bound:
            raise InputError(
                f"rho schedule {self.name!r}: scale = {self.scale!r} must be at most the bound, {self.bound!r}, as in "
                f"'geometric:1.04:1:100'."
            )

    def check(self, setting: Setting, shared: bool) -> None:
        for name, values in (("growth", self.growth), ("scale", self.scale)):
            if not isinstance(values, tuple):
                continue
            if shared:
                raise InputError(
                    f"rho schedule 'geometric': a {name} for every node is for graphs; around a server all agents use "
                    f"one penalty."
                )
            if setting.graph is not None and len(values) != setting.graph.nodes:
                raise InputError(
                    f"rho schedule 'geometric': {len(values)} numbers for {name}, and {setting.graph.nodes} nodes: "
                    f"give one, or one for each."
                )

    def value(self, setting: Setting, level: NoiseLevel, round: int) -> Rho:
        growth, scale = (self._of_each(values, setting) for values in (self.growth, self.scale))
        # Beyond the bound the power may overflow, and need not be computed.
        exponent = np.minimum(float(round), np.log(self.bound / scale) / np.log(np.maximum(growth, 1.0 + 1e-12)) + 1.0)
        value = setting.rho * np.minimum(scale * growth**exponent, self.bound)
        return value if np.ndim(value) else float(value)

    @staticmethod
    def _of_each(values: float | tuple[float, ...], setting: Setting) -> Rho:
        return np.asarray(values, dtype=np.float64)[setting.members] if isinstance(values, tuple) else values


@dataclass(frozen=True)
class SequenceRho(Listed, RhoSchedule):
    """Penalties as they are listed, cycle after cycle: the theta_i(k) of 003, Alg. 2, of any kind that never falls."""

    by_place = True
    name = "sequence"
    about = "as listed: how many numbers a cycle has, then all of them, cycle after cycle (default 1, 1)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (np.diff(self.rows, axis=0) < 0.0).any():
            raise InputError(
                f"rho schedule {self.name!r}: a penalty falls from one cycle to the next; it must not, as the proofs "
                f"require."
            )

    def check(self, setting: Setting, shared: bool) -> None:
        if shared and self.agents > 1:
            raise InputError(
                f"rho schedule {self.name!r}: a penalty for every node is for graphs; around a server all agents use "
                f"one."
            )
        if setting.graph is not None:
            self.check_agents("rho schedule", setting.graph.nodes)

    def value(self, setting: Setting, level: NoiseLevel, round: int) -> Rho:
        return self.at(setting, round)


@dataclass(frozen=True)
class GrowingRho(RhoSchedule):
    """min(1e9, c_1 1.2^floor(k / T_c) + c_2 / epsilon): 001 (E.1), epsilon that of one step.

    The defaults are the paper's for MNIST; its constants belong to objectives in which every record weighs 1/(all
    records).
    """

    base: float = ranged(SIZES, 2.0)
    noise_part: float = ranged(SIZES_OR_ZERO, 5.0)
    period: float = ranged(PublicRange(1.0, 1e9), 10_000.0)

    follows_noise = True
    name = "growing"
    about = "base * 1.2^floor(round / period) + noise_part / (epsilon of a step) (default 2, 5, 10,000)"

    def __post_init__(self) -> None:
        check_ranges(self, f"rho schedule {self.name!r}")

    def value(self, setting: Setting, level: NoiseLevel, round: int) -> Rho:
        grown = 1.2 ** min(np.floor(round / self.period), 500.0)
        return float(min(1e9, self.base * grown + self.noise_part / level.epsilon))


@dataclass(frozen=True)
class BalancedRho(RhoSchedule):
    """2 G / U, for gradients of agents' objectives no longer than G and a set of diameter U.

    In the bounds of theorems 5.3 to 5.5 rho appears as P U² rho + (gamma + |y^1|)² / rho, with gamma at least twice the
    length of the optimal duals. Those are gradients at the optimum, so sqrt(P) G bounds them, and 2 G / U balances the
    two, up to the cap of (E.1). An unbounded set counts as a ball of the public radius.
    """

    scale: float = ranged(SIZES, 1.0)

    follows_noise = True  # it asks for slope and diameter, which are settled with the noise
    name = "balanced"
    about = "scale * 2 * (longest gradient) / (diameter of the set): what balances Ryu & Kim's bounds (default scale 1)"

    def __post_init__(self) -> None:
        check_ranges(self, f"rho schedule {self.name!r}")

    def value(self, setting: Setting, level: NoiseLevel, round: int) -> Rho:
        diameter = level.diameter if np.isfinite(level.diameter) else 2.0 * setting.radius
        longest = self.scale * 2.0 * level.slope
        return min(1e9, longest / diameter) if diameter > 0.0 else 1e9


RHO_SCHEDULES: dict[str, type[RhoSchedule]] = {
    rule.name: rule for rule in (ConstantRho, GeometricRho, SequenceRho, GrowingRho, BalancedRho)
}
