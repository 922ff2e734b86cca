"""How far the loads of one bus can move what a zone computes. All of it follows from the public network.

Neighbours differ in the loads of one bus: each of its two loads, active and reactive, by at most beta (per unit), or
one of the two where `both` is False. The zone's objective is f(x) = |balance x + d|², so a change of loads by e at bus
i moves its gradient by 2 (e_p a_i^p + e_q a_i^q), with a_i the bus's two rows of the balance, wherever x is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from dpadmm._arrays import FloatArray
from dpadmm.applications.power_flow.zones import Zone


@dataclass(frozen=True)
class Adjacency:
    """What a guarantee hides: changes of up to beta in the loads of one bus."""

    beta: float = 0.01
    both: bool = True  # the active and the reactive load may change together

    def of_loads(self, norm: int) -> float:
        """Of the loads themselves."""
        if not self.both:
            return self.beta
        return self.beta * (2.0 if norm == 1 else np.sqrt(2.0))

    def of_gradient(self, zone: Zone, norm: int) -> float:
        """Of a zone's gradient: 2 beta |a|, at the bus where that is largest."""
        return 2.0 * self.beta * self._longest(zone, np.ones(zone.members.size), norm)

    def of_step(self, zone: Zone, weights: FloatArray) -> float:
        """Of a linearised step's result u, as |.|_W with W = diag(weights).

        The step projects v - W^-1 g in the metric W, which moves no two points farther apart in that metric; so
        |u - u'|_W <= |W^-1/2 (g - g')|.
        """
        return 2.0 * self.beta * self._longest(zone, 1.0 / np.sqrt(weights), 2)

    def _longest(self, zone: Zone, scale: FloatArray, norm: int) -> float:
        balance = zone.relaxation.balance
        rows = csr_array(balance.multiply(scale[None, :]))
        buses = rows.shape[0] // 2
        active, reactive = rows[:buses], rows[buses:]
        moved = [active + reactive, active - reactive] if self.both else [active, reactive]
        return max(float(_lengths(each, norm).max()) for each in moved)


def _lengths(rows: csr_array, norm: int) -> FloatArray:
    return np.asarray(abs(rows).sum(axis=1) if norm == 1 else np.sqrt(rows.power(2).sum(axis=1))).ravel()
