"""The privacy loss of one release on a grid: never less than the true one.

Two neighbours' outputs P and Q have the loss L = ln(P / Q), and delta(epsilon) is the mean over P of (1 - e^(epsilon -
L))+. Losses of releases add up; so a law of L that puts as much mass as the true one at losses at least as large bounds
every composition. Here that law sits on `first + j interval`, and what is left is `certain`: a loss of infinity.

A cell of the grid is given by the masses that P and Q have there. Its mass goes to its two ends such that both masses
are kept, which is the least that is safe (Doroshenko et al. 2022, "connect the dots"): given the rest, delta is a
convex function of e^-L, and a chord lies above it. Rounding errors are bounded and always move mass up (theory 11.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray

UNIT = 2.0**-52


@dataclass(frozen=True, eq=False)
class Losses:
    """A law of losses: `masses[j]` at `first + j interval`, `certain` at infinity; together at least 1."""

    first: float
    masses: FloatArray
    certain: float = 0.0


def spread(
    upper: FloatArray, lower: FloatArray, right: FloatArray, interval: float, slack: float
) -> tuple[FloatArray, FloatArray]:
    """What a cell's mass becomes at its left and at its right end.

    Args:
        upper: Its mass under P, not too small.
        lower: Its mass under Q, not too large.
        right: Its right end. True losses are in [right - interval - 2 slack, right].
        interval: Its width.
        slack: What the ends were moved to the right, so that this is so.

    Returns:
        The masses at the left and at the right ends, rounded towards the right.
    """
    with np.errstate(divide="ignore", under="ignore"):
        logs = np.log(np.maximum(lower, 0.0)), np.log(np.maximum(upper, 1e-300))
        error = UNIT * (16.0 - np.maximum(logs[0], -1e4) - logs[1] + np.abs(right)) + slack
        # The mean over P of e^(right - L), which is at least 1; an error that hides this moves the mass to the right.
        mean = np.exp(np.minimum(logs[0] - logs[1] + right - error, 600.0))
    left = np.clip((mean - 1.0) / math.expm1(min(interval + 4.0 * slack, 700.0)), 0.0, 1.0)
    return upper * left, upper * (1.0 - left + 4.0 * UNIT)


def on_grid(masses: tuple[FloatArray, FloatArray]) -> FloatArray:
    """The masses of neighbouring cells' ends, from left to right, put together."""
    total = np.zeros(masses[0].size + 1)
    total[:-1] += masses[0]
    total[1:] += masses[1]
    return total


def pure(epsilon: float, interval: float) -> Losses:
    """The worst release of that epsilon: +-epsilon with odds e^epsilon to 1 (see `events.dominating`)."""
    likely = 1.0 / (1.0 + math.exp(-epsilon))
    atoms = np.array([likely * math.exp(-epsilon), likely])  # of Q the other way round
    return _between(epsilon, interval, atoms, lambda knots: (np.zeros(knots.size - 1), np.zeros(knots.size - 1)))


def laplace(scale: float, interval: float) -> Losses:
    """Laplace noise of that scale for a shift of 1: atoms at both ends +-1/scale, and a density between them."""
    reach = 1.0 / scale

    def cells(knots: FloatArray) -> tuple[FloatArray, FloatArray]:
        # Under P a loss of l has the density e^((l - reach) / 2) / 4, under Q e^-l times that.
        share = -0.5 * np.expm1(-0.5 * np.diff(knots))
        return share * np.exp(0.5 * (knots[1:] - reach)), share * np.exp(-0.5 * (knots[:-1] + reach))

    return _between(reach, interval, np.array([0.5 * math.exp(-reach), 0.5]), cells)


def _between(
    reach: float,
    interval: float,
    atoms: FloatArray,
    cells: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
) -> Losses:
    """Symmetric losses between +-reach, with atoms there; the grid begins at -reach, and may end at or beyond reach."""
    size = max(math.ceil(2.0 * reach / interval * (1.0 - 1e-12)), 1)
    steps = interval * np.arange(size + 1)
    knots = np.minimum(steps - reach, reach)
    upper, lower = cells(knots)
    upper[-1] += atoms[1]
    lower[-1] += atoms[0]
    error = UNIT * (16.0 + 4.0 * reach)
    slack = 8.0 * UNIT * reach
    first = slack + max(-reach, reach - steps[-1])  # where the last step falls short of reach by a hair, it meets it
    ends = spread(upper * (1.0 + error) + 1e-300, lower * (1.0 - error), first + steps[1:], interval, slack)
    masses = on_grid(ends)
    masses[0] += atoms[0] * (1.0 + error) + 1e-300
    return Losses(first, masses)
