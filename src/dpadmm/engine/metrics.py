"""What the papers plot (theory 2), as functions of iterates and shards.

All of these read private records without noise. They exist in simulations; publishing them would be a release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.datasets.curves.slope import SlopeError
from dpadmm.engine import metrics
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import Broadcast, Executor, Reading, read_records
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


def criterion(problem: Problem, shards: Shards, x: FloatArray, common: FloatArray) -> FloatArray:
    """f_i(x_i) + strength P(z) + |x_i - z| of each agent, at averaged iterates: (9) of 002 with tau = 1 and without the
    optimal value, which is the same for every run; (n,)."""
    penalty = problem.strength * problem.penalty.value(np.broadcast_to(common, x.shape))
    losses = problem.loss.values(shards, x, problem.weights(shards.counts))
    return losses + penalty + np.linalg.norm(x - common, axis=1)


def consensus_residual(x: FloatArray, common: FloatArray) -> FloatArray:
    """sqrt(sum over agents of |z - x_i|²), for arrays (runs, agents, D) and (runs, D) (001); (runs,)."""
    return np.sqrt(((x - common[:, None, :]) ** 2).sum(axis=(1, 2)))


def test_errors(loss: Loss, test: Shards, models: FloatArray) -> FloatArray:
    """The error of each model (rows) on held-out records, whose targets are as in the data set; (models,)."""
    per_model = test.features.shape[0] * max(1, models.shape[1] // test.width)
    group = max(1, _SCORES_AT_ONCE // per_model)
    parts = [loss.errors(test.real_rows, test.targets, models[i : i + group]) for i in range(0, len(models), group)]
    return np.concatenate(parts)


SIGNALS = 12  # rounds at which the noise is compared with what it covers: that takes a look at all records


def gradient_length(problem: Problem, shards: Shards, x: FloatArray) -> FloatArray:
    """How long the gradient of each agent's losses is at its model, without noise; (n,)."""
    return np.linalg.norm(problem.loss.gradient(shards, x, problem.weights(shards.counts)), axis=1)


