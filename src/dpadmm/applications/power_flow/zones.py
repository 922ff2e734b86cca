"""A network taken apart into zones, each with its own variables, set and loads.

A zone holds everything on the lines that touch its buses. What lies on a cut line, the flows and (c, s) of the line and
W at its ends, is held by more than one zone; these copies must agree, and they are all that zones exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.applications.power_flow.network import Network
from dpadmm.applications.power_flow.partition import Partition
from dpadmm.applications.power_flow.relaxation import Relaxation, relax
from dpadmm.applications.power_flow.variables import Part, Variables


@dataclass(frozen=True, eq=False)
class Zone:
    """One owner: its relaxation, and how its variables relate to those of the network.

    Entry `shared[k]` of the zone's vector is its copy of entry `common[k]` of φ.
    """

    relaxation: Relaxation
    members: IntArray  # where each of its variables stands in the vector of the whole network
    shared: IntArray
    common: IntArray

    @property
    def buses(self) -> IntArray:
        """Positions of the buses it owns."""
        return self.relaxation.part.owned

    @property
    def private(self) -> IntArray:
        """Its variables that no other zone holds, and that never leave it."""
        return np.setdiff1d(np.arange(self.members.size), self.shared)


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Zones, and φ: the variables that more than one of them holds."""

    network: Network
    partition: Partition
    variables: Variables  # of the whole network
    zones: tuple[Zone, ...]
    phi: IntArray  # where each entry of φ stands in the vector of the whole network
    copies: IntArray  # how many zones hold each entry of φ
    cut: IntArray  # lines between zones

    def split(self, x: FloatArray) -> tuple[FloatArray, ...]:
        """The zones' vectors that agree with one of the whole network."""
        return tuple(x[zone.members] for zone in self.zones)

    def agree(self, copies: Sequence[FloatArray]) -> FloatArray:
        """φ: the mean of all copies; those of a zone are in the order of its `shared`."""
        total = np.zeros(self.phi.size)
        for zone, values in zip(self.zones, copies, strict=True):
            total[zone.common] += values
        return total / self.copies

    def merge(self, vectors: Sequence[FloatArray]) -> FloatArray:
        """A vector of the whole network: each zone's private variables, and the mean of the copies."""
        x = np.zeros(self.variables.size)
        for zone, vector in zip(self.zones, vectors, strict=True):
            x[zone.members] = vector
        x[self.phi] = self.agree(self._shared(vectors))
        return x

    def residual(self, vectors: Sequence[FloatArray]) -> float:
        """Euclidean distance of all copies to their means; 0 where the zones agree."""
        copies = self._shared(vectors)
        phi = self.agree(copies)
        pairs = zip(self.zones, copies, strict=True)
        return float(np.sqrt(sum(np.sum((values - phi[zone.common]) ** 2) for zone, values in pairs)))

    def _shared(self, vectors: Sequence[FloatArray]) -> list[FloatArray]:
        return [vector[zone.shared] for zone, vector in zip(self.zones, vectors, strict=True)]


def decompose(network: Network, partition: Partition) -> Decomposition:
    """The zones of a partition."""
    variables = Variables.of(Part.whole(network))
    parts = [Part.around(network, partition.buses(zone)) for zone in range(partition.zones)]
    members = [variables.members(part) for part in parts]
    held = np.bincount(np.concatenate(members), minlength=variables.size)
    # What two zones hold lies on a cut line: a line touches two zones, or a bus has a neighbour elsewhere, only there.
    phi = np.flatnonzero(held > 1)
    zones = []
    for part, member in zip(parts, members, strict=True):
        shared = np.flatnonzero(held[member] > 1)
        zones.append(Zone(relax(network, part), member, shared, np.searchsorted(phi, member[shared])))
    zone_of = partition.zone_of
    cut = np.flatnonzero(zone_of[network.lines.start] != zone_of[network.lines.end])
    return Decomposition(network, partition, variables, tuple(zones), phi, held[phi], cut)
