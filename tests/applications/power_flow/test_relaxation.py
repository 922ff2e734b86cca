"""The relaxation holds every point that circuit theory allows, and refuses those beyond a limit."""

import dataclasses
import warnings

import numpy as np
import pytest
from power_flow_checks import row_norms, violation

from dpadmm.applications.power_flow import read_matpower, relax
from dpadmm.errors import InputError


def voltages_of(network, rng, spread=0.1):
    buses = network.buses
    magnitude = rng.uniform(buses.lowest_voltage, buses.highest_voltage)
    return magnitude * np.exp(1j * rng.uniform(-spread, spread, magnitude.size))


def generation_of(network, rng):
    generators = network.generators
    low = np.maximum(generators.lowest_active, -2), np.maximum(generators.lowest_reactive, -2)
    high = np.minimum(generators.highest_active, 2), np.minimum(generators.highest_reactive, 2)
    return rng.uniform(low[0], high[0]) + 1j * rng.uniform(low[1], high[1])


def unlimited(network):
    """The same lines without ratings and angle limits."""
    lines = network.lines
    free = np.full(len(lines), np.inf)
    return dataclasses.replace(
        network, lines=dataclasses.replace(lines, rating=free, lowest_angle=-free, highest_angle=free)
    )


def with_lines(network, **changes):
    return dataclasses.replace(network, lines=dataclasses.replace(network.lines, **changes))


def equations(relaxation, x):
    cone = relaxation.cone
    return (cone.limits - cone.rows @ x)[: cone.zero]


@pytest.mark.parametrize("seed", range(5))
def test_points_of_circuit_theory_satisfy_every_equation(small, grid, operate, seed):
    rng = np.random.default_rng(seed)
    for network in (small, grid(seed=seed)):
        relaxation = relax(network)
        x = operate(network, relaxation, voltages_of(network, rng, spread=3.0), generation_of(network, rng))
        assert not np.isnan(x).any()  # every variable was named by one group
        assert np.abs(equations(relaxation, x)).max() < 1e-12
        # The products are exact here, so their cones are tight.
        count = 4 * len(network.pairs)
        cone = (relaxation.cone.limits - relaxation.cone.rows @ x)[-count:].reshape(-1, 4)
        np.testing.assert_allclose(np.linalg.norm(cone[:, 1:], axis=1), cone[:, 0], rtol=1e-12)
        np.testing.assert_allclose(
            cone[:, 0] * 2,
            x[relaxation.variables.voltage][network.pairs.low] + x[relaxation.variables.voltage][network.pairs.high],
            rtol=1e-12,
        )
        assert violation(relax(unlimited(network)).cone, x) < 1e-12


def test_every_flow_is_bound_by_an_equation(small, operate):
    """A wrong value of any voltage, product or flow shows: no coefficient is missing."""
    rng = np.random.default_rng(0)
    relaxation = relax(small)
    x = operate(small, relaxation, voltages_of(small, rng), generation_of(small, rng))
    for position in np.concatenate(relaxation.variables.groups[:7]):
        moved = x.copy()
        moved[position] += 0.01
        assert np.abs(equations(relaxation, moved)).max() > 1e-4
    turned = x.copy()
    turned[relaxation.variables.sine] *= -1  # the sign that the paper's print has wrong
    assert np.abs(equations(relaxation, turned)).max() > 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_balance_is_what_no_generator_supplies(small, grid, operate, seed):
    rng = np.random.default_rng(seed)
    for network in (small, grid(seed=seed)):
        relaxation, buses = relax(network), network.buses
        voltages, generation = voltages_of(network, rng), generation_of(network, rng)
        x = operate(network, relaxation, voltages, generation)
        expected = buses.active_load + 1j * buses.reactive_load
        expected += np.abs(voltages) ** 2 * (buses.conductance - 1j * buses.susceptance)
        at = relaxation.variables
        np.add.at(expected, network.lines.start, x[at.active_start] + 1j * x[at.reactive_start])
        np.add.at(expected, network.lines.end, x[at.active_end] + 1j * x[at.reactive_end])
        np.subtract.at(expected, network.generators.bus, generation)
        mismatch = relaxation.mismatch(x)
        np.testing.assert_allclose(mismatch, np.concatenate([expected.real, expected.imag]), atol=1e-13)
        assert relaxation.objective(x) == pytest.approx(np.sum(np.abs(expected) ** 2))


