"""Losses of the margin <a, x> alone: a loss file gives three scalar functions and two constants, the rest is here."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpadmm.errors import InputError
from dpadmm.problems.kernels import dense, sparse
from dpadmm.problems.losses.base import Loss, class_numbers
from dpadmm.problems.shards import FloatArray, Shards


class MarginLoss(Loss):
    """l(a, b; x) = phi(<a, x>, b), with |phi'| <= slope_bound and phi'' <= bend_bound."""

    slope_bound: float = 1.0
    bend_bound: float
    one_sided: bool = False  # True where phi' never changes its sign, whatever the margin

    @property
    @abstractmethod
    def tag(self) -> NamedTuple:
        """The value whose type selects phi, phi' and phi'' in compiled code."""

    def gradient_bound(self, row_bound: float, norm: int = 2) -> float:
        return self.slope_bound * row_bound

    def curvature_bound(self, norm_bound: float) -> float | None:
        return self.bend_bound * norm_bound**2

    def values(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return shards.reduce(_kernels(shards).values, self.tag, weights, x, (1,))[:, 0]

    def gradient(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return shards.reduce(_kernels(shards).gradient, self.tag, weights, x, (x.shape[1],))

    def hessian(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return shards.reduce(_kernels(shards).hessian, self.tag, weights, x, (x.shape[1], x.shape[1]))

    def predictions(self, features: Any, models: FloatArray) -> NDArray[Any]:
        margin: NDArray[Any] = (features @ models.T).T
        return margin if self.task == "regression" else (margin > 0).astype(np.int64)


def signs(loss: str, targets: NDArray[Any], classes: int) -> FloatArray:
    """Two classes as -1 and +1."""
    if classes != 2:
        raise InputError(f"loss {loss!r} tells two classes apart, the data have {classes}; use 'softmax'.")
    return np.where(class_numbers(loss, targets, 2) == 1, 1.0, -1.0)


def _kernels(shards: Shards) -> Any:
    return sparse if shards.sparse else dense
