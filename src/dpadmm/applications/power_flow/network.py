"""A power network in per unit: buses joined by lines, with generators at some of them.

Everything refers to buses by their position in `Buses`; the numbers of the file are kept in `Buses.ids` for messages
and partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpadmm._arrays import FloatArray, IntArray

ComplexArray = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class Buses:
    ids: IntArray  # the numbers of the file
    active_load: FloatArray
    reactive_load: FloatArray
    conductance: FloatArray  # of the shunt: power drawn at voltage 1
    susceptance: FloatArray  # of the shunt: reactive power given at voltage 1
    lowest_voltage: FloatArray  # magnitude
    highest_voltage: FloatArray

    def __len__(self) -> int:
        return self.ids.size


@dataclass(frozen=True, eq=False)
class Lines:
    """Lines and transformers; the transformer stands at `start`."""

    start: IntArray
    end: IntArray
    resistance: FloatArray
    reactance: FloatArray
    charging: FloatArray  # susceptance of the whole line
    ratio: FloatArray  # of the transformer; 1 for a plain line
    shift: FloatArray  # radians
    rating: FloatArray  # largest apparent power at either end; inf where there is no limit
    lowest_angle: FloatArray  # angle of start minus angle of end, radians; -inf where there is no limit
    highest_angle: FloatArray  # inf where there is no limit

    def __len__(self) -> int:
        return self.start.size

    @cached_property
    def admittances(self) -> tuple[ComplexArray, ComplexArray, ComplexArray, ComplexArray]:
        """Y_ff, Y_ft, Y_tf, Y_tt: the current into a line is Y_ff V_start + Y_ft V_end at its start, and
        Y_tf V_start + Y_tt V_end at its end."""
        series = 1 / (self.resistance + 1j * self.reactance).astype(np.complex128)
        own = series + (0.5j * self.charging).astype(np.complex128)
        transformer = self.ratio * np.exp(1j * self.shift).astype(np.complex128)
        return own / self.ratio**2, -series / transformer.conj(), -series / transformer, own


@dataclass(frozen=True, eq=False)
class Generators:
    bus: IntArray
    lowest_active: FloatArray
    highest_active: FloatArray
    lowest_reactive: FloatArray
    highest_reactive: FloatArray
    # Money per hour, (a, b, c) for a p² + b p + c with p in per unit. Nothing here minimises it; published optima are
    # optima of cost, so the tests do. None where the file has no costs, or other than such polynomials.
    cost: FloatArray | None = None

    def __len__(self) -> int:
        return self.bus.size


@dataclass(frozen=True, eq=False)
class Pairs:
    """Buses that one line or several parallel ones join, each pair once."""

    low: IntArray
    high: IntArray
    of_line: IntArray  # the pair of each line
    direction: FloatArray  # of each line: 1 from low to high, -1 from high to low

    def __len__(self) -> int:
        return self.low.size


@dataclass(frozen=True, eq=False)
class Network:
    name: str
    base_mva: float  # what 1 per unit of power is
    buses: Buses
    lines: Lines
    generators: Generators

    @cached_property
    def adjacency(self) -> csr_array:
        """Entry (i, j): how many lines join the two buses."""
        size = len(self.buses)
        ends = np.concatenate([self.lines.start, self.lines.end])
        others = np.concatenate([self.lines.end, self.lines.start])
        return csr_array((np.ones(ends.size, dtype=np.int64), (ends, others)), shape=(size, size))

    @cached_property
    def pairs(self) -> Pairs:
        low, high = np.minimum(self.lines.start, self.lines.end), np.maximum(self.lines.start, self.lines.end)
        ends, pair = np.unique(np.stack([low, high], axis=1), axis=0, return_inverse=True)
        return Pairs(ends[:, 0], ends[:, 1], pair.reshape(-1), np.where(self.lines.start == low, 1.0, -1.0))

    def named(self, positions: IntArray, most: int = 8) -> str:
        """Buses by the numbers of the file, for a message."""
        ids = np.sort(self.buses.ids[positions])
        text = ", ".join(map(str, ids[:most]))
        return f"{text} and {ids.size - most} more" if ids.size > most else text
