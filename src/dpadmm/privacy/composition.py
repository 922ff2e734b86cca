"""Many releases' losses together, and an upper bound of their delta, with the rounding of the transform in it.

The law of a sum of losses is a convolution. A Fourier transform makes it quickly, but each mass is wrong by about 1e-16
of the largest, and a small delta is made of small masses. So masses are tilted first: w = p e^(order L - K), with K
such that they sum to one. Their convolution is the tilted law of the sum, which is largest where `order` says, and
there its errors are small beside it. Untilted again,

    delta(epsilon) = e^(sum of K) * sum over L > epsilon of (1 - e^(epsilon - L)) e^(-order L) w(L).

Every order gives a bound; the one of Chernoff's inequality for a delta gives a good one there. What is added (theory
11.3): a bound of the transform's error to every mass, Chernoff's bound of the mass above the window, the mass at
infinity. Mass that a cyclic convolution wraps around is somewhere else too, where it only costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, rfft
from scipy.signal import lfilter

from dpadmm._arrays import FloatArray
from dpadmm.privacy.losses import UNIT, Losses

LONGEST = 2**20
"""Points of a transform, at most."""

_TAIL = 25.0
"""The tilted window leaves out a mass of e^-25 at either end; above, what is left out is added to delta."""

_STAGE = 8.0 * UNIT
"""Relative error of one stage of a fast Fourier transform: a complex product, an addition and a root of unity."""

_STEEPEST = 300.0
"""Largest order times range of losses: tilted masses stay within the range of floating-point numbers."""


@dataclass(frozen=True, eq=False)
class Bound:
    """Upper bounds of delta at `first + j interval`; exact in between, for delta is linear in e^epsilon there."""

    first: float
    interval: float
    deltas: FloatArray

    def delta(self, epsilons: FloatArray) -> FloatArray:
        """Upper bounds of delta; 1 below the grid, the last one beyond it."""
        place = (epsilons - self.first) / self.interval
        # Rounded down by a hair, which is the safe way: delta falls.
        place = np.clip(place - 1e-9 - 4.0 * UNIT * np.abs(place), -1.0, self.deltas.size - 1.0)
        left = np.floor(place).astype(np.int64)
        padded = np.concatenate([[1.0], self.deltas, self.deltas[-1:]])
        here, there = padded[left + 1], padded[left + 2]
        steps = (place - left) * self.interval
        part = np.exp(steps - self.interval) * np.expm1(-steps) / math.expm1(-self.interval)  # of e^epsilon's way
        return np.where(place < 0.0, 1.0, here + (there - here) * np.minimum(part, 1.0))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 at which the bound is at most delta; infinite if there is none on the grid."""
        above = np.flatnonzero(self.deltas > delta)
        last = int(above[-1]) if above.size else -1
        if last == self.deltas.size - 1:
            return math.inf
        if last == -1:
            return max(self.first, 0.0)
        here, there = self.deltas[last], self.deltas[last + 1]
        # ln(1 + (e^interval - 1) share), where large intervals do not overflow.
        way = math.log((here - delta) / (here - there)) + self.interval + math.log(-math.expm1(-self.interval))
        found = self.first + last * self.interval + min(float(np.logaddexp(0.0, way)), self.interval)
        return max(found + 1e-9 * self.interval + 4.0 * UNIT * abs(found), 0.0)


