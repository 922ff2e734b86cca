"""Records from gradients: exactly without noise, and the fit behind it."""

from __future__ import annotations

import numpy as np
import pytest

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.audit.inversion import Fit, Recovered, compare, invert, wrongness


def _rows(count: int, width: int, seed: int = 0) -> FloatArray:
    """Not negative, and of length at most 1, like pixels."""
    rows = np.random.default_rng(seed).uniform(size=(count, width))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * np.linspace(0.6, 1.0, count)[:, None]


def _gradients(points: FloatArray, rows: FloatArray, labels: IntArray | None, weight: float) -> FloatArray:
    """By the formula, independently of the fit's own sums."""
    found = []
    for point in points:
        if labels is None:
            total = -sum(u / (1.0 + np.exp(u @ point)) for u in rows)
        else:
            model, total = point.reshape(rows.shape[1], -1), 0.0
            for row, label in zip(rows, labels, strict=True):
                share = np.exp(model.T @ row)
                total = total + np.outer(row, share / share.sum() - np.eye(share.size)[label]).ravel()
        found.append(weight * total)
    return np.array(found)


def _points(count: int, dimension: int, first_zero: bool = True) -> FloatArray:
    points = np.random.default_rng(1).normal(scale=2.0, size=(count, dimension))
    if first_zero:
        points[0] = 0.0
    return points


@pytest.mark.parametrize("first_zero", [True, False])
def test_one_softmax_record_with_its_label(first_zero: bool) -> None:
    rows, labels = _rows(1, 9), np.array([3])
    points = _points(4, 45, first_zero)
    found = invert(points, _gradients(points, rows, labels, 0.5), weight=0.5, records=1, classes=5, bound=1.0)
    told = compare(found, rows, labels)
    assert told.relative_error[0] <= 1e-12
    assert told.label_right == (True,)


def test_one_round_at_zero_is_enough_for_one_record() -> None:
    rows, labels, points = _rows(1, 9), np.array([2]), np.zeros((1, 36))
    found = invert(points, _gradients(points, rows, labels, 1.0), weight=1.0, records=1, classes=4, bound=1.0)
    assert compare(found, rows, labels).relative_error[0] <= 1e-14


@pytest.mark.parametrize("sign", [-1, 1])
def test_one_logistic_record(sign: int) -> None:
    rows, signs, points = _rows(1, 9), np.array([sign]), _points(4, 9)
    gradients = _gradients(points, sign * rows, None, 0.25)
    known = invert(points, gradients, weight=0.25, records=1, classes=2, bound=1.0, positive=True)
    assert compare(known, rows, signs).relative_error[0] <= 1e-12
    assert compare(known, rows, signs).label_right == (True,)


def test_without_knowing_the_sign_of_features_the_product_is_found_and_no_label() -> None:
    rows, signs, points = _rows(1, 9), np.array([-1]), _points(4, 9)
    found = invert(points, _gradients(points, -rows, None, 1.0), weight=1.0, records=1, classes=2, bound=1.0)
    assert found.products
    assert found.labels is None
    np.testing.assert_allclose(found.rows, -rows, atol=1e-12)
    assert compare(found, rows, signs).relative_error[0] <= 1e-12
    assert compare(found, rows, signs).label_right == (None,)


@pytest.mark.parametrize("labels", [[0, 1, 2], [1, 1, 0], [2, 2, 2]])
def test_three_softmax_records_also_of_one_class(labels: list[int]) -> None:
    rows, told, points = _rows(3, 9), np.array(labels), _points(8, 36)
    gradients = _gradients(points, rows, told, 1 / 3)
    found = invert(points, gradients, weight=1 / 3, records=3, classes=4, bound=1.0, labels=told)
    assert compare(found, rows, told).relative_error.max() <= 1e-8
    assert compare(found, rows, told).label_right == (None, None, None)  # they were given


def test_three_logistic_records() -> None:
    rows, signs, points = _rows(3, 9), np.array([1, -1, 1]), _points(8, 9)
    gradients = _gradients(points, rows * signs[:, None], None, 1 / 3)
    found = invert(points, gradients, weight=1 / 3, records=3, classes=2, bound=1.0, positive=True)
    assert compare(found, rows, signs).relative_error.max() <= 1e-8
    assert compare(found, rows, signs).label_right == (True, True, True)


def test_several_softmax_records_need_their_labels() -> None:
    with pytest.raises(ValueError, match="labels of 2 softmax records"):
        invert(np.zeros((1, 36)), np.ones((1, 36)), weight=1.0, records=2, classes=4, bound=1.0)


def test_loud_noise_hides_the_record_and_breaks_nothing() -> None:
    rows, labels, points = _rows(1, 16), np.array([1]), 30.0 * _points(6, 64)
    noise = np.random.default_rng(2).normal(scale=10.0, size=points.shape)
    gradients = _gradients(points, rows, labels, 1.0) + noise
    found = invert(points, gradients, weight=1.0, records=1, classes=4, bound=1.0)
    assert np.linalg.norm(found.rows) <= 1.0 + 1e-12  # an attacker knows the bound
    assert compare(found, rows, labels).relative_error[0] > 0.5


def test_little_noise_costs_little() -> None:
    rows, labels, points = _rows(1, 16), np.array([1]), _points(6, 64)
    noise = np.random.default_rng(2).normal(scale=1e-4, size=points.shape)
    found = invert(points, _gradients(points, rows, labels, 1.0) + noise, weight=1.0, records=1, classes=4, bound=1.0)
    assert 1e-6 < compare(found, rows, labels).relative_error[0] < 1e-2


@pytest.mark.parametrize("labels", [None, np.array([0, 2, 2])])
def test_the_jacobian_is_the_derivative(labels: IntArray | None) -> None:
    draw, columns = np.random.default_rng(3), 1 if labels is None else 4
    fit = Fit(draw.normal(size=(5, 6, columns)), draw.normal(size=(5, 6, columns)), labels)
    at, step = draw.normal(size=18), 1e-6
    columns_of = [(fit.residual(at + step * e) - fit.residual(at - step * e)) / (2 * step) for e in np.eye(18)]
    np.testing.assert_allclose(fit.jacobian(at), np.array(columns_of).T, atol=1e-8)


def test_wrongness_survives_scores_that_overflow() -> None:
    wrong, bend = wrongness(np.array([[[-1e5], [1e5]]]), None)
    np.testing.assert_array_equal(wrong[0, :, 0], [-1.0, 0.0])
    np.testing.assert_array_equal(bend, 0.0)
    wrong, _ = wrongness(np.array([[1e5, -1e5, 0.0]]), np.array([0]))
    np.testing.assert_array_equal(wrong, 0.0)


def test_records_are_matched_whatever_their_order() -> None:
    rows, labels = _rows(3, 5), np.array([0, 1, 2])
    found = Recovered(rows[[2, 0, 1]], labels[[2, 0, 0]], 0.0)
    told = compare(found, rows, labels)
    np.testing.assert_array_equal(told.rows, rows)
    np.testing.assert_allclose(told.cosine, 1.0)
    assert told.label_right == (True, False, True)


def test_rows_of_the_wrong_length_have_the_right_direction() -> None:
    rows, labels = _rows(3, 5), np.array([0, 1, 2])
    told = compare(Recovered(1.5 * rows, labels, 0.0), rows, labels)
    np.testing.assert_allclose(told.cosine, 1.0)
    np.testing.assert_allclose(told.relative_error, 0.5)
