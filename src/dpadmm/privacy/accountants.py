"""The ways to add up a tally, one small class each.

Events carry the neighbouring relation inside their sensitivity: a noise multiplier is sigma / sensitivity *under the
relation in force*. dp_accounting sometimes applies a relation a second time, and inconsistently so (version 0.6):

* its PLD of `GaussianDpEvent` under REPLACE_ONE doubles the sensitivity, while its RDP does not;
* its PLD refuses `LaplaceDpEvent` under REPLACE_ONE;
* randomised response under REPLACE_SPECIAL costs less than its epsilon;
* its `PLDAccountant` forgets to multiply randomised response by the count.

So plain events are handed over one at a time, each under the relation that takes its noise multiplier as it is:
REPLACE_ONE for randomised response, REPLACE_SPECIAL for everything else. The caller's relation matters for objective
perturbation, whose bound depends on it, and for sampling: independent coins (Poisson) are accounted for under zero-out,
samples of a fixed size under replace, and each is refused under the other.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from dp_accounting import NeighboringRelation
from dp_accounting.rdp import RdpAccountant
from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS

from dpadmm._arrays import FloatArray
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian, objective
from dpadmm.privacy.curves import LossCurve
from dpadmm.privacy.events import (
    DpEvent,
    GaussianDpEvent,
    GaussianObjectiveDpEvent,
    LaplaceDpEvent,
    MixtureOfGaussiansDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    PureDpEvent,
    RandomizedResponseDpEvent,
    Relation,
    SampledWithoutReplacementDpEvent,
    Tally,
    VarianceReducedDpEvent,
    dominating,
    flatten,
)
from dpadmm.privacy.zcdp import zcdp_epsilon

_SMALLEST = 1e-15
"""The smallest delta that a curve of deltas tells from 0."""

_LARGEST = Fraction(2**1000)

_GAUSSIAN = (GaussianDpEvent,)
_PURE = (PureDpEvent, LaplaceDpEvent)
_SAMPLED = (PoissonSampledDpEvent, MixtureOfGaussiansDpEvent, VarianceReducedDpEvent)
_OF_FIXED_SIZE = (SampledWithoutReplacementDpEvent,)
_OBJECTIVE = (GaussianObjectiveDpEvent,)

# Sampling at an order a costs O(a) or O(a²) to bound, and at whole orders only is the bound itself.
_SAMPLED_ORDERS = (1.25, 1.5, *map(float, range(2, 65)), 80.0, 96.0, 128.0, 192.0, 256.0)
_POISSON_ORDERS = tuple(map(float, DEFAULT_RDP_ORDERS))
_PLAIN_ORDERS = tuple(1.0 + np.geomspace(0.011, 1e5, 400))


class Accountant(ABC):
    """Turns a tally into the epsilon that holds at a given delta."""

    label: ClassVar[str]
    """How a person would call it."""

    understands: ClassVar[tuple[type[DpEvent], ...]]
    """The events it can add up; no-ops, compositions and non-private events go without saying."""

    def supports(self, tally: Tally) -> bool:
        """Whether every release in the tally is of a kind this accountant understands."""
        return all(self._knows(event) for event in flatten(tally))

    def epsilon(self, tally: Tally, delta: float, relation: Relation) -> float:
        """The total epsilon, rounded up: 0 for an empty tally, infinite for one with a non-private release."""
        flat = self._understood(tally, relation)
        if not flat:
            return 0.0
        return math.inf if any(_is_bare(event) for event in flat) else self._epsilon(flat, delta, relation)

    def deltas(self, tally: Tally, epsilons: FloatArray, relation: Relation) -> FloatArray:
        """An upper bound of the smallest delta at each epsilon, in both directions of the neighbours.

        Args:
            tally: What was released.
            epsilons: (k,) where it is asked for; they may be negative.
            relation: Which data sets count as neighbours.

        Returns:
            (k,) deltas. Where delta is below 1e-15, the bound may be as large as that.
        """
        flat, epsilons = self._understood(tally, relation), np.asarray(epsilons, dtype=np.float64)
        if any(_is_bare(event) for event in flat):
            return np.ones_like(epsilons)
        above = self._deltas(flat, np.abs(epsilons), relation) if flat else np.zeros_like(epsilons)
        # At a negative epsilon by the neighbours swapped: delta = 1 - e^epsilon (1 - delta'(-epsilon)).
        below = (1.0 - np.exp(np.minimum(epsilons, 0.0)) * (1.0 - above)) * (1.0 + 1e-15)
        return np.minimum(np.where(epsilons < 0.0, below, above), 1.0)

    def _understood(self, tally: Tally, relation: Relation) -> Tally:
        """The flat tally, if this accountant can account for it."""
        flat = flatten(tally)
        for event in flat:
            if not self._knows(event):
                raise InputError(f"{self.label} cannot account for {event}")
            for kinds, only in ((_SAMPLED, Relation.ZERO_OUT), (_OF_FIXED_SIZE, Relation.REPLACE)):
                if isinstance(event, kinds) and relation is not only:
                    raise InputError(f"{event} can be accounted for under {only} only, not under {relation}")
        return flat

    def _knows(self, event: DpEvent) -> bool:
        inner = event.event if isinstance(event, (PoissonSampledDpEvent, *_OF_FIXED_SIZE)) else event
        return isinstance(event, (*self.understands, NonPrivateDpEvent)) and (
            inner is event or isinstance(inner, GaussianDpEvent)
        )

    @abstractmethod
    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        """The same for a flat tally of understood events that all have noise."""

    def _deltas(self, flat: Tally, epsilons: FloatArray, relation: Relation) -> FloatArray:
        """The same at epsilons >= 0: here the smallest deltas whose epsilon is small enough, by bisection."""
        low, high = np.full(epsilons.shape, math.log(_SMALLEST)), np.zeros(epsilons.shape)
        for _ in range(40):
            middle = 0.5 * (low + high)
            found = np.array([self._epsilon(flat, math.exp(log_delta), relation) for log_delta in middle.tolist()])
            low, high = np.where(found <= epsilons, low, middle), np.where(found <= epsilons, middle, high)
        return np.minimum(np.exp(high), 1.0)


class ExactGaussian(Accountant):
    """mu^2 = sum of 1/z^2, and the closed form: no bound is smaller. `gaussian` bounds the rounding, that of mu too."""

    label = "exact Gaussian composition"
    understands = _GAUSSIAN

    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        return gaussian.epsilon(_mu(flat), delta)

    def _deltas(self, flat: Tally, epsilons: FloatArray, relation: Relation) -> FloatArray:
        return gaussian.deltas(epsilons, _mu(flat))


class Pure(Accountant):
    """The sum of the epsilons, exact and then rounded up; it holds at every delta, zero included."""

    label = "pure composition"
    understands = _PURE

    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        return _pure_sum(flat)

    def _deltas(self, flat: Tally, epsilons: FloatArray, relation: Relation) -> FloatArray:
        """By randomised response, the worst release of that epsilon in all: (e^total - e^epsilon) / (1 + e^total)."""
        left = -np.expm1(np.minimum(epsilons - _pure_sum(flat), 0.0)) / (1.0 + math.exp(-_pure_sum(flat)))
        return np.asarray(np.abs(left) * (1.0 + 1e-14))


class PureAndGaussian(Accountant):
    """The pure part by its sum, the Gaussian part exactly with the whole of delta, and the two added."""

    label = "pure plus exact Gaussian composition"
    understands = _PURE + _GAUSSIAN

    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        pure, rest = _pure_sum(flat), gaussian.epsilon(_mu(flat), delta)
        return math.nextafter(pure + rest, math.inf) if pure and rest else pure + rest


class ZeroConcentrated(Accountant):
    """rho-zCDP: epsilon^2 / 2 for a pure event, 1 / (2 z^2) for a Gaussian one, converted by the tight RDP bound."""

    label = "zero-concentrated composition"
    understands = _PURE + _GAUSSIAN

    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        pure = math.fsum(count * _pure(event) ** 2 for event, count in flat.items() if isinstance(event, _PURE))
        return zcdp_epsilon(0.5 * pure + 0.5 * _mu(flat) ** 2, delta)


class Renyi(Accountant):
    """dp_accounting's Rényi accountant, and our own curve for objective perturbation, over a fine grid of orders."""

    label = "Rényi composition"
    understands = (*_PURE, *_GAUSSIAN, PoissonSampledDpEvent, *_OF_FIXED_SIZE, *_OBJECTIVE)

    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        if delta <= 0.0:
            return math.inf
        a, total = self._total(flat, relation)
        if delta**2 > -math.expm1(-float(total.min())):  # total variation by Kullback-Leibler's divergence
            return 0.0
        # Canonne, Kamath & Steinke 2020, Prop. 12; every order gives a bound.
        slope = -(math.log(delta) + np.log(a)) / (a - 1.0)
        found = total + np.log1p(-1.0 / a) + slope + 1e-15 * (total + np.abs(slope))
        return max(0.0, float(found.min()))

    def _deltas(self, flat: Tally, epsilons: FloatArray, relation: Relation) -> FloatArray:
        """The same conversion solved for delta, and total variation by Pinsker's inequality."""
        a, total = self._total(flat, relation)
        logs = (a - 1.0) * (total - epsilons[:, None] + np.log1p(-1.0 / a)) - np.log(a)
        # Divergences rise with the order, so the smallest bounds Kullback-Leibler's.
        apart = math.sqrt(0.5 * float(total.min()))
        return np.minimum(np.exp(np.minimum(logs.min(axis=1), 0.0)), apart) * (1.0 + 1e-9)

    @staticmethod
    def _total(flat: Tally, relation: Relation) -> tuple[FloatArray, FloatArray]:
        """Orders, and the sum of all divergences there, rounded up."""
        orders = _PLAIN_ORDERS
        if any(isinstance(event, _OBJECTIVE) for event in flat):
            orders = objective.ORDERS
        if any(isinstance(event, PoissonSampledDpEvent) for event in flat):
            orders = _POISSON_ORDERS
        if any(isinstance(event, _OF_FIXED_SIZE) for event in flat):
            orders = _SAMPLED_ORDERS
        a, total = np.array(orders), np.zeros(len(orders))
        for event, count in flat.items():
            # Divergences are differences of logarithms, over a - 1: those of the sampled, sums of large terms, are
            # right to 1e-12, the others to 1e-14 (compared with many digits in the tests).
            error = 1e-12 if isinstance(event, _SAMPLED + _OF_FIXED_SIZE) else 1e-14
            total += count * (np.maximum(_curve(event, orders, relation), 0.0) * (1.0 + 1e-14) + error * a / (a - 1.0))
        return a, total * (1.0 + 2.0**-52 * len(flat))  # every addition has rounded once


