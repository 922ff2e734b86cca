"""The softmax loss, dense and CSR: a model is a matrix (features x classes), stored flat, one per agent.

A cap c < 1 holds the probability of a record's own class at 1 - c or more (see `losses/capped`); 1 leaves it alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import prange

from dpadmm._kernels.compiled import compiled
from dpadmm.problems.kernels.few_classes import add_rows, scores_of


class Shape(NamedTuple):
    """What a kernel must know of the loss."""

    classes: int
    cap: float = 1.0


# Rows whose gradients are added up in the precision of the records. In float32 that may lose BLOCK units of the last
# place of all it adds, which privacy pays for (`Softmax.summation_error`); blocks are then added in float64.
BLOCK = 64


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
def _residuals(probabilities: Any, targets: Any, first: int, cap: float) -> None:
    """Probabilities less one for the own class, in place; where that one is off by more than the cap, all are scaled
    down to it."""
    for r in range(probabilities.shape[0]):
        own = targets[first + r]
        if cap >= 1.0:
            probabilities[r, own] -= 1.0
            continue
        missed = _missed(probabilities[r], own)
        if missed > cap:
            for k in range(probabilities.shape[1]):
                probabilities[r, k] *= cap / missed
        probabilities[r, own] = -min(missed, cap)


@compiled()
def _others(probabilities: Any, targets: Any, first: int, cap: float) -> Any:
    """Takes the own class out of the rows whose pull is capped, in place; returns what each row now sums to."""
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
def _sparse_scores(data: Any, indices: Any, indptr: Any, low: int, high: int, model: Any) -> Any:
    scores = np.zeros((high - low, model.shape[1]), dtype=model.dtype)
    for row in range(low, high):
        for e in range(indptr[row], indptr[row + 1]):
            number, column = data[e], indices[e]
            for k in range(model.shape[1]):
                scores[row - low, k] += number * model[column, k]
    return scores


@compiled(parallel=True)
def gradient(
    loss: Shape,
    features: Any,
    targets: Any,
    starts: Any,
    stops: Any,
    agents: Any,
    weights: Any,
    x: Any,
    out: Any,
) -> None:
    """out[c] = weight * sum over the rows of chunk c of row (probabilities - one_hot)ᵀ, flat."""
    for c in prange(starts.size):
        agent = agents[c]
        model = np.ascontiguousarray(x[agent].reshape(features.shape[1], loss.classes).T)
        total = np.zeros(model.shape, dtype=out.dtype)
        some = np.empty_like(model)
        block = np.empty((BLOCK, loss.classes), dtype=x.dtype)
        for start in range(starts[c], stops[c], BLOCK):
            stop = min(start + BLOCK, stops[c])
            scores = block[: stop - start]
            scores_of(features, start, stop, model, scores)
            _normalise(scores)
            _residuals(scores, targets, start, loss.cap)
            some[:] = 0.0
            add_rows(features, start, stop, scores, some)
            total += some
        for k in range(loss.classes):
            for j in range(features.shape[1]):
                out[c, j * loss.classes + k] = weights[agent] * total[k, j]


@compiled(parallel=True)
def sparse_gradient(
    loss: Shape,
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
    """As `gradient`, over CSR rows."""
    for c in prange(starts.size):
        agent = agents[c]
        model = x[agent].reshape(x.shape[1] // loss.classes, loss.classes)
        scores = _sparse_scores(data, indices, indptr, starts[c], stops[c], model)
        _normalise(scores)
        _residuals(scores, targets, starts[c], loss.cap)
        total = np.zeros(model.shape, dtype=out.dtype)
        for r in range(scores.shape[0]):
            for e in range(indptr[starts[c] + r], indptr[starts[c] + r + 1]):
                number, column = weights[agent] * data[e], indices[e]
                for k in range(loss.classes):
                    total[column, k] += number * scores[r, k]
        out[c] = total.reshape(-1)


@compiled(parallel=True)
def values(
    loss: Shape,
    features: Any,
    targets: Any,
    starts: Any,
    stops: Any,
    agents: Any,
    weights: Any,
    x: Any,
    out: Any,
) -> None:
    """out[c] = weight * sum over the rows of chunk c of -log probability of the target."""
    for c in prange(starts.size):
        agent = agents[c]
        rows = features[starts[c] : stops[c]]
        scores = np.dot(rows, x[agent].reshape(rows.shape[1], loss.classes))
        out[c, 0] = weights[agent] * _losses(scores, targets, starts[c], loss.cap)


@compiled(parallel=True)
def sparse_values(
    loss: Shape,
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
    """As `values`, over CSR rows."""
    for c in prange(starts.size):
        agent = agents[c]
        model = x[agent].reshape(x.shape[1] // loss.classes, loss.classes)
        scores = _sparse_scores(data, indices, indptr, starts[c], stops[c], model)
        out[c, 0] = weights[agent] * _losses(scores, targets, starts[c], loss.cap)


@compiled(parallel=True)
def hessian(
    loss: Shape,
    features: Any,
    targets: Any,
    starts: Any,
    stops: Any,
    agents: Any,
    weights: Any,
    x: Any,
    out: Any,
) -> None:
    """out[c] = weight * sum over the rows of (row rowᵀ) kron (diag p - p pᵀ), in the order of the flat model.

    Of a row whose pull is capped, p is over the other classes only, and all of it is scaled by the cap.
    """
    width, classes = features.shape[1], loss.classes
    for c in prange(starts.size):
        agent = agents[c]
        rows = features[starts[c] : stops[c]]
        p = np.dot(rows, x[agent].reshape(width, classes))
        _normalise(p)
        whole = _others(p, targets, starts[c], loss.cap)
        scaled = np.empty_like(rows)
        block = out[c]
        for k in range(classes):
            for h in range(k, classes):
                for r in range(rows.shape[0]):
                    bend = p[r, k] * ((1.0 if k == h else 0.0) - p[r, h] / whole[r]) * weights[agent]
                    for j in range(width):
                        scaled[r, j] = bend * rows[r, j]
                product = np.dot(rows.T, scaled)
                for i in range(width):
                    for j in range(width):
                        block[i * classes + k, j * classes + h] = product[i, j]
                        block[i * classes + h, j * classes + k] = product[i, j]
