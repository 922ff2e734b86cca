"""A convex set in the form that conic solvers read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array, vstack

from dpadmm._arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Cone:
    """{x : rows x + s = limits, s in K}, where K stacks in this order: `zero` zeros (equations), `nonnegative` numbers
    that are not below zero (inequalities rows x <= limits), then second-order cones {(t, v) : |v| <= t} of the sizes in
    `second_order`."""

    rows: csc_array
    limits: FloatArray
    zero: int = 0
    nonnegative: int = 0
    second_order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        assert self.rows.shape[0] == self.limits.size == self.zero + self.nonnegative + sum(self.second_order)

    @property
    def dimension(self) -> int:
        return int(self.rows.shape[1])


def everything(dimension: int) -> Cone:
    """No condition at all."""
    return Cone(csc_array((0, dimension)), np.zeros(0))


def stack(cones: Sequence[Cone]) -> tuple[Cone, IntArray]:
    """The intersection, and which of the cones each of its rows comes from."""
    zero, inequality, rest = [], [], []
    first = 0
    for cone in cones:
        row = np.arange(first, first + cone.limits.size)
        zero.append(row[: cone.zero])
        inequality.append(row[cone.zero : cone.zero + cone.nonnegative])
        rest.append(row[cone.zero + cone.nonnegative :])
        first += cone.limits.size
    order = np.concatenate([*zero, *inequality, *rest])
    source = np.repeat(np.arange(len(cones)), [cone.limits.size for cone in cones])
    together = Cone(
        csc_array(vstack([cone.rows for cone in cones], format="csr")[order]),
        np.concatenate([cone.limits for cone in cones])[order],
        sum(cone.zero for cone in cones),
        sum(cone.nonnegative for cone in cones),
        tuple(size for cone in cones for size in cone.second_order),
    )
    return together, source[order]


def distinct(rows: FloatArray, limits: FloatArray, start: int, stop: int) -> IntArray:
    """The rows from `start` on, less inequalities (those before `stop`) that repeat another with a limit no tighter."""
    order = np.lexsort([limits[start:stop], *rows[start:stop].T]) + start
    repeats = (rows[order[1:]] == rows[order[:-1]]).all(axis=1)
    kept = order[np.concatenate([[True][: order.size], ~repeats])] if order.size else order
    return np.concatenate([np.sort(kept), np.arange(stop, limits.size)]).astype(np.intp)
