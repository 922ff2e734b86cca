"""The coefficient function, and its error: by Parseval, which needs no integral at all."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.datasets.curves import (
    BASES,
    TRUTH,
    beta,
    coefficient_function,
    integrated_squared_error,
    parse,
)
from dpadmm.datasets.curves.slope import SlopeError, slopes
from dpadmm.errors import InputError


def test_coefficient_function_by_hand_and_for_many_weights():
    weights = np.random.default_rng(0).standard_normal((2, 3, 4))
    t = np.array([0.0, 0.3, 1.0])
    values = coefficient_function(parse("cosine:4"), weights, t)
    assert values.shape == (2, 3, 3)
    w = weights[1, 2]
    by_hand = w[0] + np.sqrt(2) * sum(w[k] * np.cos(k * np.pi * t) for k in (1, 2, 3))
    np.testing.assert_allclose(values[1, 2], by_hand)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 50), st.integers(0, 1000))
def test_error_of_any_weights_by_parseval(size, seed):
    weights = np.random.default_rng(seed).standard_normal(size)
    error = integrated_squared_error(parse(f"cosine:{size}"), weights, beta)
    exact = np.sum((weights - TRUTH[:size]) ** 2) + np.sum(TRUTH[size:] ** 2)
    assert error == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize(("size", "floor"), [(5, 0.0315), (10, 0.0045), (20, 0.0006), (50, 0.0)])
def test_what_no_weights_of_so_many_components_can_reach(size, floor):
    error = integrated_squared_error(parse(f"cosine:{size}"), TRUTH[:size], beta)
    assert error == pytest.approx(floor, abs=5e-5)
    assert error == pytest.approx(np.sum(TRUTH[size:] ** 2), rel=1e-9, abs=1e-25)


def by_trapezoids(basis, weights, points):
    t = np.arange(points) / (points - 1)
    heights = (weights @ basis.values(t).T - beta(t)) ** 2
    return ((heights[:, 1:] + heights[:, :-1]) / 2).sum(axis=1) / (points - 1)


def test_the_papers_grid_beside_the_integral():
    """On a hundred points trapezoids are exact for these cosines, on forty they are not."""
    basis, weights = parse("cosine:10"), np.zeros((3, 10))
    weights[1] = TRUTH[:10]
    weights[2] = 0.9 * TRUTH[:10]
    exact = integrated_squared_error(basis, weights, beta)
    assert exact.shape == (3,)
    np.testing.assert_allclose(by_trapezoids(basis, weights, 100), exact, rtol=1e-10)
    assert abs(by_trapezoids(basis, weights, 40)[1] / exact[1] - 1) > 1e-3


@pytest.mark.parametrize("text", ["bspline:10", "legendre:10"])
def test_the_papers_grid_is_not_exact_in_other_bases(text):
    basis, weights = parse(text), np.ones((1, 10))
    exact, grid = integrated_squared_error(basis, weights, beta), by_trapezoids(basis, weights, 100)
    np.testing.assert_allclose(grid, exact, rtol=0.1)
    assert abs(grid[0] / exact[0] - 1) > 1e-6
    np.testing.assert_allclose(by_trapezoids(basis, weights, 20_001), exact, rtol=1e-4)


@pytest.mark.parametrize("name", BASES)
def test_error_against_a_truth_that_is_no_series(name):
    """The integral of exp(2 t) is (e² - 1) / 2; weights of zero miss all of it."""
    basis = BASES[name](6)
    assert integrated_squared_error(basis, np.zeros(6), np.exp) == pytest.approx((np.e**2 - 1) / 2, rel=1e-12)


@pytest.mark.parametrize("weights", [np.zeros(3), np.zeros((4, 3)), 1.0])
def test_weights_must_fit_the_basis(weights):
    with pytest.raises(InputError, match="the last axis must have 4 entries"):
        coefficient_function(parse("cosine:4"), weights, [0.5])


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_model_is_taken_apart_by_its_levels(width, levels, intercept):
    """Also where the number of its coefficients alone would not say which they are."""
    matrix = np.arange(2.0 * (width + intercept) * levels).reshape(2, width + intercept, levels)
    found = slopes(matrix.reshape(2, -1), width, levels)
    assert found.shape == (2, levels, width)
    np.testing.assert_array_equal(found, matrix[:, :width].transpose(0, 2, 1))


@pytest.mark.parametrize("intercept", [(), (7.0, -7.0)])
def test_the_error_is_the_mean_over_levels_of_an_integral(intercept):
    """1 and t as functions, 2 t as the truth: of 2 t the error is 0, of 1 + 2 t it is 1."""
    basis = SimpleNamespace(values=lambda t: np.stack([np.ones_like(t), t], axis=1))
    models = np.array([[0.0, 1.0, 2.0, 2.0, *intercept]])  # two levels: (0, 2) and (1, 2)
    assert SlopeError.of(basis, _twice, 2)(models) == pytest.approx(0.5)
    # In other coordinates: one component along t.
    turned = np.array([[0.0], [1.0]])
    assert SlopeError.of(basis, _twice, 2, turned)(np.array([[2.0, 3.0, *intercept]])) == pytest.approx(
        0.5 * (0.0 + 1.0 / 3.0)
    )


def _twice(t):
    return 2.0 * t
