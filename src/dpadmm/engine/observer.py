"""What a simulation may look at and a federation may not: losses and errors on records, without noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm import metrics
from dpadmm.engine.loop import Cohort, State
from dpadmm.problems.shards import FloatArray, Shards


@dataclass(frozen=True, eq=False)
class Observer:
    """Measures a state (spec section 2). Models of the server and of the agents are reported apart."""

    cohort: Cohort
    test: Shards | None
    delta: float | None

    def measure(self, state: State) -> dict[str, FloatArray]:
        """One number per run and metric."""
        cohort, problem = self.cohort, self.cohort.plan.setting.problem
        everywhere = cohort.to_rows(state.common)
        # As the problem weighs them: all owners alike, or all records.
        share = cohort.plan.setting.weights * cohort.plan.setting.counts
        losses = cohort.by_run(metrics.empirical_loss(problem, cohort.shards, everywhere))
        data_loss = (losses * share).sum(axis=1) / share.sum()
        penalty = problem.strength * problem.penalty.value(state.common) * cohort.size / share.sum()
        measured = {"train_loss": data_loss, "objective": data_loss + penalty}
        if self.test is not None:
            measured["test_error"] = metrics.test_errors(problem.loss, self.test, state.common)
        if cohort.plan.algorithm.consensus.releases_models:
            measured |= self._local(state)
        if self.delta is not None:
            measured["epsilon"] = np.full(len(state.common), self._spent(state.round))
        return measured

    def _local(self, state: State) -> dict[str, FloatArray]:
        cohort, setting = self.cohort, self.cohort.plan.setting
        released = state.agents.released
        mean = state.mean_local if setting.problem.smooth else state.mean_local_before
        augmented = metrics.augmented_objective(
            setting.problem, cohort.shards, mean, cohort.to_rows(state.mean_common), cohort.plan.rho(state.round)
        )
        measured = {
            "train_loss_local": self._mean(metrics.empirical_loss(setting.problem, cohort.shards, released)),
            "augmented_objective": cohort.by_run(augmented).sum(axis=1),
            "residual": metrics.consensus_residual(cohort.by_run(released), state.common),
        }
        if self.test is not None:
            measured["test_error_local"] = self._mean(metrics.test_errors(setting.problem.loss, self.test, released))
        return measured

    def _mean(self, per_agent: FloatArray) -> FloatArray:
        return self.cohort.by_run(per_agent).mean(axis=1)

    def _spent(self, rounds: int) -> float:
        """Epsilon of the worst agent so far."""
        assert self.delta is not None
        return self.cohort.plan.accounts(rounds).worst(self.delta).epsilon
