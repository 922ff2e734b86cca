"""MCP and SCAD: like l1 they make coefficients exactly zero, but leave large ones alone. They are not convex.

Both have slope 1 at zero; from a knee on it falls linearly, and is 0 from a reach on. MCP has its knee at zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._ranges import SIZES, SIZES_OR_ZERO, check_ranges, ranged
from dpadmm.errors import InputError
from dpadmm.problems.penalties.base import Penalty

NEAREST = 1e-6  # of the reach: a fall as short as the reach's rounding would have no slope


@dataclass(frozen=True)
class Tapered(Penalty):
    """What MCP and SCAD share."""

    knee: float = ranged(SIZES_OR_ZERO)
    reach: float = ranged(SIZES)

    convex = False
    curvature = None

    def __post_init__(self) -> None:
        check_ranges(self, f"penalty {self.name!r}")
        if not self.knee <= (1.0 - NEAREST) * self.reach:
            raise InputError(
                f"penalty {self.name!r}: knee = {self.knee!r} must be below the reach, {self.reach!r}, by at least a "
                f"millionth of it."
            )

    def value(self, x: FloatArray) -> FloatArray:
        size = np.abs(x)
        beyond = np.clip(size - self.knee, 0.0, self._fall)
        return (np.minimum(size, self.knee) + beyond * (1.0 - 0.5 * beyond / self._fall)).sum(axis=-1)

    def gradient(self, x: FloatArray) -> FloatArray:
        left = self.reach - np.minimum(np.abs(x), self.reach)  # nothing beyond it, however far
        return np.sign(x) * np.clip(left / self._fall, 0.0, 1.0)

    def curvatures(self, x: FloatArray) -> FloatArray:
        size = np.abs(x)
        return np.where((size >= self.knee) & (size < self.reach), -1.0 / self._fall, 0.0)

    def prox(self, x: FloatArray, step: FloatArray | float) -> FloatArray:
        """The global minimiser, whatever the step.

        Up to the knee stationary points are those of l1, beyond the reach x itself is one. If the step is shorter than
        the fall, the sum is convex and has one more in between. Otherwise it is concave there, and the better of the
        first two wins: |x| stays if s T, T = (knee + reach)/2 being R's largest value, is less than the sum at the
        former: |x|²/2 where that is zero, s|x| - s²/2 elsewhere.
        """
        size, fall = np.abs(x), self._fall
        soft = np.maximum(size - step, 0.0)
        convex = np.asarray(step < fall)
        steeper = fall / np.where(convex, fall - step, 1.0)
        between = np.minimum(self.knee + (np.minimum(soft, self.reach) - self.knee) * steeper, self.reach)
        gentle = np.where(size - step <= self.knee, soft, np.where(size < self.reach, between, size))
        most = self.knee + self.reach
        even = np.where(step <= most, 0.5 * (most + step), np.sqrt(most * step))
        return np.sign(x) * np.where(convex, gentle, np.where(size <= even, soft, size))

    def rounded(self, width: float) -> Penalty:
        raise InputError(
            f"penalty {self.name!r} is not convex, and an exact solver needs a convex penalty: use 'l1' or "
            "'elastic-net', or a recipe that takes steps along gradients, such as 'dp-admm'."
        )

    def gradient_bound(self, dimension: int, radius: float) -> float:
        return math.sqrt(dimension)

    @property
    def _fall(self) -> float:
        """How long the slope takes from 1 to 0."""
        return self.reach - self.knee


@dataclass(frozen=True)
class Mcp(Tapered):
    """Minimax concave penalty (Zhang 2010): |x| - x²/(2 reach) up to |x| = reach, then reach/2.

    With the usual (lambda, gamma), that is lambda |x| - x²/(2 gamma) up to gamma lambda: strength = lambda and
    reach = gamma lambda.
    """

    knee: float = field(default=0.0, init=False)
    reach: float = ranged(SIZES, 3.0)

    name = "mcp"
    about = "minimax concave: slope falls from 1 at zero to 0 at reach (default 3); not convex"


@dataclass(frozen=True)
class Scad(Tapered):
    """Smoothly clipped absolute deviation (Fan & Li 2001): slope 1 up to the knee, falling linearly to 0 at the reach.

    With the usual (lambda, a), the slope is lambda up to |x| = lambda and 0 from a lambda on: strength = lambda,
    knee = lambda and reach = a lambda. The defaults are lambda = 1 and their a = 3.7.
    """

    knee: float = ranged(SIZES_OR_ZERO, 1.0)
    reach: float = ranged(SIZES, 3.7)

    name = "scad"
    about = "smoothly clipped: slope 1 up to a knee, 0 from a reach on (default 1, 3.7); not convex"
