"""Projections by a solver: against other methods, and with every way to be wrong tried."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import clarabel
import numpy as np
import pytest
from scipy.optimize import minimize

from dpadmm.errors import ConvergenceError, InputError
from dpadmm.problems.sets import Affine, Ball, Box, ConeProgramme, ConvexSet, Intersection, Polyhedron, Simplex
from dpadmm.problems.sets.conic import certificate, newton
from dpadmm.problems.sets.conic import projector as projecting
from dpadmm.problems.sets.conic.newton import Answer, Question
from dpadmm.problems.sets.conic.projector import ConicProjector
from dpadmm.problems.sets.conic.slacks import Slacks


def half_spaces(seed: int, rows: int, width: int) -> Polyhedron:
    rng = np.random.default_rng(seed)
    left = rng.normal(size=(rows, width))
    return Polyhedron(left, np.linalg.norm(left, axis=1) * rng.uniform(0.1, 1.0, rows))


def by_hand(domain: Polyhedron, point: Any) -> Any:
    """The nearest point among those that any few rows with equality give."""
    best = point if (domain.rows @ point <= domain.limits).all() else None
    for count in range(1, point.size + 1):
        for some in map(list, combinations(range(domain.limits.size), count)):
            rows = domain.rows[some]
            x = point - np.linalg.pinv(rows) @ (rows @ point - domain.limits[some])
            feasible = (domain.rows @ x <= domain.limits + 1e-10).all()
            if feasible and (best is None or math.dist(x, point) < math.dist(best, point)):
                best = x
    return best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_polyhedra_agree_with_an_enumeration(seed: int, scale: float) -> None:
    domain = half_spaces(seed, 8, 3)
    for point in scale * np.random.default_rng(seed).normal(size=(15, 3)):
        np.testing.assert_allclose(domain.project(point[None])[0], by_hand(domain, point), rtol=0.0, atol=1e-9 * scale)


@pytest.mark.parametrize("seed", range(10))
def test_polyhedra_agree_with_another_solver(seed: int) -> None:
    domain, point = half_spaces(7, 20, 8), np.random.default_rng(seed).normal(size=8)
    rows = {"type": "ineq", "fun": lambda x: domain.limits - domain.rows @ x, "jac": lambda x: -domain.rows}
    other = minimize(
        lambda x: 0.5 * ((x - point) ** 2).sum(),
        np.zeros(8),
        jac=lambda x: x - point,
        constraints=rows,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(domain.project(point[None])[0], other.x, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize(
    "members",
    [
        [Box(1.0), Ball(1.4)],
        [Ball(1.0), Ball(1.0, [0.6, 0.0, 0.0, 0.1])],
        [Simplex(1.0), Ball(0.6)],
        [Affine([[1.0, 2.0, 0.0, -1.0]], [0.3]), Ball(0.7), Box(0.5)],
    ],
    ids=["box and ball", "balls", "shares and ball", "three"],
)
def test_intersections_agree_with_alternating_projections(members: list[ConvexSet]) -> None:
    """Dykstra's method needs only the members' own projections."""
    x = 3.0 * np.random.default_rng(5).normal(size=(6, 4))
    point, pulls = x.copy(), [np.zeros_like(x) for _ in members]
    for _ in range(3000):
        for at, member in enumerate(members):
            after = member.project(point + pulls[at])
            pulls[at] += point - after
            point = after
    np.testing.assert_allclose(Intersection(members).project(x), point, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("width", [20, 60])
def test_answers_do_not_depend_on_what_was_asked_before(width: int) -> None:
    rng = np.random.default_rng(8)
    domain = half_spaces(4, 2 * width, width)
    x, other = 2.0 * rng.normal(size=(6, width)), 50.0 * rng.normal(size=(3, width))
    first = domain.project(x)
    domain.projector(width).nearest(other)
    np.testing.assert_array_equal(domain.project(x[3:4])[0], first[3])
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda _: domain.project(x), range(4)):
            np.testing.assert_array_equal(found, first)


def test_what_lies_inside_comes_back_as_it_is() -> None:
    domain = half_spaces(2, 30, 6)
    inside = domain.project(np.random.default_rng(0).normal(size=(40, 6))) * 0.9
    assert domain.contains(inside, 0.0).all()
    np.testing.assert_array_equal(domain.project(inside), inside)


def asked(domain: ConvexSet, point: Any) -> tuple[ConicProjector, Question, Answer]:
    projector = ConicProjector(domain.cone(point.size))
    curvature = np.full(point.size, 1.0 / max(1.0, math.dist(point, projector.centre)))
    ask = Question(projector.rows, projector.limits, projector.slacks, curvature, point)
    return projector, ask, newton.refine(ask, projector._solve(ask), False)


@pytest.mark.parametrize(
    "domain", [Box(1.0), Ball(1.5), Simplex(1.0), Box(0.1), Ball(0.02)], ids=["box", "ball", "shares", "small", "tiny"]
)
@pytest.mark.parametrize("scale", [2.0, 1e3, 1e6])
def test_no_bound_is_below_the_true_distance(domain: ConvexSet, scale: float) -> None:
    rng = np.random.default_rng(9)
    sharpest = math.inf
    for point in scale * rng.normal(size=(15, 5)):
        projector, ask, answer = asked(domain, point)
        exact = domain.project(point[None])[0]
        for size in (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1e-2, 0.1, 0.5):
            x = exact + size * (domain.project(rng.normal(size=(1, 5)))[0] - exact)
            wrong = Answer(
                answer.x + size * rng.normal(size=5), answer.z * (1.0 + size * rng.normal(size=answer.z.size))
            )
            for given in (answer, wrong):
                near = certificate.bound(ask, given, x, projector.centre, 0.0)
                assert math.dist(x, exact) <= near + 1e-15
                assert math.dist(given.x, exact) <= certificate.smooth(ask, given) + 1e-15
                sharpest = min(sharpest, near)
    assert sharpest < 1e-9  # and where nothing is wrong they say so


def test_slacks_are_computed_exactly() -> None:
    from fractions import Fraction

    rng = np.random.default_rng(3)
    rows, x = rng.normal(size=(5, 7)), rng.normal(size=7)
    limits = rows @ x
    found = certificate.exact_slack(rows, limits, x)
    for row, limit, slack in zip(rows, limits, found, strict=True):
        exact = Fraction(limit) - sum(Fraction(a) * Fraction(b) for a, b in zip(row, x, strict=True))
        assert slack == float(exact)
    assert (found != 0.0).any()


def test_slopes_of_the_cones_are_those_of_their_projections() -> None:
    slacks = Slacks(2, 3, (3, 4, 2))
    rng = np.random.default_rng(2)
    for _ in range(50):
        s, way = rng.normal(size=14), rng.normal(size=14)
        live, slope, room = slacks.derivative(s)
        if room.min() < 1e-3:
            continue
        step = 1e-6 * way
        change = (slacks.nearest(s + step) - slacks.nearest(s - step)) / 2e-6
        expected = way.copy()
        expected[live] = slope @ way[live]
        np.testing.assert_allclose(change, expected, rtol=0.0, atol=1e-4)
        # Moreau: what is not in the cone is minus a point of the dual, at a right angle.
        part = slacks.nearest(s)
        np.testing.assert_allclose(slacks.dual(part - s), part - s, rtol=0.0, atol=1e-12)
        assert part @ (part - s) == pytest.approx(0.0, abs=1e-12)


def failing(change: Any) -> Any:
    """A solver whose answers are changed on their way."""

    class Solver:
        def __init__(self, *arguments: Any) -> None:
            self.inner = clarabel.DefaultSolver(*arguments)

        def update(self, **data: Any) -> None:
            self.inner.update(**data)

        def solve(self) -> Any:
            found = self.inner.solve()
            return SimpleNamespace(x=change(np.array(found.x)), z=change(np.array(found.z)), status="Solved")

    return SimpleNamespace(DefaultSolver=Solver)


def test_an_answer_that_is_not_one_is_never_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    projector = ConicProjector(half_spaces(1, 20, 5).cone(5), "polyhedron")
    monkeypatch.setattr(projecting, "clarabel", failing(lambda values: np.full_like(values, np.nan)))
    with pytest.raises(ConvergenceError, match=r"set 'polyhedron': a projection must be proven to 1e-06 and is to inf"):
        projector.nearest(np.full((1, 5), 3.0))


@pytest.mark.parametrize("error", [1e-5, 1e-2])
def test_a_point_that_is_merely_feasible_is_never_returned(monkeypatch: pytest.MonkeyPatch, error: float) -> None:
    """Without Newton's method, an answer with a small error is not proven, however sure the solver is."""
    projector = ConicProjector(half_spaces(1, 20, 5).cone(5))
    point = np.full((1, 5), 3.0)
    assert projector.nearest(point).shape == (1, 5)
    monkeypatch.setattr(newton, "STEPS", 0)
    monkeypatch.setattr(projecting, "clarabel", failing(lambda values: values * (1.0 - error)))
    projector._solver = None
    with pytest.raises(ConvergenceError, match="must be proven to 1e-06"):
        projector.nearest(point)


