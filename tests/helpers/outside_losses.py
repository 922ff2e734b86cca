"""Losses as somebody outside the library would write them, by NumPy alone: a sound one, and mistakes to plant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpadmm.problems.losses.base import MarginLoss, numbers, signs
from dpadmm.release.rows import SIDE, cell
from dpadmm.release.sums import Bounds, Query, Total

LARGEST = 2**20  # of a slope, in units


class NoTag(NamedTuple):
    """It is not compiled."""


@dataclass(frozen=True)
class Slopes(Query):
    """slope * row of every record, with slopes of 20 binary digits, summed in 64-bit integers."""

    loss: Any

    def bounds(self, width: int, row_bound: float) -> Bounds:
        norm = LARGEST * SIDE
        worth = cell(row_bound) * self.loss.slope_bound / LARGEST
        return Bounds(norm, math.isqrt(norm**2 * width) + 1, 2 * norm, worth, width)

    def total(self, table: Any, x: Any) -> Total:
        owner, places = _owners(table)
        rows, targets = _dense(table)[places], table.targets[places]
        with np.errstate(all="ignore"):
            scaled = self.loss.slope((rows * (x * table.cell)[owner]).sum(axis=1), targets) / self.loss.slope_bound
            slopes = np.rint(np.nan_to_num(np.clip(scaled, -1.0, 1.0)) * LARGEST)
        found = np.zeros(x.shape, dtype=np.int64)
        np.add.at(found, owner, self.contributions(slopes.astype(np.int64), rows.astype(np.int64), places))
        return Total(found >> 26, found & (2**26 - 1))

    def contributions(self, slopes: Any, rows: Any, places: Any) -> Any:
        return slopes[:, None] * rows


def _owners(shards: Any) -> Any:
    """Whose each record is, and where it lies in the table."""
    places = [np.arange(start, stop) for start, stop in zip(shards.starts, shards.stops, strict=True)]
    return np.repeat(np.arange(shards.agents), shards.counts), np.concatenate(places)


@dataclass(frozen=True)
class Outside(MarginLoss):
    """sqrt(1 + u²) - 1 of the residual u = margin - target: convex, slope below 1, second derivative at most 1."""

    name = "outside"
    about = "a smooth absolute loss"
    task = "regression"
    slope_bound = 1.0
    bend_bound = 1.0

    @property
    def tag(self) -> NamedTuple:
        return NoTag()

    def encode(self, targets: Any, classes: int) -> Any:
        return numbers(self.name, targets)

    def phi(self, margin: Any, target: Any) -> Any:
        return np.hypot(1.0, margin - target) - 1.0

    def slope(self, margin: Any, target: Any) -> Any:
        return (margin - target) / np.hypot(1.0, margin - target)

    def bend(self, margin: Any, target: Any) -> Any:
        return np.hypot(1.0, margin - target) ** -3.0

    def query(self, classes: int = 2) -> Any:
        return Slopes(self)

    def values(self, shards: Any, x: Any, weights: Any) -> Any:
        return self._sums(shards, x, weights, lambda rows, m, t: self.phi(m, t))

    def gradient(self, shards: Any, x: Any, weights: Any) -> Any:
        return self._sums(shards, x, weights, lambda rows, m, t: self.slope(m, t)[:, None] * rows)

    def hessian(self, shards: Any, x: Any, weights: Any) -> Any:
        return self._sums(
            shards, x, weights, lambda rows, m, t: self.bend(m, t)[:, None, None] * rows[:, :, None] * rows[:, None, :]
        )

    def _sums(self, shards: Any, x: Any, weights: Any, term: Any) -> Any:
        """One agent after the other, unless all have one record."""
        rows = _dense(shards) * shards.cell
        weights = weights if np.ndim(weights) else np.full(len(x), weights)
        if (shards.counts == 1).all():
            mine = rows[shards.starts]
            terms = term(mine, (mine * x).sum(axis=1), shards.targets[shards.starts])
            return weights.reshape(-1, *(1,) * (terms.ndim - 1)) * terms
        found = []
        for i, (start, stop) in enumerate(zip(shards.starts, shards.stops, strict=True)):
            mine = rows[start:stop]
            found.append(weights[i] * term(mine, (mine * x[i]).sum(axis=1), shards.targets[start:stop]).sum(axis=0))
        return np.array(found)


def _dense(shards: Any) -> Any:
    rows = shards.features.toarray() if shards.sparse else shards.features
    return rows.astype(np.float64)


@dataclass(frozen=True)
class OutsideBinary(Outside):
    """The same of 1 - target * margin."""

    name = "outside-binary"
    task = "binary"

    def encode(self, targets: Any, classes: int) -> Any:
        return signs(self.name, targets, classes)

    def phi(self, margin: Any, target: Any) -> Any:
        return super().phi(target * margin, 1.0)

    def slope(self, margin: Any, target: Any) -> Any:
        return target * super().slope(target * margin, 1.0)

    def bend(self, margin: Any, target: Any) -> Any:
        return super().bend(target * margin, 1.0)
