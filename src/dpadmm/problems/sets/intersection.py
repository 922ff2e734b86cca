"""Points that lie in several sets at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import FloatArray
from dpadmm.errors import InputError
from dpadmm.problems.sets.base import ConvexSet, Whole
from dpadmm.problems.sets.conic.cone import Cone, stack
from dpadmm.problems.sets.conic.conic_set import ConicSet
from dpadmm.problems.sets.conic.interior import inspect
from dpadmm.problems.sets.conic.projector import TOLERANCE
from dpadmm.problems.sets.intervals import Intervals, Range


@dataclass(frozen=True, eq=False)
class Intersection(ConicSet):
    members: Sequence[ConvexSet]

    name = "intersection"
    about = "points that lie in all of its members"

    def __post_init__(self) -> None:
        flat: list[ConvexSet] = []
        for member in self.members:
            if not isinstance(member, ConvexSet):
                raise InputError(f"set 'intersection': {member!r} is not a set.")
            if member.shared() is not member:
                raise InputError(
                    "set 'intersection': a set that differs between agents is no member; intersect inside."
                )
            flat.extend(member.members if isinstance(member, Intersection) else [member])
        if not flat:
            raise InputError("set 'intersection' has no members; give at least one, or use 'whole'.")
        object.__setattr__(self, "members", tuple(dict.fromkeys(flat)))
        assert self.parts is not None  # raises if intervals exclude each other

    @cached_property
    def parts(self) -> tuple[ConvexSet, ...]:
        """The members less those that say nothing, with all products of intervals made one."""
        upright = [member for member in self.members if isinstance(member, Intervals)]
        others = [member for member in self.members if not isinstance(member, Intervals | Whole)]
        return (*([_overlap(upright)] if len(upright) > 1 else upright), *others)

    @property
    def separable(self) -> bool:  # type: ignore[override]
        return all(part.separable for part in self.parts)

    @property
    def tolerance(self) -> float:  # type: ignore[override]
        return TOLERANCE if len(self.parts) > 1 else max((part.tolerance for part in self.parts), default=0.0)

    def check(self, dimension: int) -> None:
        for at, member in enumerate(self.members):
            try:
                member.check(dimension)
            except InputError as error:
                raise InputError(f"set 'intersection', member {at}: {error}") from None
        if len(self.parts) > 1 and (among := conflict(self.members, dimension)):
            names = ", ".join(f"{at} ({self.members[at].name!r})" for at in among)
            raise InputError(f"set 'intersection' is empty: members {names} have no point in common; relax one.")

    def project(self, x: FloatArray) -> FloatArray:
        return simplest(self).project(x) if len(self.parts) < 2 else super().project(x)

    def project_always(self, x: FloatArray) -> FloatArray:
        return simplest(self).project_always(x) if len(self.parts) < 2 else super().project_always(x)

    def error(self, size: FloatArray, dimension: int) -> FloatArray:
        one = len(self.parts) < 2
        return simplest(self).error(size, dimension) if one else super().error(size, dimension)

    def contains(self, x: FloatArray, tolerance: float = 1e-9) -> NDArray[Any]:
        return simplest(self).contains(x, tolerance) if len(self.parts) < 2 else super().contains(x, tolerance)

    def diameter(self, dimension: int) -> float:
        smallest = min((part.diameter(dimension) for part in self.parts), default=math.inf)
        return smallest if len(self.parts) < 2 else min(smallest, super().diameter(dimension))

    def cone(self, dimension: int) -> Cone:
        return stack([part.cone(dimension) for part in (*self.parts, Whole())])[0]


def simplest(both: Intersection) -> ConvexSet:
    """The set itself, or the one that it comes down to."""
    return both if len(both.parts) > 1 else (*both.parts, Whole())[0]


def conflict(members: Sequence[ConvexSet], dimension: int) -> list[int]:
    """Which members have no point in common, if all together have none."""
    cone, source = stack([member.cone(dimension) for member in members])
    seen = inspect(cone, "intersection")
    return sorted({int(at) for at in source[seen.conflict]}) if seen.empty else []


def _overlap(members: Sequence[Intervals]) -> Range:
    widths = {len(end) for member in members for end in member.ends if isinstance(end, tuple)}
    if len(widths) > 1:
        raise InputError(f"set 'intersection': members of models with {sorted(widths)} coefficients; they must agree.")
    low, high = (np.asarray(end) for end in members[0].ends)
    for member in members[1:]:
        low, high = np.maximum(low, member.ends[0]), np.minimum(high, member.ends[1])
    if (low > high).any():
        names = ", ".join(repr(member.name) for member in members)
        raise InputError(f"set 'intersection' is empty: the intervals of {names} have no point in common; widen one.")
    return Range(low.tolist(), high.tolist())
