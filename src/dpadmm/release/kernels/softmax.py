"""The gradient of the softmax loss, plain or capped, over dense and CSR rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import prange

from dpadmm._kernels.compiled import compiled
from dpadmm.release.kernels.few_classes import COLUMNS_AT_ONCE, SUMS_AT_ONCE, add_rows, scores_of
from dpadmm.release.kernels.slopes import make_whole

BLOCK = 16  # rows that stay in the inner caches between their scores and their sums


class Shape(NamedTuple):
    """What a kernel must know of the loss."""

    classes: int
    cap: float = 1.0


@compiled()
def residuals_of(scores: Any, own: int, cap: float, residuals: Any) -> None:
    """Probabilities less one for the own class; where that one is off by more than the cap, all are scaled down to it.

    Scores are overwritten. Zero for a target that is no class.
    """
    classes = scores.size
    if not 0 <= own < classes:
        residuals[:] = 0.0
        return
    top = scores[0]
    for k in range(1, classes):
        top = max(top, scores[k])
    for k in range(classes):
        scores[k] = np.exp(scores[k] - top)
    others = 0.0
    for k in range(classes):
        residuals[k] = scores[k]
        others += residuals[k]
    others -= residuals[own]  # what is left of a sum of a few numbers, the largest of them 1
    whole = others + residuals[own]
    if others < 1e-3 * whole:  # too few digits are left
        others = 0.0
        for k in range(classes):
            others += residuals[k] if k != own else 0.0
        whole = others + residuals[own]
    missed = others / whole
    share = cap / others if missed > cap else 1.0 / whole
    for k in range(classes):
        residuals[k] *= share
    residuals[own] = -min(missed, cap)


@compiled()
def _sparse_scores(data: Any, indices: Any, low: int, high: int, model: Any, scores: Any) -> None:
    scores[:] = 0.0
    for e in range(low, high):
        number, column = data[e], indices[e]
        for k in range(model.shape[1]):
            scores[k] += number * model[column, k]


@compiled(parallel=True)
def gradient(
    loss: Shape, scale: float, features: Any, targets: Any, starts: Any, stops: Any, agents: Any, x: Any, out: Any
) -> None:
    """out[c] = sum over the rows of chunk c of row slopesᵀ, flat."""
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
                residuals_of(scores[r], targets[start + r], loss.cap, slopes[r, :classes])
                make_whole(slopes[r, :classes], scale)
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
            _sparse_scores(data, indices, low, high, model, scores)
            residuals_of(scores, targets[row], loss.cap, slopes)
            make_whole(slopes, scale)
            for e in range(low, high):
                number, column = np.float64(data[e]), indices[e]
                for k in range(loss.classes):
                    total[column, k] += number * slopes[k]
        out[c] = total.reshape(-1)
