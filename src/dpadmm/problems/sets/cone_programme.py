"""Any set that second-order cones describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scipy.sparse import csc_array

from dpadmm._ranges import ENTRIES, ranged
from dpadmm.errors import InputError
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.conic.conic_set import ConicSet
from dpadmm.problems.sets.values import expect, table


@dataclass(frozen=True, eq=False)
class ConeProgramme(ConicSet):
    """{x : limits - rows x in K}; see `Cone`."""

    given: Cone = ranged(ENTRIES)

    name = "cone"
    about = "limits - rows x in a product of zeros, numbers not below zero, and second-order cones"

    def __post_init__(self) -> None:
        table(self.given.rows.toarray(), "set 'cone'", "rows", 2)
        table(self.given.limits, "set 'cone'", "limits", 1)
        if any(size < 2 for size in self.given.second_order):
            raise InputError("set 'cone': a second-order cone has at least 2 rows; one row is `nonnegative`.")
        if self.given.dimension == 0:
            raise InputError("set 'cone': rows has no columns; it needs one for each coefficient.")

    @classmethod
    def written(
        cls, rows: Any, limits: Any, zero: Any = 0, nonnegative: Any = 0, second_order: Any = ()
    ) -> ConeProgramme:
        """From plain numbers, all of them checked."""
        matrix, right = table(rows, "set 'cone'", "rows", 2), table(limits, "set 'cone'", "limits", 1)
        if not isinstance(second_order, list | tuple):
            raise InputError("set 'cone': second_order must be the list of the sizes of the second-order cones.")
        sizes = [zero, nonnegative, *second_order]
        if not all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in sizes):
            raise InputError("set 'cone': zero, nonnegative and second_order count rows; give whole numbers.")
        if not matrix.shape[0] == right.size == sum(sizes):
            raise InputError(
                f"set 'cone': {matrix.shape[0]} rows and {right.size} limits, and the cones have "
                f"{min(sum(sizes), 10**9)} rows; all three must agree."
            )
        return cls(Cone(csc_array(matrix), right, zero, nonnegative, tuple(second_order)))

    def check(self, dimension: int) -> None:
        expect(self.name, self.given.dimension, dimension)
        super().check(dimension)

    def cone(self, dimension: int) -> Cone:
        return self.given
