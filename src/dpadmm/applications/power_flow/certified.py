"""The nearest point of a zone's set, with a proof of how near: for results that are perturbed afterwards.

Clarabel's interior-point method, in the condensed variables and centred at the point, so that tolerances are relative
to what is to be found and not to where it lies; where that is not enough, SCS goes on from its answer. What they find
is moved into the set before it is proven.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import clarabel
import numpy as np
import scs
from scipy.sparse import csc_matrix, diags_array, triu
from scipy.sparse.linalg import splu

from dpadmm._arrays import FloatArray
from dpadmm.applications.power_flow.inside import inside, rounding
from dpadmm.applications.power_flow.programme import Condensed
from dpadmm.errors import ConvergenceError
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.conic.interior import kinds, settings
from dpadmm.problems.sets.conic.slacks import Slacks

ACCURACIES = (1e-9, 1e-8, 1e-7)  # of Clarabel, in turn: where it wants too much, its last steps can spoil the answer
FURTHER = (5_000, 50_000)  # iterations of SCS, in turn
LONGEST = 1e3  # roundings: more than a sum of the proof has terms


def nearest_certified(
    condensed: Condensed, point: FloatArray, weights: FloatArray, error: float, name: str
) -> FloatArray:
    """The point x of the set where |x - point|_W is least, W = diag(weights), proven to be within `error` in that norm.

    The proof (theory 4.3) is weak duality at a point of the set. An answer that misses conditions is first moved
    to one that keeps all of them (`inside`). Any y of the dual cone then bounds the least value from
    below, by the Lagrangian at its own minimiser w_y; the value at w is above that by ½ |w - w_y|² + y'slack, and the
    objective is strongly convex, so |w - exact|² is at most twice this gap.
    """
    cone, lift = condensed.cone, condensed.lift
    slacks = Slacks(cone.zero, cone.nonnegative, cone.second_order)
    quadratic = csc_matrix(lift.T @ diags_array(weights) @ lift)
    factors = splu(quadratic)
    free = factors.solve(lift.T @ (weights * point))  # the nearest point without conditions
    rows, limits = csc_matrix(cone.rows), cone.limits - cone.rows @ free
    reached = math.inf
    for move, multipliers in _answers(quadratic, rows, limits, cone):
        w, y = inside(condensed, free + move), slacks.dual(multipliers)
        if w is None:
            continue
        slack, unsure = cone.limits - cone.rows @ w, rounding(cone, w)
        slope = lift.T @ (weights * (lift @ w - point)) + rows.T @ y  # of the Lagrangian at w
        terms = abs(lift).T @ (weights * (abs(lift) @ np.abs(w) + np.abs(point))) + abs(rows).T @ np.abs(y)
        lost = LONGEST * np.finfo(np.float64).eps * float(np.linalg.norm(terms))
        # The quadratic is at least the least weight, as the lift repeats every entry of w.
        apart = math.sqrt(max(float(slope @ factors.solve(slope)), 0.0)) + lost / math.sqrt(weights.min())
        gap = 0.5 * apart**2 + abs(float(y @ slack)) + float(np.abs(y) @ unsure)
        reached = min(reached, math.sqrt(2.0 * gap))
        if reached <= error:
            return lift @ w
    raise ConvergenceError(
        f"{name}: a projection is proven to {reached:.1e} only, and the privacy lemma was promised {error:.1e}."
    )


def _answers(
    quadratic: csc_matrix, rows: csc_matrix, limits: FloatArray, cone: Cone
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Better and better ones, each with its multipliers."""
    upper, linear = csc_matrix(triu(quadratic)), np.zeros(rows.shape[1])
    for accuracy in ACCURACIES:
        first = clarabel.DefaultSolver(upper, linear, rows, limits, kinds(cone), settings(accuracy)).solve()
        found = {"x": np.array(first.x), "y": np.array(first.z), "s": np.array(first.s)}
        yield found["x"], found["y"]
    data = {"P": upper, "A": rows, "b": limits, "c": linear}
    kept = {"z": cone.zero, "l": cone.nonnegative, "q": list(cone.second_order)}
    for iterations in FURTHER:
        solver = scs.SCS(data, kept, eps_abs=1e-13, eps_rel=0.0, max_iters=iterations, verbose=False)
        answer = solver.solve(warm_start=True, **found)
        found = {name: np.array(answer[name]) for name in ("x", "y", "s")}
        yield found["x"], found["y"]
