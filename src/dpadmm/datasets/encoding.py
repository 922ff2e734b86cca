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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dpadmm._arrays import BoolArray
from dpadmm._tables import repeated
from dpadmm.datasets.cells import class_cells, first, no_number, no_value, number_cells
from dpadmm.errors import InputError, unknown

if TYPE_CHECKING:
    import pyarrow


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
        return no_value(table, self.name, self.values, row, start, "value")

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
        twice = repeated(names)
        if twice is not None:
            raise InputError(f"column {twice!r} is declared twice.")
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
        return cls(columns, tuple(float(each) for each in entry.get("divisors", ())))


def _column(entry: Mapping[str, Any]) -> Column:
    kind = entry.get("kind", "category" if "values" in entry else "numeric")
    if kind not in _KINDS:
        raise unknown("kind of column", kind, _KINDS)
    return _KINDS[kind].from_dict(entry)
