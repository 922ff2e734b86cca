"""A point of a zone's set next to one that misses some conditions by a little, and surely in the set."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from dpadmm._arrays import FloatArray
from dpadmm.applications.power_flow.programme import Condensed
from dpadmm.problems.sets.conic.cone import Cone

CORRECTIONS = 5


class Room(NamedTuple):
    """What conditions leave a point; one entry for every inequality, then for every second-order cone (t, v): t - |v|."""

    left: FloatArray
    unsure: FloatArray  # how far rounding may have moved it
    slopes: csr_array  # its derivative


def inside(condensed: Condensed, w: FloatArray) -> FloatArray | None:
    """A point that keeps the inequalities by more than rounding can take away, and the equations, which fix single
    entries, exactly; None if none is found.

    Newton's method on the conditions that are missed, and what is still missed then by a move towards the point deep
    inside.
    """
    fixed, deep = condensed.fixed, condensed.deep
    w = w.copy()
    w[fixed] = deep[fixed]
    for _ in range(CORRECTIONS):
        room = _room(condensed.cone, w)
        short = room.left < 2.0 * room.unsure
        if not short.any():
            return w
        slopes = room.slopes[np.flatnonzero(short)].toarray()
        slopes[:, fixed] = 0.0
        w += np.linalg.lstsq(slopes, (4.0 * room.unsure - room.left)[short], rcond=1e-10)[0]
    short = _room(condensed.cone, w)
    depth = float(_room(condensed.cone, deep).left.min(initial=np.inf))
    missed = float((4.0 * short.unsure - short.left).max(initial=0.0))
    if not depth > 0.0:
        return None
    w += missed / (missed + depth) * (deep - w)
    w[fixed] = deep[fixed]
    found = _room(condensed.cone, w)
    return w if (found.left > found.unsure).all() else None


def _room(cone: Cone, w: FloatArray) -> Room:
    rows, slack, unsure = csr_array(cone.rows), cone.limits - cone.rows @ w, rounding(cone, w)
    first = cone.zero + cone.nonnegative
    # Which condition a row belongs to, and how the condition's room depends on its slack.
    sizes = np.concatenate([np.ones(cone.nonnegative, dtype=np.int64), np.array(cone.second_order, dtype=np.int64)])
    condition = np.repeat(np.arange(sizes.size), sizes)
    starts = first + np.cumsum((0, *cone.second_order))[:-1].astype(np.int64)
    inner = np.ones(slack.size, dtype=bool)
    inner[: first] = inner[starts] = False
    squares = np.bincount(condition, np.where(inner, slack, 0.0)[cone.zero :] ** 2, minlength=sizes.size)
    length = np.sqrt(squares)
    way = np.ones(slack.size)
    way[inner] = -slack[inner] / np.maximum(length[condition[inner[cone.zero :]]], np.finfo(np.float64).tiny)
    way = way[cone.zero :]
    top = np.where(inner, 0.0, slack)[cone.zero :]
    left = np.bincount(condition, top, minlength=sizes.size) - length
    # The length is known to a few roundings of itself.
    lost = np.bincount(condition, unsure[cone.zero :], minlength=sizes.size) + 8.0 * np.finfo(np.float64).eps * length
    gather = csr_array((way, (condition, np.arange(way.size))), shape=(sizes.size, way.size))
    return Room(left, lost, csr_array(-(gather @ rows[cone.zero :])))


def rounding(cone: Cone, w: FloatArray) -> FloatArray:
    """What the computation of each slack may lose."""
    rows = csr_array(cone.rows)
    terms = abs(rows) @ np.abs(w) + np.abs(cone.limits)
    return np.asarray((4.0 + np.diff(rows.indptr)) * np.finfo(np.float64).eps * terms)
