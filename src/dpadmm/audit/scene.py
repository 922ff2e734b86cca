"""A run made to be attacked: few agents, two neighbouring data sets, and public numbers that hide nothing.

Every public number is the attacker's choice, because a guarantee holds for all of them. The victim is agent 0. All
records but its canary are blank; a large penalty keeps iterates near zero, where the worst losses are linear and attain
their gradient bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._registry import build
from dpadmm.admm.algorithm import Algorithm, Plan
from dpadmm.admm.setting import NoiseRequest, Setting
from dpadmm.admm.topology.graph import parse_topology
from dpadmm.audit.neighbours import CLASSES, Record, blank, sheet, worst_pair
from dpadmm.errors import InputError
from dpadmm.privacy.events import Relation
from dpadmm.privacy.mechanisms import mechanism_class
from dpadmm.problems.losses import LOSSES, STATISTICS
from dpadmm.problems.losses.base import Loss
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import Shards
from dpadmm.spec.parts import given

ROUNDS = 4
RECORDS = 10
RHO = 100.0
WORST = ("quantile", "smoothed-hinge")  # they attain their bounds at zero, and stay there


@dataclass(frozen=True)
class Scenario:
    """The attacker's public choices. None: the worst that the recipe accepts.

    Args:
        loss: A name, an import path or a loss.
        relation: Which data sets count as neighbours.
        rounds: Of each run.
        records: Of each agent.
        agents: How many there are.
        rho: ADMM's penalty parameter.
        width: Columns of the records.
        norm_bound: Length of the longest row.
        broadcast: What a server that cheats sends before round one.
        evaluation_epsilon: Of one estimate of the error on the victim's own records, at the end.
    """

    loss: str | Loss | None = None  # a name, an import path or a loss
    relation: str | None = None
    rounds: int | None = None
    records: int = RECORDS
    agents: int = 2
    rho: float = RHO
    width: int = 2
    norm_bound: float = 1.0
    broadcast: tuple[float, ...] | None = None  # what a server that cheats sends before round one
    evaluation_epsilon: float | None = None  # of one estimate of the error on the victim's own records, at the end


@dataclass(frozen=True, eq=False)
class Scene:
    """A plan, and records for it: all agents' as they are, then all agents' with the canary replaced."""

    plan: Plan
    shards: Shards  # of twice as many agents as the plan has
    broadcast: FloatArray | None = None

    @property
    def agents(self) -> int:
        return self.plan.setting.agents

    def victims(self, rows: int, side: int) -> Shards:
        """The victim's records in one of the two data sets, as often as there are transcripts."""
        return self.shards.take(np.full(rows, side * self.agents))


def scene(recipe: Algorithm, request: NoiseRequest, stage: Scenario) -> Scene:
    """The run to be attacked, with the noise asked for."""
    setting = chosen(recipe, stage)
    loss, width, bound = setting.problem.loss, stage.width, stage.norm_bound
    canary, instead = worst_pair(loss, setting.relation, noise_norm(recipe), width, bound)
    spare: list[Record] = [blank(canary, width)] * stage.records
    others = [spare] * (stage.agents - 1)
    shards = sheet(loss, [[canary, *spare[1:]], *others, [instead, *spare[1:]], *others], bound)
    broadcast = None if stage.broadcast is None else np.array(stage.broadcast)
    plan = recipe.plan(setting, request)
    if stage.evaluation_epsilon is not None:
        plan = plan.with_evaluation(stage.evaluation_epsilon)
    return Scene(plan, shards, broadcast)


def noise_norm(recipe: Algorithm) -> int:
    """The norm in which the noise of its first phase covers a change."""
    return mechanism_class(getattr(recipe.phases[0].perturbation, "mechanism", "gaussian")).norm


def chosen(recipe: Algorithm, stage: Scenario) -> Setting:
    """The terms of the worst case that a recipe accepts; the recipe's own refusal if it accepts none."""
    refusal: InputError | None = None
    for loss, relation in _candidates(recipe, stage):
        try:
            setting = _setting(recipe, loss, relation, stage)
            recipe.check(setting)
            return setting
        except InputError as error:
            refusal = refusal or error
    raise refusal or InputError("an evaluation is an error rate: it needs a loss of classes, such as 'smoothed-hinge'.")


def _candidates(recipe: Algorithm, stage: Scenario) -> Iterator[tuple[Loss, Relation]]:
    names: tuple[str | Loss, ...] = (*WORST, *(name for name in LOSSES if name not in WORST))
    if recipe.base_loss in STATISTICS:
        names = (recipe.base_loss,)
    for name in names if stage.loss is None else (stage.loss,):
        loss = build("loss", LOSSES | STATISTICS, given("loss", name) if isinstance(name, str) else name)
        if stage.evaluation_epsilon is not None and loss.task == "regression":
            continue  # errors are counted of classes
        for relation in Relation if stage.relation is None else (Relation.parse(stage.relation),):
            yield loss, relation


def _setting(recipe: Algorithm, loss: Loss, relation: Relation, stage: Scenario) -> Setting:
    counts = np.full(stage.agents, stage.records)
    return Setting(
        problem=Problem(loss, records=int(counts.sum()) if recipe.weighting == "records" else None),
        counts=counts,
        dimension=loss.dimension(stage.width, CLASSES[loss.task]),
        norm_bound=stage.norm_bound,
        relation=relation,
        rounds=stage.rounds or (1 if loss.name in STATISTICS else ROUNDS),
        rho=stage.rho,
        radius=1.0,
        width=stage.width,
        graph=parse_topology(f"complete:{stage.agents}") if recipe.consensus.decentralised else None,
    )
