"""What a penalty R(x) must say of itself. It touches no data, so privacy never depends on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from dpadmm._arrays import FloatArray


class Penalty(ABC):
    """A coordinate-wise separable function of the model; models are the rows of x."""

    name: ClassVar[str]
    about: ClassVar[str]
    convex: ClassVar[bool] = True  # if not, privacy holds, since a penalty touches no data; convergence theorems do not
    strong_convexity: float = 0.0

    @abstractmethod
    def value(self, x: FloatArray) -> FloatArray:
        """R of each row."""

    @abstractmethod
    def gradient(self, x: FloatArray) -> FloatArray:
        """A subgradient of each row; 0 where a coordinate has a kink at 0."""

    @abstractmethod
    def curvatures(self, x: FloatArray) -> FloatArray:
        """The second derivative by each coefficient, away from kinks; at a kink, that of either side."""

    @abstractmethod
    def prox(self, x: FloatArray, step: FloatArray | float) -> FloatArray:
        """argmin over u of step * R(u) + |u - x|²/2, for each row; the smaller where there are two."""

    @abstractmethod
    def rounded(self, width: float) -> Penalty:
        """A twice continuously differentiable penalty: this one, with a kink at 0 rounded over a half-width."""

    def slack(self, x: FloatArray) -> FloatArray:
        """By how much the gradient of each row misses being a subgradient of what was rounded; 0 where nothing was."""
        return np.zeros(x.shape[:-1])

    @abstractmethod
    def gradient_bound(self, dimension: int, radius: float) -> float:
        """c_2: the longest subgradient within a ball of this radius."""

    @property
    @abstractmethod
    def curvature(self) -> float | None:
        """c_4: Lipschitz constant of the gradient; None where there is a kink."""
