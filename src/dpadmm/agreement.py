"""The terms all parties of a run agree on: the spec and the public facts it needs. Its digest names it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpadmm.admm.algorithm import Plan
from dpadmm.errors import InputError
from dpadmm.fields import names, typed
from dpadmm.privacy.wire import canonical, digest
from dpadmm.spec import RunSpec

LARGEST = 10**9  # of any whole number in the terms


@dataclass(frozen=True)
class Agreement:
    """Everything an agent needs to compute its own schedule, sensitivity and noise; nothing of it depends on data."""

    run: RunSpec
    counts: tuple[int, ...]  # records of each agent, in the order of the agents
    width: int  # columns, with the intercept's
    classes: int
    missing: bool = False  # whether an agent may miss rounds
    records_per_person: int = 1

    def check(self) -> None:
        """Raises an `InputError` where a field is not of its kind: terms come from others."""
        if not isinstance(self.run, RunSpec):
            raise InputError("the terms have no run.")
        for name in names(RunSpec):
            value = getattr(self.run, name)
            default = getattr(RunSpec, name)
            if not (value is None and default is None):
                typed(RunSpec, name, value, "the terms")
        for name in ("width", "classes", "records_per_person"):
            _whole(name, getattr(self, name), 0 if name == "classes" else 1)
        if type(self.counts) is not tuple or type(self.missing) is not bool:
            raise InputError("the terms need the counts as a tuple, and whether rounds may be missed.")
        for count in self.counts:
            _whole("count", count, 1)

    @cached_property
    def digest(self) -> str:
        return digest(canonical(asdict(self)))

    def plan(self) -> Plan:
        """The plan of all agents."""
        counts = np.asarray(self.counts, dtype=np.int64)
        for name, recipe in (("components", "private-components"), ("standardise", "private-column-moments")):
            if getattr(self.run, name) is not None:
                raise InputError(f"{name} is a run of its own, {recipe!r}, before the one on the rows it leads to.")
        if self.missing and self.run.recipe().consensus.decentralised:
            raise InputError("on a graph no round can be missed: a node's neighbours cannot go on without its release.")
        return self.run.plan(counts, self.width, self.classes, self.records_per_person)

    def describe(self) -> dict[str, Any]:
        """For the ledger: what was run, in a few words."""
        run = {name: value for name, value in asdict(self.run).items() if value is not None}
        return {"agents": len(self.counts), "width": self.width, "classes": self.classes, **run}


def _whole(name: str, value: Any, least: int) -> None:
    if type(value) is not int or not least <= value <= LARGEST:
        raise InputError(f"the terms: {name} must be a whole number from {least} to {LARGEST}.")
