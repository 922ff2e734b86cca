"""Case files: what they say arrives in per unit, what is out of service does not, and every mistake is placed."""

import sys

import numpy as np
import pytest

from dpadmm.applications.power_flow import load, read_matpower
from dpadmm.errors import InputError


def test_buses(small):
    assert small.name == "small"
    assert small.base_mva == 50
    buses = small.buses
    assert buses.ids.tolist() == [10, 20, 5]
    assert buses.active_load.tolist() == [0, 0.6, 0.5]
    assert buses.reactive_load.tolist() == [0, -0.1, 0.2]
    assert buses.conductance.tolist() == [0, 0.06, 0]
    assert buses.susceptance.tolist() == [0, 0.38, -0.05]
    assert buses.lowest_voltage.tolist() == [0.9, 0.95, 0.8]
    assert buses.highest_voltage.tolist() == [1.1, 1.05, 1.2]


def test_lines(small):
    lines = small.lines
    assert small.buses.ids[lines.start].tolist() == [10, 20, 20, 5]
    assert small.buses.ids[lines.end].tolist() == [20, 10, 5, 10]
    assert lines.ratio.tolist() == [0.95, 1, 1, 1.02]
    np.testing.assert_allclose(np.degrees(lines.shift), [12, 0, 0, -7])
    assert lines.rating.tolist() == [0.8, np.inf, 0.5, np.inf]
    np.testing.assert_allclose(np.degrees(lines.lowest_angle), [-np.inf, -30, -np.inf, -np.inf])
    np.testing.assert_allclose(np.degrees(lines.highest_angle), [np.inf, 25, np.inf, 40])


def test_generators(small):
    generators = small.generators
    assert small.buses.ids[generators.bus].tolist() == [10, 10, 5]
    assert generators.lowest_active.tolist() == [0, 0.2, 0]
    assert generators.highest_active.tolist() == [1.6, 0.8, 0]
    assert generators.lowest_reactive.tolist() == [-0.6, -np.inf, -0.3]
    assert generators.highest_reactive.tolist() == [np.inf, 0.4, 0.3]
    # 0.5 per MW² and 20 per MW, with 50 MW to the unit; the second row has a polynomial of degree 1.
    assert generators.cost.tolist() == [[1250, 1000, 7], [0, 1500, 1], [0, 0, 0]]


def test_pairs(small):
    pairs = small.pairs
    assert sorted(zip(pairs.low.tolist(), pairs.high.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 2)]
    assert pairs.of_line[0] == pairs.of_line[1]
    assert pairs.direction.tolist() == [1, -1, 1, -1]
    assert small.adjacency.toarray().tolist() == [[0, 2, 1], [2, 0, 1], [1, 1, 0]]


def test_angle_limits_and_costs_may_be_missing(written, small_text):
    short = small_text.replace(" 1 -360 360;", " 1;").replace(" 1 -30 25;", " 1;").replace(" 1 0 0;", " 1;")
    short = short.replace(" 1 -360 40;", " 1;").replace(" 0 -360 360;", " 0;")
    network = read_matpower(written(short[: short.index("mpc.gencost")]))
    assert np.isinf(network.lines.lowest_angle).all()
    assert np.isinf(network.lines.highest_angle).all()
    assert network.generators.cost is None


@pytest.mark.parametrize("row", ["1 0 0 2 0 0 10 5", "2 0 0 4 1 1 1 1"])
def test_costs_of_another_kind_are_left_out(written, small_text, row):
    rows = "\n".join([row + ";"] * 5)
    text = small_text[: small_text.index("mpc.gencost")] + f"mpc.gencost = [\n{rows}\n];\n"
    assert read_matpower(written(text)).generators.cost is None


def test_continued_lines_block_comments_and_windows_ends(written, small_text, small):
    text = small_text.replace("mpc.bus = [", "%{\nmpc.bus = [ 1 2 3 ];\n%}\nmpc.bus=[ ...\n")
    text = text.replace("\n", "\r\n")
    network = read_matpower(written(text))
    assert network.buses.ids.tolist() == small.buses.ids.tolist()
    assert network.generators.highest_active.tolist() == small.generators.highest_active.tolist()


