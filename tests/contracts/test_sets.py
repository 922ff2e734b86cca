"""What every set must keep: its projection is the nearest point, its diameter is true, its cone is the same set."""

from __future__ import annotations

import copy
import math
import pickle
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpadmm._registry import build
from dpadmm.errors import InputError
from dpadmm.problems.sets import SETS, WRITTEN, Affine, Ball, Box, ConvexSet, Intersection, Polyhedron, Range, Whole
from dpadmm.problems.sets.cone_programme import ConeProgramme
from dpadmm.problems.sets.conic.projector import ConicProjector

WIDTH = 6  # so that it divides into two and three levels
PAIRS = arrays(np.float64, (2, WIDTH), elements=st.floats(-1e3, 1e3))


def tables(seed: int, rows: int) -> tuple[Any, Any]:
    """Half-spaces around a point near the origin; their rows are of all lengths."""
    rng = np.random.default_rng(seed)
    left = rng.normal(size=(rows, WIDTH)) * 10.0 ** rng.uniform(-2.0, 2.0, (rows, 1))
    return left, np.linalg.norm(left, axis=1) * rng.uniform(0.1, 1.0, rows)


def norm_cone() -> ConeProgramme:
    """|B x - c| <= 1 + <a, x>, and a half-space: an ellipsoid, cut."""
    rng = np.random.default_rng(4)
    inner = 2.0 * np.eye(WIDTH) + 0.3 * rng.normal(size=(WIDTH, WIDTH))
    rows = np.vstack([-np.eye(WIDTH)[:1], -0.3 * np.ones(WIDTH), -inner])
    limits = np.concatenate([[0.1, 1.0], 0.2 * rng.normal(size=WIDTH)])
    return ConeProgramme.written(rows, limits, nonnegative=1, second_order=[WIDTH + 1])


CENTRE = (0.5, -1.0, 2.0, 0.0, 0.0, 0.0)
SHARES = np.vstack([np.ones(WIDTH), np.arange(WIDTH)])
CROSS = np.array([*product([1.0, -1.0], repeat=WIDTH)])  # |x|_1 <= 1: many more tight rows than coefficients

INSTANCES: dict[str, ConvexSet] = {
    **{name: build("set", SETS, name) for name in [*SETS, "box:0.1", "box:20", "range:0:1", "range:-1", "ball:2"]},
    "simplex:30": build("set", SETS, "simplex:30"),
    **{name: build("set", SETS, name) for name in ["non-crossing:3", "non-crossing:3:5", "non-crossing:6"]},
    "vector range": Range([-1.0, 0.0, -math.inf, 2.0, -3.0, 0.0], [1.0, math.inf, 5.0, 2.0, -2.5, 1.0]),
    "centred ball": Ball(0.3, CENTRE),
    "distant": Ball(1.0, [1e4] * WIDTH),
    "affine": Affine(SHARES, [1.0, 2.0]),
    "affine, dependent": Affine(np.vstack([SHARES, SHARES[:1] - 2.0 * SHARES[1:]]), [1.0, 2.0, -3.0]),
    "point": Affine(np.eye(WIDTH) + 0.1, np.ones(WIDTH)),
    "polyhedron": Polyhedron(*tables(1, 20)),
    "open polyhedron": Polyhedron(*tables(2, 3)),
    "half-space": Polyhedron([[1.0, 2.0, 0.0, 0.0, -1.0, 0.0]], [0.5]),
    "slice": Polyhedron(*tables(3, 12), SHARES[:1], [0.2]),
    "cross": Polyhedron(CROSS, np.ones(len(CROSS))),
    "flat": Polyhedron(np.vstack([np.eye(WIDTH), -np.eye(WIDTH)[:2]]), [1.0] * WIDTH + [-1.0, -1.0]),
    "slab": Polyhedron(np.vstack([SHARES[:1], -SHARES[:1], np.eye(WIDTH)]), [1.0, -1.0 + 1e-4, *[2.0] * WIDTH]),
    "cone": norm_cone(),
    "box and ball": Intersection([Box(1.0), Ball(1.5)]),
    "two balls": Intersection([Ball(1.0), Ball(1.0, [0.5] * WIDTH)]),
    "ball and shares": Intersection([Ball(0.7), build("set", SETS, "simplex")]),
    "ball and plane": Intersection([Ball(2.0), Affine(SHARES[:1], [1.0])]),
    "boxes": Intersection([Box(2.0), Range(-1.0, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), Whole()]),
    "box and all": Intersection([Box(1.0), Ball(2.5, CENTRE), Polyhedron(*tables(5, 10)), norm_cone()]),
}
TIGHT = ["box", "ball", "simplex", "box:0.1", "box:20", "range:0:1", "ball:2", "simplex:30", "centred ball", "boxes"]


