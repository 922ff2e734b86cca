"""Sums over integer rows of each column and of its square, and of the products of columns; dense and CSR.

Squares of a row add up to at most 2^44, so sums over 512 records are exact in a double.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm._kernels.compiled import compiled


@compiled(parallel=True)
def columns(features: Any, targets: Any, starts: Any, stops: Any, agents: Any, x: Any, out: Any) -> None:
    """out[c] = sum over the rows of chunk c of (row, row squared)."""
    width = features.shape[1]
    for c in prange(starts.size):
        total = np.zeros(2 * width)
        for row in range(starts[c], stops[c]):
            for j in range(width):
                number = np.float64(features[row, j])
                total[j] += number
                total[width + j] += number * number
        out[c] = total


@compiled(parallel=True)
def sparse_columns(
    data: Any, indices: Any, indptr: Any, targets: Any, starts: Any, stops: Any, agents: Any,
    x: Any, out: Any,
) -> None:  # fmt: skip
    """As `columns`, over CSR rows."""
    width = out.shape[1] // 2
    for c in prange(starts.size):
        total = np.zeros(2 * width)
        for k in range(indptr[starts[c]], indptr[stops[c]]):
            number = np.float64(data[k])
            total[indices[k]] += number
            total[width + indices[k]] += number * number
        out[c] = total


@compiled(parallel=True)
def products(features: Any, targets: Any, starts: Any, stops: Any, agents: Any, x: Any, out: Any) -> None:
    """out[c] = sum over the rows of chunk c of row[i] * row[j] for i <= j, row by row of the upper triangle."""
    width = features.shape[1]
    for c in prange(starts.size):
        rows = np.empty((stops[c] - starts[c], width))
        for r in range(rows.shape[0]):
            for j in range(width):
                rows[r, j] = features[starts[c] + r, j]
        matrix = np.dot(rows.T, rows)
        place = 0
        for i in range(width):
            for j in range(i, width):
                out[c, place] = matrix[i, j]
                place += 1


@compiled(parallel=True)
def sparse_products(
    data: Any, indices: Any, indptr: Any, targets: Any, starts: Any, stops: Any, agents: Any,
    x: Any, out: Any,
) -> None:  # fmt: skip
    """As `products`, over CSR rows, whose columns are in order."""
    width = np.int64(np.sqrt(2.0 * out.shape[1]))  # of w (w + 1) / 2 products
    for c in prange(starts.size):
        total = np.zeros(out.shape[1])
        for row in range(starts[c], stops[c]):
            for k in range(indptr[row], indptr[row + 1]):
                i = np.int64(indices[k])
                first = i * width - i * (i - 1) // 2 - i
                for h in range(k, indptr[row + 1]):
                    total[first + indices[h]] += np.float64(data[k]) * np.float64(data[h])
        out[c] = total
