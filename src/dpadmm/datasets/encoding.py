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

from dpadmm._arrays import IntArray
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

    def fill(self, features: np.ndarray, table: pyarrow.Table, start: int = 0) -> None:
        """Write this column's features into its place in the matrix."""
        values = numbers(table, self.name, start)
        if self.low is not None and self.high is not None:
            values = (np.clip(values, self.low, self.high) - self.low) / (self.high - self.low)
        features[:, 0] = values

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

    def fill(self, features: np.ndarray, table: pyarrow.Table, start: int = 0) -> None:
        """Write this column's features into its place in the matrix."""
        index = _numbers(table, self.name, self.values, start, "value")
        features[np.arange(len(index)), index] = 1.0

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
        """
        features = np.zeros((table.num_rows, len(self.feature_names)))
        start = 0
        for column in self.columns:
            stop = start + len(column.feature_names)
            column.fill(features[:, start:stop], table, first_row)
            start = stop
        if self.divisors:
            features /= np.array(self.divisors)
        return features

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


def class_numbers(table: pyarrow.Table, column: str, classes: Sequence[str], start: int = 0) -> IntArray:
    """The class of every record as its place in the public list of classes; messages count rows from `start`."""
    return _numbers(table, column, classes, start, "class")


def _numbers(table: pyarrow.Table, name: str, values: Sequence[str], start: int, what: str) -> IntArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = texts(table, name, start)
    index = pc.index_in(column, value_set=pa.array(values, pa.string())).fill_null(-1).to_numpy()
    row = first(index < 0)
    if row is not None:
        raise unknown(f"{what} in {place(name, start + row)},", column[row].as_py(), values)
    return index.astype(np.int64)


def _column(entry: Mapping[str, Any]) -> Column:
    kind = entry.get("kind", "category" if "values" in entry else "numeric")
    if kind not in _KINDS:
        raise unknown("kind of column", kind, _KINDS)
    return _KINDS[kind].from_dict(entry)
