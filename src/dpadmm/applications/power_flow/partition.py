"""Which zone each bus belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import IntArray
from dpadmm.applications.power_flow.bisection import divide
from dpadmm.applications.power_flow.network import Network
from dpadmm.errors import InputError

# Three zones by the numbers of the buses. case14: the high-voltage side; the lower side round bus 6, and round bus 9.
# case118: left, middle and right of the usual diagram, joined by eight lines.
BUILT_IN: dict[str, tuple[tuple[int, ...], ...]] = {
    "case14": ((1, 2, 3, 4, 5), (6, 11, 12, 13), (7, 8, 9, 10, 14)),
    "case118": (
        (*range(1, 24), *range(25, 33), *range(113, 116), 117),
        (*range(33, 70), 116),
        (24, *range(70, 113), 118),
    ),
}


@dataclass(frozen=True, eq=False)
class Partition:
    """The zone of each bus, by position; no zone is empty."""

    zone_of: IntArray

    @property
    def zones(self) -> int:
        return int(self.zone_of.max()) + 1

    @property
    def sizes(self) -> IntArray:
        return np.bincount(self.zone_of)

    def buses(self, zone: int) -> IntArray:
        return np.flatnonzero(self.zone_of == zone)


def choose(network: Network, zones: int) -> Partition:
    """The built-in partition where there is one with this many zones, otherwise a computed one."""
    match = re.search(r"case\d+(?=_|$)", network.name)
    built_in = BUILT_IN.get(match[0], ()) if match else ()
    if len(built_in) == zones and set().union(*built_in) == set(network.buses.ids.tolist()):
        return given(network, built_in)
    return computed(network, zones)


def given(network: Network, zones: Sequence[Iterable[int]] | Mapping[int, object]) -> Partition:
    """A partition by the numbers of the buses: a list for each zone, or the zone of each bus under any names.

    Zones named in a mapping are numbered in the order of their first bus.
    """
    if isinstance(zones, Mapping):
        names = list(dict.fromkeys(zones.values()))
        zones = [[bus for bus, name in zones.items() if name == wanted] for wanted in names]
    position = {int(number): index for index, number in enumerate(network.buses.ids)}
    zone_of = np.full(len(network.buses), -1, dtype=np.int64)
    for zone, numbers in enumerate(zones):
        listed = list(numbers)
        if not listed:
            raise InputError(f"zone {zone + 1} of the partition is empty; every zone needs a bus.")
        for number in listed:
            if number not in position:
                raise InputError(
                    f"zone {zone + 1} names bus {number!r}, which {network.name} does not have (in service)."
                )
            if zone_of[position[number]] >= 0:
                other = int(zone_of[position[number]]) + 1
                raise InputError(
                    f"bus {number} is named twice, in zone {other} and zone {zone + 1}; zones are disjoint."
                )
            zone_of[position[number]] = zone
    missing = np.flatnonzero(zone_of < 0)
    if missing.size:
        raise InputError(
            f"the partition misses bus{'es' if missing.size > 1 else ''} {network.named(missing)} of {network.name}; "
            "every bus belongs to a zone."
        )
    return Partition(zone_of)


def computed(network: Network, zones: int) -> Partition:
    """Connected zones of about equal size with few lines between them; the same on every machine."""
    buses = len(network.buses)
    if not 1 <= zones <= buses:
        raise InputError(f"{zones} zones: {network.name} has {buses} buses, so from 1 to {buses} zones.")
    return Partition(divide(network.adjacency, zones))
