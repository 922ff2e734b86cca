"""Adult as shipped: the published files, the published counts, and no statistic of the records."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from dpadmm.datasets import ADULT_ENCODER, Category, Numeric, adult_table, load_adult, read_table
from dpadmm.datasets.adult import adult_file
from dpadmm.errors import InputError

SHA256 = {
    "data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}


@pytest.fixture(scope="module")
def table():
    return adult_table()


@pytest.fixture(scope="module")
def adult():
    return load_adult()


@pytest.mark.parametrize("part", SHA256)
def test_files_are_those_of_uci(part):
    assert hashlib.sha256(adult_file(part)).hexdigest() == SHA256[part]


def test_counts(adult, table):
    assert adult.features.shape == (45_222, 104)
    assert table.num_rows == 45_222
    assert np.bincount(adult.targets).tolist() == [34_014, 11_208]
    assert np.bincount(adult.targets[:30_162]).tolist() == [22_654, 7_508]  # adult.data alone
    assert adult.classes == ("<=50K", ">50K")
    assert adult.public_preprocessing
    assert "CC BY 4.0" in adult.about


def test_rows_keep_the_order_of_the_files(table):
    first, first_of_test = table.slice(0, 1).to_pylist()[0], table.slice(30_162, 1).to_pylist()[0]
    assert (first["age"], first["workclass"], first["income"]) == (39, "State-gov", "<=50K")
    assert (first_of_test["age"], first_of_test["fnlwgt"]) == (25, 226_802)


def test_columns(adult):
    sizes = [len(column.feature_names) for column in ADULT_ENCODER.columns if isinstance(column, Category)]
    assert sizes == [7, 16, 7, 14, 6, 5, 2, 41]
    assert [column.name for column in ADULT_ENCODER.columns if isinstance(column, Numeric)] == [
        *("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
    ]
    assert adult.features.min() == 0.0
    assert adult.features.max() <= 1.0
    start = 6
    for size in sizes:
        group = adult.features[:, start : start + size]
        assert (group.sum(axis=1) == 1.0).all()
        assert np.isin(group, (0.0, 1.0)).all()
        start += size
    assert start == 104


def test_no_public_bound_clips(adult, table):
    """The bounds are a code book's; that no record meets them is why scaling is plain division."""
    np.testing.assert_array_equal(adult.features[:, 0], table["age"].to_numpy() / 100.0)
    np.testing.assert_array_equal(adult.features[:, 1], table["fnlwgt"].to_numpy() / 2e6)


def test_public_scaling_of_a_record_ignores_the_others(adult, table):
    rows = [7, 30_162, 45_221]
    np.testing.assert_array_equal(ADULT_ENCODER.transform(table.take(rows)), adult.features[rows])
    ages = table["age"].to_numpy().copy()
    ages[0] = 1_000_000
    changed = ADULT_ENCODER.transform(table.set_column(0, "age", pa.array(ages)))
    np.testing.assert_array_equal(changed[1:], adult.features[1:])
    assert changed[0, 0] == 1.0


def test_maxima_are_marked_and_carried(adult, table):
    scaled = load_adult("max")
    assert not scaled.public_preprocessing
    assert (scaled.features.max(axis=0) == 1.0).all()
    np.testing.assert_allclose(scaled.features[:, 1], table["fnlwgt"].to_numpy() / 1_490_400, rtol=1e-14)
    np.testing.assert_array_equal(scaled.encoder.transform(table), scaled.features)
    np.testing.assert_array_equal(scaled.features[:, 6:], adult.features[:, 6:])


def test_raw_csv_can_be_encoded(adult, table, tmp_path):
    csv.write_csv(table.slice(100, 50), tmp_path / "raw.csv")
    raw = read_table(tmp_path / "raw.csv")
    np.testing.assert_array_equal(ADULT_ENCODER.transform(raw), adult.features[100:150])


def test_unknown_scaling():
    with pytest.raises(InputError, match="unknown scaling 'maximum'"):
        load_adult("maximum")
