"""What the softmax loss, plain or capped, is to a kernel: its derivative in a record's scores, one for each class."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpadmm._kernels.compiled import compiled


class Shape(NamedTuple):
    """What a kernel must know of the loss."""

    classes: int
    cap: float = 1.0


@compiled()
def residuals_of(scores: Any, own: int, cap: float, residuals: Any) -> None:
    """Probabilities less one for the own class; where that one is off by more than the cap, all are scaled down to it.

    Scores are overwritten.
    """
    classes = scores.size
    top = scores[0]
    for k in range(1, classes):
        top = max(top, scores[k])
    for k in range(classes):
        scores[k] = np.exp(scores[k] - top)
    others = 0.0
    for k in range(classes):
        residuals[k] = scores[k]
        others += residuals[k]
    others -= residuals[own]  # what is left of a sum of a few numbers, the largest of them 1
    whole = others + residuals[own]
    if others < 1e-3 * whole:  # too few digits are left
        others = 0.0
        for k in range(classes):
            others += residuals[k] if k != own else 0.0
        whole = others + residuals[own]
    missed = others / whole
    share = cap / others if missed > cap else 1.0 / whole
    for k in range(classes):
        residuals[k] *= share
    residuals[own] = -min(missed, cap)