@dataclass(frozen=True, eq=False)
class Observer:
    """Measures a state (theory 2). Models of the server and of the agents are reported apart."""

    cohort: Cohort
    test: Shards | None
    delta: float | None
    executor: Executor | None = None  # who reads the records; None: they are read here
    slope_error: SlopeError | None = None  # of coefficient functions, where the truth is known
    every: int = 1  # rounds between two measurements

    def measure(self, state: SimulationState) -> dict[str, FloatArray]:
        """One number per run and metric."""
        cohort, problem = self.cohort, self.cohort.plan.setting.problem
        readings: list[Reading] = [(metrics.empirical_loss, (Broadcast(state.shared.model),))]
        local = cohort.plan.algorithm.consensus.releases_models
        if local:
            readings += self._local_readings(state)
        compares = self._compares(state.round)
        if compares:
            readings.append((gradient_length, (state.agents.released if local else Broadcast(state.shared.model),)))
        each, *others = self._read(readings)  # all at once: they may be far away
        lengths = others.pop() if compares else None
        # As the problem weighs them: all owners alike, or all records.
        share = cohort.plan.setting.weights * cohort.plan.setting.counts
        losses = cohort.by_run(each)
        data_loss = (losses * share).sum(axis=1) / share.sum()
        penalty = problem.strength * problem.penalty.value(state.shared.model) * cohort.size / share.sum()
        measured = {"train_loss": data_loss, "objective": data_loss + penalty}
        if self.test is not None:
            measured["test_error"] = metrics.test_errors(problem.loss, self.test, state.shared.model)
        if self.slope_error is not None:
            measured["mise"] = self.slope_error(state.shared.model)
        if local:
            measured |= self._local(state, *others)
        if self.delta is not None:
            measured["epsilon"] = np.full(len(state.shared.model), self._spent(state.round))
            if self._printed is not None:
                measured["printed_epsilon"] = np.full(len(state.shared.model), self._printed[state.round - 1])
            measured |= self._noise(state, lengths)
        return measured

    def of_nodes(self, state: SimulationState) -> dict[str, FloatArray]:
        """One number per run and node, where there is no server: how far each is from the nodes' mean."""
        if not self.cohort.plan.algorithm.consensus.decentralised:
            return {}
        apart = self.cohort.by_run(state.agents.released) - state.shared.model[:, None, :]
        return {"disagreement": np.linalg.norm(apart, axis=2)}

    def _compares(self, round: int) -> bool:
        """Whether the noise of this round is compared with the gradients: in some of the rounds that have any."""
        plan = self.cohort.plan
        if self.delta is None or plan.algorithm.recycles(round):
            return False
        before = round - math.lcm(self.every, len(plan.algorithm.phases))  # the last one that could have been
        step = -(-plan.setting.rounds // SIGNALS)
        return round == plan.setting.rounds or round // step != before // step

    def _noise(self, state: SimulationState, lengths: FloatArray | None) -> dict[str, FloatArray]:
        """Lengths of the noise, as gradients see it, and of the gradients, root mean squares over agents; nan in rounds
        that are not compared."""
        if lengths is None:
            return {name: np.full(len(state.shared.model), np.nan) for name in ("noise", "signal")}
        plan = self.cohort.plan
        phase = plan.algorithm.phases[plan.algorithm.phase(state.round)]
        sigma = phase.perturbation.gradient_noise(plan.local, plan.noise_in(state.round))
        length = float(np.sqrt(plan.setting.dimension * np.mean(sigma**2)))
        signal = np.sqrt((self.cohort.by_run(lengths) ** 2).mean(axis=1))
        return {"noise": np.full(len(state.shared.model), length), "signal": signal}

    @cached_property
    def _printed(self) -> FloatArray | None:
        """What 003 would say of its own recipes, after each round."""
        plan = self.cohort.plan
        return plan.printed() if plan.algorithm.consensus.decentralised else None

    def _read(self, readings: list[Reading]) -> list[FloatArray]:
        if self.executor is not None:
            return self.executor.read(readings)
        return read_records(self.cohort.plan.setting.problem, self.cohort.shards, readings)

    def _local_readings(self, state: SimulationState) -> list[Reading]:
        readings: list[Reading] = [(metrics.empirical_loss, (state.agents.released,))]
        if self.cohort.plan.algorithm.consensus.decentralised:  # an augmented objective is about a server's penalty
            return readings
        mean = state.mean_local if self.cohort.plan.setting.problem.smooth else state.mean_local_before
        rho = self.cohort.plan.rho(state.round)
        readings = [*readings, (metrics.augmented_objective, (mean, Broadcast(state.shared.mean_model), rho))]
        if self.cohort.plan.algorithm.consensus.penalises:
            readings.append((metrics.criterion, (state.mean_local, Broadcast(state.shared.mean_model))))
        return readings

    def _local(self, state: SimulationState, losses: FloatArray, *augmented: FloatArray) -> dict[str, FloatArray]:
        cohort, released = self.cohort, state.agents.released
        measured = {
            "train_loss_local": self._mean(losses),
            "residual": metrics.consensus_residual(cohort.by_run(released), state.shared.model),
        }
        if augmented:
            for name, each in zip(("augmented_objective", "criterion"), augmented, strict=False):
                measured[name] = cohort.by_run(each).sum(axis=1)
        if self.test is not None:
            loss = cohort.plan.setting.problem.loss
            measured["test_error_local"] = self._mean(metrics.test_errors(loss, self.test, released))
        return measured

    def _mean(self, per_agent: FloatArray) -> FloatArray:
        return self.cohort.by_run(per_agent).mean(axis=1)

    def _spent(self, rounds: int) -> float:
        """Epsilon of the worst agent so far."""
        assert self.delta is not None
        return self.cohort.plan.accounts(rounds).worst(self.delta).epsilon
