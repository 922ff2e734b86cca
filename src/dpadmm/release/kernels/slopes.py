"""Step 2 of the release path: the slope of a loss at a record, as an integer, whatever the record and the model are."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpadmm._kernels.compiled import compiled
from dpadmm._kernels.loss_functions import derivative

BITS = 20
LARGEST = 2.0**BITS  # of a slope, in units of its bound / 2^BITS


@compiled(fast=False)
def whole(number: float, most: float) -> float:
    """The nearest integer within [-most, most], for an integer `most`; 0 for what is no number."""
    if number >= most:
        return most
    if number <= -most:
        return -most
    return np.rint(number) if number == number else 0.0


@compiled(fast=False)
def like(slope: float, other: float) -> float:
    """The slope if it has the other's sign, else zero: also where one of them is zero or no number."""
    return slope if slope * other > 0.0 else 0.0


@compiled()
def slope_of(loss: Any, margin: float, target: float, scale: float, most: float, one_sided: bool) -> float:
    """The derivative of a loss at a margin, times the scale and made an integer; as it is where the scale is zero.

    `one_sided` keeps a record's slopes at all models on the side of that at the margin zero.
    """
    slope = derivative(loss, margin, target)
    if scale == 0.0:
        return slope
    slope = whole(slope * scale, most)
    return like(slope, whole(derivative(loss, 0.0, target) * scale, most)) if one_sided else slope


@compiled(fast=False)
def make_whole(slopes: Any, scale: float) -> None:
    """Makes the slopes of one record (a vector of several scores) integers in place: their 2-norm is at most LARGEST,
    their 1-norm at most sqrt(2) LARGEST."""
    if scale == 0.0:
        return
    for k in range(slopes.size):
        slope = slopes[k] * scale
        slope = slope if slope == slope else 0.0
        slopes[k] = np.rint(min(max(slope, -LARGEST), LARGEST))
    if not _short(slopes):
        for k in range(slopes.size):
            slopes[k] = np.trunc(slopes[k] * (1.0 - 2.0**-17))
        if not _short(slopes):
            slopes[:] = 0.0


@compiled(fast=False)
def _short(slopes: Any) -> bool:
    """Sums of squares of fewer than 2^13 integers up to 2^20 are exact."""
    squares, lengths = 0.0, 0.0
    for k in range(slopes.size):
        squares += slopes[k] * slopes[k]
        lengths += abs(slopes[k])
    return squares <= LARGEST * LARGEST and lengths * lengths <= 2.0 * LARGEST * LARGEST
