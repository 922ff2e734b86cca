"""Constraint sets. Adding one: a file, and a line here.

A set of `SETS` can be made from the numbers after its name (`box:0.1`), one of `WRITTEN` needs more than numbers;
`dpadmm.problems.sets.text` reads both.
"""

from __future__ import annotations

from dpadmm.problems.sets.affine import Affine
from dpadmm.problems.sets.ball import Ball
from dpadmm.problems.sets.base import ConvexSet, Whole
from dpadmm.problems.sets.cone_programme import ConeProgramme
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.each import Each
from dpadmm.problems.sets.intersection import Intersection
from dpadmm.problems.sets.intervals import Box, Range
from dpadmm.problems.sets.non_crossing import NonCrossing
from dpadmm.problems.sets.polyhedron import Polyhedron
from dpadmm.problems.sets.simplex import Simplex

SETS: dict[str, type[ConvexSet]] = {
    "whole": Whole,
    "box": Box,
    "range": Range,
    "ball": Ball,
    "simplex": Simplex,
    "non-crossing": NonCrossing,
}
"""Sets that are made from numbers, by name."""
WRITTEN: dict[str, type[ConvexSet]] = {
    "affine": Affine,
    "polyhedron": Polyhedron,
    "cone": ConeProgramme,
    "intersection": Intersection,
    "each": Each,
}
"""Sets that are written in JSON, by name."""

__all__ = [
    "SETS",
    "WRITTEN",
    "Affine",
    "Ball",
    "Box",
    "Cone",
    "ConeProgramme",
    "ConvexSet",
    "Each",
    "Intersection",
    "NonCrossing",
    "Polyhedron",
    "Range",
    "Simplex",
    "Whole",
]
