"""Sums over integer rows of each column and of its square, and of the products of columns; dense and CSR.

Squares of a row add up to at most 2^44, so sums over 512 records are exact in a double, in whatever order they are
added. They are computed once in a run, so NumPy's loops are fast enough.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import csr_array


def columns(features: Any, targets: Any, starts: Any, stops: Any, agents: Any, x: Any, out: Any) -> None:
    """out[c] = sum over the rows of chunk c of (row, row squared)."""
    for c in range(starts.size):
        rows = features[starts[c] : stops[c]].astype(np.float64)
        out[c] = np.concatenate([rows.sum(axis=0), np.square(rows).sum(axis=0)])


def sparse_columns(
    data: Any, indices: Any, indptr: Any, targets: Any, starts: Any, stops: Any, agents: Any, x: Any, out: Any
) -> None:
    """As `columns`, over CSR rows."""
    width = out.shape[1] // 2
    for c in range(starts.size):
        own = slice(indptr[starts[c]], indptr[stops[c]])
        numbers, places = data[own].astype(np.float64), indices[own]
        out[c] = np.concatenate([np.bincount(places, each, width) for each in (numbers, numbers * numbers)])


def rows_and_products(features: Any, targets: Any, starts: Any, stops: Any, agents: Any, x: Any, out: Any) -> None:
    """out[c] = sum over the rows of chunk c of the row, and then of the upper triangle of row[i] * row[j]."""
    upper = np.triu_indices(features.shape[1])
    for c in range(starts.size):
        rows = features[starts[c] : stops[c]].astype(np.float64)
        out[c] = np.concatenate([rows.sum(axis=0), (rows.T @ rows)[upper]])


def sparse_rows_and_products(
    data: Any, indices: Any, indptr: Any, targets: Any, starts: Any, stops: Any, agents: Any, x: Any, out: Any
) -> None:
    """As `rows_and_products`, over CSR rows."""
    width = (math.isqrt(8 * out.shape[1] + 9) - 3) // 2  # of w (w + 3) / 2 numbers
    table, upper = csr_array((data, indices, indptr), shape=(indptr.size - 1, width)), np.triu_indices(width)
    for c in range(starts.size):
        rows = table[starts[c] : stops[c]].astype(np.float64)
        out[c] = np.concatenate([np.asarray(rows.sum(axis=0)).ravel(), (rows.T @ rows).toarray()[upper]])


def products(features: Any, targets: Any, starts: Any, stops: Any, agents: Any, x: Any, out: Any) -> None:
    """out[c] = sum over the rows of chunk c of row[i] * row[j] for i <= j, row by row of the upper triangle."""
    upper = np.triu_indices(features.shape[1])
    for c in range(starts.size):
        rows = features[starts[c] : stops[c]].astype(np.float64)
        out[c] = (rows.T @ rows)[upper]


def sparse_products(
    data: Any, indices: Any, indptr: Any, targets: Any, starts: Any, stops: Any, agents: Any, x: Any, out: Any
) -> None:
    """As `products`, over CSR rows."""
    width = int(np.sqrt(2.0 * out.shape[1]))  # of w (w + 1) / 2 products
    table, upper = csr_array((data, indices, indptr), shape=(indptr.size - 1, width)), np.triu_indices(width)
    for c in range(starts.size):
        rows = table[starts[c] : stops[c]].astype(np.float64)
        out[c] = (rows.T @ rows).toarray()[upper]
