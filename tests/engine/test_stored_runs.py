"""Whole runs over a data folder: every number is that of the same records in memory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpadmm.datasets import Dataset, convert, simulate, write_folder
from dpadmm.datasets.registry import DATASETS, NamedDataset
from dpadmm.engine.output.model import Model
from dpadmm.engine.prepare import prepare
from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.problems import shards as shards_module
from dpadmm.problems.stored_shards import StoredShards

SIZES = {"bern": 2100, "oslo": 37, "rome": 700}


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """records(kind): the data set "owned" in memory, with owners and test records; the folder of the same ones."""
    monkeypatch.setattr(shards_module, "BLOCK_BYTES", 1)

    def make(kind: str = "classification") -> Path:
        given, held_out = simulate(kind, sum(SIZES.values()), 4, seed=1), simulate(kind, 90, 4, seed=2)
        owners = np.repeat(list(SIZES), list(SIZES.values()))
        order = np.random.default_rng(0).permutation(owners.size)  # the folder has each owner's records in this order
        owned = Dataset(
            "owned", given.features[order] * 1.5, given.targets[order], given.classes, given.feature_names,
            owners=owners[order], held_out=held_out,
        )  # fmt: skip
        monkeypatch.setitem(DATASETS, "owned", NamedDataset(lambda seed=0: owned, "for tests"))
        parts = [
            (name, [(owned.features[owned.owners == name], owned.targets[owned.owners == name])]) for name in SIZES
        ]
        write_folder(
            tmp_path / "folder", parts, classes=given.classes,
            task="regression" if given.classes is None else "classification",
            test=[("all", [(held_out.features, held_out.targets)])],
        )  # fmt: skip
        return tmp_path / "folder"

    return make


@pytest.mark.parametrize(
    ("algorithm", "kind", "changes"),
    [
        ("dp-admm", "classification", {"repeats": 3}),
        ("dp-admm", "classification", {"intercept": True, "evaluation_epsilon": 0.5}),
        ("obj-g", "multiclass", {"loss": "softmax", "set": "box:0.5", "rounds": 4}),
        ("ps-admm", "classification", {"relation": "zero-out", "rounds": 2, "repeats": 2}),
        ("admm", "classification", {"rounds": 4, "loss": "smoothed-hinge"}),
        ("admm", "regression", {"rounds": 4, "loss": "squared"}),
    ],
)
def test_a_run_over_files_is_the_run_over_memory(
    records: Any, experiment: Any, same: Any, algorithm: str, kind: str, changes: dict[str, Any]
) -> None:
    folder = records(kind)
    given = replace_test(experiment(algorithm, source="owned", **changes))
    one, other = train(given), train(given.changed(source=str(folder)))
    same(one, other)
    assert one.clipped == other.clipped > 0
    assert one.estimated_error == other.estimated_error
    assert other.test_error is not None
    assert other.guarantee == one.guarantee
    assert isinstance(prepare(given.changed(source=str(folder))).shards, StoredShards)


def replace_test(given: Any) -> Any:
    """The fixture's experiments hold out a share; here the data have test records of their own."""
    return replace(given, data=replace(given.data, test=None))


def test_a_parquet_folder_and_its_conversion_train_alike(tmp_path: Path, same: Any, experiment: Any) -> None:
    draw = np.random.default_rng(0)
    (tmp_path / "old").mkdir()
    facts = {"classes": ["no", "yes"], "target": "y", "columns": [{"name": "a", "low": -1, "high": 1}, {"name": "b"}]}
    (tmp_path / "old" / "dataset.json").write_text(json.dumps(facts))
    for name in ("x", "z"):
        table = pa.table({"a": draw.normal(size=700), "b": draw.normal(size=700), "y": draw.choice(["no", "yes"], 700)})
        parquet.write_table(table, tmp_path / "old" / f"{name}.parquet", row_group_size=100)
    convert(tmp_path / "old", tmp_path / "new")
    given = replace_test(experiment("dp-admm", source=str(tmp_path / "old")))
    one = train(given, out=tmp_path / "run")
    same(one, train(given.changed(source=str(tmp_path / "new"))))
    assert one.test_error is None  # there is no sub-folder of test records
    (tmp_path / "raw.csv").write_text("a,b\n0.5,0.1\n-7,0.2\n")
    labels, _ = Model.load(tmp_path / "run").predict(tmp_path / "raw.csv")  # encoded as the records were
    assert set(labels) <= {"no", "yes"}


def test_the_folders_norm_bound_is_used_where_none_is_asked_for(records: Any, experiment: Any, tmp_path: Path) -> None:
    write_folder(tmp_path / "n", [("a", [(np.ones((20, 4)), np.arange(20) % 2)])], classes=["0", "1"], norm_bound=3.0)
    given = replace_test(experiment("dp-admm", source=str(tmp_path / "n")))
    assert prepare(given).experiment.run.norm_bound == 3.0
    assert prepare(given.changed(norm_bound=0.5)).shards.clipped == 20


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": 0.2}, "test 0.2: the records of the folder .* stay where they are; .* sub-folder 'test'"),
        ({"target": "y"}, "target 'y': .* is a folder"),
        ({"owner": "who"}, "owner 'who': .* is a folder"),
        ({"columns": [{"name": "a"}]}, "columns .* is a folder"),
        ({"scaling": "max"}, "scaling 'max': the folder"),
        ({"task": "regression"}, "has classes; it is not for a regression"),
        ({"loss": "squared"}, "loss 'squared' is for regression targets; 'folder' has classes"),
    ],
)
def test_a_spec_that_contradicts_its_folder_is_refused(
    records: Any, experiment: Any, changes: dict[str, Any], message: str
) -> None:
    given = replace_test(experiment("dp-admm", source=str(records())))
    with pytest.raises(InputError, match=message):
        prepare(given.changed(**changes))


def test_a_folder_without_a_description_is_refused(experiment: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no readable dataset\.json"):
        prepare(replace_test(experiment("dp-admm", source=str(tmp_path))))
