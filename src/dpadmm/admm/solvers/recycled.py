"""A round without records: the step that last round's release already determines (003: R-ADMM, MR-ADMM; theory 6.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._fields import option
from dpadmm._ranges import SIZES_OR_ZERO, check_ranges
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.base import Emit, Memory, Oracle, Solver, Subproblem, Trail, as_it_is
from dpadmm.errors import InputError
from dpadmm.problems.sets import Whole


@dataclass(frozen=True)
class Recycled(Solver):
    """x <- x - (g + tilt + kappa (x - centre)) / (kappa + damping), with g the gradient that a release gives away.

    The release x of the exact phase before is the minimiser of f + <tilt', .> + (kappa'/2)|. - centre'|², with a random
    linear term where there is noise. So -tilt' - kappa' (x - centre') is the gradient of f at x, with that noise on it,
    and made of released values alone. On a graph the step comes to theory 6.4's

        x_i + theta / (2 theta V_i + gamma) * sum over neighbours of (2 x_j - x_i' - x_j'),

    gamma being the damping, and x_i', x_j' what was released in the round before the last.
    """

    damping: float = option(
        0.0,
        help="Shortens the recycled rounds of r-admm and its kin (gamma of 003).",
        panel="Algorithm",
        shown="0",
        within=SIZES_OR_ZERO,
    )

    name = "recycled"
    about = "a step by the gradient that the last release gives away; touches no record"
    first_order = True
    reads_records = False

    def __post_init__(self) -> None:
        check_ranges(self, f"solver {self.name!r}")

    def check(self, setting: Setting) -> None:
        if not isinstance(setting.problem.domain, Whole):
            raise InputError(
                f"solver 'recycled' has no formula for the set {setting.problem.domain.name!r}; use 'whole'."
            )

    def start(self, point: FloatArray) -> Memory:
        return Memory(point, trail=Trail(point, np.zeros_like(point)))

    def solve(
        self, subproblem: Subproblem, oracle: Oracle, memory: Memory, eta: FloatArray, emit: Emit = as_it_is
    ) -> tuple[FloatArray, Memory]:
        assert memory.trail is not None
        x, slope = memory.trail.released, memory.trail.slope
        pull = slope + subproblem.tilt + subproblem.kappa * (x - subproblem.centre)
        return emit(x - pull / (subproblem.kappa + self.damping)), memory

    def gain(self, setting: Setting, kappa: FloatArray, eta: FloatArray) -> FloatArray:
        """No record moves the answer."""
        return np.zeros(setting.agents)
