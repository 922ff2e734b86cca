"""Smoothed hinge: the support vector machine's loss with its kink smoothed over a half-width h.

The smoothed kink is `kernels/smoothed_plus.py`.

It is twice continuously differentiable, so objective perturbation applies to it as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from dpadmm._kernels import loss_functions
from dpadmm._kernels.compiled import implements
from dpadmm._ranges import WIDTHS, check_ranges, ranged
from dpadmm.problems.kernels.smoothed_plus import corner, corner_bend, corner_slope
from dpadmm.problems.losses.base import MarginLoss, signs


class HingeTag(NamedTuple):
    width: float


@implements(loss_functions.value, HingeTag)
def _value(loss: HingeTag, margin: float, target: float) -> float:
    return corner(1.0 - target * margin, loss.width)


@implements(loss_functions.derivative, HingeTag)
def _derivative(loss: HingeTag, margin: float, target: float) -> float:
    return -target * corner_slope(1.0 - target * margin, loss.width)


@implements(loss_functions.curvature, HingeTag)
def _curvature(loss: HingeTag, margin: float, target: float) -> float:
    return corner_bend(1.0 - target * margin, loss.width)


@dataclass(frozen=True)
class SmoothedHinge(MarginLoss):
    """Slope at most 1, second derivative at most 3/(4h)."""

    width: float = ranged(WIDTHS, 0.5)

    name = "smoothed-hinge"
    about = "linear support vector machine, corner rounded over a half-width (default 0.5)"
    one_sided = True
    task = "binary"

    def __post_init__(self) -> None:
        check_ranges(self, f"loss {self.name!r}")

    @property
    def bend_bound(self) -> float:  # type: ignore[override]
        return 0.75 / self.width

    @property
    def tag(self) -> HingeTag:
        return HingeTag(float(self.width))

    def encode(self, targets: NDArray[Any], classes: int) -> NDArray[Any]:
        return signs(self.name, targets, classes)
