"""The nearest point of a zone's set, with a proof of how near: for results that are perturbed afterwards.

Clarabel's interior-point method, in the condensed variables and centred at the point, so that tolerances are relative
to what is to be found and not to where it lies; where that is not enough, SCS goes on from its answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import clarabel
import numpy as np
import scs
from scipy.sparse import csc_matrix, diags_array, triu
from scipy.sparse.linalg import splu

from dpadmm._arrays import FloatArray
from dpadmm.applications.power_flow.programme import Condensed
from dpadmm.errors import ConvergenceError
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.conic.interior import kinds, settings
from dpadmm.problems.sets.conic.slacks import Slacks

ACCURACY = 1e-9
FURTHER = (5_000, 50_000)  # iterations of SCS, in turn


def nearest_certified(
    condensed: Condensed, point: FloatArray, weights: FloatArray, error: float, name: str
) -> FloatArray:
    """The point x of the set where |x - point|_W is least, W = diag(weights), proven to be within `error` in that norm.

    The proof is weak duality. Any y of the dual cone gives a lower bound on the least value, that of the Lagrangian at
    its own minimiser w_y; the value at w is above it by ½ |w - w_y|² + y'slack, and the objective is strongly convex.
    What w misses of the conditions is charged at the price of the exact multipliers, which are taken to be no longer
    than twice those that were found: the one step that is not proven.
    """
    cone, lift = condensed.cone, condensed.lift
    slacks = Slacks(cone.zero, cone.nonnegative, cone.second_order)
    quadratic = csc_matrix(lift.T @ diags_array(weights) @ lift)
    factors = splu(quadratic)
    free = factors.solve(lift.T @ (weights * point))  # the nearest point without conditions
    rows, limits = csc_matrix(cone.rows), cone.limits - cone.rows @ free
    steepest = float(abs(quadratic).sum(axis=0).max())  # so that what is missed costs something without multipliers too
    reached = np.inf
    for move, multipliers in _answers(quadratic, rows, limits, cone):
        y, slack = slacks.dual(multipliers), limits - rows @ move
        apart = move + factors.solve(rows.T @ y)
        outside = float(np.linalg.norm(slack - slacks.nearest(slack)))
        missed = 2.0 * (float(np.linalg.norm(y)) + steepest * outside) * outside
        gap = 0.5 * float(apart @ (quadratic @ apart)) + abs(float(y @ slack)) + missed
        reached = min(reached, float(np.sqrt(2.0 * gap)))
        if reached <= error:
            return lift @ (free + move)
    raise ConvergenceError(
        f"{name}: a projection is proven to {reached:.1e} only, and the privacy lemma was promised {error:.1e}."
    )


def _answers(
    quadratic: csc_matrix, rows: csc_matrix, limits: FloatArray, cone: Cone
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Better and better ones, each with its multipliers."""
    upper, linear = csc_matrix(triu(quadratic)), np.zeros(rows.shape[1])
    first = clarabel.DefaultSolver(upper, linear, rows, limits, kinds(cone), settings(ACCURACY)).solve()
    found = {"x": np.array(first.x), "y": np.array(first.z), "s": np.array(first.s)}
    yield found["x"], found["y"]
    data = {"P": upper, "A": rows, "b": limits, "c": linear}
    kept = {"z": cone.zero, "l": cone.nonnegative, "q": list(cone.second_order)}
    for iterations in FURTHER:
        solver = scs.SCS(data, kept, eps_abs=1e-13, eps_rel=0.0, max_iters=iterations, verbose=False)
        answer = solver.solve(warm_start=True, **found)
        found = {name: np.array(answer[name]) for name in ("x", "y", "s")}
        yield found["x"], found["y"]
