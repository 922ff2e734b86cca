"""No noise where nothing new is said: the release is made of releases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.base import Perturbation, Release, Task
from dpadmm.admm.setting import Noise, NoiseRequest, Setting
from dpadmm.admm.solvers.base import Memory, Solver
from dpadmm.errors import InputError
from dpadmm.privacy.events import NoOpDpEvent
from dpadmm.privacy.mechanisms import Gaussian


@dataclass(frozen=True)
class Free(Perturbation):
    """The answer of a solver that reads no records.

    Formal guarantee: post-processing. All inputs of such a step are releases, broadcasts and public numbers (003 Lemma
    V.1; claims B6), so it costs what its inputs have cost and nothing more.
    """

    name = "free"
    about = "no noise, and no cost: for steps that are made of what was released before"

    def check(self, setting: Setting, solver: Solver) -> None:
        if solver.reads_records:
            raise InputError(
                f"perturbation 'free' is for steps that read no records, and solver {solver.name!r} reads them; use "
                f"'recycled' with it."
            )

    def calibrate(
        self, setting: Setting, solver: Solver, request: NoiseRequest, kappas: FloatArray | None = None
    ) -> Noise:
        return Noise(Gaussian(np.zeros(setting.agents)), (NoOpDpEvent(),) * setting.agents)

    def printed(self, setting: Setting, noise: Noise, kappa: FloatArray) -> FloatArray | None:
        return np.zeros(setting.agents)

    def release(self, task: Task) -> tuple[Release, Memory]:
        answer, memory = task.solve()
        return Release(answer, task.noise.events), memory
