"""Whether a conic set has points, one that lies deep inside, and how far it extends."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csc_matrix, hstack, vstack

from dpadmm._arrays import FloatArray
from dpadmm.errors import InputError
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.conic.slacks import Slacks

EMPTY = 1e-11  # less room than this is none, and conditions that are missed by less are kept
CONCERNED = 1e-6  # a row takes part in a contradiction if its multiplier is this much of the largest
IMPLIED = 1e-3  # and is surely without slack if it is this much: slacks are known to EMPTY over the multiplier


class Inspection(NamedTuple):
    """A point, by how much it keeps every inequality (at most 1; below 0 if no point does), the rows that leave no more
    room, and those of them that surely do not."""

    centre: FloatArray
    margin: float
    conflict: NDArray[Any]
    implied: NDArray[Any]

    @property
    def empty(self) -> bool:
        return self.margin < 0.0


def settings(accuracy: float) -> Any:
    """Options of the solver: one thread, so that an answer depends on the question alone."""
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.presolve_enable = False  # it would forbid a change of the objective
    options.max_threads = 1
    options.direct_solve_method = "qdldl"
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = accuracy
    return options


def kinds(cone: Cone | Slacks) -> list[Any]:
    """K in the solver's words."""
    first = [clarabel.ZeroConeT(cone.zero)] * (cone.zero > 0)
    second = [clarabel.NonnegativeConeT(cone.nonnegative)] * (cone.nonnegative > 0)
    return [*first, *second, *(clarabel.SecondOrderConeT(size) for size in cone.second_order)]


def unit(cone: Cone) -> Cone:
    """The same set, with rows of length 1/2 to 1, those of a second-order cone together. The factors are powers of two:
    nothing is rounded, and rows that depend on each other still do."""
    lengths = Slacks(cone.zero, cone.nonnegative, cone.second_order).lengths(cone.rows.toarray())
    factors = 0.5 ** np.ceil(np.log2(lengths))
    rows = csc_array(cone.rows.multiply(factors[:, None]))
    return Cone(rows, cone.limits * factors, cone.zero, cone.nonnegative, cone.second_order)


def inspect(cone: Cone, name: str) -> Inspection:
    """Pushes all inequalities in by the same margin, as far as there is room (a margin of 1 is enough)."""
    cone = unit(cone)
    own = Slacks(cone.zero, cone.nonnegative, cone.second_order)
    push = own.inwards[:, None]
    # The room is at most 1: an inequality, placed before the second-order cones.
    rows, at = hstack([cone.rows, csc_array(push)], format="csr"), cone.zero + cone.nonnegative
    cap = csc_array(([1.0], ([0], [cone.dimension])), shape=(1, cone.dimension + 1))
    rows = csc_matrix(vstack([rows[:at], cap, rows[at:]]))
    limits = np.insert(cone.limits, at, 1.0)
    slacks = Slacks(cone.zero, cone.nonnegative + 1, cone.second_order)
    goal = np.append(np.zeros(cone.dimension), -1.0)
    nothing = csc_matrix((cone.dimension + 1, cone.dimension + 1))
    answer = clarabel.DefaultSolver(nothing, goal, rows, limits, kinds(slacks), settings(1e-12)).solve()
    centre, multipliers = np.asarray(answer.x)[:-1], np.abs(np.delete(np.asarray(answer.z), at))
    conflict, implied = (multipliers > part * multipliers.max(initial=0.0) for part in (CONCERNED, IMPLIED))
    if str(answer.status) == "PrimalInfeasible":
        return Inspection(np.zeros(cone.dimension), -math.inf, conflict, implied)
    # Slacks prove that a set has points, and multipliers that it has none, with whatever status the solver gave up.
    none = EMPTY * max(1.0, float(np.abs(cone.limits).max(initial=0.0)))
    s = cone.limits - cone.rows @ centre
    margin, highest = min(1.0, -own.violation(s)), -float(answer.obj_val_dual)
    if np.isfinite(centre).all() and margin >= -none and np.abs(s[: cone.zero]).max(initial=0.0) <= none:
        return Inspection(centre, max(margin, 0.0), conflict, implied)
    if highest < -none:
        return Inspection(centre, highest, conflict, implied)
    raise InputError(
        f"set {name!r}: it cannot be told whether it has points ({answer.status}); leave more room between its "
        "conditions, or write it with numbers of similar size."
    )


def explicit(cone: Cone, name: str) -> tuple[Cone, Inspection]:
    """The same set, with inequalities that no point keeps strictly written as equations; and what it looks like.

    Where there is no room at all, the sum of the slacks with their multipliers is zero in every point of the set. So
    every inequality with a multiplier is an equation, and a solver had better know.
    """
    seen = inspect(cone, name)
    while not seen.empty and seen.margin <= EMPTY:
        linear = slice(cone.zero, cone.zero + cone.nonnegative)
        tight = np.flatnonzero(seen.implied[linear]) + cone.zero
        if not tight.size:
            break
        order = np.concatenate(
            [np.arange(cone.zero), tight, np.delete(np.arange(cone.limits.size), tight)[cone.zero :]]
        )
        cone = Cone(
            csc_array(cone.rows.tocsr()[order]),
            cone.limits[order],
            cone.zero + tight.size,
            cone.nonnegative - tight.size,
            cone.second_order,
        )
        seen = inspect(cone, name)
    return cone, seen


def diagonal(cone: Cone) -> float:
    """The length of the diagonal of the smallest upright box around the set, never too short; may be infinite."""
    cone = unit(cone)
    if cone.dimension == 0:
        return 0.0
    nothing = csc_matrix((cone.dimension, cone.dimension))
    solver = clarabel.DefaultSolver(
        nothing, np.zeros(cone.dimension), csc_matrix(cone.rows), cone.limits, kinds(cone), settings(1e-10)
    )
    slacks, rows = Slacks(cone.zero, cone.nonnegative, cone.second_order), cone.rows.T
    ends, errors = [], []
    for goal in np.vstack([np.eye(cone.dimension), -np.eye(cone.dimension)]):
        solver.update(q=-goal)
        multipliers = np.asarray(solver.solve().z)
        if not np.isfinite(multipliers).all():
            return math.inf
        # <goal, x> = <rows' z, x> + <error, x> <= <z, limits> + |error|_1 max|x|, whatever the solver's own opinion.
        multipliers = slacks.dual(multipliers)
        errors.append(float(np.abs(goal - rows @ multipliers).sum()))
        if errors[-1] > 1e-6:
            return math.inf
        ends.append(float(multipliers @ cone.limits))
    largest = max(0.0, *ends) / (1.0 - max(errors))
    high, low = np.split(np.asarray(ends) + np.asarray(errors) * largest, 2)
    return float(np.sqrt(((high + low) ** 2).sum()))