def test_a_point_that_is_a_rounding_outside_is_never_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = half_spaces(1, 20, 5)
    monkeypatch.setattr(projecting, "TRIES", 0)  # to step in
    refused = 0
    for point in np.random.default_rng(0).normal(size=(40, 1, 5)):
        try:
            assert domain.contains(domain.project(point), 0.0).all()
        except ConvergenceError:
            refused += 1
    assert 0 < refused < 40


def test_degenerate_answers_are_not_taken_for_smooth_ones() -> None:
    """The second coefficient is at its limit, but nothing pulls it there."""
    _, ask, answer = asked(Box(1.0), np.array([2.0, 1.0, 0.0]))
    np.testing.assert_allclose(answer.x, [1.0, 1.0, 0.0], rtol=0.0, atol=1e-12)
    assert certificate.smooth(ask, answer) == math.inf
    _, ask, answer = asked(Box(1.0), np.array([2.0, 0.9, 0.0]))
    assert certificate.smooth(ask, answer) < 1e-12


def test_of_parallel_rows_the_tightest_counts() -> None:
    domain = Polyhedron([[1.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 3.0]], [2.0, 1.0, 3.0, 3.0])
    np.testing.assert_allclose(domain.project(np.array([[5.0, 5.0]])), [[1.0, 1.0]], rtol=0.0, atol=1e-12)
    assert domain.projector(2).limits.size == 2


