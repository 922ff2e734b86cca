"""Logistic and softmax losses whose pull is capped: no record pulls harder than one whose class has probability 1 - c.

Noise is as loud as the hardest pull that a record could have, and under the plain losses only records that a model gets
quite wrong pull so hard. Capped at c, all of them pull alike and the noise is 1/c times quieter.

Both are min over s >= 0 of l(u + s e_b) + c s: the largest convex functions below the plain losses that grow no faster
than c along the score of the record's own class. Up to a loss of -ln(1 - c) they are the plain ones; beyond it the
score of the own class enters by its straight part, c (ln q - u_b) + H(c), with q the sum of exp(u_k) over the other
classes and H the entropy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from dpadmm._kernels import loss_functions
from dpadmm._kernels.compiled import implements
from dpadmm._ranges import SHARES, check_ranges, ranged
from dpadmm.problems.losses.base import MarginLoss, signs
from dpadmm.problems.losses.softmax import Softmax

CAP = 0.3


class CappedTag(NamedTuple):
    cap: float
    corner: float  # the margin below which the loss is straight
    entropy: float


@implements(loss_functions.value, CappedTag)
def _value(loss: CappedTag, margin: float, target: float) -> float:
    m = target * margin
    if m < loss.corner:
        return loss.entropy - loss.cap * m
    return math.log1p(math.exp(-abs(m))) + max(-m, 0.0)


@implements(loss_functions.derivative, CappedTag)
def _derivative(loss: CappedTag, margin: float, target: float) -> float:
    return -target * min(1.0 / (1.0 + math.exp(target * margin)), loss.cap)


@implements(loss_functions.curvature, CappedTag)
def _curvature(loss: CappedTag, margin: float, target: float) -> float:
    if target * margin < loss.corner:
        return 0.0
    e = math.exp(-abs(margin))
    return e / ((1.0 + e) * (1.0 + e))


@dataclass(frozen=True)
class CappedLogistic(MarginLoss):
    """Slope at most c, second derivative at most c (1 - c), or 1/4 from c = 1/2 on."""

    cap: float = ranged(SHARES, CAP)

    name = "capped-logistic"
    about = "binary logistic regression in which no record pulls harder than c (default 0.3)"
    one_sided = True
    task = "binary"
    twice_differentiable = False  # the second derivative jumps where the cap begins

    def __post_init__(self) -> None:
        check_ranges(self, f"loss {self.name!r}")

    @property
    def slope_bound(self) -> float:  # type: ignore[override]
        return self.cap

    @property
    def bend_bound(self) -> float:  # type: ignore[override]
        least = min(self.cap, 0.5)
        return least * (1.0 - least)

    @property
    def tag(self) -> CappedTag:
        return CappedTag(self.cap, math.log((1.0 - self.cap) / self.cap), _entropy(self.cap))

    def encode(self, targets: NDArray[Any], classes: int) -> NDArray[Any]:
        return signs(self.name, targets, classes)


@dataclass(frozen=True)
class CappedSoftmax(Softmax):
    """The residual is p - e_b with p_b >= 1 - c, so it is no longer than sqrt(2) c; the Hessian is that of softmax,
    or c times that of the softmax over the other classes."""

    cap: float = ranged(SHARES, CAP)

    name = "capped-softmax"
    about = "multiclass logistic regression in which no record pulls harder than c (default 0.3)"
    twice_differentiable = False

    def __post_init__(self) -> None:
        check_ranges(self, f"loss {self.name!r}")

    @property
    def residual_cap(self) -> float:  # type: ignore[override]
        return self.cap


def _entropy(cap: float) -> float:
    return -cap * math.log(cap) - (1.0 - cap) * math.log1p(-cap)
