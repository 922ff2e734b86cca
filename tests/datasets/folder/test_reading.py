"""Data folders: what they must say, how their files are read, and how their faults are named."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpadmm.datasets import Category, Encoder, Numeric, ParquetBlocks, open_folder
from dpadmm.errors import InputError
from dpadmm.problems.losses import Logistic

COLUMNS = [{"name": "age", "low": 0, "high": 100}, {"name": "job", "values": ["clerk", "cook", "none"]}]
TABLE: dict[str, Any] = {"classes": ["no", "yes"], "target": "ill", "columns": COLUMNS}
ARRAYS: dict[str, Any] = {"classes": ["no", "yes"]}


def people(records: int, seed: int = 0) -> pa.Table:
    draw = np.random.default_rng(seed)
    return pa.table(
        {
            "age": draw.integers(0, 120, records),
            "job": np.array(["clerk", "cook", "none"])[draw.integers(0, 3, records)],
            "name": [f"p{i}" for i in range(records)],
            "ill": np.array(["no", "yes"])[draw.integers(0, 2, records)],
        }
    )


@pytest.fixture
def tables(tmp_path: Path) -> Callable[..., Path]:
    """tables(facts, **owners): a folder of Parquet files in row groups of 10."""

    def make(facts: Any = TABLE, folder: Path = tmp_path, **owners: pa.Table) -> Path:
        folder.mkdir(exist_ok=True)
        (folder / "dataset.json").write_text(json.dumps(facts))
        for name, table in owners.items():
            parquet.write_table(table, folder / f"{name}.parquet", row_group_size=10)
        return folder

    return make


@pytest.fixture
def arrays(tmp_path: Path) -> Callable[..., Path]:
    """arrays(facts, **owners): a folder of .npy files."""

    def make(facts: Any = ARRAYS, folder: Path = tmp_path, **owners: tuple[Any, Any]) -> Path:
        folder.mkdir(exist_ok=True)
        (folder / "dataset.json").write_text(json.dumps(facts))
        for name, (features, targets) in owners.items():
            np.save(folder / f"{name}.npy", features)
            np.save(folder / f"{name}.targets.npy", np.asarray(targets))
        return folder

    return make


SOME = (np.ones((3, 2)), [0, 1, 1])


def test_record_that_cannot_be_used_is_zero_for_an_owner_and_an_error_for_a_simulation(arrays: Any) -> None:
    features = np.full((4, 2), 0.5)
    features[1, 0] = np.nan
    found = open_folder(arrays(ARRAYS, me=(features, [0, 1, 1, 7])))
    encode, admit = partial(Logistic().encode, classes=2), partial(Logistic().admit, classes=2)
    with pytest.raises(InputError, match="row 4"):
        found.shards(encode, norm_bound=1.0)
    shards = found.shards(encode, norm_bound=1.0, admit=admit)
    assert (shards.counts.tolist(), shards.unusable) == ([4], 2)


def test_owners_are_files_in_the_order_of_their_names(arrays: Any) -> None:
    found = open_folder(arrays({"classes": ["a", "b"], "norm_bound": 3}, rome=SOME, bern=SOME))
    assert found.owners == ("bern", "rome")
    assert found.feature_names == ("x0", "x1")
    assert found.classes == ("a", "b")
    assert found.norm_bound == 3.0
    assert found.encoder is None
    assert found.held_out is None
    assert found.public_preprocessing


def test_features_may_have_names_and_a_history(arrays: Any) -> None:
    assert open_folder(arrays(ARRAYS | {"features": ["a", "b"]}, x=SOME)).feature_names == ("a", "b")
    made = open_folder(arrays(ARRAYS | {"columns": [{"name": "sex", "values": ["f", "m"]}]}, x=SOME))
    assert made.feature_names == ("sex=f", "sex=m")
    assert made.encoder == Encoder((Category("sex", ("f", "m")),))


def test_test_records_are_read_into_memory(arrays: Any, tmp_path: Path) -> None:
    arrays(x=SOME)
    arrays(folder=tmp_path / "test", b=(np.full((2, 2), 5.0), [1, 0]), a=(np.zeros((1, 2)), [1]))
    held_out = open_folder(tmp_path).held_out
    assert held_out is not None
    np.testing.assert_array_equal(held_out.features, [[0, 0], [5, 5], [5, 5]])
    assert held_out.targets.tolist() == [1, 1, 0]
    assert held_out.classes == ("no", "yes")


# Parquet


@pytest.mark.parametrize("rows", [1, 7, 10, 13, 25, 26, 1000])
def test_a_parquet_file_in_blocks_is_encoded_as_the_whole(tables: Any, rows: int) -> None:
    table = people(26)
    source = open_folder(tables(a=table)).sources[0]
    assert (source.count, source.width) == (26, 4)
    blocks = list(source.walk(rows))
    assert [len(targets) for _, targets in blocks] == [min(rows, 26 - start) for start in range(0, 26, rows)]
    whole = Encoder.from_dict({"columns": COLUMNS}).transform(table)
    np.testing.assert_array_equal(np.concatenate([features for features, _ in blocks]), whole)
    labels = np.array(table["ill"].to_pylist()) == "yes"
    np.testing.assert_array_equal(np.concatenate([targets for _, targets in blocks]), labels)


def test_rows_of_a_parquet_file_are_picked_in_the_order_asked_for(tables: Any) -> None:
    table, rows = people(57), np.array([56, 3, 3, 29, 30, 0, 9, 10])
    source = open_folder(tables(a=table)).sources[0]
    features, targets = source.pick(rows, np.empty((rows.size, 4), dtype=np.float32))
    whole = Encoder.from_dict({"columns": COLUMNS}).transform(table)
    np.testing.assert_array_equal(features, whole[rows])
    np.testing.assert_array_equal(targets, (np.array(table["ill"].to_pylist()) == "yes")[rows])
    space = np.empty((1, 4))
    assert source.pick(np.array([4]), space)[0] is space
    with pytest.raises(IndexError, match=r"a\.parquet has the rows 0 to 56"):
        source.pick(np.array([57]), space)


def test_only_row_groups_with_picked_rows_are_decoded(tables: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_folder(tables(a=people(57))).sources[0]
    decoded: list[int] = []
    plain = parquet.ParquetFile.iter_batches

    def noted(self: Any, *arguments: Any, row_groups: Any = None, **others: Any) -> Any:
        decoded.extend(row_groups)
        return plain(self, *arguments, row_groups=row_groups, **others)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", noted)
    source.pick(np.array([56, 12, 19]), np.empty((3, 4)))
    assert decoded == [1, 5]


def test_without_columns_all_but_the_target_are_numbers(tables: Any) -> None:
    table = pa.table({"a": [1.0, 2.0], "y": [0.5, 1.5], "b": [3, 4]})
    found = open_folder(tables({"task": "regression", "target": "y"}, x=table))
    assert found.encoder == Encoder((Numeric("a"), Numeric("b")))
    ((features, targets),) = found.sources[0].walk(10)
    np.testing.assert_array_equal(features, [[1, 3], [2, 4]])
    assert targets.tolist() == [0.5, 1.5]


def test_a_parquet_reader_is_pickled_without_records(tables: Any) -> None:
    source = open_folder(tables(a=people(2000))).sources[0]
    carried = pickle.dumps(source)
    assert len(carried) < 3_000
    assert pickle.loads(carried).count == 2000
    assert source.digest() == pickle.loads(carried).digest()


def test_a_changed_parquet_file_is_not_used(tables: Any) -> None:
    found = open_folder(tables(a=people(20)))
    tables(a=people(20, seed=1))
    with pytest.raises(InputError, match=r"a\.parquet has changed since it was opened"):
        next(found.sources[0].walk(5))


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("age", None, r"a\.parquet: the value in column 'age', row 24 is missing"),
        ("job", "king", r"a\.parquet: unknown value in column 'job', row 24, 'king'"),
        ("ill", "maybe", r"a\.parquet: unknown class in column 'ill', row 24, 'maybe'"),
        ("ill", None, r"a\.parquet: the value in column 'ill', row 24 is missing"),
    ],
)
def test_a_bad_value_is_named_by_file_column_and_row(tables: Any, column: str, value: Any, message: str) -> None:
    table = people(30)
    values = table[column].to_pylist()
    values[23] = value
    spoilt = table.set_column(table.column_names.index(column), column, pa.array(values))
    source = open_folder(tables(a=spoilt)).sources[0]
    with pytest.raises(InputError, match=message):
        list(source.walk(7))


# Folders that cannot be used


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ([], "must hold an object"),
        ({"task": "guessing", "classes": ["a", "b"]}, r"dataset\.json: unknown task 'guessing'"),
        ({}, r"dataset\.json: classes None: a list of two or more"),
        ({"classes": ["a"]}, "classes .*: a list of two or more"),
        ({"classes": ["a", "a"]}, "without repeats"),
        ({"classes": [0, 1]}, r"classes = \[0, 1\] must be a list of texts"),
        ({"classes": "ab"}, "classes = 'ab' must be a list of texts"),
        ({"task": "regression", "classes": ["a", "b"]}, "a regression has no classes"),
        (ARRAYS | {"norm_bound": 0}, "norm_bound 0.0: must be a positive number"),
        (ARRAYS | {"norm_bound": True}, "norm_bound = True must be a finite number"),
        (ARRAYS | {"clases": []}, r"unknown key in .*dataset\.json 'clases'; did you mean 'classes'"),
        (ARRAYS | {"target": "y"}, "target is for Parquet files"),
        (ARRAYS | {"features": ["a"]}, r"x\.npy has 2 columns; 1 features are declared"),
        (ARRAYS | {"features": ["a", "b"], "columns": [{"name": "a"}]}, "features are not those that columns make"),
        (ARRAYS | {"columns": ["a"]}, "columns = .* must be a list of tables"),
    ],
)
def test_facts_that_make_no_sense_are_refused(arrays: Any, facts: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_folder(arrays(facts, x=SOME))


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"classes": ["no", "yes"]}, "which column is to be predicted"),
        (TABLE | {"target": "sick"}, r"a\.parquet: unknown column 'sick'"),
        (TABLE | {"columns": [{"name": "agee"}]}, r"a\.parquet: unknown column 'agee'; did you mean 'age'"),
        (TABLE | {"columns": [{"name": "ill"}]}, "column 'ill' is the target; it cannot be a feature too"),
        (TABLE | {"features": ["a"]}, "for Parquet files declare columns"),
    ],
)
def test_facts_that_do_not_fit_tables_are_refused(tables: Any, facts: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_folder(tables(facts, a=people(5)))


def test_a_folder_without_facts_or_with_half_of_them_is_refused(arrays: Any, tmp_path: Path) -> None:
    arrays(x=SOME)
    (tmp_path / "dataset.json").write_text("{")
    with pytest.raises(InputError, match=r"dataset\.json is not JSON"):
        open_folder(tmp_path)
    (tmp_path / "dataset.json").unlink()
    with pytest.raises(InputError, match=r"has no readable dataset\.json; it must say the task and the classes"):
        open_folder(tmp_path)


def test_a_folder_without_records_is_refused(arrays: Any) -> None:
    with pytest.raises(InputError, match=r"holds no records: NAME\.npy with NAME\.targets\.npy, or NAME\.parquet"):
        open_folder(arrays())


def test_features_and_targets_must_come_in_pairs(arrays: Any, tmp_path: Path) -> None:
    arrays(x=SOME, y=SOME)
    (tmp_path / "y.targets.npy").unlink()
    with pytest.raises(InputError, match=r"y\.npy has no targets: there is no y\.targets\.npy"):
        open_folder(tmp_path)
    (tmp_path / "y.npy").rename(tmp_path / "z.npy")
    (tmp_path / "x.npy").unlink()
    with pytest.raises(InputError, match=r"x\.targets\.npy has targets, but there is no x\.npy"):
        open_folder(tmp_path)


def test_owners_must_have_the_same_width(arrays: Any) -> None:
    with pytest.raises(InputError, match=r"y\.npy has 5 columns; 2 features are declared or in the first file"):
        open_folder(arrays(x=SOME, y=(np.ones((3, 5)), [0, 0, 0])))


def test_kinds_of_files_do_not_mix(arrays: Any, tables: Any, tmp_path: Path) -> None:
    arrays(x=SOME)
    tables(a=people(5))
    with pytest.raises(InputError, match=r"holds both \.npy and \.parquet files"):
        open_folder(tmp_path)
    (tmp_path / "a.parquet").unlink()
    (tmp_path / "dataset.json").write_text(json.dumps(ARRAYS))
    tables(folder=tmp_path / "test", a=people(5))
    (tmp_path / "test" / "dataset.json").unlink()
    with pytest.raises(InputError, match="test must hold files of the same kind"):
        open_folder(tmp_path)


def test_test_records_must_be_of_the_same_kind(arrays: Any, tmp_path: Path) -> None:
    arrays(x=SOME)
    arrays({"classes": ["yes", "no"]}, tmp_path / "test", x=SOME)
    with pytest.raises(InputError, match=r"test.dataset\.json differs from that of the folder above"):
        open_folder(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"), [(b"", r"a\.parquet is empty"), (b"PAR?", r"cannot read .*a\.parquet")]
)
def test_a_file_that_is_no_parquet_is_refused(tables: Any, content: bytes, message: str) -> None:
    folder = tables(a=people(5))
    (folder / "a.parquet").write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_folder(folder)


def test_a_table_without_records_is_refused(tables: Any) -> None:
    with pytest.raises(InputError, match=r"a\.parquet is empty: it has no records"):
        open_folder(tables(a=people(5).slice(0, 0)))


def test_a_parquet_reader_can_be_made_by_hand(tables: Any) -> None:
    folder = tables(a=people(5))
    source = ParquetBlocks.of(folder / "a.parquet", Encoder((Numeric("age"),)), "ill", ("no", "yes"))
    assert source.width == 1
