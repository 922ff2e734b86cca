"""A Euclidean ball."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, eye_array, vstack

from dpadmm._arrays import FloatArray
from dpadmm._ranges import ENTRIES, SIZES, range_of, ranged
from dpadmm.problems.sets.base import ConvexSet, rounding
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.values import expect, lengths, number, table


@dataclass(frozen=True)
class Ball(ConvexSet):
    """Around the origin, or around `centre`: one number for each coefficient."""

    radius: float = ranged(SIZES, 1.0)
    centre: Sequence[float] | FloatArray | None = ranged(ENTRIES, None)

    name = "ball"
    about = "models of length at most radius (default 1)"

    def __post_init__(self) -> None:
        check = range_of(self, "radius")
        object.__setattr__(self, "radius", number(self.radius, "set 'ball'", "radius", check))
        if self.centre is not None:
            object.__setattr__(self, "centre", tuple(table(self.centre, "set 'ball'", "centre", 1).tolist()))

    def check(self, dimension: int) -> None:
        if self.centre is not None:
            expect(self.name, len(self.centre), dimension)

    def project(self, x: FloatArray) -> FloatArray:
        out = np.array(x, dtype=np.float64).reshape(-1, x.shape[-1])
        away, length = self._away(out)
        outside, deeper = length > self.radius, 0.0
        while outside.any():
            factor = (1.0 - deeper) * self.radius / length[outside]
            out[outside] = self._middle + factor[:, None] * away[outside]
            # Rounding may have left a point the last place outside.
            outside, deeper = self._away(out)[1] > self.radius, max(2.0 * deeper, float(np.finfo(np.float64).eps))
        return out.reshape(x.shape)

    def error(self, size: FloatArray, dimension: int) -> FloatArray:
        return rounding(size + self.radius + float(lengths(np.atleast_1d(self._middle))), dimension)

    def contains(self, x: FloatArray, tolerance: float = 1e-9) -> NDArray[Any]:
        return self._away(x)[1] <= self.radius + tolerance

    def diameter(self, dimension: int) -> float:
        return 2.0 * self.radius if dimension else 0.0

    def cone(self, dimension: int) -> Cone:
        rows = csc_array(vstack([csc_array((1, dimension)), -eye_array(dimension)], format="csc"))
        return Cone(rows, np.append(self.radius, np.broadcast_to(-self._middle, dimension)), 0, 0, (dimension + 1,))

    @property
    def _middle(self) -> FloatArray:
        return np.asarray(0.0 if self.centre is None else self.centre, dtype=np.float64)

    def _away(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The way from the centre and its length."""
        away = np.ascontiguousarray(x, dtype=np.float64) - self._middle
        return away, lengths(away)
