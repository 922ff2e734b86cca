"""Data folders are written block by block, and read back as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpadmm.datasets import Category, Numeric, convert, open_folder, write_folder
from dpadmm.errors import InputError


def blocks(*sizes: int, width: int = 3, classes: int = 2) -> list[tuple[Any, Any]]:
    draw = np.random.default_rng(sum(sizes))
    return [(draw.normal(size=(size, width)), draw.integers(0, classes, size)) for size in sizes]


def whole(source: Any) -> tuple[Any, Any]:
    parts = [(features.copy(), targets) for features, targets in source.walk(4)]
    return np.concatenate([f for f, _ in parts]), np.concatenate([t for _, t in parts])


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_what_is_written_is_read_back(tmp_path: Path, precision: str) -> None:
    owners = {"bern": blocks(5, 1, 700), "aarau": blocks(2)}
    write_folder(
        tmp_path / "new", owners.items(), classes=["no", "yes"], features=["a", "b", "c"], norm_bound=2.0,
        precision=precision, test=[("t", blocks(4))],
    )  # fmt: skip
    found = open_folder(tmp_path / "new")
    assert found.owners == ("aarau", "bern")
    assert found.feature_names == ("a", "b", "c")
    assert found.norm_bound == 2.0
    for name, source in zip(found.owners, found.sources, strict=True):
        features, targets = whole(source)
        np.testing.assert_array_equal(features, np.concatenate([f for f, _ in owners[name]]).astype(precision))
        np.testing.assert_array_equal(targets, np.concatenate([t for _, t in owners[name]]))
        assert np.load(tmp_path / "new" / f"{name}.npy").dtype == precision  # plain NumPy reads it too
    assert np.load(tmp_path / "new" / "bern.targets.npy").dtype == np.uint8
    assert found.held_out is not None
    assert len(found.held_out) == 4


def test_a_regression_is_written_with_its_values(tmp_path: Path) -> None:
    write_folder(tmp_path / "new", [("a", [(np.ones((2, 1)), np.array([0.25, -1e9]))])], task="regression")
    found = open_folder(tmp_path / "new")
    assert found.classes is None
    assert whole(found.sources[0])[1].tolist() == [0.25, -1e9]


def test_many_blocks_are_never_held_together(tmp_path: Path) -> None:
    space = np.empty((10, 2))

    def lent() -> Any:
        for number in range(50):
            space[...] = number
            yield space, np.full(10, number % 2)

    write_folder(tmp_path / "new", [("a", lent())], classes=["0", "1"])
    np.testing.assert_array_equal(
        whole(open_folder(tmp_path / "new").sources[0])[0][:, 0], np.repeat(np.arange(50), 10)
    )


@pytest.mark.parametrize(
    ("owners", "terms", "message"),
    [
        ([], {}, "no owner to write"),
        ([("a", [])], {}, "owner 'a' has no records"),
        ([("a", blocks(1)), ("a", blocks(1))], {}, "owner 'a': names must differ"),
        ([("../a", blocks(1))], {}, "fit for a file's name"),
        ([("a.targets", blocks(1))], {}, "fit for a file's name"),
        ([("a", blocks(1)), ("b", blocks(1, width=4))], {}, r"owner 'b', block from row 1: features of shape \(1, 4\)"),
        (
            [("a", [*blocks(2), (np.ones((2, 3)), np.zeros(1))])],
            {},
            "owner 'a', block from row 3: 2 records, but targets",
        ),
        ([("a", [(np.array([[1.0], [np.nan]]), np.zeros(2))])], {}, "record 2 has a number that is not finite"),
        ([("a", [(np.full((1, 1), 1e39), np.zeros(1))])], {"precision": "float32"}, "not finite in float32"),
        ([("a", [(np.ones((2, 1)), np.array([1, 2]))])], {}, "the target of record 2 is 2; a class number, 0 to 1"),
        ([("a", [(np.ones((2, 1)), np.array([1, 0.5]))])], {}, "the target of record 2 is 0.5"),
        ([("a", blocks(1))], {"classes": None}, "a list of two or more"),
        ([("a", blocks(1))], {"precision": "float16"}, "unknown precision"),
        ([("a", blocks(1))], {"features": ["one"]}, "records by 1 are needed"),
    ],
)
def test_what_makes_no_sense_is_not_written(tmp_path: Path, owners: Any, terms: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        write_folder(tmp_path / "new", owners, **({"classes": ["no", "yes"]} | terms))
    assert not (tmp_path / "new" / "dataset.json").exists()


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("mine")
    for path in (tmp_path, tmp_path / "note"):
        with pytest.raises(InputError, match="is not an empty folder"):
            write_folder(path, [("a", blocks(1))], classes=["no", "yes"])


# From Parquet to arrays

COLUMNS = (Numeric("age", 0, 100), Category("job", ("cook", "none")))


def people(records: int) -> pa.Table:
    draw = np.random.default_rng(records)
    return pa.table(
        {
            "age": draw.integers(0, 120, records),
            "job": np.array(["cook", "none"])[draw.integers(0, 2, records)],
            "ill": np.array(["no", "yes"])[draw.integers(0, 2, records)],
        }
    )


def test_a_folder_of_tables_becomes_one_of_arrays_that_says_the_same(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    (old / "test").mkdir(parents=True)
    facts = {"classes": ["no", "yes"], "target": "ill", "columns": [c.to_dict() for c in COLUMNS], "norm_bound": 1.5}
    (old / "dataset.json").write_text(json.dumps(facts))
    parquet.write_table(people(30), old / "a.parquet")
    parquet.write_table(people(9), old / "b.parquet")
    parquet.write_table(people(5), old / "test" / "t.parquet")
    convert(old, new)
    one, other = open_folder(old), open_folder(new)
    for name in ("owners", "classes", "feature_names", "encoder", "norm_bound"):
        assert getattr(one, name) == getattr(other, name), name
    for before, after in zip(one.sources, other.sources, strict=True):
        for made, kept in zip(whole(before), whole(after), strict=True):
            np.testing.assert_array_equal(made, kept)
    assert one.held_out is not None
    assert other.held_out is not None
    np.testing.assert_array_equal(one.held_out.features, other.held_out.features)
    with pytest.raises(InputError, match=r"is a folder, whose dataset\.json says target"):
        convert(old, tmp_path / "newer", target="ill")


def test_a_parquet_file_becomes_a_folder_of_one_owner(tmp_path: Path) -> None:
    parquet.write_table(people(30), tmp_path / "clinic.parquet")
    terms: dict[str, Any] = {"target": "ill", "classes": ["no", "yes"], "columns": COLUMNS}
    convert(tmp_path / "clinic.parquet", tmp_path / "new", precision="float32", **terms)
    found = open_folder(tmp_path / "new")
    assert found.owners == ("clinic",)
    assert found.feature_names == ("age", "job=cook", "job=none")
    assert found.sources[0].count == 30
    with pytest.raises(InputError, match=r"which column of .*clinic\.parquet is to be predicted"):
        convert(tmp_path / "clinic.parquet", tmp_path / "newer")
