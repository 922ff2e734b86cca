"""Readers for what does not ship: CSV and Parquet files of named columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpadmm.datasets.dataset import Dataset
from dpadmm.datasets.encoding import Column, Encoder, Numeric, class_numbers
from dpadmm.datasets.tables import numbers, texts
from dpadmm.errors import InputError, unknown

if TYPE_CHECKING:
    import pyarrow

SUFFIXES = (".csv", ".parquet")
TASKS = ("classification", "regression")


def read_table(path: str | Path, text: Collection[str] = ()) -> pyarrow.Table:
    """The file as a table of one record or more; columns in `text` are kept as written ("01" stays "01")."""
    import pyarrow as pa
    from pyarrow import csv, parquet

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
            table = csv.read_csv(path, convert_options=written)
        else:
            table = parquet.ParquetFile(path).read()
        names = table.column_names
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"{path} has more than one column named {repeated!r}.")
    if table.num_rows == 0:
        raise InputError(f"{path} is empty: it has columns but no records.")
    return table


def load_file(
    path: str | Path,
    target: str,
    owner: str | None = None,
    columns: Sequence[Column] | None = None,
    task: str = "classification",
) -> Dataset:
    """The records of a file.

    Without `columns` every column but the target and the owner is a number and is left unscaled. The classes are
    the labels that occur: that a label occurs is taken to be public.
    """
    if task not in TASKS:
        raise unknown("task", task, TASKS)
    reserved = {target, owner}
    declared = () if columns is None else tuple(columns)
    taken = next((column.name for column in declared if column.name in reserved), None)
    if taken is not None:
        raise InputError(f"column {taken!r} is the target or the owner; it cannot be a feature too.")
    written = [column.name for column in declared if not isinstance(column, Numeric)]
    table = read_table(path, text=written if owner is None else [*written, owner])
    for role, name in (("target", target), ("owner", owner)):
        if name is not None and name not in table.column_names:
            raise unknown(f"{role} column", name, table.column_names)

    if columns is None:
        declared = tuple(Numeric(name) for name in table.column_names if name not in reserved)
    encoder = Encoder(declared)
    classes, targets = _labels(table, target) if task == "classification" else (None, numbers(table, target))
    return Dataset(
        name=Path(path).stem,
        features=encoder.transform(table),
        targets=targets,
        classes=classes,
        feature_names=encoder.feature_names,
        owners=None if owner is None else np.array(texts(table, owner).to_pylist(), dtype=str),
        encoder=encoder,
        about=f"read from {Path(path).name}",
    )


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
