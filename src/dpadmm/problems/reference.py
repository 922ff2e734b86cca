"""The non-private optimum of the pooled problem, to compare with."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from dpadmm._arrays import FloatArray
from dpadmm._threads import one_thread_pool
from dpadmm.errors import ConvergenceError
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import Whole
from dpadmm.problems.shards import Shards


def optimum(
    problem: Problem, shards: Shards, dimension: int, tolerance: float = 1e-8, tilt: FloatArray | None = None
) -> FloatArray:
    """argmin over the set of (1/n) sum_i f_i(z): L-BFGS where it is smooth, accelerated proximal steps elsewhere.

    `tilt` adds a linear term <tilt, z>.
    """
    if not problem.penalty.convex and problem.strength > 0.0:
        raise ConvergenceError(f"no reference optimum: penalty {problem.penalty.name!r} is not convex.")
    weights = problem.weights(shards.counts)
    linear = np.zeros(dimension) if tilt is None else tilt

    def everywhere(z: FloatArray) -> FloatArray:
        return np.broadcast_to(z, (shards.agents, dimension))

    def loss(z: FloatArray) -> float:
        return float(problem.loss.values(shards, everywhere(z), weights).mean() + linear @ z)

    def slope(z: FloatArray) -> FloatArray:
        return problem.loss.gradient(shards, everywhere(z), weights).mean(axis=0) + linear

    with one_thread_pool():
        if problem.smooth and isinstance(problem.domain, Whole):
            found = minimize(  # type: ignore[call-overload]  # its stubs know no mixed options
                lambda z: loss(z) + problem.strength * float(problem.penalty.value(z)),
                np.zeros(dimension),
                jac=lambda z: slope(z) + problem.strength * problem.penalty.gradient(z),
                method="L-BFGS-B",
                options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": tolerance},
            )
            left = float(np.abs(found.jac).max())
            if left > 1e3 * tolerance:
                raise ConvergenceError(f"the reference optimum was not reached: a gradient of {left:.1e} is left.")
            return np.asarray(found.x)
        bend = problem.loss.curvature_bound(shards.norm_bound)
        if bend is None:
            raise ConvergenceError(f"no reference optimum: loss {problem.loss.name!r} has kinks.")
        step = 1.0 / (float((weights * shards.counts).mean()) * bend)
        domain = problem.domain.shared()
        if not (domain.separable or problem.smooth):
            raise ConvergenceError(
                f"no reference optimum: penalty {problem.penalty.name!r} has kinks, and the set {domain.name!r} is not "
                f"a product of intervals."
            )
        z = ahead = domain.project(np.zeros((1, dimension)))[0]
        momentum = 1.0
        for _ in range(50_000):
            after = problem.penalty.prox(ahead - step * slope(ahead), step * problem.strength)
            after = domain.project(after[None, :])[0]
            moved = after - z
            if np.linalg.norm(after - ahead) <= tolerance * step:
                return after
            if float((ahead - after) @ moved) > 0:  # the momentum points uphill: forget it
                momentum = 1.0
            following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
            ahead, z, momentum = after + (momentum - 1.0) / following * moved, after, following
    raise ConvergenceError("the reference optimum was not reached in 50,000 steps; raise the tolerance.")
