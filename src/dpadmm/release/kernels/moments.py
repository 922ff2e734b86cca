"""Sums over integer rows of each column, of its square, and of the products of columns; dense and CSR.

Squares of a row add up to at most 2^44, so sums over 512 records are exact in a double, in whatever order they are
added. They are computed once in a run, so the loops of NumPy and SciPy are fast enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array


def columns(*given: Any) -> None:
    """out[c] = sum over the rows of chunk c of (row, row squared)."""
    out = given[-1]
    for c, rows in _chunks(given, out.shape[1] // 2):
        out[c] = np.concatenate([rows.sum(axis=0), (rows * rows).sum(axis=0)])


def products(*given: Any) -> None:
    """out[c] = sum over the rows of chunk c of row[i] * row[j] for i <= j, row by row of the upper triangle."""
    out = given[-1]
    width = math.isqrt(2 * out.shape[1])  # of w (w + 1) / 2 products
    for c, rows in _chunks(given, width):
        out[c] = _upper(rows, width)


def rows_and_products(*given: Any) -> None:
    """out[c] = sum over the rows of chunk c of the row, and then of its `products`."""
    out = given[-1]
    width = (math.isqrt(8 * out.shape[1] + 9) - 3) // 2  # of w (w + 3) / 2 numbers
    for c, rows in _chunks(given, width):
        out[c] = np.concatenate([rows.sum(axis=0), _upper(rows, width)])


def _upper(rows: Any, width: int) -> Any:
    found = rows.T @ rows
    return (found if isinstance(found, np.ndarray) else found.toarray())[np.triu_indices(width)]


def _chunks(given: Any, width: int) -> Iterator[tuple[int, Any]]:
    """Each chunk's rows in doubles, of what a kernel is given: storage (dense, or the three arrays of CSR), targets,
    starts, stops, agents, x, out."""
    *storage, _, starts, stops, _, _, _ = given
    table = storage[0] if len(storage) == 1 else csr_array(tuple(storage), shape=(storage[2].size - 1, width))
    for c in range(starts.size):
        yield c, table[starts[c] : stops[c]].astype(np.float64)
