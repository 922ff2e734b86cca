"""Quantiles that do not cross: the set says what it promises, and a projection onto it is the nearest model."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csc_array, diags_array

from dpadmm._registry import build
from dpadmm.errors import ConvergenceError, InputError
from dpadmm.problems.sets import SETS, Ball, Intersection, NonCrossing, Polyhedron
from dpadmm.problems.sets.conic.newton import Answer, Question
from dpadmm.problems.sets.conic.projector import ConicProjector
from dpadmm.problems.sets.non_crossing import Independent

SHAPES = [(3, 2, 1.0), (11, 5, 3.0), (4, 3, 0.2), (1, 4, 2.0), (6, 2, 10.0)]  # features, levels, radius
shapes = pytest.mark.parametrize(("features", "levels", "radius"), SHAPES)


def gaps(x: Any, levels: int, radius: float) -> Any:
    """The conditions, written down once more: (models, levels - 1), none below zero."""
    table = x.reshape(*x.shape[:-1], -1, levels)
    slopes, intercepts = np.diff(table[..., :-1, :]), np.diff(table[..., -1, :])
    return intercepts - radius * np.sqrt((slopes**2).sum(axis=-2))


def records(rng: np.random.Generator, count: int, features: int, radius: float) -> Any:
    """Records of the ball, half of them on its boundary, and a one at the end of each."""
    a = rng.normal(size=(count, features - 1))
    a *= radius / np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-300)
    a[::2] *= rng.random((len(a[::2]), 1))
    return np.hstack([a, np.ones((count, 1))])


def worst(x: Any, features: int, levels: int, radius: float) -> Any:
    """For every pair of neighbours the record of the ball whose predictions cross most."""
    slopes = np.diff(x.reshape(features, levels))[:-1].T
    away = -radius * slopes / np.maximum(np.linalg.norm(slopes, axis=1, keepdims=True), 1e-300)
    return np.hstack([away, np.ones((levels - 1, 1))])


@shapes
def test_projected_models_keep_the_conditions_and_their_predictions_do_not_cross(
    features: int, levels: int, radius: float
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, features * levels)) * 10.0 ** rng.uniform(-2.0, 3.0, (20, 1))
    a, crossed = records(rng, 3000, features, radius), False
    for before, after in zip(x, NonCrossing(levels, radius).project(x), strict=True):
        size = 1e-13 * (1.0 + radius) * np.abs(before).max()
        assert (gaps(after, levels, radius) >= -size).all()
        every = np.vstack([a, worst(after, features, levels, radius)])
        assert (np.diff(every @ after.reshape(features, levels)) >= -10.0 * size).all()
        crossed |= bool((np.diff(a @ before.reshape(features, levels)) < -1e-3 * np.abs(before).max()).any())
    assert crossed


@shapes
def test_a_model_outside_crosses_at_some_record_of_the_ball(features: int, levels: int, radius: float) -> None:
    rng, domain = np.random.default_rng(1), NonCrossing(levels, radius)
    x = rng.normal(size=(200, features * levels))
    x[::2] = domain.project(x[::2] + 2.0 * np.tile(np.arange(levels), features))
    inside = domain.contains(x)
    assert inside.any()
    assert not inside.all()
    for model, is_in in zip(x, inside, strict=True):
        steps = np.diag(np.diff(worst(model, features, levels, radius) @ model.reshape(features, levels)))
        assert (steps >= -1e-8).all() == is_in


@shapes
def test_no_member_is_nearer_than_the_projection(features: int, levels: int, radius: float) -> None:
    rng, domain = np.random.default_rng(2), NonCrossing(levels, radius)
    x = rng.normal(size=(30, features * levels)) * 10.0 ** rng.uniform(-1.0, 2.0, (30, 1))
    nearest = domain.project(x)
    # Members that no solver made: intercepts apart by what the slopes need, and more.
    others = rng.normal(size=(4000, features, levels)) * 10.0 ** rng.uniform(-3.0, 2.0, (4000, 1, 1))
    need = radius * np.linalg.norm(np.diff(others[:, :-1]), axis=1) * (1.0 + rng.exponential(size=(4000, levels - 1)))
    others[:, -1, 1:] = others[:, -1, :1] + np.cumsum(need, axis=1)
    others = others.reshape(4000, -1)
    assert domain.contains(others[:50]).all()
    for point, found in zip(x, nearest, strict=True):
        size = np.abs(point).max()
        blends = found + rng.random((4000, 1)) ** 4 * (others * size - found)  # also those next to it
        assert np.linalg.norm(blends - point, axis=1).min() >= math.dist(found, point) - 1e-12 * size
        assert ((others - found) @ (point - found)).max() <= 1e-9 * size * np.abs(others).max()
    # A cone's projection is orthogonal to what is left.
    assert np.abs((nearest * (x - nearest)).sum(axis=1)).max() <= 1e-9 * np.abs(x).max() ** 2


@shapes
def test_members_stay_as_they_are(features: int, levels: int, radius: float) -> None:
    rng, domain = np.random.default_rng(3), NonCrossing(levels, radius)
    table = rng.normal(size=(40, features, 1)) + 0.1 * rng.normal(size=(40, features, levels))
    room = radius * np.linalg.norm(np.diff(table[:, :-1]), axis=1) + 1e-6
    table[:, -1, 1:] = table[:, -1, :1] + np.cumsum(room, axis=1)
    inside = np.vstack([table.reshape(40, -1), 1e8 * table.reshape(40, -1), np.zeros((1, features * levels))])
    np.testing.assert_array_equal(domain.project(inside), inside)
    assert domain.contains(inside, 0.0).all()
    projected = domain.project(-table.reshape(40, -1))
    np.testing.assert_array_equal(domain.project(projected), projected)


@shapes
def test_two_levels_have_a_formula(features: int, levels: int, radius: float) -> None:
    """The difference is projected onto a circular cone, and each level moves by half of what it moves."""
    x = np.random.default_rng(4).normal(size=(40, features, 2))
    difference = x[:, :, 1] - x[:, :, 0]
    top, rest = difference[:, -1], difference[:, :-1]
    length = np.linalg.norm(rest, axis=1)
    rise = np.maximum((top + length / radius) / (1.0 + radius**-2), 0.0)
    ray = np.column_stack([rest * (rise / radius / np.maximum(length, 1e-300))[:, None], rise])
    moved = np.where((radius * length <= top)[:, None], difference, ray) - difference
    expected = x + 0.5 * moved[:, :, None] * np.array([-1.0, 1.0])
    found = NonCrossing(2, radius).project(x.reshape(40, -1))
    np.testing.assert_allclose(found, expected.reshape(40, -1), rtol=0.0, atol=1e-12)


def test_with_intercepts_alone_it_is_an_order() -> None:
    x = 10.0 * np.random.default_rng(5).normal(size=(50, 6))
    rows = np.eye(6)[:-1] - np.eye(6, k=1)[:-1]
    ordered = NonCrossing(6, 7.0).project(x)
    assert (np.diff(ordered) >= 0.0).all()
    np.testing.assert_allclose(ordered, Polyhedron(rows, np.zeros(5)).project(x), rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(ordered.mean(axis=1), x.mean(axis=1), atol=1e-9)


def test_crossed_intercepts_meet_and_what_levels_share_stays() -> None:
    domain = NonCrossing(2, 1.0)
    np.testing.assert_allclose(domain.project(np.array([5.0, 5.0, 3.0, 1.0])), [5.0, 5.0, 2.0, 2.0], atol=1e-12)
    # Slopes 0 and 2 need intercepts 2 apart; from 0 apart, they meet half way.
    np.testing.assert_allclose(domain.project(np.array([0.0, 2.0, 0.0, 0.0])), [0.5, 1.5, -0.5, 0.5], atol=1e-12)
    x, shift = np.random.default_rng(6).normal(size=(2, 10, 4, 3))
    first, domain = x.reshape(10, 12), NonCrossing(3, 2.0)
    second = (x + shift[:, :, :1]).reshape(10, 12)
    np.testing.assert_allclose(domain.project(second) - second, domain.project(first) - first, atol=1e-9)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_points_where_slacks_and_multipliers_are_both_zero_are_proven_too(size: float) -> None:
    """Levels 2 and 3 agree before and after, so nothing pushes them apart or together."""
    domain = NonCrossing(3, 1.0)
    x = size * np.vstack([np.eye(6), -np.eye(6), np.ones(6), [[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]]])
    found = domain.project(x)
    assert domain.contains(found, 0.0).all()
    left = x - found
    np.testing.assert_allclose((found * left).sum(axis=1), 0.0, atol=1e-12 * size**2)
    # Moreau: what is left is in the polar cone, so its projection is zero.
    np.testing.assert_allclose(domain.project(left), 0.0, atol=1e-9 * size)
    with pytest.raises(
        ConvergenceError, match=r"'non-crossing in units of 6\.87195e\+10': a projection must be proven"
    ):
        domain.project(6e10 * np.random.default_rng(0).normal(size=(1, 6)).clip(-1.0, 1.0))


def test_the_bound_is_no_less_than_the_distance() -> None:
    """Of points and multipliers that were moved off the right ones, by every size."""
    rng = np.random.default_rng(7)
    domain = NonCrossing(3, 2.0)
    projector = Independent(domain.cone(12), "a", 1e-6)
    tightest = math.inf
    for _ in range(300):
        point = rng.normal(size=12) * (rng.random(12) < 0.7)
        exact = domain.project(point)
        curvature = np.full(12, 10.0 ** rng.uniform(-2.0, 1.0))
        rows = projector.rows
        z = np.linalg.lstsq(rows.T, curvature * (point - exact), rcond=None)[0]
        size = 10.0 ** rng.uniform(-9.0, 0.0)
        moved = Answer(exact + size * rng.normal(size=12), z + size * rng.normal(size=z.size) * (rng.random() < 0.5))
        ask = Question(rows, projector.limits, projector.slacks, curvature, point)
        reached, distance = projector._bound(ask, moved), math.dist(moved.x, exact)
        assert reached >= distance
        tightest = min(tightest, reached / distance)
    assert tightest < 20.0


@pytest.mark.parametrize("size", [1e-3, 1e-6])
@pytest.mark.parametrize("radius", [0.1, 1.0, 7.0])
def test_every_part_of_the_bound_is_needed(size: float, radius: float) -> None:
    """An answer that is wrong in one way only, as far as that can lead; the bound is not much more."""
    domain = NonCrossing(3, radius)
    projector = Independent(domain.cone(12), "a", 1e-6)
    rows, depth = projector.rows, projector.slacks.inwards
    left, values, right = np.linalg.svd(rows, full_matrices=False)

    def reached(point: Any, x: Any, z: Any, curvature: float) -> float:
        ask = Question(rows, projector.limits, projector.slacks, np.full(12, curvature), point)
        return projector._bound(ask, Answer(x, z))

    # Right for another point: one moved along what all levels share, which takes its projection along.
    point = 0.1 * np.random.default_rng(12).normal(size=12)
    exact, away = domain.project(point), size * np.repeat([1.0, -1.0, 2.0, 0.0], 3)
    z = np.linalg.lstsq(rows.T, point - exact, rcond=None)[0]
    assert 0.999 * np.linalg.norm(away) <= reached(point + away, exact, z, 1.0) <= 1.01 * np.linalg.norm(away)
    # A slack where there is none: all levels are to agree, and do not in the direction that slacks tell least of.
    curvature = 1e3
    point, off = rows.T @ depth, size * right[-1]
    z = curvature * (depth - size * left[:, -1] / values[-1])
    assert np.allclose(domain.project(point), 0.0, atol=1e-12)
    assert size <= reached(point, off, z, curvature) <= 2.1 * size
    # A multiplier where there is slack.
    curvature = 1e-3
    point = domain.project(np.linalg.lstsq(rows, -100.0 * depth, rcond=None)[0])
    z = 1e-3 * size * left[:, 0]
    off = rows.T @ z / curvature
    assert np.linalg.norm(off) <= reached(point, point - off, z, curvature) <= 1.1 * np.linalg.norm(off) + 1e-8


def test_only_points_of_the_set_are_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the bound is: rounding may have left them outside."""
    x = np.random.default_rng(11).normal(size=(3, 9))
    plain = ConicProjector._inwards
    monkeypatch.setattr(ConicProjector, "_inwards", lambda self, ask, *rest: plain(self, ask, *rest) + 1e-9 * ask.point)
    with pytest.raises(ConvergenceError, match="must be proven"):
        NonCrossing(3, 2.0).project(x)


