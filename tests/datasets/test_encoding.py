"""Encoding: public facts only, and every value that cannot be used is named with its place."""

import json
import tomllib

import numpy as np
import pyarrow as pa
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from dpadmm.datasets import Category, Encoder, Numeric
from dpadmm.errors import InputError

ENCODER = Encoder((Numeric("age", 0.0, 100.0), Category("work", ("Private", "State")), Numeric("x", None, None)))
TABLE = pa.table({"x": [-3.5, 7.0], "work": ["State", "Private"], "age": [50, 130], "unused": ["a", "b"]})


def with_column(name, values):
    return TABLE.set_column(TABLE.column_names.index(name), name, pa.array(values))


def test_clips_scales_and_passes_through():
    assert ENCODER.feature_names == ("age", "work=Private", "work=State", "x")
    features = ENCODER.transform(TABLE)
    assert features.dtype == np.float64
    assert features.tolist() == [[0.5, 0.0, 1.0, -3.5], [1.0, 1.0, 0.0, 7.0]]


def test_low_bound_is_the_zero():
    encoder = Encoder((Numeric("t", -10.0, 30.0),))
    assert encoder.transform(pa.table({"t": [-20.0, 0.0, 30.0]})).ravel().tolist() == [0.0, 0.25, 1.0]


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.sampled_from(["Private", "State"])), min_size=1), st.data())
def test_a_row_does_not_depend_on_other_rows(rows, data):
    table = pa.table({"age": [a for a, _ in rows], "work": [w for _, w in rows], "x": [a for a, _ in rows]})
    some = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    np.testing.assert_array_equal(ENCODER.transform(table.take(some)), ENCODER.transform(table)[some])


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_bounds_are_enforced(value, low, width):
    feature = Encoder((Numeric("v", low, low + width),)).transform(pa.table({"v": [value]}))
    assert 0.0 <= feature[0, 0] <= 1.0


@pytest.mark.parametrize("divisors", [(), (1.0, 2.0, 0.5, 3.0)])
def test_dict_round_trip_through_json_and_toml(divisors):
    encoder = Encoder(ENCODER.columns, divisors)
    entry = encoder.to_dict()
    assert Encoder.from_dict(json.loads(json.dumps(entry))) == encoder
    assert Encoder.from_dict(tomllib.loads(tomli_w.dumps(entry))) == encoder


def test_divisors_divide_the_features():
    divisors = (2.0, 1.0, 4.0, 7.0)
    expected = ENCODER.transform(TABLE) / divisors
    np.testing.assert_array_equal(Encoder(ENCODER.columns, divisors).transform(TABLE), expected)


def test_categories_may_be_numbers_or_dictionary_coded():
    encoder = Encoder((Category("c", ("1", "2")),))
    for values in (pa.array([2, 1]), pa.array([2.0, 1.0]), pa.array(["2", "1"]).dictionary_encode()):
        assert encoder.transform(pa.table({"c": values})).tolist() == [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (TABLE.drop_columns("age").append_column("agee", pa.array([1, 2])), ["'age'", "did you mean 'agee'"]),
        (with_column("age", ["1", "old"]), ["'old'", "'age'", "row 2", "not a number", "Category('age'"]),
        (with_column("age", [1.0, float("nan")]), ["'age'", "row 2", "missing"]),
        (with_column("age", [None, 1.0]), ["'age'", "row 1", "missing"]),
        (with_column("x", [1.0, -float("inf")]), ["'x'", "row 2", "-inf"]),
        (with_column("x", [[1], [2]]), ["'x'", "list<", "does not hold numbers"]),
        (with_column("work", ["State", "Privat"]), ["'work'", "row 2", "'Privat'", "did you mean 'Private'"]),
        (with_column("work", ["zzz", "State"]), ["'work'", "row 1", "'zzz'", "Private, State"]),
        (with_column("work", ["State", None]), ["'work'", "row 2", "missing"]),
        (with_column("work", ["", "State"]), ["'work'", "row 1", "missing"]),
        (with_column("work", [["a"], ["b"]]), ["'work'", "cannot be read as text"]),
    ],
)
def test_unusable_values_are_named(table, words):
    with pytest.raises(InputError) as caught:
        ENCODER.transform(table)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Numeric("a", 1.0, 1.0), "'a' needs finite low < high"),
        (lambda: Numeric("a", 0.0, float("inf")), "'a' needs finite low < high"),
        (lambda: Numeric("a", None, 1.0), "give both"),
        (lambda: Category("a", ()), "'a' must be"),
        (lambda: Category("a", ("x", "x")), "without repeats"),
        (lambda: Encoder(()), "no column"),
        (lambda: Encoder((Numeric("a"), Category("a", ("x",)))), "'a' is declared twice"),
        (lambda: Encoder((Numeric("a"),), (1.0, 2.0)), "2 divisors for 1 features"),
        (lambda: Encoder.from_dict({"columns": [{"kind": "numerical", "name": "a"}]}), "did you mean 'numeric'"),
        (lambda: Encoder.from_dict({"columns": [{"kind": "category", "name": "a"}]}), "lacks 'values'"),
    ],
)
def test_unusable_declarations_are_refused(build, words):
    with pytest.raises(InputError, match=words):
        build()


def test_error_row_is_the_first():
    with pytest.raises(InputError, match="row 3"):
        Encoder((Numeric("v"),)).transform(pa.table({"v": [1.0, 2.0, None, None]}))


def test_text_columns_are_the_categories():
    assert ENCODER.text_columns == ("work",)
