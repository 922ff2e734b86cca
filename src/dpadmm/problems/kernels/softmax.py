"""The softmax loss, dense and CSR: a model is a matrix (features x classes), stored flat, one per agent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm.problems.compiled import compiled

# Rows whose gradients one matrix product adds up. In float32 that product may lose BLOCK units of the last place of all
# it adds, which privacy pays for (`Softmax.summation_error`); blocks are then added in float64.
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
def _sparse_scores(data: Any, indices: Any, indptr: Any, low: int, high: int, model: Any) -> Any:
    scores = np.zeros((high - low, model.shape[1]), dtype=model.dtype)
    for row in range(low, high):
        for k in range(indptr[row], indptr[row + 1]):
            scores[row - low] += data[k] * model[indices[k]]
    return scores


@compiled(parallel=True)
def gradient(
    classes: int,
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
        model = x[agent].reshape(features.shape[1], classes)
        total = np.zeros((classes, features.shape[1]), dtype=out.dtype)
        for start in range(starts[c], stops[c], BLOCK):
            rows = features[start : min(start + BLOCK, stops[c])]
            scores = np.dot(rows, model)
            _normalise(scores)
            for r in range(scores.shape[0]):
                scores[r, targets[start + r]] -= 1.0
            total += np.dot(np.ascontiguousarray(scores.T), rows)
        for k in range(classes):
            for j in range(features.shape[1]):
                out[c, j * classes + k] = weights[agent] * total[k, j]


@compiled(parallel=True)
def sparse_gradient(
    classes: int,
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
        model = x[agent].reshape(x.shape[1] // classes, classes)
        scores = _sparse_scores(data, indices, indptr, starts[c], stops[c], model)
        _normalise(scores)
        total = np.zeros(model.shape, dtype=out.dtype)
        for r in range(scores.shape[0]):
            scores[r, targets[starts[c] + r]] -= 1.0
            for k in range(indptr[starts[c] + r], indptr[starts[c] + r + 1]):
                total[indices[k]] += weights[agent] * data[k] * scores[r]
        out[c] = total.reshape(-1)


@compiled(parallel=True)
def values(
    classes: int,
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
        scores = np.dot(rows, x[agent].reshape(rows.shape[1], classes))
        chosen = 0.0
        for r in range(scores.shape[0]):
            chosen += scores[r, targets[starts[c] + r]]
        out[c, 0] = weights[agent] * (_normalise(scores).sum() - chosen)


@compiled(parallel=True)
def sparse_values(
    classes: int,
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
        model = x[agent].reshape(x.shape[1] // classes, classes)
        scores = _sparse_scores(data, indices, indptr, starts[c], stops[c], model)
        chosen = 0.0
        for r in range(scores.shape[0]):
            chosen += scores[r, targets[starts[c] + r]]
        out[c, 0] = weights[agent] * (_normalise(scores).sum() - chosen)


@compiled(parallel=True)
def hessian(
    classes: int,
    features: Any,
    targets: Any,
    starts: Any,
    stops: Any,
    agents: Any,
    weights: Any,
    x: Any,
    out: Any,
) -> None:
    """out[c] = weight * sum over the rows of (row rowᵀ) kron (diag p - p pᵀ), in the order of the flat model."""
    width = features.shape[1]
    for c in prange(starts.size):
        agent = agents[c]
        rows = features[starts[c] : stops[c]]
        p = np.dot(rows, x[agent].reshape(width, classes))
        _normalise(p)
        scaled = np.empty_like(rows)
        block = out[c]
        for k in range(classes):
            for h in range(k, classes):
                for r in range(rows.shape[0]):
                    bend = p[r, k] * ((1.0 if k == h else 0.0) - p[r, h]) * weights[agent]
                    for j in range(width):
                        scaled[r, j] = bend * rows[r, j]
                product = np.dot(rows.T, scaled)
                for i in range(width):
                    for j in range(width):
                        block[i * classes + k, j * classes + h] = product[i, j]
                        block[i * classes + h, j * classes + k] = product[i, j]
