"""The cells of a table, each read by itself: as a number, as text, or as its place in a public list of values.

Nothing here looks at a column as a whole but for its type, so what becomes of a cell does not depend on any other. A
value that cannot be used is NaN, or -1 as a place; or it is named with its column and row, by the functions that raise.
Rows are counted from one and a header is not a row, so row 1 is the first record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpadmm._arrays import BoolArray, IntArray
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


def number_cells(table: pyarrow.Table, name: str) -> np.ndarray:
    """The column as float64, NaN for every cell that holds no finite number. Each cell is read by itself."""
    values, _ = _read_numbers(table, name)
    values[~np.isfinite(values)] = np.nan
    return values


def numbers(table: pyarrow.Table, name: str, start: int = 0) -> np.ndarray:
    """The column as float64, every value finite."""
    values = number_cells(table, name)
    row = first(np.isnan(values))
    if row is not None:
        raise no_number(table, name, row, start)
    return values


def no_number(table: pyarrow.Table, name: str, row: int, start: int = 0) -> InputError:
    """Why a cell is no finite number."""
    value = _value(_plain(table, name), row)
    if isinstance(value, str) and value:
        category = f"if the column is a category, declare its public list of values: Category({name!r}, values=(...))."
        return InputError(f"{value!r} in {place(name, start + row)} is not a number; {category}")
    what = "is missing" if value in (None, "") or value != value else f"is {value}"
    return InputError(f"the value in {place(name, start + row)} {what}; a finite number is needed.")


def point_cells(table: pyarrow.Table, name: str) -> tuple[np.ndarray, BoolArray]:
    """What was seen of curves at one time, NaN where a point is missing; and which cells hold something else."""
    values, missing = _read_numbers(table, name)
    return values, np.asarray(~np.isfinite(values) & ~missing)


def points(table: pyarrow.Table, name: str, start: int = 0) -> np.ndarray:
    """The column as float64, with NaN where a value is missing: what was seen of curves at one time."""
    values, wrong = point_cells(table, name)
    row = first(wrong)
    if row is None:
        return values
    where, value = place(name, start + row), _value(_plain(table, name), row)
    if isinstance(value, str):
        curve = "the columns of a curve hold numbers, and empty cells where a point is missing."
        raise InputError(f"{value!r} in {where} is not a number; {curve}")
    raise InputError(f"the value in {where} is {value}; a finite number is needed, or an empty cell.")


def _read_numbers(table: pyarrow.Table, name: str) -> tuple[np.ndarray, BoolArray]:
    """The column as float64, each cell by itself, NaN or infinite where it is no number; and which cells are empty.

    Only the type of the column may be wrong, and that is public. Text is a number where it is written as one, and
    "true" and "false" are 1 and 0, as in a column of truth values.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column, kinds = _plain(table, name), pa.types
    if _is_text(column.type):
        text = pc.ascii_trim_whitespace(_as_text(column))
        missing = pc.or_(pc.is_null(text), pc.is_in(text, value_set=pa.array(_EMPTY, text.type)))
        written = pc.if_else(pc.match_substring_regex(text, _WRITTEN), text, pa.scalar(None, text.type))
        values = np.array(written.cast(pa.float64()).to_numpy())
        for words, value in ((_TRUE, 1.0), (_FALSE, 0.0)):
            values[pc.is_in(text, value_set=pa.array(words, text.type)).to_numpy()] = value
        return values, missing.to_numpy()
    if not (kinds.is_null(column.type) or kinds.is_boolean(column.type) or _is_number(column.type)):
        raise InputError(f"column {name!r} of type {column.type} does not hold numbers.")
    # Unsafe only in that integers beyond 2^53 are rounded.
    values = np.array(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    return values, np.isnan(values)


# A number in text; arrow reads what matches, each digit counting, and what does not match is no number.
_WRITTEN = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_EMPTY = ("", "NaN", "nan", "-NaN", "-nan", "NA", "#NA", "N/A", "n/a", "#N/A", "NULL", "null")
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")


def text_cells(table: pyarrow.Table, name: str) -> tuple[pyarrow.ChunkedArray, BoolArray]:
    """The column as text, each cell by itself; the number 1.0 reads "1". And which cells are missing or empty."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _plain(table, name)
    missing = pc.is_null(column, nan_is_null=True)
    if _is_text(column.type):
        column = _as_text(column)
    else:
        try:
            column = column.cast(pa.string())
        except pa.ArrowException as error:
            raise InputError(f"column {name!r} of type {column.type} cannot be read as text: {error}") from None
    empty = pc.equal(column, pa.scalar("", pa.string()).cast(column.type))
    return column, np.asarray(pc.or_(missing, pc.fill_null(empty, True)).to_numpy())


def person_cells(table: pyarrow.Table, name: str) -> list[bytes | None]:
    """Whose each record is: the cell's bytes, as written; None where it is empty. Each cell is read by itself."""
    import pyarrow as pa

    column = _plain(table, name)
    if _is_text(column.type):
        column = column.cast(pa.large_binary())
    elif pa.types.is_integer(column.type) or pa.types.is_decimal(column.type) or pa.types.is_boolean(column.type):
        column = column.cast(pa.string()).cast(pa.large_binary())
    else:  # numbers with a point and dates are no names of persons, and not every one of them has a text
        raise InputError(
            f"column {name!r} of type {column.type} cannot say whose record it is; it must hold text or whole numbers."
        )
    return [cell or None for cell in column.to_pylist()]


def texts(table: pyarrow.Table, name: str, start: int = 0) -> pyarrow.ChunkedArray:
    """The column as text, no value missing or empty; the number 1.0 reads "1"."""
    import pyarrow as pa

    column, missing = text_cells(table, name)
    row = first(missing)
    if row is not None:
        raise InputError(f"the value in {place(name, start + row)} is missing.")
    try:
        return column.cast(pa.large_binary()).cast(pa.string())
    except pa.ArrowException as error:
        raise InputError(f"column {name!r} cannot be read as text: {error}") from None


def _is_text(kind: pyarrow.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    return any(
        of(kind)
        for of in (
            types.is_string, types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary,
            types.is_binary_view, types.is_fixed_size_binary,
        )
    )  # fmt: skip


def _is_number(kind: pyarrow.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _as_text(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Text or bytes as text that nothing checks: a cell that is no UTF-8 must not be an error for the others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return column.cast(pa.large_binary()).cast(options=pc.CastOptions(pa.large_string(), allow_invalid_utf8=True))


def _value(column: pyarrow.ChunkedArray, row: int) -> Any:
    """One value, for a message."""
    import pyarrow as pa

    if not _is_text(column.type):
        return column[row].as_py()
    value = column.slice(row, 1).cast(pa.large_binary())[0].as_py()
    return None if value is None else value.decode(errors="replace")


def _plain(table: pyarrow.Table, name: str) -> pyarrow.ChunkedArray:
    import pyarrow as pa

    if name not in table.column_names:
        raise unknown("column", name, table.column_names)
    column = table.column(name)
    # Parquet written from a pandas category is dictionary-coded; the codes are no concern of ours.
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def class_cells(table: pyarrow.Table, name: str, values: Sequence[str]) -> IntArray:
    """The place of every cell in a public list of values, -1 for what is not in it. Each cell is read by itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column, missing = text_cells(table, name)
    index = pc.index_in(column, value_set=pa.array(values, pa.string()).cast(column.type))
    return np.where(missing, -1, index.fill_null(-1).to_numpy()).astype(np.int64)


def class_numbers(table: pyarrow.Table, column: str, classes: Sequence[str], start: int = 0) -> IntArray:
    """The class of every record as its place in the public list of classes; messages count rows from `start`."""
    index = class_cells(table, column, classes)
    row = first(index < 0)
    if row is not None:
        raise no_value(table, column, classes, row, start, "class")
    return index


def no_value(table: pyarrow.Table, name: str, values: Sequence[str], row: int, start: int, what: str) -> InputError:
    """Why a cell is none of a public list of values."""
    column, missing = text_cells(table, name)
    if missing[row]:
        return InputError(f"the value in {place(name, start + row)} is missing.")
    return unknown(f"{what} in {place(name, start + row)},", _value(column, row), values)
