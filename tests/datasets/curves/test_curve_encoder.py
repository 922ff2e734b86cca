"""CurveEncoder: a wide table becomes features, and back to a description; a user's own file of curves."""

import json
import tomllib

import numpy as np
import pyarrow as pa
import pytest
import tomli_w
from pyarrow import csv, parquet

from dpadmm.datasets import scaled
from dpadmm.datasets.curves import CurveEncoder, Curves, find_columns, load_curves_file, parse, scores
from dpadmm.errors import InputError

NAMES = tuple(f"x{number}" for number in range(8))
ENCODER = CurveEncoder(NAMES, tuple(float(number) for number in range(8)), "legendre:3", 1e-4)


def draw_table(rows=5, holes=True):
    values = np.random.default_rng(2).standard_normal((rows, 8))
    columns = [[None if holes and (row + column) % 5 == 0 else v for row, v in enumerate(values[:, column])]
               for column in range(8)]  # fmt: skip
    return pa.table({"y": np.arange(rows) + 0.5, "who": ["01", "02"] * (rows // 2) + ["01"] * (rows % 2)}
                    | dict(zip(NAMES, columns, strict=True)))  # fmt: skip


def matrix(table):
    return np.array([table[name].to_pylist() for name in NAMES], dtype=float).T


def replaced(table, name, values):
    return table.set_column(table.column_names.index(name), name, pa.array(values))


@pytest.mark.parametrize("holes", [True, False])
def test_features_are_the_scores_of_the_rows(holes):
    table = draw_table(holes=holes)
    assert np.isnan(matrix(table)).any() == holes
    expected = scores(Curves.on_grid(range(8), matrix(table)), parse("legendre:3"), 1e-4)
    np.testing.assert_array_equal(ENCODER.transform(table), expected)
    assert ENCODER.feature_names == ("legendre 1", "legendre 2", "legendre 3")
    assert ENCODER.text_columns == ()


def test_columns_count_by_name_and_nan_and_null_are_both_missing():
    table = draw_table()
    nan = pa.table({name: matrix(table)[:, k] for k, name in enumerate(NAMES)})
    np.testing.assert_array_equal(ENCODER.transform(nan.select(NAMES[::-1])), ENCODER.transform(table))


def test_integers_and_categories_of_digits_are_numbers():
    table = pa.table({name: [k, k * k] for k, name in enumerate(NAMES)})
    coded = replaced(table, "x2", pa.array(["2", "4"]).dictionary_encode())
    np.testing.assert_array_equal(ENCODER.transform(coded), ENCODER.transform(table))


@pytest.mark.parametrize("divisors", [(), (1.0, 2.0, 4.0)])
def test_dict_round_trip_through_json_and_toml(divisors):
    encoder = CurveEncoder(NAMES, ENCODER.times, "legendre:3", 1e-4, divisors)
    entry = encoder.to_dict()
    assert set(entry) == {"curve"}
    assert CurveEncoder.from_dict(json.loads(json.dumps(entry))) == encoder
    assert CurveEncoder.from_dict(tomllib.loads(tomli_w.dumps(entry))) == encoder


def test_divisors_divide():
    encoder = CurveEncoder(NAMES, ENCODER.times, "legendre:3", 1e-4, (1.0, 2.0, 4.0))
    np.testing.assert_array_equal(encoder.transform(draw_table()), ENCODER.transform(draw_table()) / [1, 2, 4])


@pytest.mark.parametrize("key", ["columns", "times", "basis", "smoothing"])
def test_a_description_that_lacks_something(key):
    entry = ENCODER.to_dict()
    del entry["curve"][key]
    with pytest.raises(InputError, match=f"lacks '{key}'"):
        CurveEncoder.from_dict(entry)
    with pytest.raises(InputError, match="lacks 'curve'"):
        CurveEncoder.from_dict({"columns": []})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((("a",), (1.0,), "cosine:1"), "two or more different columns"),
        ((("a", "a"), (1.0, 2.0), "cosine:1"), "two or more different columns"),
        ((("a", "b"), (1.0, 2.0, 3.0), "cosine:1"), "2 columns for a curve and 3 times"),
        ((("a", "b"), (2.0, 1.0), "cosine:1"), "must increase"),
        ((("a", "b"), (1.0, 2.0), "cosin:1"), "unknown basis"),
        ((("a", "b"), (1.0, 2.0), "cosine:1", -1.0), "price on roughness"),
        ((("a", "b"), (1.0, 2.0), "cosine:1", 0.0, (1.0, 2.0)), "2 divisors for 1 features"),
    ],
)
def test_encoders_that_cannot_be(arguments, message):
    with pytest.raises(InputError, match=message):
        CurveEncoder(*arguments)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("x3", ["1", "2", "three", "4", "5"], "'three' in column 'x3', row 13 is not a number"),
        ("x3", [1.0, 2.0, 3.0, np.inf, 5.0], "column 'x3', row 14 is inf"),
        ("x3", [[1], [2], [3], [4], [5]], "column 'x3'"),
    ],
)
def test_values_that_cannot_be_used_are_named_with_their_place(name, values, message):
    with pytest.raises(InputError, match=message):
        ENCODER.transform(replaced(draw_table(), name, values), first_row=10)


