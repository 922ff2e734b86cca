"""From a total budget to the noise.

The noise returned is the smallest found whose *accounting* stays within the budget: every search ends by asking the
accountant, so spending what was calibrated never reports more than was granted, not even in the last digit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from dpadmm._arrays import FloatArray
from dpadmm._ranges import DELTAS, EPSILONS, check_ranges, ranged
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian
from dpadmm.privacy.accounting import best
from dpadmm.privacy.events import DpEvent, GaussianDpEvent, Relation
from dpadmm.privacy.mechanisms import Gaussian, Mechanism, mechanism_class


@dataclass(frozen=True)
class Budget:
    """A total (epsilon, delta) for everything an agent will ever release.

    Args:
        epsilon: Smaller is more private.
        delta: 0 for pure privacy.
    """

    epsilon: float = ranged(EPSILONS)
    delta: float = ranged(DELTAS)

    def __post_init__(self) -> None:
        check_ranges(self, "budget")


def noise_multipliers(budgets: Sequence[Budget], releases: int, mechanism: str | type[Mechanism]) -> FloatArray:
    """One noise multiplier per agent, such that `releases` releases exhaust the agent's budget.

    Equal budgets are calibrated once.
    """
    kind = mechanism_class(mechanism)
    calibrate = gaussian_multiplier if kind is Gaussian else _calibrate_by_search(kind)
    found = {budget: calibrate(budget, releases) for budget in set(budgets)}
    return np.array([found[budget] for budget in budgets], dtype=np.float64)


def gaussian_multiplier(budget: Budget, releases: int) -> float:
    """sigma / sensitivity for that many Gaussian releases: sqrt(releases) / mu(epsilon, delta), rounded up."""
    _check_releases(releases)
    if budget.delta == 0.0:
        raise InputError(
            f"Gaussian noise cannot meet delta = 0 (epsilon {budget.epsilon}); allow a small delta such as 1e-6, "
            "or use laplace or gamma-norm noise"
        )
    multiplier = math.sqrt(releases) / gaussian.mu(budget.epsilon, budget.delta)
    step = 1e-15
    while _cost(GaussianDpEvent, multiplier, releases, budget.delta) > budget.epsilon:
        multiplier, step = multiplier * (1.0 + step), 2.0 * step
    return multiplier


def scaled_multipliers(
    budgets: Sequence[Budget], scales: FloatArray, releases: int, mechanism: str | type[Mechanism]
) -> FloatArray:
    """Noise multipliers that differ from time to time, in given ratios, and exhaust each agent's budget.

    Args:
        budgets: Of each agent.
        scales: (times, agents) ratios.
        releases: How many releases each time stands for.
        mechanism: Of the noise.

    Returns:
        (times, agents): the scales times one number for each agent.
    """
    _check_releases(releases)
    kind = mechanism_class(mechanism)
    found: dict[tuple[Budget, bytes], float] = {}
    units = np.empty(len(budgets))
    for agent, budget in enumerate(budgets):
        column = scales[:, agent]
        key = (budget, column.tobytes())
        if key not in found:
            found[key] = _smallest_unit(kind, budget, column, releases)
        units[agent] = found[key]
    return scales * units


def _smallest_unit(kind: type[Mechanism], budget: Budget, scales: FloatArray, releases: int) -> float:
    def cost(unit: float) -> float:
        tally: Counter[DpEvent] = Counter()
        for scale in scales:
            tally[kind.event(float(scale * unit))] += releases
        return best(tally, budget.delta, Relation.REPLACE).epsilon

    # As loud in the mean square as if all times were alike, which is right for Gaussian noise; and a little beside it,
    # since the search needs a start on one side of the answer.
    alike = noise_multipliers([budget], releases * scales.size, kind)[0]
    return smallest_near(cost, budget.epsilon, float(1.01 * alike * np.sqrt(np.mean(scales**-2.0))), tolerance=1e-9)


def classic_multiplier(epsilon: float, delta: float) -> float:
    """The papers' noise for *one* release, sqrt(2 ln(1.25/delta)) / epsilon (spec F3).

    Proved for epsilon <= 1 only. It exists to reproduce the papers; calibrate a total with `gaussian_multiplier`.
    """
    if not (epsilon > 0.0 and 0.0 < delta < 1.0):
        raise InputError(f"the classic Gaussian noise needs epsilon > 0 and 0 < delta < 1, got {epsilon}, {delta}")
    return math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


def smallest(
    cost: Callable[[float], float],
    limit: float,
    low: float = 1e-6,
    high: float = 1e12,
    tolerance: float = 1e-10,
) -> float:
    """The smallest noise level in [low, high] whose cost is within the limit, to a relative tolerance.

    `cost` must not rise with the noise. The level returned was itself checked: cost(result) <= limit.
    """
    if cost(high) > limit:
        raise InputError(f"no noise level up to {high:g} brings the cost down to {limit:g}; allow a larger budget")
    if cost(low) <= limit:
        return low
    while high > low * (1.0 + tolerance):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if cost(middle) <= limit else (middle, high)
    return high


def smallest_near(cost: Callable[[float], float], limit: float, start: float, tolerance: float) -> float:
    """The same, for a smooth cost that takes long to evaluate and a start that is about right.

    Where a thousandth of the start is still loud enough, that is the answer: no noise is too little.
    """
    low = high = start
    while cost(high) > limit:
        low, high = high, 1.5 * high
    if low == high:
        while cost(low) <= limit:
            if low < 1e-3 * start:
                return low
            low, high = low / 1.5, low

    def excess(logarithm: float) -> float:
        return min(cost(math.exp(logarithm)), 1e9) - limit  # an infinite cost tells the search which way to go

    found = math.exp(brentq(excess, math.log(low), math.log(high), xtol=tolerance / 4))
    while cost(found) > limit:
        found *= 1.0 + tolerance / 4
    return found


def _calibrate_by_search(kind: type[Mechanism]) -> Callable[[Budget, int], float]:
    def calibrate(budget: Budget, releases: int) -> float:
        _check_releases(releases)
        return smallest(lambda level: _cost(kind.event, level, releases, budget.delta), budget.epsilon)

    return calibrate


def _cost(event: Callable[[float], object], multiplier: float, releases: int, delta: float) -> float:
    # The relation is inside the sensitivity, so for plain events it does not change the number.
    return best({event(multiplier): releases}, delta, Relation.REPLACE).epsilon


def _check_releases(releases: int) -> None:
    if releases < 1:
        raise InputError(f"there must be at least one release to calibrate for, got {releases}")
