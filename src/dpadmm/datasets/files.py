"""Readers for what does not ship: CSV and Parquet files of named columns."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpadmm._tables import csv_file, parquet_file, repeated
from dpadmm.datasets.cells import class_cells, class_numbers, numbers, texts
from dpadmm.datasets.dataset import Dataset
from dpadmm.datasets.encoding import Column, Encoder, Numeric
from dpadmm.datasets.lines import read_lines
from dpadmm.errors import InputError, unknown

if TYPE_CHECKING:
    import pyarrow

SUFFIXES = (".csv", ".parquet")
TASKS = ("classification", "regression")


def read_table(path: str | Path, text: Collection[str] = ()) -> pyarrow.Table:
    """The file as a table of one record or more; columns in `text` are kept as written ("01" stays "01")."""
    import pyarrow as pa
    from pyarrow import csv

    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"cannot read {path}: its name must end in {' or '.join(SUFFIXES)}.")
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty.")
    try:
        if suffix == ".csv":
            written = csv.ConvertOptions(column_types=dict.fromkeys(text, pa.string()))
            table = csv_file(path, convert_options=written)
        else:
            table = parquet_file(path)
        return _checked(table, str(path))
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:  # as damaged files are
        raise InputError(f"cannot read {path}: {error}") from None


def read_cells(path: str | Path) -> pyarrow.Table:
    """The file as a table of one record or more, every cell of a CSV file as its bytes: no line decides how another one
    is read (`lines.read_lines`). Parquet has its own types."""
    path = Path(path)
    if path.suffix.lower() != ".csv":
        return read_table(path)
    try:
        return _checked(read_lines(path), str(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from None


def load_file(
    path: str | Path,
    target: str,
    owner: str | None = None,
    columns: Sequence[Column] | None = None,
    task: str = "classification",
    classes: Sequence[str] | None = None,
) -> Dataset:
    """The records of a file; see `from_table`."""
    declared = _declared(target, owner, columns, task)
    written = [column.name for column in declared if not isinstance(column, Numeric)]
    as_written = [*written, *([] if owner is None else [owner]), *([] if classes is None else [target])]
    table = read_table(path, text=as_written)
    path = Path(path)
    return from_table(table, target, owner, columns, task, classes, name=path.stem, about=f"read from {path.name}")


def from_table(
    table: Any,
    target: str,
    owner: str | None = None,
    columns: Sequence[Column] | None = None,
    task: str = "classification",
    classes: Sequence[str] | None = None,
    *,
    name: str = "the records",
    about: str = "a table in memory",
) -> Dataset:
    """The records of a table: a pandas or Polars data frame, or a pyarrow table.

    Without `columns` every column but the target and the owner is a number and is left unscaled. A record whose label
    is none of the `classes` contributes zero. Without them the classes are the labels that occur, and whether one does
    depends on single records: `Dataset.classes_found` says so.
    """
    declared, table = _declared(target, owner, columns, task), _arrow(table)
    for role, column in (("target", target), ("owner", owner)):
        if column is not None and column not in table.column_names:
            raise unknown(f"{role} column", column, table.column_names)

    if columns is None:
        declared = tuple(Numeric(column) for column in table.column_names if column not in (target, owner))
    encoder = Encoder(declared)
    known, targets, usable = _targets(table, target, task, classes)
    return Dataset(
        name=name,
        features=encoder.transform(table),
        targets=targets,
        classes=known,
        classes_found=task == "classification" and classes is None,
        usable=usable,
        feature_names=encoder.feature_names,
        owners=None if owner is None else np.array(texts(table, owner).to_pylist(), dtype=str),
        encoder=encoder,
        about=about,
    )


def _declared(target: str, owner: str | None, columns: Sequence[Column] | None, task: str) -> tuple[Column, ...]:
    """The columns that were declared, none of which is the target or the owner."""
    if task not in TASKS:
        raise unknown("task", task, TASKS)
    declared = () if columns is None else tuple(columns)
    taken = next((column.name for column in declared if column.name in (target, owner)), None)
    if taken is not None:
        raise InputError(f"column {taken!r} is the target or the owner; it cannot be a feature too.")
    return declared


def _arrow(table: Any) -> pyarrow.Table:
    """Any data frame as a pyarrow table, without a pandas index."""
    import pyarrow as pa

    frame = getattr(sys.modules.get("pandas"), "DataFrame", ())  # who has one has imported pandas
    try:
        if isinstance(table, frame):
            table = pa.Table.from_pandas(table, preserve_index=False)
        elif hasattr(table, "to_arrow"):
            table = table.to_arrow()
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"the table cannot be read: {error}") from None
    if not isinstance(table, pa.Table):
        raise InputError(
            f"data of type {type(table).__name__}: give a name, a path, or a pandas, Polars or pyarrow table."
        )
    return _checked(table, "the table")


def _checked(table: pyarrow.Table, what: str) -> pyarrow.Table:
    """A table of one record or more, whose columns have names of their own."""
    twice = repeated(table.column_names)
    if twice is not None:
        raise InputError(f"{what} has more than one column named {twice!r}.")
    if table.num_rows == 0:
        raise InputError(f"{what} is empty: it has columns but no records.")
    return table


def _targets(
    table: pyarrow.Table, target: str, task: str, classes: Sequence[str] | None
) -> tuple[tuple[str, ...] | None, np.ndarray, np.ndarray | None]:
    """The classes, the targets, and which of them count; None: all."""
    if task == "regression":
        if classes is not None:
            raise InputError("classes are the labels of a classification; a regression has none. Leave them out.")
        return None, numbers(table, target), None
    if classes is None:
        return *_labels(table, target), None
    names = tuple(classes)
    if len(names) < 2 or len(set(names)) < len(names) or "" in names:
        raise InputError(f"classes {', '.join(map(repr, names))}: name two or more, each once.")
    index = class_cells(table, target, names)
    return names, np.maximum(index, 0), index >= 0


def _labels(table: pyarrow.Table, target: str) -> tuple[tuple[str, ...], np.ndarray]:
    import pyarrow.compute as pc

    labels = pc.unique(texts(table, target)).to_pylist()
    if len(labels) < 2:
        raise InputError(f"the target column {target!r} holds the one class {labels[0]!r}; two or more are needed.")
    try:
        labels.sort(key=float)
    except ValueError:
        labels.sort()
    return tuple(labels), class_numbers(table, target, labels)
