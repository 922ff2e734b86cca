"""Equations with orthonormal rows: the distance from their solutions is the length of the residual."""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr, solve_triangular

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.errors import InputError

DEPENDENT = 1e-12  # a row is a combination of others if less than this of it is new
DOUBTFUL = 1e-6  # between the two, rounding would decide what the equations mean
ROUNDING = 1e-12  # equations hold to rounding only; relative to the largest number involved


def orthonormal(rows: FloatArray, values: FloatArray, name: str) -> tuple[FloatArray, FloatArray, IntArray]:
    """The same solutions, from orthonormal rows; and those of the given rows that are enough. An `InputError` where
    there is no solution."""
    lengths = np.sqrt((rows * rows).sum(axis=1))
    blank = lengths == 0.0
    if (wrong := np.flatnonzero(blank & (values != 0.0))).size:
        raise InputError(f"set {name!r} is empty: equation {wrong[0]} reads 0 = {values[wrong[0]]:g}.")
    keep = np.flatnonzero(~blank)
    if not keep.size:
        return np.zeros((0, rows.shape[1])), np.zeros(0), keep
    rows, values = rows[keep] / lengths[keep, None], values[keep] / lengths[keep]
    factor, triangle, order = qr(rows.T, mode="economic", pivoting=True)
    pivots = np.abs(np.diag(triangle))
    rank = int((pivots > DEPENDENT).sum())
    if rank and pivots[rank - 1] < DOUBTFUL:
        raise InputError(
            f"set {name!r}: equation {keep[order[rank - 1]]} is nearly a combination of the others (all but "
            f"{pivots[rank - 1]:.1g} of it); drop it, or write the equations in other coordinates."
        )
    targets = solve_triangular(triangle[:rank, :rank], values[order[:rank]], trans="T")
    basis = np.ascontiguousarray(factor[:, :rank].T, dtype=np.float64)
    off = np.abs(rows @ (targets @ basis) - values)
    if (off > 1e-9 * max(1.0, float(np.abs(values).max(initial=0.0)))).any():
        worst = keep[int(np.argmax(off))]
        raise InputError(f"set {name!r} is empty: equation {worst} contradicts the others; correct or remove it.")
    return basis, targets, np.sort(keep[order[:rank]])


def missed(x: FloatArray, targets: FloatArray) -> FloatArray:
    """How far equations with orthonormal rows may be missed by each row of x."""
    size = np.abs(x).max(axis=-1, initial=0.0)
    return np.maximum(np.maximum(1.0, size), float(np.abs(targets).max(initial=0.0))) * ROUNDING