def test_dependent_rows_prove_nothing() -> None:
    steep = NonCrossing(2).cone(4)
    cone = replace(steep, rows=csc_array(steep.rows @ diags_array([1e-12, 1e-12, 1.0, 1.0])))  # a radius next to none
    projector = Independent(cone, "flat", 1e-6)
    assert projector.stretch == math.inf
    x = np.random.default_rng(8).normal(size=(5, 4))
    np.testing.assert_allclose(projector.nearest(x), ConicProjector(cone).nearest(x), rtol=0.0, atol=1e-12)


def test_it_goes_together_with_other_sets() -> None:
    """Around zero, a ball's projection after a cone's is that onto both."""
    x = np.random.default_rng(10).normal(size=(20, 12))
    domain = NonCrossing(3, 1.0)
    both = Intersection([Ball(1.5), domain])
    both.check(12)
    assert both.diameter(12) == 3.0
    np.testing.assert_allclose(both.project(x), Ball(1.5).project(domain.project(x)), rtol=0.0, atol=2e-6)


def test_it_is_unbounded_and_made_by_name() -> None:
    assert build("set", SETS, "non-crossing:5:3") == NonCrossing(5, 3.0)
    assert build("set", SETS, "non-crossing") == NonCrossing(2, 1.0)
    assert NonCrossing(5, 3.0) != NonCrossing(5, 2.0)
    assert isinstance(NonCrossing(np.float64(4.0)).levels, int)  # type: ignore[arg-type]
    assert NonCrossing(5).diameter(55) == math.inf
    assert NonCrossing(5).cone(55).second_order == (11,) * 4
    assert (NonCrossing(5).cone(5).nonnegative, NonCrossing(5).cone(5).second_order) == (4, ())


