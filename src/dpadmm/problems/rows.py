"""How a table of records becomes the integer rows of the release path (`release/rows.py`), wherever it is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import prange
from scipy.sparse import csr_array, issparse

from dpadmm._arrays import BoolArray, FloatArray
from dpadmm._kernels.compiled import compiled
from dpadmm._ranges import SIZES, SIZES_OR_ZERO, check_ranges, ranged
from dpadmm.errors import InputError
from dpadmm.release import rows


def _in_table(row: int, column: int) -> str:
    return f"features: row {row}, column {column}"


@dataclass(frozen=True)
class RowRules:
    """Rows are scaled down to the public norm bound, given an intercept's constant, and made integers.

    Every row is treated by itself: a table gives the same bits whole and in blocks.
    """

    norm_bound: float = ranged(SIZES)
    intercept: bool = False
    constant: float = ranged(SIZES_OR_ZERO, 1.0)  # what an intercept's column holds

    def __post_init__(self) -> None:
        check_ranges(self, "rows")

    @property
    def row_bound(self) -> float:
        """How long a row can be, with the intercept's one."""
        return float(np.hypot(self.norm_bound, self.constant)) if self.intercept else self.norm_bound

    def apply(
        self, features: Any, usable: BoolArray | None = None, place: Callable[[int, int], str] = _in_table
    ) -> tuple[Any, BoolArray, BoolArray]:
        """The rows, which of them were over the bound, and which could not be used.

        `usable` says which records count; None makes a number that is not finite an error, and `place` says where it
        stands.
        """
        table = _table(features)
        constant = self.constant if self.intercept else 0.0
        found = rows.encode(table, self.norm_bound, self.row_bound, constant, usable)
        if usable is None and found[2].any():
            row = int(np.argmax(found[2]))
            numbers = table[[row]] if isinstance(table, np.ndarray) else table[[row]].toarray()
            column = int(np.argmin(np.isfinite(numbers[0])))
            raise InputError(f"{place(row, column)} is not a finite number; remove or fill such rows first.")
        return found


def used(table: Any) -> BoolArray:
    """Which rows hold a record: one that could not be used is zero, and so counts for nothing wherever it is."""
    return np.asarray((table != 0).sum(axis=1) > 0).ravel()


def _table(features: Any) -> Any:
    """A matrix of float32 or float64, with rows and columns."""
    table: Any = np.asarray(features) if not issparse(features) else csr_array(features)  # type: ignore[call-overload]
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] == 0:
        raise InputError(f"features of shape {table.shape}: a table with at least one row and one column is needed.")
    return table if table.dtype == np.float32 else table.astype(np.float64, copy=False)


def rotated(table: Any, matrix: FloatArray) -> FloatArray:
    """table @ matrix, one row at a time: a row's bits in a product of whole matrices may depend on where it lies."""
    dense = table if isinstance(table, np.ndarray) else table.toarray()
    out = np.empty((dense.shape[0], matrix.shape[1]))
    _rotate(np.ascontiguousarray(dense), np.ascontiguousarray(matrix), out)
    return out


@compiled(parallel=True, fast=False)
def _rotate(table: Any, matrix: Any, out: Any) -> None:
    for row in prange(table.shape[0]):
        out[row] = 0.0
        for i in range(matrix.shape[0]):
            number = table[row, i]
            for j in range(matrix.shape[1]):
                out[row, j] += number * matrix[i, j]


@compiled(parallel=True)
def pick(table: Any, rows: Any, out: Any) -> None:
    """out[k] = row rows[k]; who calls has checked that there are such rows."""
    for k in prange(rows.size):
        for j in range(table.shape[1]):
            out[k, j] = table[rows[k], j]