def test_slacks_are_distances_whatever_the_length_of_the_rows() -> None:
    for length in (1e-3, 0.6, 1.0, 1.9, 300.0):
        domain = Polyhedron([[0.6 * length, 0.8 * length]], [length])
        out = np.array([0.6, 0.8])
        assert domain.contains((1.0 + 0.95e-6) * out[None], 1e-6).all()
        assert not domain.contains((1.0 + 1.05e-6) * out[None], 1e-6).any()


def test_an_accuracy_that_cannot_be_proven_is_not_claimed() -> None:
    domain = half_spaces(1, 20, 5)
    with pytest.raises(ConvergenceError, match="must be proven to 1e-18"):
        ConicProjector(domain.cone(5), tolerance=1e-18).nearest(np.full((1, 5), 3.0))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_points_that_are_no_points_are_refused(value: float) -> None:
    with pytest.raises(ConvergenceError, match="beyond"):
        half_spaces(1, 20, 5).project(np.array([[value, 0.0, 0.0, 0.0, 0.0]]))


def test_sets_without_room_but_with_points_are_projected_onto() -> None:
    """x + y <= 1, x >= 1/2, y >= 1/2 is a point, and three opposite pairs of inequalities are a line."""
    point = Polyhedron([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], [1.0, -0.5, -0.5])
    np.testing.assert_allclose(point.project(np.array([[5.0, -3.0]])), [[0.5, 0.5]], rtol=0.0, atol=1e-12)
    assert point.diameter(2) < 1e-6
    rows = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, -1.0]])
    line = Polyhedron(np.vstack([rows, -rows]), [1.0, 2.0, -1.0, -2.0])
    x = np.random.default_rng(0).normal(size=(10, 3)) * 1e3
    expected = x - (x @ rows.T - [1.0, 2.0]) @ np.linalg.pinv(rows).T
    np.testing.assert_allclose(line.project(x), expected, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("width", [1e-2, 1e-4, 1e-6])
def test_thin_sets_are_projected_onto(width: float) -> None:
    slab = Polyhedron([[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]], [1.0, width - 1.0])
    x = np.random.default_rng(1).normal(size=(40, 3)) * 10.0
    level = x.sum(axis=1)
    expected = x + ((np.clip(level, 1.0 - width, 1.0) - level) / 3.0)[:, None]
    np.testing.assert_allclose(slab.project(x), expected, rtol=0.0, atol=1e-9)


def test_empty_sets_are_refused() -> None:
    empty = Polyhedron([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], [1.0, -2.0, 1.0])
    with pytest.raises(InputError, match="'polyhedron' is empty"):
        empty.check(2)
    with pytest.raises(InputError, match="'polyhedron' is empty"):
        empty.project(np.zeros((1, 2)))
    with pytest.raises(InputError, match="'polyhedron' is empty"):
        Polyhedron([[1.0, 0.0]], [0.0], [[1.0, 0.0]], [1.0]).check(2)
    with pytest.raises(InputError, match="'cone' is empty"):  # |x| <= -1
        ConeProgramme.written([[0.0], [-1.0]], [-1.0, 0.0], second_order=[2]).check(1)
    with pytest.raises(InputError, match=r"'cone' is one of models with 1 .* has 2"):
        ConeProgramme.written([[0.0], [-1.0]], [1.0, 0.0], second_order=[2]).check(2)


def test_sets_that_touch_in_a_point_are_refused_or_solved_but_never_wrong() -> None:
    tangent = Intersection([Ball(1.0), Ball(1.0, [2.0, 0.0])])
    try:
        tangent.check(2)
        found = tangent.project(np.array([[3.0, 1.0]]))
    except (InputError, ConvergenceError):
        return
    np.testing.assert_allclose(found, [[1.0, 0.0]], atol=1e-6)


@pytest.mark.parametrize(
    ("rows", "limits", "longest"),
    [
        ([[1, 0], [-1, 0], [0, 1], [0, -1]], [1, 1, 2, 2], math.hypot(2, 4)),
        ([[1, 1], [-1, 1], [1, -1], [-1, -1]], [1, 1, 1, 1], math.hypot(2, 2)),
        ([[1, 0], [-1, 0], [0, 1]], [1, 1, 2], math.inf),
        ([[1, 1], [-1, -1]], [1, 1], math.inf),
    ],
)
def test_the_diameter_is_that_of_the_box_around(rows: Any, limits: Any, longest: float) -> None:
    domain = Polyhedron(rows, limits)
    assert domain.diameter(2) == pytest.approx(longest, rel=1e-8)
    assert domain.diameter(2) >= longest * (1.0 - 1e-12)


def test_many_coefficients_have_no_diameter_but_the_members() -> None:
    wide = Polyhedron(np.vstack([np.eye(201), -np.eye(201)]), np.ones(402))
    assert wide.diameter(201) == math.inf
    assert Intersection([wide, Ball(3.0)]).diameter(201) == 6.0