@pytest.fixture(scope="module", params=INSTANCES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def domain(name: str) -> ConvexSet:
    """Every set of the registry as it comes, some with other parameters, and many that are written."""
    return INSTANCES[name]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def points(rng: np.random.Generator, count: int) -> Any:
    """Models of every size."""
    return rng.normal(size=(count, WIDTH)) * 10.0 ** rng.uniform(-3.0, 3.0, (count, 1))


def far(rng: np.random.Generator) -> Any:
    """Points far out: along the axes and towards the corners."""
    return 1e6 * np.vstack([np.eye(WIDTH), -np.eye(WIDTH), np.ones(WIDTH), -np.ones(WIDTH)])


def test_every_kind_of_set_is_among_the_instances() -> None:
    kinds = {type(domain) for domain in INSTANCES.values()}
    assert kinds == {*SETS.values(), *WRITTEN.values()} - {WRITTEN["each"]}


def test_projection_is_feasible_and_idempotent(domain: ConvexSet, rng: np.random.Generator) -> None:
    domain.check(WIDTH)
    x = np.vstack([points(rng, 80), far(rng)])
    projected = domain.project(x)
    assert projected.shape == x.shape
    assert domain.contains(projected, tolerance=1e-9).all()
    assert domain.contains(projected, tolerance=0.0).all()
    np.testing.assert_array_equal(domain.project(projected), projected)


def test_projection_leaves_members_alone_and_moves_all_others(
    domain: ConvexSet, name: str, rng: np.random.Generator
) -> None:
    inside = domain.project(points(rng, 50))
    x = np.vstack([points(rng, 80), far(rng), inside])
    moved = (domain.project(x) != x).any(axis=1)
    np.testing.assert_array_equal(domain.contains(x, tolerance=0.0), ~moved)
    assert not moved[-len(inside) :].any()
    assert moved.any() == (name not in ("whole", "range"))


def test_projection_is_the_nearest_point(domain: ConvexSet, rng: np.random.Generator) -> None:
    x, others = points(rng, 80), domain.project(points(rng, 80))
    nearest = domain.project(x)
    distance = np.linalg.norm(x - nearest, axis=1)
    apart = np.linalg.norm(x[:, None] - others, axis=2)
    assert (distance[:, None] <= apart * (1.0 + 1e-12) + 1e-12).all()
    # The angle at the nearest point is never acute: <x - p, q - p> <= 0 for every member q.
    angles = np.einsum("id,ijd->ij", x - nearest, others - nearest[:, None])
    assert (angles <= 1e-9 * (1.0 + distance[:, None] * apart)).all()


@settings(derandomize=True, max_examples=50, deadline=None)
@given(pair=PAIRS)
def test_projection_is_non_expansive(domain: ConvexSet, pair: Any) -> None:
    after = domain.project(pair)
    allowed = 1e-10 if domain.tolerance else 1e-12
    assert np.linalg.norm(after[0] - after[1]) <= np.linalg.norm(pair[0] - pair[1]) * (1.0 + 1e-12) + allowed


def test_a_row_is_projected_alike_alone_in_a_batch_and_after_others(
    domain: ConvexSet, rng: np.random.Generator
) -> None:
    x = np.vstack([points(rng, 42), far(rng)])
    together = domain.project(x)
    np.testing.assert_array_equal(np.vstack([domain.project(row[None]) for row in x[::-1]])[::-1], together)
    np.testing.assert_array_equal(np.vstack([domain.project(row) for row in x]), together)
    np.testing.assert_array_equal(domain.project(np.asfortranarray(x)), together)
    np.testing.assert_array_equal(domain.project(x.reshape(4, -1, WIDTH)).reshape(x.shape), together)
    fresh = pickle.loads(pickle.dumps(domain))
    np.testing.assert_array_equal(fresh.project(x), together)


def test_the_cone_is_the_same_set(domain: ConvexSet, name: str, rng: np.random.Generator) -> None:
    cone = domain.cone(WIDTH)
    assert cone.dimension == WIDTH
    x = points(rng, 60)
    projector = ConicProjector(cone)
    np.testing.assert_allclose(projector.nearest(x), domain.project(x), rtol=0.0, atol=1e-9)
    mixed = np.vstack([x, domain.project(x)])
    np.testing.assert_array_equal(projector.contains(mixed, 1e-7), domain.contains(mixed, 1e-7))


def test_projection_acts_on_coordinates_alone_if_the_set_says_it_is_separable(
    domain: ConvexSet, name: str, rng: np.random.Generator
) -> None:
    if name == "point":
        return  # nothing depends on anything, though nobody says so
    x = points(rng, 60)
    changed = x.copy()
    changed[:, 0] = points(rng, 60)[:, 0]
    first, second = domain.project(x), domain.project(changed)
    if name == "flat":
        np.testing.assert_allclose(
            first[:, 1:], second[:, 1:], rtol=0.0, atol=1e-9
        )  # a product, known by its cone only
    else:
        assert np.array_equal(first[:, 1:], second[:, 1:]) == domain.separable


def test_contains_allows_its_tolerance_and_no_more(domain: ConvexSet, rng: np.random.Generator) -> None:
    outside = points(rng, 80)
    outside = outside[~domain.contains(outside, 1e-3)]
    edge = domain.project(outside)
    outward = (outside - edge) / np.linalg.norm(outside - edge, axis=1, keepdims=True)
    assert domain.contains(edge + 1e-7 * outward, tolerance=1e-6).all()
    assert not domain.contains(edge + 2e-5 * outward, tolerance=1e-6).any()


def test_no_two_members_are_further_apart_than_the_diameter(
    domain: ConvexSet, name: str, rng: np.random.Generator
) -> None:
    members = domain.project(np.vstack([points(rng, 60), far(rng)]))
    longest = np.linalg.norm(members[:, None] - members, axis=2).max()
    diameter = domain.diameter(WIDTH)
    if math.isinf(diameter):
        assert longest > 1e6
    else:
        assert longest <= diameter * (1.0 + 1e-12) + 1e-12
        assert longest >= (0.99 if name in TIGHT else 0.3) * diameter or diameter < 1e-9


def test_sets_are_values(domain: ConvexSet) -> None:
    domain.project(np.ones((1, WIDTH)))  # what it caches must not matter
    for other in (copy.deepcopy(domain), copy.copy(domain), pickle.loads(pickle.dumps(domain))):
        assert other == domain
        assert hash(other) == hash(domain)
    assert sum(domain == other for other in INSTANCES.values()) == 1
    assert domain.take([0, 0, 1]) is domain
    assert domain.shared() is domain


def test_only_sets_with_a_formula_promise_exactness(domain: ConvexSet, name: str) -> None:
    solved = ("polyhedron", "half-space", "slice", "cross", "flat", "slab", "cone", "two balls")
    found = name.endswith(solved) or name.startswith("non-crossing") or " and " in name
    assert domain.tolerance == (1e-6 if found else 0.0)


def test_sets_are_made_by_name() -> None:
    assert build("set", SETS, "whole") == Whole()
    assert build("set", SETS, "box") == Box(1.0)
    assert build("set", SETS, "box:0.25") == Box(0.25)
    assert build("set", SETS, "range:0:1") == Range(0.0, 1.0)
    assert build("set", SETS, "ball:2") == Ball(2.0)
    assert Box(0.25).diameter(4) == pytest.approx(1.0)


@pytest.mark.parametrize("name", SETS)
def test_sets_of_the_registry_need_no_numbers(name: str) -> None:
    SETS[name]().check(WIDTH)
    assert SETS[name].name == name
    assert SETS[name].about


@pytest.mark.parametrize("name", WRITTEN)
def test_written_sets_know_their_names(name: str) -> None:
    assert WRITTEN[name].name == name
    assert WRITTEN[name].about


@pytest.mark.parametrize("text", ["box:0", "box:-1", "box:nan", "box:inf"])
def test_a_box_without_an_inside_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"bound = .* must be a number from 1e-09"):
        build("set", SETS, text)
