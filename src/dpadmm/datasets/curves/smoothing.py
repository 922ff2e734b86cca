"""Coefficients of curves in a basis, by least squares with a price on roughness.

A curve's coefficients depend on its own points and on what is public (basis, smoothing, the grid), and on no other
curve, bit for bit. So they cost no privacy, and clipping them to a norm bounds what one record can do.

They are a matrix times the curve's values. The matrix depends on where the points lie. It is made for one curve, or one
pattern of holes, at a time, and applied to one curve at a time (`rotated`): in a product of several rows the rounding
of a row may depend on where it lies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import linalg

from dpadmm._arrays import BoolArray, IntArray
from dpadmm.datasets.cells import first
from dpadmm.datasets.curves.bases import Basis
from dpadmm.datasets.curves.curves import Curves
from dpadmm.errors import InputError
from dpadmm.problems.rows import rotated

_ENTRIES = 1 << 22  # numbers in the largest array of a block of curves: 32 MB
_FEW = 8  # curves for which it does not pay to wake threads
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
    coefficients, determined = score_rows(curves, basis, smoothing)
    counts = curves.counts
    row = first(counts < basis.size) if smoothing == 0 else None
    if row is not None:
        raise InputError(
            f"more components than grid points: the curve in row {first_row + row + 1} has {counts[row]} point(s) for "
            f"the {basis.size} functions of {basis.text!r}; take fewer components or a positive smoothing."
        )
    row = first(~determined)
    if row is not None:
        raise InputError(
            f"the {counts[row]} point(s) of the curve in row {first_row + row + 1} do not determine the "
            f"{basis.size} functions of {basis.text!r} with smoothing {smoothing:g}: they are too few or too "
            f"close together; take fewer components or a {'larger' if smoothing else 'positive'} smoothing."
        )
    return coefficients


def score_rows(curves: Curves, basis: Basis, smoothing: float = 0.0) -> tuple[np.ndarray, BoolArray]:
    """The same for all curves, and which curves' points determine their coefficients; the others are zero.

    Guarantee: a row is a function of its own curve and of public values, bit for bit.
    """
    check_smoothing(smoothing)
    # A change of variables, a = turn c: roughness grows as the fourth power of the frequency, and without it the
    # normal matrices would look singular for that reason alone.
    price = smoothing * basis.roughness()
    turn = linalg.solve_triangular(np.linalg.cholesky(np.eye(basis.size) + price), np.eye(basis.size), lower=True).T
    price = turn.T @ price @ turn
    coefficients, determined = np.zeros((len(curves), basis.size)), np.zeros(len(curves), dtype=np.bool_)
    fewest = basis.size if smoothing == 0 else 1
    pieces = _individual(curves, basis) if curves.grid is None else _common(curves, basis)
    for rows, at_points, values in pieces:
        matrix = _smoother(at_points, turn, price) if len(at_points) >= fewest else None
        if matrix is not None:
            coefficients[rows], determined[rows] = _applied(values, matrix), True
    return coefficients, determined


def check_smoothing(smoothing: float) -> None:
    """Refuses what is no price on roughness."""
    if not (math.isfinite(smoothing) and smoothing >= 0):
        raise InputError(f"smoothing={smoothing}; it is a price on roughness: 0 for none, or a positive number.")


# Which rows; the basis at their points, (points, size); and their values at these points.
_Piece = tuple[IntArray, np.ndarray, np.ndarray]


def _common(curves: Curves, basis: Basis) -> Iterator[_Piece]:
    """On a common grid curves with the same holes have a matrix in common."""
    assert curves.grid is not None
    at_grid = basis.values(curves.grid)
    step = max(1, _ENTRIES // len(at_grid))
    for start in range(0, len(curves), step):
        values = curves.matrix(start, min(start + step, len(curves)))
        seen = ~np.isnan(values)
        if seen.all():
            yield np.arange(start, start + len(values)), at_grid, values
            continue
        _, which = np.unique(np.packbits(seen, axis=1), axis=0, return_inverse=True)
        order = np.argsort(which.reshape(-1), kind="stable")
        for rows in np.split(order, np.cumsum(np.bincount(which.reshape(-1)))[:-1]):
            points = seen[rows[0]]
            yield start + rows, at_grid[points], values[rows][:, points]


def _individual(curves: Curves, basis: Basis) -> Iterator[_Piece]:
    """Where times differ every curve has its own matrix."""
    for row, (start, stop) in enumerate(zip(curves.starts[:-1], curves.starts[1:], strict=True)):
        yield np.array([row]), basis.values(curves.times[start:stop]), curves.values[None, start:stop]


def _applied(values: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """values @ matrix with every sum from left to right, whatever lies beside it: so both ways give the same bits."""
    if len(values) > _FEW:
        return rotated(values, matrix)
    return np.asarray(np.add.accumulate(values[:, :, None] * matrix, axis=1)[:, -1] + 0.0)


def _smoother(at_points: np.ndarray, turn: np.ndarray, price: np.ndarray) -> np.ndarray | None:
    """(points, size): what values at these points are multiplied by; None where they do not determine the rest."""
    if not len(at_points):
        return None
    turned = np.ascontiguousarray(at_points) @ turn  # the same bits whether all points were picked or some
    normal = turned.T @ turned / len(turned) + price
    try:
        inverse = np.linalg.inv(normal)
    except np.linalg.LinAlgError:
        return None
    if not np.linalg.norm(normal) * np.linalg.norm(inverse) < _CONDITION:
        return None
    return np.asarray(turned @ (inverse @ turn.T) / len(turned))
