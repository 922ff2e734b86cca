"""Dense rows times a few columns, and back.

A matrix product of so few columns spends its time on bringing rows into the order it wants. These loops take a number
of a row, or of a sum, from memory once for as many classes, or rows, as registers hold. One row's scores are computed
by the same code wherever the row lies.
"""

from __future__ import annotations

from typing import Any

from dpadmm._kernels.compiled import compiled

CLASSES_AT_ONCE = 5
ROWS_AT_ONCE = 8


@compiled()
def scores_of(features: Any, start: int, stop: int, model: Any, scores: Any) -> None:
    """scores[r, k] = <row start + r, class k of the model>, in the precision of the model."""
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
def add_rows(features: Any, start: int, stop: int, residuals: Any, total: Any) -> None:
    """total[k] += sum over the rows of residuals[r, k] * row start + r."""
    classes, width = total.shape
    row = start
    while row + ROWS_AT_ONCE <= stop:
        for k in range(classes):
            r = row - start
            a, b, c, d = residuals[r, k], residuals[r + 1, k], residuals[r + 2, k], residuals[r + 3, k]
            e, f, g, h = residuals[r + 4, k], residuals[r + 5, k], residuals[r + 6, k], residuals[r + 7, k]
            for j in range(width):
                total[k, j] += (
                    a * features[row, j]
                    + b * features[row + 1, j]
                    + c * features[row + 2, j]
                    + d * features[row + 3, j]
                    + e * features[row + 4, j]
                    + f * features[row + 5, j]
                    + g * features[row + 6, j]
                    + h * features[row + 7, j]
                )
        row += ROWS_AT_ONCE
    for last in range(row, stop):
        for k in range(classes):
            a = residuals[last - start, k]
            for j in range(width):
                total[k, j] += a * features[last, j]
