"""What every agent solves each round, exactly or roughly:

minimise over x in W :   f_i(x) + <tilt_i, x> + (kappa_i / 2) |x - centre_i|²
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import Shards


@dataclass(frozen=True, eq=False)
class Subproblem:
    """The subproblems of a batch of agents; one row of every array per agent."""

    problem: Problem
    shards: Shards
    weights: FloatArray  # (n,)
    tilt: FloatArray  # (n, D)
    kappa: FloatArray  # (n, 1)
    centre: FloatArray  # (n, D)

    @property
    def smoothness(self) -> FloatArray | None:
        """L of everything but the penalty, from public bounds; (n, 1), None where the loss has kinks."""
        bend = self.problem.loss.curvature_bound(self.shards.norm_bound)
        return None if bend is None else (self.weights * self.shards.counts * bend)[:, None] + self.kappa

    def value(self, x: FloatArray) -> FloatArray:
        """The objective of each agent; (n,)."""
        problem, apart = self.problem, x - self.centre
        data = problem.loss.values(self.shards, x, self.weights) + problem.strength * problem.penalty.value(x)
        return data + (self.tilt * x + self.kappa / 2.0 * apart * apart).sum(axis=1)

    def loss_gradient(self, x: FloatArray) -> FloatArray:
        """The part that touches records; all else in this class is public."""
        return self.problem.loss.gradient(self.shards, x, self.weights)

    def penalty_gradient(self, x: FloatArray) -> FloatArray:
        return self.problem.strength * self.problem.penalty.gradient(x)

    def smooth_gradient(self, x: FloatArray) -> FloatArray:
        """Gradient of everything but the penalty."""
        return self.loss_gradient(x) + self.tilt + self.kappa * (x - self.centre)

    def gradient(self, x: FloatArray) -> FloatArray:
        """Gradient of the whole objective, for penalties that have one."""
        return self.completed(self.loss_gradient(x), x)

    def completed(self, loss_gradient: FloatArray, x: FloatArray) -> FloatArray:
        """The same, from the part that touches records."""
        return loss_gradient + self.tilt + self.kappa * (x - self.centre) + self.penalty_gradient(x)

    def hessian(self, x: FloatArray) -> FloatArray:
        curvature = self.kappa + self.problem.strength * self.problem.penalty.curvatures(x)
        hessian = self.problem.loss.hessian(self.shards, x, self.weights)
        return hessian + curvature[:, :, None] * np.eye(x.shape[1])

    def tilted(self, extra: FloatArray) -> Subproblem:
        """With one more linear term."""
        return replace(self, tilt=self.tilt + extra)

    def stiffened(self, curvature: FloatArray) -> Subproblem:
        """With (curvature/2)|x|² added, folded into the quadratic term that is there."""
        kappa = self.kappa + curvature[:, None]
        # The quotient first: it is 1 for an agent without extra curvature, whose problem must not change by a bit.
        return replace(self, kappa=kappa, centre=self.centre * (self.kappa / kappa))

    def rounded(self, width: float) -> Subproblem:
        """With the kinks of loss and penalty rounded over a half-width."""
        return replace(self, problem=self.problem.rounded(width))

    def slack(self, x: FloatArray) -> FloatArray:
        """How far the gradient of a rounded problem is from a subgradient of the one with kinks; (n,)."""
        data = self.problem.loss.slack(self.shards, x, self.weights)
        return data + self.problem.strength * self.problem.penalty.slack(x)

    def take(self, agents: Any) -> Subproblem:
        """The subproblems of these agents."""
        return replace(
            self,
            problem=self.problem.take(agents),
            shards=self.shards.take(agents),
            weights=self.weights[agents],
            tilt=self.tilt[agents],
            kappa=self.kappa[agents],
            centre=self.centre[agents],
        )