class SingleSteps(Accountant):
    """Each objective perturbation by its own bound at an equal share of delta: for one or two releases."""

    label = "single-step bounds, added up"
    understands = _PURE + _GAUSSIAN + _OBJECTIVE

    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        steps = {event: count for event, count in flat.items() if isinstance(event, _OBJECTIVE)}
        mu = _mu(flat)
        share = delta / max(1, sum(steps.values()) + (mu > 0.0))
        each = (
            count * objective.single_epsilon(event.noise_multiplier, event.kappa, event.one_sided, share, relation)
            for event, count in steps.items()
        )
        terms = [term for term in (*each, _pure_sum(flat), gaussian.epsilon(mu, share)) if term]
        return math.fsum(terms) * (1.0 + 1e-15) if len(terms) > 1 or steps else math.fsum(terms)


class PrivacyLoss(Accountant):
    """Privacy loss distributions on a grid, with every rounding error in delta: see `curves` and theory 11."""

    label = "privacy loss distribution"
    understands = _PURE + _GAUSSIAN + _SAMPLED + _OF_FIXED_SIZE

    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        bound = LossCurve(flat, delta).epsilon(delta) if delta > 0.0 else math.inf
        if ACCOUNTANTS["pure"].supports(flat):
            return min(bound, _pure_sum(flat))
        if bound == math.inf and ACCOUNTANTS["rdp"].supports(flat):  # the grid is too coarse for losses this different
            return ACCOUNTANTS["rdp"]._epsilon(flat, delta, relation)
        return bound

    def _deltas(self, flat: Tally, epsilons: FloatArray, relation: Relation) -> FloatArray:
        return LossCurve(flat, _SMALLEST, float(epsilons.max(initial=0.0))).deltas(epsilons)