class Composition:
    """Independent (or adaptively chosen) releases of one direction, each with how often it happened.

    Args:
        parts: Their losses on grids of one interval.
        interval: The interval.
    """

    def __init__(self, parts: Sequence[tuple[Losses, int]], interval: float) -> None:
        self.parts = [(part, count) for part, count in parts if count > 0]
        self.interval = interval
        kept = math.fsum(count * math.log1p(-min(part.certain, 1.0 - UNIT)) for part, count in self.parts)
        self.certain = -math.expm1(kept) * (1.0 + 1e-12)
        self._places = [part.first + interval * np.arange(part.masses.size) for part, _ in self.parts]
        with np.errstate(divide="ignore"):
            self._logs = [np.log(part.masses) for part, _ in self.parts]
        self.lowest, self.highest = (
            math.fsum(count * float(places[at]) for places, (_, count) in zip(self._places, self.parts, strict=True))
            for at in (0, -1)
        )
        reach = max((float(np.abs(places[[0, -1]]).max()) for places in self._places), default=0.0)
        self.steepest = _STEEPEST / reach if reach > 0.0 else 1.0

    def cumulant(self, order: float) -> tuple[float, float, float]:
        """ln of the mean of e^(order L) of the sum, with its first two derivatives."""
        total = np.zeros(3)
        for logs, places, (_, count) in zip(self._logs, self._places, self.parts, strict=True):
            top = float((logs + order * places).max())
            weights = np.exp(logs + order * places - top)
            mass = float(weights.sum())
            mean = (
                float((weights * places).sum()) / mass
            )  # not a product of matrices: threads cost more than they bring
            variance = float((weights * np.square(places - mean)).sum()) / mass
            total += count * np.array([top + math.log(mass), mean, variance])
        return float(total[0]), float(total[1]), float(total[2])

    def order(self, log_delta: float) -> float:
        """The order at which Chernoff's inequality gives this delta at the mean of the tilted losses."""
        low, high = 0.0, self.steepest

        def above_limit(order: float) -> float:
            value, mean, _ = self.cumulant(order)
            return value - order * mean - log_delta  # falls with the order

        if above_limit(high) >= 0.0:
            return high
        for _ in range(30):  # anything near it will do
            middle = 0.5 * (low + high) if low > 0.0 else 0.1 * high
            low, high = (middle, high) if above_limit(middle) > 0.0 else (low, middle)
            if high - low <= 0.02 * high or high < 1e-9 * self.steepest:
                break
        return 0.5 * (low + high)

    def window(self, order: float, log_delta: float) -> tuple[float, float]:
        """Where the losses are that matter for deltas around this one."""
        value, mean, variance = self.cumulant(order)
        scale = math.sqrt(max(variance, 1e-300))
        low, high, tilted = self.lowest, self.highest, self.highest
        for step in _STEPS:
            away = step / scale
            below = self.cumulant(order - away)[0] - value
            low = max(low, -(below + _TAIL) / away)
            above = self.cumulant(order + away)[0]
            high = min(high, (above - log_delta + _TAIL) / (order + away))
            tilted = min(tilted, (above - value + _TAIL) / away)  # what is beyond this is wrapped around
        return min(low, mean), max(high, tilted)

    def bound(self, order: float, window: tuple[float, float]) -> Bound:
        """Deltas at epsilons in this window, by losses tilted by this order."""
        low, high = window
        origin = math.fsum(count * part.first for part, count in self.parts)
        start = math.floor((low - origin) / self.interval) - 1
        length = min(_length(math.ceil((high - origin) / self.interval) + 2 - start), LONGEST)
        tilted, error, value, rounding = self._tilted(order, length)
        # Places of the cyclic convolution, from `start` on.
        masses = np.roll(tilted, -(start % length)) + error
        first = origin + start * self.interval
        last = first + (length - 1) * self.interval
        inner = math.exp(-(order + 1.0) * self.interval)
        outer = math.exp(-order * self.interval)
        beyond = lfilter([1.0], [1.0, -inner], masses[::-1])  # sum over L >= here of e^((order + 1)(here - L)) w(L)
        gain = np.concatenate([[0.0], beyond[:-1] * (outer * -math.expm1(-self.interval))])
        excess = lfilter([1.0], [1.0, -outer], gain)[::-1]
        rounding += UNIT * (8.0 * length + 64.0)
        places = first + self.interval * np.arange(length)
        with np.errstate(divide="ignore"):
            logs = value - order * places + np.log(excess)
        rounding += 8.0 * UNIT * (abs(value) + order * float(np.abs(places[[0, -1]]).max()))
        deltas = np.exp(np.minimum(logs + rounding, 0.0)) + self._above(order, last) + self.certain
        moved = 8.0 * UNIT * (abs(origin) + abs(first) + abs(last) + self.highest - self.lowest)
        return Bound(first + moved, self.interval, np.minimum(deltas, 1.0))

    def _tilted(self, order: float, length: int) -> tuple[FloatArray, float, float, float]:
        """The tilted law of the sum, cyclic; a bound of its error; the sum of K; relative rounding of all of it."""
        logs, sizes = np.zeros(length // 2 + 1, dtype=np.complex128), np.zeros(length // 2 + 1)
        value, rounding, wrong, stages = 0.0, 0.0, 0.0, _STAGE * math.log2(length)
        for part_logs, places, (_, count) in zip(self._logs, self._places, self.parts, strict=True):
            exponents = part_logs + order * places
            top = float(exponents.max())
            mean = top + math.log(float(np.exp(exponents - top).sum()))
            weights = np.exp(exponents - mean)
            value += count * mean
            largest = float(np.abs(part_logs[part_logs > -math.inf]).max(initial=0.0))
            magnitude = abs(mean) + order * float(np.abs(places[[0, -1]]).max()) + largest
            rounding += count * 8.0 * UNIT * (8.0 + magnitude)
            if weights.size > length:
                weights = np.pad(weights, (0, -weights.size % length)).reshape(-1, length).sum(axis=0)
            transform = rfft(weights, length)
            with np.errstate(divide="ignore", invalid="ignore"):
                logs += count * np.log(transform)
                sizes += (count - 1) * np.log(np.abs(transform) + 2.0 * stages)
            wrong += count * (stages + 32.0 * UNIT)
        with np.errstate(invalid="ignore"):
            powers = np.where(logs.real > -700.0, np.exp(logs), 0.0)
        # Each factor is wrong by at most `stages`; so is their product by the sum of that, times the other factors.
        errors = 2.0 * wrong * np.exp(np.minimum(sizes + 2.0 * wrong, 700.0)) + 1e-300
        error = 2.0 * float(errors.sum() + stages * np.abs(powers).sum()) / length
        return np.maximum(irfft(powers, length), 0.0), error, value, rounding

    def _above(self, order: float, last: float) -> float:
        """Chernoff's bound of the mass above the window."""
        if last >= self.highest:
            return 0.0
        _, _, variance = self.cumulant(order)
        scale = math.sqrt(max(variance, 1e-300))
        tails = [self.cumulant(order + step / scale)[0] - (order + step / scale) * last for step in _STEPS]
        return math.exp(min(min(tails) + 1e-6, 0.0))


_STEPS = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 14.0, 20.0)
"""Tilts away from an order, in standard deviations, at which Chernoff's inequality is tried."""


def _length(needed: int) -> int:
    """The next length with a quick transform."""
    power = 1 << max(needed - 1, 15).bit_length()
    return power // 4 * 3 if power // 4 * 3 >= needed else power
