"""The records of a simulation: loaded, held out and dealt over their owners, by the data or by a split (`SPLITS`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import IntArray
from dpadmm._registry import build
from dpadmm.datasets import Column, Dataset, Encoder, StoredDataset, is_folder, open_folder, split
from dpadmm.datasets.dataset import scaled
from dpadmm.datasets.files import from_table
from dpadmm.datasets.registry import DATASETS, load
from dpadmm.errors import InputError
from dpadmm.privacy.randomness import generator
from dpadmm.problems.losses import Loss
from dpadmm.problems.shards import Shards, gather, refuse_empty
from dpadmm.spec.declare import DataSpec, RunSpec

Assignment = NDArray[np.int64]


def at_random(targets: NDArray[Any], agents: int, rng: np.random.Generator) -> Assignment:
    """Equal shares (to one record) of a random order."""
    owner = np.empty(targets.size, dtype=np.int64)
    owner[rng.permutation(targets.size)] = np.arange(targets.size) * agents // targets.size
    return owner


def by_label(targets: NDArray[Any], agents: int, rng: np.random.Generator) -> Assignment:
    """Equal shares of the records sorted by label: most agents see one label only."""
    shuffled = rng.permutation(targets.size)
    order = shuffled[np.argsort(targets[shuffled], kind="stable")]
    owner = np.empty(targets.size, dtype=np.int64)
    owner[order] = np.arange(targets.size) * agents // targets.size
    return owner


def dirichlet(concentration: float = 0.5) -> Callable[[NDArray[Any], int, np.random.Generator], Assignment]:
    """Ragged, label-skewed shares: each label is dealt out by its own Dirichlet draw (small is skewed)."""
    if not 0 < concentration < np.inf:
        raise InputError(f"dirichlet concentration {concentration!r}: must be a positive number.")

    def deal(targets: NDArray[Any], agents: int, rng: np.random.Generator) -> Assignment:
        owner = np.empty(targets.size, dtype=np.int64)
        for label in np.unique(targets):
            rows = rng.permutation(np.flatnonzero(targets == label))
            edges = np.cumsum(rng.dirichlet(np.full(agents, concentration)))[:-1]
            owner[rows] = np.searchsorted(np.round(edges * rows.size), np.arange(rows.size), side="right")
        # An agent that drew nothing takes one record from the agent that has most, so that every owner takes part.
        counts = np.bincount(owner, minlength=agents)
        for agent in np.flatnonzero(counts == 0):
            richest = int(np.argmax(counts))
            owner[np.flatnonzero(owner == richest)[-1]] = agent
            counts[richest] -= 1
            counts[agent] += 1
        return owner

    return deal


SPLITS: dict[str, Any] = {"random": lambda: at_random, "by-label": lambda: by_label, "dirichlet": dirichlet}


AGENTS = 100  # where neither the spec nor the data says how many
TEST = 0.2  # likewise, of the records
ADULT_TEST = 5222  # the papers train on 40,000 records and test on the rest


def load_data(data: DataSpec, seed: int, level: float | None = None) -> Dataset | StoredDataset:
    """The records a spec names; those of a folder stay in their files. The level is a quantile's, if there is one."""
    if data.source not in DATASETS and is_folder(data.source):
        return _open_folder(data)
    return load(
        data.source, target=data.target, owner=data.owner, columns=_columns(data), scaling=data.scaling, task=data.task,
        seed=seed, directory=data.data_dir, curve=data.curve, basis=data.basis, smoothing=data.smoothing, level=level,
        classes=_classes(data),
    )  # fmt: skip


def load_table(table: Any, data: DataSpec) -> Dataset:
    """The records of a table in memory, by the columns that a spec names; a `Dataset` is taken as it is."""
    if isinstance(table, Dataset):
        return table
    if data.target is None:
        raise InputError("which column of the table is to be predicted? name it as the target.")
    if data.curve is not None or data.basis is not None or data.smoothing is not None:
        raise InputError("curves are read from files; write the table to a .parquet file and give its path as data.")
    records = from_table(table, data.target, data.owner, _columns(data), data.task, _classes(data))
    return scaled(records, data.scaling)


def _columns(data: DataSpec) -> tuple[Column, ...] | None:
    return Encoder.from_dict({"columns": list(data.columns)}).columns if data.columns else None


def _classes(data: DataSpec) -> list[str] | None:
    return None if data.classes is None else [label.strip() for label in data.classes.split(",")]


