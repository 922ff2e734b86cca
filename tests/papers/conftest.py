"""Small problems for whole recipes: records, terms, a plan, and all rounds of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from graph_walks import PROBLEM, SIZES

from dpadmm.admm.algorithm import Algorithm, Plan
from dpadmm.admm.setting import Setting
from dpadmm.admm.topology.graph import parse_topology
from dpadmm.datasets import simulate
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses import Logistic, Loss
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import Shards, gather
from dpadmm.release.random_bits import SeededRandomness

KINDS = {"binary": "classification", "multiclass": "multiclass", "regression": "regression"}
CLASSES = {"binary": 2, "multiclass": 3, "regression": 0}

# Recipes whose mini-batches are accounted for under one relation only; all others take both.
ONLY = {
    "ps-admm": Relation.ZERO_OUT,
    "ps-admm-anchor": Relation.ZERO_OUT,
    "ps-admm-sgd": Relation.ZERO_OUT,
    "ps-admm-paper": Relation.REPLACE,
}


@pytest.fixture(scope="session")
def relations() -> Callable[[Algorithm], tuple[Relation, ...]]:
    """relations(recipe): those it accepts."""
    return lambda recipe: (ONLY[recipe.name],) if recipe.name in ONLY else tuple(Relation)


@pytest.fixture(scope="session")
def simulated() -> Callable[..., Shards]:
    """simulated(loss, sizes, width): one agent of each size."""

    def make(loss: Loss | None = None, sizes: tuple[int, ...] = (5, 12, 8), width: int = 3, seed: int = 0) -> Shards:
        loss = loss or Logistic()
        data = simulate(KINDS[loss.task], sum(sizes), width, seed)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        targets = loss.encode(data.targets, CLASSES[loss.task])
        return gather(data.features, targets, owner, norm_bound=1.0, names=[f"agent {i}" for i in range(len(sizes))])

    return make


@pytest.fixture(scope="session")
def terms(relations: Callable[[Algorithm], tuple[Relation, ...]]) -> Callable[..., Setting]:
    """terms(problem, shards, recipe, **changes): the public facts of a run, by a relation that the recipe accepts."""

    def make(problem: Problem, shards: Shards, recipe: Algorithm | None = None, **changes: Any) -> Setting:
        setting = Setting(
            problem=problem,
            counts=shards.counts,
            dimension=problem.loss.dimension(shards.width, 3),
            width=shards.width,
            norm_bound=1.0,
            relation=Relation.REPLACE if recipe is None else relations(recipe)[0],
            rounds=5,
            graph=parse_topology(f"complete:{shards.agents}") if shards.agents > 1 else None,
        )
        return replace(setting, **changes)

    return make


@pytest.fixture(scope="session")
def played() -> Callable[..., list[SimulationState]]:
    """played(plan, shards, seed, runs): the states after every round."""

    def play(plan: Plan, shards: Shards, seed: int = 0, runs: Any = (0,)) -> list[SimulationState]:
        cohort = Cohort.of(plan, shards, list(runs), SeededRandomness(seed))
        return list(rounds(cohort, SimulationState.of(cohort), InProcessExecutor()))

    return play


@pytest.fixture(scope="session")
def shards(simulated: Callable[..., Shards]) -> Shards:
    """Records of five nodes."""
    return simulated(sizes=SIZES)


@pytest.fixture(scope="session")
def setting(shards: Shards, terms: Callable[..., Setting]) -> Callable[..., Setting]:
    """setting(graph, **changes): five nodes, one for each shard."""

    def make(graph: str = "ring:5", **changes: Any) -> Setting:
        return terms(PROBLEM, shards, graph=parse_topology(graph), **({"rho": 0.06} | changes))

    return make
