"""Exact composition of Gaussian releases.

One Gaussian release with noise z times its sensitivity is mu-GDP with mu = 1/z. Adaptive compositions add the squares,
mu^2 = sum of 1/z_k^2, and nothing is lost: the composition is (epsilon, delta)-DP if and only if

    delta >= Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2)          (Balle & Wang 2018; spec F1).

The formula as written cancels catastrophically. With t1 = epsilon/mu - mu/2, t2 = t1 + mu, the identity
e^epsilon phi(t2) = phi(t1) and the Mills ratio M(t) = Phi(-t)/phi(t), it becomes phi(t1) (M(t1) - M(t2)), in which no
exponential is large; for small mu the difference is the integral of -M'(t) = 1 - t M(t), all of it positive.

Accuracy, measured against 60-digit arithmetic for mu in [1e-6, 1e4] and delta in [1e-300, 1): the relative error of
delta is below 1e-12 for mu <= 100, and below 2e-11 up to 1e4 (there t1 itself is a difference of large numbers).
Beyond, t1 is wrong by a few times 2^-53 mu, and ln delta by t1 times that; t1 is below 40 where delta is above 1e-300.
`safety` bounds both, and what a mu that is itself rounded in its last digits adds. `epsilon`, `mu` and `deltas` ask for
a delta smaller by that, and end at a point where the formula says so: what they return errs on the safe side.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr, ndtri_exp

from dpadmm._arrays import FloatArray

_ROOT = 4e-15
"""Relative step away from a root that is not on its safe side."""

_LARGEST = 1e150
"""From this mu on epsilon is said to be infinite: mu^2 is beyond floating-point numbers, or soon will be."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def delta(epsilon: float, mu: float) -> float:
    """The smallest delta for which mu-GDP is (epsilon, delta)-DP."""
    return math.exp(log_delta(epsilon, mu))


def deltas(epsilons: FloatArray, mu: float) -> FloatArray:
    """Upper bounds of delta at epsilons >= 0."""
    logs = np.array([log_delta(epsilon, mu) for epsilon in np.asarray(epsilons, dtype=np.float64).ravel().tolist()])
    found = np.exp(np.minimum(logs + safety(mu), 0.0)) + (1e-300 if mu > 0.0 else 0.0)
    return np.minimum(found, 1.0).reshape(np.shape(epsilons))


def safety(mu: float) -> float:
    """A bound of the error of `log_delta` where delta is above 1e-300: several times the largest measured."""
    return 1e-10 + 1e-13 * min(mu, _LARGEST)


def log_delta(epsilon: float, mu: float) -> float:
    """ln delta(epsilon, mu); finite where delta itself underflows."""
    if mu == 0.0 or epsilon == math.inf:
        return -math.inf
    if mu == math.inf:
        return 0.0
    t1 = epsilon / mu - mu / 2.0
    t2 = epsilon / mu + mu / 2.0
    if t1 > 1e100:  # ln delta is below -1e199
        return -math.inf
    log_density = -0.5 * t1 * t1 - 0.5 * math.log(2.0 * math.pi)
    if mu < 1.0:
        steps = _mills_slope(t1 + 0.5 * mu * (1.0 + _NODES))
        return log_density + math.log(0.5 * mu) + math.log(float(_WEIGHTS @ steps))
    if t1 > 0.0:
        return log_density + math.log(_mills(t1) - _mills(t2))
    # Here delta may be close to 1, and 1 - delta is what can be computed without loss.
    return math.log1p(-(float(ndtr(t1)) + math.exp(log_density) * _mills(t2)))


def epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon for which mu-GDP is (epsilon, delta)-DP, rounded up in the last digits."""
    if mu == 0.0:
        return 0.0
    if mu >= _LARGEST or delta <= 0.0:
        return math.inf
    target = math.log(delta) - safety(mu) if delta < 1.0 else 0.0
    if log_delta(0.0, mu) <= target:
        return 0.0

    def above_delta(candidate: float) -> float:
        return log_delta(candidate, mu) - target

    # delta(epsilon) < Phi(-t1), so the epsilon at which Phi(-t1) meets the target is an upper end.
    high = mu * (mu / 2.0 - float(ndtri_exp(target)))
    high = max(high, 0.0) * (1.0 + 1e-12) + mu * 1e-12
    while above_delta(high) > 0.0:
        high += mu
    found, step = float(brentq(above_delta, 0.0, high, xtol=1e-14 * mu, maxiter=500)), _ROOT
    while above_delta(found) > 0.0:
        found, step = found + step * (found + mu), 2.0 * step
    return found


def mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP is (epsilon, delta)-DP, rounded down in the last digits."""
    if delta <= 0.0:
        return 0.0
    if delta >= 1.0 or epsilon == math.inf:
        return math.inf
    target = math.log(delta) - 1e-10

    def delta_left(candidate: float) -> float:
        return log_delta(epsilon, candidate) + safety(candidate) - 1e-10 - target

    # Phi(-t1) = delta gives a mu that is too small (mu^2/2 + t mu = epsilon solved without cancellation), and so does
    # mu < delta; the search doubles from there.
    t = -float(ndtri_exp(target))
    low = 2.0 * epsilon / (t + math.sqrt(t * t + 2.0 * epsilon)) if epsilon > 0.0 else 0.0
    low = max(low * (1.0 - 1e-9), delta)
    while delta_left(low) > 0.0:
        low *= 0.5
    high = 2.0 * low
    while delta_left(high) <= 0.0:
        low, high = high, 2.0 * high
    found, step = float(brentq(delta_left, low, high, xtol=1e-16 * low, maxiter=500)), _ROOT
    while delta_left(found) > 0.0:
        found, step = found * (1.0 - step), 2.0 * step
    return found


def _mills(t: float) -> float:
    return math.sqrt(math.pi / 2.0) * float(erfcx(t / math.sqrt(2.0)))


def _mills_slope(t: FloatArray) -> FloatArray:
    """1 - t M(t) = -M'(t): directly where t is moderate, by its asymptotic series where that would cancel."""
    direct = 1.0 - t * math.sqrt(math.pi / 2.0) * erfcx(t / math.sqrt(2.0))
    if t[-1] < 20.0:
        return direct
    term = 1.0 / (t * t)
    series = term.copy()
    for k in range(1, 11):
        term = term * (-(2 * k + 1)) / (t * t)
        series += term
    return np.where(t < 20.0, direct, series)
