"""The solutions of linear equations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from dpadmm._arrays import FloatArray
from dpadmm._ranges import ENTRIES, ranged
from dpadmm.errors import InputError
from dpadmm.problems.sets.base import ConvexSet, rounding
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.conic.equations import missed, orthonormal
from dpadmm.problems.sets.values import ByValue, expect, lengths, table


@dataclass(frozen=True, eq=False)
class Affine(ByValue, ConvexSet):
    """{x : rows x = values}."""

    rows: Any = ranged(ENTRIES)
    values: Any = ranged(ENTRIES)

    name = "affine"
    about = "rows x = values"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", table(self.rows, "set 'affine'", "rows", 2))
        object.__setattr__(self, "values", table(self.values, "set 'affine'", "values", 1))
        if self.rows.shape[0] != self.values.size:
            raise InputError(
                f"set 'affine': {self.rows.shape[0]} rows and {self.values.size} values; give one for each."
            )
        assert self._equations is not None  # raises if they contradict

    def check(self, dimension: int) -> None:
        expect(self.name, self.rows.shape[1], dimension)

    def project(self, x: FloatArray) -> FloatArray:
        basis, _ = self._equations
        x = np.ascontiguousarray(x, dtype=np.float64)
        outside, out = ~self.contains(x, 0.0)[..., None], x
        for _ in range(2):  # the second takes back what the first lost where x is large
            out = np.where(outside, out - np.matmul(basis.T, self._off(out)[..., None])[..., 0], out)
        return out

    def error(self, size: FloatArray, dimension: int) -> FloatArray:
        """A point is left alone if it misses the equations by no more than `missed`. What the two steps of the others
        aim at is x - Bᵀ(B x - t) with the stored B, which brings no two points apart, whatever B has lost."""
        far = size + math.sqrt(dimension) * float(np.abs(self._equations[1]).max(initial=0.0))
        return 2.0 * missed(size[:, None], self._equations[1]) + rounding(far, dimension)

    def contains(self, x: FloatArray, tolerance: float = 1e-9) -> NDArray[Any]:
        """Equations hold to rounding at best."""
        off = self._off(np.ascontiguousarray(x, dtype=np.float64))
        return lengths(off) <= tolerance + missed(x, self._equations[1])

    def diameter(self, dimension: int) -> float:
        return 0.0 if self._equations[1].size == dimension else math.inf

    def cone(self, dimension: int) -> Cone:
        return Cone(csc_array(self.rows), self.values, self.values.size)

    @cached_property
    def _equations(self) -> tuple[FloatArray, FloatArray]:
        return orthonormal(self.rows, self.values, self.name)[:2]

    def _off(self, x: FloatArray) -> FloatArray:
        """Row by row, as a product of matrices would round otherwise for other batches."""
        basis, targets = self._equations
        return np.matmul(basis, x[..., None])[..., 0] - targets
