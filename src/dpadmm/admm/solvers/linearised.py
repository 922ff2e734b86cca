"""One gradient step with prox weight 1/eta: DP-ADMM (000 Alg. 3, eq. 10) and, with E of them, Ryu & Kim's method."""

from __future__ import annotations

from dataclasses import dataclass

from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.base import Memory, Oracle, Solver
from dpadmm.admm.subproblem import Subproblem
from dpadmm.problems.shards import FloatArray


@dataclass(frozen=True)
class Linearised(Solver):
    """x = Π_W[ (u/eta + kappa centre - tilt - f'(u)) / (1/eta + kappa) ], u the previous release.

    The quadratic is isotropic, so projecting its minimiser *is* minimising over W (AUDIT B3).
    """

    name = "linearised"
    about = "one gradient step with prox weight 1/eta"
    first_order = True

    def solve(
        self, subproblem: Subproblem, oracle: Oracle, memory: Memory, eta: FloatArray
    ) -> tuple[FloatArray, Memory]:
        point = memory.point
        slope = oracle(point) + subproblem.penalty_gradient(point)
        pull = point / eta + subproblem.kappa * subproblem.centre - subproblem.tilt
        answer = subproblem.problem.domain.project((pull - slope) / (1.0 / eta + subproblem.kappa))
        return answer, Memory(answer)

    def gain(self, setting: Setting, kappa: FloatArray, eta: FloatArray) -> FloatArray:
        return 1.0 / (kappa + 1.0 / eta)
