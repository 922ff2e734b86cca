"""A box around the origin: every coefficient between -bound and +bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm.errors import InputError
from dpadmm.problems.sets.base import ConvexSet
from dpadmm.problems.shards import FloatArray


@dataclass(frozen=True)
class Box(ConvexSet):
    bound: float = 1.0

    name = "box"
    about = "every coefficient between -bound and +bound (default 1)"
    separable = True

    def __post_init__(self) -> None:
        if not 0 < self.bound < math.inf:
            raise InputError(f"set 'box': bound {self.bound!r} must be a positive number.")

    def project(self, x: FloatArray) -> FloatArray:
        return np.clip(x, -self.bound, self.bound)

    def contains(self, x: FloatArray, tolerance: float = 1e-9) -> NDArray[Any]:
        return np.all(np.abs(x) <= self.bound + tolerance, axis=-1)

    def diameter(self, dimension: int) -> float:
        return 2.0 * self.bound * math.sqrt(dimension)
