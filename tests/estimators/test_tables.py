"""Inputs: pandas, Polars and sparse rows are the same records, and owners are who they are said to be."""

import numpy as np
import pandas
import polars
import pytest
from scipy import sparse

from dpadmm.estimators import PrivateLogisticRegression, PrivateRidge

NAMES = ["age", "dose", "weight"]


@pytest.fixture
def fitted(quick, rows, labels):
    return PrivateLogisticRegression(**quick).fit(rows, labels)


@pytest.mark.parametrize("library", [pandas, polars])
def test_tables_keep_the_names_of_their_columns(quick, rows, labels, fitted, library):
    table = library.DataFrame(dict(zip(NAMES, rows.T, strict=True)))
    model = PrivateLogisticRegression(**quick).fit(table, library.Series(labels))
    np.testing.assert_array_equal(model.coef_, fitted.coef_)
    assert model.feature_names_in_.tolist() == NAMES
    assert model.n_features_in_ == 3
    assert (model.predict(table) == fitted.predict(rows)).all()
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[NAMES[::-1]])


def test_owners_may_be_a_column_of_the_table(quick, rows, labels):
    owners = np.array(["north", "south"])[np.arange(300) % 2]
    model = PrivateLogisticRegression(**quick).fit(rows, labels, owners=owners)
    for column in (pandas.Series(owners), polars.Series(owners), owners.tolist()):
        again = PrivateLogisticRegression(**quick).fit(rows, labels, owners=column)
        np.testing.assert_array_equal(model.coef_, again.coef_)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_are_the_same_records(quick, rows, labels, kind, form):
    few = np.where(np.abs(rows) > 0.5, rows, 0.0)
    dense = PrivateLogisticRegression(**quick).fit(few, labels)
    table = kind(few).asformat(form)
    model = PrivateLogisticRegression(**quick).fit(table, labels)
    np.testing.assert_allclose(model.coef_, dense.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.decision_function(table), dense.decision_function(few), rtol=1e-9)


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.PrivacyLeakWarning")
def test_the_longest_row_is_the_same_of_sparse_rows(quick, rows, labels):
    quick |= {"norm_bound": None}
    dense = PrivateLogisticRegression(**quick).fit(rows, labels)
    model = PrivateLogisticRegression(**quick).fit(sparse.csr_array(rows), labels)
    np.testing.assert_allclose(model.coef_, dense.coef_, rtol=1e-9)


def test_neither_rows_nor_targets_are_changed(quick_numbers, rows, numbers):
    before, targets = rows.copy(), numbers.copy()
    rows.flags.writeable = numbers.flags.writeable = False
    PrivateRidge(**quick_numbers | {"norm_bound": 1.0}, target_bound=1.0).fit(rows, numbers)
    np.testing.assert_array_equal(rows, before)
    np.testing.assert_array_equal(numbers, targets)


def test_every_record_goes_to_its_owner(quick, rows, labels):
    """The model is that of the same records in any order, and not that of other owners."""
    owners = np.array(["c", "a", "b"])[np.arange(300) // 50 % 3]
    model = PrivateLogisticRegression(**quick).fit(rows, labels, owners=owners)
    order = np.argsort(owners, kind="stable")
    again = PrivateLogisticRegression(**quick).fit(rows[order], labels[order], owners=owners[order])
    np.testing.assert_array_equal(model.coef_, again.coef_)
    other = PrivateLogisticRegression(**quick).fit(rows, labels, owners=owners[::-1])
    assert not np.allclose(model.coef_, other.coef_)


def test_owners_may_be_numbers(quick, rows, labels):
    model = PrivateLogisticRegression(**quick).fit(rows, labels, owners=np.arange(300) % 3 + 8)
    assert [owner.name for owner in model.privacy_.owners] == ["10", "8", "9"]
    assert model.privacy_.warnings == ()


def test_without_owners_the_records_are_dealt_out(quick, rows, labels):
    model = PrivateLogisticRegression(**quick, n_agents=7).fit(rows, labels)
    assert sorted(owner.records for owner in model.privacy_.owners) == [42, 43, 43, 43, 43, 43, 43]


def test_owners_that_do_not_fit_the_records_are_refused(quick, rows, labels):
    model = PrivateLogisticRegression(**quick)
    with pytest.raises(ValueError, match="one owner for each of the 300 records"):
        model.fit(rows, labels, owners=["one"])
    with pytest.raises(ValueError, match="record 3 has none"):
        model.fit(rows, labels, owners=[None if i == 3 else "one" for i in range(300)])
    with pytest.raises(ValueError, match="record 5 has none"):
        model.fit(rows, labels, owners=np.where(np.arange(300) == 5, np.nan, 1.0))
