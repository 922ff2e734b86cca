"""Owners in one process, each with an agent of its own: a policy, and random bits from the operating system.

A simulation is one agent for a whole batch, with seeded noise. Here every owner has the `Agent` that it would have on a
machine of its own, joined on the same agreement, and answers for its own records alone. The loop over rounds is the
same. Nothing is measured on records: what leaves an owner is what its agent released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.base import Release
from dpadmm.admm.rounds import AgentState
from dpadmm.admm.setting import TotalBudget
from dpadmm.engine.cohort import RUN, Cohort, SimulationState
from dpadmm.engine.executor import Reading
from dpadmm.engine.executors import batches
from dpadmm.errors import InputError, Refused
from dpadmm.owner.agent import Agent
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.owner.request import Request
from dpadmm.privacy.accounting import Guarantee
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import Relation
from dpadmm.privacy.ledger.memory import MemoryLedger
from dpadmm.release.random_bits import SystemRandomness
from dpadmm.spec import resolve
from dpadmm.spec.declare import RunSpec
from dpadmm.spec.part import refuse_own_parts
from dpadmm.spec.resolve import ResolvedRun


class OwnerExecutor:
    """An executor whose noise protects: one agent per owner, in the order of the shards."""

    def __init__(self, run: RunSpec, classes: int) -> None:
        self._run, self._classes = run, classes
        self._agents: list[Agent] = []
        self._taking_part = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._let_go()

    def place(self, cohort: Cohort, state: SimulationState) -> None:
        """Every owner joins the run, from its beginning; noise is the system's, and not the cohort's."""
        if state.round:
            raise InputError(f"owners take part from round 1 on, and not from round {state.round + 1}.")
        self._let_go()
        run, shards = self._run, cohort.shards
        refuse_own_parts(run, "owners whose noise is real")
        agreement = Agreement(run, tuple(shards.counts.tolist()), shards.width, self._classes)
        self._digest, self._alone = agreement.digest, agreement.resolved.recipe.consensus.decentralised
        self._rows = [np.array([position]) for position in range(shards.agents)]
        self._ledgers = [MemoryLedger(1, Relation.parse(run.relation)) for _ in self._rows]
        self._agents, self._names = [], shards.names
        for position, budget in enumerate(_budgets(agreement.resolved, shards.agents)):
            alone, policy = shards.take([position]), _policy(run, shards.names[position], budget)
            agent = Agent(alone, policy, self._ledgers[position], SystemRandomness(), members=(position,))
            try:
                agent.join(RUN, agreement)
            except Refused as refused:  # the terms are the caller's own, so they are what is wrong
                raise InputError(f"owner {shards.names[position]!r} does not take part: {refused}") from None
            self._agents.append(agent)
        self._taking_part = True

    def collect(self, request: Request) -> Release:
        """Every owner is asked by itself; on a graph each has heard something else, and has a row of its own."""
        inputs = request.inputs if self._alone else np.repeat(request.inputs, len(self._agents), axis=0)
        asked = [replace(request, digest=self._digest, inputs=inputs[rows]) for rows in self._rows]
        releases = []
        for name, agent, each in zip(self._names, self._agents, asked, strict=True):
            try:
                releases.append(agent.answer(each))
            except Refused as refused:
                raise InputError(f"owner {name!r} cannot answer step {request.step}: {refused}") from None
        return batches.releases_together(releases, self._rows)

    def agent_states(self) -> AgentState:
        return batches.states_together([agent.state(RUN) for agent in self._agents], self._rows)

    def read(self, readings: Sequence[Reading]) -> list[FloatArray]:
        raise InputError("losses on records are for simulations: in a run that protects, they would be a release.")

    def spent(self, delta: float) -> list[Guarantee]:
        """What each owner's book says of what it has released so far."""
        return [ledger.accounts.guarantee(0, delta) for ledger in self._ledgers]

    def _let_go(self) -> None:
        """Every owner closes the run, and answers no more."""
        for agent in self._agents if self._taking_part else ():
            agent.finish(RUN)
        self._taking_part = False


def _policy(run: RunSpec, name: str, budget: Budget) -> Policy:
    """An owner who allows this run and nothing else."""
    return Policy(
        dataset=name,
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation=run.relation,
        norm_bound=run.clip,
        algorithms=(str(run.algorithm),),
        losses=(resolve.loss_text(run).split(":")[0],),
    )


def _budgets(declared: ResolvedRun, agents: int) -> Sequence[Budget]:
    if not (declared.recipe.private and isinstance(declared.noise, TotalBudget)):
        name = declared.run.algorithm
        raise InputError(f"algorithm {name!r}: an owner takes part within a total budget, epsilon and delta.")
    return declared.noise.of_each(agents)
