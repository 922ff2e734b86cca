"""One column of a table as numbers or as text; a value that cannot be used is named with its column and row.

Rows are counted from one and a header is not a row, so row 1 is the first record. Where a table is a part of a file,
`start` is how many rows stand before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpadmm.errors import InputError, unknown

if TYPE_CHECKING:
    import pyarrow


def place(column: str, row: int) -> str:
    """Where a value stands, for a message; `row` counts from zero, the message from one."""
    return f"column {column!r}, row {row + 1}"


def first(bad: np.ndarray) -> int | None:
    """The position of the first true entry."""
    position = int(np.argmax(bad)) if bad.size else 0
    return position if bad.size and bad[position] else None


def numbers(table: pyarrow.Table, name: str, start: int = 0) -> np.ndarray:
    """The column as float64, every value finite."""
    category = f"if the column is a category, declare its public list of values: Category({name!r}, values=(...))."
    values = _as_numbers(table, name, start, category)
    row = first(~np.isfinite(values))
    if row is not None:
        what = "is missing" if np.isnan(values[row]) else f"is {values[row]}"
        raise InputError(f"the value in {place(name, start + row)} {what}; a finite number is needed.")
    return values


def points(table: pyarrow.Table, name: str, start: int = 0) -> np.ndarray:
    """The column as float64, with NaN where a value is missing: what was seen of curves at one time."""
    curve = "the columns of a curve hold numbers, and empty cells where a point is missing."
    values = _as_numbers(table, name, start, curve)
    row = first(np.isinf(values))
    if row is not None:
        where = place(name, start + row)
        raise InputError(f"the value in {where} is {values[row]}; a finite number is needed, or an empty cell.")
    return values


def _as_numbers(table: pyarrow.Table, name: str, start: int, hint: str) -> np.ndarray:
    import pyarrow as pa

    column = _plain(table, name)
    try:
        # Unsafe only in that integers beyond 2^53 are rounded; text that is no number is still refused.
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy())
    except pa.ArrowException:
        raise _not_a_number(column, name, start, hint) from None


def texts(table: pyarrow.Table, name: str, start: int = 0) -> pyarrow.ChunkedArray:
    """The column as text, no value missing or empty; the number 1.0 reads "1"."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _plain(table, name)
    missing = pc.is_null(column, nan_is_null=True)
    try:
        column = column.cast(pa.string())
    except pa.ArrowException as error:
        raise InputError(f"column {name!r} of type {column.type} cannot be read as text: {error}") from None
    row = first(pc.or_(missing, pc.fill_null(pc.equal(column, ""), True)).to_numpy())
    if row is not None:
        raise InputError(f"the value in {place(name, start + row)} is missing.")
    return column


def _plain(table: pyarrow.Table, name: str) -> pyarrow.ChunkedArray:
    import pyarrow as pa

    if name not in table.column_names:
        raise unknown("column", name, table.column_names)
    column = table.column(name)
    # Parquet written from a pandas category is dictionary-coded; the codes are no concern of ours.
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _not_a_number(column: pyarrow.ChunkedArray, name: str, start: int, hint: str) -> InputError:
    import pyarrow as pa

    for row, value in enumerate(column):
        try:
            value.cast(pa.float64())
        except pa.ArrowException:
            return InputError(f"{value.as_py()!r} in {place(name, start + row)} is not a number; {hint}")
    return InputError(f"column {name!r} of type {column.type} does not hold numbers.")
