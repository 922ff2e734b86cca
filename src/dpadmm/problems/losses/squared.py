"""Squared loss (<a, x> - b)²/2 with each residual's pull clipped at a public bound c.

A plain square has no gradient bound, hence no sensitivity. Clipping the residual in the gradient is the same as
minimising Huber's loss: quadratic up to c, straight beyond.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from dpadmm._kernels import loss_functions
from dpadmm._kernels.compiled import implements
from dpadmm._ranges import SIZES, check_ranges, ranged
from dpadmm.problems.losses.base import MarginLoss, numbers


class SquaredTag(NamedTuple):
    clip: float


@implements(loss_functions.value, SquaredTag)
def _value(loss: SquaredTag, margin: float, target: float) -> float:
    gap = abs(margin - target)
    c = loss.clip
    return 0.5 * gap * gap if gap <= c else c * (gap - 0.5 * c)


@implements(loss_functions.derivative, SquaredTag)
def _derivative(loss: SquaredTag, margin: float, target: float) -> float:
    return min(max(margin - target, -loss.clip), loss.clip)


@implements(loss_functions.curvature, SquaredTag)
def _curvature(loss: SquaredTag, margin: float, target: float) -> float:
    return 1.0 if abs(margin - target) <= loss.clip else 0.0


@dataclass(frozen=True)
class ClippedSquared(MarginLoss):
    """Slope at most the clip, second derivative at most 1."""

    clip: float = ranged(SIZES, 1.0)

    name = "squared"
    about = "least squares with residuals clipped at a public bound (default 1)"
    task = "regression"
    twice_differentiable = False  # the second derivative jumps where clipping begins
    bend_bound = 1.0

    def __post_init__(self) -> None:
        check_ranges(self, f"loss {self.name!r}")

    @property
    def slope_bound(self) -> float:  # type: ignore[override]
        return self.clip

    @property
    def tag(self) -> SquaredTag:
        return SquaredTag(float(self.clip))

    def encode(self, targets: NDArray[Any], classes: int) -> NDArray[Any]:
        return numbers(self.name, targets)
