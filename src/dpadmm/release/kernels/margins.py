"""Losses of one margin: the gradient of every agent in one pass over the records, over dense, CSR and short rows.

Rows are taken in small blocks: first all margins of a block, then its slopes, then the sums. A block stays in the
innermost cache between the two visits, so memory is read once, and each of the inner loops vectorises.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm._kernels.compiled import compiled
from dpadmm.release.kernels.slopes import slope_of

BLOCK = 32
WIDEST = 15  # columns of a short row; longer ones fill vectors by themselves
BLOCK_OF_SHORT_ROWS = 128


@compiled()
def margins_of(features: Any, start: int, stop: int, point: Any, margins: Any) -> None:
    """margins[r] = <row start + r, point>, one row at a time."""
    for row in range(start, stop):
        total = 0.0
        for j in range(features.shape[1]):
            total += features[row, j] * point[j]
        margins[row - start] = total


@compiled()
def sparse_margins_of(data: Any, indices: Any, indptr: Any, start: int, stop: int, point: Any, margins: Any) -> None:
    """As `margins_of`, touching only the stored numbers."""
    for row in range(start, stop):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += data[k] * point[indices[k]]
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


@compiled(parallel=True)
def sparse_gradient(
    loss: Any, scale: float, most: float, one_sided: bool, data: Any, indices: Any, indptr: Any, targets: Any,
    starts: Any, stops: Any, agents: Any, x: Any, out: Any,
) -> None:  # fmt: skip
    """As `gradient`, over CSR rows."""
    for c in prange(starts.size):
        point = x[agents[c]]
        total = np.zeros(x.shape[1])
        slopes = np.empty(BLOCK)
        for start in range(starts[c], stops[c], BLOCK):
            stop = min(start + BLOCK, stops[c])
            sparse_margins_of(data, indices, indptr, start, stop, point, slopes)
            for r in range(stop - start):
                slope = slope_of(loss, slopes[r], targets[start + r], scale, most, one_sided)
                for k in range(indptr[start + r], indptr[start + r + 1]):
                    total[indices[k]] += slope * data[k]
        out[c] = total


@compiled(parallel=True)
def short_gradient(
    loss: Any, scale: float, most: float, one_sided: bool, features: Any, targets: Any, starts: Any, stops: Any,
    agents: Any, x: Any, out: Any,
) -> None:  # fmt: skip
    """As `gradient`, over rows of few columns: vectors run over records, so a block is laid out by columns first."""
    width = features.shape[1]
    padded = (width + 3) // 4 * 4  # columns go four at a time, so that what they share is read once
    for c in prange(starts.size):
        columns = np.zeros((padded, BLOCK_OF_SHORT_ROWS))
        point, total = np.zeros(padded), np.zeros(padded)
        point[:width] = x[agents[c]]
        slopes = np.empty(BLOCK_OF_SHORT_ROWS)
        for start in range(starts[c], stops[c], BLOCK_OF_SHORT_ROWS):
            size = min(BLOCK_OF_SHORT_ROWS, stops[c] - start)
            for j in range(0, width - 1, 2):  # two at a time, which the compiler makes vectors of
                for r in range(size):
                    columns[j, r] = features[start + r, j]
                    columns[j + 1, r] = features[start + r, j + 1]
            if width % 2:
                columns[width - 1, :size] = features[start : start + size, width - 1]
            _short_margins(columns, point, size, slopes)
            for r in range(size):
                slopes[r] = slope_of(loss, slopes[r], targets[start + r], scale, most, one_sided)
            _add_short_rows(columns, slopes, size, total)
        out[c] = total[:width]


# Vectors run over records here, so sums must not be re-ordered: the last records of a block, which fill no vector, must
# be computed as the others are.
@compiled(fast=False)
def _short_margins(columns: Any, point: Any, size: int, margins: Any) -> None:
    margins[:size] = 0.0
    for j in range(0, point.size, 4):
        a, b, c, d = point[j], point[j + 1], point[j + 2], point[j + 3]
        for r in range(size):
            margins[r] += a * columns[j, r] + b * columns[j + 1, r] + c * columns[j + 2, r] + d * columns[j + 3, r]


@compiled()
def _add_short_rows(columns: Any, slopes: Any, size: int, total: Any) -> None:
    for j in range(0, total.size, 4):
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for r in range(size):
            a += slopes[r] * columns[j, r]
            b += slopes[r] * columns[j + 1, r]
            c += slopes[r] * columns[j + 2, r]
            d += slopes[r] * columns[j + 3, r]
        for k, part in enumerate((a, b, c, d)):
            total[j + k] += part
