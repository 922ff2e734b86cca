"""Losses from outside with one mistake each, as people make them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from outside_losses import Outside, OutsideBinary, Slopes

from dpadmm.errors import InputError
from dpadmm.problems.losses import Quantile, SmoothedQuantile, Softmax
from dpadmm.release.sums import Total


@dataclass(frozen=True)
class WrongGradient(Outside):
    def slope(self, margin: Any, target: Any) -> Any:
        return 0.999 * super().slope(margin, target)


@dataclass(frozen=True)
class WrongHessian(Outside):
    def hessian(self, shards: Any, x: Any, weights: Any) -> Any:
        return 0.9 * super().hessian(shards, x, weights)


@dataclass(frozen=True)
class Steep(Outside):
    """Slope 2, and 0.01 is claimed."""

    slope_bound = 0.01
    bend_bound = 2.0

    def phi(self, margin: Any, target: Any) -> Any:
        return 2.0 * super().phi(margin, target)

    def slope(self, margin: Any, target: Any) -> Any:
        return 2.0 * super().slope(margin, target)

    def bend(self, margin: Any, target: Any) -> Any:
        return 2.0 * super().bend(margin, target)


@dataclass(frozen=True)
class SteepSomewhere(Outside):
    """Slope 5 more between the margins 3.0 and 3.1 alone."""

    convex = False
    twice_differentiable = False
    slope_bound = 1.0

    def phi(self, margin: Any, target: Any) -> Any:
        return super().phi(margin, target) + 5.0 * np.clip(margin - 3.0, 0.0, 0.1)

    def slope(self, margin: Any, target: Any) -> Any:
        return super().slope(margin, target) + 5.0 * ((margin > 3.0) & (margin < 3.1))

    def curvature_bound(self, norm_bound: float) -> float | None:
        return None


@dataclass(frozen=True)
class BentSomewhere(Outside):
    """Second derivative 10 more for margins that are 0.01 around 7."""

    twice_differentiable = False
    slope_bound = 1.1

    def phi(self, margin: Any, target: Any) -> Any:
        inside = np.clip(margin - 7.0, 0.0, 0.01)
        return super().phi(margin, target) + 5.0 * inside**2 + 0.1 * np.maximum(margin - 7.01, 0.0)

    def slope(self, margin: Any, target: Any) -> Any:
        return super().slope(margin, target) + 10.0 * np.clip(margin - 7.0, 0.0, 0.01)

    def bend(self, margin: Any, target: Any) -> Any:
        return super().bend(margin, target) + 10.0 * ((margin > 7.0) & (margin < 7.01))


@dataclass(frozen=True)
class BendLeftOut(BentSomewhere):
    """The same, and what is written for the second derivative does not say it."""

    def bend(self, margin: Any, target: Any) -> Any:
        return Outside.bend(self, margin, target)


@dataclass(frozen=True)
class TwoSided(OutsideBinary):
    one_sided = True


@dataclass(frozen=True)
class FlatAtZero(OutsideBinary):
    """Right margins cost nothing, wrong ones sqrt(1 + margin²) - 1: zero has no slope whose sign could be kept."""

    one_sided = True
    twice_differentiable = False

    def phi(self, margin: Any, target: Any) -> Any:
        return np.sqrt(1.0 + np.maximum(-target * margin, 0.0) ** 2) - 1.0

    def slope(self, margin: Any, target: Any) -> Any:
        wrong = np.maximum(-target * margin, 0.0)
        return -target * wrong / np.sqrt(1.0 + wrong**2)

    def bend(self, margin: Any, target: Any) -> Any:
        return (1.0 + margin**2) ** -1.5 * (target * margin < 0.0)


@dataclass(frozen=True)
class NotConvex(Outside):
    """One period of a cosine, flat beyond."""

    twice_differentiable = False

    def phi(self, margin: Any, target: Any) -> Any:
        return 1.0 - np.cos(0.5 * np.clip(margin - target, -2.0 * np.pi, 2.0 * np.pi))

    def slope(self, margin: Any, target: Any) -> Any:
        left = margin - target
        return 0.5 * np.sin(0.5 * left) * (np.abs(left) < 2.0 * np.pi)

    def bend(self, margin: Any, target: Any) -> Any:
        left = margin - target
        return 0.25 * np.cos(0.5 * left) * (np.abs(left) < 2.0 * np.pi)


@dataclass(frozen=True)
class Overflows(OutsideBinary):
    """The logistic loss as it stands in a book."""

    bend_bound = 0.25

    def phi(self, margin: Any, target: Any) -> Any:
        return np.log1p(np.exp(-target * margin))

    def slope(self, margin: Any, target: Any) -> Any:
        with np.errstate(all="ignore"):
            e = np.exp(-target * margin)
            return -target * e / (1.0 + e)

    def bend(self, margin: Any, target: Any) -> Any:
        e = np.exp(-np.abs(margin))
        return e / (1.0 + e) ** 2


@dataclass(frozen=True)
class ByPosition(Outside):
    """What an agent answers depends on its place in the batch, in the last digits."""

    def gradient(self, shards: Any, x: Any, weights: Any) -> Any:
        return super().gradient(shards, x, weights) * (1.0 - 1e-15 * (np.arange(len(x)) % 5))[:, None]


@dataclass(frozen=True)
class Jumps(Outside):
    """Huber's loss, whose second derivative jumps."""

    def phi(self, margin: Any, target: Any) -> Any:
        gap = np.abs(margin - target)
        return np.where(gap <= 1.0, 0.5 * gap * gap, gap - 0.5)

    def slope(self, margin: Any, target: Any) -> Any:
        return np.clip(margin - target, -1.0, 1.0)

    def bend(self, margin: Any, target: Any) -> Any:
        return 1.0 * (np.abs(margin - target) <= 1.0)


