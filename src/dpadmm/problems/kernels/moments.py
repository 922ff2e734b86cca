"""Sums over rows of each column and of its square, dense and CSR."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm._kernels.compiled import compiled


@compiled(parallel=True)
def dense(
    scale: float, features: Any, targets: Any, starts: Any, stops: Any, agents: Any, weights: Any, x: Any, out: Any
) -> None:
    """out[c] = weight * sum over the rows of chunk c of (scale * row, row squared)."""
    width = features.shape[1]
    for c in prange(starts.size):
        total = np.zeros(2 * width)
        for row in range(starts[c], stops[c]):
            for j in range(width):
                number = np.float64(features[row, j])
                total[j] += scale * number
                total[width + j] += number * number
        out[c] = weights[agents[c]] * total


@compiled(parallel=True)
def sparse(
    scale: float,
    data: Any,
    indices: Any,
    indptr: Any,
    targets: Any,
    starts: Any,
    stops: Any,
    agents: Any,
    weights: Any,
    x: Any,
    out: Any,
) -> None:
    """As `dense`, over CSR rows."""
    width = out.shape[1] // 2
    for c in prange(starts.size):
        total = np.zeros(2 * width)
        for k in range(indptr[starts[c]], indptr[stops[c]]):
            number = np.float64(data[k])
            total[indices[k]] += scale * number
            total[width + indices[k]] += number * number
        out[c] = weights[agents[c]] * total
