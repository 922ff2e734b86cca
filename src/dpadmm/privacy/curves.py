"""The privacy loss of a whole tally: which grid, which tilts, and both directions."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.privacy import mixtures
from dpadmm.privacy.composition import LONGEST, Composition
from dpadmm.privacy.events import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PureDpEvent,
    SampledWithoutReplacementDpEvent,
    Tally,
    VarianceReducedDpEvent,
)
from dpadmm.privacy.linked import Linked
from dpadmm.privacy.losses import Losses, laplace, pure

_HALVINGS = 30

_LITTLE = 1e-6
"""Size of a sum of losses below which the grid becomes no finer."""

_LOG_DELTA, _STRIDE = -0.1, 5.0
"""Levels of ln delta for which a curve of deltas has orders: the first, and about how far they are apart."""

_COARSE = 2000
"""Cells of the grid on which orders and windows are found; they need not be exact."""


class LossCurve:
    """Upper bounds of delta and epsilon of a flat tally of plain and sampled events (see `composition`).

    Args:
        flat: What was released, as `events.flatten` leaves it, every event with noise.
        smallest: The smallest delta that is asked for, or that matters.
        farthest: The largest epsilon that is asked for, where delta is.
    """

    def __init__(self, flat: Tally, smallest: float, farthest: float = math.inf) -> None:
        parts = [_Part(event, count) for event, count in flat.items()]
        self._parts = [part for part in parts if part.size > 0.0]
        self._log_delta, self._farthest = math.log(smallest), farthest
        # What is beyond a step's grid counts as certain disclosure: a millionth of delta in all.
        releases = max(sum(part.count for part in self._parts), 1)
        self._log_tail = max(self._log_delta - math.log(releases) - 14.0, -690.0)

    def epsilon(self, delta: float) -> float:
        """An epsilon that holds at this delta in both directions."""
        if not self._parts:
            return 0.0
        return max(_epsilon(rough, fine, delta) for rough, fine in self._directions)

    def deltas(self, epsilons: FloatArray) -> FloatArray:
        """Upper bounds of delta at epsilons >= 0, in both directions; each takes the best of several orders."""
        if not self._parts:
            return np.zeros_like(epsilons)
        found = [_deltas(rough, fine, epsilons, self._log_delta) for rough, fine in self._directions]
        return np.asarray(np.maximum.reduce(found))

    @cached_property
    def _directions(self) -> list[tuple[Composition, Composition]]:
        """Each direction on a coarse and on a fine grid."""
        largest, longest = math.inf, 0.0
        while True:
            last, longest = longest, max(part.span(self._log_tail, largest) for part in self._parts)
            rough = self._composed(longest / _COARSE, largest)
            windows = [part.window(part.order(self._log_delta), self._log_delta) for part in rough]
            if last and longest > 0.7 * last:
                break
            # Other losses bring one that is larger than this not back to where it would be told from infinity.
            lows = [min(part.window(0.0, self._log_delta)[0], 0.0) for part in rough]
            ends = [min(high, self._farthest) - 2.0 * low for (_, high), low in zip(windows, lows, strict=True)]
            largest = min(largest, max(ends) + 50.0)
        widest = max(high - low for low, high in windows)
        return list(zip(rough, self._composed(self._interval(longest, widest), largest), strict=True))

    def _interval(self, longest: float, widest: float) -> float:
        """Of the fine grid, from the lengths of the longest law of one release and of what matters of the sum's."""
        # No finer than rounding errors, for sums that hardly lose anything.
        size = max(math.sqrt(math.fsum(part.count * part.size**2 for part in self._parts)), _LITTLE)
        releases = sum(part.count for part in self._parts)
        # The grid adds at most interval^2 / 6 to a release's variance: a thousandth of it, or less.
        interval = size * min(1e-3, math.sqrt(1e-3 / releases))
        interval = max(interval, longest / mixtures.POINTS, 1.5 * widest / LONGEST)
        losses = [(part.count * part.largest, part.largest) for part in self._parts if part.largest]
        twice = 2.0 * max(losses, default=(0.0, 0.0))[1]
        if twice > interval:  # the grid is to meet the heaviest pure loss, whose law then needs no rounding
            interval = twice / math.ceil(twice / interval)
        return interval

    def _composed(self, interval: float, largest: float) -> list[Composition]:
        found = [(part.losses(interval, self._log_tail, largest), part.count) for part in self._parts]
        sides = range(max(len(losses) for losses, _ in found))
        return [
            Composition([(losses[side % len(losses)], count) for losses, count in found], interval) for side in sides
        ]


