"""Small dense algebra over a batch of agents."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm._kernels.compiled import compiled


@compiled(fast=False)
def add_in_order(parts: Any, owner: Any, out: Any) -> None:
    """out[owner[c]] += parts[c], one chunk after the other."""
    for c in range(owner.size):
        for j in range(out.shape[1]):
            out[owner[c], j] += parts[c, j]


@compiled(parallel=True)
def matrix_times_vector(matrices: Any, rows: Any, vectors: Any) -> Any:
    """The product of matrix rows[k] with vector k, for each k."""
    out = np.empty_like(vectors)
    for k in prange(rows.size):
        for i in range(vectors.shape[1]):
            total = 0.0
            for j in range(vectors.shape[1]):
                total += matrices[rows[k], i, j] * vectors[k, j]
            out[k, i] = total
    return out


# Not fast: with sums re-ordered, this one came out differently compiled in the process than read from the cache, in the
# last bit. Strict arithmetic has one answer.
@compiled(parallel=True, fast=False)
def learn(inverse: Any, rows: Any, moves: Any, changes: Any) -> None:
    """Makes inverse rows[k] right along move k, which changed the gradient by change k: the update of Broyden,
    Fletcher, Goldfarb and Shanno, symmetric and positive definite as long as move and change agree."""
    for k in prange(rows.size):
        matrix, size = inverse[rows[k]], moves.shape[1]
        along, lengths = 0.0, 0.0
        for i in range(size):
            along += moves[k, i] * changes[k, i]
            lengths += moves[k, i] * moves[k, i]
        if not along > 1e-14 * lengths:
            continue
        image = np.empty(size)
        bend = 0.0
        for i in range(size):
            total = 0.0
            for j in range(size):
                total += matrix[i, j] * changes[k, j]
            image[i] = total
            bend += total * changes[k, i]
        weight = (1.0 + bend / along) / along
        for i in range(size):
            for j in range(size):
                matrix[i, j] += (
                    weight * moves[k, i] * moves[k, j] - (moves[k, i] * image[j] + image[i] * moves[k, j]) / along
                )


@compiled(parallel=True)
def inverses(matrices: Any) -> Any:
    """The inverse of each agent's matrix."""
    out = np.empty_like(matrices)
    for i in prange(matrices.shape[0]):
        out[i] = np.linalg.inv(matrices[i])
    return out
