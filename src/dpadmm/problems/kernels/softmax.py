"""Values and Hessians of the softmax loss over integer rows, dense and CSR; `x` holds models times the rows' cell.

Only what stays with the owner, or with a simulation, is computed here; gradients are in `release/kernels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm._kernels.class_scores import Shape, scores_of
from dpadmm._kernels.compiled import compiled


@compiled()
def _normalise(scores: Any) -> Any:
    """Turns each row of scores into probabilities, in place; returns the log-partition of each row."""
    partition = np.empty(scores.shape[0])
    for r in range(scores.shape[0]):
        top = scores[r].max()
        total = 0.0
        for k in range(scores.shape[1]):
            scores[r, k] = np.exp(scores[r, k] - top)
            total += scores[r, k]
        partition[r] = top + np.log(total)
        for k in range(scores.shape[1]):
            scores[r, k] /= total
    return partition


@compiled()
def _missed(probabilities: Any, own: int) -> float:
    """What the other classes have together. Not 1 less the own one: that would lose all digits of a small cap."""
    others = 0.0
    for k in range(probabilities.size):
        if k != own:
            others += probabilities[k]
    return others


@compiled()
def _others(probabilities: Any, targets: Any, first: int, cap: float) -> Any:
    """Takes the own class out of the rows whose slope is capped, in place; returns what each row now sums to."""
    whole = np.ones(probabilities.shape[0])
    for r in range(probabilities.shape[0]):
        missed = _missed(probabilities[r], targets[first + r])
        if cap < 1.0 and missed > cap:
            probabilities[r, targets[first + r]] = 0.0
            for k in range(probabilities.shape[1]):
                probabilities[r, k] *= cap / missed
            whole[r] = cap
    return whole


@compiled()
def _losses(scores: Any, targets: Any, first: int, cap: float) -> Any:
    """The sum of the losses of these rows of scores, which become probabilities."""
    own = np.empty(scores.shape[0])
    for r in range(scores.shape[0]):
        own[r] = scores[r, targets[first + r]]
    losses = _normalise(scores)
    losses -= own
    if cap < 1.0:
        entropy = -cap * np.log(cap) - (1.0 - cap) * np.log(1.0 - cap)
        for r in range(scores.shape[0]):
            missed = _missed(scores[r], targets[first + r])
            if missed > cap:
                losses[r] = cap * (losses[r] + np.log(missed)) + entropy
    # Added up apart from all else: how a loop over inputs is vectorised, and so the order of its sum, may depend on
    # whether they can be written to, which differs between this process and another.
    return losses.sum()


@compiled()
def _scores(features: Any, low: int, high: int, point: Any, classes: int) -> Any:
    scores = np.empty((high - low, classes))
    scores_of(features, low, high, np.ascontiguousarray(point.reshape(features.shape[1], classes).T), scores)
    return scores


@compiled(parallel=True)
def values(loss: Shape, features: Any, targets: Any, starts: Any, stops: Any, agents: Any, x: Any, out: Any) -> None:
    """out[c] = sum over the rows of chunk c of -log probability of the target."""
    for c in prange(starts.size):
        scores = _scores(features, starts[c], stops[c], x[agents[c]], loss.classes)
        out[c, 0] = _losses(scores, targets, starts[c], loss.cap)


@compiled(parallel=True)
def sparse_values(
    loss: Shape, data: Any, indices: Any, indptr: Any, targets: Any, starts: Any, stops: Any, agents: Any,
    x: Any, out: Any,
) -> None:  # fmt: skip
    """As `values`, over CSR rows."""
    for c in prange(starts.size):
        model = x[agents[c]].reshape(x.shape[1] // loss.classes, loss.classes)
        scores = np.zeros((stops[c] - starts[c], loss.classes))
        for row in range(starts[c], stops[c]):
            for e in range(indptr[row], indptr[row + 1]):
                number, column = data[e], indices[e]
                for k in range(loss.classes):
                    scores[row - starts[c], k] += number * model[column, k]
        out[c, 0] = _losses(scores, targets, starts[c], loss.cap)


@compiled(parallel=True)
def hessian(loss: Shape, features: Any, targets: Any, starts: Any, stops: Any, agents: Any, x: Any, out: Any) -> None:
    """out[c] = sum over the rows of (row rowᵀ) kron (diag p - p pᵀ), in the order of the flat model.

    Of a row whose slope is capped, p is over the other classes only, and all of it is scaled by the cap.
    """
    width, classes = features.shape[1], loss.classes
    for c in prange(starts.size):
        p = _scores(features, starts[c], stops[c], x[agents[c]], classes)
        _normalise(p)
        whole = _others(p, targets, starts[c], loss.cap)
        rows = np.empty((p.shape[0], width))
        for r in range(rows.shape[0]):
            for j in range(width):
                rows[r, j] = features[starts[c] + r, j]
        scaled = np.empty_like(rows)
        block = out[c]
        for k in range(classes):
            for h in range(k, classes):
                for r in range(rows.shape[0]):
                    bend = p[r, k] * ((1.0 if k == h else 0.0) - p[r, h] / whole[r])
                    for j in range(width):
                        scaled[r, j] = bend * rows[r, j]
                product = np.dot(rows.T, scaled)
                for i in range(width):
                    for j in range(width):
                        block[i * classes + k, j * classes + h] = product[i, j]
                        block[i * classes + h, j * classes + k] = product[i, j]
