"""What a fit says, warns of or refuses does not depend on one record, where everything public is given; and sparse rows
are the records that they stand for, however they are stored."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dpadmm.estimators import PrivacyLeakWarning, PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge

CLASSIFIERS = (PrivateLogisticRegression, PrivateLinearSVC)


@pytest.fixture
def strict(quick: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a quick fit whose noise protects, and that leaks nothing."""
    return quick | {"random_state": None, "strict": True}


# -- labels ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_labels_found_in_y_are_a_leak(kind, quick, rows, labels):
    model = kind(**quick | {"classes": None, "random_state": None})
    with pytest.warns(PrivacyLeakWarning, match="classes was taken from the data: the set of labels") as caught:
        model.fit(rows, labels)
    assert caught[0].filename == __file__
    assert not model.privacy_.private
    assert "leaked: classes was taken from the data: the set of labels is not covered" in str(model.privacy_)
    assert not any("labels" in text for text in model.privacy_.public)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_strict_fit_without_classes_is_refused_whatever_the_labels_are(kind, strict, rows, labels, margins):
    for y in (labels, np.full(300, "no"), np.where(np.arange(300) == 0, "HIV", labels), margins):
        with pytest.raises(ValueError, match=r"classes was taken from the data.*With strict=True that is an error"):
            kind(**strict | {"classes": None}).fit(rows, y)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_one_class_is_a_data_set_like_any_other(kind, strict, rows):
    model = kind(**strict).fit(rows, np.full(300, "no"))
    assert model.privacy_.private
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.coef_.shape == (1, 3)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_record_with_another_label_contributes_zero(quick, rows, labels, intercept):
    """As if it were not there, but for the number of records, which is public."""
    quick |= {"epsilon": 1e10, "algorithm": "dpsgd", "penalty": None, "rounds": 1, "fit_intercept": intercept}
    strange = np.where(np.arange(300) < 30, "HIV", labels)
    model = PrivateLogisticRegression(**quick).fit(rows, strange)
    fewer = PrivateLogisticRegression(**quick).fit(rows[30:], labels[30:])
    np.testing.assert_allclose(model.coef_ * 300, fewer.coef_ * 270, rtol=1e-4)
    np.testing.assert_allclose(model.intercept_ * 300, fewer.intercept_ * 270, rtol=1e-4)


def test_one_label_in_a_list_does_not_change_how_the_others_are_read(quick, rows, labels):
    """NumPy makes texts of all labels where one is a text."""
    codes = (labels == "yes").astype(int).tolist()
    fits = [
        PrivateLogisticRegression(**quick | {"classes": [0, 1]}).fit(rows, [first, *codes[1:]])
        for first in ("HIV", None, 0.5, [0], 2**70)
    ]
    for model in fits[1:]:
        np.testing.assert_array_equal(model.coef_, fits[0].coef_)
    assert fits[0].score(rows[1:], codes[1:]) > 0.75


@pytest.mark.parametrize("first", ["x", b"no", 1j, 10**400, (1, 2)])
def test_one_label_of_any_type_in_an_array_of_objects_contributes_zero(strict, rows, labels, first):
    """Another instance: 0.1.0 could not sort them, or did not know their kind, and refused the fit with an error."""
    objects = np.where(labels == "yes", 1, 0).astype(object)
    objects[0] = first
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PrivateLogisticRegression(**strict | {"classes": [0, 1]}).fit(rows, objects)
    assert model.privacy_.private
    assert model.classes_.tolist() == [0, 1]


# -- neighbours --------------------------------------------------------------------------------------------------------


def said(model: Any) -> dict[str, Any]:
    """Everything a fit leaves behind but for what was released with noise."""
    kept = {name: value for name, value in vars(model).items() if name not in ("coef_", "intercept_", "history_")}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in kept.items()}


