"""The last digits of a projection.

An interior-point method finds which conditions hold with equality and leaves half of the digits. Newton's method on the
conditions of optimality, H (x - v) + A'z = 0 and s = P_K(s - z) with s = b - A x, finds the other half.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.problems.sets.conic.slacks import Slacks

STEPS = 12  # it takes one or two where no second-order cone is tight, and doubles the digits where one is
SETTLED = 1e-14  # a step this short, relative to the point, is rounding


class Question(NamedTuple):
    """Minimise (x - v)' diag(curvature) (x - v) / 2 over b - A x in K; the rows of A have length one at most."""

    rows: FloatArray
    limits: FloatArray
    slacks: Slacks
    curvature: FloatArray
    point: FloatArray

    def slack(self, x: FloatArray) -> FloatArray:
        return self.limits - self.rows @ x


class Answer(NamedTuple):
    """A point and the multipliers of its conditions."""

    x: FloatArray
    z: FloatArray


def refine(ask: Question, start: Answer, careful: bool) -> Answer:
    """Steps until they are down to rounding. A careful step is the shortest where there are many: where the tight rows
    depend on each other the multipliers are not unique."""
    answer = start
    for _ in range(STEPS):
        after = step(ask, answer, careful)
        if not np.isfinite(after.x).all():
            return after
        moved = np.abs(after.x - answer.x).max(initial=0.0)
        answer = after
        if not moved > SETTLED * (1.0 + np.abs(answer.x).max(initial=0.0)):
            break
    return answer


def step(ask: Question, answer: Answer, careful: bool) -> Answer:
    """One step; its point is not a number where there is none."""
    matrix, right, live = system(ask, answer)
    try:
        with np.errstate(all="ignore"):  # a step into nowhere is not taken
            move = np.linalg.lstsq(matrix, right, rcond=1e-13)[0] if careful else np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        move = np.full_like(right, np.nan)
    z = np.zeros_like(answer.z)
    z[live] = answer.z[live] + move[answer.x.size :]
    return Answer(answer.x + move[: answer.x.size], z)


def system(ask: Question, answer: Answer) -> tuple[FloatArray, FloatArray, IntArray]:
    """The linear equations of a step in x and in the multipliers of the live rows; the others' become zero."""
    x, z = answer
    s = ask.slack(x)
    live, slope, _ = ask.slacks.derivative(s - z)
    rows, width = ask.rows[live], x.size
    matrix = np.zeros((width + live.size, width + live.size))
    matrix[np.arange(width), np.arange(width)] = ask.curvature
    matrix[:width, width:] = rows.T
    matrix[width:, :width] = slope @ rows - rows
    matrix[width:, width:] = slope
    pull = ask.curvature * (ask.point - x) - z[live] @ rows
    return matrix, np.concatenate([pull, (ask.slacks.nearest(s - z) - s)[live]]), live
