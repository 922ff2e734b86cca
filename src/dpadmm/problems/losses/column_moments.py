"""Sums of the columns and of their squares, as the gradient of a linear loss <x, (c a, a²)>.

A statistic, as `second_moment` is: one round of noisy gradients releases it. Rows are standardised by it (`standard`).
With c the rows' public bound R, both halves can be moved by a record equally far, R².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import FloatArray
from dpadmm.errors import InputError
from dpadmm.privacy.relations import Relation
from dpadmm.problems.kernels import moments as kernels
from dpadmm.problems.losses.base import Loss
from dpadmm.problems.shards import Shards


@dataclass(frozen=True)
class ColumnMoments(Loss):
    """A model has two numbers for each column."""

    scale: float = 1.0  # c

    name = "column-moments"
    about = "sums of the columns (times a number, default 1) and of their squares; targets do not matter"
    task = "regression"
    twice_differentiable = True

    def __post_init__(self) -> None:
        if not 0.0 < self.scale < math.inf:
            raise InputError(f"loss {self.name!r}: {self.scale!r} must be a positive number.")

    def dimension(self, width: int, classes: int) -> int:
        return 2 * width

    def encode(self, targets: NDArray[Any], classes: int) -> NDArray[Any]:
        return np.zeros(len(targets))

    def gradient_bound(self, row_bound: float, norm: int = 2) -> float:
        """|a²|₂ <= |a|₂², and |a²|₁ <= |a|₁²."""
        first, second = self.scale * row_bound, row_bound**2
        return first + second if norm == 1 else math.hypot(first, second)

    def sensitivity(self, row_bound: float, relation: Relation, norm: int = 2) -> float:
        """Replacing a by b moves it by c (a - b) and a² - b² = u v, entry by entry, with u = a - b and v = a + b.

        Of numbers w = u v that sum to e, with magnitudes that sum to at most q = |u| |v|, the squares sum to at most
        (q² + e²) / 2. Here e = |a|² - |b|², so with t = <a, b> the whole is at most
        c² (|a|² + |b|² - 2 t) + |a|⁴ + |b|⁴ - 2 t²: largest for rows of full length R and t = -c²/2, or t = -R² if
        that is larger. Two columns attain it.
        """
        if relation is Relation.ZERO_OUT or norm == 1:
            return super().sensitivity(row_bound, relation, norm)
        inner = max(-(self.scale**2) / 2.0, -(row_bound**2))
        return math.sqrt(2.0 * self.scale**2 * (row_bound**2 - inner) + 2.0 * (row_bound**4 - inner**2))

    def curvature_bound(self, norm_bound: float) -> float:
        return 0.0

    def values(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return np.einsum("nd,nd->n", self.gradient(shards, x, weights), x)

    def gradient(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        kernel = kernels.sparse if shards.sparse else kernels.dense
        return shards.reduce(kernel, float(self.scale), weights, x, (2 * shards.width,))

    def hessian(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return np.zeros((*x.shape, x.shape[1]))

    def predictions(self, features: Any, models: FloatArray) -> NDArray[Any]:
        """What a model makes of a record: <x, (c a, a²)>."""
        width = features.shape[1]
        return np.asarray((self.scale * (features @ models[:, :width].T) + (features**2) @ models[:, width:].T).T)
