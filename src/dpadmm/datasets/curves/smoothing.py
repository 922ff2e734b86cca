"""Coefficients of curves in a basis, by least squares with a price on roughness.

A curve's coefficients depend on its own points and on what is public (basis, smoothing, the grid), and on no other
curve. So they cost no privacy, and clipping them to a norm bounds what one record can do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import linalg

from dpadmm.datasets.curves.bases import Basis
from dpadmm.datasets.curves.curves import Curves
from dpadmm.datasets.encoding import first
from dpadmm.errors import InputError

_ENTRIES = 1 << 22  # numbers in the largest array of a block of curves: 32 MB
# Beyond this condition six digits of the answer are rounding; the matrices are scaled to be near the identity where
# a curve has enough points, so it is reached by points that do not determine the coefficients and by no others.
_CONDITION = 1e10


def scores(curves: Curves, basis: Basis, smoothing: float = 0.0, first_row: int = 0) -> np.ndarray:
    """(m, size): for each curve the a that minimises the mean of (value - phi(t) a)² over its points
    + smoothing * a' roughness a.

    Where the points do not determine a, even with smoothing (a single point says nothing of a slope, which is not
    rough), the error names the curve; the smallest of many answers would be arbitrary and would go unnoticed.
    `first_row`: how many rows of a file stand before these, so that messages count as the file does.
    """
    check_smoothing(smoothing)
    counts = curves.counts
    row = first(counts < basis.size) if smoothing == 0 else None
    if row is not None:
        raise InputError(
            f"more components than grid points: the curve in row {first_row + row + 1} has {counts[row]} point(s) for "
            f"the {basis.size} functions of {basis.text!r}; take fewer components or a positive smoothing."
        )
    # A change of variables, a = turn c: roughness grows as the fourth power of the frequency, and without it the
    # normal matrices would look singular for that reason alone.
    price = smoothing * basis.roughness()
    turn = linalg.solve_triangular(np.linalg.cholesky(np.eye(basis.size) + price), np.eye(basis.size), lower=True).T
    price = turn.T @ price @ turn
    coefficients = np.empty((len(curves), basis.size))
    blocks = _individual(curves, basis, turn, price) if curves.grid is None else _common(curves, basis, turn, price)
    for rows, normal, which, right in blocks:
        inverse, undetermined = _inverted(normal)
        if undetermined is not None:
            row = rows.start + int(np.argmax(which == undetermined))
            raise InputError(
                f"the {counts[row]} point(s) of the curve in row {first_row + row + 1} do not determine the "
                f"{basis.size} functions of {basis.text!r} with smoothing {smoothing:g}: they are too few or too "
                f"close together; take fewer components or a {'larger' if smoothing else 'positive'} smoothing."
            )
        coefficients[rows] = right @ inverse[0].T if len(inverse) == 1 else _products(inverse[which], right)
    return coefficients @ turn.T


def check_smoothing(smoothing: float) -> None:
    """Refuses what is no price on roughness."""
    if not (math.isfinite(smoothing) and smoothing >= 0):
        raise InputError(f"smoothing={smoothing}; it is a price on roughness: 0 for none, or a positive number.")


# Which rows; the normal matrices; which of them is each row's; the right-hand sides.
_Block = tuple[slice, np.ndarray, np.ndarray, np.ndarray]


def _common(curves: Curves, basis: Basis, turn: np.ndarray, price: np.ndarray) -> Iterator[_Block]:
    """On a common grid curves with the same holes share a normal matrix."""
    assert curves.grid is not None
    at_grid = basis.values(curves.grid) @ turn
    products = (at_grid[:, :, None] * at_grid[:, None, :]).reshape(len(at_grid), -1)
    step = max(1, _ENTRIES // max(len(at_grid), products.shape[1]))
    for start in range(0, len(curves), step):
        rows = slice(start, min(start + step, len(curves)))
        matrix = curves.matrix(rows.start, rows.stop)
        seen = ~np.isnan(matrix)
        _, examples, which = np.unique(np.packbits(seen, axis=1), axis=0, return_index=True, return_inverse=True)
        patterns = seen[examples].astype(np.float64)
        normal = patterns @ products / patterns.sum(axis=1, keepdims=True)
        right = np.where(seen, matrix, 0.0) @ at_grid / seen.sum(axis=1, keepdims=True)
        yield rows, normal.reshape(-1, *price.shape) + price, which.reshape(-1), right


def _individual(curves: Curves, basis: Basis, turn: np.ndarray, price: np.ndarray) -> Iterator[_Block]:
    """Where times differ every curve has its own normal matrix: sums over runs of points."""
    most = max(1, _ENTRIES // basis.size**2)
    start = 0
    while start < len(curves):
        reach = int(np.searchsorted(curves.starts, curves.starts[start] + _ENTRIES // basis.size, "right")) - 1
        rows = slice(start, min(max(reach, start + 1), start + most, len(curves)))
        points = slice(curves.starts[rows.start], curves.starts[rows.stop])
        begins = curves.starts[rows] - curves.starts[rows.start]
        counts = curves.counts[rows, None]
        at_points = basis.values(curves.times[points]) @ turn
        right = np.add.reduceat(at_points * curves.values[points, None], begins) / counts
        normal = np.empty((len(right), *price.shape))
        for k in range(basis.size):
            normal[:, k] = np.add.reduceat(at_points * at_points[:, k, None], begins) / counts
        yield rows, normal + price, np.arange(len(right)), right
        start = rows.stop


def _inverted(matrices: np.ndarray) -> tuple[np.ndarray, int | None]:
    """The inverses, and the position of the first matrix that has none to speak of."""
    try:
        inverses = np.linalg.inv(matrices)
        conditions = np.linalg.norm(matrices, axis=(1, 2)) * np.linalg.norm(inverses, axis=(1, 2))
    except np.linalg.LinAlgError:
        inverses, conditions = matrices, np.linalg.cond(matrices)
    return inverses, first(~(conditions < _CONDITION))


def _products(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return (matrices @ vectors[:, :, None])[:, :, 0]
