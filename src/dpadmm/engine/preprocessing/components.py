"""How many principal components to take, and which: from a matrix of second moments with a known amount of noise in it.

All of it is post-processing of what was released. A rule is public text:

    5            five of them
    noise        those whose eigenvalues stand out of the noise's own, at least one
    share:0.95   as few as have that share of all that stands out
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.errors import InputError
from dpadmm.problems.rows import RowRules, rotated
from dpadmm.problems.shards import Shards

NOISE, SHARE = "noise", "share"


@dataclass(frozen=True)
class Rule:
    """A number, or a share of what stands out of the noise; neither is: all that stands out."""

    count: int | None = None
    share: float | None = None

    @classmethod
    def parse(cls, text: str) -> Rule:
        name, _, number = text.partition(":")
        try:
            if name == SHARE and 0.0 < float(number) <= 1.0:
                return cls(share=float(number))
            if text == NOISE:
                return cls()
            if text.isdecimal() and int(text) > 0:
                return cls(count=int(text))
        except ValueError:
            pass
        raise InputError(f"components {text!r}: must be a whole number such as 5, 'noise', or 'share:0.95'.")

    def check(self, width: int) -> None:
        if self.count is not None and self.count > width:
            raise InputError(
                f"{self.count} components of rows with {width} columns: there are no more than {width}; use a larger "
                f"basis, or fewer components."
            )

    def taken(self, eigenvalues: FloatArray, noise: float) -> int:
        """How many of these eigenvalues (falling) to take, where noise alone would have one of this size."""
        if self.count is not None:
            return self.count
        out = eigenvalues[eigenvalues > noise]
        if self.share is not None and out.size:
            return int(np.argmax(np.cumsum(out) >= self.share * out.sum() * (1.0 - 1e-12))) + 1
        return max(1, out.size)


@dataclass(frozen=True, eq=False)
class Components:
    """Directions of rows, and how much of the rows lies along every one of them."""

    rotation: FloatArray  # (width, count), orthonormal columns
    spectrum: FloatArray  # (width,), all eigenvalues, falling
    noise: float  # the size of eigenvalues that noise alone would have
    mean: FloatArray | None = None  # (width,) what rows are centred by; None: they are not

    def rows(self, shards: Shards, intercept: bool) -> Shards:
        """The same records in other coordinates; a column of ones stays what it is."""
        rows = shards.real_rows[:, :-1] if intercept else shards.real_rows
        bound = math.sqrt(shards.row_bound**2 - 1.0) if intercept else shards.row_bound
        centred = rows if self.mean is None else rows - self.mean  # longer ones are clipped to the bound, as any row
        return shards.encoded(rotated(centred, self.rotation), RowRules(bound, intercept), shards.row_bound)

    def shown(self, shards: Shards, intercept: bool) -> Shards:
        """Records to predict for: as those that rounds run on."""
        return self.rows(shards, intercept)

    def models(self, models: FloatArray, intercept: bool) -> FloatArray:
        """Models (runs, D) in the coordinates that rows had before they were turned; the intercept takes the mean."""
        count = self.rotation.shape[1]
        columns = models.reshape(len(models), count + intercept, -1)
        slopes = np.einsum("pk,rkl->rpl", self.rotation, columns[:, :count])
        rest = columns[:, count:]
        if self.mean is not None:
            rest = rest - np.einsum("p,rpl->rl", self.mean, slopes)[:, None, :]
        return np.concatenate([slopes, rest], axis=1).reshape(len(models), -1)


def components(moments: FloatArray, deviation: float, rule: Rule, mean: FloatArray | None = None) -> Components:
    """The first components of second moments (p, p) that have symmetric noise in them, off the diagonal with this
    deviation: such noise alone has eigenvalues up to 2 deviation sqrt(p). With a mean (p,) they are those of the
    covariance around it; what noise in the mean adds to the eigenvalues is of second order, and left out of `noise`."""
    if mean is not None:
        moments = moments - np.outer(mean, mean)
    rule.check(len(moments))
    values, vectors = np.linalg.eigh(moments)
    values, vectors = values[::-1], vectors[:, ::-1]
    noise = 2.0 * deviation * math.sqrt(len(moments))
    rotation = vectors[:, : rule.taken(values, noise)]
    # An eigenvector is one up to its sign; the largest entry is made positive.
    largest = rotation[np.abs(rotation).argmax(axis=0), np.arange(rotation.shape[1])]
    return Components(rotation * np.sign(largest), values, noise, mean)