def _epsilon(rough: Composition, fine: Composition, delta: float) -> float:
    log_delta = math.log(delta)
    order = min(rough.order(log_delta), fine.steepest)
    for _ in range(_HALVINGS):
        bound = fine.bound(order, rough.window(order, log_delta))
        found = bound.epsilon(delta)
        if found == 0.0 or found > bound.first:
            break
        order *= 0.5  # the answer may be before the window; by a smaller order it begins earlier
    return found


def _deltas(rough: Composition, fine: Composition, epsilons: FloatArray, log_smallest: float) -> FloatArray:
    levels = np.linspace(_LOG_DELTA, log_smallest, math.ceil(-log_smallest / _STRIDE) + 1)
    orders = {min(rough.order(level), fine.steepest): level for level in levels.tolist()}
    bounds = (fine.bound(order, rough.window(order, level)) for order, level in orders.items())
    return np.asarray(np.minimum.reduce([bound.delta(epsilons) for bound in bounds]))


class _Part:
    """An event that happened `count` times, ready to be put on a grid.

    `size` is roughly how much one of them loses; `largest` is the largest loss of a pure one.
    """

    def __init__(self, event: DpEvent, count: int) -> None:
        self.event, self.count, self.largest = event, count, 0.0
        if isinstance(event, PureDpEvent | LaplaceDpEvent):
            self.largest = event.epsilon if isinstance(event, PureDpEvent) else 1.0 / event.noise_multiplier
            self.size = min(self.largest, 3.0)
            return
        if isinstance(event, VarianceReducedDpEvent):
            self._pair = Linked(event)
            self.size = max(self._pair.size(), 1e-9)
            return
        if isinstance(event, GaussianDpEvent):  # k Gaussians are one; a hair less noise covers the rounding
            self.count, event = 1, GaussianDpEvent(event.noise_multiplier / math.sqrt(count) * (1.0 - 1e-15))
        self._mixture = mixtures.Mixture(event)
        # Below, a size cannot be told from rounding; it chooses a grid only.
        self.size = max(self._mixture.size(), 1e-9) if self._mixture.shifts.any() else 0.0

    def span(self, log_tail: float, largest: float) -> float:
        """From the smallest to the largest loss on its grid."""
        if self.largest:
            return 2.0 * self.largest
        if isinstance(self.event, VarianceReducedDpEvent):
            first, last = self._pair.ends(log_tail, largest)
            return last - first
        low, high = self._mixture.loss(self._mixture.ends(log_tail, largest))
        return float(high - low)

    def losses(self, interval: float, log_tail: float, largest: float) -> tuple[Losses, ...]:
        """In each direction, told from infinity up to `largest`; one law where both directions have the same."""
        if isinstance(self.event, PureDpEvent):
            return (pure(self.largest, interval),)
        if isinstance(self.event, LaplaceDpEvent):
            return (laplace(self.event.noise_multiplier, interval),)
        if isinstance(self.event, VarianceReducedDpEvent):
            return self._pair.losses(interval, self._pair.ends(log_tail, largest))
        if isinstance(self.event, SampledWithoutReplacementDpEvent):
            return (self._mixture.symmetric_losses(interval, self._mixture.ends(log_tail, largest)),)
        directions = self._mixture.losses(interval, self._mixture.ends(log_tail, largest))
        return directions[:1] if isinstance(self.event, GaussianDpEvent) else directions
