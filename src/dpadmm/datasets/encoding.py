"""A table of named columns becomes a matrix of features, by public facts alone.

Bounds and category lists come from a code book, never from the table: the row of a record does not change
when another record does, so encoding costs no privacy. The one exception, `divisors`, carries what
`scaling="max"` took from the data, so that a model fitted after it can still be given raw records; a data set
that has them says so.

A value that cannot be used is named with its column and row. Rows are counted from one and a header is not a row, so
row 1 is the first record. Where a table is a part of a file, `start` is how many rows stand before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

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
            types.is_binary_view,
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


@dataclass(frozen=True)
class Numeric:
    """A number, clipped to its public bounds and mapped onto [0, 1]; without bounds, left as it is."""

    name: str
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            return
        if self.low is None or self.high is None:
            raise InputError(f"column {self.name!r} has one bound; give both low and high, or neither.")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InputError(f"column {self.name!r} needs finite low < high; got {self.low} and {self.high}.")

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (self.name,)

    def fill(self, features: np.ndarray, table: pyarrow.Table) -> BoolArray:
        """Writes this column's features into its place in the matrix; which records have a value that can be used."""
        values = number_cells(table, self.name)
        usable = ~np.isnan(values)
        if self.low is not None and self.high is not None:
            values = (np.clip(values, self.low, self.high) - self.low) / (self.high - self.low)
        features[:, 0] = np.where(usable, values, 0.0)
        return usable

    def explain(self, table: pyarrow.Table, row: int, start: int = 0) -> InputError:
        """Why a value cannot be used."""
        return no_number(table, self.name, row, start)

    def to_dict(self) -> dict[str, Any]:
        # TOML has no null: bounds that are not written are bounds that were not declared.
        bounds = {} if self.low is None else {"low": self.low, "high": self.high}
        return {"kind": "numeric", "name": self.name, **bounds}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Numeric:
        return cls(entry["name"], entry.get("low"), entry.get("high"))


@dataclass(frozen=True)
class Category:
    """One of a public list of values, one-hot in the order of the list."""

    name: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) < len(self.values):
            raise InputError(f"the values of category {self.name!r} must be a list without repeats, not empty.")

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={value}" for value in self.values)

    def fill(self, features: np.ndarray, table: pyarrow.Table) -> BoolArray:
        """Writes this column's features into its place in the matrix; which records have a value that can be used."""
        index = class_cells(table, self.name, self.values)
        usable = index >= 0
        features[np.flatnonzero(usable), index[usable]] = 1.0
        return np.asarray(usable)

    def explain(self, table: pyarrow.Table, row: int, start: int = 0) -> InputError:
        """Why a value cannot be used."""
        return _no_value(table, self.name, self.values, row, start, "value")

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "category", "name": self.name, "values": list(self.values)}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Category:
        return cls(entry["name"], tuple(entry["values"]))


Column: TypeAlias = Numeric | Category
"""How a column becomes numbers."""
_KINDS: dict[str, type[Numeric] | type[Category]] = {"numeric": Numeric, "category": Category}


@dataclass(frozen=True)
class Encoder:
    """The columns in order; `divisors`, one per feature, are the data's maxima, and empty but for "max"."""

    columns: tuple[Column, ...]
    divisors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names:
            raise InputError("there is no column to make features of.")
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise InputError(f"column {repeated!r} is declared twice.")
        if self.divisors and len(self.divisors) != len(self.feature_names):
            raise InputError(f"{len(self.divisors)} divisors for {len(self.feature_names)} features.")

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns a reader must keep as written, lest the category "01" become the number 1."""
        return tuple(column.name for column in self.columns if isinstance(column, Category))

    def transform(self, table: pyarrow.Table, first_row: int = 0) -> np.ndarray:
        """The features of every row; columns of the table that are not declared are not looked at.

        `first_row`: how many rows of the file stand before the table's, so that messages count as the file does.
        Raises an `InputError` for a value that cannot be used.
        """
        features, usable = self._filled(table)
        for column, known in zip(self.columns, usable, strict=True):
            row = first(~known)
            if row is not None:
                raise column.explain(table, row, first_row)
        return features

    def rows(self, table: pyarrow.Table) -> tuple[np.ndarray, BoolArray]:
        """The features of every row, and which rows have values that can all be used; no value is an error.

        Guarantee: a row is a function of its own record, bit for bit.
        """
        features, usable = self._filled(table)
        return features, np.logical_and.reduce(usable)

    def _filled(self, table: pyarrow.Table) -> tuple[np.ndarray, list[BoolArray]]:
        features = np.zeros((table.num_rows, len(self.feature_names)))
        start, usable = 0, []
        for column in self.columns:
            stop = start + len(column.feature_names)
            usable.append(column.fill(features[:, start:stop], table))
            start = stop
        if self.divisors:
            features /= np.array(self.divisors)
        return features, usable

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON and TOML."""
        columns = [column.to_dict() for column in self.columns]
        return {"columns": columns} | ({"divisors": list(self.divisors)} if self.divisors else {})

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Encoder:
        try:
            columns = tuple(_column(column) for column in entry["columns"])
        except KeyError as error:
            raise InputError(f"the description of an encoder lacks {error}.") from None
        return cls(columns, tuple(entry.get("divisors", ())))


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
        raise _no_value(table, column, classes, row, start, "class")
    return index


def _no_value(table: pyarrow.Table, name: str, values: Sequence[str], row: int, start: int, what: str) -> InputError:
    """Why a cell is none of a public list of values."""
    column, missing = text_cells(table, name)
    if missing[row]:
        return InputError(f"the value in {place(name, start + row)} is missing.")
    return unknown(f"{what} in {place(name, start + row)},", _value(column, row), values)


def _column(entry: Mapping[str, Any]) -> Column:
    kind = entry.get("kind", "category" if "values" in entry else "numeric")
    if kind not in _KINDS:
        raise unknown("kind of column", kind, _KINDS)
    return _KINDS[kind].from_dict(entry)
