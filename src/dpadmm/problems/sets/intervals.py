"""Every coefficient within limits of its own: products of intervals."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, eye_array, vstack

from dpadmm._arrays import FloatArray
from dpadmm._ranges import ENTRIES, SIZES, check_ranges, ranged
from dpadmm.errors import InputError
from dpadmm.problems.sets.base import ConvexSet
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.values import expect, number, table

Ends = float | tuple[float, ...]


class Intervals(ConvexSet):
    """A product of intervals."""

    separable = True

    @property
    @abstractmethod
    def ends(self) -> tuple[Ends, Ends]:
        """The lowest and the highest value: of all coefficients, or of each."""

    def check(self, dimension: int) -> None:
        for end in self.ends:
            if isinstance(end, tuple):
                expect(self.name, len(end), dimension)

    def project(self, x: FloatArray) -> FloatArray:
        return np.clip(x, *self.ends)

    def error(self, size: FloatArray, dimension: int) -> FloatArray:
        """Comparisons do not round."""
        return np.zeros_like(size)

    def contains(self, x: FloatArray, tolerance: float = 1e-9) -> NDArray[Any]:
        low, high = map(np.asarray, self.ends)
        return np.all((x >= low - tolerance) & (x <= high + tolerance), axis=-1)

    def diameter(self, dimension: int) -> float:
        low, high = map(np.asarray, self.ends)
        width = high - low
        return float(width * math.sqrt(dimension)) if width.ndim == 0 else float(np.sqrt((width * width).sum()))

    def cone(self, dimension: int) -> Cone:
        low, high = (np.broadcast_to(end, dimension) for end in self.ends)
        fixed = low == high
        below, above = ~fixed & (high < math.inf), ~fixed & (low > -math.inf)
        unit = eye_array(dimension, format="csr")
        rows = vstack([unit[fixed], unit[below], -unit[above]], format="csc")
        limits = np.concatenate([high[fixed], high[below], -low[above]])
        return Cone(csc_array(rows), limits, int(fixed.sum()), int(below.sum() + above.sum()))


@dataclass(frozen=True)
class Range(Intervals):
    """One number, or one for each coefficient; a side may be infinite."""

    low: float | Sequence[float] | FloatArray = ranged(ENTRIES, -math.inf)
    high: float | Sequence[float] | FloatArray = ranged(ENTRIES, math.inf)

    name = "range"
    about = "every coefficient between low and high (default: no limit)"

    def __post_init__(self) -> None:
        low, high = _ends(self.low, "low", -math.inf), _ends(self.high, "high", math.inf)
        if isinstance(low, tuple) and isinstance(high, tuple) and len(low) != len(high):
            raise InputError(f"set 'range': {len(low)} numbers in low and {len(high)} in high; give equally many.")
        if (wrong := np.flatnonzero(np.atleast_1d(np.asarray(low) > np.asarray(high)))).size:
            where = f" at coefficient {wrong[0]}" if isinstance(low, tuple) or isinstance(high, tuple) else ""
            raise InputError(f"set 'range' is empty: low is above high{where}; exchange them.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def ends(self) -> tuple[Ends, Ends]:
        return self.low, self.high  # type: ignore[return-value] # plain since __post_init__


def _ends(value: Any, side: str, unlimited: float) -> Ends:
    """Plain numbers, which compare by value. Nothing, or that side's infinity, is no limit."""
    place = "set 'range'"
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        if not value:
            raise InputError(f"{place}: {side} is an empty list; give one number, or one for each coefficient.")
        open_ = [entry is None or entry is unlimited or _same(entry, unlimited) for entry in value]
        finite = table([0.0 if free else entry for free, entry in zip(open_, value, strict=True)], place, side, 1)
        return tuple(unlimited if free else float(entry) for free, entry in zip(open_, finite, strict=True))
    return unlimited if value is None or _same(value, unlimited) else number(value, place, side)


def _same(value: Any, unlimited: float) -> bool:
    return isinstance(value, float) and value == unlimited


@dataclass(frozen=True)
class Box(Intervals):
    """-bound <= x <= bound."""

    bound: float = ranged(SIZES, 1.0)

    name = "box"
    about = "every coefficient between -bound and +bound (default 1)"

    def __post_init__(self) -> None:
        check_ranges(self, "set 'box'")

    @property
    def ends(self) -> tuple[Ends, Ends]:
        return -self.bound, self.bound
