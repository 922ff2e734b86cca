"""Which zone each bus belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh

from dpadmm._arrays import BoolArray, IntArray
from dpadmm.applications.power_flow.network import Network
from dpadmm.errors import InputError

ORDERS = 4  # eigenvectors tried
CUTS = 2  # places to cut tried in each order
SLACK = 8  # a half may miss its size by one part in this many
BALANCE = 4  # a zone may miss the mean size by one part in this many before buses are moved for that alone
DENSE = 64  # buses for which all eigenvectors are cheap


def divide(adjacency: csr_array, zones: int) -> IntArray:
    """The zone of each bus of a connected network, from 0 to zones - 1; entries count the lines between two buses."""
    zone_of = np.zeros(adjacency.shape[0], dtype=np.int64)
    waiting = [(np.arange(zone_of.size), 0, zones)]
    while waiting:
        buses, first, count = waiting.pop()
        zone_of[buses] = first
        if count > 1:
            half = _half(adjacency[buses][:, buses], count // 2, count)
            waiting.append((buses[half], first, count // 2))
            waiting.append((buses[~half], first + count // 2, count - count // 2))
    _move_borders(adjacency, zone_of, zones)
    return zone_of


def _half(adjacency: csr_array, parts: int, of: int) -> BoolArray:
    """About `parts` of `of` equal parts of the buses, cut off along few lines; both sides can be divided further."""
    size = adjacency.shape[0]
    least, most = parts, size - (of - parts)  # a bus for every zone on either side
    target = round(size * parts / of)
    slack = min(target, size - target) // SLACK
    counts = range(max(least, target - slack), min(most, target + slack) + 1)
    candidates = []
    for order in _orders(adjacency):
        for count in _cheapest(adjacency, order, counts):
            half = np.isin(np.arange(size), order[:count])
            half = ~_one_piece(adjacency, ~_one_piece(adjacency, half, parts), of - parts)
            off = abs(int(half.sum()) - target)
            lines = int(adjacency[half][:, ~half].sum())
            candidates.append(((max(0, off - slack), lines, off), half))
    return min(candidates, key=lambda candidate: candidate[0])[1]


def _orders(adjacency: csr_array) -> list[IntArray]:
    """Of the buses, with neighbours close; each in both directions, as the sign of an eigenvector means nothing."""
    size = adjacency.shape[0]
    laplacian = csc_array(diags_array(adjacency.sum(axis=1).astype(np.float64)) - adjacency)
    if size <= DENSE:
        vectors = np.linalg.eigh(laplacian.toarray())[1][:, 1 : ORDERS + 1]
    else:
        # Shifted off the eigenvalue 0, where the matrix has no inverse; a fixed start makes the answer repeatable.
        vectors = eigsh(laplacian, k=ORDERS + 1, sigma=-1e-4, v0=np.linspace(1.0, 2.0, size))[1][:, 1:]
    # Rounding: the last digits differ between machines, and equal buses must not be ordered by them.
    scaled = vectors / np.abs(vectors).max(axis=0)
    return [np.argsort(np.round(sign * column, 6), kind="stable") for column in scaled.T for sign in (1, -1)]


def _cheapest(adjacency: csr_array, order: IntArray, counts: range) -> IntArray:
    """How many buses to take from the order so that few lines lead to the rest, best first."""
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    entries = adjacency.tocoo()
    row, column = place[entries.row], place[entries.col]
    ahead = row < column
    # A line between places a < b is cut by taking a + 1 to b buses.
    opened = np.bincount(row[ahead] + 1, entries.data[ahead], minlength=order.size + 2)
    closed = np.bincount(column[ahead] + 1, entries.data[ahead], minlength=order.size + 2)
    lines = np.cumsum(opened - closed)
    taken = np.array(counts)
    return taken[np.argsort(lines[taken], kind="stable")][:CUTS]


def _one_piece(adjacency: csr_array, half: BoolArray, least: int) -> BoolArray:
    """The largest connected piece of a half, if it has buses enough."""
    chosen = np.flatnonzero(half)
    pieces, piece = connected_components(adjacency[chosen][:, chosen], directed=False)
    largest = piece == np.argmax(np.bincount(piece))
    if pieces == 1 or largest.sum() < least:
        return half
    kept = np.zeros_like(half)
    kept[chosen[largest]] = True
    return kept


def _move_borders(adjacency: csr_array, zone_of: IntArray, zones: int) -> None:
    """Moves single buses to a zone next to them, first to mend sizes, then to cut fewer lines, then to even sizes.

    Every move lowers these three in lexicographic order, so it ends. A zone in one piece stays so.
    """
    sizes = np.bincount(zone_of, minlength=zones).tolist()
    mean = zone_of.size // zones
    low, high = mean - mean // BALANCE, mean + mean // BALANCE + 1

    def off(size: int) -> int:
        return max(low - size, size - high, 0)

    moved = True
    while moved:
        moved = False
        for bus in range(zone_of.size):
            here = int(zone_of[bus])
            entries = slice(adjacency.indptr[bus], adjacency.indptr[bus + 1])
            lines = np.bincount(zone_of[adjacency.indices[entries]], adjacency.data[entries], minlength=zones)
            if sizes[here] == 1 or lines[here] == lines.sum():
                continue
            for there in np.flatnonzero(lines).tolist():
                mended = off(sizes[here] - 1) + off(sizes[there] + 1) - off(sizes[here]) - off(sizes[there])
                change = (mended, lines[here] - lines[there], sizes[there] + 1 - sizes[here])
                if there == here or change >= (0, 0, 0):
                    continue
                rest = np.flatnonzero((zone_of == here) & (np.arange(zone_of.size) != bus))
                if connected_components(adjacency[rest][:, rest], directed=False)[0] == 1:
                    zone_of[bus] = there
                    sizes[here] -= 1
                    sizes[there] += 1
                    moved = True
                    break


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
