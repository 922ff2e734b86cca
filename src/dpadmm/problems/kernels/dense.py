"""Margin losses over dense rows: value, gradient and Hessian of every agent in one pass over the records.

Rows are taken in small blocks: first all margins of a block, then its losses, then whatever is summed. A block stays in
the innermost cache between the two visits, so memory is read once, and each of the short loops vectorises.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm._kernels.compiled import compiled
from dpadmm._kernels.loss_functions import curvature, derivative, value

BLOCK = 32


@compiled()
def _margins(features: Any, start: int, stop: int, point: Any, margins: Any) -> None:
    """margins[r] = <row start + r, point>."""
    for row in range(start, stop):
        total = features.dtype.type(0.0)
        for j in range(features.shape[1]):
            total += features[row, j] * point[j]
        margins[row - start] = total


@compiled(parallel=True)
def gradient(
    loss: Any, features: Any, targets: Any, starts: Any, stops: Any, agents: Any, weights: Any, x: Any, out: Any
) -> None:
    """out[c] = weight * sum over the rows of chunk c of derivative(<row, x>) * row."""
    for c in prange(starts.size):
        agent = agents[c]
        total = np.zeros(features.shape[1], dtype=out.dtype)
        slopes = np.empty(BLOCK, dtype=out.dtype)
        for start in range(starts[c], stops[c], BLOCK):
            stop = min(start + BLOCK, stops[c])
            _margins(features, start, stop, x[agent], slopes)
            for r in range(stop - start):
                slopes[r] = weights[agent] * derivative(loss, slopes[r], targets[start + r])
            for r in range(stop - start):
                slope = slopes[r]
                for j in range(features.shape[1]):
                    total[j] += slope * features[start + r, j]
        out[c] = total


@compiled(parallel=True)
def values(
    loss: Any, features: Any, targets: Any, starts: Any, stops: Any, agents: Any, weights: Any, x: Any, out: Any
) -> None:
    """out[c] = weight * sum over the rows of chunk c of value(<row, x>)."""
    for c in prange(starts.size):
        margins = np.empty(stops[c] - starts[c], dtype=out.dtype)
        _margins(features, starts[c], stops[c], x[agents[c]], margins)
        total = 0.0
        for r in range(margins.size):
            total += value(loss, margins[r], targets[starts[c] + r])
        out[c, 0] = weights[agents[c]] * total


@compiled(parallel=True)
def hessian(
    loss: Any, features: Any, targets: Any, starts: Any, stops: Any, agents: Any, weights: Any, x: Any, out: Any
) -> None:
    """out[c] = weight * sum over the rows of chunk c of curvature(<row, x>) * row rowᵀ, as a width x width block."""
    for c in prange(starts.size):
        agent = agents[c]
        margins = np.empty(stops[c] - starts[c], dtype=out.dtype)
        _margins(features, starts[c], stops[c], x[agent], margins)
        scaled = np.empty((margins.size, features.shape[1]), dtype=out.dtype)
        for r in range(margins.size):
            root = np.sqrt(weights[agent] * curvature(loss, margins[r], targets[starts[c] + r]))
            for j in range(features.shape[1]):
                scaled[r, j] = root * features[starts[c] + r, j]
        out[c] = np.dot(scaled.T, scaled)
