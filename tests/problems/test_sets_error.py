"""How far a computed projection is from the exact one: noise that comes after it pays for that."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpadmm.problems.sets import Affine, Ball, Box, Each, Intersection, Polyhedron, Range, Simplex, Whole
from dpadmm.problems.sets.base import ConvexSet

WIDTH = 4
EQUATIONS = np.random.default_rng(5).normal(size=(2, WIDTH))
AFFINE = {
    "one coordinate": Affine([[1.0, 0.0, 0.0, 0.0]], [0.0]),
    "two equations": Affine(EQUATIONS, [1.0, -2.0]),
    "far away": Affine([[1.0, 1.0, 0.0, 0.0]], [1e6]),
}
SIMPLICES = {"one": Simplex(1.0), "large": Simplex(1e6), "small": Simplex(1e-6)}
BALLS = {"unit": Ball(1.0), "tiny": Ball(1e-9), "away": Ball(1e-3, [1e6] * WIDTH)}


def exact_simplex(x: list[Fraction], total: Fraction) -> list[Fraction]:
    falling, excess, level = sorted(x, reverse=True), Fraction(0), Fraction(0)
    for count, value in enumerate(falling, 1):
        excess += value
        if value * count > excess - total:
            level = (excess - total) / count
    return [max(value - level, Fraction(0)) for value in x]


def exact_affine(x: list[Fraction], known: Affine) -> list[Fraction]:
    """x - Bᵀ(B x - t) in fractions, with the stored B and t; once and once more, as it is computed."""
    basis, targets = known._equations
    rows = [[Fraction(float(entry)) for entry in row] for row in basis]
    for _ in range(2):
        off = [sum(a * b for a, b in zip(row, x, strict=True)) - Fraction(float(t)) for row, t in zip(rows, targets, strict=True)]  # fmt: skip # noqa: E501
        x = [value - sum(row[j] * o for row, o in zip(rows, off, strict=True)) for j, value in enumerate(x)]
    return x


def exact(x: np.ndarray, known: ConvexSet) -> list[Fraction]:
    whole = [Fraction(float(value)) for value in x]
    return exact_affine(whole, known) if isinstance(known, Affine) else exact_simplex(whole, Fraction(known.total))  # type: ignore[attr-defined]


def points(known: ConvexSet, draw: np.random.Generator) -> np.ndarray:
    """Some far away, some as near to the set as a threshold might be."""
    inside = known.project(draw.normal(size=(1, WIDTH)) * 10.0 ** draw.uniform(-3, 6))[0]
    away = draw.normal(size=WIDTH) * 10.0 ** draw.uniform(-16, 6)
    return np.asarray(inside + away)


@pytest.mark.parametrize("known", [*AFFINE.values(), *SIMPLICES.values()], ids=[*AFFINE, *SIMPLICES])
def test_no_computed_projection_is_farther_from_the_exact_one(known: ConvexSet) -> None:
    draw, worst = np.random.default_rng(0), 0.0
    for _ in range(400):
        x = points(known, draw)
        off = [Fraction(float(a)) - b for a, b in zip(known.project(x[None])[0], exact(x, known), strict=True)]
        distance = float(sum(value * value for value in off)) ** 0.5
        worst = max(worst, distance / float(known.error(np.array([np.linalg.norm(x)]), WIDTH)[0]))
    assert worst <= 1.0
    assert worst > 1e-4  # the bound is about that: a thousandth of it would not hold


@pytest.mark.parametrize("known", [*AFFINE.values(), *SIMPLICES.values(), *BALLS.values(), Box(1.0), Range([-1.0] * WIDTH), Whole()])  # fmt: skip # noqa: E501
@pytest.mark.parametrize("apart", [1e-18, 1e-15, 1e-12, 1e-9, 1.0])
def test_two_points_are_brought_apart_by_no_more_than_is_paid_for(known: ConvexSet, apart: float) -> None:
    """0.1.0 and the versions up to this test left a point within 1e-12 of an affine set or a simplex where it was, and
    projected its neighbour; noise that was fit for neighbours 1e-18 apart then hid nothing (271,540 deviations)."""
    draw = np.random.default_rng(1)
    x = np.array([points(known, draw) for _ in range(300)])
    y = x + apart * draw.normal(size=x.shape) / WIDTH
    size = np.maximum(np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=1))
    moved = np.linalg.norm(known.project(x) - known.project(y), axis=1)
    assert (moved <= np.linalg.norm(x - y, axis=1) * (1 + 1e-12) + 2.0 * known.error(size, WIDTH)).all()


def test_sets_of_other_sets_pay_for_what_they_come_down_to() -> None:
    size = np.array([1.0, 1.0])
    both = Intersection([Simplex(1.0), Range([-9.0] * WIDTH)])
    assert (both.error(size, WIDTH) >= both.tolerance).all()
    np.testing.assert_array_equal(Intersection([Simplex(1.0)]).error(size, WIDTH), Simplex(1.0).error(size, WIDTH))
    each = Each((Box(1.0), Simplex(1.0)))
    np.testing.assert_array_equal(each.error(size, WIDTH), [0.0, Simplex(1.0).error(size, WIDTH)[1]])


NARROW = Intersection([Ball(1.0), Simplex(1.0)])


@pytest.mark.parametrize("far", [900.0, 1e9, 1e200, np.nan])
def test_what_cannot_be_projected_is_a_point_of_the_set_all_the_same(far: float) -> None:
    """And always the same one, alone or among others."""
    x = np.array([[0.2, 0.8], [far, -far]])
    with pytest.warns(RuntimeWarning, match="A point inside the set is taken instead"):
        found = NARROW.project_always(x)
    with pytest.warns(RuntimeWarning, match="A point inside the set is taken instead"):
        among = Each((Whole(), NARROW)).project_always(np.array([[1.0, 1.0], x[1]]))
    assert NARROW.contains(found).all()
    np.testing.assert_array_equal(found[0], NARROW.project(x[:1])[0])
    np.testing.assert_array_equal(among[1], found[1])


def test_where_a_projection_is_proven_the_two_are_one() -> None:
    x = np.random.default_rng(2).normal(size=(20, WIDTH))
    half = Polyhedron([[1.0] * WIDTH], [0.5])
    np.testing.assert_array_equal(half.project(x), half.project_always(x))
