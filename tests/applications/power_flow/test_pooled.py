"""The pooled solve: known optima, exact equations, and clear words where there is no solution."""

import dataclasses

import numpy as np
import pytest
from power_flow_checks import violation
from scipy.sparse import csc_array, diags_array, vstack

from dpadmm.applications.power_flow import read_matpower, relax, solve_pooled
from dpadmm.applications.power_flow.pooled import minimise
from dpadmm.errors import InputError
from dpadmm.problems.sets.conic.cone import Cone

# PGLib's own table: least cost with the true equations ($/h), and by how many percent the relaxation's is below it.
# Both are rounded there, the gap to 0.01 points.
PUBLISHED = {
    "case14_ieee": (2178.1, 0.11),
    "case118_ieee": (97214.0, 0.91),
    "case300_ieee": (565220.0, 2.63),
    "case1354_pegase": (1.2588e6, 1.57),
}


def least_cost(network):
    """What PGLib minimises: the cost of generation, with every load supplied."""
    relaxation = relax(network)
    cone, at, cost = relaxation.cone, relaxation.variables, network.generators.cost
    supplied = Cone(
        csc_array(vstack([relaxation.balance, cone.rows])),
        np.concatenate([-relaxation.loads, cone.limits]),
        cone.zero + relaxation.loads.size,
        cone.nonnegative,
        cone.second_order,
    )
    unit = np.abs(cost).max()
    quadratic, linear = np.zeros(at.size), np.zeros(at.size)
    quadratic[at.active], linear[at.active] = 2 * cost[:, 0] / unit, cost[:, 1] / unit
    x = minimise(supplied, csc_array(diags_array(quadratic)), linear, network.name)
    assert violation(supplied, x) < 1e-6
    return np.sum(cost[:, 0] * x[at.active] ** 2 + cost[:, 1] * x[at.active] + cost[:, 2])


@pytest.mark.parametrize("name", PUBLISHED)
def test_least_cost_is_the_published_one(pglib, name):
    true, gap = PUBLISHED[name]
    assert least_cost(read_matpower(pglib(name))) == pytest.approx(true * (1 - gap / 100), rel=1.5e-4)


def loaded(network, times):
    buses = network.buses
    heavier = dataclasses.replace(
        buses, active_load=times * buses.active_load, reactive_load=times * buses.reactive_load
    )
    return dataclasses.replace(network, buses=heavier)


def test_a_network_that_can_be_supplied_is(small):
    point = solve_pooled(small)
    assert point.objective < 1e-12
    assert np.abs(point.active_mismatch).max() < 1e-6
    assert np.all(point.voltage >= small.buses.lowest_voltage - 1e-8)
    assert np.all(point.voltage <= small.buses.highest_voltage + 1e-8)
    assert np.all(point.active <= small.generators.highest_active + 1e-8)
    # Losses are positive: what is generated covers more than the loads and the shunt.
    assert point.active.sum() > small.buses.active_load.sum()


def test_an_overloaded_network_is_short_by_the_least_possible(small):
    """Checked against the same problem written without the mismatch as a variable, and against points nearby."""
    network = loaded(small, 6)
    relaxation = relax(network)
    point = solve_pooled(network, relaxation)
    assert point.objective > 1
    balance, loads = relaxation.balance, relaxation.loads
    x = minimise(relaxation.cone, csc_array(2 * balance.T @ balance), 2 * balance.T @ loads, "small")
    assert relaxation.objective(x) == pytest.approx(point.objective, rel=1e-6)
    other = solve_pooled(small).x
    for share in (0.01, 0.1, 0.5):
        assert relaxation.objective((1 - share) * point.x + share * other) > point.objective
    mismatch = np.concatenate([point.active_mismatch, point.reactive_mismatch])
    assert point.objective == pytest.approx(mismatch @ mismatch)
    assert point.active_mismatch.sum() > 0  # more is drawn than is put in


@pytest.mark.parametrize("name", ["case14", "case118"])
def test_flows_satisfy_the_equations_at_the_solution(ieee, name):
    network = ieee(name)
    point = solve_pooled(network)
    at = relax(network).variables
    assert violation(relax(network).cone, point.x) < 1e-8
    assert point.objective < 1e-12
    # Once more without the rows: S = Y_ff^* W_i + Y_ft^* (c + i s).
    y_ff, y_ft, y_tf, y_tt = network.lines.admittances
    pairs, w = network.pairs, point.x[at.voltage]
    product = point.x[at.cosine][pairs.of_line] + 1j * pairs.direction * point.x[at.sine][pairs.of_line]
    start = y_ff.conj() * w[network.lines.start] + y_ft.conj() * product
    end = y_tt.conj() * w[network.lines.end] + y_tf.conj() * product.conj()
    np.testing.assert_allclose(point.x[at.active_start] + 1j * point.x[at.reactive_start], start, atol=1e-7)
    np.testing.assert_allclose(point.x[at.active_end] + 1j * point.x[at.reactive_end], end, atol=1e-7)
    np.testing.assert_allclose(point.voltage**2, w)


def test_limits_that_contradict_each_other(small):
    """Voltages far apart force a flow, and a rating forbids it."""
    buses = dataclasses.replace(
        small.buses, lowest_voltage=np.array([1.5, 0.5, 0.5]), highest_voltage=np.array([1.5, 0.6, 0.6])
    )
    lines = dataclasses.replace(small.lines, rating=np.full(4, 0.1))
    with pytest.raises(InputError, match="small: no operating point keeps all limits"):
        solve_pooled(dataclasses.replace(small, buses=buses, lines=lines))
