"""Minimisers of objectives whose loss has a kink: Newton's method on versions with the kink rounded, ever sharper.

The kink rounded over a half-width h gives a smooth problem, and its minimiser x is near that of the sharp one, by
proof: the gradient g of the rounded objective at x is a subgradient of the sharp objective F up to a slack e >= 0 (the
sum over the few records within h of the kink of what the rounded slope misses). F is c-strongly convex, so with
d = |x - x*|

    F(x*) >= F(x) - |g| d + c d²/2 - e    and    F(x) >= F(x*) + c d²/2,

hence c d² <= |g| d + e, and c d <= (|g| + sqrt(|g|² + 4 c e)) / 2. The half-width shrinks until that is below the
tolerance: what an exact gradient below the tolerance would have proved.

Where a record weighs much, rounding ends that before the proof is reached. But by then it is known which records lie on
the kink, and that x solves a linear system: with those residuals zero and their slopes unknown (`on_the_kink`). The
inequality holds for whatever slopes within [tau - 1, tau] are put into g and e, so they are proved by it too.
"""

from __future__ import annotations

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.solvers.base import Subproblem
from dpadmm.errors import ConvergenceError
from dpadmm.problems.kernels.batch import inverses

SHARPEST = 1e-7  # the tolerance below which a proof is lost in rounding
SHRINKAGE = 0.1  # of the half-width, from one smooth problem to the next
WIDEST, NARROWEST = 1.0, 1e-11
STEPS = 100  # of Newton's method for one half-width; some ten are usual
ARMIJO = 0.1  # of the decrease that the slope promises, how much a step must keep
MOST_ON = 4  # records on the kink, in numbers of coefficients: in general no more than one each, but rows may repeat
ROUNDING = 1e-14  # relative, of an objective: what cannot be told apart is not held against a step


def sharpened(subproblem: Subproblem, start: FloatArray, tolerance: float) -> FloatArray:
    """The minimisers, each within tolerance / c of the true one."""
    x, width = start.copy(), WIDEST
    unproved = np.arange(len(x))
    while unproved.size:
        if width < NARROWEST:
            raise ConvergenceError(
                f"agent {subproblem.shards.names[unproved[0]]!r}: no minimiser was proved to the tolerance "
                f"{tolerance:.1e} that the privacy lemma was promised; raise the tolerance or rho."
            )
        part = subproblem.take(unproved)
        rounded = part.rounded(width)
        x[unproved] = found = _smooth_minimiser(rounded, x[unproved], tolerance / 4.0)
        left = np.flatnonzero(~(_distance(rounded, found) <= tolerance))
        better, distance = on_the_kink(part.take(left), found[left], width)
        proved = distance <= tolerance
        x[unproved[left[proved]]] = better[proved]
        unproved = unproved[left[~proved]]
        width *= SHRINKAGE
    return x


def _smooth_minimiser(rounded: Subproblem, start: FloatArray, tolerance: float) -> FloatArray:
    """Newton's method, damped by the objective: the gradient's length, which `newton` goes by, is a poor guide across
    a rounded kink, where curvature comes and goes. Whether it has got there is for the proof to say."""
    x, slope = start, rounded.gradient(start)
    for _ in range(STEPS):
        left = np.flatnonzero(~(np.linalg.norm(slope, axis=1) <= tolerance))
        if left.size == 0:
            break
        part, x, slope = rounded.take(left), x.copy(), slope.copy()
        move = -np.einsum("nij,nj->ni", inverses(part.hessian(x[left])), slope[left])
        x[left] = _damped(part, x[left], move, (slope[left] * move).sum(axis=1))
        slope[left] = part.gradient(x[left])
    return x


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


def _distance(rounded: Subproblem, x: FloatArray) -> FloatArray:
    """c d: how far the sharp problem's minimisers are, at most, times its strong convexity; (n,)."""
    length = np.linalg.norm(rounded.gradient(x), axis=1)
    stiff = rounded.kappa[:, 0] + rounded.problem.strong_convexity
    return _bound(length, rounded.slack(x), stiff)


