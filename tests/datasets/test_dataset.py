"""Data sets refuse what is not finite, and split without losing or sharing a record."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from dpadmm.datasets import Dataset, scaled, split
from dpadmm.errors import InputError


def numbered(records, **fields):
    defaults = {
        "name": "numbered",
        "features": np.arange(2.0 * records).reshape(records, 2),
        "targets": np.arange(records) % 2,
        "classes": ("no", "yes"),
        "feature_names": ("a", "b"),
        "owners": np.array([f"o{row}" for row in range(records)]),
    }
    return Dataset(**(defaults | fields))


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array])
def test_take_keeps_records_together(wrap):
    usable = np.arange(5) != 3
    dataset = numbered(5, features=wrap(np.arange(10.0).reshape(5, 2)), usable=usable)
    for rows in (np.array([3, 1]), [3, 1]):
        taken = dataset.take(rows)
        dense = taken.features if isinstance(taken.features, np.ndarray) else taken.features.toarray()
        assert dense.tolist() == [[6.0, 7.0], [2.0, 3.0]]
        assert taken.targets.tolist() == [1, 1]
        assert taken.owners.tolist() == ["o3", "o1"]
        assert taken.usable.tolist() == [False, True]
        assert len(taken) == 2
    assert len(dataset.take(slice(1, 4))) == 3


def test_it_is_said_of_every_record_whether_it_counts():
    with pytest.raises(InputError, match=r"5 records, but usable has the shape \(4,\)"):
        numbered(5, usable=np.ones(4, dtype=bool))


def test_types_are_settled():
    assert numbered(3, targets=np.array([True, False, True])).targets.dtype == np.int64
    regression = numbered(3, targets=np.array([1, 2, 3]), classes=None)
    assert regression.targets.dtype == np.float64


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("given", "kept"), [("f4", "f4"), ("f8", "f8"), ("i2", "f8"), ("u1", "f8"), ("i8", "f8"), ("?", "f8")]
)
def test_single_precision_is_kept_and_all_else_becomes_double(wrap, given, kept):
    dataset = numbered(3, features=wrap(np.ones((3, 2), dtype=given)))
    for features in (dataset.features, dataset.take([2, 0]).features, scaled(dataset, "max").features):
        assert features.dtype == np.dtype(kept)


def test_held_out_records_stay_whatever_is_taken():
    held_out = numbered(4)
    dataset = numbered(10, held_out=held_out)
    assert dataset.take([1]).held_out is held_out
    train, test = split(dataset, 3, 0)
    assert (len(train), len(test)) == (7, 3)
    assert train.held_out is test.held_out is held_out
    assert held_out.held_out is None


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array])
def test_held_out_records_are_divided_by_the_maxima_of_the_others(wrap):
    held_out = numbered(1, features=wrap(np.array([[9.0, 9.0]])))
    dataset = numbered(2, features=wrap(np.array([[3.0, 0.0], [1.5, -4.5]])), held_out=held_out)
    by_maximum = scaled(dataset, "max")
    assert (by_maximum.held_out.features @ np.eye(2)).tolist() == [[3.0, 2.0]]
    assert (by_maximum.features @ np.eye(2)).tolist() == [[1.0, 0.0], [0.5, -1.0]]
    assert not by_maximum.held_out.public_preprocessing
    assert by_maximum.held_out.encoder == by_maximum.encoder
    assert held_out.public_preprocessing
    assert scaled(dataset, "public").held_out is held_out


def test_maxima_are_told_to_raw_records_even_without_an_encoder():
    raw = pa.table({"a": [3.0, 1.5], "b": [0.0, -4.5]})
    dataset = numbered(2, features=np.array([[3.0, 0.0], [1.5, -4.5]]))
    assert scaled(dataset, "max").encoder.transform(raw).tolist() == [[1.0, 0.0], [0.5, -1.0]]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"feature_names": ("a", "c")}, "numbered: the held-out records have other features"),
        ({"classes": ("yes", "no")}, "numbered: the held-out records have other features or classes"),
        ({"held_out": numbered(1)}, "must not have held-out records themselves"),
    ],
)
def test_held_out_records_that_do_not_belong(fields, words):
    with pytest.raises(InputError, match=words):
        numbered(3, held_out=numbered(2, **fields))


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_are_named(wrap, value):
    features = np.arange(6.0).reshape(3, 2)
    features[1, 1] = features[2, 0] = value
    with pytest.raises(InputError, match=f"column 'b', row 2 is {value}"):
        numbered(3, features=wrap(features))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"targets": np.array([0.0, np.nan, 1.0]), "classes": None}, "row 2 is nan"),
        ({"targets": np.array([0.0, np.nan, 1.0])}, "row 2 is nan"),
        ({"targets": np.array([0, 1, 2])}, "row 3 is 2; classes are 0 to 1"),
        ({"targets": np.array([0.5, 1, 0])}, "row 1 is 0.5"),
        ({"targets": np.zeros(2)}, "3 records, but targets"),
        ({"features": np.zeros(3)}, "must be a matrix"),
        ({"feature_names": ("a",)}, "2 features, but 1 feature names"),
        ({"owners": np.array(["o"])}, "3 records, but 1 owners"),
    ],
)
def test_contradictions_are_refused(fields, words):
    with pytest.raises(InputError, match=words):
        numbered(3, **fields)


@given(st.integers(2, 60), st.data(), st.integers(0, 2**70))
def test_split_is_complete_disjoint_and_repeatable(records, data, seed):
    dataset = numbered(records)
    count = data.draw(st.integers(1, records - 1))
    train, test = split(dataset, count, seed)
    assert (len(train), len(test)) == (records - count, count)
    assert sorted([*train.owners, *test.owners]) == sorted(dataset.owners)
    again = split(dataset, count, seed)
    assert [part.owners.tolist() for part in again] == [train.owners.tolist(), test.owners.tolist()]


def test_split_by_fraction_by_nothing_and_by_seed():
    dataset = numbered(100)
    train, test = split(dataset, 0.3, 1)
    assert (len(train), len(test)) == (70, 30)
    assert split(dataset, 0, 1) == (dataset, None)
    assert split(dataset, 0.3, 2)[1].owners.tolist() != test.owners.tolist()
    assert len(split(dataset, 0.0001, 1)[1]) == 1


@pytest.mark.parametrize("test", [-1, 100, 101, 1.0, 1.5, -0.1, float("nan")])
def test_split_refuses_what_leaves_a_side_empty(test):
    with pytest.raises(InputError, match=r"cannot keep|neither a count nor a fraction"):
        split(numbered(100), test, 0)
