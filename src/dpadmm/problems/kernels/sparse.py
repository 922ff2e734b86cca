"""Margin losses over CSR rows: as `dense`, touching only the stored numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm.problems.compiled import compiled
from dpadmm.problems.kernels.scalars import curvature, derivative, value


@compiled()
def _margin(data: Any, indices: Any, low: int, high: int, point: Any) -> float:
    margin = 0.0
    for k in range(low, high):
        margin += data[k] * point[indices[k]]
    return margin


@compiled(parallel=True)
def gradient(
    loss: Any,
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
    """out[c] = weight * sum over the rows of chunk c of derivative(<row, x>) * row."""
    for c in prange(starts.size):
        agent = agents[c]
        point = x[agent]
        total = np.zeros(x.shape[1], dtype=out.dtype)
        for row in range(starts[c], stops[c]):
            low, high = indptr[row], indptr[row + 1]
            margin = _margin(data, indices, low, high, point)
            slope = weights[agent] * derivative(loss, margin, targets[row])
            for k in range(low, high):
                total[indices[k]] += slope * data[k]
        out[c] = total


@compiled(parallel=True)
def values(
    loss: Any,
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
    """out[c] = weight * sum over the rows of chunk c of value(<row, x>)."""
    for c in prange(starts.size):
        point = x[agents[c]]
        total = 0.0
        for row in range(starts[c], stops[c]):
            margin = _margin(data, indices, indptr[row], indptr[row + 1], point)
            total += value(loss, margin, targets[row])
        out[c, 0] = weights[agents[c]] * total


@compiled(parallel=True)
def hessian(
    loss: Any,
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
    """out[c] = weight * sum over the rows of chunk c of curvature(<row, x>) * row rowᵀ."""
    width = x.shape[1]
    for c in prange(starts.size):
        agent = agents[c]
        point = x[agent]
        total = np.zeros((width, width))
        for row in range(starts[c], stops[c]):
            low, high = indptr[row], indptr[row + 1]
            margin = _margin(data, indices, low, high, point)
            bend = weights[agent] * curvature(loss, margin, targets[row])
            for k in range(low, high):
                for h in range(low, high):
                    total[indices[k], indices[h]] += bend * data[k] * data[h]
        out[c] = total
