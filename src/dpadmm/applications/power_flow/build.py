"""From the tables of a case to a network in per unit, with everything refused that a file can have wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.csgraph import connected_components

from dpadmm._arrays import BoolArray, FloatArray, IntArray
from dpadmm.applications.power_flow.network import Buses, Generators, Lines, Network
from dpadmm.errors import InputError

COLUMNS = {
    "bus": ("bus_i", "type", "Pd", "Qd", "Gs", "Bs", "area", "Vm", "Va", "baseKV", "zone", "Vmax", "Vmin"),
    "gen": ("bus", "Pg", "Qg", "Qmax", "Qmin", "Vg", "mBase", "status", "Pmax", "Pmin"),
    "branch": (
        *("fbus", "tbus", "r", "x", "b", "rateA", "rateB", "rateC", "ratio", "angle", "status"),
        *("angmin", "angmax"),
    ),
    "gencost": ("model", "startup", "shutdown", "n"),
}
OPTIONAL = ("angmin", "angmax")  # an older file may end before them; 0 is "no limit"


@dataclass(frozen=True, eq=False)
class CaseTable:
    """One matrix of a case; `numbers` say where each row stands, counted in lines of the file or rows of the table."""

    source: str
    name: str
    values: FloatArray
    numbers: IntArray
    counted: str = "line"

    def __post_init__(self) -> None:
        needed = [column for column in COLUMNS[self.name] if column not in OPTIONAL]
        if len(self) and self.values.shape[1] < len(needed):
            raise InputError(
                f"{self.place(0)}: {self.values.shape[1]} columns; MATPOWER's case format (version 2) has at least "
                f"{len(needed)} here: {', '.join(needed)}."
            )

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, column: str) -> FloatArray:
        position = COLUMNS[self.name].index(column)
        return self.values[:, position] if position < self.values.shape[1] else np.zeros(len(self))

    def place(self, row: int) -> str:
        return f"{self.source}, {self.counted} {self.numbers[row]} ({self.name})"

    def take(self, rows: BoolArray) -> CaseTable:
        return replace(self, values=self.values[rows], numbers=self.numbers[rows])

    def require(self, good: BoolArray, why: Callable[[int], str]) -> None:
        """Refuses the first row that is not good."""
        bad = np.flatnonzero(~good)
        if bad.size:
            raise InputError(f"{self.place(int(bad[0]))}: {why(int(bad[0]))}")

    def finite(self, *columns: str) -> None:
        for column in columns:
            bad = np.flatnonzero(~np.isfinite(self[column]))
            if bad.size:
                value = self[column][bad[0]]
                raise InputError(f"{self.place(int(bad[0]))}: {column} is {value}; a finite number is needed.")

    def ordered(self, low: str, high: str) -> None:
        """Limits with a finite number between them; each may be infinite on its own side, neither may be NaN."""
        self.require(
            (self[low] <= self[high]) & (self[low] < np.inf) & (self[high] > -np.inf),
            lambda row: (
                f"{low} is {self[low][row]:g} and {high} is {self[high][row]:g}; "
                "the first must be a number not above the second."
            ),
        )


@dataclass(frozen=True, eq=False)
class Case:
    """Powers in MW and MVAr, angles in degrees, as MATPOWER has them."""

    name: str
    base_mva: float
    bus: CaseTable
    gen: CaseTable
    branch: CaseTable
    gencost: CaseTable | None = None

    @property
    def source(self) -> str:
        return self.bus.source


ISOLATED = 4  # a bus type
POLYNOMIAL = 2  # a cost model
FULL_TURN = 360.0  # an angle limit of this size or more limits nothing


def build(case: Case) -> Network:
    """The network without what is out of service; an `InputError` names what is wrong, and where."""
    if not 0 < case.base_mva < np.inf:
        raise InputError(f"{case.source}: baseMVA is {case.base_mva:g}; a positive number is needed.")
    buses = _buses(case)
    network = Network(case.name, case.base_mva, buses, _lines(case, buses), _generators(case, buses))
    islands, island = connected_components(network.adjacency, directed=False)
    if islands > 1:
        cut_off = np.flatnonzero(island != np.argmax(np.bincount(island)))
        raise InputError(
            f"{case.source}: the network falls into {islands} islands; no line in service joins buses "
            f"{network.named(cut_off)} to the rest. Mark them as isolated (type {ISOLATED}) or make a case of each."
        )
    return network


def _buses(case: Case) -> Buses:
    table = case.bus
    table.finite("bus_i", "type")
    ids, kinds = table["bus_i"], table["type"]
    table.require(np.isin(kinds, (1, 2, 3, ISOLATED)), lambda row: f"type {kinds[row]:g} is none of 1, 2, 3, 4.")
    table.require((ids == np.round(ids)) & (ids > 0), lambda row: f"bus number {ids[row]:g} is no positive integer.")
    first = np.isin(np.arange(ids.size), np.unique(ids, return_index=True)[1])
    table.require(first, lambda row: f"bus number {ids[row]:g} is there twice; each bus needs one of its own.")
    table = table.take(kinds != ISOLATED)
    if not len(table):
        raise InputError(f"{case.source}: there is no bus in service; the table bus needs one or more.")

    table.finite("Pd", "Qd", "Gs", "Bs", "Vmax", "Vmin")
    table.ordered("Vmin", "Vmax")
    low, high = table["Vmin"], table["Vmax"]
    table.require(
        (low >= 0) & (high > 0),
        lambda row: f"Vmin is {low[row]:g} and Vmax is {high[row]:g}; a voltage magnitude is positive.",
    )
    return Buses(
        table["bus_i"].astype(np.int64),
        active_load=table["Pd"] / case.base_mva,
        reactive_load=table["Qd"] / case.base_mva,
        conductance=table["Gs"] / case.base_mva,
        susceptance=table["Bs"] / case.base_mva,
        lowest_voltage=low,
        highest_voltage=high,
    )


def _lines(case: Case, buses: Buses) -> Lines:
    table = case.branch
    table.finite("status")
    table = _attached(table.take(table["status"] > 0), case, "fbus", "tbus")
    start, end = (_positions(buses, table[column]) for column in ("fbus", "tbus"))
    table.require(start != end, lambda row: f"the line joins bus {table['fbus'][row]:g} to itself.")
    table.finite("r", "x", "b", "ratio", "angle")
    table.require(
        (table["r"] != 0) | (table["x"] != 0),
        lambda row: (
            f"the line from bus {table['fbus'][row]:g} to bus {table['tbus'][row]:g} has no impedance (r = x = 0); "
            "merge the two buses, or give it a small reactance."
        ),
    )
    for column in ("ratio", "rateA"):
        values = table[column]
        table.require(values >= 0, lambda row: f"{column} is {values[row]:g}; it is 0 or more.")  # noqa: B023
    low, high = table["angmin"], table["angmax"]
    # MATPOWER reads 0 as "no limit" too, on either side. tan(360°) = 0, so a limit kept would force equal angles.
    low = np.where((low == 0) | (low <= -FULL_TURN), -np.inf, low)
    high = np.where((high == 0) | (high >= FULL_TURN), np.inf, high)
    table.require(low <= high, lambda row: f"angmin is {low[row]:g} and angmax is {high[row]:g}: no angle is between.")
    return Lines(
        start,
        end,
        resistance=table["r"],
        reactance=table["x"],
        charging=table["b"],
        ratio=np.where(table["ratio"] == 0, 1.0, table["ratio"]),
        shift=np.radians(table["angle"]),
        rating=np.where(table["rateA"] == 0, np.inf, table["rateA"] / case.base_mva),
        lowest_angle=np.radians(low),
        highest_angle=np.radians(high),
    )


def _generators(case: Case, buses: Buses) -> Generators:
    table = case.gen
    table.finite("status")
    in_service = table["status"] > 0
    costs = _costs(case, in_service & ~_hangs_on_isolated(case, table["bus"]))
    table = _attached(table.take(in_service), case, "bus")
    table.ordered("Pmin", "Pmax")
    table.ordered("Qmin", "Qmax")
    return Generators(
        _positions(buses, table["bus"]),
        lowest_active=table["Pmin"] / case.base_mva,
        highest_active=table["Pmax"] / case.base_mva,
        lowest_reactive=table["Qmin"] / case.base_mva,
        highest_reactive=table["Qmax"] / case.base_mva,
        cost=costs,
    )


def _attached(table: CaseTable, case: Case, *columns: str) -> CaseTable:
    """The rows without those that hang on an isolated bus; one at a bus that does not exist is refused."""
    hanging = np.zeros(len(table), dtype=bool)
    for column in columns:
        numbers = table[column]
        known = np.isin(numbers, case.bus["bus_i"])
        table.require(known, lambda row: f"{column} is {numbers[row]:g}, and there is no such bus.")  # noqa: B023
        hanging |= _hangs_on_isolated(case, numbers)
    return table.take(~hanging)


def _hangs_on_isolated(case: Case, numbers: FloatArray) -> BoolArray:
    return np.isin(numbers, case.bus["bus_i"][case.bus["type"] == ISOLATED])


def _positions(buses: Buses, numbers: FloatArray) -> IntArray:
    order = np.argsort(buses.ids)
    return order[np.searchsorted(buses.ids, numbers, sorter=order)].astype(np.int64)


def _costs(case: Case, kept: BoolArray) -> FloatArray | None:
    """(a, b, c) per generator for p in per unit, or None: a cost that cannot be read stops nobody, as none is used."""
    table = case.gencost
    if table is None or not len(table):
        return None
    generators = len(case.gen)
    if len(table) not in (generators, 2 * generators):  # twice: costs of reactive power follow
        raise InputError(
            f"{table.place(len(table) - 1)}: {len(table)} rows of gencost for {generators} generators; "
            "one for each, or two, or no such table."
        )
    cost = np.zeros((generators, 3))
    for row in range(generators):
        count = table["n"][row]
        if table["model"][row] != POLYNOMIAL or count not in (1, 2, 3) or table.values.shape[1] < 4 + count:
            return None
        count = int(count)
        cost[row, 3 - count :] = table.values[row, 4 : 4 + count]
    cost *= case.base_mva ** np.arange(2, -1, -1)
    return cost[kept] if np.isfinite(cost).all() else None
