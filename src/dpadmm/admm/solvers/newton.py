"""Batched chord-Newton: all agents step together, each keeps its inverse Hessian until it no longer pays.

A Hessian with its inverse costs as much as some twenty gradients, and from one round to the next it hardly changes. So
each agent goes on with the inverse it has, across iterations and rounds, as long as the gradient shrinks well; what
every step tells about the curvature along it is put in (BFGS). With a fresh inverse, backtracking on the gradient's
length makes the method converge from anywhere: the objective is strongly convex, so the only point where that length
has no descent is the minimiser. Where rounding keeps it from the tolerance, it ends with the best it has: what it finds
is a candidate, which `release.minimiser` checks.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpadmm._arrays import BoolArray, FloatArray
from dpadmm.admm.solvers.base import Subproblem
from dpadmm.problems.kernels.batch import inverses, learn, matrix_times_vector

CHORD_RATIO = 0.1  # a kept inverse must cut the gradient to a tenth, or it is made anew
ITERATIONS = 400
SHORTEST = 1e-6  # of steps, in units of Newton's: an agent who needs shorter ones has met rounding


def newton(
    subproblem: Subproblem, start: FloatArray, kept: Mapping[str, FloatArray], tolerance: float
) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Points whose gradients are below the tolerance, if it gets there, and what to begin the next round with: inverse
    Hessians, and the losses' gradients there."""
    x = start.copy()
    loss = kept["slope"].copy() if "slope" in kept else np.full_like(x, np.nan)
    fresh: BoolArray = np.asarray(np.isnan(loss).any(axis=1))
    inverse = kept["inverse"].copy() if "inverse" in kept else np.empty((*x.shape, x.shape[1]))
    anew = np.flatnonzero(fresh)
    if anew.size:
        part = subproblem if anew.size == len(x) else subproblem.take(anew)
        inverse[anew], loss[anew] = inverses(part.hessian(x[anew])), part.loss_gradient(x[anew])
    slope = subproblem.completed(loss, x)
    length = np.linalg.norm(slope, axis=1)
    step = np.ones(length.size)
    for _ in range(ITERATIONS):
        active = np.flatnonzero((length > tolerance) & (step > SHORTEST))
        if active.size == 0:
            break
        part = subproblem if active.size == length.size else subproblem.take(active)
        move = matrix_times_vector(inverse, active, slope[active])
        trial = x[active] - step[active, None] * move
        trial_loss = part.loss_gradient(trial)
        trial_slope = part.completed(trial_loss, trial)
        trial_length = np.linalg.norm(trial_slope, axis=1)
        allowed = np.where(fresh[active], 1.0 - 0.25 * step[active], CHORD_RATIO)
        good = trial_length <= np.maximum(allowed * length[active], tolerance)
        moved, missed = active[good], active[~good]
        learn(inverse, moved, trial[good] - x[moved], trial_slope[good] - slope[moved])
        x[moved], loss[moved], slope[moved] = trial[good], trial_loss[good], trial_slope[good]
        length[moved], fresh[moved], step[moved] = trial_length[good], False, 1.0
        step[missed[fresh[missed]]] *= 0.5
        stale = missed[~fresh[missed]]
        if stale.size:
            inverse[stale] = inverses(subproblem.take(stale).hessian(x[stale]))
            fresh[stale] = True
    return x, {"inverse": inverse, "slope": loss}
