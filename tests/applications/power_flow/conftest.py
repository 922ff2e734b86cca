"""Networks to test with: one written by hand, a grid without files, and the public cases where they are at hand."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest

from dpadmm.applications.power_flow import (
    Buses,
    Generators,
    Lines,
    Network,
    choose,
    decompose,
    given,
    load,
    read_matpower,
)

# Three buses in service, numbered out of order; two lines between 10 and 20 in opposite directions, one of them a
# transformer with a shift; two generators at bus 10. What is out of service or hangs on bus 7 must leave no trace.
SMALL = """\
function mpc = small
mpc.version = '2';
mpc.baseMVA = 50.0;
%% bus data, 50% of it comments
mpc.bus = [
\t10 3  0   0   0  0   1 1 0 1 1 1.10 0.90;
\t20 2  30  -5  3  19  1 1 0 1 1 1.05 0.95; % shunt
\t7  4  99  99  9  9   1 1 0 1 1 1.00 1.00
\t5  1  2.5e1, 10, 0 -2.5, 1 1 0 1 1 1.20 .8; ];
mpc.gen = [
\t10 0 0  Inf -30 1 100 1 80 0;
\t10 0 0  20 -Inf 1 100 1 40 10;
\t5  0 0  15 -15  1 100 0 60 0;
\t7  0 0  15 -15  1 100 1 60 0;
\t5  0 0  15 -15  1 100 1 0 ...  % a synchronous condenser
\t0;
];
mpc.branch = [
\t10 20 0.02 0.11 0.04 40 0 0 0.95 12 1 -360 360;
\t20 10 0.03 0.20 0.00 0 0 0 0 0 1 -30 25;
\t20 5  0.01 0.08 0.06 25 0 0 0 0 1 0 0;
\t5 10  0.05 0.30 0.02 0 0 0 1.02 -7 1 -360 40;
\t5 10  0.05 0.30 0.02 0 0 0 0 0 0 -360 360;
\t7 10  0.05 0.30 0.02 0 0 0 0 0 1 -360 360;
];
mpc.gencost = [
\t2 0 0 3 0.5 20 7;
\t2 0 0 2 30 1 0;
\t2 0 0 3 9 9 9;
\t2 0 0 3 9 9 9;
\t2 0 0 3 0 0 0;
];
mpc.bus_name = { 'a'; 'b' };
"""


@pytest.fixture
def written(tmp_path):
    """Text put into a case file."""

    def write(text, name="small.m"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def small_text():
    return SMALL


@pytest.fixture
def small(written):
    return read_matpower(written(SMALL))


@pytest.fixture
def halves(small):
    """The network written by hand in two zones, joined by three lines."""
    return decompose(small, given(small, [[10, 5], [20]]))


@pytest.fixture
def with_loads():
    """The same network with other loads, active and reactive."""

    def change(network, active, reactive):
        buses = dataclasses.replace(network.buses, active_load=active, reactive_load=reactive)
        return dataclasses.replace(network, buses=buses)

    return change


@pytest.fixture
def overloaded(small, with_loads):
    """More than can be supplied: the best that is possible misses by far."""
    return with_loads(small, 6 * small.buses.active_load, 6 * small.buses.reactive_load)


@pytest.fixture
def contradictory(small):
    """Voltages far apart force a flow, and a rating forbids it."""
    buses = dataclasses.replace(
        small.buses, lowest_voltage=np.array([1.5, 0.5, 0.5]), highest_voltage=np.array([1.5, 0.6, 0.6])
    )
    return dataclasses.replace(small, buses=buses, lines=dataclasses.replace(small.lines, rating=np.full(4, 0.1)))


@pytest.fixture
def flat():
    """A zone's vector without flow at voltage 1."""

    def vector(zone):
        at = zone.relaxation.variables
        x = np.zeros(at.size)
        x[at.voltage] = x[at.cosine] = 1.0
        return x

    return vector


