"""Batched accelerated proximal gradient for strongly convex subproblems with a kink or a box.

What it finds is a candidate, which `release.minimiser` checks.
"""

from __future__ import annotations

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.solvers.base import Subproblem

ITERATIONS = 20_000


def proximal(subproblem: Subproblem, start: FloatArray, tolerance: float) -> FloatArray:
    """Points at each of which some element of the subdifferential of the whole objective is below the tolerance; or
    where it is after `ITERATIONS` steps. The loss has no kinks.

    After a step x = prox(y - S'(y)/L) the vector S'(x) - S'(y) + L (y - x) is such an element.
    """
    problem = subproblem.problem
    smoothness = subproblem.smoothness
    assert smoothness is not None
    momentum_root = np.sqrt(subproblem.kappa / smoothness)
    momentum = (1.0 - momentum_root) / (1.0 + momentum_root)
    x = problem.domain.project(start).copy()  # the start may be somebody's release: it must stay as it is
    ahead = x.copy()
    length = np.full(x.shape[0], np.inf)
    for _ in range(ITERATIONS):
        active = np.flatnonzero(length > tolerance)
        if active.size == 0:
            break
        part = subproblem if active.size == length.size else subproblem.take(active)
        point, bound = ahead[active], smoothness[active]
        slope = part.smooth_gradient(point)
        after = problem.penalty.prox(point - slope / bound, problem.strength / bound)
        after = part.problem.domain.project(
            after
        )  # separable: clipping a coordinate's prox is the prox over the interval
        residual = part.smooth_gradient(after) - slope + bound * (point - after)
        length[active] = np.linalg.norm(residual, axis=1)
        ahead[active] = after + momentum[active] * (after - x[active])
        x[active] = after
    return x
