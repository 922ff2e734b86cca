"""Margin losses over dense rows: the gradient of every agent in one pass over the records.

Rows are taken in small blocks: first all margins of a block, then its slopes, then the sums. A block stays in the
innermost cache between the two visits, so memory is read once, and each of the short loops vectorises.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm._kernels.compiled import compiled
from dpadmm.release.kernels.slopes import slope_of

BLOCK = 32


@compiled()
def margins_of(features: Any, start: int, stop: int, point: Any, margins: Any) -> None:
    """margins[r] = <row start + r, point>, one row at a time."""
    for row in range(start, stop):
        total = 0.0
        for j in range(features.shape[1]):
            total += features[row, j] * point[j]
        margins[row - start] = total


@compiled(parallel=True)
def gradient(
    loss: Any, scale: float, most: float, one_sided: bool, features: Any, targets: Any, starts: Any, stops: Any,
    agents: Any, x: Any, out: Any,
) -> None:  # fmt: skip
    """out[c] = sum over the rows of chunk c of slope(<row, x>) * row."""
    for c in prange(starts.size):
        point = x[agents[c]]
        total = np.zeros(features.shape[1])
        slopes = np.empty(BLOCK)
        for start in range(starts[c], stops[c], BLOCK):
            stop = min(start + BLOCK, stops[c])
            margins_of(features, start, stop, point, slopes)
            for r in range(stop - start):
                slopes[r] = slope_of(loss, slopes[r], targets[start + r], scale, most, one_sided)
            for r in range(stop - start):
                slope = slopes[r]
                for j in range(features.shape[1]):
                    total[j] += slope * features[start + r, j]
        out[c] = total