def _open_folder(data: DataSpec) -> StoredDataset:
    """A folder's records, which say themselves what they are; a spec that says otherwise is refused."""
    told = "its dataset.json says target, columns and task, and its files who owns what"
    given = {"target": data.target, "owner": data.owner, "columns": data.columns or None, "curve": data.curve}
    given["classes"] = data.classes
    for name, value in (given | {"basis": data.basis, "smoothing": data.smoothing}).items():
        if value is not None:
            raise InputError(f"{name} {value!r}: {data.source!r} is a folder; {told}.")
    if data.test is not None:
        raise InputError(
            f"test {data.test:g}: the records of the folder {data.source!r} stay where they are; put held-out ones "
            f"into its sub-folder 'test'."
        )
    if data.scaling != "public":
        raise InputError(f"scaling {data.scaling!r}: the folder {data.source!r} is used as it is; only 'public' goes.")
    found = open_folder(data.source)
    if data.task == "regression" and found.classes is not None:
        raise InputError(f"the folder {data.source!r} has classes; it is not for a regression.")
    return found


def hold_out(dataset: Dataset, data: DataSpec, seed: int) -> tuple[Dataset, Dataset | None]:
    """(train, test): by the share asked for, else by the data set's own test records, else by the usual share."""
    if data.test is None and dataset.held_out is not None:
        return dataset, dataset.held_out
    share = data.test if data.test is not None else (ADULT_TEST if data.source == "adult" else TEST)
    if share >= 1 and share != int(share):
        raise InputError(f"test {share:g}: a share below 1, or a whole number of records.")
    return split(dataset, int(share) if share >= 1 else share, seed)


@dataclass(frozen=True, eq=False)
class Dealt:
    """Records with their owners, not yet in the form that kernels read."""

    records: Dataset | StoredDataset  # to train on
    owner: np.ndarray | None  # the agent number of each; None where records lie in files by owner
    names: tuple[str, ...]
    counts: IntArray
    held_out: Dataset | None
    lost: frozenset[str] = frozenset()  # owners of whom no record is left to train on

    @property
    def plain(self) -> bool:
        """Whether rows are dense and in memory, and no curves: then they can be standardised."""
        return (
            isinstance(self.records, Dataset)
            and isinstance(self.records.features, np.ndarray)
            and self.records.basis is None
        )

    def shards(self, run: RunSpec, loss: Loss, classes: int) -> tuple[Shards, Shards | None]:
        """The records to train on and those held out, as a run wants its rows and its loss its targets."""
        rows: dict[str, Any] = {"norm_bound": run.clip, "intercept": bool(run.intercept)}
        found: Shards
        if isinstance(self.records, StoredDataset):
            found = self.records.shards(partial(loss.encode, classes=classes), **rows)
        else:
            targets = loss.encode(self.records.targets, classes=classes)
            assert self.owner is not None
            usable = self.records.usable
            found = gather(self.records.features, targets, self.owner, names=self.names, usable=usable, **rows)
        if self.held_out is None:
            return found, None
        test = self.held_out if self.held_out.usable is None else self.held_out.take(self.held_out.usable)
        return found, gather(test.features, test.targets, np.zeros(len(test), dtype=np.int64), names=["test"], **rows)


def deal(records: Dataset | StoredDataset, data: DataSpec, seed: int) -> Dealt:
    """Holds records out and gives the rest to owners: by the owner column where there is one, else by the split."""
    if isinstance(records, StoredDataset):
        counts = np.array([source.count for source in records.sources], dtype=np.int64)
        return Dealt(records, None, tuple(records.owners), counts, records.held_out)
    train, held_out = hold_out(records, data, seed)
    if train.owners is not None and records.owners is not None:
        found, owner = np.unique(np.asarray(train.owners), return_inverse=True)
        names, lost = tuple(map(str, found)), frozenset(map(str, records.owners))
        return Dealt(train, owner, names, np.bincount(owner), held_out, lost - frozenset(names))
    agents = AGENTS if data.agents is None else data.agents
    if not 1 <= agents <= len(train):
        raise InputError(f"agents {agents}: must lie between 1 and the number of training records, {len(train)}.")
    owner = build("split", SPLITS, data.split)(train.targets, agents, generator(seed, "owners"))
    names, counts = tuple(f"agent {i}" for i in range(agents)), np.bincount(owner, minlength=agents)
    refuse_empty(counts, names)
    return Dealt(train, owner, names, counts, held_out)
