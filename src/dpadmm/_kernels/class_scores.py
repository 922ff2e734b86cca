"""What the softmax loss, plain or capped, is to a kernel: a record's scores, one for each class, and its derivative."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpadmm._kernels.compiled import compiled

CLASSES_AT_ONCE = 5


class Shape(NamedTuple):
    """What a kernel must know of the loss."""

    classes: int
    cap: float = 1.0


@compiled()
def scores_of(features: Any, start: int, stop: int, model: Any, scores: Any) -> None:
    """scores[r, k] = <row start + r, class k of the model>, in the precision of the model.

    A row's scores are computed by the same code wherever it lies. A number of it is taken from memory once for as many
    classes as registers hold; a matrix product of so few columns takes longer, to bring rows into the order it wants.
    """
    classes, width = model.shape
    zero = model.dtype.type(0.0)
    for row in range(start, stop):
        k = 0
        while k + CLASSES_AT_ONCE <= classes:
            a, b, c, d, e = zero, zero, zero, zero, zero
            for j in range(width):
                number = features[row, j]
                a += number * model[k, j]
                b += number * model[k + 1, j]
                c += number * model[k + 2, j]
                d += number * model[k + 3, j]
                e += number * model[k + 4, j]
            for place, score in enumerate((a, b, c, d, e)):
                scores[row - start, k + place] = score
            k += CLASSES_AT_ONCE
        for last in range(k, classes):
            a = zero
            for j in range(width):
                a += features[row, j] * model[last, j]
            scores[row - start, last] = a


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
