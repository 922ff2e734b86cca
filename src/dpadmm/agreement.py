"""The terms all parties of a run agree on: the spec and the public facts it needs. Its digest names it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpadmm.admm.algorithm import Plan
from dpadmm.privacy.wire import canonical, digest
from dpadmm.spec import RunSpec


@dataclass(frozen=True)
class Agreement:
    """Everything an agent needs to compute its own schedule, sensitivity and noise; nothing of it depends on data."""

    run: RunSpec
    counts: tuple[int, ...]  # records of each agent, in the order of the agents
    width: int  # columns, with the intercept's
    classes: int
    missing: bool = False  # whether an agent may miss rounds
    records_per_person: int = 1

    @cached_property
    def digest(self) -> str:
        return digest(canonical(asdict(self)))

    def plan(self) -> Plan:
        """The plan of all agents."""
        counts = np.asarray(self.counts, dtype=np.int64)
        return self.run.plan(counts, self.width, self.classes, self.records_per_person)

    def describe(self) -> dict[str, Any]:
        """For the ledger: what was run, in a few words."""
        run = {name: value for name, value in asdict(self.run).items() if value is not None}
        return {"agents": len(self.counts), "width": self.width, "classes": self.classes, **run}
