"""A box around the origin: every coefficient between -bound and +bound."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

from dpadmm.errors import InputError
from dpadmm.problems.sets.range import Ends, Upright
from dpadmm.problems.sets.values import LARGEST


@dataclass(frozen=True)
class Box(Upright):
    """-bound <= x <= bound."""

    bound: float = 1.0

    name = "box"
    about = "every coefficient between -bound and +bound (default 1)"

    def __post_init__(self) -> None:
        right = isinstance(self.bound, Real) and not isinstance(self.bound, bool)
        if not (right and 0 < self.bound <= LARGEST):
            raise InputError(f"set 'box': bound {self.bound!r} must be a positive number.")

    @property
    def ends(self) -> tuple[Ends, Ends]:
        return -self.bound, self.bound
