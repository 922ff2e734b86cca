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
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from dp_accounting import NeighboringRelation
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as plds
from dp_accounting.rdp import RdpAccountant, compute_epsilon
from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS

from dpadmm._arrays import FloatArray
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian, mixtures, objective
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
    dominating,
    flatten,
)
from dpadmm.privacy.zcdp import zcdp_epsilon

_GAUSSIAN = (GaussianDpEvent,)
_PURE = (PureDpEvent, LaplaceDpEvent)
_SAMPLED = (PoissonSampledDpEvent, MixtureOfGaussiansDpEvent)
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
        """The total epsilon: 0 for an empty tally, infinite for one with a non-private release."""
        flat = flatten(tally)
        if not flat:
            return 0.0
        for event in flat:
            if not self._knows(event):
                raise InputError(f"{self.label} cannot account for {event}")
            for kinds, only in ((_SAMPLED, Relation.ZERO_OUT), (_OF_FIXED_SIZE, Relation.REPLACE)):
                if isinstance(event, kinds) and relation is not only:
                    raise InputError(f"{event} can be accounted for under {only} only, not under {relation}")
        if any(_is_bare(event) for event in flat):
            return math.inf
        return self._epsilon(flat, delta, relation)

    def _knows(self, event: DpEvent) -> bool:
        inner = event.event if isinstance(event, (PoissonSampledDpEvent, *_OF_FIXED_SIZE)) else event
        return isinstance(event, (*self.understands, NonPrivateDpEvent)) and (
            inner is event or isinstance(inner, GaussianDpEvent)
        )

    @abstractmethod
    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        """The same for a flat tally of understood events that all have noise."""


class ExactGaussian(Accountant):
    """mu^2 = sum of 1/z^2, and the closed form: no bound is smaller."""

    label = "exact Gaussian composition"
    understands = _GAUSSIAN

    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        return gaussian.epsilon(_mu(flat), delta)


class Pure(Accountant):
    """The sum of the epsilons; it holds at every delta, zero included."""

    label = "pure composition"
    understands = _PURE

    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        return _pure_sum(flat)


class PureAndGaussian(Accountant):
    """The pure part by its sum, the Gaussian part exactly with the whole of delta, and the two added."""

    label = "pure plus exact Gaussian composition"
    understands = _PURE + _GAUSSIAN

    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        return _pure_sum(flat) + gaussian.epsilon(_mu(flat), delta)


class ZeroConcentrated(Accountant):
    """rho-zCDP: epsilon^2 / 2 for a pure event, 1 / (2 z^2) for a Gaussian one, converted by the tight RDP bound."""

    label = "zero-concentrated composition"
    understands = _PURE + _GAUSSIAN

    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        pure = sum(count * _pure(event) ** 2 for event, count in flat.items() if isinstance(event, _PURE))
        return zcdp_epsilon(0.5 * pure + 0.5 * _mu(flat) ** 2, delta)


class Renyi(Accountant):
    """dp_accounting's Rényi accountant, and our own curve for objective perturbation, over a fine grid of orders."""

    label = "Rényi composition"
    understands = (*_PURE, *_GAUSSIAN, PoissonSampledDpEvent, *_OF_FIXED_SIZE, *_OBJECTIVE)

    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        orders = _PLAIN_ORDERS
        if any(isinstance(event, _OBJECTIVE) for event in flat):
            orders = objective.ORDERS
        if any(isinstance(event, PoissonSampledDpEvent) for event in flat):
            orders = _POISSON_ORDERS
        if any(isinstance(event, _OF_FIXED_SIZE) for event in flat):
            orders = _SAMPLED_ORDERS
        total = np.zeros(len(orders))
        for event, count in flat.items():
            # The floor covers the rounding of logarithms, which may come out below zero.
            total += count * (np.maximum(_curve(event, orders, relation), 0.0) + 1e-14)
        return float(compute_epsilon(orders, total, delta)[0])


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
        return math.fsum(each) + _pure_sum(flat) + gaussian.epsilon(mu, share)


