"""Rows standardised by means and mean squares that have noise in them: centred, scaled, clipped, a constant beside.

All of it is post-processing of what was released. A column whose variance drowns in the noise is scaled as if its
variance were the noise's deviation, and not blown up. Rows are clipped to the length that they have in the mean square,
as the same release says. The constant column is short: a one would let noise be louder by 41 % for a single number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.problems.rows import RowRules
from dpadmm.problems.shards import Shards

BOUND = 1.0  # no standardised row is longer, with its constant
LOUD = 0.7  # of the noise of all columns' mean squares together, beside the longest row's square
CONSTANT = 0.2  # of the intercept's column, beside a row of length 1


@dataclass(frozen=True, eq=False)
class Standard:
    """Row a becomes (a - centre) * scale, clipped to `length`, and then the constant, unless that is zero."""

    centre: FloatArray
    scale: FloatArray
    length: float
    constant: float

    def rows(self, shards: Shards, intercept: bool) -> Shards:
        """The records that rounds run on: none is longer than `BOUND`."""
        return shards.encoded(
            self._seen(shards, intercept), RowRules(self.length, self.constant > 0.0, self.constant), BOUND
        )

    def shown(self, shards: Shards, intercept: bool) -> Shards:
        """Records to predict for: as they are, because a model that is handed back clips nothing."""
        rows = self._seen(shards, intercept)
        return shards.unbounded(np.hstack([rows, np.full((len(rows), int(self.constant > 0.0)), self.constant)]))

    def models(self, models: FloatArray, intercept: bool) -> FloatArray:
        """<w, (a - c) s> + b k = <w s, a> + (b k - <w s, c>)."""
        columns = models.reshape(len(models), self.centre.size + (self.constant > 0.0), -1)
        slopes = columns[:, : self.centre.size] * self.scale[:, None]
        if not intercept:
            return slopes.reshape(len(models), -1)
        base = self.constant * columns[:, -1] - np.einsum("j,rjk->rk", self.centre, slopes)
        return np.concatenate([slopes, base[:, None]], axis=1).reshape(len(models), -1)

    def _seen(self, shards: Shards, intercept: bool) -> FloatArray:
        rows = shards.real_rows[:, :-1] if intercept else shards.real_rows
        return np.asarray((rows - self.centre) * self.scale)


def standard(released: FloatArray, deviation: float, bound: float, intercept: bool, tight: bool) -> Standard:
    """From the means of R a and of a², one after the other, of rows no longer than R = `bound`; each number has noise
    of this deviation. Without an intercept nothing is centred.

    Under loud noise `tight` leaves out of the rows' length what noise has added to it. Classes can be told apart by
    clipped rows as well; numbers cannot be told by them, and are given the room.
    """
    first, second = released.reshape(2, -1) / bound**2  # as of rows no longer than 1
    noise = deviation / bound**2
    centre = _shrunk(first, noise) if intercept else np.zeros_like(first)
    spread = second - centre**2
    variance = np.maximum(spread, 0.0)
    scale = 1.0 / np.sqrt(np.maximum(variance + noise, 1e-12))
    # Variances that noise made negative are none; counted as they are, they balance those that it made too large.
    counted = spread if tight and noise * spread.size > LOUD else variance
    usual = math.sqrt(max(1.0, float((counted * scale**2).sum())))
    whole = math.hypot(1.0, CONSTANT) if intercept else 1.0
    return Standard(
        centre=centre * bound,
        scale=scale / (bound * usual * whole),
        length=BOUND / whole,
        constant=CONSTANT * BOUND / whole if intercept else 0.0,
    )


def _shrunk(means: FloatArray, noise: float) -> FloatArray:
    """Means drawn towards zero by as much as their noise has drawn them apart (James & Stein)."""
    told = max(0.0, float((means**2).mean()) - noise**2)
    return means * (told / (told + noise**2)) if told > 0.0 else np.zeros_like(means)
