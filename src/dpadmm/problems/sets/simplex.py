"""Shares of a total: no coefficient below zero, and their sum fixed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, eye_array, vstack

from dpadmm._arrays import FloatArray
from dpadmm._ranges import SIZES, range_of, ranged
from dpadmm.errors import InputError
from dpadmm.problems.sets.base import ConvexSet, rounding
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.conic.equations import ROUNDING
from dpadmm.problems.sets.values import number


@dataclass(frozen=True)
class Simplex(ConvexSet):
    total: float = ranged(SIZES, 1.0)

    name = "simplex"
    about = "no coefficient below 0, and their sum is total (default 1)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", number(self.total, "set 'simplex'", "total", range_of(self, "total")))

    def check(self, dimension: int) -> None:
        if dimension < 1:
            raise InputError("set 'simplex' is empty: a model without coefficients has no sum.")

    def project(self, x: FloatArray) -> FloatArray:
        """Subtracts the same number from all coefficients and cuts off below zero (Held, Wolfe and Crowder, 1974)."""
        x = np.ascontiguousarray(x, dtype=np.float64)
        # From the largest coefficient, and no farther than the total: what is kept is then as precise as the total.
        depth = np.maximum(x - x.max(axis=-1, keepdims=True), -self.total)
        falling = -np.sort(-depth, axis=-1)
        excess = np.cumsum(falling, axis=-1) - self.total
        count = np.arange(1, x.shape[-1] + 1)
        kept = (falling * count > excess).sum(axis=-1, keepdims=True)
        out = np.maximum(depth - np.take_along_axis(excess, kept - 1, axis=-1) / kept, 0.0)
        for _ in range(2):  # what the running sum has lost
            error = out.sum(axis=-1, keepdims=True) - self.total
            out = np.where(out > 0.0, np.maximum(out - error / (out > 0.0).sum(axis=-1, keepdims=True), 0.0), 0.0)
        return np.where(self.contains(x, 0.0)[..., None], x, out)

    def error(self, size: FloatArray, dimension: int) -> FloatArray:
        """A point is left alone if its sum is right to `ROUNDING`, and may then be that far from the simplex. Otherwise
        numbers above the total have been cut off, so that only the total's digits are lost."""
        return ROUNDING * self.total + rounding(np.full_like(size, self.total * math.sqrt(dimension)), dimension)

    def contains(self, x: FloatArray, tolerance: float = 1e-9) -> NDArray[Any]:
        """The sum is right to rounding at best."""
        off = np.abs(np.ascontiguousarray(x).sum(axis=-1) - self.total) / math.sqrt(x.shape[-1])
        return (off <= tolerance + ROUNDING * self.total / math.sqrt(x.shape[-1])) & (x >= -tolerance).all(axis=-1)

    def diameter(self, dimension: int) -> float:
        return math.sqrt(2.0) * self.total if dimension > 1 else 0.0

    def cone(self, dimension: int) -> Cone:
        rows = csc_array(vstack([csc_array(np.ones((1, dimension))), -eye_array(dimension)], format="csc"))
        return Cone(rows, np.append(self.total, np.zeros(dimension)), 1, dimension)
