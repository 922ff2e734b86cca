"""The elastic net with its kink rounded: ratio * sum of |x_j|_h + (1 - ratio) * |x|²/2.

|x|_h is |x| smoothed by the Epanechnikov kernel: 2 plus_h(x) - x (plus_h: `kernels/smoothed_plus.py`). It is twice
continuously differentiable, equals |x| from a half-width h on, and nowhere is below it or more than 3h/8 above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._ranges import RATIOS, WIDTHS, check_ranges, ranged
from dpadmm.problems.penalties.base import Penalty

STEPS = 100  # of Newton's method; about ten are needed, and sixty where the half-width is 1e-15 of the step


@dataclass(frozen=True)
class RoundedElasticNet(Penalty):
    """What `ElasticNet.rounded` gives; it has no name on the command line."""

    ratio: float = ranged(RATIOS)
    width: float = ranged(WIDTHS)

    name = "rounded-elastic-net"
    about = "the elastic net, its kink at zero rounded over a half-width"

    def __post_init__(self) -> None:
        check_ranges(self, f"penalty {self.name!r}")

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]
        return 1.0 - self.ratio

    @property
    def curvature(self) -> float | None:
        return self.ratio * 1.5 / self.width + 1.0 - self.ratio

    def value(self, x: FloatArray) -> FloatArray:
        inside = self._inside(x)
        bent = self.width * (0.375 + 0.75 * inside**2 - 0.125 * inside**4)
        size = np.where(inside < 1.0, bent, np.abs(x))
        return self.ratio * size.sum(axis=-1) + (1.0 - self.ratio) * 0.5 * (x * x).sum(axis=-1)

    def gradient(self, x: FloatArray) -> FloatArray:
        inside = self._inside(x)
        return self.ratio * np.sign(x) * inside * (1.5 - 0.5 * inside**2) + (1.0 - self.ratio) * x

    def curvatures(self, x: FloatArray) -> FloatArray:
        return self.ratio * 1.5 / self.width * (1.0 - self._inside(x) ** 2) + (1.0 - self.ratio)

    def prox(self, x: FloatArray, step: FloatArray | float) -> FloatArray:
        pull, stiff, size = step * self.ratio, 1.0 + step * (1.0 - self.ratio), np.abs(x)
        # Twice as far as the half-width ends, the first step leads beyond it; farther, it could overflow.
        close = np.minimum(size, 2.0 * (pull + stiff * self.width))
        # Within the half-width the slope is concave, so Newton's method climbs to its root from zero and never beyond.
        # An entry that has stopped climbing stays, whatever the others of a batch still do.
        inside = np.zeros_like(size)
        for _ in range(STEPS):
            short = close - pull * inside * (1.5 - 0.5 * inside**2) - stiff * self.width * inside
            further = inside + short / (1.5 * pull * (1.0 - inside**2) + stiff * self.width)
            further = np.clip(further, inside, 1.0)
            if (further == inside).all():
                break
            inside = further
        return np.sign(x) * np.where(inside < 1.0, self.width * inside, (size - pull) / stiff)

    def rounded(self, width: float) -> Penalty:
        return self

    def gradient_bound(self, dimension: int, radius: float) -> float:
        return self.ratio * math.sqrt(dimension) + (1.0 - self.ratio) * radius

    def slack(self, x: FloatArray) -> FloatArray:
        """By how much the gradient of each row misses being a subgradient of the elastic net there.

        The sum over coefficients of ratio * (|x| - v x), v the slope of |x|_h: since |y| >= v y for every y,
        R(y) >= R(x) + <gradient(x), y - x> + (1 - ratio) |y - x|²/2 - slack(x), R being the elastic net.
        """
        inside = self._inside(x)
        # 1 - |v|, factored: nothing cancels, so that it is never negative, and zero only where it should be.
        missing = 0.5 * (1.0 - inside) ** 2 * (2.0 + inside)
        return self.ratio * (np.abs(x) * missing).sum(axis=-1)

    def _inside(self, x: FloatArray) -> FloatArray:
        """|x| in half-widths, 1 beyond one."""
        return np.minimum(np.abs(x), self.width) / self.width
