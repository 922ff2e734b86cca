"""Losses of the margin <a, x> alone: a loss file gives three scalar functions and two constants, the rest is here."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import FloatArray
from dpadmm.errors import InputError
from dpadmm.problems.kernels import dense, short_rows, sparse
from dpadmm.problems.losses.base import Loss, class_numbers
from dpadmm.problems.shards import Shards


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
        return self.totals(shards, x, weights, self.tag)

    @staticmethod
    def totals(shards: Shards, x: FloatArray, weights: FloatArray, tag: NamedTuple) -> FloatArray:
        """weights[i] * sum over agent i's records of the scalar function that the tag selects."""
        _check(shards, x)
        return shards.reduce(kernels(shards).values, tag, weights, x, (1,))[:, 0]

    def gradient(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        _check(shards, x)
        few = not shards.sparse and shards.width <= short_rows.WIDEST
        kernel = short_rows.gradient if few else kernels(shards).gradient
        return shards.reduce(kernel, self.tag, weights, x, (shards.width,))

    def hessian(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        _check(shards, x)
        return shards.reduce(kernels(shards).hessian, self.tag, weights, x, (shards.width, shards.width))

    def predictions(self, features: Any, models: FloatArray) -> NDArray[Any]:
        margin: NDArray[Any] = (features @ models.T).T
        return margin if self.task == "regression" else (margin > 0).astype(np.int64)


def _check(shards: Shards, x: FloatArray) -> None:
    """Compiled loops do not look where they read and write."""
    if x.shape != (shards.agents, shards.width):
        raise ValueError(f"models of shape {x.shape} for {shards.agents} agents and rows of {shards.width} columns.")


def signs(loss: str, targets: NDArray[Any], classes: int) -> FloatArray:
    """Two classes as -1 and +1."""
    if classes != 2:
        raise InputError(f"loss {loss!r} tells two classes apart, the data have {classes}; use 'softmax'.")
    return np.where(class_numbers(loss, targets, 2) == 1, 1.0, -1.0)


def numbers(loss: str, targets: NDArray[Any]) -> FloatArray:
    """Targets of a regression: finite numbers, of any size."""
    values = np.asarray(targets, dtype=np.float64)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise InputError(f"loss {loss!r}: target {targets[row]!r} in row {row} is not a finite number.")
    return values


def kernels(shards: Shards) -> Any:
    return sparse if shards.sparse else dense
