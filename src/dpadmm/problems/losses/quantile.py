"""The check loss of quantile regression, rho_tau(u) = u (tau - 1{u <= 0}) of the residual u = b - <a, x>; with its
kink, or with the kink rounded (004; spec sections 1 and 7).

Its slope is at most max(tau, 1 - tau) whatever the target, so targets need no bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import FloatArray
from dpadmm._kernels import loss_functions
from dpadmm._kernels.compiled import implements
from dpadmm._ranges import SHARES, WIDTHS, check_ranges, ranged
from dpadmm.problems.kernels.smoothed_plus import corner, corner_bend, corner_slope
from dpadmm.problems.losses.base import MarginLoss, numbers
from dpadmm.problems.shards import Shards


class QuantileTag(NamedTuple):
    level: float


class RoundedTag(NamedTuple):
    level: float
    width: float


class SlackTag(NamedTuple):
    level: float
    width: float


@implements(loss_functions.value, QuantileTag)
def _value(loss: QuantileTag, margin: float, target: float) -> float:
    left = target - margin
    return left * loss.level if left > 0.0 else left * (loss.level - 1.0)


@implements(loss_functions.derivative, QuantileTag)
def _derivative(loss: QuantileTag, margin: float, target: float) -> float:
    return -loss.level if margin < target else 1.0 - loss.level


@implements(loss_functions.curvature, QuantileTag)
def _curvature(loss: QuantileTag, margin: float, target: float) -> float:
    return 0.0


# rho_tau(u) = tau u + max(-u, 0): rounding its kink is rounding the corner of the second term.
@implements(loss_functions.value, RoundedTag)
def _rounded_value(loss: RoundedTag, margin: float, target: float) -> float:
    left = target - margin
    if left <= -loss.width:  # as one product: a difference of two would be infinite less infinite where left is
        return left * (loss.level - 1.0)
    return loss.level * left + corner(-left, loss.width)


@implements(loss_functions.derivative, RoundedTag)
def _rounded_derivative(loss: RoundedTag, margin: float, target: float) -> float:
    return corner_slope(margin - target, loss.width) - loss.level


@implements(loss_functions.curvature, RoundedTag)
def _rounded_curvature(loss: RoundedTag, margin: float, target: float) -> float:
    return corner_bend(margin - target, loss.width)


@implements(loss_functions.value, SlackTag)
def _slack(loss: SlackTag, margin: float, target: float) -> float:
    # rho(u) - s u for the rounded loss's slope s in u, as products of numbers that are not negative: nothing cancels.
    left = target - margin
    if abs(left) >= loss.width:  # infinite times zero would be NaN
        return 0.0
    return left * corner_slope(-left, loss.width) if left > 0.0 else -left * corner_slope(left, loss.width)


@dataclass(frozen=True)
class Quantile(MarginLoss):
    """Slope at most max(tau, 1 - tau), and a kink where the residual is zero."""

    level: float = ranged(SHARES, 0.5)

    name = "quantile"
    about = "quantile regression at one level (default 0.5, the median)"
    task = "regression"
    twice_differentiable = False
    bend_bound = 0.0

    def __post_init__(self) -> None:
        check_ranges(self, f"loss {self.name!r}")

    @property
    def levels(self) -> tuple[float, ...]:  # type: ignore[override]
        return (self.level,)

    @property
    def slope_bound(self) -> float:  # type: ignore[override]
        return max(self.level, 1.0 - self.level)

    @property
    def tag(self) -> QuantileTag | RoundedTag:
        return QuantileTag(float(self.level))

    def curvature_bound(self, norm_bound: float) -> float | None:
        return None

    def encode(self, targets: NDArray[Any], classes: int) -> NDArray[Any]:
        return numbers(self.name, targets)

    def errors(self, features: Any, targets: NDArray[Any], models: FloatArray) -> FloatArray:
        """The mean check loss, which is what a quantile is judged by."""
        left = targets - self.predictions(features, models)
        return np.mean(left * (self.level - (left <= 0.0)), axis=1)

    def prox(self, residual: FloatArray, stiffness: FloatArray | float) -> FloatArray:
        """argmin over u of rho_tau(u) + (stiffness/2) (u - residual)²: exact, whatever the residual."""
        above, below = residual - self.level / stiffness, residual - (self.level - 1.0) / stiffness
        return np.where(above > 0.0, above, np.where(below < 0.0, below, 0.0))

    def rounded(self, width: float) -> SmoothedQuantile:
        """The same loss with its kink rounded: never below it, and above it by at most 3/16 of the width."""
        return SmoothedQuantile(self.level, width)


@dataclass(frozen=True)
class SmoothedQuantile(Quantile):
    """Slope at most max(tau, 1 - tau), second derivative at most 3/(4h)."""

    width: float = ranged(WIDTHS, 0.25)

    name = "smoothed-quantile"
    about = "quantile regression, kink rounded over a half-width (default level 0.5, half-width 0.25)"
    twice_differentiable = True

    @property
    def bend_bound(self) -> float:  # type: ignore[override]
        return 0.75 / self.width

    @property
    def tag(self) -> RoundedTag:
        return RoundedTag(float(self.level), float(self.width))

    def curvature_bound(self, norm_bound: float) -> float:
        return self.bend_bound * norm_bound**2

    def rounded(self, width: float) -> SmoothedQuantile:
        return self

    def slack(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        """weights * sum of rho(u) - s u over records, for the slope s of this loss at the residual u; never negative.

        rho(v) = max of t v over t in [tau - 1, tau], and s lies there: rho(v) >= rho(u) + s (v - u) - (rho(u) - s u).
        So the gradient of this loss is one of the loss with the kink, up to this slack.
        """
        tag = SlackTag(float(self.level), float(self.width))
        return self.totals(shards, x, weights, tag)
