"""The second-order-cone relaxation of the power-flow equations, for a network or a part of one.

The set is public: network data and limits. The loads are private and appear only in the objective |balance x + loads|²;
a set that depended on them would give neighbouring loads outputs of different supports, and no noise would hide that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array, vstack

from dpadmm._arrays import FloatArray
from dpadmm.applications.power_flow.constraints import constrain
from dpadmm.applications.power_flow.network import Network
from dpadmm.applications.power_flow.variables import Part, Variables
from dpadmm.problems.sets.conic.cone import Cone


@dataclass(frozen=True, eq=False)
class Relaxation:
    """The operating points of a part, and how far each of its owned buses is from being supplied."""

    part: Part
    variables: Variables
    cone: Cone
    balance: csr_array  # rows: active power of the owned buses, then reactive power of the same
    loads: FloatArray  # in the order of these rows

    def mismatch(self, x: FloatArray) -> FloatArray:
        """Power drawn from each owned bus by lines, shunt and load beyond what its generators give; 0 is balance."""
        return self.balance @ x + self.loads

    def objective(self, x: FloatArray) -> float:
        return float(np.sum(self.mismatch(x) ** 2))


def relax(network: Network, part: Part | None = None) -> Relaxation:
    """The relaxation of a part, or of the whole network."""
    part = Part.whole(network) if part is None else part
    variables = Variables.of(part)
    buses, owned = network.buses, part.owned
    return Relaxation(
        part,
        variables,
        constrain(network, part, variables),
        _balance(network, part, variables),
        np.concatenate([buses.active_load[owned], buses.reactive_load[owned]]),
    )


def _balance(network: Network, part: Part, variables: Variables) -> csr_array:
    """s^p = Σ p^F + Σ p^T − Σ p_g + g W and s^q = Σ q^F + Σ q^T − Σ q_g − b W, without the loads, for owned buses."""
    lines, generators = network.lines, network.generators
    at = [lines.start[part.lines], lines.end[part.lines], generators.bus[part.generators], part.buses]
    g, b = network.buses.conductance[part.buses], network.buses.susceptance[part.buses]
    blocks = []
    for columns, shunt in (
        ((variables.active_start, variables.active_end, variables.active, variables.voltage), g),
        ((variables.reactive_start, variables.reactive_end, variables.reactive, variables.voltage), -b),
    ):
        values = [np.full(part.lines.size, 1.0)] * 2 + [np.full(part.generators.size, -1.0), shunt]
        blocks.append((np.concatenate(at), np.concatenate(columns), np.concatenate(values)))
    # A row for every bus of the network first: those of buses owned by others are then dropped.
    every = len(network.buses)
    shape = (every, variables.size)
    rows = [csr_array(coo_array((value, (row, column)), shape=shape))[part.owned] for row, column, value in blocks]
    stacked = csr_array(vstack(rows))
    stacked.eliminate_zeros()  # a bus without a shunt
    return stacked