def told(kind: Any, terms: dict[str, Any], x: Any, y: Any) -> tuple[dict[str, Any], list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = kind(**terms).fit(x, y)
    assert np.isfinite(model.coef_).all()
    return said(model), [str(warning.message) for warning in caught]


def with_first(values: np.ndarray, first: Any) -> np.ndarray:
    return np.concatenate([np.asarray([first], dtype=values.dtype if values.dtype.kind == "f" else None), values[1:]])


def rows_with_first(rows: np.ndarray, form: str, number: float) -> Any:
    """The rows, the first of which holds this number; in the sparse form it is stored twice."""
    if form == "dense":
        return np.vstack([[number, 0.0, 0.0], rows[1:]])
    few = sparse.csr_array(np.vstack([[1.0, 0.0, 0.0], rows[1:]]))
    table = sparse.csr_array(
        (np.r_[number, number, few.data[1:]], np.r_[0, few.indices], np.r_[0, few.indptr[1:] + 1]), shape=few.shape
    )
    return table if form == "csr" else table.tocoo()


@pytest.mark.parametrize("first", ["yes", "HIV", "a label that is far longer than all the others", "0"])
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_label_changes_nothing_that_is_said(kind, quick, rows, first):
    usual, other = np.full(300, "no"), with_first(np.full(300, "no"), first)
    assert told(kind, quick, rows, usual) == told(kind, quick, rows, other)


@pytest.mark.parametrize("form", ["dense", "csr", "coo"])
@pytest.mark.parametrize("number", [1e308, -1.7e308, 5e-324])
def test_numbers_at_the_ends_of_their_range_change_nothing_that_is_said(quick, rows, labels, form, number):
    """Divided by a small bound, or added up where a column is stored twice, they are no finite numbers any more."""
    quick |= {"norm_bound": 0.25}
    usual, other = (rows_with_first(rows, form, first) for first in (0.5, number))
    assert told(PrivateLogisticRegression, quick, usual, labels) == told(
        PrivateLogisticRegression, quick, other, labels
    )


@pytest.mark.parametrize("number", [1e308, -1e308, 5e-324])
def test_a_target_changes_nothing_that_is_said(quick_numbers, rows, numbers, number):
    quick_numbers |= {"target_bound": 0.1}
    other = with_first(numbers, number)
    assert told(PrivateRidge, quick_numbers, rows, numbers) == told(PrivateRidge, quick_numbers, rows, other)


# -- sparse rows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [None, 4.0])
@pytest.mark.filterwarnings("ignore:norm_bound was taken from the data")
def test_sparse_rows_give_the_bits_of_dense_ones(quick, rows, labels, bound):
    """CSR with columns in any order, stored twice, or with zeros; CSC; COO. The user's matrix stays as it is."""
    quick |= {"norm_bound": bound}
    few = np.where(np.abs(rows) > 0.5, np.round(rows, 1) + 1 / 3, 0.0)
    found = PrivateLogisticRegression(**quick).fit(few, labels)
    canonical = sparse.csr_array(few)
    counts = np.diff(canonical.indptr)
    backwards = np.concatenate([np.arange(stop - 1, stop - 1 - count, -1) for stop, count in zip(
        canonical.indptr[1:], counts, strict=True)])  # fmt: skip
    unsorted = sparse.csr_array(
        (canonical.data[backwards], canonical.indices[backwards], canonical.indptr), shape=few.shape
    )
    halves, zeros = np.repeat(canonical.data / 2.0, 2), np.zeros(canonical.nnz)
    repeated = sparse.csr_array((halves, np.repeat(canonical.indices, 2), 2 * canonical.indptr), shape=few.shape)
    with_zeros = sparse.csr_array(
        (np.stack([canonical.data, zeros], 1).ravel(), repeated.indices, repeated.indptr), shape=few.shape
    )
    forms = (canonical, unsorted, repeated, with_zeros, canonical.tocsc(), repeated.tocoo(), repeated.tobsr((1, 1)))
    for table in forms:
        parts = ("data", "indices", "indptr") if table.format != "coo" else ("data", "row", "col")
        before = {name: getattr(table, name).copy() for name in parts}
        model = PrivateLogisticRegression(**quick).fit(table, labels)
        np.testing.assert_array_equal(model.coef_, found.coef_)
        for name in parts:
            np.testing.assert_array_equal(getattr(table, name), before[name])


def test_a_sparse_row_does_not_depend_on_the_order_of_another_ones_columns(quick, rows, labels):
    """SciPy sorts all rows where one is not in order, not stably, and the sum of 1e16, 1 and -1e16 is then another."""
    columns = np.sort(np.r_[np.arange(16), 9, 9])
    numbers = np.where(columns == 9, 0.0, 0.1)
    numbers[columns == 9] = 1e16, 1.0, -1e16
    others = np.r_[np.zeros(18, dtype=int), np.repeat(np.arange(1, 300), 2)]

    def table(last: list[int]) -> Any:
        column = np.r_[columns, np.tile([0, 1], 298), last]
        data = np.r_[numbers, rows[1:299, :2].ravel(), 0.5, 0.5]
        return sparse.coo_array((data, (others, column)), shape=(300, 16))

    fits = [PrivateLogisticRegression(**quick).fit(table(last), labels) for last in ([0, 1], [1, 0])]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
