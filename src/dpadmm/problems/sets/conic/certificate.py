"""How far a point of a set can be from the nearest one, proven after the fact and whatever made it."""

from __future__ import annotations

import math

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.problems.sets.conic.newton import Answer, Question, system

TIGHT = 1000.0  # roundings: rows with no more slack than that are meant to have none
DEEP = 1e-9  # by which a centre must keep the rows that are tight elsewhere


def bound(ask: Question, answer: Answer, point: FloatArray, centre: FloatArray, enough: float) -> float:
    """A bound on the distance of `point`, in the set, from the nearest; the answer is one of the optimality conditions
    and the centre is deep in the set. Looks no further once a bound is `enough`."""
    z, s = ask.slacks.dual(answer.z), ask.slack(point)
    found = _duality(ask, z, point, s, _unsure(ask, point))
    if found > enough:
        found = min(found, sharp(ask, z, s, point, centre))
    return found if found <= enough else min(found, math.dist(point, answer.x) + smooth(ask, answer))


def _duality(ask: Question, z: FloatArray, x: FloatArray, s: FloatArray, unsure: FloatArray) -> float:
    """Weak duality: half the squared distance is at most the value at x less that of the dual at z. This gap is a sum
    of squares and products in which nothing cancels; s is the slack of x, known to `unsure`."""
    error = np.abs(x - ask.point + (z @ ask.rows) / ask.curvature)
    error += _rounding(x) * (np.abs(x) + np.abs(ask.point) + (np.abs(z) @ np.abs(ask.rows)) / ask.curvature)
    gap = 0.5 * float(ask.curvature @ error**2) + ask.slacks.angle(s, z) + float(np.abs(z) @ unsure)
    return math.sqrt(2.0 * gap / float(ask.curvature.min()))


def sharp(ask: Question, z: FloatArray, s: FloatArray, x: FloatArray, centre: FloatArray) -> float:
    """Weak duality at a point next to x that no floating point number is.

    Far from the set multipliers are large, and with them even a slack of the last place makes a gap. So this computes
    the slacks of tight rows exactly, and from them how to move to a point where they are next to nothing.
    """
    unsure, flat = _unsure(ask, x), ask.slacks.zero + ask.slacks.nonnegative
    tight = (s <= TIGHT * unsure) & (np.arange(s.size) < flat)
    tight[: ask.slacks.zero] = True
    depth = ask.slack(centre)[tight][ask.slacks.zero :]
    if not tight.any() or not (depth > DEEP).all():
        return math.inf
    rows, left = ask.rows[tight], exact_slack(ask.rows[tight], ask.limits[tight], x)
    move = np.zeros_like(x)
    for _ in range(3):
        part = np.linalg.lstsq(rows, left, rcond=1e-10)[0]
        move, left = move + part, left - rows @ part
    # What is left of the slacks may be below zero. A little towards the centre, it is not.
    missed = float(np.abs(left).max()) + 1e-30
    push = 2.0 * missed / float(depth.min(initial=1.0))
    move += push * (centre - x)
    length = math.hypot(*move)
    if not (s[:flat][~tight[:flat]] > 2.0 * length).all():
        return math.inf
    unsure += length
    unsure[tight] = missed + push * np.concatenate([np.zeros(ask.slacks.zero), depth])
    return length + _duality(ask, z, x + move, np.where(tight, 0.0, s), unsure)


def exact_slack(rows: FloatArray, limits: FloatArray, x: FloatArray) -> FloatArray:
    """limits - rows x, rounded once: products are split into two numbers each (Dekker), and `fsum` adds exactly."""
    product = rows * x
    (high, low), (first, second) = _halves(rows), _halves(x)
    error = ((high * first - product) + high * second + low * first) + low * second
    terms = np.hstack([limits[:, None], -product, -error])
    return np.array([math.fsum(row) for row in terms])


def _halves(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    scaled = 134217729.0 * a  # 2**27 + 1
    high = scaled - (scaled - a)
    return high, a - high


def smooth(ask: Question, answer: Answer) -> float:
    """After Newton and Kantorovich: if the conditions are smooth around the answer and a step is short enough, their
    solution is within two steps. Infinite where they say nothing."""
    x, z = answer
    matrix, right, live = system(ask, answer)
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return math.inf
    dual = np.zeros_like(z)
    dual[live] = z[live]
    pull = ask.curvature * (np.abs(x) + np.abs(ask.point)) + np.abs(dual) @ np.abs(ask.rows)
    unsure = np.concatenate([_rounding(x) * pull, (_unsure(ask, x) + _rounding(x) * np.abs(dual))[live]])
    move = inverse @ right
    doubt = np.abs(inverse) @ (unsure + np.abs(matrix @ move - right))
    reach = 2.0 * (math.hypot(*move) + math.hypot(*doubt))
    u = ask.slack(x) - dual
    spread = 1.0 + (float(np.linalg.norm(ask.rows, 2)) if ask.slacks.round else 1.0)
    again, _, room = ask.slacks.derivative(u)
    # Within reach of the answer, the argument u of P_K moves by less than `spread` times that.
    if not (np.array_equal(again, live) and (room > spread * reach).all()):
        return math.inf
    bends = [
        8.0 / math.hypot(*u[block][1:]) for block in ask.slacks.round if math.hypot(*u[block][1:]) > abs(u[block][0])
    ]
    bend = max(bends, default=0.0)
    return reach if bend * spread**2 * float(np.linalg.norm(inverse)) * reach <= 0.5 else math.inf


def _unsure(ask: Question, x: FloatArray) -> FloatArray:
    """How well the slacks of x are known."""
    return _rounding(x) * (np.abs(ask.limits) + math.hypot(*x))


def _rounding(x: FloatArray) -> float:
    """What a sum of products over the coefficients may lose, relative to its terms."""
    return (2.0 + math.sqrt(x.size)) * float(np.finfo(np.float64).eps)
