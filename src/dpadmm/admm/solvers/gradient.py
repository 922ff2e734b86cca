"""The gradient itself, at the centre: what an agent of distributed gradient descent answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.base import Emit, Memory, Oracle, Solver, Subproblem, as_it_is, slope_lengths


@dataclass(frozen=True)
class GradientAnswer(Solver):
    """Solves nothing: answers the gradient of the loss at the common model."""

    name = "gradient"
    about = "answers the gradient of the loss at the common model"
    first_order = True

    def solve(
        self, subproblem: Subproblem, oracle: Oracle, memory: Memory, eta: FloatArray, emit: Emit = as_it_is
    ) -> tuple[FloatArray, Memory]:
        return emit(oracle(subproblem.centre)), memory

    def size(self, subproblem: Subproblem, point: FloatArray, eta: FloatArray) -> FloatArray:
        return slope_lengths(subproblem, point)

    def gain(self, setting: Setting, kappa: FloatArray, eta: FloatArray) -> FloatArray:
        return np.ones_like(kappa)