WRONG = {
    "no such bus": ("20 5  0.01", "20 6  0.01", r"line 21 \(branch\): tbus is 6, and there is no such bus"),
    "generator nowhere": ("10 0 0  Inf", "11 0 0  Inf", r"line 11 \(gen\): bus is 11, and there is no such bus"),
    "bus twice": ("5  1  2.5e1", "20  1  2.5e1", r"line 9 \(bus\): bus number 20 is there twice"),
    "half a bus": ("5  1  2.5e1", "5.5  1  2.5e1", r"bus number 5.5 is no positive integer"),
    "bus type": ("20 2  30", "20 6  30", r"line 7 \(bus\): type 6 is none of 1, 2, 3, 4"),
    "voltages": ("1.05 0.95", "0.90 0.95", r"line 7 \(bus\): Vmin is 0.95 and Vmax is 0.9;"),
    "negative voltage": ("1.05 0.95", "1.05 -0.95", r"line 7 \(bus\): Vmin is -0.95"),
    "infinite voltage": ("1.05 0.95", "Inf 0.95", r"line 7 \(bus\): Vmax is inf; a finite number"),
    "generation": ("1 80 0;", "1 80 81;", r"line 11 \(gen\): Pmin is 81 and Pmax is 80"),
    "reactive": ("15 -15  1 100 1 0", "-16 -15  1 100 1 0", r"line 15 \(gen\): Qmin is -15 and Qmax is -16"),
    "not a number in a limit": ("1 80 0;", "1 NaN 0;", r"line 11 \(gen\): Pmin is 0 and Pmax is nan"),
    "not a number in a load": ("20 2  30", "20 2  NaN", r"line 7 \(bus\): Pd is nan; a finite number is needed"),
    "not a number in a status": ("1.02 -7 1", "1.02 -7 NaN", r"line 22 \(branch\): status is nan"),
    "not a number in a rating": ("0.04 40", "0.04 NaN", r"line 19 \(branch\): rateA is nan"),
    "not a number in an angle": ("-30 25", "NaN 25", r"line 20 \(branch\): angmin is nan"),
    "negative ratio": ("0 0.95 12", "0 -0.95 12", r"line 19 \(branch\): ratio is -0.95"),
    "angles": ("-30 25", "30 25", r"line 20 \(branch\): angmin is 30 and angmax is 25"),
    "impedance": ("0.01 0.08", "0.00 0.00", r"line 21 \(branch\): the line from bus 20 to bus 5 has no impedance"),
    "loop": ("20 5  0.01", "5 5  0.01", r"line 21 \(branch\): the line joins bus 5 to itself"),
    "base": ("baseMVA = 50.0", "baseMVA = -50", r"baseMVA is -50; a positive number"),
    "base in words": ("baseMVA = 50.0", "baseMVA = fifty", r"line 3: mpc.baseMVA is not a number"),
    "base computed": ("baseMVA = 50.0", "baseMVA = 50*2", r"line 3: mpc.baseMVA is not a number"),
    "version": ("'2'", "'1'", r"line 2: the version of the case format is not '2'"),
    "word": ("20 2  30", "20 2  3O", r"line 7: '3O' in mpc.bus is not a number"),
    "formula": ("20 2  30", "20 2  3*10", r"line 7: '3\*10' in mpc.bus is not a number"),
    "short row": ("30  -5  3", "30  -5", r"line 7: 12 numbers in a row of mpc.bus; its first has 13"),
    "direct current": (
        "mpc.bus_name",
        "mpc.dcline = [1 2];\nmpc.bus_name",
        r"direct-current lines are not in the model",
    ),
    "open bracket": (".8; ];", ".8;", r"line 5: the bracket that opens mpc.bus is not closed"),
    "no matrix": ("mpc.gen = [", "mpc.gen = zeros(3) + [", r"line 10: mpc.gen is not a matrix"),
    "scaled": (".8; ];", ".8; ] * 2;", r"line 9: something follows the matrix mpc.bus"),
    "changed": ("mpc.bus_name", "mpc.bus(:, 3) = 2 * mpc.bus(:, 3);\nmpc.bus_name", r"line 33: mpc.bus is changed"),
    "given twice": ("mpc.bus_name", "mpc.baseMVA = 1;\nmpc.bus_name", r"line 33: mpc.baseMVA is changed"),
    "costs": ("2 0 0 3 0 0 0;\n", "", r"line 30 \(gencost\): 4 rows of gencost for 5 generators"),
    "missing table": ("mpc.branch = [", "mpc.lines = [", r"has no mpc.branch"),
    "all isolated": ("\t10 3", "];mpc.other = [\n\t10 3", r"there is no bus in service"),
    "few columns": (
        "mpc.gen = [",
        "mpc.gen = [1 2 3];mpc.other = [",
        r"line 10 \(gen\): 3 columns; .* at least 10 here: bus, Pg",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_files_are_placed(written, small_text, what):
    old, new, message = WRONG[what]
    assert small_text.count(old) >= 1
    with pytest.raises(InputError, match=message) as caught:
        read_matpower(written(small_text.replace(old, new, 1)))
    assert "small.m" in str(caught.value)


def test_islands_are_named(written, small_text):
    apart = small_text.replace("\t20 5  0.01 0.08 0.06 25 0 0 0 0 1", "\t20 5  0.01 0.08 0.06 25 0 0 0 0 0")
    apart = apart.replace("1.02 -7 1", "1.02 -7 0")
    with pytest.raises(InputError, match="falls into 2 islands; no line in service joins buses 5 to the rest"):
        read_matpower(written(apart))


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "mpc.baseMVA = 100", "mpc.bus =", "mpc.bus = [1 2", "\0\1\2"])
def test_other_files_are_refused(written, text):
    with pytest.raises(InputError, match=r"small\.m"):
        read_matpower(written(text))


