"""What a loss must say of itself: its sums over records, and the public constants the privacy lemmas need.

For losses of the margin <a, x> alone, a loss file gives three scalar functions and two constants; the rest is here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import BoolArray, FloatArray, IntArray
from dpadmm.errors import InputError
from dpadmm.privacy.events import Relation
from dpadmm.problems.kernels import margins
from dpadmm.problems.losses.unrounded import unrounded_sum
from dpadmm.problems.shards import Shards
from dpadmm.release.sums import MarginGradient, Query


class Loss(ABC):
    """A loss l(a, b; x) of one record (features a, target b) and a model x, stored flat.

    The constants are suprema over *every* record with |a| <= norm_bound and every model; they never look at data.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    task: ClassVar[str]  # "binary", "multiclass" or "regression"
    twice_differentiable: ClassVar[bool] = True
    convex: ClassVar[bool] = True
    levels: tuple[float, ...] = ()  # of a quantile regression

    def outputs(self, classes: int) -> int:
        """Columns of the model matrix."""
        return 1

    def dimension(self, width: int, classes: int) -> int:
        """How many numbers a model has, for rows of this many columns."""
        return width * self.outputs(classes)

    def rounded(self, width: float) -> Loss:
        """The same loss with its kink rounded over a half-width, so that it can be solved by Newton's method."""
        return self

    def slack(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        """How far from a subgradient of the loss with its kink the gradient at x is; (n,), 0 where nothing is rounded.

        For all y: loss(y) >= loss(x) + <gradient, y - x> - slack, with the loss that has the kink on both sides.
        """
        return np.zeros(shards.agents)

    @abstractmethod
    def encode(self, targets: NDArray[Any], classes: int) -> NDArray[Any]:
        """Targets as the kernels want them; an `InputError` for what is not a target of this loss."""

    def valid(self, targets: NDArray[Any], classes: int) -> BoolArray:
        """Which targets, as `encode` makes them, lie in the set for which the bounds of this loss are proved.

        That is -1 and +1, the class numbers 0..classes-1, or finite numbers; any array may be asked about.
        """
        if targets.dtype.kind not in "biuf":
            return np.zeros(len(targets), dtype=np.bool_)
        if self.task == "binary":
            return np.asarray((targets == 1) | (targets == -1))
        if self.task == "multiclass":
            return _is_class(targets, classes)
        return np.asarray(np.isfinite(targets.astype(np.float64)))

    def admit(self, targets: NDArray[Any], classes: int) -> tuple[NDArray[Any], BoolArray]:
        """Encoded targets of any origin in the type that kernels read, and which were valid; the others become one that
        is, so that a record with a row of zeros contributes zero."""
        usual, good = self._usual(classes), self.valid(targets, classes)
        if good.all() and targets.dtype == usual.dtype:
            return targets, good
        out = np.repeat(usual, len(targets))
        out[good] = targets[good].astype(usual.dtype)
        return out, good

    def encode_all(self, targets: NDArray[Any], classes: int) -> tuple[NDArray[Any], BoolArray]:
        """As `encode`, without an error: which are targets of this loss, and the others become one that is."""
        if self.task == "regression":
            good: BoolArray = np.isfinite(targets)
        else:
            good = _is_class(targets, 2 if self.task == "binary" else classes)
        return self.encode(np.where(good, targets, 0), classes), good

    def _usual(self, classes: int) -> NDArray[Any]:
        """One target, as `encode` makes it: the first class, or zero."""
        return self.encode(np.zeros(1, dtype=np.int64), classes)

    @abstractmethod
    def gradient_bound(self, row_bound: float, norm: int = 2) -> float:
        """G: no record's gradient is longer, in the norm (1 or 2) in which rows are bounded by `row_bound`."""

    @abstractmethod
    def curvature_bound(self, norm_bound: float) -> float | None:
        """No record's Hessian has a larger norm; None for a loss that has kinks."""

    def added_curvature(self, norm_bound: float, models: int) -> tuple[int, float] | None:
        """(r, c) such that one record of weight w multiplies det(H) by at most (1 + w c / lambda)^r, wherever the other
        curvature H is at least lambda; None where the loss has no such bound. `models` is how many vectors a model is
        made of."""
        return None

    def sensitivity(self, row_bound: float, relation: Relation, norm: int = 2) -> float:
        """How far one record can move the *sum* of gradients: 2G when it is replaced, G when its loss is zeroed."""
        bound = self.gradient_bound(row_bound, norm)
        return 2.0 * bound if relation is Relation.REPLACE else bound

    @abstractmethod
    def values(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        """weights[i] * sum over agent i's records of the loss at x[i]."""

    @abstractmethod
    def query(self, classes: int) -> Query:
        """The sum of gradients as it is released: of integer vectors, whose length is enforced."""

    @abstractmethod
    def gradient(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        """Its gradient in doubles, one row per agent: for minimisers and metrics. What is released is `query`'s sum."""

    @abstractmethod
    def hessian(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        """Its second derivative, one matrix per agent."""

    @abstractmethod
    def predictions(self, features: Any, models: FloatArray) -> NDArray[Any]:
        """What each model (rows) says of each record (columns): class numbers, or values."""

    def predict(self, features: Any, model: FloatArray) -> NDArray[Any]:
        """What one model says of each record."""
        return np.asarray(self.predictions(features, model[None, :])[0])

    def errors(self, features: Any, targets: NDArray[Any], models: FloatArray) -> FloatArray:
        """Share of wrong classes, or root mean squared error, of each model; `targets` as in the data set."""
        predicted = self.predictions(features, models)
        if self.task == "regression":
            return np.sqrt(np.mean((predicted - targets) ** 2, axis=1))
        return np.mean(predicted != targets, axis=1)

    def mistakes(self, shards: Shards, x: FloatArray) -> IntArray:
        """How many of its own records each agent's model puts into the wrong class; (n,).

        Rows are integers, and the models are rounded so that every margin is exact: a record's class does not depend on
        where its row lies, as it may in a product of floating-point matrices. A row of zeros with the usual target
        counts for nothing.
        """
        classes = max(2, x.shape[1] // shards.width)
        wrong = np.zeros(shards.agents, dtype=np.int64)
        models = _short(shards.cell * x)
        for agents, features, targets in shards.blocks():
            for i in agents:
                predicted = self.encode(self.predict(features, models[i]), classes)
                wrong[i] += np.count_nonzero(predicted != targets)
        return wrong


def _short(models: FloatArray) -> FloatArray:
    """The models to about 30 bits: their products with integer rows of length 2^22 are exact in doubles."""
    most = np.abs(models).max(axis=1, keepdims=True, initial=0.0)  # the length is at most sqrt(columns) of that
    above = math.ceil(math.log2(models.shape[1]) / 2.0)
    unit = np.ldexp(1.0, np.maximum(np.frexp(most)[1] + above - 29, -1022))
    return np.asarray(np.rint(models / unit) * unit)


def _is_class(targets: NDArray[Any], classes: int) -> BoolArray:
    """Which are whole numbers from 0 to classes - 1."""
    if targets.dtype.kind == "f":
        return np.asarray((targets >= 0) & (targets < classes) & (targets == np.floor(targets)))
    return np.asarray((targets >= 0) & (targets < classes))


def class_numbers(loss: str, targets: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """Class numbers 0..classes-1, or an error that names the first target that is none."""
    if targets.dtype.kind in "iu" and targets.size and targets.min() >= 0 and targets.max() < classes:
        return targets.astype(np.int64)  # the usual case, without a search
    wrong = ~np.isin(targets, np.arange(classes))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"loss {loss!r}: target {targets[row].item()!r} in row {row} is not one of the classes 0..{classes - 1}."
        )
    return targets.astype(np.int64)


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

    def added_curvature(self, norm_bound: float, models: int) -> tuple[int, float] | None:
        """A record's Hessian has rank one."""
        return (1, self.bend_bound * norm_bound**2) if self.twice_differentiable else None

    def values(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return self.totals(shards, x, weights, self.tag)

    @staticmethod
    def totals(shards: Shards, x: FloatArray, weights: FloatArray, tag: NamedTuple) -> FloatArray:
        """weights[i] * sum over agent i's records of the scalar function that the tag selects."""
        check_shape(shards, x, shards.width)
        kernel = margins.sparse_values if shards.sparse else margins.values
        return weights * shards.reduce(kernel, (tag,), shards.cell * x, (1,))[:, 0]

    def query(self, classes: int = 2) -> MarginGradient:
        return MarginGradient(self.tag, self.slope_bound)

    def gradient(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        return weights[:, None] * unrounded_sum(self.query(), shards, x)

    def hessian(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        check_shape(shards, x, shards.width)
        kernel = margins.sparse_hessian if shards.sparse else margins.hessian
        found = shards.reduce(kernel, (self.tag,), shards.cell * x, (shards.width, shards.width))
        return (weights * shards.cell**2)[:, None, None] * found

    def predictions(self, features: Any, models: FloatArray) -> NDArray[Any]:
        margin: NDArray[Any] = (features @ models.T).T
        return margin if self.task == "regression" else (margin > 0).astype(np.int64)


def check_shape(shards: Shards, x: FloatArray, dimension: int) -> None:
    """Compiled loops do not look where they read and write."""
    if x.shape != (shards.agents, dimension):
        raise ValueError(f"models of shape {x.shape} for {shards.agents} agents and {dimension} coefficients.")


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
