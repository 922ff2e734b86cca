"""What a guarantee protects: how many records of a person together, and under which relation.

A guarantee for one unit says something of another by group privacy: between two neighbours of the larger unit there is
a chain of neighbours of the smaller one. A unit of k records is inside every unit of more. Blanking records is one way
of replacing them, for a blank record is a value that a record may take. Replacing them is blanking them twice: from
either side one comes to the data set in which they are blank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpadmm.errors import InputError
from dpadmm.privacy.events import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PureDpEvent,
    Relation,
    Tally,
    flatten,
)


@dataclass(frozen=True)
class Unit:
    """What two neighbouring data sets differ in.

    Args:
        records: How many records of one person are protected together.
        relation: What may happen to them.
    """

    records: int = 1
    relation: Relation = Relation.REPLACE

    def __post_init__(self) -> None:
        if type(self.records) is not int or self.records < 1:
            raise InputError(f"a unit protects at least 1 record of a person, not {self.records!r}.")
        object.__setattr__(self, "relation", Relation.parse(self.relation))

    def __str__(self) -> str:
        return f"{self.records} record{'s' if self.records > 1 else ''} of a person, {self.relation} relation"

    def steps_to(self, protected: Unit) -> int:
        """How many steps of this unit lead from a data set to any neighbour by the protected unit.

        Args:
            protected: The unit that a total is formed for.

        Returns:
            1 where this unit protects as much.
        """
        groups = -(-protected.records // self.records)
        twice = self.relation is Relation.ZERO_OUT and protected.relation is Relation.REPLACE
        return 2 * groups if twice else groups

    def as_dict(self) -> dict[str, Any]:
        return {"records": self.records, "relation": str(self.relation)}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Unit:
        return cls(int(kept["records"]), Relation.parse(kept["relation"]))


RECORD = Unit()
"""One record, replaced."""


def for_groups(tally: Tally, steps: int) -> dict[DpEvent, int] | None:
    """What releases cost for neighbours that are so many steps apart; None where an event does not say.

    A mu-GDP release is (steps mu)-GDP for them, and an epsilon-private one (steps epsilon)-private (Dong, Roth & Su
    2022, Thm 2.14). Mini-batches and exact minimisers have no such rule that keeps their kind of event. Products and
    quotients are rounded so that the release costs no less.
    """
    flat = flatten(tally)
    if steps == 1:
        return flat
    found: dict[DpEvent, int] = {}
    for event, count in flat.items():
        if isinstance(event, GaussianDpEvent):
            wider: DpEvent = GaussianDpEvent(-round_up(-Fraction(event.noise_multiplier) / steps))
        elif isinstance(event, PureDpEvent):
            wider = PureDpEvent(round_up(steps * Fraction(event.epsilon)) if event.epsilon < math.inf else math.inf)
        elif isinstance(event, LaplaceDpEvent) and event.noise_multiplier > 0.0:
            wider = PureDpEvent(round_up(steps / Fraction(event.noise_multiplier)))
        else:
            return None
        found[wider] = found.get(wider, 0) + count
    return found


def round_up(exact: Fraction | float) -> float:
    """The next float that is not smaller."""
    found = float(exact)
    return found if found >= exact else math.nextafter(found, math.inf)
