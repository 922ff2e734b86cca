"""Margin losses over CSR rows: as `dense`, touching only the stored numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm._kernels.compiled import compiled
from dpadmm._kernels.loss_functions import curvature, derivative, value

BLOCK = 32


@compiled()
def _margins(data: Any, indices: Any, indptr: Any, start: int, stop: int, point: Any, margins: Any) -> None:
    """margins[r] = <row start + r, point>."""
    for row in range(start, stop):
        total = data.dtype.type(0.0)
        for k in range(indptr[row], indptr[row + 1]):
            total += data[k] * point[indices[k]]
        margins[row - start] = total


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
        total = np.zeros(x.shape[1], dtype=out.dtype)
        slopes = np.empty(BLOCK, dtype=out.dtype)
        for start in range(starts[c], stops[c], BLOCK):
            stop = min(start + BLOCK, stops[c])
            _margins(data, indices, indptr, start, stop, x[agent], slopes)
            for r in range(stop - start):
                slopes[r] = weights[agent] * derivative(loss, slopes[r], targets[start + r])
            for r in range(stop - start):
                for k in range(indptr[start + r], indptr[start + r + 1]):
                    total[indices[k]] += slopes[r] * data[k]
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
        margins = np.empty(stops[c] - starts[c], dtype=out.dtype)
        _margins(data, indices, indptr, starts[c], stops[c], x[agents[c]], margins)
        total = 0.0
        for r in range(margins.size):
            total += value(loss, margins[r], targets[starts[c] + r])
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
    for c in prange(starts.size):
        agent = agents[c]
        margins = np.empty(stops[c] - starts[c], dtype=out.dtype)
        _margins(data, indices, indptr, starts[c], stops[c], x[agent], margins)
        total = np.zeros((x.shape[1], x.shape[1]), dtype=out.dtype)
        for r in range(margins.size):
            bend = weights[agent] * curvature(loss, margins[r], targets[starts[c] + r])
            low, high = indptr[starts[c] + r], indptr[starts[c] + r + 1]
            for k in range(low, high):
                for h in range(low, high):
                    total[indices[k], indices[h]] += bend * data[k] * data[h]
        out[c] = total
