"""Constraint sets. Adding one: a file, and a line here."""

from __future__ import annotations

from dpadmm.problems.sets.base import ConvexSet
from dpadmm.problems.sets.box import Box
from dpadmm.problems.sets.whole import Whole

SETS: dict[str, type[ConvexSet]] = {"whole": Whole, "box": Box}

__all__ = ["SETS", "Box", "ConvexSet", "Whole"]
