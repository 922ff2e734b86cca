"""The nearest point of a conic set, with a proof of how near: Clarabel, then Newton's method, then a certificate.

The accuracy is absolute. As measured, a bound is about 1e-13 times the distance of the point, so a proof succeeds a
million away from a set of size one. It ends at a few hundred where a second-order cone is tight together with
inequalities that depend on each other, and at once where a set has next to no room: then a `ConvergenceError` says so.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, eye_array

from dpadmm._arrays import FloatArray
from dpadmm._threads import one_thread_pool
from dpadmm.errors import ConvergenceError, InputError
from dpadmm.problems.sets.conic.certificate import bound
from dpadmm.problems.sets.conic.cone import Cone, distinct
from dpadmm.problems.sets.conic.equations import missed, orthonormal
from dpadmm.problems.sets.conic.interior import explicit, kinds, settings, unit
from dpadmm.problems.sets.conic.newton import Answer, Question, refine, step
from dpadmm.problems.sets.conic.slacks import Slacks

TOLERANCE = 1e-6  # every projection is proven to lie within this distance of the exact one
ACCURACY = 1e-12  # asked of the solver; Newton's method needs only to be told which rows are tight
SURE = 1e4  # a row is surely tight if its multiplier is so many slacks; thin sets leave opposite rows alike
LARGE = 2000  # entries; Newton's method alone is then much faster than the solver, and near the set it often succeeds
LARGEST = 1e100  # of a point's entries
TRIES = 8  # to step in from the last place; each aims twice as deep


_LOCK = threading.RLock()


@contextmanager
def _alone() -> Iterator[None]:
    """One thread at a time, as a solver has a state; and one of BLAS, which for matrices of this size is faster by far,
    and sums in the same order everywhere."""
    with _LOCK, one_thread_pool():
        yield


class ConicProjector:
    """Projects onto one cone. The solver's structure is built once; a projection changes only its objective."""

    def __init__(self, cone: Cone, name: str = "cone", tolerance: float = TOLERANCE) -> None:
        self.name, self.tolerance = name, tolerance
        cone, seen = explicit(unit(cone), name)
        if seen.empty:
            raise InputError(f"set {name!r} is empty: its conditions contradict each other.")
        rows, limits = cone.rows.toarray(), cone.limits  # dense: there are few, and Newton's method fills them anyway
        self.basis, self.targets, enough = orthonormal(rows[: cone.zero], limits[: cone.zero], name)
        kept = np.concatenate([enough, distinct(rows, limits, cone.zero, cone.zero + cone.nonnegative)])
        self.rows, self.limits = np.ascontiguousarray(rows[kept]), limits[kept]
        tail = sum(cone.second_order)
        self.slacks = Slacks(enough.size, kept.size - enough.size - tail, cone.second_order)
        self.lengths = self.slacks.lengths(self.rows)
        self.centre = seen.centre + (self.targets - self.basis @ seen.centre) @ self.basis
        self._solver: Any = None

    def contains(self, x: FloatArray, tolerance: float = 1e-9) -> NDArray[Any]:
        """Whether each row keeps the conditions: slacks are distances, divided by the lengths of their rows."""
        flat = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
        with _alone():
            found = [self._inside(row, tolerance) for row in flat]
        return np.array(found, dtype=bool).reshape(x.shape[:-1])

    def nearest(self, x: FloatArray, always: bool = False) -> FloatArray:
        """The nearest point to each row; with `always`, where none is proven, always the same point inside."""
        flat = np.ascontiguousarray(x, dtype=np.float64).reshape(-1, x.shape[-1])
        with _alone():
            out = np.array([self._nearest_or_centre(row) if always else self._nearest(row) for row in flat])
        return out.reshape(x.shape)

    def _nearest_or_centre(self, point: FloatArray) -> FloatArray:
        try:
            return self._nearest(point)
        except ConvergenceError as reason:
            warnings.warn(f"{reason} A point inside the set is taken instead.", RuntimeWarning, stacklevel=2)
            return self.centre

    def _inside(self, x: FloatArray, tolerance: float) -> bool:
        off = float(np.linalg.norm(self.basis @ x - self.targets))
        return self._missed(x) <= tolerance and off <= tolerance + float(missed(x, self.targets))

    def _missed(self, x: FloatArray) -> float:
        return self.slacks.violation((self.limits - self.rows @ x) / self.lengths)

    def _nearest(self, point: FloatArray) -> FloatArray:
        if not np.abs(point).max(initial=0.0) <= LARGEST:  # nor NaN; squares of more would overflow
            raise ConvergenceError(
                f"set {self.name!r}: a point to project is beyond {LARGEST:g}; make the steps smaller."
            )
        if self._inside(point, 0.0):
            return point
        ask = self._question(point)
        best, near = point, math.inf
        for start, careful in self._starts(ask):
            answer = refine(ask, start, careful)
            if not np.isfinite(answer.x).all():
                continue
            x = self._inwards(ask, answer, careful)
            if self._inside(x, 0.0) and (reached := bound(ask, answer, x, self.centre, self.tolerance)) < near:
                best, near = x, reached
            if near <= self.tolerance:
                return best
        raise ConvergenceError(
            f"set {self.name!r}: a projection must be proven to {self.tolerance:.0e} and is to {near:.1e} only; the "
            f"point is {math.dist(point, self.centre):.1e} from one of the set. Make the steps or the noise smaller, "
            "or write the set with fewer conditions that depend on each other."
        )

    def _question(self, point: FloatArray) -> Question:
        """Multipliers grow with the distance. Divided by it, they are of the size of the slacks."""
        curvature = np.full(point.size, 1.0 / max(1.0, math.dist(point, self.centre)))
        return Question(self.rows, self.limits, self.slacks, curvature, point)

    def _starts(self, ask: Question) -> Iterator[tuple[Answer, bool]]:
        """Where Newton's method may begin, and whether with care. The first success counts; whether the solver believes
        in its answer does not matter, as only the certificate is believed."""
        if self.rows.size > LARGE:
            yield Answer(ask.point, np.zeros_like(self.limits)), False
        found = self._solve(ask)
        yield found, False
        sure, linear = found.z.copy(), self.slacks.linear
        sure[linear] = np.where(found.z < SURE * ask.slack(found.x), 0.0, found.z)[linear]
        yield Answer(found.x, sure), False
        yield found, True

    def _solve(self, ask: Question) -> Answer:
        if self._solver is None:
            room, size = self.limits - self.rows @ self.centre, self.centre.size
            start = csc_matrix(eye_array(size)), np.zeros(size), csc_matrix(self.rows), room
            self._solver = clarabel.DefaultSolver(*start, kinds(self.slacks), settings(ACCURACY))
        self._solver.update(P=ask.curvature, q=-ask.curvature * (ask.point - self.centre))
        found = self._solver.solve()
        return Answer(self.centre + np.asarray(found.x), np.asarray(found.z))

    def _inwards(self, ask: Question, answer: Answer, careful: bool) -> FloatArray:
        """Rounding may leave the answer a last place outside: aims for limits that are a little tighter."""
        x = answer.x
        outside = self._missed(x)
        aim = max(outside, float(np.finfo(np.float64).eps) * float(np.abs(x).max(initial=1.0)))
        for _ in range(TRIES):
            if outside <= 0.0:
                break
            aim *= 2.0
            x = step(ask._replace(limits=ask.limits - aim * self.slacks.inwards), answer, careful).x
            outside = self._missed(x) if np.isfinite(x).all() else math.inf
        return x
