"""A part's set without the flows: they are linear in the voltage products, so a solver need not carry them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array, eye_array, vstack

from dpadmm._arrays import IntArray
from dpadmm.applications.power_flow.relaxation import Relaxation
from dpadmm.problems.sets.conic.cone import Cone


@dataclass(frozen=True, eq=False)
class Condensed:
    """x = lift w, and w ranges over `cone`: the same set, in about half as many variables and a third of the rows."""

    cone: Cone
    lift: csc_array
    kept: IntArray  # which entries of x are those of w


def condense(relaxation: Relaxation) -> Condensed:
    """Solves the equations of the lines, which come first in the cone, for the flows."""
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
    return Condensed(shrunk, csc_array(lift), kept)
