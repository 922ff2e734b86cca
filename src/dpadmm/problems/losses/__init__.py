"""Losses. Adding one: a file with its functions and public constants, and a line here; the contract tests follow."""

from __future__ import annotations

from dpadmm.problems.losses.base import Loss
from dpadmm.problems.losses.hinge import SmoothedHinge
from dpadmm.problems.losses.logistic import Logistic
from dpadmm.problems.losses.softmax import Softmax
from dpadmm.problems.losses.squared import ClippedSquared

LOSSES: dict[str, type[Loss]] = {
    "logistic": Logistic,
    "softmax": Softmax,
    "squared": ClippedSquared,
    "smoothed-hinge": SmoothedHinge,
}

__all__ = ["LOSSES", "ClippedSquared", "Logistic", "Loss", "SmoothedHinge", "Softmax"]
