"""Values and Hessians of margin losses over integer rows, dense and CSR; `x` holds models times the rows' cell.

Only what stays with the owner, or with a simulation, is computed here; gradients are in `release/kernels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm._kernels.compiled import compiled
from dpadmm._kernels.loss_functions import curvature, value
from dpadmm.release.kernels.margins import margins_of, sparse_margins_of


@compiled(parallel=True)
def values(loss: Any, features: Any, targets: Any, starts: Any, stops: Any, agents: Any, x: Any, out: Any) -> None:
    """out[c] = sum over the rows of chunk c of value(<row, x>)."""
    for c in prange(starts.size):
        margins = np.empty(stops[c] - starts[c])
        margins_of(features, starts[c], stops[c], x[agents[c]], margins)
        total = 0.0
        for r in range(margins.size):
            total += value(loss, margins[r], targets[starts[c] + r])
        out[c, 0] = total


@compiled(parallel=True)
def sparse_values(
    loss: Any, data: Any, indices: Any, indptr: Any, targets: Any, starts: Any, stops: Any, agents: Any,
    x: Any, out: Any,
) -> None:  # fmt: skip
    """As `values`, over CSR rows."""
    for c in prange(starts.size):
        margins = np.empty(stops[c] - starts[c])
        sparse_margins_of(data, indices, indptr, starts[c], stops[c], x[agents[c]], margins)
        total = 0.0
        for r in range(margins.size):
            total += value(loss, margins[r], targets[starts[c] + r])
        out[c, 0] = total


@compiled(parallel=True)
def hessian(loss: Any, features: Any, targets: Any, starts: Any, stops: Any, agents: Any, x: Any, out: Any) -> None:
    """out[c] = sum over the rows of chunk c of curvature(<row, x>) * row rowᵀ, as a width x width block."""
    for c in prange(starts.size):
        margins = np.empty(stops[c] - starts[c])
        margins_of(features, starts[c], stops[c], x[agents[c]], margins)
        scaled = np.empty((margins.size, features.shape[1]))
        for r in range(margins.size):
            root = np.sqrt(max(0.0, curvature(loss, margins[r], targets[starts[c] + r])))
            for j in range(features.shape[1]):
                scaled[r, j] = root * features[starts[c] + r, j]
        out[c] = np.dot(scaled.T, scaled)


@compiled(parallel=True)
def sparse_hessian(
    loss: Any, data: Any, indices: Any, indptr: Any, targets: Any, starts: Any, stops: Any, agents: Any,
    x: Any, out: Any,
) -> None:  # fmt: skip
    """As `hessian`, over CSR rows."""
    for c in prange(starts.size):
        margins = np.empty(stops[c] - starts[c])
        sparse_margins_of(data, indices, indptr, starts[c], stops[c], x[agents[c]], margins)
        total = np.zeros((x.shape[1], x.shape[1]))
        for r in range(margins.size):
            bend = curvature(loss, margins[r], targets[starts[c] + r])
            low, high = indptr[starts[c] + r], indptr[starts[c] + r + 1]
            for k in range(low, high):
                for h in range(low, high):
                    total[indices[k], indices[h]] += bend * data[k] * data[h]
        out[c] = total