@pytest.fixture
def metric():
    """A step's weights: 1/eta, and rho more on what is shared."""

    def weights(zone, inverse_step, rho=100.0):
        found = np.full(zone.members.size, inverse_step)
        found[zone.shared] += rho
        return found

    return weights


@pytest.fixture
def pglib():
    """The path of a PGLib file."""

    def path(name):
        folder = os.environ.get("DPADMM_DATA")
        if folder is None:
            pytest.skip("DPADMM_DATA is not set; it names the folder that has pglib-opf/")
        file = Path(folder) / "pglib-opf" / f"pglib_opf_{name}.m"
        if not file.is_file():
            pytest.skip(f"there is no pglib-opf/{file.name} in DPADMM_DATA")
        return file

    return path


@pytest.fixture
def ieee():
    """A case of pypower."""

    def case(name):
        pytest.importorskip("pypower", reason="pypower (extra `power`) is not installed")
        return load(name)

    return case


@pytest.fixture
def case14(ieee):
    """case14 in its three zones."""
    network = ieee("case14")
    return decompose(network, choose(network, 3))


@pytest.fixture
def grid():
    """A network of rows x columns buses with random data and some doubled lines."""

    def build(rows=4, columns=5, seed=0):
        rng = np.random.default_rng(seed)
        number = np.arange(rows * columns).reshape(rows, columns)
        across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()])
        down = np.stack([number[:-1].ravel(), number[1:].ravel()])
        single = np.concatenate([across, down], axis=1)
        start, end = np.concatenate([single, single[::-1, ::4]], axis=1)
        lines, buses, generators = start.size, number.size, number.size // 3
        bus = rng.choice(buses, generators)
        return Network(
            "grid",
            100.0,
            Buses(
                100 + rng.permutation(buses),
                *rng.uniform(0, 0.3, (2, buses)),
                conductance=rng.uniform(0, 0.1, buses),
                susceptance=rng.uniform(-0.2, 0.2, buses),
                lowest_voltage=np.full(buses, 0.9),
                highest_voltage=np.full(buses, 1.1),
            ),
            Lines(
                start,
                end,
                resistance=rng.uniform(0.01, 0.1, lines),
                reactance=rng.uniform(0.05, 0.3, lines),
                charging=rng.uniform(0, 0.1, lines),
                ratio=rng.choice([1.0, 0.97], lines),
                shift=rng.choice([0.0, 0.1], lines),
                rating=rng.choice([0.5, 2.0, np.inf], lines),
                lowest_angle=np.full(lines, -0.5),
                highest_angle=rng.choice([0.4, 0.5, np.inf], lines),
            ),
            Generators(bus, np.zeros(generators), np.full(generators, 2.0), *np.outer([-1, 1], np.ones(generators))),
        )

    return build


@pytest.fixture
def operate():
    """The variable vector at complex voltages and given generation, by circuit theory alone.

    The transformer at the start turns the voltage into V_start / (ratio e^{i shift}) and keeps the power; behind it are
    the series impedance and half of the charging at either side.
    """

    def vector(network, relaxation, voltages, generation):
        lines, pairs, at = network.lines, network.pairs, relaxation.variables
        inner = voltages[lines.start] / (lines.ratio * np.exp(1j * lines.shift))
        outer = voltages[lines.end]
        current = (inner - outer) / (lines.resistance + 1j * lines.reactance)
        half = 0.5j * lines.charging
        into_start, into_end = inner * np.conj(current + half * inner), outer * np.conj(half * outer - current)
        product = voltages[pairs.low] * voltages[pairs.high].conj()
        x = np.full(at.size, np.nan)
        x[at.voltage] = np.abs(voltages) ** 2
        x[at.cosine], x[at.sine] = product.real, product.imag
        x[at.active_start], x[at.reactive_start] = into_start.real, into_start.imag
        x[at.active_end], x[at.reactive_end] = into_end.real, into_end.imag
        x[at.active], x[at.reactive] = generation.real, generation.imag
        return x

    return vector
