"""No penalty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.problems.penalties.base import Penalty


@dataclass(frozen=True)
class NoPenalty(Penalty):
    """0."""

    name = "none"
    about = "no penalty"
    curvature = 0.0

    def value(self, x: FloatArray) -> FloatArray:
        return np.zeros(x.shape[:-1])

    def gradient(self, x: FloatArray) -> FloatArray:
        return np.zeros_like(x)

    def curvatures(self, x: FloatArray) -> FloatArray:
        return np.zeros_like(x)

    def prox(self, x: FloatArray, step: FloatArray | float) -> FloatArray:
        return x

    def rounded(self, width: float) -> Penalty:
        return self

    def gradient_bound(self, dimension: int, radius: float) -> float:
        return 0.0
