"""The minimiser of the subproblem, to a stated gradient tolerance.

Newton's method where the objective has a Hessian that fits in memory; on ever sharper versions of it where the loss has
a kink; accelerated proximal gradient otherwise (penalties with kinks, boxes, very many coefficients). Which one is a
function of public facts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpadmm._arrays import FloatArray
from dpadmm._fields import option
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.base import Emit, Memory, Oracle, Solver, Subproblem, as_it_is
from dpadmm.admm.solvers.kinks import SHARPEST, sharpened
from dpadmm.admm.solvers.newton import newton
from dpadmm.admm.solvers.proximal import proximal
from dpadmm.errors import InputError
from dpadmm.problems.sets import Whole

# Newton keeps a D x D matrix for every agent; past this many numbers in one, first-order steps are the better bargain.
# It is a matter of the model alone: any grouping of agents, down to a single owner, must solve by the same method.
HESSIAN_NUMBERS = 1_000_000


@dataclass(frozen=True)
class Exact(Solver):
    """Stops when the gradient (with a kink: some subgradient) of every agent's subproblem is below the tolerance."""

    tolerance: float = option(
        1e-10, help="Gradient length at which an exact solver stops.", panel="Algorithm", shown="1e-10"
    )

    name = "exact"
    about = "the minimiser, to a stated gradient tolerance (Newton, also for losses with kinks, or proximal gradient)"
    first_order = False

    def __post_init__(self) -> None:
        if not self.tolerance > 0:
            raise InputError(f"solver 'exact': tolerance {self.tolerance!r} must be positive.")

    def check(self, setting: Setting) -> None:
        problem = setting.problem
        if setting.precision != "float64":
            raise InputError(
                f"solver 'exact' cannot reach its tolerance on {setting.precision} records; keep them in float64, or "
                f"use a recipe of gradient steps such as 'dp-admm' or 'obj-g'."
            )
        if not problem.loss.convex:
            raise InputError(f"solver 'exact' needs a convex loss, {problem.loss.name!r} is not; use 'dp-admm'.")
        if not problem.domain.separable:
            raise InputError(
                f"solver 'exact' cannot handle the set {problem.domain.name!r}, only 'whole', 'box' and 'range'; "
                f"recipes of gradient steps, such as 'dp-admm' and 'obj-g', handle all."
            )
        if not problem.penalty.convex and problem.strength > 0.0:
            raise InputError(
                f"solver 'exact' needs a convex penalty, {problem.penalty.name!r} is not; use a recipe of gradient "
                f"steps such as 'dp-admm' or 'fdp-admm'."
            )
        if problem.loss.curvature_bound(setting.norm_bound) is None:
            self._check_kink(setting)

    def _check_kink(self, setting: Setting) -> None:
        loss = setting.problem.loss.name
        if not isinstance(setting.problem.domain, Whole) or setting.dimension**2 > HESSIAN_NUMBERS:
            raise InputError(
                f"solver 'exact' handles the kink of loss {loss!r} on the whole space and up to 1,000 coefficients; "
                f"recipes of gradient steps, such as 'fdp-admm', know no such bounds."
            )
        if self.tolerance < SHARPEST:
            raise InputError(
                f"solver 'exact' proves a minimiser of loss {loss!r}, which has a kink, to a tolerance of {SHARPEST:g} "
                f"at best, not {self.tolerance:g}; set the tolerance to 1e-6, or use 'f-admm', which has that."
            )

    def solve(
        self, subproblem: Subproblem, oracle: Oracle, memory: Memory, eta: FloatArray, emit: Emit = as_it_is
    ) -> tuple[FloatArray, Memory]:
        """The next round starts from the private minimiser; where it ends does not depend on where it starts."""
        if self.by_newton(subproblem):
            answer, kept = newton(subproblem, memory.point, memory.private, self.tolerance)
            return emit(answer), replace(memory, point=answer, private=kept)
        if subproblem.smoothness is None:
            answer = sharpened(subproblem, memory.point, self.tolerance)
            return emit(answer), replace(memory, point=answer)
        answer = proximal(subproblem, memory.point, self.tolerance)
        return emit(answer), replace(memory, point=answer)

    @staticmethod
    def by_newton(subproblem: Subproblem) -> bool:
        problem, dimension = subproblem.problem, subproblem.tilt.shape[1]
        smooth = problem.smooth and problem.loss.twice_differentiable
        has_hessian = smooth and not (problem.loss.task == "multiclass" and subproblem.shards.sparse)
        return has_hessian and isinstance(problem.domain, Whole) and dimension**2 <= HESSIAN_NUMBERS

    def gain(self, setting: Setting, kappa: FloatArray, eta: FloatArray) -> FloatArray:
        """The objective is (kappa + mu_r)-strongly convex (theory 3.2; smoothness is not needed)."""
        return 1.0 / (kappa + setting.problem.strong_convexity)
