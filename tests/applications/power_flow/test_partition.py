"""Partitions: complete and disjoint or refused; computed ones balanced, in one piece each, and repeatable."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given as sampled
from hypothesis import settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from dpadmm.applications.power_flow import BUILT_IN, choose, computed, given, read_matpower
from dpadmm.applications.power_flow.partition import divide
from dpadmm.errors import InputError


def cut_lines(network, partition):
    zone_of = partition.zone_of
    return int(np.sum(zone_of[network.lines.start] != zone_of[network.lines.end]))


def pieces(adjacency, zone_of, zone):
    inside = np.flatnonzero(zone_of == zone)
    return connected_components(adjacency[inside][:, inside], directed=False)[0]


def test_lists_and_mappings(small):
    partition = given(small, [[10, 5], [20]])
    assert partition.zone_of.tolist() == [0, 1, 0]
    assert partition.zones == 2
    assert partition.sizes.tolist() == [2, 1]
    assert partition.buses(0).tolist() == [0, 2]
    assert given(small, {10: "north", 20: "south", 5: "north"}).zone_of.tolist() == [0, 1, 0]
    assert given(small, {np.int64(10): 7, 20: 3, 5: 7}).zone_of.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("zones", "message"),
    [
        ([[10], [20]], "misses bus 5 of small"),
        ([[10]], "misses buses 5, 20 of small"),
        ({10: 1}, "misses buses 5, 20"),
        ([], "misses buses 5, 10, 20"),
        ([[10, 5], [20, 99]], "zone 2 names bus 99, which small does not have"),
        ([[10, 5, 7], [20]], "zone 1 names bus 7, which small does not have"),  # isolated
        ([["10", 5], [20]], "zone 1 names bus '10'"),
        ([[10, 5], [], [20]], "zone 2 of the partition is empty"),
        ([[10, 5], [20, 10]], "bus 10 is named twice, in zone 1 and zone 2"),
    ],
)
def test_bad_partitions_are_refused(small, zones, message):
    with pytest.raises(InputError, match=message):
        given(small, zones)


@pytest.mark.parametrize("zones", [0, -1, 4])
def test_numbers_of_zones_that_cannot_be(small, zones):
    with pytest.raises(InputError, match=f"{zones} zones: small has 3 buses, so from 1 to 3"):
        computed(small, zones)


@pytest.mark.parametrize(("name", "sizes", "cut"), [("case14", [5, 4, 5], 5), ("case118", [35, 38, 45], 8)])
def test_built_in_partitions(ieee, name, sizes, cut):
    network = ieee(name)
    partition = choose(network, 3)
    assert partition.sizes.tolist() == sizes
    assert cut_lines(network, partition) == cut
    assert [network.buses.ids[partition.buses(zone)].tolist() for zone in range(3)] == [
        sorted(zone) for zone in BUILT_IN[name]
    ]
    assert all(pieces(network.adjacency, partition.zone_of, zone) == 1 for zone in range(3))
    assert choose(network, 2).zones == 2


def test_built_in_partitions_are_for_their_own_networks(small, pglib):
    assert choose(dataclasses.replace(small, name="case14"), 3).sizes.tolist() == [1, 1, 1]
    assert choose(read_matpower(pglib("case14_ieee")), 3).sizes.tolist() == [5, 4, 5]
    assert choose(read_matpower(pglib("case118_ieee")), 3).sizes.tolist() == [35, 38, 45]


@pytest.mark.parametrize("name", ["case118_ieee", "case300_ieee", "case1354_pegase"])
def test_computed_partitions_are_balanced(pglib, name):
    network = read_matpower(pglib(name))
    buses = len(network.buses)
    for zones in range(2, 11):
        partition = computed(network, zones)
        assert partition.zones == zones
        assert partition.sizes.min() >= 0.7 * buses / zones
        assert partition.sizes.max() <= 1.3 * buses / zones
        assert all(pieces(network.adjacency, partition.zone_of, zone) == 1 for zone in range(zones))
        assert cut_lines(network, partition) < {3: 0.06, 10: 0.25}.get(zones, 0.25) * len(network.lines)


def test_computed_partitions_are_repeatable_and_few_lines_are_cut(grid):
    network = grid(rows=6, columns=20, seed=1)
    partition = computed(network, 4)
    np.testing.assert_array_equal(partition.zone_of, computed(network, 4).zone_of)
    # Three straight cuts across six rows, of lines that are double one time in four.
    assert cut_lines(network, partition) <= 3 * 6 * 1.25
    assert partition.sizes.min() >= 24


@settings(max_examples=60, deadline=None)
@sampled(data=st.data())
def test_any_connected_network_can_be_divided(data):
    """Trees with a few more lines, down to one bus per zone: every zone has a bus, and every bus a zone."""
    buses = data.draw(st.integers(1, 40))
    ends = [(data.draw(st.integers(0, bus - 1)), bus) for bus in range(1, buses)]
    ends += data.draw(st.lists(st.tuples(st.integers(0, buses - 1), st.integers(0, buses - 1)), max_size=20))
    pairs = np.array([(a, b) for a, b in ends if a != b] or np.zeros((0, 2)), dtype=np.int64)
    both = np.concatenate([pairs, pairs[:, ::-1]])
    adjacency = csr_array((np.ones(len(both), dtype=np.int64), (both[:, 0], both[:, 1])), shape=(buses, buses))
    zones = data.draw(st.integers(1, buses))
    zone_of = divide(adjacency, zones)
    assert sorted(set(zone_of.tolist())) == list(range(zones))
