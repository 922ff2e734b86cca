"""The check loss: what one record can do (spec F10), its proximal map, its rounded kink, and several levels at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from dpadmm._registry import build
from dpadmm.admm.setting import Setting
from dpadmm.errors import InputError
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses import LOSSES, Loss, Quantile, Quantiles, SmoothedQuantile
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import Shards, gather

LEVELS = [0.05, 0.3, 0.5, 0.9]
every_level = pytest.mark.parametrize("level", LEVELS)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(4)


def check(residual: Any, level: float) -> Any:
    """rho(u) = max(tau u, (tau - 1) u)."""
    return np.maximum(level * residual, (level - 1.0) * residual)


def at(loss: Quantile, residuals: Any, what: str) -> NDArray[Any]:
    """The loss, or a derivative by the margin, at single residuals: records (1; u) and the model 0."""
    count = len(residuals)
    shards = gather(np.ones((count, 1)), loss.encode(residuals, 0), np.arange(count), norm_bound=1.0)
    return getattr(loss, what)(shards, np.zeros((count, 1)), np.ones(count)).reshape(count)


def agent(rows: Any, targets: Any, bound: float) -> Shards:
    return gather(np.asarray(rows), np.asarray(targets, dtype=float), np.zeros(len(rows), dtype=int), norm_bound=bound)


# What one record can do


def stated(loss: Loss, records: int, bound: float, relation: Relation, width: int = 3) -> float:
    """The sensitivity that noise is made for."""
    dimension = loss.dimension(width, 0)
    setting = Setting(Problem(loss), np.array([records]), dimension, bound, relation, rounds=1, width=width)
    return float(setting.gradient_sensitivity()[0])


@every_level
@pytest.mark.parametrize("records", [1, 40])
def test_the_sensitivity_is_that_of_the_specification(level: float, records: int) -> None:
    """F10: 2 max(tau, 1 - tau) R / m, and half of it where a record is blanked."""
    slope = {0.05: 0.95, 0.3: 0.7, 0.5: 0.5, 0.9: 0.9}[level]
    for loss in (Quantile(level), SmoothedQuantile(level, 0.1)):
        assert stated(loss, records, 3.0, Relation.REPLACE) == pytest.approx(2 * slope * 3.0 / records, rel=1e-8)
        assert stated(loss, records, 3.0, Relation.ZERO_OUT) == pytest.approx(slope * 3.0 / records, rel=1e-8)


@every_level
@pytest.mark.parametrize("loss", [Quantile, SmoothedQuantile])
def test_it_is_attained_by_opposite_rows_on_the_steeper_side(level: float, loss: Any, rng: np.random.Generator) -> None:
    records, bound = 7, 3.0
    given, x, weights = loss(level), np.array([[0.5, -0.2, 0.1]]), np.array([1.0 / records])
    row = np.array([bound, 0.0, 0.0])
    target = -1e9 if level < 0.5 else 1e9  # the margin is far above it, or far below, whatever the row
    others = rng.normal(size=(records - 1, 3)), rng.normal(size=records - 1)

    def gradient(special: Any) -> Any:
        rows, targets = np.vstack([others[0], special]), np.append(others[1], target)
        return given.gradient(agent(rows, targets, bound), x, weights)[0]

    replaced = np.linalg.norm(gradient(row) - gradient(-row))
    blanked = np.linalg.norm(gradient(row) - gradient(0.0 * row))  # of a row of zeros the loss is constant
    assert replaced == pytest.approx(stated(given, records, bound, Relation.REPLACE), rel=1e-8)
    assert blanked == pytest.approx(stated(given, records, bound, Relation.ZERO_OUT), rel=1e-8)


@pytest.mark.parametrize("loss", [Quantile(0.3), SmoothedQuantile(0.9, 0.2), Quantiles((0.2, 0.5, 0.9))], ids=str)
def test_no_random_pair_exceeds_it(loss: Loss, rng: np.random.Generator) -> None:
    """4,000 agents of five records, half of them on the bound, that differ in the last one; targets of any size."""
    count, records, bound = 4000, 5, 1.3
    rows = rng.normal(size=(2, count, records, 3))
    rows[1, :, :-1] = rows[0, :, :-1]
    rows *= bound / np.linalg.norm(rows, axis=3, keepdims=True) * rng.choice([1.0, 0.4], (2, count, 1, 1))
    targets = rng.standard_cauchy((2, count, records))
    targets[1, :, :-1] = targets[0, :, :-1]
    rows[1, :, :-1] = rows[0, :, :-1]
    x = rng.normal(size=(count, loss.dimension(3, 0)))
    owner = np.repeat(np.arange(count), records)
    one, other = (
        loss.gradient(gather(r.reshape(-1, 3), t.ravel(), owner, norm_bound=bound), x, np.full(count, 1.0 / records))
        for r, t in zip(rows, targets, strict=True)
    )
    moved, limit = np.linalg.norm(one - other, axis=1), stated(loss, records, bound, Relation.REPLACE)
    assert 0.8 * limit < moved.max() <= limit


def test_several_levels_have_the_length_of_their_slopes_together() -> None:
    loss = Quantiles((0.05, 0.3, 0.9))
    length = math.sqrt(0.95**2 + 0.7**2 + 0.9**2)
    exact = 2 * length * 2.0 / 8
    assert exact < stated(loss, 8, 2.0, Relation.REPLACE) <= exact * (1.0 + 1e-6)  # slopes are rounded up to 2^-20
    # Models may put a target on the steeper side of every level at once, so no smaller number would do.
    x = np.array([[10.0, 0.0, -10.0]])  # what they predict of the row (1,): the target -5 is below two of them
    gradient = loss.gradient(agent([[1.0]], [-5.0], 1.0), x, np.ones(1))[0]
    np.testing.assert_allclose(gradient, [0.95, 0.7, -0.9])


# The proximal map


@every_level
@pytest.mark.parametrize("stiffness", [0.01, 1.0, 37.0])
def test_prox_is_the_minimiser(level: float, stiffness: float, rng: np.random.Generator) -> None:
    edges = np.array([level / stiffness, (level - 1.0) / stiffness])
    residuals = np.concatenate([rng.normal(scale=3.0 / stiffness, size=12), [0.0], edges * 0.99, edges * 1.01])
    found = Quantile(level).prox(residuals, stiffness)
    assert (found == 0.0).any()
    assert (found != 0.0).any()
    for residual, u in zip(residuals, found, strict=True):

        def objective(v: float, residual: float = float(residual)) -> float:
            return float(check(v, level)) + 0.5 * stiffness * (v - residual) ** 2

        reach = abs(residual) + 2.0 / stiffness
        best = minimize_scalar(objective, bounds=(-reach, reach), method="bounded", options={"xatol": 1e-12 * reach})
        assert objective(u) <= best.fun + 1e-15 * abs(best.fun)
        assert u == pytest.approx(best.x, abs=1e-5 * reach)


def test_prox_on_the_edges_of_its_zone_is_zero_and_moves_by_the_slopes_beyond() -> None:
    loss, stiffness = Quantile(0.25), 4.0  # the zone is [-0.1875, 0.0625]
    residuals = np.array([-1.0, -0.1875, 0.0, 0.0625, 1.0])
    np.testing.assert_array_equal(loss.prox(residuals, stiffness), [-0.8125, 0.0, 0.0, 0.0, 0.9375])
    each = loss.prox(residuals, np.array([1.0, 2.0, 4.0, 8.0, 16.0]))
    np.testing.assert_allclose(each, [-0.25, 0.0, 0.0, 0.03125, 0.984375])


# The rounded kink


@every_level
@pytest.mark.parametrize("width", [1e-6, 0.25, 3.0])
def test_the_rounded_loss_lies_above_the_check_by_little_and_only_near_the_kink(level: float, width: float) -> None:
    residuals = width * np.linspace(-2.0, 2.0, 2001)
    rounded, exact = at(SmoothedQuantile(level, width), residuals, "values"), check(residuals, level)
    np.testing.assert_allclose(at(Quantile(level), residuals, "values"), exact, atol=1e-15 * width)
    above = (rounded - exact) / width
    assert above.min() >= -1e-14
    assert above.max() == pytest.approx(3.0 / 16.0, rel=1e-9)
    assert above[1000] == above.max()  # where the kink is
    outside = np.abs(residuals) >= width * (1.0 + 1e-9)
    np.testing.assert_allclose(rounded[outside], exact[outside], rtol=1e-14)
    assert (above[~outside & (np.abs(residuals) < 0.99 * width)] > 0.0).all()
    assert Quantile(level).rounded(width) == SmoothedQuantile(level, width)
    assert SmoothedQuantile(level, 0.7).rounded(width) == SmoothedQuantile(level, 0.7)


@every_level
def test_the_rounded_loss_is_twice_continuously_differentiable(level: float) -> None:
    loss, residuals = SmoothedQuantile(level, 0.5), np.linspace(-1.0, 1.0, 20_001)
    value, slope, bend = (at(loss, residuals, what) for what in ("values", "gradient", "hessian"))
    step = residuals[1] - residuals[0]
    # Derivatives are by the margin, which falls as the residual grows.
    np.testing.assert_allclose(-np.gradient(value, step)[1:-1], slope[1:-1], atol=2e-8)
    np.testing.assert_allclose(-np.gradient(slope, step)[1:-1], bend[1:-1], atol=2e-4)
    assert np.abs(np.diff(bend)).max() < 1e-3  # no jump: 1e-4 of the range of residuals a step
    assert bend.max() == pytest.approx(0.75 / 0.5)
    assert slope.min() == pytest.approx(-level)
    assert slope.max() == pytest.approx(1.0 - level)


@every_level
def test_a_rounded_slope_is_a_subgradient_up_to_the_slack(level: float, rng: np.random.Generator) -> None:
    """rho(v) >= rho(u) + s (v - u) - slack, for the slope s of the rounded loss at u and any v."""
    width = 0.4
    loss, u = SmoothedQuantile(level, width), rng.uniform(-3 * width, 3 * width, 500)
    slope, slack = -at(loss, u, "gradient"), at(loss, u, "slack")
    assert (slack >= 0.0).all()
    assert (slack[np.abs(u) >= width] == 0.0).all()
    assert (slack[np.abs(u) < 0.9 * width] > 0.0).all()
    assert slack.max() < width / 8  # its size matters too: widths shrink until it is small enough
    v = np.concatenate([rng.normal(scale=s, size=200) for s in (0.1, 1.0, 100.0)])[:, None]
    gap = check(v, level) - (check(u, level) + slope * (v - u) - slack)
    assert gap.min() >= -1e-13 * np.abs(v).max()
    # No smaller slack would do: at v = 0 there is equality.
    np.testing.assert_allclose(slack, check(u, level) - slope * u, atol=1e-15)


# What is refused


@pytest.mark.parametrize("level", [0.0, 1.0, -0.2, 1.5, math.nan, math.inf])
@pytest.mark.parametrize("name", ["quantile", "smoothed-quantile", "quantiles"])
def test_a_level_outside_zero_and_one_is_refused(name: str, level: float) -> None:
    with pytest.raises(InputError, match=f"loss '{name}': levels? = {level} must be a number from 1e-06 to 0.999999"):
        build("loss", LOSSES, f"{name}:{level}")


@pytest.mark.parametrize("levels", [(0.5, 0.1), (0.5, 0.5), (0.1, 0.9, 0.5), tuple(np.linspace(0.001, 0.999, 101))])
def test_levels_out_of_order_or_too_many_are_refused(levels: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match=r"levels \(.*\) must be 1 to 100 numbers in increasing order"):
        Quantiles(levels)
    assert len(Quantiles(tuple(np.linspace(0.001, 0.999, 100))).levels) == 100


def test_no_level_at_all_is_refused() -> None:
    with pytest.raises(InputError, match="must be 1 to 100 numbers"):
        Quantiles(())


@pytest.mark.parametrize("width", [0.0, -1.0, math.nan, math.inf])
def test_a_width_that_is_not_positive_is_refused(width: float) -> None:
    with pytest.raises(InputError, match=rf"'smoothed-quantile': width = {width} must be a number from 1e-12 to"):
        SmoothedQuantile(0.5, width)
    if width != 0.0:  # which is a kink
        with pytest.raises(InputError, match=f"'quantiles': width = {width} must be 0 or a number from 1e-12"):
            Quantiles((0.1, 0.9), width)


# Several levels


@pytest.mark.parametrize("width", [0.0, 0.3])
@pytest.mark.parametrize("levels", [(0.4,), (0.1, 0.5, 0.8)])
def test_several_levels_are_the_sum_of_each(levels: tuple[float, ...], width: float, rng: np.random.Generator) -> None:
    loss, columns, agents = Quantiles(levels, width), 4, 3
    alone = [SmoothedQuantile(level, width) if width else Quantile(level) for level in levels]
    owner = np.repeat(np.arange(agents), [5, 9, 600])
    shards = gather(rng.normal(size=(614, columns)), rng.normal(size=614), owner, norm_bound=9.0)
    weights, x = rng.uniform(0.1, 1.0, agents), rng.normal(size=(agents, columns * len(levels)))
    matrix = x.reshape(agents, columns, len(levels))  # a column of it for every level
    assert loss.dimension(columns, 0) == x.shape[1]
    assert loss.outputs(0) == len(levels)
    assert loss.twice_differentiable == (width > 0.0)

    def each(what: str) -> list[Any]:
        return [getattr(one, what)(shards, matrix[:, :, k].copy(), weights) for k, one in enumerate(alone)]

    np.testing.assert_allclose(loss.values(shards, x, weights), np.sum(each("values"), axis=0), rtol=1e-14)
    gradient = loss.gradient(shards, x, weights).reshape(matrix.shape)
    for k, own in enumerate(each("gradient")):
        np.testing.assert_array_equal(gradient[:, :, k], own)
    hessian = loss.hessian(shards, x, weights).reshape(agents, columns, len(levels), columns, len(levels))
    for k, own in enumerate(each("hessian")):
        np.testing.assert_array_equal(hessian[:, :, k, :, k], own)
        np.testing.assert_array_equal(np.delete(hessian[:, :, k], k, axis=3), 0.0)
    assert hessian.any() == (width > 0.0)
    if width:
        np.testing.assert_allclose(loss.slack(shards, x, weights), np.sum(each("slack"), axis=0), rtol=1e-14)
    rows = shards.real_rows
    predicted = loss.predictions(rows, x)
    assert predicted.shape == (agents, 614, len(levels))
    np.testing.assert_allclose(predicted, np.einsum("mp,apk->amk", rows, matrix), atol=1e-13)
    targets = rng.normal(size=614)
    errors = np.mean([[check(targets - p[:, k], level).mean() for k, level in enumerate(levels)] for p in predicted], 1)
    np.testing.assert_allclose(loss.errors(rows, targets, x), errors, rtol=1e-12)


def test_one_number_makes_one_level_and_a_list_several() -> None:
    assert build("loss", LOSSES, "quantiles:0.3") == Quantiles((0.3,))
    assert build("loss", LOSSES, "quantiles:0.3,0.6:0.1") == Quantiles((0.3, 0.6), 0.1)
    assert Quantiles((0.3, 0.6)).rounded(0.2) == Quantiles((0.3, 0.6), 0.2)
    assert Quantiles((0.3, 0.6), 0.1).rounded(0.2) == Quantiles((0.3, 0.6), 0.1)
