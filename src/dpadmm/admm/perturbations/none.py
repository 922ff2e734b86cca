"""No noise: a recipe of its own, with an event that says so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.base import Perturbation, Release, Task
from dpadmm.admm.setting import Noise, NoiseRequest, Setting
from dpadmm.admm.solvers.base import Memory, Solver
from dpadmm.privacy.events import NonPrivateDpEvent
from dpadmm.privacy.mechanisms import Gaussian


@dataclass(frozen=True)
class Unperturbed(Perturbation):
    """The answer itself is sent."""

    name = "none"
    about = "no noise; the account says non-private"
    private = False

    def check(self, setting: Setting, solver: Solver) -> None:
        """Nothing is claimed, so nothing is needed."""

    def calibrate(
        self, setting: Setting, solver: Solver, request: NoiseRequest, kappas: FloatArray | None = None
    ) -> Noise:
        return Noise(Gaussian(np.zeros(setting.agents)), (NonPrivateDpEvent(),) * setting.agents)

    def release(self, task: Task) -> tuple[Release, Memory]:
        answer, memory = task.solve()
        return Release(answer, task.noise.events), memory
