"""The records of a simulation: loaded, held out and dealt over their owners."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpadmm._registry import build
from dpadmm.datasets import Column, Dataset, Encoder, StoredDataset, is_folder, open_folder, split
from dpadmm.datasets.registry import DATASETS, load
from dpadmm.datasets.splits import SPLITS
from dpadmm.errors import InputError
from dpadmm.privacy.randomness import generator
from dpadmm.problems.shards import Shards, gather
from dpadmm.spec.declare import DataSpec

AGENTS = 100  # where neither the spec nor the data says how many
ADULT_TEST = 5222  # the papers train on 40,000 records and test on the rest


def load_data(data: DataSpec, seed: int, level: float | None = None) -> Dataset | StoredDataset:
    """The records a spec names; those of a folder stay in their files. The level is a quantile's, if there is one."""
    if data.source not in DATASETS and is_folder(data.source):
        return _open_folder(data)
    columns: tuple[Column, ...] | None = None
    if data.columns:
        columns = Encoder.from_dict({"columns": list(data.columns)}).columns
    return load(
        data.source, target=data.target, owner=data.owner, columns=columns, scaling=data.scaling, task=data.task,
        seed=seed, directory=data.data_dir, curve=data.curve, basis=data.basis, smoothing=data.smoothing, level=level,
    )  # fmt: skip


def _open_folder(data: DataSpec) -> StoredDataset:
    """A folder's records, which say themselves what they are; a spec that says otherwise is refused."""
    told = "its dataset.json says target, columns and task, and its files who owns what"
    given = {"target": data.target, "owner": data.owner, "columns": data.columns or None, "curve": data.curve}
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
    share = data.test if data.test is not None else (ADULT_TEST if data.source == "adult" else 0.2)
    if share >= 1 and share != int(share):
        raise InputError(f"test {share:g}: a share below 1, or a whole number of records.")
    return split(dataset, int(share) if share >= 1 else share, seed)


def shard(train: Dataset, targets: np.ndarray, data: DataSpec, seed: int, **rows: Any) -> Shards:
    """The training records over their owners: by the owner column where there is one, else by the split asked for."""
    if train.owners is not None:
        return gather(train.features, targets, train.owners, **rows)
    agents = AGENTS if data.agents is None else data.agents
    if not 1 <= agents <= len(train):
        raise InputError(f"agents {agents}: must lie between 1 and the number of training records, {len(train)}.")
    owner = build("split", SPLITS, data.split)(train.targets, agents, generator(seed, "owners"))
    names = [f"agent {i}" for i in range(agents)]
    return gather(train.features, targets, owner, names=names, **rows)
