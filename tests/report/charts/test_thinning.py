"""Fewer points, the same picture."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpadmm.report.charts.thinning import kept, numbers

LINES = st.lists(st.one_of(st.floats(-10, 10), st.just(np.nan)), min_size=1, max_size=300).map(np.array)


@given(LINES, st.integers(4, 60))
def test_extremes_and_ends_stay(line: np.ndarray, most: int) -> None:
    at = kept([line], most)
    assert len(at) <= most
    assert at[0] == 0
    assert at[-1] == len(line) - 1
    assert (np.diff(at) > 0).all()
    if not np.isnan(line).all():
        assert np.nanmin(line[at]) == np.nanmin(line)
        assert np.nanmax(line[at]) == np.nanmax(line)


def test_a_band_keeps_its_own_extremes() -> None:
    x = np.arange(1_000.0)
    low, high = np.zeros(1_000), np.ones(1_000)
    low[137], high[868] = -5.0, 7.0
    at = kept([x, low, high], 60)
    assert {137, 868} <= set(at.tolist())
    assert len(at) <= 60


def test_few_points_are_left_alone() -> None:
    assert kept([np.arange(5.0)], 5).tolist() == [0, 1, 2, 3, 4]


def test_gaps() -> None:
    assert numbers(np.array([1.0, np.nan, np.inf])) == [1.0, None, None]
