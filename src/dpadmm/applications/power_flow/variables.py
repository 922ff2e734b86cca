"""Which entry of a variable vector is what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpadmm._arrays import IntArray
from dpadmm.applications.power_flow.network import Network


@dataclass(frozen=True, eq=False)
class Part:
    """Some of a network: positions in it, ascending. The power balance is kept at the buses that are `owned`."""

    buses: IntArray
    lines: IntArray
    pairs: IntArray  # of buses, joined by the lines
    generators: IntArray
    owned: IntArray

    @classmethod
    def whole(cls, network: Network) -> Part:
        every = np.arange(len(network.buses))
        lines, pairs = np.arange(len(network.lines)), np.arange(len(network.pairs))
        return cls(every, lines, pairs, np.arange(len(network.generators)), owned=every)

    @classmethod
    def around(cls, network: Network, owned: IntArray) -> Part:
        """These buses with their generators, all lines that touch them, and the buses at the other ends."""
        inside = np.isin(np.arange(len(network.buses)), owned)
        touching = np.flatnonzero(inside[network.lines.start] | inside[network.lines.end])
        ends = [network.lines.start[touching], network.lines.end[touching]]
        return cls(
            np.unique(np.concatenate([owned, *ends])),
            touching,
            np.unique(network.pairs.of_line[touching]),
            np.flatnonzero(inside[network.generators.bus]),
            np.sort(owned),
        )


@dataclass(frozen=True, eq=False)
class Variables:
    """Positions in the variable vector of a part, in the order of the part.

    With V the complex voltages: W_i = |V_i|² for each bus, c + ı s = V_i V_j^* for each pair of joined buses i < j, the
    power (p^F, q^F) that enters each line at its start and (p^T, q^T) at its end, and what each generator gives.
    Parallel lines share one (c, s): they see the same two voltages, and a relaxation in which they may see different
    ones is looser (PGLib's published bounds are of the shared kind).
    """

    voltage: IntArray  # W
    cosine: IntArray  # c
    sine: IntArray  # s
    active_start: IntArray  # p^F
    reactive_start: IntArray  # q^F
    active_end: IntArray  # p^T
    reactive_end: IntArray  # q^T
    active: IntArray  # p_g
    reactive: IntArray  # q_g

    @classmethod
    def of(cls, part: Part) -> Variables:
        buses, pairs, lines, generators = part.buses.size, part.pairs.size, part.lines.size, part.generators.size
        counts = (buses, pairs, pairs, lines, lines, lines, lines, generators, generators)
        return cls(*np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1]))

    @cached_property
    def size(self) -> int:
        return sum(positions.size for positions in self.groups)

    @property
    def groups(self) -> tuple[IntArray, ...]:
        """All positions, in the order of the vector."""
        return (
            *(self.voltage, self.cosine, self.sine),
            *(self.active_start, self.reactive_start, self.active_end, self.reactive_end),
            *(self.active, self.reactive),
        )

    def members(self, part: Part) -> IntArray:
        """Where the variables of a part stand among these, which are those of the whole network."""
        kinds = (part.buses, *(part.pairs,) * 2, *(part.lines,) * 4, *(part.generators,) * 2)
        return np.concatenate([group[kind] for group, kind in zip(self.groups, kinds, strict=True)])
