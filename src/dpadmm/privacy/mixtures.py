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
from typing import Any

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as plds
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri_exp

from dpadmm._arrays import FloatArray
from dpadmm.privacy.events import (
    DpEvent,
    MixtureOfGaussiansDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
)

_LOG_TAIL = -50.0  # mass beyond the grid counts as certain disclosure: 2e-22 a step
POINTS = 50_000  # of a grid, at most: it is then a few parts in 10^4 on the safe side
_FINEST = 1e-5  # below this, differences of deltas lose too many digits


class Mixture:
    """In units of the noise: N(0, 1) against the sum of p_i N(c_i, 1)."""

    def __init__(self, event: DpEvent) -> None:
        if isinstance(event, SampledWithoutReplacementDpEvent):
            event = PoissonSampledDpEvent(event.sample_size / event.source_dataset_size, event.event)
        if isinstance(event, PoissonSampledDpEvent):
            scale, shifts = float(event.event.noise_multiplier), [0.0, 1.0]
            shares = [1.0 - event.sampling_probability, event.sampling_probability]
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
        with np.errstate(divide="ignore"):
            floor = np.log(self.shares[self.shifts == 0.0].sum())
        rising = self.shifts > 0.0
        shifts, shares = self.shifts[rising], self.shares[rising]
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

    def deltas(self, epsilons: FloatArray, added: bool) -> FloatArray:
        """The smallest delta at each epsilon, for the record being added or being taken away."""
        if added:  # N(0, 1) against the mixture: the event is a loss below -epsilon
            x = self.where(-epsilons)
            lower = ndtr(np.subtract.outer(x, self.shifts)) @ self.shares
            found = ndtr(x) - np.exp(np.minimum(epsilons, 700.0)) * lower
        else:
            x = self.where(epsilons)
            upper = ndtr(-np.subtract.outer(x, self.shifts)) @ self.shares
            # No more than `upper`, for the loss is at least epsilon there: this exponent never overflows.
            found = upper - np.exp(epsilons + log_ndtr(-x))
        found = np.clip(found, 0.0, 1.0)
        # Rounding must not make the curve rise.
        return np.maximum.accumulate(found[::-1])[::-1]

    def bounds(self, added: bool) -> tuple[float, float]:
        """The losses beyond which hardly any mass of the upper distribution lies."""
        reach = -float(ndtri_exp(_LOG_TAIL))
        ends = np.array([-reach, reach + (0.0 if added else self.shifts.max())])
        low, high = self.loss(ends)
        return (-high, -low) if added else (low, high)

    def spread(self, count: int) -> float:
        """A rough size of what `count` of them lose together: their chi-square, as if all were Gaussian."""
        exponents = np.minimum(np.multiply.outer(self.shifts, self.shifts), 50.0)
        return math.sqrt(count * float(self.shares @ np.expm1(exponents) @ self.shares))


def grid(tally: dict[DpEvent, int]) -> float:
    """How fine a grid these events need: 10^4 points per unit of the answer, as far as memory allows."""
    mixtures = {Mixture(event): count for event, count in tally.items()}
    size = math.hypot(*(mixture.spread(count) for mixture, count in mixtures.items()))
    longest = max(high - low for mixture in mixtures for low, high in (mixture.bounds(False), mixture.bounds(True)))
    return max(_FINEST, 1e-4 * min(3.0 * size, 1.0), longest / POINTS)


def distribution(event: DpEvent, interval: float) -> Any:
    """Its privacy loss distribution on a grid, rounded pessimistically (connect the dots)."""
    mixture = Mixture(event)
    if not mixture.shifts.any():
        return plds.identity(value_discretization_interval=interval)
    if isinstance(event, SampledWithoutReplacementDpEvent):
        return plds.PrivacyLossDistribution(_symmetric_pmf(mixture, interval))
    return plds.PrivacyLossDistribution(*(_pmf(mixture, interval, added) for added in (False, True)))


def _pmf(mixture: Mixture, interval: float, added: bool) -> Any:
    low, high = mixture.bounds(added)
    first, last = math.floor(low / interval), math.ceil(high / interval)
    deltas = mixture.deltas(np.arange(first, last + 1, dtype=np.float64) * interval, added)
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, first, last, deltas)


def _symmetric_pmf(mixture: Mixture, interval: float) -> Any:
    last = math.ceil(mixture.bounds(added=False)[1] / interval)
    epsilons = np.arange(last + 1, dtype=np.float64) * interval
    above = mixture.deltas(epsilons, added=False)
    below = -np.expm1(-epsilons) + np.exp(-epsilons) * above
    deltas = np.concatenate([below[:0:-1], above])
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -last, last, deltas)
