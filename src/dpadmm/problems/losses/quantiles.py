"""Several quantile levels of one target at once, with a model matrix of width x levels.

The sum of the levels' check losses is one loss: one release a round covers all levels, and they share its noise and its
budget. A record's gradient is a (s_1 .. s_T), as long as |a| sqrt(sum of max(tau, 1 - tau)²).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import FloatArray
from dpadmm._ranges import SHARES, WIDTHS_OR_ZERO, check_ranges, ranged
from dpadmm.errors import InputError
from dpadmm.problems.losses.base import Loss, numbers
from dpadmm.problems.losses.quantile import Quantile, SmoothedQuantile
from dpadmm.problems.losses.unrounded import unrounded_sum
from dpadmm.problems.shards import Shards
from dpadmm.release.sums import SeveralMargins

MOST = 100  # levels: a run's terms come from strangers


@dataclass(frozen=True)
class Quantiles(Loss):
    """The levels in increasing order; with a width above zero their kinks are rounded over it."""

    levels: tuple[float, ...] = ranged(SHARES, (0.1, 0.5, 0.9))
    width: float = ranged(WIDTHS_OR_ZERO, 0.0)

    name = "quantiles"
    about = "quantile regression at several levels, which share the budget (default 0.1,0.5,0.9)"
    task = "regression"

    def __post_init__(self) -> None:
        levels = self.levels if isinstance(self.levels, tuple) else (self.levels,)
        object.__setattr__(self, "levels", levels)
        check_ranges(self, f"loss {self.name!r}")
        if not (1 <= len(levels) <= MOST and all(a < b for a, b in itertools.pairwise(levels))):
            raise InputError(f"loss {self.name!r}: levels {levels} must be 1 to {MOST} numbers in increasing order.")

    @property
    def twice_differentiable(self) -> bool:  # type: ignore[override]
        return self.width > 0.0

    @property
    def each(self) -> tuple[Quantile, ...]:
        """The loss of every level."""
        if self.width > 0.0:
            return tuple(SmoothedQuantile(level, self.width) for level in self.levels)
        return tuple(Quantile(level) for level in self.levels)

    def outputs(self, classes: int) -> int:
        return len(self.levels)

    def encode(self, targets: NDArray[Any], classes: int) -> NDArray[Any]:
        return numbers(self.name, targets)

    def gradient_bound(self, row_bound: float, norm: int = 2) -> float:
        slopes = [loss.slope_bound for loss in self.each]
        return row_bound * (sum(slopes) if norm == 1 else math.hypot(*slopes))

    def curvature_bound(self, norm_bound: float) -> float | None:
        """Of a block-diagonal Hessian: the largest of the levels'."""
        return self.each[0].curvature_bound(norm_bound)

    def values(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        parts = [loss.values(shards, part, weights) for loss, part in self._parts(x)]
        return np.sum(parts, axis=0)

    def query(self, classes: int = 0) -> SeveralMargins:
        return SeveralMargins(tuple(loss.query() for loss in self.each))

    def gradient(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return weights[:, None] * unrounded_sum(self.query(), shards, x)

    def hessian(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        levels, out = len(self.levels), np.zeros((*x.shape, x.shape[1]))
        for level, (loss, part) in enumerate(self._parts(x)):
            out[:, level::levels, level::levels] = loss.hessian(shards, part, weights)
        return out

    def predictions(self, features: Any, models: FloatArray) -> NDArray[Any]:
        """(models, records, levels)."""
        return np.stack([loss.predictions(features, part) for loss, part in self._parts(models)], axis=2)

    def errors(self, features: Any, targets: NDArray[Any], models: FloatArray) -> FloatArray:
        """The mean check loss over records and levels."""
        return np.mean([loss.errors(features, targets, part) for loss, part in self._parts(models)], axis=0)

    def rounded(self, width: float) -> Quantiles:
        return self if self.width > 0.0 else Quantiles(self.levels, width)

    def slack(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        """As `SmoothedQuantile.slack`, of all levels together."""
        return np.sum([loss.slack(shards, part, weights) for loss, part in self._parts(x)], axis=0)

    def _parts(self, x: FloatArray) -> list[tuple[Quantile, FloatArray]]:
        """Each level with its own coefficients, (n, width)."""
        levels = len(self.levels)
        return [(loss, np.ascontiguousarray(x[:, level::levels])) for level, loss in enumerate(self.each)]
