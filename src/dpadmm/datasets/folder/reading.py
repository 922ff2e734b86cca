"""A folder of records that stay in their files: one owner per file, and the public facts in dataset.json.

    NAME.npy, NAME.targets.npy    features (float32 or float64) and targets of the owner NAME; or
    NAME.parquet                  its records as named columns
    dataset.json                  task, classes, norm_bound; Parquet: target, columns; arrays: names of the features, or
                                  the columns they were made of
    test/                         optional: held-out records in files of the same kind, read into memory

Nothing public is taken from the data: classes are declared, and a target that is none of them is an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm._fields import table_values
from dpadmm._files import parse_json, read_text
from dpadmm.datasets.dataset import Dataset
from dpadmm.datasets.encoding import Encoder, Numeric
from dpadmm.datasets.files import TASKS
from dpadmm.datasets.folder.parquet import ParquetBlocks, schema
from dpadmm.errors import InputError, unknown
from dpadmm.problems.array_files import ArrayBlocks, Blocks
from dpadmm.problems.shards import Admit
from dpadmm.problems.stored_shards import Encode, StoredShards, gather_blocks

FACTS = "dataset.json"
TARGETS = ".targets"  # of NAME.targets.npy
_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True)
class FolderFacts:
    """What is public about the records of a folder, as dataset.json says it."""

    task: str = "classification"
    classes: tuple[str, ...] | None = None
    target: str | None = None
    columns: tuple[Mapping[str, Any], ...] | None = None
    features: tuple[str, ...] | None = None
    norm_bound: float | None = None

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise unknown("task", self.task, TASKS)
        if self.task == "regression" and self.classes is not None:
            raise InputError("a regression has no classes; leave them out, or set the task to classification.")
        if self.task == "classification" and (not self.classes or len(set(self.classes)) < max(2, len(self.classes))):
            raise InputError(f"classes {self.classes!r}: a list of two or more is needed, without repeats.")
        bound = self.norm_bound
        if bound is not None and not (math.isfinite(bound) and bound > 0):
            raise InputError(f"norm_bound {bound!r}: must be a positive number.")

    @classmethod
    def read(cls, path: Path) -> FolderFacts:
        if not path.is_file():
            raise InputError(
                f"{path.parent} has no readable {path.name}; it must say the task and the classes, such as "
                f'{{"task": "classification", "classes": ["no", "yes"]}}.'
            )
        entries = parse_json(read_text(path, "facts", "JSON"), str(path))
        values = table_values(cls, entries, str(path))
        try:
            return cls(**values)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """As dataset.json holds it."""
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass(frozen=True, eq=False)
class StoredDataset:
    """Records in files, one reader per owner, with what a `Dataset` says of records in memory."""

    name: str
    facts: FolderFacts
    owners: tuple[str, ...]
    sources: tuple[Blocks, ...] = field(repr=False)
    feature_names: tuple[str, ...]
    encoder: Encoder | None = None
    held_out: Dataset | None = None
    about: str = ""
    public_preprocessing: bool = True
    classes_found: bool = False

    @property
    def classes(self) -> tuple[str, ...] | None:
        return self.facts.classes

    @property
    def norm_bound(self) -> float | None:
        return self.facts.norm_bound

    @property
    def basis(self) -> None:
        """Records in files are features already, whatever they were made of."""

    @property
    def truth(self) -> None:
        """Nor is it known what they were simulated with."""

    def shards(
        self, encode: Encode, *, norm_bound: float, intercept: bool = False, admit: Admit | None = None
    ) -> StoredShards:
        """One agent per owner; every record is read once and checked. A real owner gives `admit`, as `gather_blocks`
        takes it: then a record that cannot be used counts as zero, and is no error."""
        rows: dict[str, Any] = {"norm_bound": norm_bound, "intercept": intercept, "names": self.owners}
        return gather_blocks(self.sources, encode, **rows, admit=admit)


def is_folder(source: str | Path) -> bool:
    """Whether records of this source stay in its files."""
    return Path(source).is_dir()


def open_folder(path: str | Path) -> StoredDataset:
    """The data set in a folder; of the records only the held-out ones are read.

    Args:
        path: A folder that `write_folder` has written, or one of the same form.

    Returns:
        The data set, whose records stay in their files.

    Raises:
        InputError: The folder is no data set, or its files do not go together.
    """
    path = Path(path)
    facts = FolderFacts.read(path / FACTS)
    files = _owners(path)
    names, encoder = _features(path, facts, files)
    sources = tuple(_source(own, facts, encoder, len(names)) for own in files.values())
    return StoredDataset(
        name=path.resolve().name,
        facts=facts,
        owners=tuple(files),
        sources=sources,
        feature_names=names,
        encoder=encoder,
        held_out=_held_out(path, facts, encoder, names),
        about=f"read from the folder {path.name}",
    )


def _owners(path: Path) -> dict[str, Path]:
    """The files of features by owner, in the order of their names."""
    arrays = {file.stem: file for file in path.glob("*.npy") if not file.stem.endswith(TARGETS)}
    tables = {file.stem: file for file in path.glob("*.parquet")}
    if arrays and tables:
        raise InputError(f"{path} holds both .npy and .parquet files; all owners' must be of one kind.")
    for file in path.glob(f"*{TARGETS}.npy"):
        if file.stem.removesuffix(TARGETS) not in arrays:
            raise InputError(f"{file} has targets, but there is no {file.stem.removesuffix(TARGETS)}.npy beside it.")
    if not arrays and not tables:
        raise InputError(f"{path} holds no records: NAME.npy with NAME{TARGETS}.npy, or NAME.parquet, one per owner.")
    return dict(sorted((arrays or tables).items()))


def _features(path: Path, facts: FolderFacts, files: Mapping[str, Path]) -> tuple[tuple[str, ...], Encoder | None]:
    """Names of the features, and how to make them where the files have columns."""
    some = next(iter(files.values()))
    if some.suffix == ".npy":
        if facts.target is not None:
            raise InputError(f"{path / FACTS}: target is for Parquet files; arrays have theirs in NAME{TARGETS}.npy.")
        made_by = None if facts.columns is None else Encoder.from_dict({"columns": facts.columns})
        if made_by is not None and facts.features not in (None, made_by.feature_names):
            raise InputError(f"{path / FACTS}: features are not those that columns make; leave one of them out.")
        if made_by is not None or facts.features is not None:
            return made_by.feature_names if made_by is not None else facts.features or (), made_by
        width = ArrayBlocks.of(some, _targets_of(some), _class_count(facts)).width
        return tuple(f"x{column}" for column in range(width)), None
    if facts.features is not None:
        raise InputError(f"{path / FACTS}: features names those of arrays; for Parquet files declare columns.")
    if facts.target is None:
        raise InputError(f"{path / FACTS}: which column is to be predicted? name it as the target.")
    if facts.columns is not None:
        encoder = Encoder.from_dict({"columns": facts.columns})
    else:
        encoder = Encoder(tuple(Numeric(name) for name in schema(some) if name != facts.target))
    if any(column.name == facts.target for column in encoder.columns):
        raise InputError(f"{path / FACTS}: column {facts.target!r} is the target; it cannot be a feature too.")
    return encoder.feature_names, encoder


def _source(file: Path, facts: FolderFacts, encoder: Encoder | None, width: int) -> Blocks:
    if file.suffix == ".parquet":
        assert encoder is not None
        assert facts.target is not None
        return ParquetBlocks.of(file, encoder, facts.target, facts.classes)
    source = ArrayBlocks.of(file, _targets_of(file), _class_count(facts))
    if source.width != width:
        raise InputError(f"{file} has {source.width} columns; {width} features are declared or in the first file.")
    return source


def _targets_of(file: Path) -> Path:
    targets = file.with_name(f"{file.stem}{TARGETS}.npy")
    if not targets.is_file():
        raise InputError(f"{file} has no targets: there is no {targets.name} beside it.")
    return targets


def _class_count(facts: FolderFacts) -> int | None:
    return None if facts.classes is None else len(facts.classes)


def _held_out(path: Path, facts: FolderFacts, encoder: Encoder | None, names: Sequence[str]) -> Dataset | None:
    folder = path / "test"
    if not folder.is_dir():
        return None
    if (folder / FACTS).exists() and FolderFacts.read(folder / FACTS) != facts:
        raise InputError(f"{folder / FACTS} differs from that of the folder above; test records are of the same kind.")
    files = _owners(folder)
    if (facts.target is None) != (next(iter(files.values())).suffix == ".npy"):
        raise InputError(f"{folder} must hold files of the same kind as {path}.")
    blocks = [
        (features.copy(), targets.copy())
        for file in files.values()
        for features, targets in _source(file, facts, encoder, len(names)).walk(_ROWS_AT_ONCE)
    ]
    features, targets = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return Dataset(str(folder), features, targets, facts.classes, tuple(names), encoder=encoder)
