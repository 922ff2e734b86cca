"""What the exact minimiser of an objective with a Gaussian linear term tells about one record.

F is a data set's objective, with curvature at least lambda_m even without the record in question; the release is the x
that minimises F(x) + <noise, x>, noise ~ N(0, sigma^2 I). So b = -grad F(x) is the noise, and the density of x is that
of b times |det F''|. A record of a generalised linear loss adds w l(<a, x>) to F, with |a| <= 1, |l'| <= 1 and
0 <= l'' <= c. Write mu = w / sigma, kappa = w c / lambda_m and t = order - 1. It is *not* mu-GDP: the shift depends on
the output, and so does the determinant.

*One record, present or absent.* The two b differ along a only: what is orthogonal to a has one law under both, and
given it there is one dimension left. Let u be b along a, over sigma, where the record is present, and psi(u) = u +
eta(u) where it is absent; the law of x makes the one or the other standard normal. Here |eta| <= mu, eta keeps its sign
if l' does, and, by the matrix determinant lemma, psi' = 1 / (1 + s) with s = w l'' a'F''^-1 a in [0, kappa] (F''
without the record); 1 + s is the ratio of the determinants too. From absent to present exchange the names: psi' =
1 + s. Either way the loss is (psi^2 - u^2) / 2 - ln psi' with u standard normal, and its exponential moment is

    integral of phi(u) exp(t (u eta + eta^2 / 2)) (1 + eta')^-t du.                                                 (1)

*The worst eta is a ramp.* Let r be the extreme of psi', 1 / (1 + kappa) or 1 + kappa. By convexity (1 + eta')^-t <=
1 - C eta', C = (1 - r^-t) / (r - 1). Integrating C eta' by parts turns (1) into the integral of some L(u, eta(u)) with

    dL/ds = phi(u) exp(t (u s + s^2 / 2)) ((t - C) u + t (1 + C) s).

Let theta(s) be where the monotone eta passes s; then (1) is a constant plus an integral over s of functions that grow
as theta(s) approaches u*(s) = t (1 + C) s / (C - t) from either side. Record removed: C > t, u* rises with s, and
theta - s / (r - 1) never does. Added: C < t, and the other way round. So theta - s / (r - 1) and u* - s / (r - 1) cross
at most once, and the constant at the crossing is everywhere nearer to the latter than the former is: (1) is largest
for a ramp from one limit of eta to the other, with eta' = r - 1, at some centre. There the chord is exact, so the bound
is attained: by Huber's loss, and by the smoothed hinge among the losses whose slope has one sign.

*Where the ramp is.* Reflect it, if need be, so that mu (removed) or -mu (added) is on the left. The derivative of (1)
by the centre has the sign of B |m| - centre - (1 + B |r - 1|) E y, where m is the middle of the ramp, B = |u*(s) / s|,
and y in [-h, h] is the place on it, of density exp(tilt y - bend y^2 / 2). E y is concave in tilt > 0 (the inequality
of Griffiths, Hurst & Sherman, for a bend of either sign), and the tilt is linear in the centre. It follows that (1)
rises, then falls, in centre >= 0, that no centre < 0 does better, and that Newton's iteration below is monotone.

*One record replaced.* By way of neither record, and Mironov's (2017, Prop. 11) triangle inequality at p = 2 - 1/order:
D_a <= 2a / (2a - 1) D_{2a-1}(removed) + D_{2a}(added). For Gaussians, which is what small kappa / mu leaves, nothing is
lost: a (2 mu)^2 / 2.

*One release, (epsilon, delta).* Removed: let u0 be the zero of psi and s0 = -u0 = eta(u0). As eta falls and psi rises,
|psi(u)| <= |u + s0| everywhere; so the loss is at most ln(1 + kappa) plus that of a Gaussian shifted by |s0| <= mu.
Added: the loss is convex in eta and -ln psi' <= 0, so it is at most the larger of the losses at the limits of eta: 0
and mu, or -mu and mu. Replaced: likewise at the corners of (eta_1, eta_2), plus ln(1 + kappa). With unit vectors e_1,
e_2 along the records the shifts there are 0, mu e_1, -mu e_2 and mu (e_1 - e_2); or +-mu (e_1 - e_2) and
+-mu (e_1 + e_2), one pair of which is no longer than sqrt(2) mu, the other no longer than 2 mu. The delta of the
largest of some losses is at most the sum of their deltas.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import dawsn, erf, erfcx, log_ndtr

from dpadmm._arrays import FloatArray
from dpadmm.privacy import gaussian
from dpadmm.privacy.events import Relation

ORDERS = tuple(1.0 + np.geomspace(0.05, 3e3, 80))
"""Rényi orders for tallies with these events; every one of them costs time in a search for the noise."""

_SAFETY = 3e-8
"""Relative margin on a divergence, and on a delta: several times the largest error measured (5e-9)."""

_UP = 1.0 + 1e-15
"""Rounds up what is right to a few units in the last digit."""

_FAR = 1e3  # in units of 1 / shift, for an order
_TINY = 1e-290
_ROOT_2 = math.sqrt(2.0)


def rdp(
    orders: FloatArray, noise_multiplier: float, kappa: float, relation: Relation, one_sided: bool = False
) -> FloatArray:
    """The Rényi divergence between neighbours at these orders, whichever way round.

    The largest possible where a record is zeroed out, an upper bound where it is replaced. `noise_multiplier` is over
    the sensitivity under the relation: sigma / w where a record is zeroed out, sigma / 2w where it is replaced.
    """
    if noise_multiplier == 0.0 or kappa == math.inf:
        return np.full(len(orders), math.inf)
    above, shift = orders - 1.0, 1.0 / noise_multiplier
    if relation is Relation.ZERO_OUT:
        return np.maximum(*_removed_and_added(above, above, shift, kappa, one_sided))
    removed, added = _removed_and_added(2.0 * above, 2.0 * above + 1.0, shift / 2.0, kappa, one_sided)
    return 2.0 * orders / (2.0 * orders - 1.0) * removed + added


@lru_cache(maxsize=4096)
def single_epsilon(noise_multiplier: float, kappa: float, one_sided: bool, delta: float, relation: Relation) -> float:
    """An epsilon that one such release meets at this delta."""
    if noise_multiplier == 0.0 or delta <= 0.0:
        return math.inf
    shift, determinants = 1.0 / noise_multiplier, math.log1p(kappa)
    if relation is Relation.ZERO_OUT:
        removed = (determinants + gaussian.epsilon(shift, delta)) * _UP
        return removed if one_sided else max(removed, gaussian.epsilon(shift, delta / 2.0))
    corners = {shift: 1, shift / 2.0: 2} if one_sided else {shift: 2, shift / math.sqrt(2.0): 2}
    return (determinants + _epsilon_of_any(corners, delta)) * _UP


def _epsilon_of_any(shifts: dict[float, int], delta: float) -> float:
    """The epsilon >= 0 at which the deltas of these Gaussians sum to delta, rounded up in the last digits."""
    target = math.log(delta) - _SAFETY

    def deltas_left(epsilon: float) -> float:
        logs = [math.log(count) + gaussian.log_delta(epsilon, shift) for shift, count in shifts.items()]
        return float(np.logaddexp.reduce(logs)) - target

    high = gaussian.epsilon(max(shifts), delta / sum(shifts.values()) * (1.0 - 2.0 * _SAFETY))
    if high == 0.0 or deltas_left(0.0) <= 0.0:
        return 0.0
    return float(brentq(deltas_left, 0.0, high, xtol=1e-15, maxiter=500)) * (1.0 + 1e-14) + 1e-14


def _removed_and_added(
    removed: FloatArray, added: FloatArray, shift: float, kappa: float, one_sided: bool
) -> tuple[FloatArray, FloatArray]:
    """The two directions, each at its own orders less one."""
    t, removal = np.concatenate([removed, added]), np.repeat([True, False], [len(removed), len(added)])
    moment = 0.5 * t * (t + 1.0) * shift**2  # of the Gaussian, which is what a ramp far away leaves
    if kappa > 0.0 and shift > 0.0:
        ramp = _Ramp(np.minimum(t, _FAR / shift), removal, shift, kappa, one_sided)
        exact = np.maximum(ramp.log_moment(ramp.worst_centre()), moment)
        # At orders that no sensible budget asks for, the loss's plain upper bounds: nothing is lost, and no digits.
        plain = moment + np.where(removal, t * math.log1p(kappa), math.log(2.0))
        moment = np.where(t * shift < _FAR, exact, plain) * (1.0 + _SAFETY) + 1e-14
    found = moment / t
    return found[: len(removed)], found[len(removed) :]


class _Ramp:
    """The ramps of the text at orders 1 + t, some for a record removed and the rest for one added."""

    def __init__(self, t: FloatArray, removal: NDArray[np.bool_], shift: float, kappa: float, one_sided: bool) -> None:
        kappa = max(kappa, 1e-9, 1e-3 * shift)  # more is safe, and where it is this small next to the shift it is free
        self.t, self.shift = t, shift
        self.left = np.where(removal, shift, -shift)
        self.right = np.zeros_like(self.left) if one_sided else -self.left
        self.fall = np.where(removal, kappa / (1.0 + kappa), -kappa)
        self.slope = 1.0 - self.fall
        self.log_slope = np.where(removal, -math.log1p(kappa), math.log1p(kappa))
        self.half = (self.left - self.right) / (2.0 * self.fall)
        self.middle = 0.5 * (self.left + self.right)
        bend, flat = 1.0 + t * self.fall * (1.0 + self.slope), 1e-8 / (1.0 + self.half**2)
        self.bend = np.where(np.abs(bend) < flat, -flat, bend)

    def log_moment(self, centre: FloatArray) -> FloatArray:
        """ln of (1): before the ramp, on it, after it."""
        t, gauss = self.t, 0.5 * self.t * (self.t + 1.0)
        on = 0.5 * t * (centre + self.middle) ** 2 - 0.5 * (1.0 + t) * centre**2 - t * self.log_slope
        on += self._places(centre)[0] - 0.5 * math.log(2.0 * math.pi)
        before = gauss * self.left**2 + log_ndtr(centre - self.half - t * self.left)
        after = gauss * self.right**2 + log_ndtr(t * self.right - centre - self.half)
        return np.logaddexp(np.logaddexp(before, after), on)

    def worst_centre(self) -> FloatArray:
        """Newton's iteration from a side on which it is monotone; an error in it has a second-order effect only."""
        t = self.t
        inverse_chord = self.fall / np.expm1(np.minimum(-t * self.log_slope, 700.0))  # 1 / C
        target = np.abs(t * (1.0 + inverse_chord) / (1.0 - t * inverse_chord))  # B
        middle, weight = np.abs(self.middle), 1.0 + target * np.abs(self.fall)
        drift = 1.0 + t * self.fall
        # Farther out than this the ramp is where nothing is.
        last = np.minimum(target * middle + weight * self.half, self.half + t * self.shift + 9.0)
        turn = t * self.slope * middle / np.maximum(-drift, _TINY)  # where the tilt changes its sign, if it rises
        low, high = np.zeros_like(t), last
        centre = np.where(drift < 0.0, np.minimum(turn, last), last)
        for _ in range(60):
            _, mean, variance = self._places(centre)
            rise = target * middle - centre - weight * mean
            low, high = np.where(rise > 0.0, centre, low), np.where(rise > 0.0, high, centre)
            moved = centre - rise / np.minimum(weight * drift * variance - 1.0, -_TINY)
            # Rounding, at orders far too high to matter, may throw it out.
            moved = np.where((moved < low) | (moved > high), 0.5 * (low + high), moved)
            settled = bool(np.all(np.abs(moved - centre) <= 1e-4 * (1.0 + centre)))
            centre = moved
            if settled:
                break
        return centre

    def _places(self, centre: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """ln of the integral of exp(tilt y - bend y^2 / 2) over [-half, half]; mean and variance of y under it.

        By the end the tilt leads to, so that no exponential is large; in units in which the bend is +-1.
        """
        signed = self.t * self.slope * self.middle - (1.0 + self.t * self.fall) * centre
        root = np.sqrt(np.abs(self.bend))
        tilt, half = np.abs(signed) / root, self.half * root
        near, far, decay = (tilt - half) / _ROOT_2, (tilt + half) / _ROOT_2, np.exp(-2.0 * tilt * half)
        inside = np.maximum(math.sqrt(math.pi / 2.0) * (erf(far) - erf(near)), _TINY)
        tail = math.sqrt(math.pi / 2.0) * (erfcx(np.maximum(near, 0.0)) - decay * erfcx(far))
        bowl = _ROOT_2 * (dawsn(far) - decay * dawsn(near))
        hump, is_inside = self.bend > 0.0, (self.bend > 0.0) & (near < 0.0)
        # The integral, over the density at its peak: the inner one, or the end's.
        scaled = np.maximum(np.where(is_inside, inside, np.where(hump, tail, bowl)), _TINY)
        peak = np.where(is_inside, 0.5 * tilt**2, tilt * half - np.where(hump, 0.5, -0.5) * half**2)
        end = np.where(is_inside, np.exp(-(near**2)), 1.0) / scaled
        sign = np.where(hump, 1.0, -1.0)
        mean = sign * (tilt - end * (1.0 - decay))
        variance = sign * (1.0 - end * (half - mean) - decay * end * (half + mean))
        return peak + np.log(scaled / root), np.sign(signed) * mean / root, variance / root**2