@dataclass(frozen=True)
class ByCompany(Outside):
    """Targets are scaled by those of other records."""

    def encode(self, targets: Any, classes: int) -> Any:
        found = super().encode(targets, classes)
        return found / np.abs(found).max(initial=1.0)


@dataclass(frozen=True)
class TakesNan(Outside):
    def encode(self, targets: Any, classes: int) -> Any:
        return np.nan_to_num(np.asarray(targets, dtype=np.float64))


@dataclass(frozen=True)
class HalfReplaced(Outside):
    def sensitivity(self, row_bound: float, relation: Any, norm: int = 2) -> float:
        return 1.2 * self.gradient_bound(row_bound, norm)


@dataclass(frozen=True)
class OneNorm(Softmax):
    """In the 1-norm the two entries of a residual add up to 2, not to sqrt(2)."""

    def gradient_bound(self, row_bound: float, norm: int = 2) -> float:
        return 2.0**0.5 * row_bound


@dataclass(frozen=True)
class OnceANorm(Outside):
    """A gradient bound that is right for rows of length 1.5 alone."""

    def gradient_bound(self, row_bound: float, norm: int = 2) -> float:
        return row_bound**2 / (3.0 if norm == 1 else 1.5)


@dataclass(frozen=True)
class NoSlack(SmoothedQuantile):
    def slack(self, shards: Any, x: Any, weights: Any) -> Any:
        return np.zeros(shards.agents)


@dataclass(frozen=True)
class RoundedTooFar(Quantile):
    def rounded(self, width: float) -> Any:
        return NoSlack(self.level, width)


@dataclass(frozen=True)
class Doubles(Outside):
    """Weights enter twice."""

    def values(self, shards: Any, x: Any, weights: Any) -> Any:
        return super().values(shards, x, weights**2)

    def gradient(self, shards: Any, x: Any, weights: Any) -> Any:
        return super().gradient(shards, x, weights**2)

    def hessian(self, shards: Any, x: Any, weights: Any) -> Any:
        return super().hessian(shards, x, weights**2)


@dataclass(frozen=True)
class Less(Slopes):
    def contributions(self, slopes: Any, rows: Any, places: Any) -> Any:
        return super().contributions(slopes * 99 // 100, rows, places)


@dataclass(frozen=True)
class Coarse(Outside):
    """Minimisers see another gradient than the one that is released."""

    def query(self, classes: int = 2) -> Any:
        return Less(self)


@dataclass(frozen=True)
class Unsaid(Slopes):
    """Of a query, one bound that is too small."""

    what: str
    share: float

    def bounds(self, width: int, row_bound: float) -> Any:
        right = super().bounds(width, row_bound)
        return replace(right, **{self.what: int(self.share * getattr(right, self.what))})


@dataclass(frozen=True)
class TooLong(Outside):
    """The contribution of a record is longer than its query says."""

    what: str = "norm"
    share: float = 0.99

    def query(self, classes: int = 2) -> Any:
        return Unsaid(self, self.what, self.share)


@dataclass(frozen=True)
class Placed(Slopes):
    def contributions(self, slopes: Any, rows: Any, places: Any) -> Any:
        return super().contributions(slopes - np.sign(slopes) * (places % 100 == 99), rows, places)


@dataclass(frozen=True)
class ByPlace(Outside):
    """A slope is a unit smaller where a record lies at the end of a hundred."""

    def query(self, classes: int = 2) -> Any:
        return Placed(self)


@dataclass(frozen=True)
class Floating(Slopes):
    """Sums in float32: they depend on what is added first."""

    def total(self, table: Any, x: Any) -> Any:
        exact = super().total(table, x)
        found = (exact.high * 2.0**26 + exact.low).astype(np.float32).astype(np.int64)
        return Total(found >> 26, found & (2**26 - 1))


@dataclass(frozen=True)
class Inexact(Outside):
    def query(self, classes: int = 2) -> Any:
        return Floating(self)


@dataclass(frozen=True)
class HalfSparse(Slopes):
    def total(self, table: Any, x: Any) -> Any:
        found, kept = super().total(table, x), 1 - table.sparse * (np.arange(x.shape[1]) == x.shape[1] - 1)
        return Total(found.high * kept, found.low * kept)


@dataclass(frozen=True)
class ForgetsColumn(Outside):
    """Over sparse rows the sum of the last column is lost."""

    def query(self, classes: int = 2) -> Any:
        return HalfSparse(self)


@dataclass(frozen=True)
class ForgetsZeros(Outside):
    """Over sparse rows a record's last column is left out."""

    def gradient(self, shards: Any, x: Any, weights: Any) -> Any:
        found = super().gradient(shards, x, weights)
        return found * (np.arange(found.shape[1]) < found.shape[1] - 1) if shards.sparse else found


class Mutable(Outside):
    __setattr__ = object.__setattr__


class Unequal(Outside):
    __eq__ = object.__eq__
    __hash__ = object.__hash__


@dataclass(frozen=True)
class NoTask(Outside):
    task = "ranking"


@dataclass(frozen=True)
class Nameless(Outside):
    about = ""


@dataclass(frozen=True)
class NanAlone(Overflows):
    """The value is right everywhere; the gradient alone is not a number far out."""

    def phi(self, margin: Any, target: Any) -> Any:
        return np.logaddexp(0.0, -target * margin)


@dataclass(frozen=True)
class Positive(Outside):
    """Targets above a number only."""

    least: float = 10.0

    def encode(self, targets: Any, classes: int) -> Any:
        found = super().encode(targets, classes)
        if not (found > self.least).all():
            raise InputError(f"targets are above {self.least}.")
        return found
