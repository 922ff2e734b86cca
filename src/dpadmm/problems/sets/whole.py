"""No constraint: the whole space."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import FloatArray
from dpadmm.problems.sets.base import ConvexSet
from dpadmm.problems.sets.conic.cone import Cone, everything


@dataclass(frozen=True)
class Whole(ConvexSet):
    """All models."""

    name = "whole"
    about = "no constraint"
    separable = True

    def project(self, x: FloatArray) -> FloatArray:
        return x

    def contains(self, x: FloatArray, tolerance: float = 1e-9) -> NDArray[Any]:
        return np.ones(x.shape[:-1], dtype=bool)

    def diameter(self, dimension: int) -> float:
        return math.inf

    def cone(self, dimension: int) -> Cone:
        return everything(dimension)
