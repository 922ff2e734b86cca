"""Who takes part in a federation, and what becomes of a round in which somebody does not answer."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpadmm.errors import InputError, unknown

WAIT, STALE, DROP = "wait", "stale", "drop"
MISSING = {
    WAIT: "the run waits, and goes on when the party is back",
    STALE: "its last release stands in for it, at no privacy cost",
    DROP: "the round is combined without it",
}


@dataclass(frozen=True)
class FederationSpec:
    """The table [federation] of a spec; the owners and what is done without one of them are part of the terms."""

    owners: tuple[str, ...] = ()  # in the order of the agents; none: all of the federation's, in its order
    missing: str = WAIT
    patience: float = 60.0  # seconds that a round waits for a party
    least: int = 1  # owners without whose answers no round is combined
    public_test: str | None = None  # a file of public records that models are tried on
    records_per_person: int = 1  # that are protected together

    def __post_init__(self) -> None:
        if self.missing not in MISSING:
            raise unknown("way to go on without a party, missing =", self.missing, MISSING)
        if not 0.0 < self.patience < math.inf:
            raise InputError(f"patience {self.patience!r}: seconds, more than none.")
        if self.least < 1 or self.records_per_person < 1:
            raise InputError("least and records_per_person: must be at least 1.")
        if len(set(self.owners)) < len(self.owners):
            raise InputError("owners: each can take part once.")
