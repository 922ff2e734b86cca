"""The matrix of second moments, sum of a aᵀ, as the gradient of a linear loss <x, pack(a aᵀ)>.

A statistic is a loss with nothing to minimise: one round of noisy gradients releases it, by the same lemma and with the
same ledger as any other gradient. Principal components are made of it (AUDIT B8, option 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import FloatArray
from dpadmm.privacy.relations import Relation
from dpadmm.problems.kernels import scalars
from dpadmm.problems.kernels.compiled import implements
from dpadmm.problems.losses.base import Loss
from dpadmm.problems.losses.margin import kernels
from dpadmm.problems.shards import Shards


class OneTag(NamedTuple):
    one: float = 1.0


@implements(scalars.curvature, OneTag)
def _curvature(loss: OneTag, margin: float, target: float) -> float:
    return 1.0


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

    def gradient(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        width = shards.width
        anywhere = np.zeros((shards.agents, width))
        return pack(shards.reduce(kernels(shards).hessian, OneTag(), weights, anywhere, (width, width)))

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
