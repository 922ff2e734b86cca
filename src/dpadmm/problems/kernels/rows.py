"""Single rows: their lengths, rows scaled, rows picked from a table. Each row by itself, so blocks give equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from dpadmm.problems.kernels.compiled import compiled


@compiled(parallel=True)
def lengths(table: Any, out: Any) -> None:
    """out[r] = |row r|, summed in float64; not finite where a number is not."""
    for row in prange(table.shape[0]):
        total = 0.0
        for j in range(table.shape[1]):
            number = np.float64(table[row, j])
            total += number * number
        out[row] = np.sqrt(total)


@compiled(parallel=True)
def scale(table: Any, factors: Any) -> None:
    """row r *= factors[r], in place."""
    for row in prange(table.shape[0]):
        if factors[row] != 1.0:
            for j in range(table.shape[1]):
                table[row, j] *= factors[row]


@compiled(parallel=True)
def pick(table: Any, rows: Any, out: Any) -> None:
    """out[k] = row rows[k]; who calls has checked that there are such rows."""
    for k in prange(rows.size):
        for j in range(table.shape[1]):
            out[k, j] = table[rows[k], j]
