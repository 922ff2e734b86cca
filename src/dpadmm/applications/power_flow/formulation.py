"""A zone's problem in the variables that gradient steps move: the two ways in which 001 writes it.

Both have the same operating points and the same objective, but other gradients, so other steps and other noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array, csr_array, eye_array, hstack, vstack

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.applications.power_flow.zones import Zone
from dpadmm.errors import unknown

FORMULATIONS = ("slack", "eliminated")


@dataclass(frozen=True, eq=False)
class Formulation:
    """The objective |balance u + loads|² over {u = lift x : x in the zone's set}, which is public.

    `slack` is (D.3): u = (x, t) with t = B x, B the zone's balance. The paper's own variable is s = t + loads; s never
    leaves the zone, a proximal term sees differences of s only, in which the loads cancel, and the gradient 2 s is
    2 t + 2 loads. So t is public wherever x is, and one load moves one entry of the gradient.
    `eliminated` is (6.1): u = x, so one load moves the gradient by a row of B.
    """

    zone: Zone
    lift: csc_array
    balance: csr_array

    @classmethod
    def of(cls, zone: Zone, name: str) -> Formulation:
        """The formulation of this name."""
        if name not in FORMULATIONS:
            raise unknown("formulation", name, FORMULATIONS)
        balance, size = zone.relaxation.balance, zone.members.size
        if name == "eliminated":
            return cls(zone, csc_array(eye_array(size)), balance)
        buses = balance.shape[0]
        return cls(
            zone,
            csc_array(vstack([eye_array(size), balance])),
            csr_array(hstack([csr_array((buses, size)), eye_array(buses)])),
        )

    @property
    def size(self) -> int:
        """Of u; the zone's own variables come first."""
        return int(self.lift.shape[0])

    @property
    def entered(self) -> IntArray:
        """The entries of the gradient that loads can move."""
        return np.unique(self.balance.indices)

    @property
    def smoothness(self) -> float:
        """The Lipschitz constant of the gradient, 2 |balance|²."""
        return 2.0 * float(np.linalg.norm(self.balance.toarray(), 2)) ** 2

    def public_gradient(self, u: FloatArray) -> FloatArray:
        """What the gradient would be without loads."""
        return np.asarray(2.0 * (self.balance.T @ (self.balance @ u)))

    def of_loads(self, loads: FloatArray) -> FloatArray:
        """What loads add to the gradient, wherever it is taken."""
        return np.asarray(2.0 * (self.balance.T @ loads))
