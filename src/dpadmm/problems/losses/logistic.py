"""Binary logistic loss ln(1 + exp(-b <a, x>)), b = -1 or +1 (theory 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from dpadmm._kernels import loss_functions
from dpadmm._kernels.compiled import implements
from dpadmm.problems.losses.base import MarginLoss, signs


class LogisticTag(NamedTuple):
    scale: float


@implements(loss_functions.value, LogisticTag)
def _value(loss: LogisticTag, margin: float, target: float) -> float:
    m = target * margin
    return math.log1p(math.exp(-abs(m))) + max(-m, 0.0)


@implements(loss_functions.derivative, LogisticTag)
def _derivative(loss: LogisticTag, margin: float, target: float) -> float:
    return -target / (1.0 + math.exp(target * margin))


@implements(loss_functions.curvature, LogisticTag)
def _curvature(loss: LogisticTag, margin: float, target: float) -> float:
    e = math.exp(-abs(margin))
    return e / ((1.0 + e) * (1.0 + e))


@dataclass(frozen=True)
class Logistic(MarginLoss):
    """Slope at most 1, second derivative at most 1/4."""

    name = "logistic"
    about = "binary logistic regression"
    one_sided = True
    task = "binary"
    bend_bound = 0.25

    @property
    def tag(self) -> LogisticTag:
        return LogisticTag(1.0)

    def encode(self, targets: NDArray[Any], classes: int) -> NDArray[Any]:
        return signs(self.name, targets, classes)
