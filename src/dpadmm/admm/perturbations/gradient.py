"""Noise on the gradient, before anything is done with it."""

from __future__ import annotations

from dataclasses import dataclass

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.base import Additive, Release, Task
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.base import Memory, Solver
from dpadmm.errors import InputError


@dataclass(frozen=True)
class Gradient(Additive):
    """The solver sees f'(u) + noise.

    Formal guarantee. The gradient of agent i at a point that is a function of earlier releases moves by at most
    weight_i * s when one record changes (s: `Loss.sensitivity`, in the mechanism's norm). Step, projection onto any
    set, average and dual are functions of the noisy gradients and of public values: post-processing (claims B1, B3).
    One event of the mechanism per step.
    """

    name = "gradient"
    about = "noise on the gradient; step and projection are post-processing, so releases stay in the set"

    def check(self, setting: Setting, solver: Solver) -> None:
        super().check(setting, solver)
        if not solver.first_order:
            raise InputError(
                f"perturbation 'gradient' needs a solver that reaches the records through gradients only; "
                f"{solver.name!r} does not. Use 'output' or 'objective' with it."
            )
        if solver.sampled:
            raise InputError(
                f"perturbation 'gradient' has a lemma for whole gradients; solver {solver.name!r} draws mini-batches. "
                f"Use 'sampled-gradient' with it."
            )

    def release(self, task: Task) -> tuple[Release, Memory]:
        mechanism = task.noise.mechanism
        noisy = task.noisy(mechanism, task.setting.gradient_sensitivity(mechanism.norm), "gradient")

        exact = task.gradients()

        def noisy_gradient(point: FloatArray) -> FloatArray:
            return noisy(exact(point))

        answer, memory = task.solve(noisy_gradient)
        return Release(answer, task.noise.events), memory
