"""Several sets at once: in common to all, or one for each agent."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.problems.sets import Affine, Ball, Box, ConvexSet, Each, Intersection, Polyhedron, Range, Simplex, Whole
from dpadmm.problems.sets.intersection import simplest

PLANE = Polyhedron([[1.0, 1.0, 1.0]], [0.5])


def test_intervals_become_one_range() -> None:
    both = Intersection([Box(2.0), Range([0.0, -5.0, -1.0], 1.5), Whole(), Box(3.0)])
    assert simplest(both) == Range([0.0, -2.0, -1.0], 1.5)
    assert both.separable
    assert both.tolerance == 0.0
    x = 5.0 * np.random.default_rng(0).normal(size=(50, 3))
    np.testing.assert_array_equal(both.project(x), Range([0.0, -2.0, -1.0], 1.5).project(x))
    assert both.diameter(3) == Range([0.0, -2.0, -1.0], 1.5).diameter(3)


def test_what_says_nothing_is_left_out() -> None:
    assert simplest(Intersection([Whole(), Ball(2.0), Whole()])) == Ball(2.0)
    assert simplest(Intersection([Whole()])) == Whole()
    assert simplest(Intersection([Ball(2.0), Ball(2.0)])) == Ball(2.0)
    x = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_array_equal(Intersection([Whole(), Ball(0.1)]).project(x), Ball(0.1).project(x))
    np.testing.assert_array_equal(Intersection([Whole()]).project(x), x)
    assert Intersection([Whole()]).diameter(3) == math.inf


def test_intersections_of_intersections_are_one() -> None:
    nested = Intersection([Intersection([Box(1.0), Intersection([Ball(1.2), PLANE])]), Ball(1.2)])
    assert nested == Intersection([Box(1.0), Ball(1.2), PLANE])
    assert nested.members == (Box(1.0), Ball(1.2), PLANE)
    assert not nested.separable
    assert nested.tolerance == 1e-6


def test_the_diameter_is_the_smallest_that_is_known() -> None:
    assert Intersection([Box(10.0), Ball(1.0)]).diameter(3) == 2.0
    assert Intersection([PLANE, Ball(1.0)]).diameter(3) == 2.0
    octant = Polyhedron([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    assert Intersection([octant, Ball(1.0)]).diameter(2) == pytest.approx(math.sqrt(2.0), rel=1e-6)


def test_intersections_without_points_name_who_excludes_whom() -> None:
    with pytest.raises(InputError, match="'intersection' is empty: the intervals of 'range', 'range'"):
        Intersection([Range(0.0, 1.0), Range(2.0, 3.0)])
    apart = Intersection([Box(1.0), Ball(1.0), Polyhedron([[-1.0, -1.0]], [-5.0]), Affine([[1.0, -1.0]], [0.0])])
    with pytest.raises(InputError, match=r"members (0 \('box'\)|1 \('ball'\)), 2 \('polyhedron'\) have no point"):
        apart.check(2)
    with pytest.raises(InputError, match=r"members 0 \('affine'\), 1 \('affine'\)"):
        Intersection([Affine([[1.0, 0.0]], [0.0]), Affine([[1.0, 0.0]], [1.0]), Ball(9.0)]).check(2)
    with pytest.raises(InputError, match=r"member 1: set 'ball' is one of models with 3 .* has 2"):
        Intersection([Box(1.0), Ball(1.0, [0.0, 0.0, 0.0])]).check(2)
    with pytest.raises(InputError, match=r"coefficients; they must agree"):
        Intersection([Range([0.0, 0.0]), Range([0.0, 0.0, 0.0])])
    with pytest.raises(InputError, match="no members"):
        Intersection([])
    with pytest.raises(InputError, match="differs between agents"):
        Intersection([Each([Box(1.0)]), Ball(1.0)])


MEMBERS: list[ConvexSet] = [Box(1.0), Ball(0.5), Box(1.0), PLANE, Simplex(1.0), PLANE, Whole()]


def test_each_agent_has_its_own_set() -> None:
    each = Each(MEMBERS)
    x = 2.0 * np.random.default_rng(1).normal(size=(7, 3))
    expected = np.vstack([member.project(row[None]) for member, row in zip(MEMBERS, x, strict=True)])
    np.testing.assert_array_equal(each.project(x), expected)
    assert each.contains(expected).all()
    inside = [bool(member.contains(row[None])[0]) for member, row in zip(MEMBERS, x, strict=True)]
    assert each.contains(x).tolist() == inside
    assert any(inside)
    assert not all(inside)
    assert each.diameter(3) == math.inf
    assert Each([Box(1.0), Ball(5.0)]).diameter(3) == 10.0
    assert each.tolerance == 1e-6
    assert not each.separable
    assert Each([Box(1.0), Range(0.0)]).separable
    assert Each([Box(1.0), Ball(1.0)]).tolerance == 0.0


def test_agents_with_the_same_set_are_projected_together(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    project = Ball.project

    def counting(self: Ball, x: Any) -> Any:
        batches.append(len(x))
        return project(self, x)

    monkeypatch.setattr(Ball, "project", counting)
    Each([Ball(1.0), Box(1.0), Ball(1.0), Ball(2.0), Ball(1.0)]).project(np.ones((5, 2)))
    assert sorted(batches) == [1, 3]


@pytest.mark.parametrize(
    "agents", [[2, 0, 0, 5], np.array([6, 6]), slice(1, 4), np.arange(7) % 2 == 0, np.tile(np.arange(7), 3)]
)
def test_agents_are_taken_as_rows_are(agents: Any) -> None:
    each, x = Each(MEMBERS), 2.0 * np.random.default_rng(2).normal(size=(7, 3))
    assert each.take(agents).members == tuple(np.array(MEMBERS, dtype=object)[agents])
    np.testing.assert_array_equal(each.take(agents).project(x[agents]), each.project(x)[agents])
    assert Each([PLANE, PLANE]).take([1]).members[0] is PLANE


def test_what_is_shared_lies_in_all() -> None:
    each = Each([Box(1.0), Ball(0.8), PLANE, Box(1.0)])
    assert each.shared() == Intersection([Box(1.0), Ball(0.8), PLANE])
    assert each.shared() is each.shared()
    x = np.random.default_rng(3).normal(size=(20, 3))
    together = each.shared().project(x)
    assert all(member.contains(together).all() for member in each.members)
    assert Each([Box(1.0), Box(1.0)]).shared() == Box(1.0)
    assert Each([Box(1.0), Range(0.0), Whole()]).shared() == Range(0.0, 1.0)
    assert Each([Whole(), Whole()]).shared() == Whole()


def test_each_is_checked_as_a_whole() -> None:
    Each(MEMBERS[:4]).check(3)
    with pytest.raises(InputError, match=r"'each', agents 1, 2: set 'ball' is one of models with 2"):
        Each([Box(1.0), Ball(1.0, [0.0, 0.0]), Ball(1.0, [0.0, 0.0])]).check(3)
    distant = Polyhedron([[-1.0, -1.0]], [-9.0])
    with pytest.raises(InputError, match=r"agents' sets have no point in common \(agents (0, 3|0, 2, 3|2, 3)\)"):
        Each([Box(1.0), Whole(), Ball(2.0), distant]).check(2)
    with pytest.raises(InputError, match=r"agents' sets have no point in common \(agents 0, 1, 2\)"):
        Each([Range(0.0, 1.0), Range(2.0, 3.0), Range(0.0, 1.0), Whole()]).check(2)
    with pytest.raises(InputError, match="agents' sets have no point in common"):
        Each([Range(0.0, 1.0), Range(1.0 + 1e-14, 3.0)]).check(2)


def test_the_number_of_rows_must_be_that_of_the_agents() -> None:
    each = Each([Box(1.0), Ball(1.0)])
    for wrong in (np.zeros((3, 2)), np.zeros(2), np.zeros((1, 2))):
        with pytest.raises(InputError, match=rf"2 member\(s\) and the batch has {len(wrong) if wrong.ndim > 1 else 1}"):
            each.project(wrong)
        with pytest.raises(InputError, match="take"):
            each.contains(wrong)
    with pytest.raises(InputError, match="no members"):
        Each([])
    with pytest.raises(InputError, match="agent 1: Each is not one agent's set"):
        Each([Box(1.0), each])


def test_cones_are_those_of_one_set() -> None:
    assert Each([Box(1.0), Box(1.0)]).cone(2).nonnegative == 4
    with pytest.raises(InputError, match="has no cone"):
        Each([Box(1.0), Ball(1.0)]).cone(2)


def test_each_is_a_value() -> None:
    each = Each(MEMBERS)
    each.project(np.ones((7, 3)))
    each.shared()
    again = pickle.loads(pickle.dumps(each))
    assert again == each == Each(tuple(MEMBERS))
    assert hash(again) == hash(each)
    assert again != Each(MEMBERS[:-1])
    np.testing.assert_array_equal(again.project(np.ones((7, 3))), each.project(np.ones((7, 3))))
