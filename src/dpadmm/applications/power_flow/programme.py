"""A zone's cone programme, built once and solved again and again with new vectors.

minimise  ½ x' P x + q' x  over the zone's set.

Two solvers, chosen by measurement (benchmarks/power_flow.py). Where P is the one of the last call (exact rounds) SCS
goes on from the last answer with the factorisation it has: a millisecond or two for a third of case118. Where P is new
(a step that shrinks), or SCS would take long, Clarabel's interior-point method solves it: it cannot start from an
answer, but its time hardly varies. Both work on the condensed set, and from one call to the next only numbers change.

How exact must it be? Where noise was added before (to the gradient, or to the loads) everything here is a function of
noisy values and of the public network, so its accuracy is a matter of quality, not of privacy. Where noise is added
afterwards, to the result, neighbours' results may be apart by twice the error of a solve; see `certified.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import clarabel
import numpy as np
import scs
from scipy.sparse import csc_array, csc_matrix, csr_array, diags_array, eye_array, triu, vstack

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.applications.power_flow.relaxation import Relaxation
from dpadmm.errors import ConvergenceError, InputError
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.conic.interior import inspect, kinds, settings


@dataclass(frozen=True, eq=False)
class Condensed:
    """x (or a linear function of it) = lift w, and w ranges over `cone`: the same set, in about half as many variables
    and a third of the rows."""

    cone: Cone
    lift: csc_array
    kept: IntArray  # which entries of x are those of w

    @cached_property
    def fixed(self) -> IntArray:
        """The entries of w that an equation fixes; each of the equations left is of one entry."""
        equations = csr_array(self.cone.rows)[: self.cone.zero]
        assert (np.diff(equations.indptr) == 1).all()
        assert (equations.data == 1.0).all()
        return np.asarray(equations.indices)

    @cached_property
    def deep(self) -> FloatArray:
        """A w of the set that leaves all inequalities room, as far as there is any."""
        deep = inspect(self.cone, "zone").centre.copy()
        deep[self.fixed] = self.cone.limits[: self.cone.zero]
        return deep


def condense(relaxation: Relaxation, onwards: csc_array | None = None) -> Condensed:
    """Solves the equations of the lines, which come first in the cone, for the flows.

    Args:
        relaxation: The set of x.
        onwards: Instead of x itself, speak of u = onwards x.
    """
    cone, variables = relaxation.cone, relaxation.variables
    flows = np.concatenate(
        [variables.active_start, variables.reactive_start, variables.active_end, variables.reactive_end]
    )
    kept = np.setdiff1d(np.arange(variables.size), flows)
    rows = csr_array(cone.rows)
    equations, rest = rows[: flows.size], rows[flows.size :]
    of_flow = csr_array(equations[:, flows]).diagonal()
    assert of_flow.all()
    assert not cone.limits[: flows.size].any()
    place = np.empty(variables.size, dtype=np.int64)
    place[np.concatenate([kept, flows])] = np.arange(variables.size)
    solved = -(diags_array(1.0 / of_flow) @ equations[:, kept])
    lift = csr_array(vstack([eye_array(kept.size), solved]))[place]
    shrunk = Cone(
        csc_array(rest @ lift),
        cone.limits[flows.size :],
        cone.zero - flows.size,
        cone.nonnegative,
        cone.second_order,
    )
    return Condensed(shrunk, csc_array(lift if onwards is None else onwards @ lift), kept)


ACCURACY = 1e-8  # of Clarabel: gap and conditions
COARSE = 1e-6  # of its second try
WARM_ACCURACY = 1e-9  # of SCS; a rougher one is no faster from a good start
WARM_ITERATIONS = 200  # of SCS, before Clarabel is the better bargain
SOLVED = ("Solved", "AlmostSolved")


class Programme:
    """One zone's solver. It works on the condensed set and speaks in the zone's own variables x, or in onwards x."""

    def __init__(self, relaxation: Relaxation, name: str, onwards: csc_array | None = None) -> None:
        self.name, self.condensed = name, condense(relaxation, onwards)
        self.cone, self.lift = self.condensed.cone, self.condensed.lift
        self._rows = csc_matrix(self.cone.rows)
        self._given: csc_array | None = None  # the quadratic of the last call, and condensed
        self._quadratic = csc_matrix((self.cone.dimension, self.cone.dimension))
        self._last: dict[str, FloatArray] | None = None
        self._interior: Any = None  # Clarabel, for this pattern of entries
        self._pattern = np.zeros(0, dtype=np.int32)
        self._warm: Any = None  # SCS, for this quadratic

    def minimise(self, quadratic: csc_array, linear: FloatArray) -> FloatArray:
        """The minimiser. The same `quadratic` object again means the same matrix: its factorisation is kept."""
        lowered = self.lift.T @ linear
        repeated = quadratic is self._given
        if not repeated:
            self._given, self._warm = quadratic, None
            self._quadratic = csc_matrix(self.lift.T @ quadratic @ self.lift)
        if not (repeated and self._last is not None and self._from_last(lowered)):
            self._afresh(lowered)
        assert self._last is not None
        return self.lift @ self._last["x"]

    def nearest(self, point: FloatArray, weights: FloatArray) -> FloatArray:
        """The point of the set where sum(weights * (x - point)²) is least."""
        kept = self._given
        if kept is None or kept.nnz != weights.size or not np.array_equal(kept.diagonal(), weights):
            kept = csc_array(diags_array(weights))
        return self.minimise(kept, -weights * point)

    def _from_last(self, linear: FloatArray) -> bool:
        """SCS from the last answer; False where it needs too long."""
        if self._warm is None:
            data = {"P": csc_matrix(triu(self._quadratic)), "A": self._rows, "b": self.cone.limits, "c": linear}
            cone = {"z": self.cone.zero, "l": self.cone.nonnegative, "q": list(self.cone.second_order)}
            self._warm = scs.SCS(
                data, cone, eps_abs=WARM_ACCURACY, eps_rel=WARM_ACCURACY, max_iters=WARM_ITERATIONS, verbose=False
            )
        else:
            self._warm.update(c=linear)
        assert self._last is not None
        answer = self._warm.solve(warm_start=True, **self._last)
        if answer["info"]["status"] != "solved":
            return False
        self._last = {name: np.array(answer[name]) for name in ("x", "y", "s")}
        return True

    def _afresh(self, linear: FloatArray) -> None:
        """Clarabel, for the move away from the last answer: then tolerances are relative to what is to be found.

        Where that ends in numerical trouble, for the answer itself and less exactly.
        """
        nowhere = np.zeros(linear.size)
        status = self._interior_step(linear, nowhere if self._last is None else self._last["x"])
        if status not in SOLVED:
            self._interior = None
            status = self._interior_step(linear, nowhere, COARSE)
            self._interior = None
        if status not in SOLVED:
            raise ConvergenceError(f"{self.name}: the solver stopped with '{status}'.")

    def _interior_step(self, linear: FloatArray, base: FloatArray, accuracy: float = ACCURACY) -> str:
        upper = csc_matrix(triu(self._quadratic))
        shifted, limits = linear + self._quadratic @ base, self.cone.limits - self._rows @ base
        if self._interior is not None and np.array_equal(upper.indices, self._pattern):
            self._interior.update(P=upper, q=shifted, b=limits)
        else:
            self._pattern = upper.indices
            self._interior = clarabel.DefaultSolver(
                upper, shifted, self._rows, limits, kinds(self.cone), settings(accuracy)
            )
        answer = self._interior.solve()
        status = str(answer.status)
        if "Infeasible" in status:
            raise InputError(
                f"{self.name}: no operating point keeps all limits of the zone ({status}); loads play no part in that."
            )
        if status in SOLVED:
            self._last = {"x": base + np.array(answer.x), "y": np.array(answer.z), "s": np.array(answer.s)}
        return status
