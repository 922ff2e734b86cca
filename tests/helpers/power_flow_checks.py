"""What tests of power flow measure: how long the rows of the balance are, and how far a point is from a set."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from dpadmm._arrays import FloatArray
from dpadmm.problems.sets.conic.cone import Cone


def row_norms(balance: csr_array) -> tuple[FloatArray, FloatArray]:
    """|a_i|_2 and |a_i|_1 of every row: a load that changes by β moves the gradient of the objective by 2 β a_i."""
    euclidean: FloatArray = np.sqrt((balance**2).sum(axis=1))
    absolute: FloatArray = np.asarray(abs(balance).sum(axis=1), dtype=np.float64)
    return euclidean, absolute


def violation(cone: Cone, x: FloatArray) -> float:
    """By how much the worst condition is missed; 0 within the set."""
    slack = cone.limits - cone.rows @ x
    equations, inequalities, rest = np.split(slack, [cone.zero, cone.zero + cone.nonnegative])
    worst = max(np.abs(equations).max(initial=0.0), (-inequalities).max(initial=0.0))
    if cone.second_order:
        starts = np.cumsum((0, *cone.second_order[:-1]))
        radii = rest[starts].copy()
        rest[starts] = 0.0
        worst = max(worst, np.max(np.sqrt(np.add.reduceat(rest**2, starts)) - radii))
    return float(worst)
