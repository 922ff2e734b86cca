"""The gradient of margin losses over dense rows of few columns, for all models of a chunk together.

A row of ten numbers is too short to fill a vector unit, so here vectors run over records: a block is laid out by
columns once, and then every model that shares the records (the same agent in independent runs) goes over it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm._kernels.compiled import compiled
from dpadmm.release.kernels.slopes import slope_of

WIDEST = 15  # columns; longer rows fill vectors by themselves
BLOCK = 128


def gradient(
    loss: Any, scale: float, most: float, one_sided: bool, features: Any, targets: Any, starts: Any, stops: Any,
    agents: Any, x: Any, out: Any,
) -> None:  # fmt: skip
    """out[c] = sum over the rows of chunk c of slope(<row, x>) * row."""
    if starts.size == 0:  # a mini-batch in which nobody was drawn
        return
    if (starts[1:] > starts[:-1]).all():  # one run: every chunk has records of its own
        first = np.arange(starts.size + 1)
        order = ranges = first[:-1]
    else:
        order = np.lexsort((stops, starts))
        new = (np.diff(starts[order]) != 0) | (np.diff(stops[order]) != 0)
        first = np.concatenate([[0], np.flatnonzero(new) + 1, [order.size]])
        ranges = order[first[:-1]]
    _gradient(
        loss, scale, most, one_sided, features, targets, starts[ranges], stops[ranges], first, order, agents, x, out
    )


@compiled(parallel=True)
def _gradient(
    loss: Any, scale: float, most: float, one_sided: bool, features: Any, targets: Any, starts: Any, stops: Any,
    first: Any, order: Any, agents: Any, x: Any, out: Any,
) -> None:  # fmt: skip
    width = features.shape[1]
    padded = (width + 3) // 4 * 4  # columns go four at a time, so that what they share is read once
    for group in prange(starts.size):
        columns = np.zeros((padded, BLOCK))
        point = np.zeros(padded)
        slopes = np.empty(BLOCK)
        sums = np.empty(padded)
        for k in range(first[group], first[group + 1]):
            for j in range(width):
                out[order[k], j] = 0.0
        for start in range(starts[group], stops[group], BLOCK):
            size = min(BLOCK, stops[group] - start)
            for r in range(size):
                for j in range(width):
                    columns[j, r] = features[start + r, j]
            for k in range(first[group], first[group + 1]):
                chunk = order[k]
                for j in range(width):
                    point[j] = x[agents[chunk], j]
                _margins(columns, point, size, slopes)
                for r in range(size):
                    slopes[r] = slope_of(loss, slopes[r], targets[start + r], scale, most, one_sided)
                _sums(columns, slopes, size, sums)
                for j in range(width):
                    out[chunk, j] += sums[j]


# Vectors run over records here, so sums must not be re-ordered: the last records of a block, which fill no vector, must
# be computed as the others are.
@compiled(fast=False)
def _margins(columns: Any, point: Any, size: int, margins: Any) -> None:
    margins[:size] = 0.0
    for j in range(0, point.size, 4):
        a, b, c, d = point[j], point[j + 1], point[j + 2], point[j + 3]
        for r in range(size):
            margins[r] += a * columns[j, r] + b * columns[j + 1, r] + c * columns[j + 2, r] + d * columns[j + 3, r]


@compiled()
def _sums(columns: Any, slopes: Any, size: int, sums: Any) -> None:
    for j in range(0, sums.size, 4):
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for r in range(size):
            a += slopes[r] * columns[j, r]
            b += slopes[r] * columns[j + 1, r]
            c += slopes[r] * columns[j + 2, r]
            d += slopes[r] * columns[j + 3, r]
        sums[j], sums[j + 1], sums[j + 2], sums[j + 3] = a, b, c, d
