"""Fewer points that look the same: of every stretch of a line its lowest and its highest point are kept."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

POINTS = 240  # of a line; a screen shows no more


def kept(values: Sequence[NDArray[np.float64]], most: int = POINTS) -> NDArray[np.int64]:
    """Places of at most so many points per line, with both ends and the extremes of every stretch of every line."""
    size = len(values[0])
    if size <= most:
        return np.arange(size)
    found = {0, size - 1}
    edges = np.linspace(0, size, max(1, (most - 2) // (2 * len(values))) + 1).round().astype(int)
    for line in values:
        low, high = np.where(np.isnan(line), np.inf, line), np.where(np.isnan(line), -np.inf, line)
        for start, stop in pairwise(edges.tolist()):
            found |= {start + int(low[start:stop].argmin()), start + int(high[start:stop].argmax())}
    return np.array(sorted(found))


def numbers(values: NDArray[np.float64]) -> list[float | None]:
    """For a chart: what is not finite is a gap."""
    return [float(value) if np.isfinite(value) else None for value in values]
