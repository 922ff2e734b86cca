"""Regressors: without noise they find the optimum, in the units of the target."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import Ridge

from dpadmm.estimators import PrivateQuantileRegressor, PrivateRidge
from dpadmm.estimators.regressors import WIDTH

TARGETS = 80.0  # no target is larger


def rounded(left, level, width):
    """The check loss of a residual, its kink rounded over a half-width."""
    inside = (width - left) ** 3 * (3 * width + left) / (16 * width**3)
    return level * left + np.where(-left >= width, -left, np.where(-left <= -width, 0.0, inside))


@pytest.mark.parametrize("alpha", [30.0, 1000.0])
def test_without_noise_it_is_scikit_learns_ridge(exact_numbers, rows, numbers, alpha):
    exact_numbers |= {"alpha": alpha, "fit_intercept": False}
    private = PrivateRidge(**exact_numbers, target_bound=TARGETS).fit(rows, numbers)
    plain = Ridge(alpha=alpha, fit_intercept=False).fit(rows, numbers)
    np.testing.assert_allclose(private.coef_, plain.coef_, atol=0.03)
    assert private.intercept_ == 0.0


def test_an_intercept_is_in_the_units_of_the_target(exact_numbers, rows, numbers):
    exact_numbers |= {"algorithm": "dpsgd", "rounds": 2000}
    model = PrivateRidge(**exact_numbers, target_bound=TARGETS).fit(rows, numbers + 25.0)
    plain = Ridge(alpha=0.0).fit(rows, numbers + 25.0)
    assert model.intercept_ == pytest.approx(plain.intercept_, abs=0.1)
    assert model.score(rows, numbers + 25.0) == pytest.approx(plain.score(rows, numbers + 25.0), abs=1e-3)
    np.testing.assert_allclose(model.predict(rows), rows @ model.coef_ + model.intercept_)


@pytest.mark.parametrize(("penalty", "power", "alpha"), [("l2", 2, 0.5), ("l1", 1, 0.05)])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_without_noise_it_minimises_the_rounded_check_loss(exact_numbers, rows, numbers, penalty, power, alpha, level):
    exact_numbers |= {"algorithm": "dpsgd", "rounds": 3000, "fit_intercept": False}
    private = PrivateQuantileRegressor(
        **exact_numbers, quantile=level, penalty=penalty, alpha=alpha, target_bound=TARGETS
    ).fit(rows, numbers)

    def objective(halves):
        model = halves[:3] - halves[3:]
        weight = halves.sum() if power == 1 else 0.5 * model @ model
        return rounded(numbers - rows @ model, level, WIDTH * TARGETS).mean() + alpha * weight

    found = minimize(objective, np.full(6, 0.1), bounds=[(0, None)] * 6, tol=1e-14, options={"maxiter": 2000}).x
    np.testing.assert_allclose(private.coef_, found[:3] - found[3:], atol=0.1)


def test_higher_quantiles_lie_higher(exact_numbers, rows, numbers):
    exact_numbers |= {"algorithm": "dpsgd", "rounds": 1500}
    models = [
        PrivateQuantileRegressor(**exact_numbers, quantile=level, target_bound=TARGETS).fit(rows, numbers)
        for level in (0.2, 0.8)
    ]
    shares = [np.mean(numbers <= model.predict(rows)) for model in models]
    assert shares == pytest.approx([0.2, 0.8], abs=0.12)


def test_targets_beyond_the_bound_are_clipped(quick_numbers, rows, numbers):
    far = np.where(np.arange(300) == 0, 1e9, numbers)
    cut = np.clip(far, -TARGETS, TARGETS)
    one, other = (PrivateRidge(**quick_numbers, target_bound=TARGETS).fit(rows, values) for values in (far, cut))
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_rows_beyond_the_bound_are_shortened(quick_numbers, rows, numbers):
    quick_numbers |= {"norm_bound": 1.0, "target_bound": TARGETS}
    short = rows * np.minimum(1.0, 1.0 / np.linalg.norm(rows, axis=1))[:, None]
    one, other = (PrivateRidge(**quick_numbers).fit(values, numbers) for values in (rows, short))
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": -1.0}, "alpha -1.0: must be a positive number"),
        ({"target_bound": 0.0}, "target_bound 0.0: must be a positive number"),
        ({"quantile": 1.0}, "quantile 1.0: must lie between 0 and 1"),
        ({"quantile": -0.5}, "quantile -0.5"),
    ],
)
def test_wrong_parameters_are_named_when_fitting(quick_numbers, rows, numbers, change, message):
    with pytest.raises(ValueError, match=message):
        PrivateQuantileRegressor(**{"target_bound": TARGETS} | quick_numbers | change).fit(rows, numbers)
