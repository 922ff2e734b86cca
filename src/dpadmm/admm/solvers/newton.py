"""Batched chord-Newton: all agents step together, each keeps its inverse Hessian until it no longer pays.

A Hessian with its inverse costs as much as some twenty gradients, and from one round to the next it hardly changes. So
each agent goes on with the inverse it has, across iterations and rounds, as long as the gradient shrinks well; what
every step tells about the curvature along it is put in (BFGS). With a fresh inverse, backtracking on the gradient's
length makes the method converge from anywhere: the objective is strongly convex, so the only point where that length
has no descent is the minimiser.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.solvers.base import Subproblem
from dpadmm.errors import ConvergenceError
from dpadmm.problems.kernels.batch import inverses, learn, matrix_times_vector

CHORD_RATIO = 0.1  # a kept inverse must cut the gradient to a tenth, or it is made anew
ITERATIONS = 400


def newton(
    subproblem: Subproblem, start: FloatArray, kept: Mapping[str, FloatArray], tolerance: float
) -> tuple[FloatArray, dict[str, FloatArray]]:
    """The minimisers, and what to begin the next round with: inverse Hessians, and the losses' gradients there."""
    x = start.copy()
    fresh = np.full(len(x), not kept)
    if kept:
        inverse = kept["inverse"].copy()
        loss = kept["slope"].copy() if "slope" in kept else subproblem.loss_gradient(x)
    else:
        inverse, loss = inverses(subproblem.hessian(x)), subproblem.loss_gradient(x)
    slope = subproblem.completed(loss, x)
    length = np.linalg.norm(slope, axis=1)
    step = np.ones(length.size)
    for _ in range(ITERATIONS):
        active = np.flatnonzero(length > tolerance)
        if active.size == 0:
            return x, {"inverse": inverse, "slope": loss}
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
    worst = int(np.argmax(length))
    raise ConvergenceError(
        f"agent {subproblem.shards.names[worst]!r}: Newton stopped at a gradient of {length[worst]:.1e}, above the "
        f"tolerance {tolerance:.1e} that the privacy lemma was promised; raise the tolerance or the penalty rho."
    )
