"""What somebody can learn who chooses the second of two runs by the outcome of the first: exact computations.

The first run is a Gaussian release of mu1, so its privacy loss is normal. Given that loss, the second run should make
as much of the epsilon that is left as it can; so the delta of both is the mean over the loss of the largest delta that
any admissible second run has at epsilon minus the loss, which may be negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Floats = NDArray[np.float64]
Curve = Callable[[Floats], Floats]


def gaussian(mu: float) -> Curve:
    """The delta of a Gaussian release at any epsilon."""
    return lambda e: norm.cdf(mu / 2 - e / mu) - np.exp(e + norm.logcdf(-mu / 2 - e / mu))


def pure(epsilon: float) -> Curve:
    """Randomised response."""
    likely = 1.0 / (1.0 + math.exp(-epsilon))
    return lambda e: (
        likely * np.maximum(-np.expm1(e - epsilon), 0.0) + (1.0 - likely) * np.maximum(-np.expm1(e + epsilon), 0.0)
    )


def poisson(chance: float, noise: float) -> Curve:
    """A Gaussian release of a record that is drawn with that chance, against one without it."""

    def delta(e: Floats) -> Floats:
        rest = np.exp(e) - (1.0 - chance)
        with np.errstate(divide="ignore", invalid="ignore"):
            where = np.where(rest > 0.0, noise * (np.log(rest / chance) + 0.5 / noise**2), -np.inf)
        upper = (1.0 - chance) * norm.sf(where) + chance * norm.sf(where - 1.0 / noise)
        return upper - np.exp(e + norm.logsf(where))

    return delta


def adaptive_delta(epsilon: float, mu1: float, second: Sequence[Curve]) -> float:
    """The delta at epsilon of a Gaussian release and the worst choice of a second run by its outcome."""
    grid = np.linspace(-9.0, 9.0, 8001)
    weights = norm.pdf(grid)
    loss = mu1 * grid + mu1**2 / 2
    return float(weights @ np.max([curve(epsilon - loss) for curve in second], axis=0) / weights.sum())
