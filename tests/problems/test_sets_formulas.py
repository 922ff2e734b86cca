"""Sets with a formula, where the formula is delicate; and numbers that describe no set."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.problems.sets import Affine, Ball, Box, Polyhedron, Range, Simplex


@pytest.mark.parametrize("total", [1e-6, 1.0, 7.0, 1e6])
@pytest.mark.parametrize("width", [1, 2, 50, 100_000])
def test_shares_are_exact_however_far_the_point(total: float, width: int) -> None:
    rng = np.random.default_rng(0)
    for spread in (1e-9, 1.0, 1e3, 1e9):
        shares = Simplex(total).project(spread * rng.normal(size=(3, width)) + spread)
        assert (shares >= 0.0).all()
        assert max(abs(math.fsum(row) - total) for row in shares) <= 1e-12 * total


def test_shares_solve_the_conditions_of_optimality() -> None:
    x = np.random.default_rng(1).normal(size=(200, 30))
    shares = Simplex(2.0).project(x)
    pull = x - shares
    level = np.where(shares > 0.0, pull, np.nan)
    np.testing.assert_allclose(np.nanmin(level, axis=1), np.nanmax(level, axis=1), rtol=0.0, atol=1e-13)
    assert (pull <= np.nanmax(level, axis=1, keepdims=True) + 1e-13).all()


def test_a_ball_is_reached_from_any_distance() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 40)) * 10.0 ** rng.uniform(-200.0, 200.0, (300, 1))
    for ball in (Ball(1e-3), Ball(3.0), Ball(3.0, rng.normal(size=40)), Ball(1e-3, 1e6 * rng.normal(size=40))):
        projected = ball.project(x)
        assert ball.contains(projected, 0.0).all()
        away = projected - (0.0 if ball.centre is None else np.array(ball.centre))
        outside = ~ball.contains(x, 0.0)
        assert outside.any()
        np.testing.assert_allclose(np.linalg.norm(away[outside], axis=1), ball.radius, rtol=1e-6)


def test_equations_may_depend_on_each_other_but_not_contradict() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(3, 6))
    point = rng.normal(size=6)
    mixed = rng.normal(size=(5, 3)) @ rows
    alone, together = Affine(rows, rows @ point), Affine(np.vstack([rows, mixed]), np.vstack([rows, mixed]) @ point)
    x = 1e3 * rng.normal(size=(50, 6))
    np.testing.assert_allclose(alone.project(x), together.project(x), rtol=0.0, atol=1e-9)
    pull = x - alone.project(x)  # orthogonal to all directions in which the equations still hold
    null = np.linalg.svd(rows)[2][3:]
    np.testing.assert_allclose(pull @ null.T, 0.0, atol=1e-9)
    with pytest.raises(InputError, match=r"'affine' is empty: equation \d contradicts"):
        Affine(np.vstack([rows, mixed[:1]]), np.append(rows @ point, mixed[0] @ point + 1.0))
    with pytest.raises(InputError, match="equation 1 reads 0 = 2"):
        Affine([[1.0, 0.0], [0.0, 0.0]], [1.0, 2.0])
    with pytest.raises(InputError, match="nearly a combination"):
        Affine([[1.0, 0.0], [1.0, 1e-9]], [1.0, 1.0])


def test_a_box_is_a_symmetric_range() -> None:
    x = np.random.default_rng(4).normal(size=(100, 3))
    np.testing.assert_array_equal(Box(0.5).project(x), Range(-0.5, 0.5).project(x))
    np.testing.assert_array_equal(Box(0.5).contains(x), Range([-0.5] * 3, np.full(3, 0.5)).contains(x))
    assert Box(0.5).diameter(3) == Range(-0.5, 0.5).diameter(3) == pytest.approx(math.sqrt(3.0))
    assert (Range([1.0, 0.0], 1.0).cone(2).zero, Range([1.0, 0.0], 1.0).cone(2).nonnegative) == (1, 2)
    assert Range(low=np.zeros(2)) == Range([0.0, -0.0], math.inf)


WRONG: list[tuple[Any, str]] = [
    (lambda: Range(1.0, 0.0), "low is above high"),
    (lambda: Range([0.0, 2.0], 1.0), "at coefficient 1"),
    (lambda: Range([0.0, 1.0], [1.0, 2.0, 3.0]), "2 numbers in low and 3 in high"),
    (lambda: Range([], 1.0), "empty list"),
    (lambda: Range("0", 1.0), "low = '0' must be 0 or a number"),
    (lambda: Range(math.nan, 1.0), "low = nan must be"),
    (lambda: Range(math.inf, math.inf), "low = inf must be"),
    (lambda: Range(0.0, [math.nan]), "high = nan must be"),
    (lambda: Range(0.0, [[1.0]]), "a list of numbers"),
    (lambda: Ball(0.0), "radius = 0.0 must be"),
    (lambda: Ball(-1.0), "radius = -1.0 must be"),
    (lambda: Ball(math.inf), "radius = inf must be"),
    (lambda: Ball(True), "radius = True must be a number"),
    (lambda: Ball(1.0, 3.0), "a list of numbers"),
    (lambda: Ball(1.0, [1.0, math.inf]), "centre = inf must be"),
    (lambda: Ball(10**400), "radius = an integer with many digits must be"),
    (lambda: Simplex(0.0), "total = 0.0 must be"),
    (lambda: Box(10**400), "bound = an integer with many digits must be"),
    (lambda: Box("1"), "bound = '1' must be a number"),
    (lambda: Affine([[1.0]], [1.0, 2.0]), "1 rows and 2 values"),
    (lambda: Affine([1.0], [1.0]), "table of numbers"),
    (lambda: Affine([[1.0], [1.0, 2.0]], [1.0, 2.0]), "rows of equal length"),
    (lambda: Polyhedron([[1e-40]], [1.0]), r"rows = 1e-40 must be 0 or a number whose size is from 1e-15 to 1e\+09"),
    (lambda: Polyhedron([[1.0]], [1.0, 2.0]), "1 by 1 and limits has 2"),
    (lambda: Polyhedron([[]], [1.0]), "at least one column"),
    (lambda: Polyhedron([[1.0]], [1.0], [[1.0]]), "belong together"),
    (lambda: Polyhedron([[1.0]], [1.0], [[1.0, 2.0]], [0.0]), "has 1 column"),
]


@pytest.mark.parametrize(("make", "words"), WRONG, ids=[words for _, words in WRONG])
def test_numbers_that_describe_no_set_are_refused(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


@pytest.mark.parametrize(
    "domain",
    [Range([0.0, 0.0], 1.0), Ball(1.0, [0.0, 0.0]), Affine([[1.0, 1.0]], [1.0]), Polyhedron([[1.0, 1.0]], [1.0])],
    ids=lambda domain: domain.name,
)
def test_the_wrong_number_of_coefficients_is_refused(domain: Any) -> None:
    domain.check(2)
    with pytest.raises(InputError, match=rf"'{domain.name}' is one of models with 2 .* the model has 3"):
        domain.check(3)
