"""Numbers that vary by round and by agent as somebody lists them: penalties (`rho`) and noise (`noise_schedule`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._ranges import COUNTS, SIZES, check_ranges, ranged
from dpadmm.admm.setting import Setting
from dpadmm.errors import InputError


@dataclass(frozen=True)
class Listed:
    """One row of numbers for each round k = 1, 2, ...; after the last row, that one stays.

    A row has one number for all agents, or one for each. In a recipe with several phases k counts how often the phase
    (or, for penalties, the cycle) has come.

    Args:
        agents: How many numbers a row has.
        numbers: Row after row.
    """

    agents: float = ranged(COUNTS, 1.0)
    numbers: float | tuple[float, ...] = ranged(SIZES, 1.0)

    def __post_init__(self) -> None:
        check_ranges(self, "sequence")
        count = len(self.numbers) if isinstance(self.numbers, tuple) else 1
        if count == 0 or count % self.agents:
            raise InputError(f"sequence: {count} numbers in all make no whole rounds of {self.agents:g} each.")

    @property
    def rows(self) -> FloatArray:
        """(rounds, agents)"""
        return np.reshape(np.asarray(self.numbers, dtype=np.float64), (-1, int(self.agents)))

    def check_agents(self, what: str, agents: int) -> None:
        """Raises an `InputError` where rows are for another number of agents."""
        if self.agents not in (1, agents):
            raise InputError(
                f"{what} 'sequence': {self.agents:g} numbers a round, and {agents} agents: give one, or one for each."
            )

    def at(self, setting: Setting, time: int) -> float | FloatArray:
        """The numbers of the k-th time: one for all agents, or one for each agent of the batch."""
        rows = self.rows
        row = rows[min(time, len(rows)) - 1]
        return float(row[0]) if self.agents == 1 else row[setting.members]
