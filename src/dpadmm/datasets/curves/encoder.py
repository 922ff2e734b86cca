"""A table with a column for each time becomes features: every row is a curve, its coefficients are the features."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpadmm._arrays import BoolArray
from dpadmm.datasets.cells import numbers, point_cells, points, texts
from dpadmm.datasets.curves.bases import Basis, parse
from dpadmm.datasets.curves.curves import Curves, check_grid
from dpadmm.datasets.curves.smoothing import check_smoothing, score_rows, scores
from dpadmm.datasets.dataset import Dataset
from dpadmm.datasets.files import read_table
from dpadmm.errors import InputError, unknown

if TYPE_CHECKING:
    import pyarrow

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class CurveEncoder:
    """The columns of a table that are a curve's values, and what becomes of the curve.

    columns, times: the curve's value at a time is in its column; times increase. The first and the last are the
    interval, which is public because the names of columns are.
    basis, smoothing: the features are the curve's coefficients in this basis, as `scores` finds them.
    divisors: as of `Encoder`, one per feature; empty but for `scaling="max"`.
    """

    columns: tuple[str, ...]
    times: tuple[float, ...]
    basis: str
    smoothing: float = 0.0
    divisors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.columns) < 2 or len(self.columns) != len(self.times) or len(set(self.columns)) < len(self.columns):
            raise InputError(
                f"{len(self.columns)} columns for a curve and {len(self.times)} times; two or more different columns "
                "with a time for each are needed."
            )
        check_grid(self.times)
        check_smoothing(self.smoothing)
        size = parse(self.basis).size
        if self.divisors and len(self.divisors) != size:
            raise InputError(f"{len(self.divisors)} divisors for {size} features.")

    @property
    def feature_names(self) -> tuple[str, ...]:
        return parse(self.basis).feature_names

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns a reader must keep as written: none, a curve is numbers."""
        return ()

    def transform(self, table: pyarrow.Table, first_row: int = 0) -> np.ndarray:
        """The features of every row; an empty cell is a point that is missing, other columns are not looked at.

        `first_row`: how many rows of the file stand before the table's, so that messages count as the file does.
        """
        values = np.empty((table.num_rows, len(self.columns)))
        for position, name in enumerate(self.columns):
            values[:, position] = points(table, name, first_row)
        curves = Curves.on_grid(self.times, values, first_row=first_row)
        features = scores(curves, parse(self.basis), self.smoothing, first_row)
        return features / np.array(self.divisors) if self.divisors else features

    def rows(self, table: pyarrow.Table) -> tuple[np.ndarray, BoolArray]:
        """The features of every row, and which rows are curves that determine them; no value is an error.

        Guarantee: a row is a function of its own record, bit for bit.
        """
        values, wrong = np.empty((table.num_rows, len(self.columns))), np.zeros(table.num_rows, dtype=np.bool_)
        for position, name in enumerate(self.columns):
            values[:, position], bad = point_cells(table, name)
            wrong |= bad
        wrong |= np.isnan(values).all(axis=1)
        values[wrong] = 0.0
        features, determined = score_rows(Curves.on_grid(self.times, values), parse(self.basis), self.smoothing)
        return features / np.array(self.divisors) if self.divisors else features, determined & ~wrong

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON and TOML."""
        entry: dict[str, Any] = {"columns": list(self.columns), "times": list(self.times)}
        entry |= {"basis": self.basis, "smoothing": self.smoothing}
        return {"curve": entry | ({"divisors": list(self.divisors)} if self.divisors else {})}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> CurveEncoder:
        try:
            curve = entry["curve"]
            columns, times = tuple(curve["columns"]), tuple(float(time) for time in curve["times"])
            basis, smoothing = curve["basis"], float(curve["smoothing"])
        except KeyError as error:
            raise InputError(f"the description of an encoder of curves lacks {error}.") from None
        return cls(columns, times, basis, smoothing, tuple(float(each) for each in curve.get("divisors", ())))


def find_columns(names: Iterable[str], prefix: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The columns named prefix + number, and the numbers, which are times; sorted by time."""
    at: dict[float, str] = {}
    for name in names:
        if not name.startswith(prefix) or not _NUMBER.fullmatch(name[len(prefix) :]):
            continue
        time = float(name[len(prefix) :])
        if time in at:
            raise InputError(f"columns {at[time]!r} and {name!r} are both the curve at time {time:g}; keep one.")
        at[time] = name
    if len(at) < 2:
        raise InputError(
            f"{len(at)} column(s) have a name of {prefix!r} and a number; a curve needs two or more, as in "
            f"'{prefix}1', '{prefix}2'. Name another prefix."
        )
    times = tuple(sorted(at))
    return tuple(at[time] for time in times), times


def load_curves_file(
    path: str | Path,
    target: str,
    owner: str | None,
    prefix: str,
    basis: str | Basis = "bspline:12",
    smoothing: float = 0.0,
) -> Dataset:
    """The curves of a .csv or .parquet file with a row for each, and a number to be predicted.

    The columns named prefix + number are the curve at that number; what is neither these nor the target nor the
    owner is not looked at.
    """
    basis = parse(basis)
    table = read_table(path, text=() if owner is None else [owner])
    _check_roles(table.column_names, target, owner)
    columns, times = find_columns((name for name in table.column_names if name not in {target, owner}), prefix)
    encoder = CurveEncoder(columns, times, basis.text, smoothing)
    return Dataset(
        name=Path(path).stem,
        features=encoder.transform(table),
        targets=numbers(table, target),
        classes=None,
        feature_names=encoder.feature_names,
        owners=None if owner is None else np.array(texts(table, owner).to_pylist(), dtype=str),
        encoder=encoder,
        about=f"read from {Path(path).name}",
        basis=basis,
    )


def _check_roles(names: Collection[str], target: str, owner: str | None) -> None:
    for role, name in (("target", target), ("owner", owner)):
        if name is not None and name not in names:
            raise unknown(f"{role} column", name, names)
