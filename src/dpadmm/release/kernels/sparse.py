"""Margin losses over CSR rows: as `dense`, touching only the stored numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm._kernels.compiled import compiled
from dpadmm.release.kernels.slopes import slope_of

BLOCK = 32


@compiled()
def margins_of(data: Any, indices: Any, indptr: Any, start: int, stop: int, point: Any, margins: Any) -> None:
    """margins[r] = <row start + r, point>, one row at a time."""
    for row in range(start, stop):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += data[k] * point[indices[k]]
        margins[row - start] = total


@compiled(parallel=True)
def gradient(
    loss: Any, scale: float, most: float, one_sided: bool, data: Any, indices: Any, indptr: Any, targets: Any,
    starts: Any, stops: Any, agents: Any, x: Any, out: Any,
) -> None:  # fmt: skip
    """out[c] = sum over the rows of chunk c of slope(<row, x>) * row."""
    for c in prange(starts.size):
        point = x[agents[c]]
        total = np.zeros(x.shape[1])
        slopes = np.empty(BLOCK)
        for start in range(starts[c], stops[c], BLOCK):
            stop = min(start + BLOCK, stops[c])
            margins_of(data, indices, indptr, start, stop, point, slopes)
            for r in range(stop - start):
                slope = slope_of(loss, slopes[r], targets[start + r], scale, most, one_sided)
                for k in range(indptr[start + r], indptr[start + r + 1]):
                    total[indices[k]] += slope * data[k]
        out[c] = total
