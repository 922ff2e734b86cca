"""Rows times a few columns and back, against NumPy: all remainders of what the loops take at once."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import TypingError

from dpadmm._kernels.class_scores import CLASSES_AT_ONCE, Shape, scores_of
from dpadmm._kernels.tiles import COLUMNS_AT_ONCE, SUMS_AT_ONCE
from dpadmm.release.kernels.softmax import add_rows, gradient

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


def test_sums_over_a_table_whose_columns_lie_together_are_those_over_its_rows() -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(-99, 99, size=(40, 13)).astype(np.float32)
    targets, one, x = rng.integers(0, 3, size=40), np.zeros(1, dtype=np.int64), rng.normal(size=(1, 39))
    found = [np.empty((1, 39)) for _ in range(2)]
    for table, out in zip((features, np.asfortranarray(features)), found, strict=True):
        gradient(Shape(3), 1000.0, table, targets, one, one + 40, one, x.astype(np.float32) / 100.0, out)
    assert np.array_equal(*found)
    assert np.abs(found[0]).max() > 1000.0


def test_a_tile_of_a_table_whose_columns_lie_together_is_refused() -> None:
    slopes, rest, total = np.zeros((4, 10)), np.zeros((4, 8), dtype=np.float32), np.zeros((10, 8))
    with pytest.raises(TypingError, match="lie together"):
        add_rows(np.asfortranarray(np.ones((4, 8), dtype=np.float32)), 0, 4, slopes, rest, total)
