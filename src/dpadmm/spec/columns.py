"""What the columns of records are, agreed on before anything is released: names, order, bounds, labels.

All owners of a federation hold the same file, columns.toml:

target = "income"
classes = ["<=50K", ">50K"]          # leave out where the target is a number

[[columns]]
name = "age"
low = 17
high = 90

[[columns]]
name = "sex"
values = ["Female", "Male"]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tomli_w

from dpadmm._arrays import BoolArray
from dpadmm._fields import from_table, names
from dpadmm._files import json_value, parse_toml, read_text
from dpadmm.datasets.cells import class_cells, class_numbers, number_cells, numbers
from dpadmm.datasets.curves.encoder import CurveEncoder
from dpadmm.datasets.dataset import Encodes
from dpadmm.datasets.encoding import Category, Encoder, Numeric
from dpadmm.errors import InputError
from dpadmm.privacy.events import canonical, digest

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class _Written:
    """The names in columns.toml."""

    target: str
    classes: tuple[str, ...] = ()
    columns: tuple[Mapping[str, Any], ...] | None = None
    curve: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Schema:
    """Public facts alone: how a record becomes a row and a target. Texts and tuples, so that it has one digest."""

    features: str  # the encoder, as JSON with one spelling
    target: str
    classes: tuple[str, ...] = ()  # in their order; none: the target is a number

    def __post_init__(self) -> None:
        if not self.target or len(self.classes) == 1 or len(set(self.classes)) < len(self.classes):
            raise InputError("the columns need a target, and its classes, if it has any, must be two or more.")
        if self.target in _inputs(self.encoder):
            raise InputError(f"column {self.target!r} is the target; it cannot be a feature too.")

    @classmethod
    def of(cls, encoder: Encodes, target: str, classes: tuple[str, ...] | None) -> Schema:
        if encoder.divisors:
            raise InputError("the features were divided by maxima of the data themselves, which no terms can say.")
        return cls(canonical(encoder.to_dict()), target, tuple(classes or ()))

    @cached_property
    def encoder(self) -> Encodes:
        try:
            entry = json_value(self.features)
        except ValueError:
            raise InputError("the columns cannot be read.") from None
        found = understood(entry, "the terms")
        if found.divisors:
            raise InputError("the columns have divisors, which are taken from data; declare low and high instead.")
        return found

    @property
    def width(self) -> int:
        """Features of a row, without an intercept."""
        return len(self.encoder.feature_names)

    @cached_property
    def digest(self) -> str:
        return digest("schema", canonical([self.features, self.target, self.classes]))

    @property
    def text_columns(self) -> tuple[str, ...]:
        """What a reader must keep as written."""
        return (*self.encoder.text_columns, *((self.target,) if self.classes else ()))

    def encode(self, table: pyarrow.Table) -> tuple[np.ndarray, np.ndarray]:
        """Features and targets of every record; a target is a number, or the place of its class."""
        features = self.encoder.transform(table)
        if not self.classes:
            return features, numbers(table, self.target)
        return features, class_numbers(table, self.target, self.classes)

    def rows(self, table: pyarrow.Table) -> tuple[np.ndarray, np.ndarray, BoolArray]:
        """Features and targets of every record, and which records can be used; no value is an error.

        Guarantee: what a record becomes is a function of that record alone, bit for bit. Only the names and types of
        columns can be wrong, which are agreed on.
        """
        features, usable = self.encoder.rows(table)
        if not self.classes:
            values = number_cells(table, self.target)
            return features, np.nan_to_num(values), usable & ~np.isnan(values)
        index = class_cells(table, self.target, self.classes)
        return features, np.maximum(index, 0), usable & (index >= 0)

    def dumps(self) -> str:
        """As columns.toml."""
        classes = {"classes": list(self.classes)} if self.classes else {}
        return tomli_w.dumps({"target": self.target, **classes, **json_value(self.features)})

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any], where: str = "the columns") -> Schema:
        written = from_table(_Written, entry, where)
        if (written.columns is None) == (written.curve is None):
            raise InputError(f"{where}: columns or a curve are needed, and not both.")
        described = {name: entry[name] for name in ("columns", "curve") if name in entry}
        return cls.of(understood(described, where), written.target, written.classes)

    @classmethod
    def from_fields(cls, entry: Any) -> Schema:
        """From what `dataclasses.asdict` makes of it; anything may come from others."""
        if not isinstance(entry, Mapping) or set(entry) != set(names(cls)):
            raise InputError("the terms: the columns are not described.")
        return from_table(cls, entry, "the terms")

    @classmethod
    def loads(cls, text: str, where: str = "the columns") -> Schema:
        return cls.from_dict(parse_toml(text, where), where)

    @classmethod
    def read(cls, path: Path) -> Schema:
        return cls.loads(read_text(path, "columns", "TOML"), str(path))


def understood(entry: Any, where: str) -> Encodes:
    """The encoder that is described; anything may come from others."""
    try:
        found = (CurveEncoder if "curve" in entry else Encoder).from_dict(entry)
        values = [value for column in found.columns if isinstance(column, Category) for value in column.values]
        texts = _texts([*_inputs(found), *values])
    except InputError:
        raise
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError) as error:
        raise InputError(f"{where}: the columns cannot be understood: {error}") from None
    if not texts:
        raise InputError(f"{where}: the names of columns and the values of categories must be texts.")
    return found


def _inputs(encoder: Encodes) -> list[str]:
    return [column.name if isinstance(column, Numeric | Category) else column for column in encoder.columns]


def _texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(entry, str) for entry in value)
