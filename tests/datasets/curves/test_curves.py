"""Curves: what is kept of them, and every way in which they can be refused."""

import numpy as np
import pytest

from dpadmm.datasets.curves import Curves
from dpadmm.errors import InputError

NAN = np.nan
HOLES = [[1.0, 2.0, NAN], [NAN, 5.0, NAN], [7.0, 8.0, 9.0]]


def points(curves):
    """Every curve as a list of (rescaled time, value)."""
    return [
        list(zip(curves.times[a:b].tolist(), curves.values[a:b].tolist(), strict=True))
        for a, b in zip(curves.starts[:-1], curves.starts[1:], strict=True)
    ]


def test_grid_with_holes_keeps_the_points_that_are_there_in_rescaled_time():
    curves = Curves.on_grid([10.0, 11.0, 14.0], HOLES)
    assert curves.interval == (10.0, 14.0)
    assert curves.counts.tolist() == [2, 1, 3]
    assert points(curves) == [[(0.0, 1.0), (0.25, 2.0)], [(0.25, 5.0)], [(0.0, 7.0), (0.25, 8.0), (1.0, 9.0)]]
    np.testing.assert_array_equal(curves.matrix(0, 3), HOLES)
    np.testing.assert_array_equal(curves.matrix(1, 3), HOLES[1:])


def test_a_wider_interval_may_be_named():
    curves = Curves.on_grid([10.0, 11.0, 14.0], HOLES, (8.0, 16.0))
    assert curves.grid.tolist() == [0.25, 0.375, 0.75]


def test_individual_times_need_no_order_and_drop_missing_values():
    curves = Curves.individual([[4.0, 2.0], [3.0, 2.5, 2.0]], [[1, 2], [3, NAN, 5]], (2, 4))
    assert points(curves) == [[(1.0, 1.0), (0.0, 2.0)], [(0.5, 3.0), (0.0, 5.0)]]
    assert curves.grid is None
    assert len(curves) == 2
    with pytest.raises(InputError, match="no grid for a matrix"):
        curves.matrix(0, 1)


@pytest.mark.parametrize("rows", [[2, 0, 2], slice(1, 3), np.array([True, False, True]), []])
def test_take(rows):
    grid = Curves.on_grid([0.0, 1.0, 2.0], HOLES)
    ragged = Curves.individual([[0.0], [0.1, 0.2], [0.5, 0.6, 0.7]], [[1], [2, 3], [4, 5, 6]], (0, 1))
    for curves in (grid, ragged):
        taken = curves.take(rows)
        assert points(taken) == [points(curves)[row] for row in np.arange(3)[rows]]
        assert taken.interval == curves.interval
    np.testing.assert_array_equal(grid.take(rows).matrix(0, len(grid.take(rows))), np.array(HOLES)[rows])


def test_no_curves_are_curves():
    assert len(Curves.on_grid([0.0, 1.0], np.empty((0, 2)))) == 0
    assert len(Curves.individual([], [], (0, 1))) == 0


@pytest.mark.parametrize(
    ("times", "values", "interval", "message"),
    [
        ([0, 1, 1], HOLES, None, "must increase, but 1 follows 1"),
        ([0, 2, 1], HOLES, None, "must increase, but 1 follows 2"),
        ([0, NAN, 1], HOLES, None, "grid time nan is not a finite"),
        ([[0, 1, 2]], HOLES, None, r"shape \(1, 3\)"),
        ([], HOLES, None, "one number or more"),
        (["a", "b", "c"], HOLES, None, "grid times cannot be read as numbers"),
        ([0, 1, 2], [["x", "y", "z"]], None, "values of the curves cannot be read"),
        ([0, 1], HOLES, None, r"2 grid times, but values of shape \(3, 3\)"),
        ([0, 1, 2], [1, 2, 3], None, r"values of shape \(3,\)"),
        ([0, 1, 2], [[1, 2, 3], [NAN] * 3], None, "row 2 has no point"),
        ([0, 1, 2], [[1, 2, 3], [1, 2, -np.inf]], None, "row 2 is -inf at time 2"),
        ([0, 1, 2], HOLES, (0, 1.5), "grid time 2 lies outside the interval 0 to 1.5"),
        ([0, 1, 2], HOLES, (0.5, 2), "grid time 0 lies outside"),
        ([3], [[1.0]], None, "interval 3 to 3 is empty"),
        ([0, 1, 2], HOLES, (2, 0), "interval 2 to 0 is empty"),
        ([0, 1, 2], HOLES, (0, np.inf), "is empty"),
    ],
)
def test_what_a_grid_refuses(times, values, interval, message):
    with pytest.raises(InputError, match=message):
        Curves.on_grid(times, values, interval)


@pytest.mark.parametrize(
    ("times", "values", "message"),
    [
        ([[0.5], []], [[1], []], "row 2 has no point"),
        ([[0.5], [0.1, 0.2]], [[1], [NAN, NAN]], "row 2 has no point"),
        ([[0.5], [0.1, 1.2]], [[1], [1, 2]], "row 2 has a point at time 1.2, not within the interval 0 to 1"),
        ([[0.5], [-0.1, 1]], [[1], [1, 2]], "time -0.1"),
        ([[0.5], [0.1, NAN]], [[1], [1, 2]], "row 2 has a point at time nan"),
        ([[0.5], [0.1, 0.2]], [[1], [1, np.inf]], "row 2 is inf at time 0.2"),
        ([[0.5], [0.1]], [[1]], "times for 2 curves, but values for 1"),
        ([[0.5], [0.1]], [[1], [1, 2]], r"row 2 has times of shape \(1,\) and values of shape \(2,\)"),
        ([[0.5], [[0.1]]], [[1], [[1]]], r"shape \(1, 1\)"),
        ([[0.5], ["x"]], [[1], [1]], "times of the curve in row 2 cannot"),
    ],
)
def test_what_individual_times_refuse(times, values, message):
    with pytest.raises(InputError, match=message):
        Curves.individual(times, values, (0, 1))


def test_rows_are_counted_as_in_the_file():
    with pytest.raises(InputError, match="row 12 has no point"):
        Curves.on_grid([0, 1], [[1, 2], [NAN, NAN]], first_row=10)
    with pytest.raises(InputError, match="row 12 is inf"):
        Curves.on_grid([0, 1], [[1, 2], [np.inf, 1]], first_row=10)
    for times, values in (([[0], []], [[1], []]), ([[0], [9]], [[1], [1]]), ([[0], [1]], [[1], [np.inf]])):
        with pytest.raises(InputError, match="row 12 "):
            Curves.individual(times, values, (0, 1), first_row=10)
