"""Linear quantiles of several levels that do not cross."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array, diags_array, kron

from dpadmm._arrays import FloatArray
from dpadmm._ranges import SIZES, PublicRange, check_ranges, ranged
from dpadmm.errors import InputError
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.conic.conic_set import ConicSet
from dpadmm.problems.sets.conic.newton import Answer, Question, refine
from dpadmm.problems.sets.conic.projector import ConicProjector


@dataclass(frozen=True, eq=False)
class NonCrossing(ConicSet):
    """intercept_{l+1} - intercept_l >= radius * |slopes_{l+1} - slopes_l| for neighbouring levels, in increasing order.

    A model is a table, flat in row-major order: a column for each level, a row for each feature, the intercepts in the
    last row (so records end with a 1). For features a, |a| <= radius, level l+1 then predicts no less than level l: the
    difference of the intercepts is radius * |slopes_{l+1} - slopes_l| at least, and <a, slopes_{l+1} - slopes_l> is not
    below minus that. Some a attains it: no model that is left out would do.
    """

    levels: int = ranged(PublicRange(2, 100, whole=True), 2)
    radius: float = ranged(SIZES, 1.0)

    name = "non-crossing"
    about = "quantiles of so many levels in order for records within radius (default 2, 1); the last feature is 1"

    def __post_init__(self) -> None:
        check_ranges(self, f"set {self.name!r}")
        object.__setattr__(self, "levels", int(self.levels))
        object.__setattr__(self, "radius", float(self.radius))

    def check(self, dimension: int) -> None:
        """The set is never empty: zero lies in it."""
        if dimension < 1 or dimension % self.levels:
            raise InputError(
                f"set {self.name!r} is one of models with a coefficient for each feature and each of {self.levels} "
                f"levels, and the model has {dimension}; give a multiple of {self.levels} (the intercept is a feature)."
            )

    def projector(self, dimension: int) -> ConicProjector:
        return self._projector(dimension, 0)

    def project(self, x: FloatArray) -> FloatArray:
        return self._project(x)

    def project_always(self, x: FloatArray) -> FloatArray:
        return self._project(x, always=True)

    def _project(self, x: FloatArray, always: bool = False) -> FloatArray:
        """Multiples of members are members, so a far point is projected in larger units. These are powers of two, so
        nothing is rounded, and in them a proof must have as many digits more."""
        self.check(x.shape[-1])
        flat = np.asarray(x, dtype=np.float64).reshape(-1, x.shape[-1])
        powers = np.maximum(np.frexp(np.abs(flat).max(axis=-1, initial=0.0))[1], 0)
        out = np.empty_like(flat)
        for power in np.unique(powers):
            here = powers == power
            projector = self._projector(x.shape[-1], int(power))
            out[here] = np.ldexp(projector.nearest(np.ldexp(flat[here], -power), always), power)
        return out.reshape(x.shape)

    def diameter(self, dimension: int) -> float:
        """Adding the same to all levels changes nothing."""
        return math.inf

    def _projector(self, dimension: int, power: int) -> ConicProjector:
        if (dimension, power) not in self._made:
            name = f"{self.name} in units of {2.0**power:g}" if power else self.name
            self._made[dimension, power] = Independent(self.cone(dimension), name, self.tolerance * 2.0**-power)
        return self._made[dimension, power]

    @cached_property
    def _made(self) -> dict[tuple[int, int], ConicProjector]:
        return {}

    def cone(self, dimension: int) -> Cone:
        self.check(dimension)
        features, gaps = dimension // self.levels, self.levels - 1
        less = diags_array([1.0, -1.0], offsets=[0, 1], shape=(gaps, self.levels))
        # A table of levels by features, in which a gap's rows are neighbours and begin with the intercept.
        order = np.append(features - 1, np.arange(features - 1))
        scale = np.append(1.0, np.full(features - 1, self.radius))
        rows = csc_array(kron(less, diags_array(scale)))
        place = (order[None, :] * self.levels + np.arange(self.levels)[:, None]).ravel()
        rows = csc_array(rows[:, np.argsort(place)])
        kind = (gaps, ()) if features == 1 else (0, (features,) * gaps)
        return Cone(rows, np.zeros(gaps * features), 0, *kind)


class Independent(ConicProjector):
    """For cones whose rows are independent of each other: proves more, also where slacks and multipliers are both zero.
    Then the gap of weak duality tells half of the digits only, and conditions of optimality are not smooth."""

    def __init__(self, cone: Cone, name: str, tolerance: float) -> None:
        super().__init__(cone, name, tolerance)
        sizes = np.linalg.svd(self.rows, compute_uv=False)
        self.longest, shortest = float(sizes.max()), float(sizes.min())
        # Found to the last places of the longest, and believed if that leaves six digits.
        self.stretch = 1.0 / shortest if shortest > 1e-10 * self.longest else math.inf

    def _nearest(self, point: FloatArray) -> FloatArray:
        if np.isfinite(point).all() and not self._inside(point, 0.0):
            ask = self._question(point)
            for start, careful in self._starts(ask):
                answer = refine(ask, start, careful)
                if np.isfinite(answer.x).all():
                    x = self._inwards(ask, answer, careful)
                    if self._inside(x, 0.0) and self._bound(ask, Answer(x, answer.z)) <= self.tolerance:
                        return x
        return super()._nearest(point)

    def _bound(self, ask: Question, answer: Answer) -> float:
        """How far x can be from the nearest point to v, with multipliers z, and c the curvature.

        Let s' be the nearest point of K to s - z, and z' = s' - (s - z). They are complementary, so a point x' with the
        slack s' is the nearest to x' + A'z'/c. As rows are independent there is one within |s' - s| * stretch of x. A
        projection moves no two points apart, so the distance is at most that of x' from x and of x' + A'z'/c from v,
        where z' - z = s' - s.
        """
        (x, z), curvature = answer, float(ask.curvature[0])
        s, loss = ask.slack(x), (4.0 + math.sqrt(x.size)) * float(np.finfo(np.float64).eps)
        error = np.abs(x - ask.point + (z @ ask.rows) / curvature)
        error += loss * (np.abs(x) + np.abs(ask.point) + (np.abs(z) @ np.abs(ask.rows)) / curvature)
        off = math.hypot(*(ask.slacks.nearest(s - z) - s))
        off += loss * (math.hypot(*s) + math.hypot(*z) + self.longest * math.hypot(*x))
        return (2.0 * self.stretch + self.longest / curvature) * off + math.hypot(*error)
