"""Multiclass logistic loss -ln softmax_b(Xᵀa), with a model matrix X of width x classes (theory 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import FloatArray
from dpadmm._kernels.class_scores import Shape
from dpadmm.errors import InputError
from dpadmm.problems.kernels import softmax as kernels
from dpadmm.problems.losses.base import Loss, check_shape, class_numbers
from dpadmm.problems.losses.unrounded import unrounded_sum
from dpadmm.problems.shards import Shards
from dpadmm.release.sums import SoftmaxGradient


@dataclass(frozen=True)
class Softmax(Loss):
    """The gradient is a (p - e_b)ᵀ with |p - e_b| < sqrt(2); the Hessian's norm is at most |a|²/2."""

    name = "softmax"
    about = "multiclass logistic regression"
    task = "multiclass"

    residual_cap = 1.0  # no record's own class misses more than this of its probability

    def _shape(self, shards: Shards, x: FloatArray) -> Shape:
        classes = x.shape[1] // shards.width
        check_shape(shards, x, shards.width * classes)
        return Shape(classes, float(self.residual_cap))

    def outputs(self, classes: int) -> int:
        return classes

    def encode(self, targets: NDArray[Any], classes: int) -> NDArray[Any]:
        return class_numbers(self.name, targets, classes)

    def gradient_bound(self, row_bound: float, norm: int = 2) -> float:
        return (2.0 if norm == 1 else math.sqrt(2.0)) * self.residual_cap * row_bound

    def curvature_bound(self, norm_bound: float) -> float:
        return norm_bound**2 / 2.0

    def added_curvature(self, norm_bound: float, models: int) -> tuple[int, float] | None:
        """A record's Hessian is (diag(p) - ppᵀ) ⊗ aaᵀ: of rank classes - 1, and of trace at most (1 - 1/classes)|a|².

        So det(I + H⁻¹G) is a product of classes - 1 factors 1 + e_j, where the sum of the e_j is at most
        (1 - 1/classes) w|a|²/lambda; it is largest where they are equal (theory 6.5).
        """
        return (models - 1, norm_bound**2 / models) if self.residual_cap == 1.0 and models > 1 else None

    def values(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        kernel = kernels.sparse_values if shards.sparse else kernels.values
        return weights * shards.reduce(kernel, (self._shape(shards, x),), shards.cell * x, (1,))[:, 0]

    def query(self, classes: int) -> SoftmaxGradient:
        return SoftmaxGradient(classes, float(self.residual_cap))

    def gradient(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return weights[:, None] * unrounded_sum(self.query(self._shape(shards, x).classes), shards, x)

    def hessian(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        if shards.sparse:
            raise InputError(
                "loss 'softmax' has no Hessian over sparse rows; make them dense or use a gradient method."
            )
        found = shards.reduce(kernels.hessian, (self._shape(shards, x),), shards.cell * x, (x.shape[1], x.shape[1]))
        return (weights * shards.cell**2)[:, None, None] * found

    def predictions(self, features: Any, models: FloatArray) -> NDArray[Any]:
        width = features.shape[1]
        columns = models.reshape(len(models), width, -1).transpose(1, 0, 2).reshape(width, -1)
        scores = (features @ columns).reshape(features.shape[0], len(models), -1)
        return np.asarray(scores.argmax(axis=2).T)
