"""The solutions of linear inequalities, and of equations if there are any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from dpadmm._ranges import ENTRIES, ranged
from dpadmm.errors import InputError
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.conic.conic_set import ConicSet
from dpadmm.problems.sets.values import expect, table


@dataclass(frozen=True, eq=False)
class Polyhedron(ConicSet):
    """{x : rows x <= limits, equal_rows x = equal_values}."""

    rows: Any = ranged(ENTRIES)
    limits: Any = ranged(ENTRIES)
    equal_rows: Any = ranged(ENTRIES, None)
    equal_values: Any = ranged(ENTRIES, None)

    name = "polyhedron"
    about = "rows x <= limits, and equal_rows x = equal_values"

    def __post_init__(self) -> None:
        if (self.equal_rows is None) != (self.equal_values is None):
            raise InputError("set 'polyhedron': equal_rows and equal_values belong together; give both or neither.")
        pairs = [("rows", "limits")] + [("equal_rows", "equal_values")] * (self.equal_rows is not None)
        for left, right in pairs:
            rows = table(getattr(self, left), "set 'polyhedron'", left, 2)
            limits = table(getattr(self, right), "set 'polyhedron'", right, 1)
            if rows.shape[0] != limits.size or rows.shape[1] == 0:
                raise InputError(
                    f"set 'polyhedron': {left} is a table of {rows.shape[0]} by {rows.shape[1]} and {right} has "
                    f"{limits.size} number(s); give one number for each row, and at least one column."
                )
            object.__setattr__(self, left, rows)
            object.__setattr__(self, right, limits)
        if self.equal_rows is not None and self.equal_rows.shape[1] != self.rows.shape[1]:
            raise InputError(
                f"set 'polyhedron': rows has {self.rows.shape[1]} column(s) and equal_rows {self.equal_rows.shape[1]}; "
                "both need one for each coefficient."
            )

    def check(self, dimension: int) -> None:
        expect(self.name, self.rows.shape[1], dimension)
        super().check(dimension)

    def cone(self, dimension: int) -> Cone:
        if self.equal_rows is None:
            return Cone(csc_array(self.rows), self.limits, 0, self.limits.size)
        rows = csc_array(np.vstack([self.equal_rows, self.rows]))
        limits = np.concatenate([self.equal_values, self.limits])
        return Cone(rows, limits, self.equal_values.size, self.limits.size)