@pytest.mark.parametrize("dimension", [0, 1, 4, 6, 54])
def test_models_that_are_no_table_are_refused(dimension: int) -> None:
    domain = NonCrossing(5)
    domain.check(5)
    domain.check(55)
    for ask in (domain.check, domain.cone, lambda width: domain.project(np.zeros((2, width)))):
        with pytest.raises(InputError, match=rf"each of 5 levels, and the model has {dimension}; give a multiple of 5"):
            ask(dimension)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("non-crossing:1", "levels = 1.0 must be a whole number from 2 to 100"),
        ("non-crossing:2.5", "levels = 2.5 must be a whole number"),
        ("non-crossing:-3", "levels = -3.0 must be a whole number"),
        ("non-crossing:nan", "levels = nan must be"),
        ("non-crossing:inf", "levels = inf must be"),
        ("non-crossing:1,2", r"levels = \(1.0, 2.0\) must be a whole number"),
        ("non-crossing:3:0", "radius = 0.0 must be a number from"),
        ("non-crossing:3:-1", "radius = -1.0 must be a number from"),
        ("non-crossing:3:nan", "radius = nan must be"),
        ("non-crossing:3:1:1", "does not take 3 number"),
    ],
)
def test_numbers_that_describe_no_such_set_are_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build("set", SETS, text)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_points_that_are_no_numbers_are_not_projected(bad: float) -> None:
    with pytest.raises(ConvergenceError, match="make the steps smaller"):
        NonCrossing(2).project(np.array([[bad, 0.0, 1.0, 0.0]]))
