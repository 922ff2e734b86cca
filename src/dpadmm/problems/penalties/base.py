"""What a penalty R(x) must say of itself. It touches no data, so privacy never depends on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from dpadmm.problems.shards import FloatArray


class Penalty(ABC):
    """A convex, coordinate-wise separable function of the model; models are the rows of x."""

    name: ClassVar[str]
    about: ClassVar[str]
    strong_convexity: float = 0.0

    @abstractmethod
    def value(self, x: FloatArray) -> FloatArray:
        """R of each row."""

    @abstractmethod
    def gradient(self, x: FloatArray) -> FloatArray:
        """A subgradient of each row; 0 where a coordinate has a kink at 0."""

    @abstractmethod
    def prox(self, x: FloatArray, step: FloatArray | float) -> FloatArray:
        """argmin over u of step * R(u) + |u - x|²/2, for each row."""

    @abstractmethod
    def gradient_bound(self, dimension: int, radius: float) -> float:
        """c_2: the longest subgradient within a ball of this radius."""

    @property
    @abstractmethod
    def curvature(self) -> float | None:
        """c_4: Lipschitz constant of the gradient; None where there is a kink."""