@pytest.mark.parametrize("name", ["case14", "case118", "case300"])
def test_flows_and_balance_agree_with_pypower(ieee, operate, name):
    """An independent library's bus admittance matrix gives the same injections at random voltages."""
    network = ieee(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import importlib

        from pypower.ext2int import ext2int
        from pypower.makeYbus import makeYbus

        case = ext2int(getattr(importlib.import_module(f"pypower.{name}"), name)())
        admittance = makeYbus(case["baseMVA"], case["bus"], case["branch"])[0]
    rng = np.random.default_rng(1)
    voltages = voltages_of(network, rng, spread=0.5)
    relaxation = relax(network)
    x = operate(network, relaxation, voltages, np.zeros(len(network.generators), dtype=complex))
    # The admittance matrix has the shunts in it.
    injected = voltages * np.conj(admittance @ voltages)
    load = (case["bus"][:, 2] + 1j * case["bus"][:, 3]) / case["baseMVA"]
    expected = np.concatenate([(injected + load).real, (injected + load).imag])
    np.testing.assert_allclose(relaxation.mismatch(x), expected, atol=1e-9)
    fixed = relaxation.cone.zero - 4 * len(network.lines)
    flows = equations(relaxation, x)[: relaxation.cone.zero - fixed]
    assert np.abs(flows).max() < 1e-12


def test_loads_are_not_in_the_set(small):
    """Neighbouring loads must give the same set, bit for bit."""
    buses = small.buses
    other = dataclasses.replace(
        small, buses=dataclasses.replace(buses, active_load=buses.active_load + 1, reactive_load=-buses.reactive_load)
    )
    one, two = relax(small), relax(other)
    assert (one.cone.rows != two.cone.rows).nnz == 0
    np.testing.assert_array_equal(one.cone.limits, two.cone.limits)
    assert (one.balance != two.balance).nnz == 0
    np.testing.assert_array_equal(one.loads, np.concatenate([buses.active_load, buses.reactive_load]))
    np.testing.assert_array_equal(two.loads - one.loads, np.concatenate([np.ones(3), -2 * buses.reactive_load]))


def test_voltage_and_generation_limits(small, operate):
    rng = np.random.default_rng(2)
    network = unlimited(small)
    relaxation = relax(network)
    at = relaxation.variables
    x = operate(network, relaxation, voltages_of(network, rng), generation_of(network, rng))
    assert violation(relaxation.cone, x) < 1e-12
    for position, value, missed in [
        (at.active[0], 1.7, 0.1),
        (at.active[1], 0.15, 0.05),
        (at.reactive[1], 0.5, 0.1),
        (at.reactive[0], -0.9, 0.3),
        (at.active[2], 0.01, 0.01),  # 0 to 0: an equation
        (at.active[2], -0.01, 0.01),
    ]:
        moved = x.copy()
        moved[position] = value
        assert violation(relaxation.cone, moved) == pytest.approx(missed)
    for position, value in [(at.reactive[0], 1e6), (at.reactive[1], -1e6)]:  # infinite limits
        moved = x.copy()
        moved[position] = value
        assert violation(relaxation.cone, moved) < 1e-9
    for magnitude, missed in [(1.06, 1.06**2 - 1.05**2), (0.94, 0.95**2 - 0.94**2)]:
        voltages = np.array([1.0, magnitude, 1.0], dtype=complex)
        x = operate(network, relaxation, voltages, generation_of(network, rng))
        assert violation(relaxation.cone, x) == pytest.approx(missed)


def test_ratings(small, operate):
    rng = np.random.default_rng(3)
    network = with_lines(small, lowest_angle=np.full(4, -np.inf), highest_angle=np.full(4, np.inf))
    relaxation = relax(network)
    at = relaxation.variables
    x = operate(network, relaxation, np.array([1.0, np.exp(-0.4j), np.exp(0.2j)]), generation_of(network, rng))
    start = np.hypot(x[at.active_start], x[at.reactive_start])
    end = np.hypot(x[at.active_end], x[at.reactive_end])
    missed = max(np.max(start - network.lines.rating), np.max(end - network.lines.rating))
    assert missed > 1
    assert violation(relaxation.cone, x) == pytest.approx(missed)
    end_only = with_lines(network, rating=np.where(np.arange(4) == 2, (start[2] + end[2]) / 2, np.inf))
    assert violation(relax(end_only).cone, x) == pytest.approx(abs(start[2] - end[2]) / 2)


def test_a_rating_that_voltages_cannot_reach_is_left_out(grid, operate):
    network = grid(seed=3)
    unrated = unlimited(network)
    y_ff, y_ft, y_tf, y_tt = (np.abs(admittance) for admittance in network.lines.admittances)
    reach = 1.1**2 * (y_ff + y_ft), 1.1**2 * (y_tt + y_tf)
    loose = with_lines(unrated, rating=1.001 * np.maximum(*reach))
    assert relax(loose).cone.second_order == relax(unrated).cone.second_order
    tight = with_lines(unrated, rating=0.999 * np.minimum(*reach))
    assert len(relax(tight).cone.second_order) == len(network.pairs) + 2 * len(network.lines)
    # And the bound is met: with opposite voltages at their limits a line without charging carries exactly that much.
    line = int(np.argmin(network.lines.charging))
    voltages = np.full(len(network.buses), 1.1, dtype=complex)
    voltages[network.lines.end[line]] *= -np.exp(-1j * network.lines.shift[line])
    at = relax(network).variables
    x = operate(network, relax(network), voltages, np.zeros(len(network.generators), dtype=complex))
    carried = np.hypot(x[at.active_start[line]], x[at.reactive_start[line]])
    assert carried == pytest.approx(reach[0][line], rel=1e-2)
    assert carried <= reach[0][line] + 1e-12


@pytest.mark.parametrize(
    ("start", "end", "kept"),
    # Limits -30° to 25° are of the line from bus 20 to bus 10: the angle of 20 minus that of 10.
    [(0, 24, True), (0, 26, False), (0, -29, True), (0, -31, False), (10, 34, True), (10, 36, False)],
)
def test_angle_limits(small, operate, start, end, kept):
    network = with_lines(
        small, rating=np.full(4, np.inf), highest_angle=np.array([np.inf, np.radians(25), np.inf, np.inf])
    )
    relaxation = relax(network)
    voltages = np.exp(1j * np.radians([start, end, start]))
    x = operate(network, relaxation, voltages, generation_of(network, np.random.default_rng(4)))
    missed = violation(relaxation.cone, x)
    assert (missed < 1e-12) == kept
    if not kept:
        assert missed == pytest.approx(np.sin(np.radians(1)))


def test_parallel_lines_share_their_angle(small, operate):
    """One pair of products for both lines, and the tighter limit of the two, seen in the same direction."""
    network = with_lines(
        small,
        rating=np.full(4, np.inf),
        lowest_angle=np.radians([-20, -30, -90, -90]),
        highest_angle=np.radians([90.0, 25, 90, 90]),
    )
    relaxation = relax(network)
    assert relaxation.variables.sine.size == 3
    rng = np.random.default_rng(5)
    # Angle of 10 minus angle of 20: at least -20 by the first line, at least -25 and at most 30 by the second.
    for degrees, kept in [(-19, True), (-21, False), (29, True), (31, False)]:
        x = operate(network, relaxation, np.exp(1j * np.radians([degrees, 0, 0])), generation_of(network, rng))
        assert (violation(relaxation.cone, x) < 1e-12) == kept
    with pytest.raises(InputError, match="parallel lines between buses 10, 20 leave no angle"):
        relax(with_lines(network, lowest_angle=np.radians([40.0, -30, -90, -90])))


def test_limits_beyond_a_right_angle_are_not_turned_round(small, operate):
    """s <= tan(100°) c would refuse nearly all angles that a limit of 100° allows."""
    wide = np.full(4, np.radians(100))
    network = with_lines(unlimited(small), lowest_angle=-wide, highest_angle=wide)
    relaxation = relax(network)
    assert relaxation.cone.nonnegative == relax(unlimited(small)).cone.nonnegative
    for degrees in (0, 60, 95, -95):
        voltages = np.exp(1j * np.radians([degrees, 0, 0]))
        x = operate(network, relaxation, voltages, generation_of(network, np.random.default_rng(7)))
        assert violation(relaxation.cone, x) < 1e-12


def test_no_limit_gives_no_row(small):
    assert relax(unlimited(small)).cone.nonnegative == relax(small).cone.nonnegative - 3
    # 4 flows per line, and the generator whose active power is 0 to 0.
    assert relax(small).cone.zero == 4 * 4 + 1
    assert relax(unlimited(small)).cone.second_order == (4, 4, 4)


def test_equations_are_scaled(pglib):
    relaxation = relax(read_matpower(pglib("case1354_pegase")))
    lengths = row_norms(relaxation.cone.rows.tocsr()[: relaxation.cone.zero])[0]
    np.testing.assert_allclose(lengths, 1, rtol=1e-12)


@pytest.mark.parametrize(("name", "square", "absolute"), [("case14", 5, 5), ("case118", 13, 13)])
def test_row_norms(ieee, name, square, absolute):
    euclidean, total = row_norms(relax(ieee(name)).balance)
    assert euclidean.max() == pytest.approx(np.sqrt(square))
    assert total.max() == pytest.approx(absolute)


@pytest.mark.parametrize(
    ("name", "with_shunts", "without"), [("case300_ieee", 3.87, np.sqrt(12)), ("case1354_pegase", 4.73, np.sqrt(18))]
)
def test_shunts_count_in_row_norms(pglib, name, with_shunts, without):
    network = read_matpower(pglib(name))
    bare = np.zeros(len(network.buses))
    stripped = dataclasses.replace(
        network, buses=dataclasses.replace(network.buses, conductance=bare, susceptance=bare)
    )
    assert row_norms(relax(network).balance)[0].max() == pytest.approx(with_shunts, abs=0.006)
    assert row_norms(relax(stripped).balance)[0].max() == pytest.approx(without)


def test_a_load_moves_the_gradient_by_its_row(small):
    """Sensitivity: the gradient 2 balance' (balance x + loads) changes by 2 β a_i when load i changes by β."""
    relaxation = relax(small)
    euclidean, absolute = row_norms(relaxation.balance)
    x = np.random.default_rng(6).normal(size=relaxation.variables.size)

    def gradient(loads):
        return 2 * relaxation.balance.T @ (relaxation.balance @ x + loads)

    for row in range(relaxation.loads.size):
        changed = relaxation.loads.copy()
        changed[row] += 0.01
        moved = gradient(changed) - gradient(relaxation.loads)
        assert np.linalg.norm(moved) == pytest.approx(2 * 0.01 * euclidean[row])
        assert np.abs(moved).sum() == pytest.approx(2 * 0.01 * absolute[row])
