"""What every set of the registry must keep: its projection is the nearest point, its diameter is true."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpadmm.errors import InputError
from dpadmm.problems.naming import build
from dpadmm.problems.sets import SETS, Box, ConvexSet, Whole

WIDTH = 5
PAIRS = arrays(np.float64, (2, WIDTH), elements=st.floats(-1e3, 1e3))


@pytest.fixture(scope="module", params=[*SETS, "box:0.1", "box:20"])
def domain(request: pytest.FixtureRequest) -> ConvexSet:
    """Every set as it comes, and some with other parameters."""
    return build("set", SETS, request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def points(rng: np.random.Generator, count: int) -> Any:
    """Models of every size."""
    return rng.normal(size=(count, WIDTH)) * 10.0 ** rng.uniform(-3.0, 3.0, (count, 1))


def far(rng: np.random.Generator) -> Any:
    """Points far out: along the axes and towards the corners."""
    return 1e6 * np.vstack([np.eye(WIDTH), -np.eye(WIDTH), np.ones(WIDTH), -np.ones(WIDTH)])


def test_projection_is_feasible_and_idempotent(domain: ConvexSet, rng: np.random.Generator) -> None:
    x = np.vstack([points(rng, 500), far(rng)])
    projected = domain.project(x)
    assert projected.shape == x.shape
    assert domain.contains(projected, tolerance=0.0).all()
    np.testing.assert_array_equal(domain.project(projected), projected)


def test_projection_leaves_members_alone_and_moves_all_others(domain: ConvexSet, rng: np.random.Generator) -> None:
    x = np.vstack([points(rng, 500), far(rng)])
    moved = (domain.project(x) != x).any(axis=1)
    np.testing.assert_array_equal(domain.contains(x, tolerance=0.0), ~moved)
    assert not moved.all()
    assert moved.any() == math.isfinite(domain.diameter(WIDTH))


def test_projection_is_the_nearest_point(domain: ConvexSet, rng: np.random.Generator) -> None:
    x, others = points(rng, 300), domain.project(points(rng, 300))
    nearest = domain.project(x)
    distance = np.linalg.norm(x - nearest, axis=1)
    apart = np.linalg.norm(x[:, None] - others, axis=2)
    assert (distance[:, None] <= apart * (1.0 + 1e-12)).all()
    # The angle at the nearest point is never acute: <x - p, q - p> <= 0 for every member q.
    angles = np.einsum("id,ijd->ij", x - nearest, others - nearest[:, None])
    assert (angles <= 1e-9 * (1.0 + distance[:, None] * apart)).all()


@settings(derandomize=True, max_examples=100, deadline=None)
@given(pair=PAIRS)
def test_projection_is_non_expansive(domain: ConvexSet, pair: Any) -> None:
    after = domain.project(pair)
    assert np.linalg.norm(after[0] - after[1]) <= np.linalg.norm(pair[0] - pair[1]) * (1.0 + 1e-12)


def test_projection_acts_on_coordinates_alone_if_the_set_says_it_is_separable(
    domain: ConvexSet, rng: np.random.Generator
) -> None:
    x = points(rng, 200)
    changed = x.copy()
    changed[:, 0] = points(rng, 200)[:, 0]
    same = np.array_equal(domain.project(x)[:, 1:], domain.project(changed)[:, 1:])
    assert same == domain.separable


def test_contains_allows_its_tolerance_and_no_more(domain: ConvexSet, rng: np.random.Generator) -> None:
    outside = points(rng, 500)
    outside = outside[~domain.contains(outside)]
    edge = domain.project(outside)
    outward = (outside - edge) / np.linalg.norm(outside - edge, axis=1, keepdims=True)
    assert domain.contains(edge + 1e-7 * outward, tolerance=1e-6).all()
    assert not domain.contains(edge + 1e-5 * outward, tolerance=1e-6).any()


def test_no_two_members_are_further_apart_than_the_diameter(domain: ConvexSet, rng: np.random.Generator) -> None:
    members = domain.project(np.vstack([points(rng, 200), far(rng)]))
    longest = np.linalg.norm(members[:, None] - members, axis=2).max()
    diameter = domain.diameter(WIDTH)
    if math.isinf(diameter):
        assert longest > 1e6
    else:
        assert 0.99 * diameter <= longest <= diameter * (1.0 + 1e-12)


def test_sets_are_made_by_name() -> None:
    assert build("set", SETS, "whole") == Whole()
    assert build("set", SETS, "box") == Box(1.0)
    assert build("set", SETS, "box:0.25") == Box(0.25)
    assert Box(0.25).diameter(4) == pytest.approx(1.0)


@pytest.mark.parametrize("text", ["box:0", "box:-1", "box:nan", "box:inf"])
def test_a_box_without_an_inside_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"bound .* must be a positive number"):
        build("set", SETS, text)
