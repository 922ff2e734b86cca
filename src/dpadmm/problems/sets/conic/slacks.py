"""The cone K of slacks: equations, inequalities, then second-order cones, as in `Cone`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from dpadmm._arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Slacks:
    zero: int
    nonnegative: int
    second_order: tuple[int, ...]

    @property
    def linear(self) -> slice:
        """The inequalities."""
        return slice(self.zero, self.zero + self.nonnegative)

    @cached_property
    def round(self) -> tuple[slice, ...]:
        """The second-order cones."""
        stops = np.cumsum([self.zero + self.nonnegative, *self.second_order])
        return tuple(slice(int(start), int(stop)) for start, stop in pairwise(stops))

    @cached_property
    def inwards(self) -> FloatArray:
        """A direction into K: one for every inequality, and along the axis of every cone."""
        out = np.zeros(self.zero + self.nonnegative + sum(self.second_order))
        out[self.linear] = 1.0
        out[[block.start for block in self.round]] = 1.0
        return out

    def nearest(self, s: FloatArray) -> FloatArray:
        """The nearest point of K."""
        out = s.copy()
        out[: self.zero] = 0.0
        np.maximum(out[self.linear], 0.0, out=out[self.linear])
        for block in self.round:
            out[block] = _round(s[block])
        return out

    def dual(self, z: FloatArray) -> FloatArray:
        """The nearest point of the dual cone: K, but free at the equations."""
        out = self.nearest(z)
        out[: self.zero] = z[: self.zero]
        return out

    def violation(self, s: FloatArray) -> float:
        """By how much the worst inequality or cone is missed; below zero, how much room all leave. Equations apart."""
        worst = float(np.max(-s[self.linear], initial=-np.inf))
        return max([worst, *(float(_length(s[block][1:]) - s[block][0]) for block in self.round)])

    def lengths(self, rows: FloatArray) -> FloatArray:
        """By which to divide slacks so that they are distances: the rows of a second-order cone have one in common."""
        out = np.sqrt((rows * rows).sum(axis=1))
        for block in self.round:
            out[block] = out[block].max()
        return np.where(out > 0.0, out, 1.0)

    def angle(self, s: FloatArray, z: FloatArray) -> float:
        """A bound on the sum of z s for z in the dual cone: zero where complementary, and free of cancellation."""
        flat = slice(0, self.zero + self.nonnegative)
        total = float(np.abs(z[flat]) @ np.abs(s[flat]))
        for block in self.round:
            length, dual = _length(s[block][1:]), _length(z[block][1:])
            total += abs(s[block][0] - length) * dual + abs(z[block][0] - dual) * abs(s[block][0])
            if length > 0.0 and dual > 0.0:
                opposite = _length(s[block][1:] / length + z[block][1:] / dual)
                total += 0.5 * length * dual * opposite**2
        return total

    def derivative(self, s: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """The derivative of `nearest`: the rows where it is not the identity, its entries there (those of a
        second-order cone fill a block), and the distance of every row from where it jumps."""
        live = s <= 0.0
        live[: self.zero] = True
        room = np.abs(s)
        room[: self.zero] = np.inf
        for block in self.round:
            length = _length(s[block][1:])
            live[block] = length >= s[block][0]
            room[block] = abs(length - abs(s[block][0]))
        index = np.flatnonzero(live)
        out = np.zeros((index.size, index.size))
        for block in self.round:
            top, rest = s[block][0], s[block][1:]
            length = _length(rest)
            if abs(top) < length:
                at = int(np.searchsorted(index, block.start))
                here = slice(at, at + rest.size + 1)
                way = rest / length
                out[here, here][0, 0] = 0.5
                out[here, here][0, 1:] = out[here, here][1:, 0] = 0.5 * way
                bend = (top / length) * (np.eye(way.size) - np.outer(way, way))
                out[here, here][1:, 1:] = 0.5 * (np.eye(way.size) + bend)
        return index, out, room


def _length(vector: FloatArray) -> float:
    return float(np.sqrt(vector @ vector))


def _round(s: FloatArray) -> FloatArray:
    """The nearest point of a second-order cone."""
    length = _length(s[1:])
    if length <= s[0]:
        return s
    if length <= -s[0]:
        return np.zeros_like(s)
    top = 0.5 * (s[0] + length)
    return np.concatenate(([top], (top / length) * s[1:]))
