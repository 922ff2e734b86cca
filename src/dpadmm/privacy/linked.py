"""The privacy loss of a variance-reduced step, whose two shifts are linked: the worst of all pairs of slopes.

A record has the slope p1 at the point and p2 at the anchor, both in [0, s] or in [-s, s] and at most `change` apart,
where s = 1 / noise multiplier. A step with sampling rate q moves by u = p2 if the record is not drawn and by v = (p1 -
(1-q) p2) / q if it is, so (1-q) u + q v = p1: (1-q) N(u, 1) + q N(v, 1) is compared with N(0, 1). A record may have
other slopes at every step, so a step costs the pointwise supremum of these pairs' curves, which is the curve of a pair.

Theory 5.3 proves that few pairs suffice at epsilon:

* The ratio of the densities is at most a level between two points. So a curve is quasi-convex in u and in v, and p1 is
  at an end of its range.
* On the edge p1 = s a curve rises with u where 2 epsilon < uv and u >= 0, and falls where 2 epsilon > uv. So the worst
  is at the smallest u, or at the larger root of uv = 2 epsilon (or at s, where that is smaller).
* What is left of the edge, 2 epsilon < uv and u < 0, is cut into pieces. On a piece a curve is at most `_room` higher
  than at both of its ends. Where that is higher than what was found the piece is halved, and in the end replaced by the
  corners of the rectangle around it.

The supremum and its tangent (the two masses where losses are larger) are known at every knot of the grid, so the law of
losses between two knots is bounded as that of a mixture is.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.privacy.events import VarianceReducedDpEvent
from dpadmm.privacy.losses import UNIT, Losses, on_grid, spread
from dpadmm.privacy.regions import Regions, loss, of_pair

_FINEST = 2.0**-4  # of the range of u < 0: pieces of it are not halved any more
_BEND = 0.48395  # more than the integral of (z² - 1)+ under N(0, 1)

Pair = tuple[float, float]


class Linked:
    """In units of the noise: N(0, 1) against the worst mixture of two shifts that a record can have."""

    def __init__(self, event: VarianceReducedDpEvent) -> None:
        self.rate = q = float(event.sampling_probability)
        self.longest = s = 1.0 / float(event.noise_multiplier)
        c = min(float(event.change) * s, s if event.one_sided else 2.0 * s)
        self._first = s - c  # the smallest u on the edge p1 = s
        pairs = [(self._first, self._drawn(self._first)), (s, s)]
        if event.one_sided:  # the edge p1 = p2 - c, mirrored
            pairs += _corners((-s, -c), (c / q - s, c / q - c))
        else:  # the edge p1 = p2 + c where p2 < 0; what lies beyond is covered by the first pair
            last = -abs(s - c)
            pairs += _corners((-s, last), (c / q - s, c / q + last))
        self.pairs = [(u, v) if v >= 0.0 else (-u, -v) for u, v in sorted(set(pairs))]

    def _drawn(self, undrawn: float) -> float:
        """The shift of a drawn record on the edge p1 = s."""
        return (self.longest - (1.0 - self.rate) * undrawn) / self.rate

    def size(self) -> float:
        """A rough size of what one of them loses: twice the Hellinger distance."""
        x = np.linspace(-50.0, 50.0, 10_001)
        base, apart = np.exp(-0.25 * x * x), 0.0
        for u, v in np.clip(self.pairs, -40.0, 40.0).tolist():
            mixed = (1.0 - self.rate) * np.exp(-0.5 * np.square(x - u)) + self.rate * np.exp(-0.5 * np.square(x - v))
            apart = max(apart, float(np.trapezoid(np.square(np.sqrt(mixed) - base), x)))
        return 2.0 * math.sqrt(apart / math.sqrt(2.0 * math.pi))

    def ends(self, log_tail: float, largest: float) -> Pair:
        """Two losses: less than 2 e^log_tail of N(0, 1) has a smaller one than the first, and of a mixture a larger one
        than the other; or what is larger is more than `largest`, and need not be told from infinity."""
        reach, s = -float(ndtri_exp(log_tail)), self.longest
        most = max(s, max(abs(v) for _, v in self.pairs))
        far = np.array([-reach, reach + most])
        low = float(loss(self.rate, s, most, far[:1])[0])
        with np.errstate(divide="ignore"):
            high = float(np.logaddexp(np.log1p(-self.rate) + s * far[1], math.log(self.rate) + most * far[1]))
        return low, max(min(high, largest), low + 1e-9)

    def losses(self, interval: float, ends: Pair) -> tuple[Losses, Losses]:
        """The losses of the mixture against N(0, 1), a record taken away, and of N(0, 1) against the mixture, added."""
        first, high = ends
        knots: FloatArray = first + interval * np.arange(max(math.ceil((high - first) / interval), 1) + 1.0)
        worst = self.worst(knots)
        slack = UNIT * (8.0 + 4.0 * float(np.abs(knots[[0, -1]]).max()))
        mixed, mixed_error, (below, above) = _masses(worst, self.rate)
        alone, alone_error, (below_alone, above_alone) = _masses(worst, None)
        right = knots[1:]
        removed = on_grid(
            spread(np.maximum(mixed + mixed_error, 0.0), alone - alone_error, right + slack, interval, slack)
        )
        removed[0] += below
        left = slack + interval - right
        farther, nearer = spread(np.maximum(alone + alone_error, 0.0), mixed - mixed_error, left, interval, slack)
        added = on_grid((farther[::-1], nearer[::-1]))
        added[0] += above_alone
        return Losses(first + slack, removed, above), Losses(slack - float(right[-1]), added, below_alone)

    def worst(self, knots: FloatArray) -> Regions:
        """At each knot the pair whose curve is highest, in either direction: the other one's curve at -epsilon differs
        from it by a function of epsilon only."""
        worst = _Worst(self.rate, knots)
        everywhere = np.arange(knots.size)
        for u, v in self.pairs:
            worst.look(u, v, everywhere)
        turning, at = self._turning(knots)
        worst.enter(turning, at)
        for u, v in self._uncovered(worst):  # at all knots, so that the supremum is convex
            worst.look(u, v, everywhere)
        if not np.isfinite(worst.height).all():
            raise ArithmeticError(f"no curve of {self.rate!r}, {self.longest!r} where losses are {knots[[0, -1]]}.")
        return worst.found

    def _turning(self, knots: FloatArray) -> tuple[Regions, IntArray]:
        """The pairs with uv = 2 epsilon on the edge p1 = s, and at which knots: both densities are e^epsilon times that
        of N(0, 1) at (u + v) / 2."""
        q, s = self.rate, self.longest
        at = np.flatnonzero((knots > 0.0) & (8.0 * q * (1.0 - q) * knots < s * s) & (q < 1.0))
        u = (s + np.sqrt(s * s - 8.0 * q * (1.0 - q) * knots[at])) / (2.0 * max(1.0 - q, 2.0**-60))
        inside = (u > max(self._first, 0.0)) & (u < s)
        u = u[inside]
        v = (s - (1.0 - q) * u) / q
        return Regions(u, v, np.full(u.shape, -np.inf), 0.5 * (u + v)), at[inside]

    def _uncovered(self, worst: _Worst) -> list[Pair]:
        """The corners of rectangles around those pairs on the edge p1 = s, u < 0, that may be higher than the worst."""
        heights: dict[float, FloatArray] = {}

        def height(u: float, at: IntArray) -> FloatArray:
            known = heights.setdefault(u, np.full(worst.knots.shape, np.nan))
            missing = at[np.isnan(known[at])]
            known[missing] = worst.heights(of_pair(self.rate, u, self._drawn(u), worst.knots[missing]), missing)
            return known[at]

        found, pieces = list[Pair](), [(self._first, 0.0, np.flatnonzero(worst.knots < 0.0))]
        while pieces and self._first < 0.0:
            a, b, at = pieces.pop()
            at = at[2.0 * worst.knots[at] < b * self._drawn(b)]  # elsewhere the curve falls on the whole piece
            above = np.maximum(height(a, at), height(b, at)) + self._room(a, b, worst.knots[at])
            at = at[above > worst.height[at]]
            middle = 0.5 * (a + b)
            if at.size and b - a > -_FINEST * self._first:
                pieces += [(a, middle, at), (middle, b, at)]
            elif at.size:
                found += _corners((a, b), (self._drawn(b), self._drawn(a)))
        return sorted(set(found))

    def _room(self, a: float, b: float, knots: FloatArray) -> FloatArray:
        """How much higher a curve is at most within a piece than at its ends: (b-a)²/8 times a bound of the second
        derivative of what one test achieves. It is small where that test accepts far points only."""
        q, first, last = self.rate, self._drawn(b), self._drawn(a)
        # Where x < 0, no ratio on the piece is smaller than that of (b, last) times e^-(a² - b²)/2.
        farthest = of_pair(q, b, last, knots + 0.5 * (a * a - b * b)).right
        # Else the points that are accepted may lie on the other side of zero.
        rising = (1.0 - q) * a + q * min(shift * math.exp(-0.5 * shift * shift) for shift in (first, last)) >= 0.0
        far = (farthest < 0.0) & rising
        bends = (1.0 - q) * np.where(far, _bend(farthest - a), _BEND)
        bends += (1.0 - q) ** 2 / q * np.where(far, _bend(farthest - first), _BEND)
        return np.asarray((b - a) ** 2 / 8.0 * bends * (1.0 + 1e-9))


class _Worst:
    """The highest curve so far, at each knot."""

    def __init__(self, rate: float, knots: FloatArray) -> None:
        self.rate, self.knots, self.height = rate, knots, np.full(knots.shape, -np.inf)
        self.found = Regions(*(np.zeros(knots.shape) for _ in range(4)))

    def look(self, u: float, v: float, at: IntArray) -> None:
        """Takes this pair at those of these knots where its curve is higher."""
        self.enter(of_pair(self.rate, u, v, self.knots[at]), at)

    def enter(self, regions: Regions, at: IntArray) -> None:
        """The same for a pair of its own at each of these knots."""
        own = self.heights(regions, at)
        better = own > self.height[at]
        into = at[better]
        self.height[into] = own[better]
        for mine, theirs in zip(self.found.columns, regions.columns, strict=True):
            mine[into] = theirs[better]

    def heights(self, regions: Regions, at: IntArray) -> FloatArray:
        """delta; where epsilon is negative, how much more it is than 1 - e^epsilon."""
        knots = self.knots[at]
        beyond = np.logaddexp(log_ndtr(-regions.right), log_ndtr(regions.left))
        above = regions.outside(self.rate)[0] - np.exp(np.minimum(knots + beyond, 1.0))  # at most 1, but for rounding
        below = np.exp(np.minimum(knots, 0.0)) * regions.inside()[0] - regions.inside(self.rate)[0]
        return np.where(knots < 0.0, below, above)


def _masses(regions: Regions, rate: float | None) -> tuple[FloatArray, FloatArray, Pair]:
    """Of the cells between neighbouring knots: masses, bounds of their errors; and what is outside, rounded up.

    Errors count six times: by rounding, what was taken for the highest curve may be two of them below it, and a mass
    below zero where two curves are equally high, which then counts as zero.
    """
    (inside, wrong_inside), (outside, wrong_outside) = regions.inside(rate), regions.outside(rate)
    lower = inside[1:] < 0.5
    masses = np.where(lower, inside[1:] - inside[:-1], outside[:-1] - outside[1:])
    wrong = np.where(lower, wrong_inside[1:] + wrong_inside[:-1], wrong_outside[1:] + wrong_outside[:-1])
    ends = float(inside[0] + 6.0 * wrong_inside[0]), float(outside[-1] + 6.0 * wrong_outside[-1])
    return masses, 6.0 * (wrong + UNIT * np.abs(masses)), ends


def _bend(z: FloatArray) -> FloatArray:
    """At least the integral of (y² - 1)+ under N(0, 1), over any set of numbers below z."""
    z = np.clip(z, -40.0, 0.0)
    return np.minimum(ndtr(z) - z * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi), _BEND) * (1.0 + 1e-9)


def _corners(first: Pair, second: Pair) -> list[Pair]:
    return [(u, v) for u in first for v in second]