def test_names_and_paths(written, tmp_path, small_text):
    assert len(load(written(small_text)).buses) == 3
    with pytest.raises(InputError, match=r"there is no file .*nowhere\.m"):
        load(tmp_path / "nowhere.m")
    with pytest.raises(InputError, match=r"the name of a MATPOWER case file ends in \.m"):
        load(written(small_text, "small.txt"))
    with pytest.raises(InputError, match=r"unknown case 'case15'; did you mean 'case14'\?.*\.m"):
        load("case15")


def test_without_pypower(monkeypatch):
    monkeypatch.delitem(sys.modules, "pypower.case14", raising=False)
    monkeypatch.setitem(sys.modules, "pypower", None)
    with pytest.raises(InputError, match=r"pypower, which is not installed; run pip install 'dpadmm\[power\]'"):
        load("case14")


@pytest.mark.parametrize(
    ("name", "buses", "lines", "generators"),
    [("case14", 14, 20, 5), ("case118", 118, 186, 54), ("case300", 300, 411, 69)],
)
def test_pypower(ieee, name, buses, lines, generators):
    network = ieee(name)
    assert (len(network.buses), len(network.lines), len(network.generators)) == (buses, lines, generators)
    assert np.isinf(network.lines.highest_angle).all()


@pytest.mark.parametrize("name", ["case14", "case118", "case300"])
def test_pypower_and_pglib_have_the_same_lines(ieee, pglib, name):
    """Two sources in two formats: PGLib changed limits, costs and loads of the IEEE cases, but not the lines."""
    one, other = ieee(name), read_matpower(pglib(f"{name}_ieee"))
    # pypower's case300 lacks the one phase shift that the network has.
    fields = ("start", "end", "resistance", "reactance", "charging", "ratio", *(["shift"] if name != "case300" else []))
    for field in fields:
        np.testing.assert_allclose(getattr(one.lines, field), getattr(other.lines, field), atol=1e-12)
    np.testing.assert_array_equal(one.buses.ids, other.buses.ids)
    np.testing.assert_allclose(one.buses.susceptance, other.buses.susceptance)
    assert np.abs(other.lines.highest_angle).max() <= np.pi / 2
    assert np.isfinite(other.lines.rating).all()


def test_large_file(pglib):
    network = read_matpower(pglib("case1354_pegase"))
    assert (len(network.buses), len(network.lines), len(network.generators)) == (1354, 1991, 260)
    assert len(network.pairs) == 1710
