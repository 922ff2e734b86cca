"""What is enforced on every row, wherever it is kept: finite numbers, and a length of at most the public bound.

The compiled loops work on each row by itself, so that blocks of a table give equal bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from dpadmm._kernels.compiled import compiled
from dpadmm.errors import InputError, unknown

PRECISIONS = ("float64", "float32")


def _in_table(row: int, column: int) -> str:
    return f"features: row {row}, column {column}"


@dataclass(frozen=True)
class RowRules:
    """Rows are checked, cast, clipped to the public norm bound, and given an intercept's one, in this order.

    Clipping comes after the cast, so that the bound holds for the numbers that are used. Every row is treated by
    itself: a table gives the same bits whole and in blocks.
    """

    norm_bound: float
    intercept: bool = False
    precision: str = "float64"

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        if not (np.isfinite(self.norm_bound) and self.norm_bound > 0):
            raise InputError(
                f"norm bound {self.norm_bound!r}: must be a positive number; it is public and every row is clipped "
                f"to it."
            )

    @property
    def row_bound(self) -> float:
        """How long a row can be, with the intercept's one."""
        return float(np.hypot(self.norm_bound, 1.0)) if self.intercept else self.norm_bound

    def apply(
        self, features: Any, place: Callable[[int, int], str] = _in_table, owned: bool = False
    ) -> tuple[Any, int]:
        """The rows as they are used, and how many were over the bound.

        `place` says where a bad number stands. A table that is `owned` is clipped where it lies, which saves a copy.
        """
        table = _table(features)
        norms = _lengths(table) if table.dtype == self.precision else None
        if norms is None or not np.isfinite(norms).all():  # a finite length has finite numbers in it
            table = _finite(table, self.precision, place)
            norms = _lengths(table)
        table, clipped = _clip(table, norms, self.norm_bound, owned)
        return _with_ones(table) if self.intercept else table, clipped


def clip_rows(table: NDArray[Any] | csr_array, bound: float) -> tuple[Any, int]:
    """Scales every row that is longer than `bound` down to it; also says how many there were.

    Norms are taken in float64. A row of float32 is scaled to a little less, so that rounding does not lift it again.
    """
    return _clip(table, _lengths(table), bound)


def _clip(table: Any, norms: NDArray[np.float64], bound: float, owned: bool = False) -> tuple[Any, int]:
    long = norms > bound
    if not long.any():
        return table, 0
    below = 1.0 if table.dtype == np.float64 else 1.0 - 2.0**-22
    factors = np.where(long, below * bound / np.maximum(norms, bound), 1.0).astype(table.dtype)
    if not isinstance(table, np.ndarray):
        return csr_array(table.multiply(factors[:, None])), int(long.sum())
    scaled = table if owned else table.copy()
    scale(scaled, factors)
    return scaled, int(long.sum())


def _lengths(table: Any) -> NDArray[np.float64]:
    if isinstance(table, np.ndarray):
        norms = np.empty(table.shape[0])
        lengths(np.ascontiguousarray(table), norms)  # one layout: another would be summed in another order
        return norms
    wide = table.astype(np.float64, copy=False)
    return np.sqrt(np.asarray((wide * wide).sum(axis=1)).ravel())


def _table(features: Any) -> Any:
    """A matrix of float32 or float64, with rows and columns."""
    table: Any = np.asarray(features) if not issparse(features) else csr_array(features)  # type: ignore[call-overload]
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] == 0:
        raise InputError(f"features of shape {table.shape}: a table with at least one row and one column is needed.")
    return table if table.dtype == np.float32 else table.astype(np.float64, copy=False)


def _finite(table: Any, precision: str, place: Callable[[int, int], str]) -> Any:
    numbers = table if isinstance(table, np.ndarray) else table.data
    fits = np.abs(numbers) <= np.finfo(precision).max
    if not fits.all():
        if isinstance(table, np.ndarray):
            row, column = np.argwhere(~fits)[0]
        else:
            row, column = (axis[np.argmin(fits)] for axis in table.tocoo().coords)
        raise InputError(
            f"{place(int(row), int(column))} is not a finite number in {precision}; remove or fill such rows first."
        )
    return table.astype(precision, copy=False)


def _with_ones(table: Any) -> Any:
    ones = np.ones((table.shape[0], 1), dtype=table.dtype)
    if isinstance(table, np.ndarray):
        return np.hstack([table, ones])
    from scipy.sparse import hstack

    return csr_array(hstack([table, csr_array(ones)]))


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
