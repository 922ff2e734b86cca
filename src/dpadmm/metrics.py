"""What the papers plot (spec section 2), as functions of iterates and shards.

All of these read private records without noise. They exist in simulations; publishing them would be a release.
"""

from __future__ import annotations

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.problems.losses import Loss
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import Shards

_SCORES_AT_ONCE = 20_000_000


def empirical_loss(problem: Problem, shards: Shards, x: FloatArray) -> FloatArray:
    """The mean loss of each agent's records at its model, without the penalty; (n,)."""
    return problem.loss.values(shards, x, 1.0 / shards.counts)


def augmented_objective(problem: Problem, shards: Shards, x: FloatArray, common: FloatArray, rho: float) -> FloatArray:
    """f_i(x_i) + rho |x_i - z| of each agent, at averaged iterates: the norm, not its square (000, 004); (n,)."""
    return problem.objective(shards, x) + rho * np.linalg.norm(x - common, axis=1)


def consensus_residual(x: FloatArray, common: FloatArray) -> FloatArray:
    """sqrt(sum over agents of |z - x_i|²), for arrays (runs, agents, D) and (runs, D) (001); (runs,)."""
    return np.sqrt(((x - common[:, None, :]) ** 2).sum(axis=(1, 2)))


def test_errors(loss: Loss, test: Shards, models: FloatArray) -> FloatArray:
    """The error of each model (rows) on held-out records, whose targets are as in the data set; (models,)."""
    per_model = test.features.shape[0] * max(1, models.shape[1] // test.width)
    group = max(1, _SCORES_AT_ONCE // per_model)
    parts = [loss.errors(test.features, test.targets, models[i : i + group]) for i in range(0, len(models), group)]
    return np.concatenate(parts)
