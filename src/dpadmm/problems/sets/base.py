"""What a constraint set must say of itself. It is public."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from numpy.typing import NDArray

from dpadmm.problems.shards import FloatArray


class ConvexSet(ABC):
    """A closed convex set of models; models are the rows of x."""

    name: ClassVar[str]
    about: ClassVar[str]
    separable: ClassVar[bool]  # a product of intervals: its projection commutes with separable proximal maps

    @abstractmethod
    def project(self, x: FloatArray) -> FloatArray:
        """The nearest point of the set to each row."""

    @abstractmethod
    def contains(self, x: FloatArray, tolerance: float = 1e-9) -> NDArray[Any]:
        """Whether each row lies in the set, within the tolerance."""

    @abstractmethod
    def diameter(self, dimension: int) -> float:
        """The largest distance between two of its points."""
