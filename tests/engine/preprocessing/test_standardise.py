"""Rows standardised by released moments: what they become, how long at most, and models in the old coordinates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from dpadmm.engine.preprocessing.standardise import BOUND, CONSTANT, LOUD, Standard, standard
from dpadmm.problems.shards import Shards, gather
from dpadmm.release.rows import LARGEST_SQUARE, SIDE, cell

WHOLE = math.hypot(1.0, CONSTANT)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(12)


def of_rows(rows: Any, bound: float, intercept: bool) -> Shards:
    rows = np.asarray(rows)
    owner = np.zeros(len(rows), dtype=int)
    return gather(rows, np.zeros(len(rows)), owner, norm_bound=bound, intercept=intercept)


def moments(rows: NDArray[Any], bound: float) -> NDArray[Any]:
    """What an exact release would say."""
    return np.concatenate([bound * rows.mean(axis=0), (rows**2).mean(axis=0)])


def uneven(rng: np.random.Generator, bound: float = 2.0, width: int = 4) -> NDArray[Any]:
    """Columns of different sizes and means, no row over the bound, as records are kept: in whole cells."""
    rows = rng.normal(size=(4000, width)) * np.geomspace(1.0, 0.01, width) + rng.normal(size=width)
    rows *= 0.999 * bound / np.linalg.norm(rows, axis=1).max()
    cell = math.hypot(bound, 1.0) / SIDE
    return np.rint(rows / cell) * cell


# What rows become


@pytest.mark.parametrize("bound", [0.5, 2.0, 30.0])
def test_with_exact_moments_columns_have_mean_zero_and_equal_variances(rng: np.random.Generator, bound: float) -> None:
    rows = uneven(rng, bound)
    view = standard(moments(rows, bound), 0.0, bound, intercept=True, tight=True)
    shown = view.shown(of_rows(rows, bound, intercept=True), True).real_rows
    assert shown.shape == (4000, 5)
    np.testing.assert_allclose(shown[:, :4].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(shown[:, :4].var(axis=0), 1.0 / (4 * WHOLE**2), rtol=1e-8)
    # In the mean square, rows are as long as the longest that is left in, and the constant stands beside it.
    assert (shown[:, :4] ** 2).sum(axis=1).mean() == pytest.approx(view.length**2, rel=1e-8)
    np.testing.assert_allclose(shown[:, 4], view.constant, rtol=1e-15)
    assert math.hypot(view.length, view.constant) == pytest.approx(BOUND)
    assert view.constant / view.length == pytest.approx(CONSTANT)


def test_what_is_shown_is_what_rounds_run_on_but_for_the_clipping(rng: np.random.Generator) -> None:
    rows = uneven(rng)
    view, shards = standard(moments(rows, 2.0), 0.0, 2.0, True, True), of_rows(rows, 2.0, intercept=True)
    shown, run = view.shown(shards, True), view.rows(shards, True)
    lengths = np.linalg.norm(shown.real_rows[:, :-1], axis=1)
    short = lengths <= view.length
    assert 0.2 < short.mean() < 0.8
    # Integers again: to nearest, and truncated where a row at the bound was shrunk.
    close = {"rtol": 0.0, "atol": 1.51 * run.cell}
    np.testing.assert_allclose(run.real_rows[short], shown.real_rows[short], **close)
    np.testing.assert_allclose(
        run.real_rows[~short, :-1], shown.real_rows[~short, :-1] * (view.length / lengths[~short, None]), **close
    )
    constant = run.real_rows[:, -1]  # a whole number of cells below, and truncated as well
    np.testing.assert_allclose(constant, view.constant, rtol=0.0, atol=2.01 * run.cell)
    assert run.norm_bound == BOUND
    np.testing.assert_array_equal(run.features, np.rint(run.features))
    for made in (shown, run):
        np.testing.assert_array_equal(made.targets, shards.targets)
        np.testing.assert_array_equal(made.starts, shards.starts)
        assert made.features.flags.c_contiguous


def test_without_an_intercept_nothing_is_centred_and_there_is_no_constant(rng: np.random.Generator) -> None:
    rows = uneven(rng)
    view = standard(moments(rows, 2.0), 0.0, 2.0, intercept=False, tight=True)
    np.testing.assert_array_equal(view.centre, 0.0)
    assert view.constant == 0.0
    assert view.length == BOUND
    shards = of_rows(rows, 2.0, intercept=False)
    view = standard(moments(shards.real_rows, 2.0), 0.0, 2.0, intercept=False, tight=True)
    shown = view.shown(shards, False).real_rows
    assert shown.shape == rows.shape
    np.testing.assert_allclose((shown**2).mean(axis=0), 0.25, rtol=1e-8)
    np.testing.assert_allclose(shown, shards.real_rows * view.scale, rtol=1e-12)


def test_a_column_that_never_changes_is_not_blown_up_where_there_is_noise(rng: np.random.Generator) -> None:
    rows = np.hstack([0.3 * rng.normal(size=(1000, 2)), np.full((1000, 1), 0.5)])
    rows *= 1.0 / np.linalg.norm(rows, axis=1).max()
    noise = 1e-3
    view = standard(moments(rows, 1.0), noise, 1.0, True, True)
    assert view.scale[2] <= 1.0 / math.sqrt(noise)
    assert view.scale[2] > view.scale[:2].max()


def test_louder_noise_shortens_what_it_drowns(rng: np.random.Generator) -> None:
    exact = moments(uneven(rng, 1.0), 1.0)
    scales = [standard(exact, noise, 1.0, True, True) for noise in (0.0, 1e-4, 1e-2)]
    ratios = [view.scale[-1] / view.scale[0] for view in scales]
    assert ratios[0] > ratios[1] > ratios[2] >= 1.0


# How long at most

LARGE = 1e100
some_moments = arrays(
    float,
    6,
    elements=st.one_of(
        st.floats(-2.0, 2.0), st.floats(-LARGE, LARGE), st.sampled_from([0.0, -0.0, 1e-300, -1.0, 1e30, -1e30])
    ),
)


@given(
    some_moments,
    arrays(float, (5, 3), elements=st.floats(-5.0, 5.0)),
    st.sampled_from([0.0, 1e-9, 1e-3, 1.0, 1e6]),
    st.sampled_from([0.1, 1.0, 7.0]),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=300)
def test_no_row_is_longer_than_the_bound_whatever_was_released(
    released: Any, rows: Any, deviation: float, bound: float, intercept: bool, tight: bool
) -> None:
    view = standard(released, deviation, bound, intercept, tight)
    run = view.rows(of_rows(rows, bound, intercept), intercept)
    np.testing.assert_array_equal(run.features, np.rint(run.features))  # and finite
    assert ((run.features.astype(np.int64) ** 2).sum(axis=1) <= LARGEST_SQUARE).all()
    assert run.cell == BOUND / SIDE
    assert run.norm_bound == BOUND
    assert run.width == 3 + intercept
    assert np.isfinite(view.scale).all()
    assert (view.scale > 0.0).all()


def test_rows_that_are_clipped_reach_the_bound(rng: np.random.Generator) -> None:
    rows = uneven(rng)
    view = standard(moments(rows, 2.0), 0.0, 2.0, True, True)
    run = view.rows(of_rows(rows, 2.0, True), True)
    assert BOUND * (1.0 - 1e-5) <= np.linalg.norm(run.real_rows, axis=1).max() <= BOUND


# Models in the coordinates that rows came in


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_lifted_model_says_of_a_row_what_the_model_says_of_what_is_shown(
    rng: np.random.Generator, intercept: bool, outputs: int
) -> None:
    rows = uneven(rng)[:50]
    view = standard(moments(rows, 2.0) + 0.01 * rng.normal(size=8), 0.01, 2.0, intercept, True)
    shards = of_rows(rows, 2.0, intercept)
    shown = view.shown(shards, intercept).real_rows
    models = 3.0 * rng.normal(size=(7, (4 + intercept) * outputs))
    lifted = view.models(models, intercept)
    assert lifted.shape == models.shape
    given = shards.real_rows.copy()
    given[:, 4:] = 1.0  # the intercept's one is a whole number of cells, and a little less
    for model, whole in zip(models, lifted, strict=True):
        np.testing.assert_allclose(given @ whole.reshape(-1, outputs), shown @ model.reshape(-1, outputs), atol=1e-11)


@given(arrays(float, 5, elements=st.floats(-10.0, 10.0)), arrays(float, 3, elements=st.floats(-1.0, 1.0)))
@settings(max_examples=50)
def test_lifting_is_exact_for_any_view(model: Any, row: Any) -> None:
    view = Standard(np.array([0.3, -2.0, 0.0, 1.0]), np.array([1.0, 30.0, 0.01, 2.0]), 0.9, 0.17)
    row = np.append(row, 0.4)
    units = np.append(row, 1.0)[None] / cell(9.0)
    shards = Shards(units, np.zeros(1), np.zeros(1, int), np.ones(1, int), 9.0, ("me",))
    direct = model[:4] @ ((row - view.centre) * view.scale) + model[4] * view.constant
    assert view.shown(shards, True).real_rows[0] @ model == pytest.approx(direct, rel=1e-12, abs=1e-10)
    assert np.append(row, 1.0) @ view.models(model[None], True)[0] == pytest.approx(direct, rel=1e-12, abs=1e-9)


# Means, and how loud is loud


def test_means_are_drawn_towards_zero_by_what_noise_has_drawn_them_apart(rng: np.random.Generator) -> None:
    means, squares = 0.1 * rng.normal(size=50), np.full(50, 0.02)
    released = np.concatenate([means, squares])
    exact = standard(released, 0.0, 1.0, True, True)
    np.testing.assert_array_equal(exact.centre, means)
    for noise in (1e-3, 0.02, 0.05):
        told = (means**2).mean() - noise**2
        found = standard(released, noise, 1.0, True, True).centre
        np.testing.assert_allclose(found, means * told / (told + noise**2), rtol=1e-12)
        assert (np.abs(found) < np.abs(means)).all()
    drowned = standard(released, 0.5, 1.0, True, True)
    np.testing.assert_array_equal(drowned.centre, 0.0)  # all of it may be noise


def test_shrunken_means_are_nearer_to_the_true_ones(rng: np.random.Generator) -> None:
    true, noise = 0.05 * rng.normal(size=200), 0.05
    seen = true + noise * rng.normal(size=200)
    found = standard(np.concatenate([seen, np.full(200, 0.01)]), noise, 1.0, True, True).centre
    assert np.linalg.norm(found - true) < 0.8 * np.linalg.norm(seen - true)


def test_under_loud_noise_tight_rows_are_clipped_to_what_is_left_without_it(rng: np.random.Generator) -> None:
    """Negative variances balance those that are too large, and so scales are larger; quiet noise knows no switch."""
    squares = 0.02 + np.array([1.0, -1.0] * 10) * 0.1
    released = np.concatenate([np.zeros(20), squares])
    below, above = 0.9 * LOUD / 20, 1.1 * LOUD / 20
    quiet = [standard(released, below, 1.0, True, tight) for tight in (False, True)]
    np.testing.assert_array_equal(quiet[0].scale, quiet[1].scale)
    wide, tight = (standard(released, above, 1.0, True, tight) for tight in (False, True))
    assert (tight.scale > wide.scale).all()
    np.testing.assert_allclose(tight.scale / wide.scale, (tight.scale / wide.scale)[0], rtol=1e-12)
    np.testing.assert_array_equal(tight.centre, wide.centre)
    assert (tight.length, tight.constant) == (wide.length, wide.constant)


def test_units_do_not_matter(rng: np.random.Generator) -> None:
    """Rows in other units, with the bound and the noise that belong to them, become the same rows."""
    rows = uneven(rng, 1.0)[:100]
    released = moments(rows, 1.0) + 1e-3 * rng.normal(size=8)
    one = standard(released, 1e-3, 1.0, False, True)
    other = standard(released * 49.0, 1e-3 * 49.0, 7.0, False, True)
    np.testing.assert_allclose(
        other.shown(of_rows(7.0 * rows, 7.0, False), False).real_rows,
        one.shown(of_rows(rows, 1.0, False), False).real_rows,
        atol=1e-12,
    )
