"""Zones together are the network: same objective, same set, every element once where it belongs."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as sampled
from hypothesis import strategies as st
from power_flow_checks import violation

from dpadmm.applications.power_flow import choose, computed, decompose, given, read_matpower, relax, solve_pooled
from dpadmm.applications.power_flow.partition import Partition


def check_union(network, decomposition):
    whole = relax(network)
    zones = decomposition.zones
    zone_of = decomposition.partition.zone_of
    lines, buses = network.lines, np.arange(len(network.buses))

    # Every balance row and every generator in exactly one zone, every line in each zone that it touches.
    assert sorted(np.concatenate([zone.buses for zone in zones])) == buses.tolist()
    generators = np.concatenate([zone.relaxation.part.generators for zone in zones])
    assert sorted(generators) == list(range(len(network.generators)))
    for number, zone in enumerate(zones):
        part = zone.relaxation.part
        touching = (zone_of[lines.start] == number) | (zone_of[lines.end] == number)
        assert part.lines.tolist() == np.flatnonzero(touching).tolist()
        near = set(lines.start[touching]) | set(lines.end[touching]) | set(np.flatnonzero(zone_of == number))
        assert set(part.buses.tolist()) == near
        assert set(network.generators.bus[part.generators]) <= set(zone.buses)

    # φ is what the paper lists: the flows and (c, s) of cut lines, and W at their ends.
    cut = decomposition.cut
    assert cut.tolist() == np.flatnonzero(zone_of[lines.start] != zone_of[lines.end]).tolist()
    at = decomposition.variables
    listed = [group[cut] for group in (at.active_start, at.reactive_start, at.active_end, at.reactive_end)]
    listed += [group[network.pairs.of_line[cut]] for group in (at.cosine, at.sine)]
    listed += [at.voltage[lines.start[cut]], at.voltage[lines.end[cut]]]
    assert decomposition.phi.tolist() == sorted(set(np.concatenate(listed).tolist()))
    for zone in zones:
        np.testing.assert_array_equal(zone.members[zone.shared], decomposition.phi[zone.common])
        assert not np.isin(zone.members[zone.private], decomposition.phi).any()
        assert zone.shared.size + zone.private.size == zone.members.size
    counted = np.zeros(decomposition.phi.size, dtype=int)
    for zone in zones:
        counted[zone.common] += 1
    assert decomposition.copies.tolist() == counted.tolist()
    assert (decomposition.copies >= 2).all()

    # At any vector, in the set or not, copies that agree give the objective and the violation of the network.
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 10.0):
        x = scale * rng.normal(size=at.size)
        vectors = decomposition.split(x)
        total = sum(zone.relaxation.objective(vector) for zone, vector in zip(zones, vectors, strict=True))
        assert total == pytest.approx(whole.objective(x), rel=1e-12)
        worst = max(violation(zone.relaxation.cone, vector) for zone, vector in zip(zones, vectors, strict=True))
        assert worst == pytest.approx(violation(whole.cone, x), rel=1e-12)
        assert decomposition.residual(vectors) == pytest.approx(0, abs=1e-12)
        np.testing.assert_allclose(decomposition.merge(vectors), x, atol=1e-12)


@pytest.mark.parametrize("zones", [[[10, 20, 5]], [[10, 5], [20]], [[10], [20], [5]]])
def test_small(small, zones):
    check_union(small, decompose(small, given(small, zones)))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@sampled(zone_of=st.lists(st.integers(0, 3), min_size=20, max_size=20), seed=st.integers(0, 3))
def test_any_partition(grid, zone_of, seed):
    network = grid(seed=seed)
    _, numbered = np.unique(zone_of, return_inverse=True)
    check_union(network, decompose(network, Partition(numbered.astype(np.int64))))


@pytest.mark.parametrize(("name", "zones"), [("case14", 3), ("case118", 3), ("case300", 5)])
def test_ieee(ieee, name, zones):
    network = ieee(name)
    check_union(network, decompose(network, choose(network, zones)))


def test_large(pglib):
    network = read_matpower(pglib("case1354_pegase"))
    check_union(network, decompose(network, computed(network, 10)))


def test_the_pooled_solution_suits_every_zone(grid):
    network = grid(seed=2)
    decomposition = decompose(network, computed(network, 3))
    point = solve_pooled(network)
    vectors = decomposition.split(point.x)
    zones = zip(decomposition.zones, vectors, strict=True)
    assert all(violation(zone.relaxation.cone, vector) < 1e-7 for zone, vector in zones)


def test_each_condition_of_the_network_binds_a_zone(grid):
    """Rows are compared as well: what every zone has, moved to the network's columns, is what the network has."""
    network = grid(seed=4)
    decomposition = decompose(network, computed(network, 3))
    whole = relax(network).cone

    def described(cone, members):
        rows = cone.rows.tocsr()
        found = set()
        for row in range(cone.limits.size):
            entries = slice(rows.indptr[row], rows.indptr[row + 1])
            columns = members[rows.indices[entries]].tolist()
            values = rows.data[entries].round(12).tolist()
            found.add((round(float(cone.limits[row]), 12), tuple(sorted(zip(columns, values, strict=True)))))
        return found

    union = set().union(*(described(zone.relaxation.cone, zone.members) for zone in decomposition.zones))
    assert union == described(whole, np.arange(whole.dimension))


def test_disagreement_is_measured(small):
    decomposition = decompose(small, given(small, [[10, 5], [20]]))
    x = np.random.default_rng(0).normal(size=decomposition.variables.size)
    first, second = (vector.copy() for vector in decomposition.split(x))
    zone = decomposition.zones[0]
    first[zone.shared[0]] += 2.0
    # The mean moves by one, and both copies are one away from it.
    assert decomposition.residual([first, second]) == pytest.approx(np.sqrt(2))
    moved = decomposition.merge([first, second]) - x
    assert moved[decomposition.phi[zone.common[0]]] == pytest.approx(1)
    assert np.abs(moved).sum() == pytest.approx(1)
    first[zone.private] += 5  # is nobody else's business
    assert decomposition.residual([first, second]) == pytest.approx(np.sqrt(2))
