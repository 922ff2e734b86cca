"""Noise on the gradient, before anything is done with it."""

from __future__ import annotations

from dataclasses import dataclass

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.base import Additive, Release, Task
from dpadmm.admm.setting import Noise, NoiseRequest, Setting
from dpadmm.admm.solvers.base import Memory, Solver
from dpadmm.errors import InputError
from dpadmm.privacy.mechanisms import SimulatedMechanism
from dpadmm.release.perturb import noise_scales


@dataclass(frozen=True)
class Gradient(Additive):
    """The solver sees f'(u) + noise.

    Formal guarantee. At a point that is a function of earlier releases, the sum over agent i's records is one of
    integer vectors of an enforced length, so it moves by at most `Setting.sensitivity` when one record changes, and
    gets discrete noise in integers (`release/`). Weights, step, projection onto any set, average and dual are functions
    of the noisy gradients and of public values: post-processing (claims B1, B3). One event of the mechanism per step.
    """

    takes_scales = True
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

    def calibrate(
        self, setting: Setting, solver: Solver, request: NoiseRequest, kappas: FloatArray | None = None
    ) -> Noise:
        noise = super().calibrate(setting, solver, request, kappas)
        for each in noise.course or (noise,):
            if not isinstance(each.mechanism, SimulatedMechanism):
                noise_scales(each.mechanism, setting.sensitivity(each.mechanism.norm))
        return noise

    def release(self, task: Task) -> tuple[Release, Memory]:
        noisy, sums = task.noisy_sum(task.noise.mechanism, "gradient"), task.sums()

        def noisy_gradient(point: FloatArray) -> FloatArray:
            return noisy(sums(point))

        answer, memory = task.solve(noisy_gradient)
        return Release(answer, task.noise.events), memory
