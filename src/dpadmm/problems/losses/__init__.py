"""Losses. Adding one: a file with its functions and public constants, and a line here; the contract tests follow."""

from __future__ import annotations

from dpadmm.problems.losses.base import Loss
from dpadmm.problems.losses.capped import CappedLogistic, CappedSoftmax
from dpadmm.problems.losses.hinge import SmoothedHinge
from dpadmm.problems.losses.logistic import Logistic
from dpadmm.problems.losses.quantile import Quantile, SmoothedQuantile
from dpadmm.problems.losses.quantiles import Quantiles
from dpadmm.problems.losses.softmax import Softmax
from dpadmm.problems.losses.squared import ClippedSquared
from dpadmm.problems.losses.statistics import ColumnMoments, MeanAndProducts, SecondMoment

LOSSES: dict[str, type[Loss]] = {
    "logistic": Logistic,
    "softmax": Softmax,
    "squared": ClippedSquared,
    "smoothed-hinge": SmoothedHinge,
    "quantile": Quantile,
    "smoothed-quantile": SmoothedQuantile,
    "quantiles": Quantiles,
    "capped-logistic": CappedLogistic,
    "capped-softmax": CappedSoftmax,
}
"""What can be minimised, by name."""

# What is added up and released as it is, with nothing minimised: linear in the model, so its gradient is the statistic.
STATISTICS: dict[str, type[Loss]] = {
    "second-moment": SecondMoment,
    "column-moments": ColumnMoments,
    "mean-and-products": MeanAndProducts,
}
"""What can be released as it is, by name."""

__all__ = [
    "LOSSES",
    "STATISTICS",
    "CappedLogistic",
    "CappedSoftmax",
    "ClippedSquared",
    "ColumnMoments",
    "Logistic",
    "Loss",
    "Quantile",
    "Quantiles",
    "SecondMoment",
    "SmoothedHinge",
    "SmoothedQuantile",
    "Softmax",
]
