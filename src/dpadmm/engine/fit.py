"""One fit of what was prepared, with nothing measured on records: only what was released is in the answer.

A simulation is run to be looked at, round by round, and repeated (`experiment`). A fit is run once, for its model. With
`secure` every owner has an agent of its own with noise from the operating system (`owners`); without, the noise is
seeded, and everybody who knows the seed can subtract it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Plan
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import Executor, InProcessExecutor
from dpadmm.engine.executors.owners import OwnerExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.metrics import consensus_residual
from dpadmm.engine.prepare import Prepared
from dpadmm.errors import InputError
from dpadmm.privacy.accounting import Guarantee
from dpadmm.release.random_bits import SeededRandomness


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, and what it cost each owner."""

    model: FloatArray  # (D,), in the coordinates that rows came in
    history: dict[str, FloatArray]  # one number per round, and all of them public
    guarantees: tuple[Guarantee, ...]  # of each owner, in the order of the shards
    secure: bool

    @property
    def guarantee(self) -> Guarantee:
        """A record lives at one owner, so it is the worst owner's."""
        return max(self.guarantees, key=lambda found: found.epsilon)


def fit(prepared: Prepared, secure: bool) -> Fitted:
    """Runs what was prepared, once."""
    delta = prepared.delta
    if delta is None:
        raise InputError(f"algorithm {prepared.plan.algorithm.name!r} is not private; choose one that is.")
    classes = len(prepared.dataset.classes or ())
    part = _turned(prepared, secure, classes)
    # In a secure fit this seed is never asked for a word: the owners' agents have the system's randomness.
    cohort = Cohort.of(part.plan, part.shards, [0], SeededRandomness(part.experiment.simulation.seed))
    state = SimulationState.of(cohort)
    run = part.experiment.run if part.stage is None else part.stage.rest.run
    executor: Executor = OwnerExecutor(run, classes) if secure else InProcessExecutor()
    models, apart = [state.shared.model], []
    with executor:
        for reached in rounds(cohort, state, executor):
            models.append(reached.shared.model)
            apart.append(consensus_residual(reached.shared.released, reached.shared.model))
    path = _lifted(part, np.concatenate(models))
    accounts = part.plan.accounts()
    guarantees = tuple(accounts.guarantee(agent, delta) for agent in range(cohort.size))
    history = _history(path, spent(part.plan, delta))
    if part.plan.algorithm.consensus.releases_models:
        history["residual"] = np.concatenate(apart)
    return Fitted(path[-1], history, guarantees, secure)


def _turned(prepared: Prepared, secure: bool, classes: int) -> Prepared:
    """With the release that comes before the rounds, where there is one: its plan counts both."""
    stage = prepared.stage
    if stage is None or not secure:
        return prepared.turned(0)
    with OwnerExecutor(stage.first, classes) as owners:
        return prepared.turned(0, owners)


def _lifted(part: Prepared, models: FloatArray) -> FloatArray:
    """Models (rows) in the coordinates that records had before they were turned."""
    return models if part.view is None else part.view.models(models, bool(part.experiment.run.intercept))


def _history(path: FloatArray, epsilons: FloatArray) -> dict[str, FloatArray]:
    """What each round came to; `path` holds the models from the beginning on."""
    return {
        "round": np.arange(1, len(path)),
        "epsilon": epsilons,
        "length": np.linalg.norm(path[1:], axis=1),
        "change": np.linalg.norm(np.diff(path, axis=0), axis=1),
    }


def spent(plan: Plan, delta: float) -> FloatArray:
    """Epsilon of the worst owner after each round; not a number where telling it takes longer than the round."""
    last = plan.accounts(plan.setting.rounds).worst(delta)
    if last.accountant == "pld":
        return np.array([math.nan] * (plan.setting.rounds - 1) + [last.epsilon])
    return np.array([plan.accounts(round).worst(delta).epsilon for round in range(1, plan.setting.rounds + 1)])
