"""Minimisers of objectives whose loss has a kink: Newton's method on versions with the kink rounded, ever sharper.

The kink rounded over a half-width h gives a smooth problem, and its minimiser x is near that of the sharp one, by
proof: the gradient g of the rounded objective at x is a subgradient of the sharp objective F up to a slack e >= 0 (the
sum over the few records within h of the kink of what the rounded slope misses). F is c-strongly convex, so with
d = |x - x*|

    F(x*) >= F(x) - |g| d + c d²/2 - e    and    F(x) >= F(x*) + c d²/2,

hence c d² <= |g| d + e, and c d <= (|g| + sqrt(|g|² + 4 c e)) / 2. The half-width shrinks until that is below the
tolerance: what an exact gradient below the tolerance would have proved.
"""

from __future__ import annotations

import numpy as np

from dpadmm.admm.subproblem import Subproblem
from dpadmm.errors import ConvergenceError
from dpadmm.problems.kernels.batch import inverses
from dpadmm.problems.shards import FloatArray

SHARPEST = 1e-7  # the tolerance below which the slack of a single record is lost in rounding
SHRINKAGE = 0.1  # of the half-width, from one smooth problem to the next
WIDEST, NARROWEST = 1.0, 1e-13
STEPS = 500  # of Newton's method for one half-width; some ten are usual
ARMIJO = 0.1  # of the decrease that the slope promises, how much a step must keep
ROUNDING = 1e-14  # relative, of an objective: what cannot be told apart is not held against a step


def sharpened(subproblem: Subproblem, start: FloatArray, tolerance: float) -> FloatArray:
    """The minimisers, each within tolerance / c of the true one."""
    x, width = start.copy(), WIDEST
    unproved = np.arange(len(x))
    while unproved.size:
        if width < NARROWEST:
            raise _failure(subproblem.take(unproved), tolerance)
        part = subproblem.take(unproved).rounded(width)
        x[unproved] = found = _smooth_minimiser(part, x[unproved], tolerance / 4.0)
        unproved = unproved[~(_distance(part, found) <= tolerance)]
        width *= SHRINKAGE
    return x


def _smooth_minimiser(rounded: Subproblem, start: FloatArray, tolerance: float) -> FloatArray:
    """Newton's method, damped by the objective: the gradient's length, which `newton` goes by, is a poor guide across
    a rounded kink, where curvature comes and goes."""
    x, slope = start, rounded.gradient(start)
    for _ in range(STEPS):
        left = np.flatnonzero(~(np.linalg.norm(slope, axis=1) <= tolerance))
        if left.size == 0:
            return x
        part, x, slope = rounded.take(left), x.copy(), slope.copy()
        move = -np.einsum("nij,nj->ni", inverses(part.hessian(x[left])), slope[left])
        x[left] = _damped(part, x[left], move, (slope[left] * move).sum(axis=1))
        slope[left] = part.gradient(x[left])
    raise _failure(rounded.take(left), tolerance)


def _damped(part: Subproblem, x: FloatArray, move: FloatArray, promised: FloatArray) -> FloatArray:
    """x + move, each agent's move halved until its objective has decreased as it should."""
    before, step = part.value(x), np.ones(len(x))
    waiting = np.arange(len(x))
    while waiting.size:
        tried = part.take(waiting).value(x[waiting] + step[waiting, None] * move[waiting])
        allowed = before[waiting] + ARMIJO * step[waiting] * promised[waiting] + ROUNDING * np.abs(before[waiting])
        waiting = waiting[~(tried <= allowed) & (step[waiting] > 1e-9)]
        step[waiting] *= 0.5
    return x + step[:, None] * move


def _failure(unproved: Subproblem, tolerance: float) -> ConvergenceError:
    return ConvergenceError(
        f"agent {unproved.shards.names[0]!r}: no minimiser was proved to the tolerance {tolerance:.1e} that the "
        f"privacy lemma was promised; raise the tolerance or rho."
    )


def _distance(rounded: Subproblem, x: FloatArray) -> FloatArray:
    """c d: how far the sharp problem's minimisers are, at most, times its strong convexity; (n,)."""
    length = np.linalg.norm(rounded.gradient(x), axis=1)
    stiff = rounded.kappa[:, 0] + rounded.problem.strong_convexity
    return (length + np.sqrt(length**2 + 4.0 * stiff * rounded.slack(x))) / 2.0
