"""The privacy loss of a mixture of Gaussians: N(0, s²) against the sum over i of p_i N(c_i, s²).

A mini-batch gradient shifts by an amount that depends on whether the record was drawn; with independent coins and
noise, that mixture (in one dimension, with the shifts' norms) is the worst case (Choquette-Choo et al. 2023, cor. 4.7).
dp_accounting has it too, but looks up every point of its grid by bisection, which takes minutes where shifts are long.
Here all points go together: the loss L(x) is a convex increasing function, so Newton's method from the right descends
to its inverse. Subsampled Gaussians are the mixture with shifts 0 and 1.

Samples of a fixed size, replace. Two neighbours' outputs are (1-q) R + q P and (1-q) R + q P', where P, P' and R (made
of samples without the record) are pairwise no farther apart than a Gaussian release of the sensitivity. Then, with
a' = 1 + (a-1)/q, advanced joint convexity (Balle, Barthe & Gaboardi 2018) bounds the divergence at a >= 1 by
q delta(a'), which is that of the mixture against the single Gaussian; at a < 1 by the same with the neighbours swapped.
The curve is convex, so it has a dominating pair, and composes (Zhu, Dong & Wang 2022).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri_exp

from dpadmm._arrays import FloatArray
from dpadmm.privacy.events import (
    DpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
)
from dpadmm.privacy.losses import UNIT, Losses, on_grid, spread

POINTS = 50_000
"""Cells of a grid, at most."""


class Mixture:
    """In units of the noise: N(0, 1) against the sum of p_i N(c_i, 1)."""

    def __init__(self, event: DpEvent) -> None:
        if isinstance(event, SampledWithoutReplacementDpEvent):
            event = PoissonSampledDpEvent(event.sample_size / event.source_dataset_size, event.event)
        if isinstance(event, PoissonSampledDpEvent):
            scale, shifts = float(event.event.noise_multiplier), [0.0, 1.0]
            shares = [1.0 - event.sampling_probability, event.sampling_probability]
        elif isinstance(event, GaussianDpEvent):
            scale, shifts, shares = float(event.noise_multiplier), [1.0], [1.0]
        else:
            assert isinstance(event, MixtureOfGaussiansDpEvent)
            scale, shifts, shares = float(event.standard_deviation), event.sensitivities, event.sampling_probs
        kept = np.asarray(shares, dtype=np.float64) > 0.0
        self.shares: FloatArray = np.asarray(shares, dtype=np.float64)[kept]
        self.shifts: FloatArray = np.asarray(shifts, dtype=np.float64)[kept] / scale

    def loss(self, x: FloatArray) -> FloatArray:
        """ln of the mixture's density over the single Gaussian's."""
        return np.asarray(logsumexp(np.multiply.outer(x, self.shifts) - 0.5 * self.shifts**2, axis=1, b=self.shares))

    def where(self, loss: FloatArray) -> FloatArray:
        """The points with this loss; minus infinity where every point has a larger one."""
        rising = self.shifts > 0.0
        still = float(self.shares[~rising].sum())
        floor = math.log(still) if still > 0.0 else -math.inf
        shifts, shares = self.shifts[rising], self.shares[rising]
        if shifts.size == 1:  # e^loss = still + share e^(shift x - shift^2 / 2)
            with np.errstate(divide="ignore"):
                moving = np.log1p(-np.exp(np.minimum(floor - loss, 0.0)))
            return np.asarray((loss + moving - np.log(shares)) / shifts + 0.5 * shifts)
        # Each component alone is a line below L, so the smallest of their roots is to the right of L's.
        x = ((loss[:, None] - np.log(shares)) / shifts + 0.5 * shifts).min(axis=1)
        below = loss <= floor
        active = np.flatnonzero(~below)
        for _ in range(200):
            if active.size == 0:
                break
            exponents = np.multiply.outer(x[active], self.shifts) - 0.5 * self.shifts**2 + np.log(self.shares)
            top = exponents.max(axis=1, keepdims=True)
            terms = np.exp(exponents - top)
            total = terms.sum(axis=1)
            step = (top[:, 0] + np.log(total) - loss[active]) / ((terms @ self.shifts) / total)
            x[active] -= step
            active = active[np.abs(step) > 1e-12 * (1.0 + np.abs(x[active]))]
        x[below] = -np.inf
        return x

    def ends(self, log_tail: float, largest: float) -> FloatArray:
        """Two points; less than e^log_tail lies before the one under N(0, 1), or beyond the other under the mixture.

        Or losses beyond the other are larger than `largest`, and need not be told from infinity.
        """
        reach = -float(ndtri_exp(log_tail))
        beyond = reach + float(self.shifts.max(initial=0.0))
        if largest < self.loss(np.array([beyond]))[0]:
            beyond = max(float(self.where(np.array([largest]))[0]), 1.0 - reach)
        return np.array([-reach, beyond])

    def size(self) -> float:
        """A rough size of what one of them loses: twice the Hellinger distance, which no rare large loss dominates."""
        if not self.shifts.any():
            return 0.0
        shifts = np.minimum(self.shifts, 40.0)
        x = np.linspace(-10.0, 10.0 + shifts.max(initial=0.0), 2001)[:, None]
        mixed = np.sqrt(np.exp(-0.5 * np.square(x - shifts)) @ self.shares) - np.exp(-0.25 * x[:, 0] ** 2)
        return 2.0 * math.sqrt(float(np.trapezoid(mixed * mixed, x[:, 0])) / math.sqrt(2.0 * math.pi))

    def losses(self, interval: float, ends: FloatArray) -> tuple[Losses, Losses]:
        """The losses of the mixture against N(0, 1), a record taken away, and of N(0, 1) against the mixture, added."""
        first, x, slack = self._points(ends, interval)
        right: FloatArray = first + interval * np.arange(1.0, x.size)
        (mixed, alone), errors, (below, above) = self._masses(x)
        removed = on_grid(spread(mixed + errors[0], alone - errors[1], right + slack, interval, slack))
        removed[0] += below[0]
        # The same cells from right to left, and a loss of the other sign.
        left = slack + interval - right
        farther, nearer = spread(alone + errors[1], mixed - errors[0], left, interval, slack)
        added = on_grid((farther[::-1], nearer[::-1]))
        added[0] += above[1]
        return Losses(first + slack, removed, above[0]), Losses(slack - right[-1], added, below[1])

    def symmetric_losses(self, interval: float, ends: FloatArray) -> Losses:
        """Losses above zero as those of the mixture against N(0, 1), below zero their mirror, the rest at zero."""
        middle = self.where(np.zeros(1))
        _, x, slack = self._points(np.append(middle, max(ends[1], middle[0])), interval, 0.0)
        right: FloatArray = interval * np.arange(1.0, x.size)
        (mixed, alone), errors, (_, above) = self._masses(x)
        up = on_grid(spread(mixed + errors[0], alone - errors[1], right + slack, interval, slack))
        farther, nearer = spread(alone + errors[1], mixed - errors[0], slack + interval - right, interval, slack)
        down = on_grid((farther[::-1], nearer[::-1]))
        down[0] += above[1]
        up[0] += max(0.0, 1.0 - float((mixed - errors[0]).sum() + (alone - errors[1]).sum())) + 1e-15
        masses = np.concatenate([down[:-1], [down[-1] + up[0]], up[1:]])
        return Losses(slack - right[-1], masses, above[0])

    def _points(self, ends: FloatArray, interval: float, first: float | None = None) -> tuple[float, FloatArray, float]:
        """The first loss, the points where it and the ones an interval apart are, and how far off losses there are."""
        low, high = self.loss(ends)
        if first is None:
            first = float(low)
        knots = first + interval * np.arange(max(math.ceil((high - first) / interval), 1) + 1)
        x = np.maximum.accumulate(np.concatenate([ends[:1], self.where(knots[1:])]))
        exponents = np.abs(x[[0, -1]]).max() * self.shifts.max() + 0.5 * self.shifts.max() ** 2
        off = float(np.abs(self.loss(x) - knots).max())
        return first, x, off + UNIT * (8.0 + 4.0 * float(exponents) + 4.0 * float(np.abs(knots[[0, -1]]).max()))

    def _masses(
        self, x: FloatArray
    ) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """Of the cells between these points, under the mixture and under N(0, 1); bounds of their errors; what is
        outside, below and above, rounded up."""
        size = x.size - 1
        found = [(np.zeros(size), np.zeros(size), 0.0, 0.0) for _ in range(2)]
        for into, shift, share in [*((0, *part) for part in zip(self.shifts, self.shares, strict=True)), (1, 0.0, 1.0)]:
            t = x - shift
            below, above = ndtr(t), ndtr(-t)
            # The relative error of ndtr, its argument's rounding included.
            error = UNIT * (16.0 + np.abs(t) * (2.0 * np.abs(t) + np.abs(x) + shift))
            is_right = t[:-1] + t[1:] > 0.0
            mass = np.where(is_right, above[:-1] - above[1:], below[1:] - below[:-1])
            wrong = np.where(
                is_right, (error * above)[:-1] + (error * above)[1:], (error * below)[1:] + (error * below)[:-1]
            )
            masses, errors, under, over = found[into]
            masses += share * mass
            errors += share * (wrong + UNIT * 4.0 * np.abs(mass)) + 1e-300
            found[into] = (
                masses,
                errors,
                under + share * float(below[0] * (1.0 + error[0])) + 1e-300,
                over + share * float(above[-1] * (1.0 + error[-1])) + 1e-300,
            )
        mixed, alone = found
        return (
            (mixed[0], alone[0]),
            (mixed[1], alone[1]),
            (np.array([mixed[2], alone[2]]), np.array([mixed[3], alone[3]])),
        )
