"""Gradient steps with prox weight 1/eta: one of them is DP-ADMM's (000 Alg. 3, eq. 10), E of them Ryu & Kim's (001)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._fields import option
from dpadmm._ranges import UPDATES, check_ranges
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.base import Emit, Memory, Oracle, Solver, Subproblem, as_it_is, lengths, slope_lengths


@dataclass(frozen=True)
class LocalUpdates(Solver):
    """E times u <- Π_W[ (u/eta + kappa centre - tilt - f'(u)) / (1/eta + kappa) ]; the answer is the mean of the E.

    The quadratic is isotropic, so projecting its minimiser *is* minimising over W (claims B3). The last u, not the
    mean, is where the next round goes on (theory 4.1 step 3).
    """

    updates: int = option(
        1,
        help="Local updates in a round.",
        panel="Algorithm",
        shown="1 for obj-g and its kin, 10 for ps-admm's",
        within=UPDATES,
    )

    name = "local-updates"
    about = "gradient steps with prox weight 1/eta, several a round; their mean is the answer"
    first_order = True

    def __post_init__(self) -> None:
        check_ranges(self, f"solver {self.name!r}")

    @property
    def steps(self) -> int:
        return self.updates

    def solve(
        self, subproblem: Subproblem, oracle: Oracle, memory: Memory, eta: FloatArray, emit: Emit = as_it_is
    ) -> tuple[FloatArray, Memory]:
        point, total = memory.point, np.zeros_like(memory.point)
        pull = subproblem.kappa * subproblem.centre - subproblem.tilt
        weight, domain = 1.0 / eta + subproblem.kappa, subproblem.problem.domain
        # Noise that comes after a projection pays for one that is proved; for simulations, as owners refuse such sets.
        project = domain.project_always if emit is as_it_is else domain.project
        for _ in range(self.updates):
            slope = oracle(point) + subproblem.penalty_gradient(point)
            point = emit(project((point / eta + pull - slope) / weight))
            total = total + point
        return (point if self.updates == 1 else total / self.updates), Memory(point)

    def size(self, subproblem: Subproblem, point: FloatArray, eta: FloatArray) -> FloatArray:
        along = lengths(subproblem.kappa * subproblem.centre) + lengths(subproblem.tilt) + lengths(point / eta)
        weight = (1.0 / eta + subproblem.kappa)[:, 0]
        return (along + slope_lengths(subproblem, point)) / weight

    def gain(self, setting: Setting, kappa: FloatArray, eta: FloatArray) -> FloatArray:
        """Of one step; projecting moves no two points farther apart."""
        return 1.0 / (kappa + 1.0 / eta)


@dataclass(frozen=True)
class Linearised(LocalUpdates):
    """One step a round."""

    updates: int = field(default=1, init=False)

    name = "linearised"
    about = "one gradient step with prox weight 1/eta"
