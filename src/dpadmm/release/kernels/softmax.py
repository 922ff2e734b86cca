"""The gradient of the softmax loss, plain or capped, over dense and CSR rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm._kernels.class_scores import Shape, residuals_of, scores_of
from dpadmm._kernels.compiled import compiled
from dpadmm._kernels.tiles import COLUMNS_AT_ONCE, SUMS_AT_ONCE, add_tile
from dpadmm.release.kernels.slopes import make_whole

BLOCK = 16  # rows that stay in the inner caches between their scores and their sums


@compiled()
def slopes_of(loss: Shape, scores: Any, own: int, scale: float, slopes: Any) -> None:
    """The slopes of one record, made integers; zero for a target that is no class. Scores are overwritten."""
    if 0 <= own < loss.classes:
        residuals_of(scores, own, loss.cap, slopes)
    else:
        slopes[:] = 0.0
    make_whole(slopes, scale)


@compiled()
def add_rows(features: Any, start: int, stop: int, slopes: Any, rest: Any, total: Any) -> None:
    """total[k] += sum over the rows of slopes[r, k] * row start + r.

    Slopes and total are filled up to whole tiles; `rest` (rows, COLUMNS_AT_ONCE) takes the columns that fill no tile.
    """
    width = features.shape[1]
    whole = width - width % COLUMNS_AT_ONCE
    if whole < width:
        rest[:] = 0.0
        for r in range(stop - start):
            rest[r, : width - whole] = features[start + r, whole:]
    for k in range(0, total.shape[0], SUMS_AT_ONCE):
        for column in range(0, whole, COLUMNS_AT_ONCE):
            add_tile(features, start, stop - start, column, slopes, k, total, column)
        if whole < width:
            add_tile(rest, 0, stop - start, 0, slopes, k, total, whole)


@compiled(parallel=True)
def gradient(
    loss: Shape, scale: float, features: Any, targets: Any, starts: Any, stops: Any, agents: Any, x: Any, out: Any
) -> None:
    """out[c] = sum over the rows of chunk c of row slopesᵀ, flat."""
    features = np.ascontiguousarray(features)  # no copy where they are
    width, classes = features.shape[1], loss.classes
    padded, columns = -(-classes // SUMS_AT_ONCE) * SUMS_AT_ONCE, -(-width // COLUMNS_AT_ONCE) * COLUMNS_AT_ONCE
    for c in prange(starts.size):
        model = np.ascontiguousarray(x[agents[c]].reshape(width, classes).T)
        total, slopes = np.zeros((padded, columns)), np.zeros((BLOCK, padded))
        rest = np.empty((BLOCK, COLUMNS_AT_ONCE), dtype=features.dtype)
        scores = np.empty((BLOCK, classes), dtype=x.dtype)
        for start in range(starts[c], stops[c], BLOCK):
            stop = min(start + BLOCK, stops[c])
            scores_of(features, start, stop, model, scores)
            for r in range(stop - start):
                slopes_of(loss, scores[r], targets[start + r], scale, slopes[r, :classes])
            add_rows(features, start, stop, slopes, rest, total)
        for j in range(width):
            for k in range(classes):
                out[c, j * classes + k] = total[k, j]


@compiled(parallel=True)
def sparse_gradient(
    loss: Shape, scale: float, data: Any, indices: Any, indptr: Any, targets: Any, starts: Any, stops: Any, agents: Any,
    x: Any, out: Any,
) -> None:  # fmt: skip
    """As `gradient`, over CSR rows."""
    for c in prange(starts.size):
        model = x[agents[c]].reshape(x.shape[1] // loss.classes, loss.classes)
        total = np.zeros(model.shape)
        scores = np.empty(loss.classes, dtype=x.dtype)
        slopes = np.empty(loss.classes)
        for row in range(starts[c], stops[c]):
            low, high = indptr[row], indptr[row + 1]
            scores[:] = 0.0
            for e in range(low, high):
                for k in range(loss.classes):
                    scores[k] += data[e] * model[indices[e], k]
            slopes_of(loss, scores, targets[row], scale, slopes)
            for e in range(low, high):
                for k in range(loss.classes):
                    total[indices[e], k] += np.float64(data[e]) * slopes[k]
        out[c] = total.reshape(-1)