def _bound(length: FloatArray, slack: FloatArray, stiff: FloatArray) -> FloatArray:
    return (length + np.sqrt(length**2 + 4.0 * stiff * slack)) / 2.0


def on_the_kink(sharp: Subproblem, x: FloatArray, width: float) -> tuple[FloatArray, FloatArray]:
    """The minimisers if the records within a width of the kink, and the coefficients within it of zero, lie there
    exactly, for losses that are sums of check losses; and c d of each. Agent by agent: few come here."""
    levels = sharp.problem.loss.levels
    found, length, slack = np.empty_like(x), np.zeros(len(x)), np.zeros(len(x))
    for agent in range(len(x)):
        for index, level in enumerate(levels):
            columns = slice(index, None, len(levels))
            one = _Level(sharp, agent, level, columns)
            point, slope, missed = one.solved(x[agent, columns], width)
            found[agent, columns] = point
            length[agent] += slope @ slope
            slack[agent] += missed
    stiff = sharp.kappa[:, 0] + sharp.problem.strong_convexity
    return found, _bound(np.sqrt(length), slack, stiff)


class _Level:
    """One agent's problem at one level, as numbers: min of weight rho(targets - rows x) + pull |x|_1 + stiff |x|²/2 -
    <linear, x>."""

    def __init__(self, sharp: Subproblem, agent: int, level: float, columns: slice) -> None:
        shards, problem = sharp.shards, sharp.problem
        records, kappa = slice(shards.starts[agent], shards.stops[agent]), sharp.kappa[agent, 0]
        self.rows, self.targets = shards.real_rows[records], shards.targets[records]
        self.level, self.weight = level, sharp.weights[agent]
        self.stiff = kappa + problem.strong_convexity
        self.pull = problem.strength * getattr(problem.penalty, "ratio", 0.0)
        self.linear = kappa * sharp.centre[agent, columns] - sharp.tilt[agent, columns]

    def solved(self, x: FloatArray, width: float) -> tuple[FloatArray, FloatArray, float]:
        """A point, and the gradient and slack there of the slopes that go with it."""
        left = self.targets - self.rows @ x
        near = np.flatnonzero(np.abs(left) < width)
        small = np.flatnonzero((np.abs(x) < width) & (self.pull > 0.0))
        if near.size + small.size > MOST_ON * x.size:  # some are only near: the width is too large yet
            return x, np.full(x.size, np.inf), np.inf
        slopes = np.where(left > 0.0, self.level, self.level - 1.0)
        signs = np.sign(x)
        slopes[near], signs[small] = 0.0, 0.0
        fixed = self.linear + self.weight * (self.rows.T @ slopes) - self.pull * signs
        # stiff x = fixed + ties' m and ties x = values; m are the slopes of those on the kink, with their weights.
        on = self.rows[near]
        ties = np.vstack([on if isinstance(on, np.ndarray) else on.toarray(), np.eye(x.size)[small]])
        values = np.concatenate([self.targets[near], np.zeros(small.size)])
        gram, multipliers = ties @ ties.T, np.zeros(values.size)
        point = fixed / self.stiff
        for _ in range(3):  # the second and third take out what the first has lost to rounding
            multipliers += np.linalg.lstsq(gram, self.stiff * (values - ties @ point), rcond=None)[0]
            point = (fixed + ties.T @ multipliers) / self.stiff
        slopes[near] = np.clip(multipliers[: near.size] / self.weight, self.level - 1.0, self.level)
        signs[small] = np.clip(-multipliers[near.size :] / (self.pull or 1.0), -1.0, 1.0)
        left = self.targets - self.rows @ point
        gradient = self.stiff * point - self.linear - self.weight * (self.rows.T @ slopes) + self.pull * signs
        data = np.where(left > 0.0, (self.level - slopes) * left, (self.level - 1.0 - slopes) * left).sum()
        return point, gradient, float(self.weight * data + self.pull * (np.abs(point) - signs * point).sum())
