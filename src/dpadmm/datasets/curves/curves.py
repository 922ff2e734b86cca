"""Curves observed at points: on a grid they share, perhaps with holes, or each at points of its own.

Time is rescaled so that the public interval becomes [0, 1]. Integrals over it are means, so a curve's squared length
is the mean of its squared values, in the unit of the values and whatever the unit of time was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm.datasets.cells import first
from dpadmm.errors import InputError


@dataclass(frozen=True, eq=False)
class Curves:
    """m curves; made by `on_grid` or `individual`, which check what they are given.

    times, values: the points of all curves, one curve after the other; times are rescaled to [0, 1].
    starts: where each curve begins, and one more entry: where the last one ends.
    interval: what was rescaled to [0, 1]. It is public: chosen, or that of a public grid.
    grid: the rescaled grid when all points lie on one, else None.
    """

    times: np.ndarray
    values: np.ndarray
    starts: np.ndarray
    interval: tuple[float, float]
    grid: np.ndarray | None = None

    @classmethod
    def on_grid(
        cls, times: Any, values: Any, interval: tuple[float, float] | None = None, first_row: int = 0
    ) -> Curves:
        """Values (m, J) at J times, NaN where one is missing; without an interval, from the first time to the last.

        `first_row`: how many rows of a file stand before these, so that messages count as the file does.
        """
        grid = check_grid(times)
        matrix = _floats(values, "the values of the curves")
        if matrix.ndim != 2 or matrix.shape[1] != len(grid):
            raise InputError(
                f"{len(grid)} grid times, but values of shape {matrix.shape}; a row for each curve and a column for "
                "each time are needed."
            )
        low, high = _interval((grid[0], grid[-1]) if interval is None else interval)
        outside = first((grid < low) | (grid > high))
        if outside is not None:
            raise InputError(f"the grid time {grid[outside]:g} lies outside the interval {low:g} to {high:g}.")
        wrong = np.argwhere(np.isinf(matrix))
        if wrong.size:
            row, column = wrong[0]
            raise _infinite(matrix[row, column], first_row + row, grid[column])
        seen = ~np.isnan(matrix)
        counts = seen.sum(axis=1)
        _check_points(counts, first_row)
        grid = (grid - low) / (high - low)
        if seen.all():
            flat, times = matrix.ravel(), np.tile(grid, len(matrix))
        else:
            flat, times = matrix[seen], np.broadcast_to(grid, matrix.shape)[seen]
        return cls(times, flat, _starts(counts), (low, high), grid)

    @classmethod
    def individual(
        cls, times: Sequence[Any], values: Sequence[Any], interval: tuple[float, float], first_row: int = 0
    ) -> Curves:
        """Each curve at times of its own, in any order; a value of NaN is a point that is missing.

        The interval has to be given: the earliest and latest time in the data would be statistics of the data.
        """
        low, high = _interval(interval)
        if len(times) != len(values):
            raise InputError(f"times for {len(times)} curves, but values for {len(values)}.")
        pairs = [
            _pair(own_times, own_values, first_row + row)
            for row, (own_times, own_values) in enumerate(zip(times, values, strict=True))
        ]
        flat_times = np.concatenate([pair[0] for pair in pairs]) if pairs else np.empty(0)
        flat_values = np.concatenate([pair[1] for pair in pairs]) if pairs else np.empty(0)
        rows = np.repeat(np.arange(len(pairs)), [len(pair[0]) for pair in pairs])
        # Written so that a time of NaN, which compares with nothing, is outside as well.
        outside = first(~((flat_times >= low) & (flat_times <= high)))
        if outside is not None:
            raise InputError(
                f"the curve in row {first_row + rows[outside] + 1} has a point at time {flat_times[outside]:g}, not "
                f"within the interval {low:g} to {high:g}; remove the point or widen the public interval."
            )
        wrong = first(np.isinf(flat_values))
        if wrong is not None:
            raise _infinite(flat_values[wrong], first_row + rows[wrong], flat_times[wrong])
        seen = ~np.isnan(flat_values)
        counts = np.bincount(rows[seen], minlength=len(pairs))
        _check_points(counts, first_row)
        rescaled = (flat_times[seen] - low) / (high - low)
        return cls(rescaled, flat_values[seen], _starts(counts), (low, high))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> np.ndarray:
        """How many points each curve has."""
        return np.diff(self.starts)

    def take(self, rows: np.ndarray | Sequence[int] | slice) -> Curves:
        """These curves, in this order."""
        chosen = np.arange(len(self))[rows]
        counts = self.counts[chosen]
        starts = _starts(counts)
        points = np.repeat(self.starts[chosen] - starts[:-1], counts) + np.arange(starts[-1])
        return Curves(self.times[points], self.values[points], starts, self.interval, self.grid)

    def matrix(self, start: int, stop: int) -> np.ndarray:
        """The curves start to stop of a common grid as rows of a matrix, with NaN for what is missing."""
        if self.grid is None:
            raise InputError("these curves have times of their own; there is no grid for a matrix.")
        points = slice(self.starts[start], self.starts[stop])
        counts = self.counts[start:stop]
        width = len(self.grid)
        if (counts == width).all():
            return self.values[points].reshape(-1, width)
        matrix = np.full((stop - start, width), np.nan)
        matrix[np.repeat(np.arange(stop - start), counts), np.searchsorted(self.grid, self.times[points])] = (
            self.values[points]
        )
        return matrix


def check_grid(times: Any) -> np.ndarray:
    """The times of a grid as an array, if they can be one."""
    grid = _floats(times, "the grid times")
    if grid.ndim != 1 or grid.size == 0:
        raise InputError(f"the grid times must be a list of one number or more; got an array of shape {grid.shape}.")
    if not np.isfinite(grid).all():
        raise InputError(f"grid time {grid[~np.isfinite(grid)][0]} is not a finite number.")
    later = first(np.diff(grid) <= 0)
    if later is not None:
        raise InputError(
            f"grid times must increase, but {grid[later + 1]:g} follows {grid[later]:g}; sort the columns by time."
        )
    return grid


def _floats(numbers: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} cannot be read as numbers: {error}") from None


def _pair(times: Any, values: Any, row: int) -> tuple[np.ndarray, np.ndarray]:
    pair = (
        _floats(times, f"the times of the curve in row {row + 1}"),
        _floats(values, f"the values of the curve in row {row + 1}"),
    )
    if pair[0].ndim != 1 or pair[0].shape != pair[1].shape:
        raise InputError(
            f"the curve in row {row + 1} has times of shape {pair[0].shape} and values of shape {pair[1].shape}; "
            "one value for each time is needed."
        )
    return pair


def _interval(interval: tuple[float, float]) -> tuple[float, float]:
    low, high = (float(end) for end in interval)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"the interval {low:g} to {high:g} is empty; it needs finite ends, the first before the last.")
    return low, high


def _infinite(value: float, row: int, time: float) -> InputError:
    return InputError(
        f"the curve in row {row + 1} is {value} at time {time:g}; a finite number is needed, or NaN if it is missing."
    )


def _check_points(counts: np.ndarray, first_row: int) -> None:
    row = first(counts == 0)
    if row is not None:
        raise InputError(f"the curve in row {first_row + row + 1} has no point; leave it out.")


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
