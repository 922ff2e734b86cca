"""Writes data folders, block by block: no more than a block is ever held."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dpadmm._files import write_json
from dpadmm.datasets.encoding import Column, Encoder, Numeric
from dpadmm.datasets.folder.parquet import ParquetBlocks, schema
from dpadmm.datasets.folder.reading import FACTS, TARGETS, FolderFacts, open_folder
from dpadmm.errors import InputError, unknown
from dpadmm.problems.array_files import Block

PRECISIONS = ("float64", "float32")  # of the numbers in the files

Owners = Iterable[tuple[str, Iterable[Block]]]
_ROWS_AT_ONCE = 65_536


def write_folder(
    path: str | Path,
    owners: Owners,
    *,
    task: str = "classification",
    classes: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    columns: Sequence[Column] | None = None,
    norm_bound: float | None = None,
    precision: str = "float64",
    test: Owners = (),
) -> None:
    """A folder of arrays that `open_folder` reads.

    dataset.json is written last, so a folder that was not finished is no data set.

    Args:
        path: The new folder.
        owners: For each owner its name and its records, as blocks of (features, targets). Targets are class numbers
            0..p-1
            where there are classes.
        task: `classification` or `regression`.
        classes: Names of the classes.
        features: Names of the columns.
        columns: How the features were made of raw records, for predictions.
        norm_bound: Public bound on the length of rows.
        precision: `float64` or `float32`.
        test: Held-out records, in the same form as `owners`.

    Raises:
        InputError: The folder is not empty, or names, blocks and classes do not go together.
    """
    path = Path(path)
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    facts = FolderFacts(
        task=task,
        classes=None if classes is None else tuple(classes),
        columns=None if columns is None else tuple(column.to_dict() for column in columns),
        features=None if features is None else tuple(features),
        norm_bound=norm_bound,
    )
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path} is not an empty folder; choose another.")
    try:
        path.mkdir(parents=True, exist_ok=True)
        _write_owners(path, owners, facts, precision)
        held_out = list(test)
        if held_out:
            (path / "test").mkdir()
            _write_owners(path / "test", held_out, facts, precision)
        write_json(path / FACTS, facts.to_dict())
    except OSError as error:
        raise InputError(f"cannot write to {path}: {error.strerror}.") from None


def convert(
    source: str | Path,
    path: str | Path,
    *,
    target: str | None = None,
    classes: Sequence[str] | None = None,
    columns: Sequence[Column] | None = None,
    task: str = "classification",
    norm_bound: float | None = None,
    precision: str = "float64",
) -> None:
    """A folder of arrays from a data folder (which says everything itself) or from one owner's Parquet file.

    Picking rows from Parquet decodes whole row groups; from arrays it reads the rows.
    """
    source = Path(source)
    if source.is_dir():
        if target is not None or classes is not None or columns is not None or norm_bound is not None:
            raise InputError(f"{source} is a folder, whose {FACTS} says target, classes, columns and norm bound.")
        given = open_folder(source)
        held_out = given.held_out
        write_folder(
            path,
            ((name, rows.walk(_ROWS_AT_ONCE)) for name, rows in zip(given.owners, given.sources, strict=True)),
            task=given.facts.task, classes=given.classes, features=given.feature_names,
            columns=None if given.encoder is None else given.encoder.columns, norm_bound=given.norm_bound,
            precision=precision,
            test=[] if held_out is None else [("test", [(np.asarray(held_out.features), held_out.targets)])],
        )  # fmt: skip
        return
    if target is None:
        raise InputError(f"which column of {source} is to be predicted? name it as the target.")
    facts = FolderFacts(task, None if classes is None else tuple(classes))
    encoder = Encoder(tuple(columns) if columns else tuple(Numeric(c) for c in schema(source) if c != target))
    records = ParquetBlocks.of(source, encoder, target, facts.classes)
    write_folder(
        path, [(source.stem, records.walk(_ROWS_AT_ONCE))],
        task=task, classes=classes, features=encoder.feature_names, columns=encoder.columns, norm_bound=norm_bound,
        precision=precision,
    )  # fmt: skip


def _write_owners(path: Path, owners: Owners, facts: FolderFacts, precision: str) -> None:
    written: set[str] = set()
    width = None if facts.features is None else len(facts.features)
    for name, blocks in owners:
        if not name or name in written or "/" in name or name.startswith(".") or name.endswith(TARGETS):
            raise InputError(f"owner {name!r}: names must differ and be fit for a file's name.")
        written.add(name)
        width = _write_owner(path, name, blocks, facts, precision, width)
    if not written:
        raise InputError(f"no owner to write to {path}.")


def _write_owner(
    path: Path, name: str, blocks: Iterable[Block], facts: FolderFacts, precision: str, width: int | None
) -> int:
    """Writes one owner's two files; returns how many features there are."""
    kind = np.dtype(np.float64) if facts.classes is None else np.min_scalar_type(len(facts.classes) - 1)
    count = 0
    with (path / f"{name}.npy").open("wb") as table, (path / f"{name}{TARGETS}.npy").open("wb") as column:
        for features, targets in blocks:
            where = f"owner {name!r}, block from row {count + 1}"
            features, targets = np.asarray(features), np.asarray(targets)
            if features.ndim != 2 or features.shape[1] != (width or features.shape[1]) or not features.size:
                raise InputError(f"{where}: features of shape {features.shape}; records by {width or 'n'} are needed.")
            if targets.shape != features.shape[:1]:
                raise InputError(f"{where}: {features.shape[0]} records, but targets of shape {targets.shape}.")
            _check(where, features, targets, facts, precision)
            if not count:
                width = features.shape[1]
                _header(table, (0, width), np.dtype(precision))
                _header(column, (0,), kind)
            table.write(np.ascontiguousarray(features, dtype=precision).data)
            column.write(np.ascontiguousarray(targets, dtype=kind).data)
            count += len(targets)
        if not count or width is None:
            raise InputError(f"owner {name!r} has no records.")
        _header(table, (count, width), np.dtype(precision))
        _header(column, (count,), kind)
    return width


def _check(where: str, features: NDArray[Any], targets: NDArray[Any], facts: FolderFacts, precision: str) -> None:
    bad = ~(np.abs(features) <= np.finfo(precision).max).all(axis=1)
    if bad.any():
        raise InputError(f"{where}: record {int(np.argmax(bad)) + 1} has a number that is not finite in {precision}.")
    wrong = ~np.isfinite(targets) if facts.classes is None else ~np.isin(targets, np.arange(len(facts.classes)))
    if wrong.any():
        at = int(np.argmax(wrong))
        needed = "a finite number" if facts.classes is None else f"a class number, 0 to {len(facts.classes) - 1}"
        raise InputError(f"{where}: the target of record {at + 1} is {targets[at]}; {needed} is needed.")


def _header(file: BinaryIO, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Writes a .npy header at the file's beginning; NumPy leaves room in it for the first axis to grow."""
    file.seek(0)
    npy.write_array_header_1_0(file, {"descr": dtype.str, "fortran_order": False, "shape": shape})
