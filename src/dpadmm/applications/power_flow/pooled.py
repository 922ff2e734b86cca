"""The operating point of the whole network as if one owner knew all loads: what zones that agree should come to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array, diags_array, eye_array, hstack, vstack

from dpadmm._arrays import FloatArray
from dpadmm.applications.power_flow.network import Network
from dpadmm.applications.power_flow.relaxation import Relaxation, relax
from dpadmm.errors import ConvergenceError, InputError
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.conic.interior import kinds

SOLVED = ("Solved", "AlmostSolved")
INFEASIBLE = ("PrimalInfeasible", "AlmostPrimalInfeasible")


@dataclass(frozen=True, eq=False)
class OperatingPoint:
    """A solution in per unit; mismatch is 0 where a bus is supplied."""

    x: FloatArray
    objective: float
    voltage: FloatArray  # magnitude of each bus
    active: FloatArray  # of each generator
    reactive: FloatArray
    active_mismatch: FloatArray  # of each bus
    reactive_mismatch: FloatArray

    @classmethod
    def at(cls, relaxation: Relaxation, x: FloatArray) -> OperatingPoint:
        """What a variable vector says of each element of its part."""
        variables = relaxation.variables
        mismatch = relaxation.mismatch(x)
        active, reactive = np.split(mismatch, 2)
        voltage = np.sqrt(np.maximum(x[variables.voltage], 0.0))
        return cls(x, float(mismatch @ mismatch), voltage, x[variables.active], x[variables.reactive], active, reactive)


def solve_pooled(network: Network, relaxation: Relaxation | None = None) -> OperatingPoint:
    """Minimises |balance x + loads|² over the relaxation of the whole network."""
    relaxation = relax(network) if relaxation is None else relaxation
    cone, balance = relaxation.cone, relaxation.balance
    count, size, buses = cone.limits.size, cone.dimension, relaxation.loads.size
    # The mismatch becomes a variable of its own, balance x - mismatch = -loads: an objective whose optimum is often 0
    # would lose half of its digits in x' (balance' balance) x.
    lifted = Cone(
        csc_array(vstack([hstack([balance, -eye_array(buses)]), hstack([cone.rows, csc_array((count, buses))])])),
        np.concatenate([-relaxation.loads, cone.limits]),
        cone.zero + buses,
        cone.nonnegative,
        cone.second_order,
    )
    weights = np.concatenate([np.zeros(size), np.full(buses, 2.0)])
    x = minimise(lifted, csc_array(diags_array(weights)), np.zeros(size + buses), network.name)
    return OperatingPoint.at(relaxation, x[:size])


def minimise(cone: Cone, quadratic: csc_array, linear: FloatArray, name: str) -> FloatArray:
    """The point of the set where ½ x' quadratic x + linear' x is least, by Clarabel's interior-point method."""
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    solution = clarabel.DefaultSolver(quadratic, linear, cone.rows, cone.limits, kinds(cone), settings).solve()
    status = str(solution.status)
    if status in INFEASIBLE:
        raise InputError(
            f"{name}: no operating point keeps all limits (voltage, generation, line ratings, angles); "
            "loads play no part in that. Widen the limits in the case file."
        )
    if status not in SOLVED:
        raise ConvergenceError(f"{name}: the interior-point solver stopped with {status}.")
    return np.array(solution.x)
