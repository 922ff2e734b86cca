"""How far coefficient functions are from the truth, whatever else a model holds."""

from types import SimpleNamespace

import numpy as np
import pytest

from dpadmm.engine.slopes import SlopeError, slopes


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
    dataset = SimpleNamespace(basis=basis, truth=lambda t: 2.0 * t)
    models = np.array([[0.0, 1.0, 2.0, 2.0, *intercept]])  # two levels: (0, 2) and (1, 2)
    assert SlopeError.of(dataset, 2)(models) == pytest.approx(0.5)
    # In other coordinates: one component along t.
    turned = np.array([[0.0], [1.0]])
    assert SlopeError.of(dataset, 2, turned)(np.array([[2.0, 3.0, *intercept]])) == pytest.approx(
        0.5 * (0.0 + 1.0 / 3.0)
    )
    assert SlopeError.of(SimpleNamespace(basis=None, truth=None)) is None
