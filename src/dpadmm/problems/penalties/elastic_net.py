"""Elastic net: ratio * |x|_1 + (1 - ratio) * |x|²/2. The l1 and l2 penalties are its two ends."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._ranges import RATIOS, check_ranges, ranged
from dpadmm.problems.penalties.base import Penalty
from dpadmm.problems.penalties.rounded import RoundedElasticNet


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """Ratio 1 is l1, ratio 0 is l2."""

    ratio: float = ranged(RATIOS, 0.5)

    name = "elastic-net"
    about = "ratio * |x|_1 + (1 - ratio) * |x|²/2 (default ratio 0.5)"

    def __post_init__(self) -> None:
        check_ranges(self, f"penalty {self.name!r}")

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]
        return 1.0 - self.ratio

    @property
    def curvature(self) -> float | None:
        return None if self.ratio > 0.0 else 1.0

    def value(self, x: FloatArray) -> FloatArray:
        return self.ratio * np.abs(x).sum(axis=-1) + (1.0 - self.ratio) * 0.5 * (x * x).sum(axis=-1)

    def gradient(self, x: FloatArray) -> FloatArray:
        return self.ratio * np.sign(x) + (1.0 - self.ratio) * x

    def curvatures(self, x: FloatArray) -> FloatArray:
        return np.full_like(x, 1.0 - self.ratio)

    def prox(self, x: FloatArray, step: FloatArray | float) -> FloatArray:
        shrunk = np.sign(x) * np.maximum(np.abs(x) - step * self.ratio, 0.0)
        return shrunk / (1.0 + step * (1.0 - self.ratio))

    def rounded(self, width: float) -> Penalty:
        return RoundedElasticNet(self.ratio, width) if self.ratio > 0.0 else self

    def gradient_bound(self, dimension: int, radius: float) -> float:
        return self.ratio * math.sqrt(dimension) + (1.0 - self.ratio) * radius


@dataclass(frozen=True)
class L1(ElasticNet):
    """|x|_1."""

    ratio: float = field(default=1.0, init=False)

    name = "l1"
    about = "sum of absolute values: few non-zero coefficients"


@dataclass(frozen=True)
class L2(ElasticNet):
    """|x|²/2."""

    ratio: float = field(default=0.0, init=False)

    name = "l2"
    about = "half the squared length: small coefficients"
