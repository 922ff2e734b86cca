"""Step 1 of the release path: a record becomes a row of integers.

A row is a function of one record and of public numbers, bit for bit: lengths are added up from left to right, where the
zeros of a dense row change nothing, so dense and sparse storage give the same row. The squares of a row add up to at
most 4^BITS, checked in integers. One unit is worth `cell(bound)`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange
from scipy.sparse import csr_array

from dpadmm._arrays import BoolArray
from dpadmm._kernels.compiled import compiled

BITS = 22  # float32 holds integers up to 2^24 exactly
SIDE = 2**BITS  # the longest row, in cells
LARGEST_SQUARE = 4**BITS
_FARTHEST = 2.0 * SIDE  # of a number, whatever public numbers a row is made with
_MANY = np.int64(2**62)


def cell(row_bound: float) -> float:
    """What one unit of a row is worth, for rows of at most this length."""
    return row_bound / SIDE


def encode(
    features: Any, norm_bound: float, row_bound: float, constant: float = 0.0, usable: BoolArray | None = None
) -> tuple[Any, BoolArray, BoolArray]:
    """The integer rows of a table, dense or CSR, as float32.

    Every row is scaled down to the norm bound, given the constant, divided by the cell and rounded to nearest.
    If its squares then exceed 4^BITS it is shrunk once and truncated, and if they still do, it is zero. A row with a
    number that is not finite is zero, and so is one that is not usable.

    Args:
        features: The records, an array or CSR matrix; columns of a sparse row may be unsorted or repeated.
        norm_bound: Length to which records are scaled down.
        row_bound: Length of a row at most, with the constant.
        constant: What is appended to every row, such as an intercept's one; 0 for nothing.
        usable: Which records may be used at all; by default all.

    Returns:
        The rows; which of them were longer than the norm bound; and which could not be used.
    """
    sparse = not isinstance(features, np.ndarray)
    count, width = features.shape
    wanted = np.ones(count, dtype=np.bool_) if usable is None else usable
    long, lost = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    intercept, one = int(constant > 0.0), min(float(np.floor(constant / cell(row_bound))), _FARTHEST)
    if not sparse:
        rows = np.zeros((count, width + intercept), dtype=np.float32)
        _dense(np.ascontiguousarray(features), norm_bound, cell(row_bound), one, wanted, rows, long, lost)
        return rows, long, lost
    starts = features.indptr.astype(np.int64)
    data, indices = features.data.copy(), features.indices.astype(np.int64)
    sizes = np.empty(count, dtype=np.int64)
    _merge(data, indices, starts, sizes)
    ends = np.cumsum(sizes + intercept)
    kept, columns = np.zeros(ends[-1] if count else 0, dtype=np.float32), np.zeros(ends[-1] if count else 0, np.int64)
    begins = ends - sizes - intercept
    _sparse(data, indices, starts, sizes, norm_bound, cell(row_bound), one, wanted, begins, kept, columns, long, lost)
    if intercept:
        columns[ends - 1] = width
    indptr = np.concatenate(([0], ends))
    small = np.int32 if max(int(indptr[-1]), width + 1) < 2**31 else np.int64
    shape = (count, width + intercept)
    return csr_array((kept, columns.astype(small), indptr.astype(small)), shape=shape), long, lost


def enforce(rows: Any) -> tuple[Any, int]:
    """The same rows, those that are no integers within the bound replaced by zero, and how many those were."""
    sparse = not isinstance(rows, np.ndarray)
    count = rows.shape[0]
    bad = np.zeros(count, dtype=np.bool_)
    numbers = rows.data if sparse else rows.reshape(-1)
    ends = rows.indptr.astype(np.int64) if sparse else np.arange(count + 1, dtype=np.int64) * rows.shape[1]
    columns = rows.indices if sparse else np.zeros(0, dtype=np.int32)
    _check(numbers, columns, ends, rows.shape[1], bad)
    if not bad.any():
        return rows, 0
    copy = rows.copy()
    if sparse:
        entries = np.repeat(bad, np.diff(ends))
        copy.data[entries], copy.indices[entries] = 0.0, 0
    else:
        copy[bad] = 0.0
    return copy, int(bad.sum())


@compiled(fast=False)
def _write(numbers: Any, norm_bound: float, cell: float, one: float, out: Any) -> int:
    """One row; returns 0, 1 if it was longer than the bound, 2 if it is not finite and so zero."""
    total, largest = 0.0, 0.0
    for j in range(numbers.size):
        number = abs(np.float64(numbers[j]))
        if not number < math.inf:
            return 2
        largest = max(largest, number)
        total += number * number
    if total < math.inf:
        length = math.sqrt(total)
    else:
        total = 0.0
        for j in range(numbers.size):
            share = np.float64(numbers[j]) / largest
            total += share * share
        length = math.sqrt(total) * largest  # may be infinite: the row is then zero
    factor = norm_bound / length if length > norm_bound else 1.0
    for j in range(numbers.size):
        entry = float(numbers[j]) * factor / cell
        entry = entry if entry == entry else 0.0
        out[j] = np.rint(min(max(entry, -_FARTHEST), _FARTHEST)) + 0.0
    if one > 0.0:
        out[numbers.size] = one
    squares = _squares(out)
    if squares > LARGEST_SQUARE:
        shrink = SIDE / math.sqrt(np.float64(squares))
        for j in range(out.size):
            out[j] = np.trunc(np.float64(out[j]) * shrink) + 0.0
        if _squares(out) > LARGEST_SQUARE:
            out[:] = 0.0
    return 1 if length > norm_bound else 0


@compiled(fast=False)
def _squares(row: Any) -> Any:
    """The sum of squares, or 2^62 if it is larger."""
    total = np.int64(0)
    for j in range(row.size):
        number = np.int64(row[j])
        total = min(total + number * number, _MANY)
    return total


@compiled(parallel=True, fast=False)
def _dense(table: Any, norm_bound: float, cell: float, one: float, usable: Any, out: Any, long: Any, lost: Any) -> None:
    for row in prange(table.shape[0]):
        found = _write(table[row], norm_bound, cell, one, out[row]) if usable[row] else 2
        long[row], lost[row] = found == 1, found == 2


@compiled(parallel=True, fast=False)
def _merge(data: Any, indices: Any, starts: Any, sizes: Any) -> None:
    """Brings each sparse row into the order of its columns, in place, and adds up repeated ones."""
    for row in prange(starts.size - 1):
        low, high = starts[row], starts[row + 1]
        ordered = True
        for k in range(low + 1, high):
            ordered = ordered and indices[k - 1] < indices[k]
        sizes[row] = high - low
        if not ordered:
            order = np.argsort(indices[low:high], kind="mergesort")  # stable: repeated columns keep their order
            values, columns = data[low:high][order], indices[low:high][order]
            size = 0
            for k in range(values.size):
                if size > 0 and indices[low + size - 1] == columns[k]:
                    data[low + size - 1] += values[k]
                else:
                    data[low + size], indices[low + size] = values[k], columns[k]
                    size += 1
            sizes[row] = size


@compiled(parallel=True, fast=False)
def _sparse(
    data: Any, indices: Any, starts: Any, sizes: Any, norm_bound: float, cell: float, one: float, usable: Any,
    begins: Any, out: Any, columns: Any, long: Any, lost: Any,
) -> None:  # fmt: skip
    for row in prange(sizes.size):
        low, size, first = starts[row], sizes[row], begins[row]
        end = first + size + (1 if one > 0.0 else 0)
        columns[first : first + size] = indices[low : low + size]
        found = _write(data[low : low + size], norm_bound, cell, one, out[first:end]) if usable[row] else 2
        long[row], lost[row] = found == 1, found == 2


@compiled(parallel=True, fast=False)
def _check(numbers: Any, columns: Any, ends: Any, width: int, bad: Any) -> None:
    """What `encode` cannot have made: no integers, too long, or a column that lies outside or does not follow."""
    for row in prange(bad.size):
        total = np.int64(0)
        for k in range(ends[row], ends[row + 1]):
            number = numbers[k]
            allowed = abs(number) <= SIDE and number == np.rint(number)
            if columns.size:
                before = columns[k - 1] if k > ends[row] else -1
                allowed = allowed and before < columns[k] < width
            if allowed:
                total += np.int64(number) * np.int64(number)
            if not allowed or total > LARGEST_SQUARE:
                bad[row] = True
                break