class PrivacyLoss(Accountant):
    """dp_accounting's discretised privacy loss distributions, rounded pessimistically; for delta above 1e-15."""

    label = "privacy loss distribution"
    understands = _PURE + _GAUSSIAN + _SAMPLED + _OF_FIXED_SIZE

    def _epsilon(self, flat: Tally, delta: float, relation: Relation) -> float:
        interval = self._interval(flat)
        total = plds.identity(value_discretization_interval=interval)
        for event, count in flat.items():
            total = total.compose(self._distribution(event, count, interval))
        return float(total.get_epsilon_for_delta(delta))

    @staticmethod
    def _interval(flat: Tally) -> float:
        """A grid of some 10^4 points per unit of the answer, and finer than any single pure loss."""
        sampled = {event: count for event, count in flat.items() if isinstance(event, _SAMPLED + _OF_FIXED_SIZE)}
        coarse = 1e-4 * max(_rough(flat), 1e-2)
        if sampled:  # without these the rest is one Gaussian, which reaches about this far
            coarse = max(mixtures.grid(sampled), (20.0 * _mu(flat) + _mu(flat) ** 2) / mixtures.POINTS)
        losses = {event: _pure(event) for event in flat if isinstance(event, _PURE)}
        interval = min([coarse, *(loss / 32.0 for loss in losses.values())])
        if losses:  # let the grid meet the heaviest loss, a hair too wide rather than a hair too narrow
            loss = losses[max(losses, key=lambda event: flat[event] * losses[event])]
            interval = loss / math.ceil(loss / interval) * (1.0 + 1e-12)
        return interval

    @staticmethod
    def _distribution(event: DpEvent, count: int, interval: float) -> Any:
        grid = {"value_discretization_interval": interval}
        if isinstance(event, GaussianDpEvent):  # k Gaussians are one Gaussian, without discretising k times
            return plds.from_gaussian_mechanism(event.noise_multiplier / math.sqrt(count), **grid)
        if isinstance(event, LaplaceDpEvent):
            single = plds.from_laplace_mechanism(event.noise_multiplier, **grid)
        elif isinstance(event, _SAMPLED + _OF_FIXED_SIZE):
            single = mixtures.distribution(event, interval)
        else:
            single = _randomized_response_pld(event.epsilon, interval)
        return single.self_compose(count)


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


def _randomized_response_pld(epsilon: float, interval: float) -> Any:
    """The privacy loss of `dominating(PureDpEvent(epsilon))`: +-epsilon with odds e^epsilon to 1.

    dp_accounting's own rounds both losses up to the grid at every step, which adds up over many steps. Connecting the
    dots of its delta curve spreads each loss over its two neighbours on the grid, and stays an upper bound. The curve
    bends at +-epsilon only, so these four dots are all of it.
    """
    last = math.ceil(epsilon / interval)
    dots = np.array([-last, -last + 1, last - 1, last])
    likely = 1.0 / (1.0 + math.exp(-epsilon))
    excess = np.maximum(-np.expm1(dots * interval - epsilon), 0.0)
    deltas = likely * excess + (1.0 - likely) * np.maximum(-np.expm1(dots * interval + epsilon), 0.0)
    return plds.PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots(interval, dots, deltas))


def _rough(flat: Tally) -> float:
    """The size of the answer, for a grid; mini-batches not counted."""
    plain = {event: count for event, count in flat.items() if isinstance(event, _PURE + _GAUSSIAN)}
    return ZeroConcentrated()._epsilon(plain, 1e-6, Relation.REPLACE)


def _mu(flat: Tally) -> float:
    parts = [math.sqrt(n) / event.noise_multiplier for event, n in flat.items() if isinstance(event, GaussianDpEvent)]
    return math.hypot(*parts)


def _pure(event: DpEvent) -> float:
    return float(event.epsilon if isinstance(event, PureDpEvent) else 1.0 / event.noise_multiplier)


def _pure_sum(flat: Tally) -> float:
    return math.fsum(count * _pure(event) for event, count in flat.items() if isinstance(event, _PURE))


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
