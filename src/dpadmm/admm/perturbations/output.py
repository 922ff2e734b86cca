"""Noise on the answer: primal variable perturbation (000 Alg. 2)."""

from __future__ import annotations

from dataclasses import dataclass

from dpadmm.admm.perturbations.base import Additive, Release, Task
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.base import Memory, Solver
from dpadmm.errors import InputError
from dpadmm.problems.sets import Whole
from dpadmm.problems.shards import FloatArray


@dataclass(frozen=True)
class Output(Additive):
    """The answer plus noise.

    Formal guarantee. One record moves the gradient of agent i by at most weight_i * s and the answer by at most `gain`
    times that; a solver that stops at a gradient of length tau may end anywhere within gain * tau of the exact answer,
    for either of two neighbours. Hence sensitivity gain * (weight_i * s + 2 tau) (spec 3.2, AUDIT B1); one event of the
    mechanism per round.
    """

    name = "output"
    about = "noise on the answer; pays for the solver's tolerance"

    def check(self, setting: Setting, solver: Solver) -> None:
        super().check(setting, solver)
        if not isinstance(setting.problem.domain, Whole):
            raise InputError(
                f"perturbation 'output' adds its noise last and would leave the set {setting.problem.domain.name!r}; "
                f"use a recipe that perturbs the gradient, such as 'dp-admm', or the set 'whole'."
            )

    def sensitivity(self, setting: Setting, solver: Solver, kappa: FloatArray, eta: FloatArray) -> FloatArray:
        """How far one record can move the answer; (n,)."""
        return solver.gain(setting, kappa, eta) * (setting.gradient_sensitivity + 2.0 * solver.tolerance)

    def release(self, task: Task) -> tuple[Release, Memory]:
        answer, memory = task.solve()
        sensitivity = self.sensitivity(task.setting, task.solver, task.subproblem.kappa[:, 0], task.eta[:, 0])
        value = task.noisy(task.noise.mechanism, answer, sensitivity, "output")
        return Release(value, task.noise.events), task.solver.released(memory, value)
