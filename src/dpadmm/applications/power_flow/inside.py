"""A point of a zone's set next to one that misses some conditions by a little, and surely in the set."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from dpadmm._arrays import FloatArray
from dpadmm.applications.power_flow.programme import Condensed
from dpadmm.problems.sets.conic.cone import Cone

CORRECTIONS = 5
LENGTH_ROUNDINGS = 8.0  # of a length of at most three entries


class Room(NamedTuple):
    """What conditions leave a point; one entry for every inequality, then one for every second-order cone (t, v), which
    is t - |v|."""

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
        short = ~(room.left >= 2.0 * room.unsure)
        if not short.any():
            return w
        slopes = room.slopes[np.flatnonzero(short)].toarray()
        slopes[:, fixed] = 0.0
        w += np.linalg.lstsq(slopes, (4.0 * room.unsure - room.left)[short], rcond=1e-10)[0]
    room, depth = _room(condensed.cone, w), float(_room(condensed.cone, deep).left.min(initial=np.inf))
    missed = float((4.0 * room.unsure - room.left).max(initial=0.0))
    if not depth > 0.0:
        return None
    w += missed / (missed + depth) * (deep - w)
    w[fixed] = deep[fixed]
    room = _room(condensed.cone, w)
    return w if (room.left > room.unsure).all() else None


def _room(cone: Cone, w: FloatArray) -> Room:
    kinds = np.array((1,) * cone.nonnegative + cone.second_order, dtype=np.int64)  # rows of each condition
    of, starts = np.repeat(np.arange(kinds.size), kinds), np.cumsum(kinds) - kinds
    first = np.isin(np.arange(of.size), starts)  # t, or the inequality itself
    slack, rows = (cone.limits - cone.rows @ w)[cone.zero :], csr_array(cone.rows)[cone.zero :]
    length = np.sqrt(np.bincount(of, np.where(first, 0.0, slack) ** 2, minlength=kinds.size))
    way = np.where(first, 1.0, -slack / np.where(length[of] > 0.0, length[of], 1.0))
    unsure = np.bincount(of, rounding(cone, w)[cone.zero :], minlength=kinds.size)
    gather = csr_array((way, (of, np.arange(of.size))), shape=(kinds.size, of.size))
    return Room(
        slack[starts] - length,
        unsure + LENGTH_ROUNDINGS * np.finfo(np.float64).eps * length,
        csr_array(-(gather @ rows)),
    )


def rounding(cone: Cone, w: FloatArray) -> FloatArray:
    """What the computation of each slack may lose."""
    rows = csr_array(cone.rows)
    terms = abs(rows) @ np.abs(w) + np.abs(cone.limits)
    return np.asarray((4.0 + np.diff(rows.indptr)) * np.finfo(np.float64).eps * terms, dtype=np.float64)
