"""The tables of a MATPOWER case as they were read, and how to refuse a row of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dpadmm._arrays import BoolArray, FloatArray, IntArray
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
class Table:
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

    def take(self, rows: BoolArray) -> Table:
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
    bus: Table
    gen: Table
    branch: Table
    gencost: Table | None = None

    @property
    def source(self) -> str:
        return self.bus.source
