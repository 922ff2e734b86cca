"""Smoothed hinge: the support vector machine's loss with its corner rounded over a half-width h.

Between 1-h and 1+h it is the quartic of Chaudhuri, Monteleoni & Sarwate (2011, eq. 9), which is twice continuously
differentiable, so objective perturbation applies to it as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from dpadmm.errors import InputError
from dpadmm.problems.compiled import implements
from dpadmm.problems.kernels import scalars
from dpadmm.problems.losses.margin import MarginLoss, signs


class HingeTag(NamedTuple):
    width: float


@implements(scalars.value, HingeTag)
def _value(loss: HingeTag, margin: float, target: float) -> float:
    short = 1.0 - target * margin
    h = loss.width
    if short <= -h:
        return 0.0
    if short >= h:
        return short
    return -(short**4) / (16.0 * h**3) + 3.0 * short**2 / (8.0 * h) + short / 2.0 + 3.0 * h / 16.0


@implements(scalars.derivative, HingeTag)
def _derivative(loss: HingeTag, margin: float, target: float) -> float:
    short = 1.0 - target * margin
    h = loss.width
    if short <= -h:
        return 0.0
    if short >= h:
        return -target
    return -target * (-(short**3) / (4.0 * h**3) + 3.0 * short / (4.0 * h) + 0.5)


@implements(scalars.curvature, HingeTag)
def _curvature(loss: HingeTag, margin: float, target: float) -> float:
    short = 1.0 - target * margin
    h = loss.width
    if abs(short) >= h:
        return 0.0
    return 3.0 / (4.0 * h) * (1.0 - (short / h) ** 2)


@dataclass(frozen=True)
class SmoothedHinge(MarginLoss):
    """Slope at most 1, second derivative at most 3/(4h)."""

    width: float = 0.5

    name = "smoothed-hinge"
    about = "linear support vector machine, corner rounded over a half-width (default 0.5)"
    one_sided = True
    task = "binary"

    def __post_init__(self) -> None:
        if not 0 < self.width < math.inf:
            raise InputError(f"loss 'smoothed-hinge': half-width {self.width!r} must be a positive number.")

    @property
    def bend_bound(self) -> float:  # type: ignore[override]
        return 0.75 / self.width

    @property
    def tag(self) -> HingeTag:
        return HingeTag(float(self.width))

    def encode(self, targets: NDArray[Any], classes: int) -> NDArray[Any]:
        return signs(self.name, targets, classes)
