"""Where two shifted Gaussians are likelier than one in the middle, and how likely they are there.

A pair (u, v) at rate q compares (1-q) N(u, 1) + q N(v, 1) with N(0, 1). The ratio of the densities is a sum of two
exponentials, so convex: it is at most a level between two points, `left` and `right`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from dpadmm._arrays import FloatArray
from dpadmm.privacy.losses import UNIT

_STEPS = 200  # of Newton's method; it takes few


@dataclass(frozen=True, eq=False)
class Regions:
    """For each knot a pair, and the points between which its loss is at most the knot."""

    undrawn: FloatArray
    drawn: FloatArray
    left: FloatArray
    right: FloatArray

    @property
    def columns(self) -> tuple[FloatArray, ...]:
        return self.undrawn, self.drawn, self.left, self.right

    def outside(self, rate: float | None = None) -> tuple[FloatArray, FloatArray]:
        """The mass where losses are larger than the knot, under the mixture of this rate or under N(0, 1), and a bound
        of its error."""
        mass, error = np.zeros(self.left.shape), np.zeros(self.left.shape)
        for share, shift in self._parts(rate):
            for t, x in ((shift - self.right, self.right), (self.left - shift, self.left)):
                part = ndtr(t)
                mass += share * part
                error += share * part * _relative(t, x, shift)
        return mass, error + 1e-300

    def inside(self, rate: float | None = None) -> tuple[FloatArray, FloatArray]:
        """The mass where losses are no larger than the knot, likewise."""
        mass, error = np.zeros(self.left.shape), np.zeros(self.left.shape)
        for share, shift in self._parts(rate):
            low, high = self.left - shift, self.right - shift
            turned = (low > 0.0) & (low < high)  # both are on the right: there the smaller masses are
            near, far = np.where(turned, -low, high), np.where(turned, -high, low)
            more, less = ndtr(near), ndtr(far)
            mass += share * np.maximum(more - less, 0.0)
            wrong = more * _relative(near, np.where(turned, self.left, self.right), shift)
            wrong += less * _relative(far, np.where(turned, self.right, self.left), shift)
            error += share * wrong
        return mass, error + 1e-300

    def _parts(self, rate: float | None) -> list[tuple[float, FloatArray]]:
        if rate is None:
            return [(1.0, np.zeros_like(self.undrawn))]
        return [(1.0 - rate, self.undrawn), (rate, self.drawn)]


def of_pair(rate: float, u: float, v: float, knots: FloatArray) -> Regions:
    """Of one pair, at each knot. Where every loss is larger, `right` is minus infinity; where none is, infinity."""
    left, right = np.full(knots.shape, -np.inf), np.full(knots.shape, np.inf)
    lines = [(math.log(p), m) for p, m in ((1.0 - rate, u), (rate, v)) if p > 0.0]
    rising, falling = ([line for line in lines if line[1] * side > 0.0] for side in (1, -1))
    smallest = max([log for log, m in lines if m == 0.0], default=-math.inf)
    if rising and falling:
        smallest = float(loss(rate, u, v, np.array([lowest(rate, u, v)]))[0])
    none = knots < smallest if rising or falling else knots < 0.0
    some = ~none & (knots > smallest)
    right[none | (knots <= smallest if rising or falling else none)] = -np.inf
    if rising:
        start = np.min([(knots[some] - log) / m + 0.5 * m for log, m in rising], axis=0)
        right[some] = _roots(rate, u, v, knots[some], start)
    if falling:
        start = np.max([(knots[some] - log) / m + 0.5 * m for log, m in falling], axis=0)
        left[some] = _roots(rate, u, v, knots[some], start)
    return Regions(np.full(knots.shape, u), np.full(knots.shape, v), left, right)


def loss(rate: float, u: float, v: float, x: FloatArray) -> FloatArray:
    """ln of the mixture's density over the single Gaussian's."""
    with np.errstate(divide="ignore"):
        logs = np.log([1.0 - rate, rate])
    return np.asarray(np.logaddexp(logs[0] + u * x - 0.5 * u * u, logs[1] + v * x - 0.5 * v * v))


def lowest(rate: float, u: float, v: float) -> float:
    """Where the loss is smallest, for shifts of different signs."""
    return (math.log((1.0 - rate) * abs(u)) - math.log(rate * abs(v)) + 0.5 * (v * v - u * u)) / (v - u)


def _roots(rate: float, u: float, v: float, knots: FloatArray, start: FloatArray) -> FloatArray:
    """By Newton's method from outside: the loss is convex, and each of its lines is below it."""
    x, active = start, np.arange(start.size)
    for _ in range(_STEPS):
        at = x[active]
        found = loss(rate, u, v, at)
        drawn = np.exp(np.minimum(math.log(rate) + v * at - 0.5 * v * v - found, 0.0))
        slope = u + (v - u) * drawn
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.where(slope != 0.0, (found - knots[active]) / slope, 0.0)
        x[active] = at - step
        active = active[np.abs(step) > 1e-12 * (1.0 + np.abs(x[active]))]
        if active.size == 0:
            break
    return x


def _relative(t: FloatArray, x: FloatArray, shift: FloatArray) -> FloatArray:
    """The relative error of ndtr, its argument's rounding included."""
    with np.errstate(invalid="ignore"):
        found = UNIT * (16.0 + np.abs(t) * (2.0 * np.abs(t) + np.abs(x) + np.abs(shift)))
    return np.where(np.isfinite(t), found, UNIT)
