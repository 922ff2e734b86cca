"""From zero-concentrated privacy (rho) to (epsilon, delta)."""

from __future__ import annotations

import math

import numpy as np


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The tight conversion of rho-zCDP: the minimum over orders a > 1 of

        a rho + ln((a - 1) / a) - (ln delta + ln a) / (a - 1)          (Canonne, Kamath & Steinke 2020, Prop. 12).

    Every order gives a valid bound, so a grid refined three times is sound however well it finds the minimum. Each term
    is right to a few units in its last digit, which are added.
    """
    if rho == 0.0:
        return 0.0
    if delta <= 0.0 or rho == math.inf:
        return math.inf
    low, high = -20.0, 40.0
    for _ in range(3):
        exponents = np.linspace(low, high, 400)
        above_one = np.exp(exponents)
        order = 1.0 + above_one
        terms = order * rho, np.log(above_one / order), -(math.log(delta) + np.log(order)) / above_one
        bound = np.sum(terms, axis=0) + 2e-15 * np.sum(np.abs(terms), axis=0)
        at = int(np.argmin(bound))
        low, high = exponents[max(at - 1, 0)], exponents[min(at + 1, 399)]
    return max(0.0, float(bound[at]))
