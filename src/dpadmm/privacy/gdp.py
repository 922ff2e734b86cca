"""A run as one pair of numbers (mu, delta0) that bounds it at every epsilon.

A run is (mu, delta0)-bounded if, for neighbours in both directions and every epsilon,

    delta(epsilon) <= delta0 + (1 - delta0) delta_G(mu)(epsilon),                                     (1)

delta_G the curve of a Gaussian release. So whatever it releases can be made from one draw: with probability delta0 the
neighbour's name, else a Gaussian of mean 0 or mu and variance 1. `entry` finds such pairs from an accountant's curve.
The curve is bounded from above at some points and convex in e^epsilon, so the chord is above it in between; both sides
of (1) fall, so on each piece the chord at its left end is held against the right-hand side at its right end. Beyond the
last point the curve is below delta0. Nothing is sampled: what lies between the points is covered, too.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtri_exp

from dpadmm._arrays import FloatArray
from dpadmm.privacy import gaussian
from dpadmm.privacy.accountants import ACCOUNTANTS, Accountant
from dpadmm.privacy.events import DpEvent, Relation, Tally, flatten

_POINTS = 250  # of a curve
_PIECES = 6  # of every chord
_PRECISION = 1e-4  # relative, of mu; what is found errs upwards
_SAFETY = 1e-9  # relative, of delta_G: more than its rounding errors
_LARGEST = 100.0  # of mu; beyond that a run protects nobody


def mu_of_pure(epsilon: float) -> float:
    """The smallest mu for which every epsilon-private release is mu-GDP, rounded up.

    It is 2 Phi^-1(e^epsilon / (1 + e^epsilon)) (Dong, Roth & Su 2022), a concave function that begins with slope
    sqrt(pi / 2): small ones, which the inverse would round, are taken from that line, which lies above it.
    """
    if epsilon < 1e-3:
        return math.sqrt(math.pi / 2.0) * epsilon * (1.0 + 1e-12)
    return -2.0 * float(ndtri_exp(-float(np.logaddexp(0.0, epsilon)))) * (1.0 + 1e-12)


def entry(tally: Tally, relation: Relation, delta0: float, least: float | None = None) -> float | None:
    """The mu with which a whole run, of events that are fixed, is (mu, delta0)-bounded.

    Args:
        tally: The run's events.
        relation: Which data sets count as neighbours.
        delta0: Positive.
        least: The least delta0 that will be asked for, so that the curve is made once.

    Returns:
        The mu, rounded up; None where no accountant has a curve for these events, or no mu will do.
    """
    flat = flatten(tally)
    if _accountant(flat) is None or delta0 <= 0.0:
        return None
    epsilons, deltas = _curve(frozenset(flat.items()), relation, delta0 if least is None else least)
    below = np.flatnonzero(deltas <= delta0)
    if not below.size:
        return None
    epsilons, deltas = epsilons[: below[0] + 1], deltas[: below[0] + 1]  # beyond, delta0 alone suffices
    # Every piece of a chord: the highest that the curve can be on it, and where it ends.
    shares = np.arange(_PIECES) / _PIECES
    high = (deltas[:-1, None] + (deltas[1:] - deltas[:-1])[:, None] * shares).ravel() * (1.0 + 1e-12)
    rises = np.exp(epsilons - epsilons[-1])  # in units in which none overflows
    ends = rises[:-1, None] + (rises[1:] - rises[:-1])[:, None] * (shares + 1.0 / _PIECES)
    right = (np.log(ends.ravel()) + epsilons[-1]) * (1.0 + 1e-12) + 1e-12  # rounding, on the safe side
    above = high > delta0
    return _smallest_mu(right[above], (high[above] - delta0) / (1.0 - delta0) * (1.0 + _SAFETY))


def _smallest_mu(epsilons: FloatArray, needed: FloatArray) -> float | None:
    """The smallest mu whose curve is at least `needed` at every one of these epsilons."""
    if not (needed < 1.0).all():
        return None
    mu = 0.0
    for epsilon, delta in zip(epsilons.tolist(), needed.tolist(), strict=True):
        if mu > 0.0 and gaussian.delta(epsilon, mu) >= delta:
            continue
        mu = max(mu, gaussian.mu(epsilon, delta)) * (1.0 + _PRECISION)
        while gaussian.delta(epsilon, mu) < delta:
            mu *= 1.0 + _PRECISION
        if mu > _LARGEST:
            return None
    return mu


@lru_cache(maxsize=256)
def _curve(flat: frozenset[tuple[DpEvent, int]], relation: Relation, least: float) -> tuple[FloatArray, FloatArray]:
    """Points of a curve from epsilon 0 to where it has fallen to `least`, with upper bounds of delta there."""
    tally, known = dict(flat), _accountant(dict(flat))
    assert known is not None
    last = known.epsilon(tally, least * (1.0 - 1e-6), relation)
    if not last < math.inf:
        return np.zeros(1), np.ones(1)
    epsilons = np.linspace(0.0, last, _POINTS) if last > 0.0 else np.zeros(1)
    deltas = np.minimum(known.deltas(tally, epsilons, relation), 1.0)
    deltas[-1] = min(deltas[-1], least)
    return epsilons, np.maximum.accumulate(deltas[::-1])[::-1]


def _accountant(flat: Tally) -> Accountant | None:
    return next((ACCOUNTANTS[name] for name in ("pld", "rdp") if ACCOUNTANTS[name].supports(flat)), None)
