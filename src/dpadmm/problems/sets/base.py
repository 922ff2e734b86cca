"""What a constraint set must say of itself, and no constraint: the whole space. A set is public."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import FloatArray
from dpadmm.problems.sets.conic.cone import Cone, everything

UNIT = 2.0**-52


def rounding(size: FloatArray | float, dimension: int) -> FloatArray:
    """What some operations on each of so many numbers, and sums of them, lose at most: the length of the error of a
    vector, if no number on the way is larger than `size`. Generous: 8 (D + 16) √D units of the last place."""
    return np.asarray(8.0 * (dimension + 16.0) * math.sqrt(max(dimension, 1)) * UNIT * size)


class ConvexSet(ABC):
    """A closed convex set of models; models are the rows of x, one per agent of a batch."""

    name: ClassVar[str]
    about: ClassVar[str]
    separable: bool = False  # a product of intervals: its projection commutes with separable proximal maps
    tolerance: float = 0.0  # a projection is proven to lie this near to the exact one, or fails; 0: by a formula

    def check(self, dimension: int) -> None:
        """Raises an `InputError` where the set is empty, or not one of models with this many coefficients."""

    @abstractmethod
    def project(self, x: FloatArray) -> FloatArray:
        """The nearest point of the set to each row."""

    def project_always(self, x: FloatArray) -> FloatArray:
        """As `project`, and where no projection is proven some point of the set: for values with noise on them.

        Whether a projection succeeds would tell of the noise, so a step of an owner must have a result for all points.
        """
        return self.project(x)

    def error(self, size: FloatArray, dimension: int) -> FloatArray:
        """How far a computed projection can be from the exact one, for points of at most these lengths; (n,).

        Noise that comes after a projection pays for it twice: neighbours may err in opposite directions.
        """
        return np.full_like(size, self.tolerance) + rounding(size, dimension)

    @abstractmethod
    def contains(self, x: FloatArray, tolerance: float = 1e-9) -> NDArray[Any]:
        """Whether each row lies in the set, within the tolerance."""

    @abstractmethod
    def diameter(self, dimension: int) -> float:
        """No two of its points are farther apart; infinite for an unbounded set."""

    @abstractmethod
    def cone(self, dimension: int) -> Cone:
        """The same set as linear images in cones, for a conic solver."""

    def take(self, agents: Any) -> ConvexSet:
        """The sets of these agents, where each has its own."""
        return self

    def shared(self) -> ConvexSet:
        """Where a model of all agents must lie: the intersection, where each has its own set."""
        return self


@dataclass(frozen=True)
class Whole(ConvexSet):
    """All models."""

    name = "whole"
    about = "no constraint"
    separable = True

    def project(self, x: FloatArray) -> FloatArray:
        return x

    def error(self, size: FloatArray, dimension: int) -> FloatArray:
        return np.zeros_like(size)

    def contains(self, x: FloatArray, tolerance: float = 1e-9) -> NDArray[Any]:
        return np.ones(x.shape[:-1], dtype=bool)

    def diameter(self, dimension: int) -> float:
        return math.inf

    def cone(self, dimension: int) -> Cone:
        return everything(dimension)
