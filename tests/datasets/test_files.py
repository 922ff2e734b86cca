"""Files: CSV and Parquet say the same, and every way to be wrong is named."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from dpadmm.datasets import Category, Numeric, load_file, read_table
from dpadmm.errors import InputError

TABLE = pa.table(
    {
        "age": [20, 50, 80, 35],
        "city": ["Bern", "Rome", "Bern", "Oslo"],
        "hospital": ["north", "south", "south", "north"],
        "sick": [1, 0, 1, 0],
        "cost": [1.5, 2.0, -3.0, 0.25],
    }
)
CITY = Category("city", ("Bern", "Oslo", "Rome"))


def written(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.fixture
def paths(tmp_path):
    csv.write_csv(TABLE, tmp_path / "data.csv")
    parquet.write_table(TABLE, tmp_path / "data.parquet")
    return [tmp_path / "data.csv", tmp_path / "data.parquet"]


def test_csv_and_parquet_are_equal(paths):
    first, second = (
        load_file(path, "sick", owner="hospital", columns=(Numeric("age", 0, 100), CITY)) for path in paths
    )
    assert first.features.tolist() == [[0.2, 1, 0, 0], [0.5, 0, 0, 1], [0.8, 1, 0, 0], [0.35, 0, 1, 0]]
    assert first.targets.tolist() == [1, 0, 1, 0]
    assert first.classes == ("0", "1")
    assert first.owners.tolist() == ["north", "south", "south", "north"]
    assert first.feature_names == ("age", "city=Bern", "city=Oslo", "city=Rome")
    assert first.public_preprocessing
    np.testing.assert_array_equal(first.features, second.features)
    np.testing.assert_array_equal(first.targets, second.targets)
    np.testing.assert_array_equal(first.owners, second.owners)
    assert (first.classes, first.encoder, first.name) == (second.classes, second.encoder, second.name)
    np.testing.assert_array_equal(first.encoder.transform(read_table(paths[0])), first.features)


def test_without_columns_numbers_pass_through(tmp_path):
    path = written(tmp_path, "a,b,y\n1,2.5,no\n-300,4,yes\n")
    dataset = load_file(str(path), "y")
    assert dataset.features.tolist() == [[1.0, 2.5], [-300.0, 4.0]]
    assert dataset.classes == ("no", "yes")
    assert dataset.owners is None


def test_regression_target_is_a_number(paths):
    for path in paths:
        dataset = load_file(path, "cost", columns=[Numeric("age", 0, 100)], task="regression")
        assert dataset.classes is None
        assert dataset.targets.tolist() == [1.5, 2.0, -3.0, 0.25]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["10", "9", "-1"], ("-1", "9", "10")),
        (["1.0", "0.0", "1.0"], ("0", "1")),
        (["0.5", "2", "10"], ("0.5", "2", "10")),
        (["b", "a10", "a9"], ("a10", "a9", "b")),
        (["true", "false", "true"], ("false", "true")),
    ],
)
def test_classes_in_their_natural_order(tmp_path, labels, classes):
    path = written(tmp_path, "a,y\n" + "".join(f"{row},{label}\n" for row, label in enumerate(labels)))
    assert load_file(path, "y").classes == classes


def test_codes_are_kept_as_written(tmp_path):
    path = written(tmp_path, "code,who,y\n01,007,0\n02,008,1\n")
    dataset = load_file(path, "y", owner="who", columns=[Category("code", ("01", "02"))])
    assert dataset.owners.tolist() == ["007", "008"]
    assert dataset.features.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_suffix_in_capitals(tmp_path):
    assert read_table(written(tmp_path, "a\n1\n", "DATA.CSV")).num_rows == 1


@pytest.mark.parametrize(
    ("text", "asked", "words"),
    [
        ("", {}, ["empty"]),
        ("a,y\n", {}, ["empty", "no records"]),
        ("a,y\n1,0\n2\n", {}, ["cannot read", "Expected 2 columns, got 1"]),
        ("a,a,y\n1,2,0\n", {}, ["more than one column", "'a'"]),
        ("a,label\n1,0\n2,1\n", {"target": "lable"}, ["target column 'lable'", "did you mean 'label'"]),
        ("a,y,owner\n1,0,p\n2,1,q\n", {"owner": "ownr"}, ["owner column 'ownr'", "did you mean 'owner'"]),
        ("a,y\n1,0\n,1\n", {}, ["'a'", "row 2", "missing"]),
        ("a,y\n1,0\nnan,1\n", {}, ["'a'", "row 2", "missing"]),
        ("a,y\n1,0\ninf,1\n", {}, ["'a'", "row 2", "inf"]),
        ("a,y\n1,0\n1,\n", {}, ["'y'", "row 2", "missing"]),
        ("a,y\n1,no\n1,\n", {}, ["'y'", "row 2", "missing"]),
        ("a,y\n1,1\n2,\n", {"task": "regression"}, ["'y'", "row 2", "missing"]),
        ("a,y,o\n1,0,p\n1,1,\n", {"owner": "o"}, ["'o'", "row 2", "missing"]),
        ("a,y\n1,0\n2,0\n", {}, ["one class", "'0'", "two or more"]),
        ("a,y\n1,3\n2,low\n", {"task": "regression"}, ["'low'", "'y'", "row 2", "not a number"]),
        ("city,y\nBern,0\nRome,1\n", {}, ["'Bern'", "'city'", "row 1", "Category('city', values=("]),
        ("y\n0\n1\n", {}, ["no column to make features of"]),
        ("a,y\n1,0\n2,1\n", {"columns": [Numeric("y")]}, ["'y' is the target or the owner"]),
        ("a,y\n1,0\n2,1\n", {"columns": [Numeric("aa")]}, ["column 'aa'", "did you mean 'a'"]),
        ("a,y\n1,0\n2,1\n", {"task": "regresion"}, ["unknown task", "did you mean 'regression'"]),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, asked, words):
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_file(path, **({"target": "y"} | asked))
    for word in words:
        assert word in str(caught.value)


def test_missing_file_and_unknown_suffix(tmp_path):
    with pytest.raises(InputError, match=r"no file .*none\.csv"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"data\.txt.*\.csv or \.parquet"):
        read_table(written(tmp_path, "a\n1\n", "data.txt"))


def test_bytes_that_are_no_table(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*data\.parquet"):
        read_table(written(tmp_path, "a,b\n1,2\n", "data.parquet"))
    path = tmp_path / "latin.csv"
    path.write_bytes("größe,y\n1,0\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"cannot read .*latin\.csv"):
        read_table(path)


def test_parquet_with_two_columns_of_a_name(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    parquet.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(InputError, match="more than one column named 'a'"):
        read_table(tmp_path / "twice.parquet")


@pytest.mark.parametrize("label", ["maybe", "", "a"])
def test_with_classes_a_record_of_another_label_changes_nothing_but_itself(label, tmp_path):
    """Without them, one label decides how many classes there are, and how long a model is."""
    path = tmp_path / "r.csv"
    path.write_text(f"x,y\n1,a\n2,b\n3,a\n4,{label}\n")
    dataset = load_file(path, "y", classes=("b", "a"))
    assert (dataset.classes, dataset.classes_found) == (("b", "a"), False)
    assert dataset.targets.tolist()[:3] == [1, 0, 1]
    assert dataset.usable is not None
    assert dataset.usable.tolist() == [True, True, True, label == "a"]
    if label:
        assert load_file(path, "y").classes_found


def test_classes_must_be_two_or_more_names_of_a_classification(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("x,y\n1,2\n2,3\n")
    for classes in (("a",), ("a", "a"), ("a", "")):
        with pytest.raises(InputError, match="name two or more, each once"):
            load_file(path, "y", classes=classes)
    with pytest.raises(InputError, match="a regression has none"):
        load_file(path, "y", task="regression", classes=("2", "3"))
