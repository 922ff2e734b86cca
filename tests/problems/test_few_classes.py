"""Rows times a few columns and back, against NumPy: all remainders of what the loops take at once."""

from __future__ import annotations

import numpy as np
import pytest

from dpadmm.release.kernels.few_classes import (
    CLASSES_AT_ONCE,
    COLUMNS_AT_ONCE,
    SUMS_AT_ONCE,
    add_rows,
    scores_of,
)

CLASSES = [1, CLASSES_AT_ONCE - 1, CLASSES_AT_ONCE, CLASSES_AT_ONCE + 1, 2 * CLASSES_AT_ONCE + 3]
ROWS = [1, 3, 8, 29]
TOLERANCE = {"float64": 1e-13, "float32": 1e-5}


def numbers(precision: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype(precision)


def up(count: int, to: int) -> int:
    return -(-count // to) * to


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("width", [1, COLUMNS_AT_ONCE, 4 * COLUMNS_AT_ONCE + 5])
@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("rows", ROWS)
def test_some_rows_of_a_table(rows: int, classes: int, width: int, precision: str) -> None:
    features = numbers(precision, rows + 5, width)
    inside, start, stop = features[3 : 3 + rows].astype(np.float64), 3, 3 + rows
    model, slopes = numbers(precision, classes, width), np.zeros((rows, up(classes, SUMS_AT_ONCE)))
    slopes[:, :classes] = numbers("float64", rows, classes)
    begun = np.zeros((up(classes, SUMS_AT_ONCE), up(width, COLUMNS_AT_ONCE)))
    begun[:classes, :width] = numbers("float64", classes, width)

    scores = np.full((rows, classes), np.nan, dtype=precision)
    scores_of(features, start, stop, model, scores)
    total, rest = begun.copy(), np.full((rows, COLUMNS_AT_ONCE), np.nan, dtype=precision)
    add_rows(features, start, stop, slopes, rest, total)

    tolerance = TOLERANCE[precision] * np.sqrt(width * rows)
    assert np.allclose(scores, inside @ model.T.astype(np.float64), rtol=0.0, atol=tolerance)
    found, filled = (total - begun)[:, :width], (total - begun)[:, width:]
    assert np.allclose(found, slopes.T @ inside, rtol=0.0, atol=1e-13 * rows)
    assert not filled.any()


def test_a_row_has_its_scores_in_any_company() -> None:
    features, model = numbers("float32", 30, 50), numbers("float32", 12, 50)
    together, alone = np.empty((30, 12), dtype=np.float32), np.empty((1, 12), dtype=np.float32)
    scores_of(features, 0, 30, model, together)
    for row in range(30):
        scores_of(features, row, row + 1, model, alone)
        assert np.array_equal(alone[0], together[row])