ACCOUNTANTS: dict[str, Accountant] = {
    "exact": ExactGaussian(),
    "pure": Pure(),
    "pure+gaussian": PureAndGaussian(),
    "zcdp": ZeroConcentrated(),
    "rdp": Renyi(),
    "single-steps": SingleSteps(),
    "pld": PrivacyLoss(),
}
"""The accountants by name."""


def _mu(flat: Tally) -> float:
    parts = [math.sqrt(n) / event.noise_multiplier for event, n in flat.items() if isinstance(event, GaussianDpEvent)]
    return math.hypot(*parts)


def _pure(event: DpEvent) -> float:
    return float(event.epsilon if isinstance(event, PureDpEvent) else 1.0 / event.noise_multiplier)


def _pure_sum(flat: Tally) -> float:
    """The sum of what these events and counts are, which are binary numbers, rounded up."""
    total = Fraction(0)
    for event, count in flat.items():
        if isinstance(event, PureDpEvent):
            total += count * Fraction(event.epsilon)
        elif isinstance(event, LaplaceDpEvent):
            total += count / Fraction(event.noise_multiplier)
    if total > _LARGEST:
        return math.inf
    nearest = float(total)
    return nearest if nearest >= total else math.nextafter(nearest, math.inf)


def _is_bare(event: DpEvent) -> bool:
    """Whether the release had no noise at all."""
    if isinstance(event, PoissonSampledDpEvent):
        return event.sampling_probability > 0.0 and _is_bare(event.event)
    if isinstance(event, _OF_FIXED_SIZE):
        return _is_bare(event.event)
    if isinstance(event, MixtureOfGaussiansDpEvent):
        return bool(event.standard_deviation == 0.0)
    if isinstance(event, PureDpEvent):
        return event.epsilon == math.inf
    if isinstance(event, _OBJECTIVE) and event.kappa == math.inf:
        return True
    return isinstance(event, NonPrivateDpEvent) or bool(event.noise_multiplier == 0.0)


@lru_cache(maxsize=4096)
def _curve(event: DpEvent, orders: tuple[float, ...], relation: Relation) -> FloatArray:
    """One event's Rényi divergences; a search for a noise level asks for the same ones again and again."""
    grid = np.array(orders)
    if isinstance(event, GaussianObjectiveDpEvent):
        return objective.rdp(grid, event.noise_multiplier, event.kappa, relation, event.one_sided)
    if isinstance(event, GaussianDpEvent):
        return grid / (2.0 * event.noise_multiplier**2)
    known = dominating(event)
    return np.asarray(RdpAccountant(grid, _relation_as_is(known)).compose(known, 1).rdp)


def _relation_as_is(event: DpEvent) -> NeighboringRelation:
    as_replace = isinstance(event, (RandomizedResponseDpEvent, *_OF_FIXED_SIZE))
    return NeighboringRelation.REPLACE_ONE if as_replace else NeighboringRelation.REPLACE_SPECIAL
