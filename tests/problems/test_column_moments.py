"""Sums of columns and of their squares as a gradient: what they are, how far one row moves them, and their noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpadmm._registry import build
from dpadmm.admm.algorithm import Plan
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy import gaussian
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses import STATISTICS, ColumnMoments
from dpadmm.problems.shards import gather
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec import resolve
from dpadmm.spec.declare import RunSpec


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def fixed(rows: Any) -> NDArray[Any]:
    """The nearest rows whose numbers are multiples of 2^-12: with a norm bound of 1,024 they are kept as they are."""
    return np.rint(np.asarray(rows) * 2.0**12) / 2.0**12


def released(rows: Any, weights: Any, owner: Any = None, scale: float = 1.0, **rules: Any) -> NDArray[Any]:
    """The gradient over these rows, at a point that cannot matter."""
    owner = np.zeros(rows.shape[0], dtype=int) if owner is None else owner
    loss = ColumnMoments(scale)
    shards = gather(rows, np.zeros(rows.shape[0]), owner, **({"norm_bound": 1024.0} | rules))
    x = np.random.default_rng(0).normal(size=(shards.agents, loss.dimension(shards.width, 0)))
    return loss.gradient(shards, x, np.asarray(weights, dtype=float))


# What it is


@pytest.mark.parametrize("width", [1, 4, 20])
@pytest.mark.parametrize("scale", [1.0, 0.25, 7.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_gradient_is_the_weighted_sum_of_columns_and_of_squares(
    rng: np.random.Generator, width: int, scale: float, sparse: bool
) -> None:
    owner = np.repeat([0, 1, 2], [1, 1200, 30])  # one agent has several chunks
    rows = fixed(rng.normal(size=(1231, width)) * (rng.random((1231, width)) < 0.6))
    found = released(csr_array(rows) if sparse else rows, [1.0, 0.1, 2.5], owner, scale)
    assert found.shape == (3, 2 * width)
    for agent, weight in enumerate([1.0, 0.1, 2.5]):
        mine = rows[owner == agent]
        expected = weight * np.concatenate([scale * mine.sum(axis=0), (mine**2).sum(axis=0)])
        np.testing.assert_allclose(found[agent], expected, atol=1e-11)


def test_it_is_linear_so_the_model_does_not_matter_and_values_are_inner_products(rng: np.random.Generator) -> None:
    loss = ColumnMoments(2.5)
    rows, x = fixed(rng.normal(size=(9, 3))), rng.normal(size=(1, 6))
    shards = gather(rows, np.zeros(9), np.zeros(9, dtype=int), norm_bound=16.0)
    np.testing.assert_array_equal(loss.gradient(shards, x, np.ones(1)), loss.gradient(shards, 1e3 * x, np.ones(1)))
    each = 2.5 * rows @ x[0, :3] + rows**2 @ x[0, 3:]
    assert loss.values(shards, x, np.ones(1))[0] == pytest.approx(each.sum())
    np.testing.assert_array_equal(loss.hessian(shards, x, np.ones(1)), np.zeros((1, 6, 6)))
    assert loss.curvature_bound(9.0) == 0.0
    np.testing.assert_allclose(loss.predictions(rows, x)[0], each)
    np.testing.assert_allclose(loss.predictions(csr_array(rows), x)[0], each)
    np.testing.assert_array_equal(loss.encode(np.array([math.nan, 3.0]), 0), [0.0, 0.0])
    assert loss.dimension(3, 0) == 6


@pytest.mark.parametrize("sparse", [False, True])
def test_sums_are_exact_of_the_integer_rows(rng: np.random.Generator, sparse: bool) -> None:
    """2,000 rows that add up, of either type: not as float32 would add them, nor as float64 would."""
    rows = np.abs(rng.normal(size=(2000, 5))).astype(np.float32)
    shards = gather(rows, np.zeros(2000), np.zeros(2000, dtype=int), norm_bound=1024.0)
    whole, cell = shards.features.astype(np.int64), shards.cell
    exact = np.concatenate([whole.sum(axis=0) * cell, (whole**2).sum(axis=0) * cell**2])
    for kind in (np.float32, np.float64):
        table = rows.astype(kind)
        found = released(csr_array(table) if sparse else table, [1.0])[0]
        np.testing.assert_allclose(found, exact, rtol=1e-13)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_that_is_no_positive_number_is_refused(scale: float) -> None:
    with pytest.raises(InputError, match=f"loss 'column-moments': scale = {scale!r} must be a number from 1e-09 to"):
        ColumnMoments(scale)


def test_its_scale_is_read_back_from_its_text() -> None:
    for scale in (1.0, 1.0 / 3.0, 12.5):
        assert build("loss", STATISTICS, f"column-moments:{scale!r}") == ColumnMoments(scale)
    assert build("loss", STATISTICS, "column-moments") == ColumnMoments(1.0)


# How far one row moves it


def moved(one: Any, other: Any, bound: float, scale: float = 1.0, norm: int = 2) -> float:
    """Between two agents that differ in their last row; None: it is blanked."""
    others = np.random.default_rng(5).normal(size=(4, len(one)))
    blank = np.zeros_like(one)
    pair = [
        released(np.vstack([others, row]), [1.0], scale=scale, norm_bound=bound)[0]
        for row in (one, blank if other is None else other)
    ]
    return float(np.linalg.norm(pair[0] - pair[1], ord=norm))


@pytest.mark.parametrize("bound", [1.0, 3.0])
@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_a_row_along_an_axis_attains_the_bound_of_one_record(bound: float, scale: float) -> None:
    loss, u = ColumnMoments(scale), bound * np.eye(4)[0]
    limit = loss.sensitivity(bound, Relation.ZERO_OUT)
    assert limit == loss.gradient_bound(bound) == pytest.approx(math.hypot(scale * bound, bound**2))
    assert moved(u, None, bound, scale) == pytest.approx(limit)
    assert moved(u, None, bound, scale, norm=1) == pytest.approx(loss.sensitivity(bound, Relation.ZERO_OUT, 1))


def worst(bound: float, scale: float) -> float:
    """The farthest that two rows can be apart, by their sum and difference: for sums that are orthogonal to the
    differences, s² of the latter squared length, c² s² + s² (4R² - s²) / 2."""
    s2 = min(scale**2 + 2.0 * bound**2, 4.0 * bound**2)
    return math.sqrt(s2 * (scale**2 + 2.0 * bound**2 - s2 / 2.0))


@pytest.mark.parametrize("bound", [1.0, 3.0])
@pytest.mark.parametrize("share", [0.5, 1.0, 1.4, 4.0])
def test_the_bound_of_a_replaced_record_is_attained(bound: float, share: float) -> None:
    """Opposite rows move the first half only, orthogonal ones both; the worst pair lies between."""
    scale = share * bound
    half = math.sqrt(min(share**2 + 2.0, 4.0)) / 2.0 * bound  # of the rows' difference
    rest = math.sqrt(max(bound**2 - half**2, 0.0))  # of their sum
    u, v = np.array([1.0, 1.0, 0.0]) / math.sqrt(2.0), np.array([1.0, -1.0, 0.0]) / math.sqrt(2.0)
    one, other = half * u + rest * v, -half * u + rest * v
    assert np.linalg.norm(one) == pytest.approx(bound)
    found, limit = moved(one, other, bound, scale), ColumnMoments(scale).sensitivity(bound, Relation.REPLACE)
    assert limit == pytest.approx(worst(bound, scale), rel=1e-12)
    assert limit * (1.0 - 3e-6) <= found <= limit * (1.0 + 1e-12)  # rows on the bound are shortened by a cell


def test_rows_that_share_no_column_attain_the_bound_in_the_1_norm() -> None:
    u, v = 3.0 * np.eye(4)[:2]
    limit = ColumnMoments(2.0).sensitivity(3.0, Relation.REPLACE, 1)
    assert limit == 2.0 * (2.0 * 3.0 + 9.0)
    assert moved(u, v, 3.0, 2.0, norm=1) == pytest.approx(limit)


row_of_length_two = arrays(float, 3, elements=st.floats(-2.0, 2.0)).map(
    lambda row: row * min(1.0, 2.0 / max(float(np.linalg.norm(row)), 1e-300))
)


@given(row_of_length_two, row_of_length_two, st.sampled_from([0.3, 1.0, 2.0, 5.0]))
@settings(max_examples=100)
def test_no_pair_exceeds_it(one: Any, other: Any, scale: float) -> None:
    loss = ColumnMoments(scale)
    assert moved(one, other, 2.0, scale) <= loss.sensitivity(2.0, Relation.REPLACE) * (1.0 + 1e-12)
    assert moved(one, other, 2.0, scale) <= worst(2.0, scale) * (1.0 + 1e-12)
    assert moved(one, None, 2.0, scale) <= loss.sensitivity(2.0, Relation.ZERO_OUT) * (1.0 + 1e-12)
    for relation, pair in ((Relation.REPLACE, other), (Relation.ZERO_OUT, None)):
        limit = loss.sensitivity(2.0 * math.sqrt(3.0), relation, 1)
        assert moved(one, pair, 2.0, scale, norm=1) <= limit * (1.0 + 1e-12)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("width", [1, 2, 6])
def test_no_pair_of_ten_thousand_exceeds_it(rng: np.random.Generator, scale: float, width: int) -> None:
    """Rows at the bound, many of them along axes or nearly opposite, where the pairs lie that go far."""
    rows = rng.normal(size=(2, 10_000, width)) * (rng.random((2, 10_000, width)) < 0.7)
    rows[1, :5000] = -rows[0, :5000] + 0.5 * rng.normal(size=(5000, width))
    rows /= np.maximum(np.linalg.norm(rows, axis=2, keepdims=True), 1e-300)
    moments = np.concatenate([scale * rows, rows**2], axis=2)
    farthest = float(np.linalg.norm(moments[0] - moments[1], axis=1).max())
    limit = ColumnMoments(scale).sensitivity(1.0, Relation.REPLACE)
    assert 0.5 * limit < farthest <= limit


# The release


def planned(counts: Any, width: int, **terms: Any) -> Plan:
    run = RunSpec("private-column-moments", rounds=1, penalty="none", strength=0.0, **terms)
    return resolve.plan(run, np.asarray(counts), width, 0)


@pytest.mark.parametrize("relation", ["replace", "zero-out"])
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_its_event_is_a_gaussian_one_of_its_own_noise(relation: str, scale: float) -> None:
    """The multiplier is the calibrated one: mu = 1/z of the whole budget, for each agent by its own records."""
    counts = np.array([50, 400])
    terms = {"epsilon": 2.0, "delta": 1e-5, "norm_bound": 3.0, "relation": relation}
    plan = planned(counts, 5, loss=f"column-moments:{scale!r}", **terms)
    for event, z in zip(plan.events(1), plan.noise[0].mechanism.noise_multiplier, strict=True):
        assert isinstance(event, GaussianDpEvent)
        assert event.noise_multiplier == pytest.approx(z, rel=1e-12)
        assert 1.0 / z == pytest.approx(gaussian.mu(2.0, 1e-5), rel=1e-7)
    unit = ColumnMoments(scale).sensitivity(3.0, Relation.parse(relation))
    np.testing.assert_allclose(plan.setting.gradient_sensitivity(), unit / counts, rtol=1e-6)
    spent = plan.accounts().worst(1e-5)
    assert spent.accountant == "exact"
    assert 0.999999 * 2.0 <= spent.epsilon <= 2.0


def test_the_noise_is_white_and_as_loud_as_the_sensitivity_says(rng: np.random.Generator) -> None:
    """Over 4,000 releases: mean, standard deviations, and no two numbers that go together."""
    width, runs = 3, 4000
    rows = rng.normal(size=(60, width))
    shards = gather(rows, np.zeros(60), np.repeat([0, 1], [20, 40]), norm_bound=2.0)
    plan = planned(shards.counts, width, noise_multiplier=3.0, delta=1e-5, norm_bound=2.0, loss="column-moments:2.0")
    cohort = Cohort.of(plan, shards, range(runs), SeededRandomness(3))
    (state,) = rounds(cohort, SimulationState.of(cohort), InProcessExecutor())
    given_away = state.agents.released.reshape(runs, 2, -1)
    loss = ColumnMoments(2.0)
    silent = loss.gradient(shards, np.zeros((2, 2 * width)), 1.0 / shards.counts)
    for agent, count in enumerate(shards.counts):
        s = 3.0 * loss.sensitivity(2.0, Relation.REPLACE) / count
        noise = given_away[:, agent] - silent[agent]
        assert np.abs(noise.mean(axis=0)).max() < 5.0 * s / math.sqrt(runs)
        covariance = np.cov(noise.T)
        np.testing.assert_allclose(np.diag(covariance), s**2, rtol=0.15)
        assert np.abs(covariance[np.triu_indices(2 * width, 1)]).max() < 5.0 * s**2 / math.sqrt(runs)
    # From zero, one step of length one along the mean: what is broadcast is minus the mean of the releases.
    np.testing.assert_allclose(state.shared.model, -given_away.mean(axis=1), rtol=1e-12)


def test_a_recipe_of_a_statistic_goes_with_it_and_with_no_loss() -> None:
    for algorithm, loss in (
        ("private-column-moments", "logistic"),
        ("column-moments", "quantile"),
        ("dp-accelerated", "column-moments"),
    ):
        with pytest.raises(InputError, match=f"algorithm '{algorithm}' does not go with loss '{loss}'"):
            resolve.problem(RunSpec(algorithm, loss=loss))
    assert isinstance(resolve.problem(RunSpec("private-column-moments")).loss, ColumnMoments)
    assert ALGORITHMS["private-column-moments"].twin == "column-moments"
