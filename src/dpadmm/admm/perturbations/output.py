"""Noise on the answer: primal variable perturbation (000 Alg. 2), and Ryu & Kim's output perturbation (001)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._fields import option
from dpadmm.admm.perturbations.base import Additive, Release, Task
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.base import Memory, Solver, Subproblem
from dpadmm.errors import InputError
from dpadmm.problems.sets import Whole

ROUNDING = 2.0**-52  # of one operation, doubled


@dataclass(frozen=True)
class Output(Additive):
    """The result of every step plus noise; what goes on, and what is sent, are the noisy results.

    Formal guarantee. One record moves the gradient of agent i by at most weight_i * s and a step's result by at most
    `gain` times that; a solver that stops at a gradient of length tau may end anywhere within gain * tau of the exact
    answer, for either of two neighbours. Hence the Euclidean sensitivity gain * (weight_i * s + 2 tau) (theory 3.2,
    4.1, claims B1). In the 1-norm it is the same with s in that norm for gradient steps over a product of intervals,
    where each coordinate moves by itself; elsewhere sqrt(D) times the Euclidean one (claims B4). A gradient step is
    computed in floating point from an exact sum and public numbers: what rounding can do to it, at most (D + 64) units
    of the last place of the numbers it adds up (`Solver.size`), is paid for twice, at every step anew. So is how far
    the computed projection of a point of that size can be from the exact one (`ConvexSet.error`): exact projections
    bring no two points apart, computed ones may. One event of the mechanism per step.

    `may_leave` says that noisy results may leave the set, as in 001. `unit_gain` scales the noise as if a step's result
    moved as far as its gradient: safe and far too loud, to see what 001 compares with (claims B4).
    """

    may_leave: bool = False
    unit_gain: bool = option(
        False,
        help="Scale output noise as if a step moved the model as far as its gradient: safe, and wasteful.",
        panel="Algorithm",
        off_flag="--step-gain",
        shown="step",
    )

    takes_scales = True
    name = "output"
    about = "noise on the result of every step; pays for the solver's tolerance"

    def check(self, setting: Setting, solver: Solver) -> None:
        super().check(setting, solver)
        if solver.sampled:
            raise InputError(
                f"perturbation 'output' has a lemma for whole gradients; solver {solver.name!r} draws mini-batches. "
                f"Use 'sampled-gradient' with it."
            )
        if not (self.may_leave or isinstance(setting.problem.domain, Whole)):
            raise InputError(
                f"perturbation 'output' adds its noise last and would leave the set {setting.problem.domain.name!r}; "
                f"use a recipe that perturbs the gradient, such as 'dp-admm' or 'obj-g', or the set 'whole'."
            )

    def sensitivity(
        self, setting: Setting, solver: Solver, kappa: FloatArray, eta: FloatArray, norm: int = 2
    ) -> FloatArray:
        """How far one record can move a step's result; (n,)."""
        gain = solver.gain(setting, kappa, eta)
        if self.unit_gain:
            gain = np.maximum(gain, 1.0)
        if norm == 1 and solver.first_order and setting.problem.domain.separable:
            return gain * setting.gradient_sensitivity(1)
        euclidean = gain * (setting.gradient_sensitivity() + 2.0 * solver.tolerance)
        return euclidean * np.sqrt(setting.dimension) if norm == 1 else euclidean

    def moved(
        self, setting: Setting, solver: Solver, subproblem: Subproblem, point: FloatArray, eta: FloatArray, norm: int
    ) -> FloatArray:
        """How far one record can move the result of a step from a public point, computed in floating point; (n,)."""
        exact = self.sensitivity(setting, solver, subproblem.kappa[:, 0], eta[:, 0], norm)
        if not solver.first_order:
            return exact
        size = solver.size(subproblem, point, eta)
        rounding = 2.0 * ROUNDING * (setting.dimension + 64.0) * size
        rounding += 2.0 * setting.problem.domain.error(size, setting.dimension)
        return exact + rounding * (np.sqrt(setting.dimension) if norm == 1 else 1.0)

    def release(self, task: Task) -> tuple[Release, Memory]:
        setting, solver, given, mechanism = task.setting, task.solver, task.subproblem, task.noise.mechanism
        points = [task.memory.point]  # where a step starts: what the last one has released

        def sensitivity() -> FloatArray:
            return self.moved(setting, solver, given, points[-1], task.eta, mechanism.norm)

        noisy = task.noisy(mechanism, sensitivity, "output")

        def emit(value: FloatArray) -> FloatArray:
            points.append(noisy(value))
            return points[-1]

        answer, memory = task.solve(emit=emit)
        return Release(answer, task.noise.events), memory
