"""The matrix of second moments, sum of a aᵀ, as the gradient of a linear loss <x, pack(a aᵀ)>.

A statistic is a loss with nothing to minimise: one round of noisy gradients releases it, by the same lemma and with the
same ledger as any other gradient. Principal components are made of it (claims B8, option 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import FloatArray
from dpadmm._ranges import SIZES, check_ranges, ranged
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses.base import Loss
from dpadmm.problems.losses.unrounded import unrounded_sum
from dpadmm.problems.shards import Shards
from dpadmm.release import sums as release
from dpadmm.release.sums import Products, RowsAndProducts


@dataclass(frozen=True)
class SecondMoment(Loss):
    """A model is a symmetric matrix, packed so that its length is the matrix's Frobenius norm."""

    name = "second-moment"
    about = "the matrix of second moments of the rows, for principal components; targets do not matter"
    task = "regression"
    twice_differentiable = True

    def dimension(self, width: int, classes: int) -> int:
        return width * (width + 1) // 2

    def encode(self, targets: NDArray[Any], classes: int) -> NDArray[Any]:
        return np.zeros(len(targets))

    def gradient_bound(self, row_bound: float, norm: int = 2) -> float:
        """|a aᵀ| = |a|²; the sum of the packed entries' magnitudes is at most the square of that of a's."""
        return row_bound**2

    def sensitivity(self, row_bound: float, relation: Relation, norm: int = 2) -> float:
        """|a aᵀ - b bᵀ|² = |a|⁴ + |b|⁴ - 2 <a, b>² <= 2 R⁴: orthogonal rows are the worst, not opposite ones."""
        if relation is Relation.REPLACE and norm == 2:
            return math.sqrt(2.0) * row_bound**2
        return super().sensitivity(row_bound, relation, norm)

    def curvature_bound(self, norm_bound: float) -> float:
        return 0.0

    def values(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return np.einsum("nd,nd->n", self.gradient(shards, x, weights), x)

    def query(self, classes: int = 0) -> Products:
        return Products()

    def gradient(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return weights[:, None] * unrounded_sum(self.query(), shards, x)

    def hessian(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return np.zeros((*x.shape, x.shape[1]))

    def predictions(self, features: Any, models: FloatArray) -> NDArray[Any]:
        """aᵀ X a."""
        return np.stack([((features @ matrix) * features).sum(axis=1) for matrix in unpack(models)])


def pack(matrices: FloatArray) -> FloatArray:
    """Symmetric (n, p, p) as rows of p (p + 1) / 2 numbers with the same inner products."""
    row, column = np.triu_indices(matrices.shape[-1])
    return matrices[..., row, column] * np.where(row == column, 1.0, math.sqrt(2.0))


def unpack(rows: FloatArray) -> FloatArray:
    """The symmetric matrices that `pack` made these rows of."""
    width = (math.isqrt(8 * rows.shape[-1] + 1) - 1) // 2
    row, column = np.triu_indices(width)
    out = np.zeros((*rows.shape[:-1], width, width))
    out[..., row, column] = rows / np.where(row == column, 1.0, math.sqrt(2.0))
    out[..., column, row] = out[..., row, column]
    return out


@dataclass(frozen=True)
class ColumnMoments(Loss):
    """A model has two numbers for each column."""

    scale: float = ranged(SIZES, 1.0)  # c

    name = "column-moments"
    about = "sums of the columns (times a number, default 1) and of their squares; targets do not matter"
    task = "regression"
    twice_differentiable = True

    def __post_init__(self) -> None:
        check_ranges(self, f"loss {self.name!r}")

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

    def query(self, classes: int = 0) -> release.ColumnMoments:
        return release.ColumnMoments(float(self.scale))

    def gradient(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return weights[:, None] * unrounded_sum(self.query(), shards, x)

    def hessian(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return np.zeros((*x.shape, x.shape[1]))

    def predictions(self, features: Any, models: FloatArray) -> NDArray[Any]:
        """What a model makes of a record: <x, (c a, a²)>."""
        width = features.shape[1]
        return np.asarray((self.scale * (features @ models[:, :width].T) + (features**2) @ models[:, width:].T).T)


@dataclass(frozen=True)
class MeanAndProducts(Loss):
    """The sum of the rows (times a number) and of their products: a mean, and the covariance around it.

    A model has a number for each column, and then a packed symmetric matrix.
    """

    scale: float = ranged(SIZES, 1.0)  # c

    name = "mean-and-products"
    about = "sums of the rows (times a number, default 1) and of their products; targets do not matter"
    task = "regression"
    twice_differentiable = True

    def __post_init__(self) -> None:
        check_ranges(self, f"loss {self.name!r}")

    def dimension(self, width: int, classes: int) -> int:
        return width + width * (width + 1) // 2

    def encode(self, targets: NDArray[Any], classes: int) -> NDArray[Any]:
        return np.zeros(len(targets))

    def gradient_bound(self, row_bound: float, norm: int = 2) -> float:
        """|(c a, a aᵀ)|; for the 1-norm see `SecondMoment`."""
        first, second = self.scale * row_bound, row_bound**2
        return first + second if norm == 1 else math.hypot(first, second)

    def sensitivity(self, row_bound: float, relation: Relation, norm: int = 2) -> float:
        """Replacing a by b moves it by c (a - b) and a aᵀ - b bᵀ, whose square is |a|⁴ + |b|⁴ - 2 t² with t = <a, b>.

        So the whole is at most 2 c² (R² - t) + 2 (R⁴ - t²), largest for rows of full length R and t = -c²/2, or t = -R²
        if that is larger; two columns attain it.
        """
        if relation is Relation.ZERO_OUT or norm == 1:
            return super().sensitivity(row_bound, relation, norm)
        inner = max(-(self.scale**2) / 2.0, -(row_bound**2))
        return math.sqrt(2.0 * self.scale**2 * (row_bound**2 - inner) + 2.0 * (row_bound**4 - inner**2))

    def curvature_bound(self, norm_bound: float) -> float:
        return 0.0

    def values(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return np.einsum("nd,nd->n", self.gradient(shards, x, weights), x)

    def query(self, classes: int = 0) -> RowsAndProducts:
        return RowsAndProducts(float(self.scale))

    def gradient(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return weights[:, None] * unrounded_sum(self.query(), shards, x)

    def hessian(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return np.zeros((*x.shape, x.shape[1]))

    def predictions(self, features: Any, models: FloatArray) -> NDArray[Any]:
        """What a model makes of a record: <x, (c a, pack(a aᵀ))>."""
        width = features.shape[1]
        squares = np.stack([((features @ matrix) * features).sum(axis=1) for matrix in unpack(models[:, width:])])
        return np.asarray(self.scale * (features @ models[:, :width].T).T + squares)
