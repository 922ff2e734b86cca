"""Small problems to solve: simulated records of every task, their public terms, and random subproblems over them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpadmm.admm.perturbations.base import Task
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.base import Subproblem
from dpadmm.admm.topology.graph import parse_topology
from dpadmm.datasets import simulate
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses import Logistic, Loss
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import Shards, gather
from dpadmm.release.random_bits import SeededRandomness

KINDS = {"binary": "classification", "multiclass": "multiclass", "regression": "regression"}
CLASSES = {"binary": 2, "multiclass": 3, "regression": 0}


@pytest.fixture(scope="session")
def simulated() -> Callable[..., Shards]:
    """simulated(loss, agents, records, width): ragged shares, agent i holds about i + 1 parts of the records."""

    def make(loss: Loss | None = None, agents: int = 4, records: int = 60, width: int = 3, seed: int = 0) -> Shards:
        loss = loss or Logistic()
        data = simulate(KINDS[loss.task], records, width, seed)
        edges = np.cumsum(np.arange(1, agents + 1)) / (agents * (agents + 1) / 2)
        owner = np.searchsorted(np.ceil(edges * records), np.arange(records), side="right")
        targets = loss.encode(data.targets, CLASSES[loss.task])
        return gather(
            data.features, targets, owner, norm_bound=1.0, names=[f"owner {chr(97 + i % 26)}{i}" for i in range(agents)]
        )

    return make


@pytest.fixture(scope="session")
def terms() -> Callable[..., Setting]:
    """terms(problem, shards or counts, **changes): the public facts of a run."""

    def make(problem: Problem, shards: Any, dimension: int | None = None, **changes: Any) -> Setting:
        if isinstance(shards, Shards):
            counts, width = shards.counts, problem.loss.dimension(shards.width, 3)
        else:
            counts, width = np.asarray(shards), 3
        setting = Setting(
            problem=problem,
            counts=counts,
            dimension=dimension or width,
            norm_bound=1.0,
            relation=Relation.REPLACE,
            rounds=10,
            graph=parse_topology(f"{'complete' if counts.size < 50 else 'ring'}:{counts.size}")
            if counts.size > 1
            else None,
        )
        return replace(setting, **changes)

    return make


@pytest.fixture(scope="session")
def subproblem() -> Callable[..., Subproblem]:
    """subproblem(problem, shards, seed): random tilt, kappa and centre."""

    def make(problem: Problem, shards: Shards, seed: int = 0, spread: float = 1.0) -> Subproblem:
        rng = np.random.default_rng(seed)
        shape = (shards.agents, problem.loss.dimension(shards.width, 3))
        return Subproblem(
            problem=problem,
            shards=shards,
            weights=problem.weights(shards.counts),
            tilt=spread * 0.2 * rng.standard_normal(shape),
            kappa=rng.uniform(0.1, 0.6, (shape[0], 1)),
            centre=spread * rng.standard_normal(shape),
        )

    return make


@pytest.fixture(scope="session")
def drawing() -> Callable[..., Any]:
    """drawing(agents, seed, round): the bits of those agents (a number, or their names), for every purpose alike."""

    def make(agents: Any, seed: int = 0, round: int = 1) -> Any:
        names = np.arange(agents) if isinstance(agents, int) else np.asarray(agents)
        runs = np.zeros(names.size, dtype=np.int64)
        return lambda purpose: SeededRandomness(seed).stream(runs, names, round, "any")

    return make


@pytest.fixture(scope="session")
def task(drawing: Callable[..., Any]) -> Callable[..., Task]:
    """task(setting, noise, solver, subproblem): one round's work in hand, from zeros, with step eta."""

    def make(setting: Setting, noise: Any, solver: Any, given: Subproblem, eta: float = 0.5, **changes: Any) -> Task:
        made = Task(
            setting=setting,
            noise=noise,
            solver=solver,
            subproblem=given,
            memory=solver.start(np.zeros(given.tilt.shape)),
            eta=np.full((setting.agents, 1), eta),
            random_bits=drawing(setting.agents),
        )
        return replace(made, **changes)

    return make