def test_rows_that_cannot_be_used_are_named():
    values = matrix(draw_table())
    values[3] = np.nan
    with pytest.raises(InputError, match="row 14 has no point"):
        ENCODER.transform(pa.table(dict(zip(NAMES, values.T, strict=True))), first_row=10)
    values[3, :2] = 1.0
    exact = CurveEncoder(NAMES, ENCODER.times, "legendre:3")
    with pytest.raises(InputError, match=r"row 14 has 2 point\(s\)"):
        exact.transform(pa.table(dict(zip(NAMES, values.T, strict=True))), first_row=10)
    with pytest.raises(InputError, match="unknown column 'x7'; there are: who, x0"):
        ENCODER.transform(draw_table().drop_columns(["x7"]))


def test_find_columns_sorts_by_number_and_passes_over_other_names():
    names = [
        "y",
        "t10",
        "t9.5",
        "t-1",
        "temperature",
        "t",
        "t1e2",
        "t_3",
        "tinf",
        "tnan",
        "t1x",
        "t5 6",
        "t1_0",
        "T4",
        "t007",
    ]
    columns, times = find_columns(names, "t")
    assert columns == ("t-1", "t007", "t9.5", "t10", "t1e2")
    assert times == (-1.0, 7.0, 9.5, 10.0, 100.0)
    assert find_columns(["850", "fat", "852.5"], "") == (("850", "852.5"), (850.0, 852.5))
    assert find_columns(["a.b1", "axb2", "a.b3"], "a.b")[0] == ("a.b1", "a.b3")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["t1", "y"], r"1 column\(s\) have a name of 't' and a number"),
        (["y"], r"0 column\(s\)"),
        (["t1", "t2", "t01"], "'t1' and 't01' are both the curve at time 1"),
    ],
)
def test_columns_that_are_no_curve(names, message):
    with pytest.raises(InputError, match=message):
        find_columns(names, "t")


@pytest.mark.parametrize("write", [csv.write_csv, parquet.write_table])
def test_a_file_of_curves(tmp_path, write):
    path = tmp_path / ("meat.csv" if write is csv.write_csv else "meat.parquet")
    write(draw_table(), path)
    dataset = load_curves_file(path, "y", "who", "x", "legendre:3", 1e-4)
    np.testing.assert_allclose(dataset.features, ENCODER.transform(draw_table()), rtol=1e-12)
    np.testing.assert_array_equal(dataset.targets, np.arange(5) + 0.5)
    assert dataset.owners.tolist() == ["01", "02", "01", "02", "01"]
    assert (dataset.name, dataset.classes, dataset.norm_bound, dataset.encoder) == ("meat", None, None, ENCODER)
    assert dataset.basis == parse("legendre:3")
    assert dataset.about == f"read from {path.name}"
    assert load_curves_file(path, "y", None, "x", parse("legendre:3")).owners is None


def test_the_target_and_the_owner_are_no_part_of_the_curve(tmp_path):
    path = tmp_path / "wide.csv"
    csv.write_csv(draw_table(holes=False), path)
    assert load_curves_file(path, "x3", "x5", "x", "cosine:2").encoder.columns == ("x0", "x1", "x2", "x4", "x6", "x7")


def test_maxima_can_be_taken_of_scores_as_of_other_features(tmp_path):
    path = tmp_path / "wide.csv"
    csv.write_csv(draw_table(), path)
    dataset = scaled(load_curves_file(path, "y", None, "x", "legendre:3", 1e-4), "max")
    assert not dataset.public_preprocessing
    np.testing.assert_allclose(np.abs(dataset.features).max(axis=0), 1)
    np.testing.assert_allclose(dataset.encoder.transform(draw_table()), dataset.features)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("z", None, "x"), "unknown target column 'z'"),
        (("y", "z", "x"), "unknown owner column 'z'"),
        (("y", None, "q"), "Name another prefix"),
        (("y", None, "x", "cosine:9"), "more components than grid points"),
        (("y", None, "x", "cosine:2.5"), "whole number"),
        (("who", None, "x", "cosine:2"), None),
    ],
)
def test_files_that_are_refused(tmp_path, arguments, message):
    path = tmp_path / "wide.csv"
    csv.write_csv(draw_table(holes=False), path)
    if message is None:  # "01" reads as a number where it is a target
        assert load_curves_file(path, *arguments).targets.tolist() == [1, 2, 1, 2, 1]
        return
    with pytest.raises(InputError, match=message):
        load_curves_file(path, *arguments)
