"""What sets have in common that are known by their cones only."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from dpadmm._arrays import FloatArray
from dpadmm.errors import InputError
from dpadmm.problems.sets.base import ConvexSet
from dpadmm.problems.sets.conic.interior import diagonal, inspect
from dpadmm.problems.sets.conic.projector import TOLERANCE, ConicProjector
from dpadmm.problems.sets.values import ByValue, expect

WIDE = 200  # the diameter of models with more coefficients is not worth two programmes for each


class ConicSet(ByValue, ConvexSet):
    """Projected by a solver, and within `tolerance` by proof: if it fails, a `ConvergenceError` and no point."""

    tolerance = TOLERANCE

    def check(self, dimension: int) -> None:
        if inspect(self.cone(dimension), self.name).empty:
            raise InputError(f"set {self.name!r} is empty: its conditions contradict each other; relax one.")

    def project(self, x: FloatArray) -> FloatArray:
        return self.projector(x.shape[-1]).nearest(x)

    def project_always(self, x: FloatArray) -> FloatArray:
        return self.projector(x.shape[-1]).nearest(x, always=True)

    def contains(self, x: FloatArray, tolerance: float = 1e-9) -> NDArray[Any]:
        return self.projector(x.shape[-1]).contains(x, tolerance)

    def diameter(self, dimension: int) -> float:
        if dimension not in self._diameters:
            self._diameters[dimension] = diagonal(self.cone(dimension)) if dimension <= WIDE else math.inf
        return self._diameters[dimension]

    def projector(self, dimension: int) -> ConicProjector:
        """Made once for every number of coefficients."""
        if dimension not in self._projectors:
            cone = self.cone(dimension)
            expect(self.name, cone.dimension, dimension)
            self._projectors[dimension] = ConicProjector(cone, self.name, self.tolerance)
        return self._projectors[dimension]

    @cached_property
    def _projectors(self) -> dict[int, ConicProjector]:
        return {}

    @cached_property
    def _diameters(self) -> dict[int, float]:
        return {}
