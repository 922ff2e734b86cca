"""Small runs of a recipe, and what every run must keep: it repeats, resumes, and does not depend on the batch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpadmm._registry import build
from dpadmm.admm.algorithm import Algorithm, Plan
from dpadmm.admm.rounds import AgentState, absorb, begin, first_state, next_server, solve_and_perturb
from dpadmm.admm.setting import NoiseRequest, Setting
from dpadmm.admm.topology.graph import parse_topology
from dpadmm.audit.neighbours import CLASSES
from dpadmm.datasets import simulate
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.errors import InputError
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses import LOSSES, STATISTICS
from dpadmm.problems.losses.base import Loss
from dpadmm.problems.penalties import L2
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import Shards, gather
from dpadmm.release.random_bits import SeededRandomness, Stream
from dpadmm.testing.contract import ContractError

KINDS = {"binary": "classification", "multiclass": "multiclass", "regression": "regression"}
SIZES = (24, 1, 600, 40)  # records of the agents; one has several chunks
STRENGTH = 0.05


@dataclass(frozen=True, eq=False)
class SmallRun:
    """A recipe, public terms that it accepts, and simulated records."""

    algorithm: Algorithm
    setting: Setting
    shards: Shards

    @property
    def part(self) -> str:
        return f"recipe {self.algorithm.name!r}"

    @property
    def sampled(self) -> bool:
        return any(phase.solver.sampled for phase in self.algorithm.phases)

    def plan(self, request: NoiseRequest) -> Plan:
        return self.algorithm.plan(self.setting, request)

    def longer(self, rounds: int) -> SmallRun:
        return replace(self, setting=replace(self.setting, rounds=rounds))


def small_run(
    algorithm: Algorithm, loss: Loss | None, rounds: int, sizes: Sequence[int] = SIZES, width: int = 3, seed: int = 0
) -> SmallRun:
    """Records for a recipe and its own loss or another, under the first relation that it accepts."""
    loss = loss or build("loss", LOSSES | STATISTICS, algorithm.base_loss)
    data = simulate(KINDS[loss.task], sum(sizes), width, seed)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    names = [f"agent {i}" for i in range(len(sizes))]
    targets = loss.encode(data.targets, CLASSES[loss.task])
    shards = gather(data.features, targets, owner, norm_bound=1.0, names=names)
    problem = Problem(loss, L2(), STRENGTH, records=sum(sizes) if algorithm.weighting == "records" else None)
    refusal: InputError | None = None
    for relation in Relation:
        setting = Setting(
            problem=problem,
            counts=shards.counts,
            dimension=loss.dimension(width, CLASSES[loss.task]),
            norm_bound=1.0,
            relation=relation,
            rounds=rounds,
            rho=algorithm.base_rho,
            width=width,
            graph=parse_topology(f"complete:{len(sizes)}") if algorithm.consensus.decentralised else None,
        )
        try:
            algorithm.check(setting)
        except InputError as error:
            refusal = refusal or error
        else:
            return SmallRun(algorithm, setting, shards)
    raise ContractError(
        f"recipe {algorithm.name!r}",
        "it accepts a small problem",
        f"with loss {loss.name!r} and an L2 penalty, its check says: {refusal}",
        "Give a loss that it accepts: check_recipe(recipe, loss=...).",
    ) from refusal


def played(plan: Plan, shards: Shards, seed: int = 0, state: SimulationState | None = None) -> list[SimulationState]:
    """The states after every round, from the first or from another."""
    cohort = Cohort.of(plan, shards, [0], SeededRandomness(seed))
    with InProcessExecutor() as executor:
        return list(rounds(cohort, state or SimulationState.of(cohort), executor))


def bits(states: Sequence[SimulationState]) -> str:
    """All numbers of a run, in one digest."""
    digest = hashlib.sha256()
    for state in states:
        for values in (
            state.shared.model,
            state.agents.released,
            state.agents.dual,
            state.shared.mean_model,
            state.mean_local,
        ):
            digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def check_repeats(run: SmallRun, plan: Plan, request: NoiseRequest) -> None:
    """One seed gives one run; another seed another, if anything is drawn; every number is finite."""
    states = played(plan, run.shards, seed=3)
    for state in states:
        if not (np.isfinite(state.shared.model).all() and np.isfinite(state.agents.released).all()):
            raise ContractError(
                run.part,
                "all numbers are finite",
                f"round {state.round} has numbers that are not.",
                "Look at its steps and penalties.",
            )
    first = bits(states)
    if bits(played(run.plan(request), run.shards, seed=3)) != first:
        raise ContractError(
            run.part,
            "one seed gives one run",
            "two runs of one seed differ.",
            "Draw everything from the random bits of the task, and keep nothing in the parts.",
        )
    draws = run.algorithm.private or run.sampled
    if draws == (bits(played(plan, run.shards, seed=4)) == first):
        found = "two seeds give the same run" if draws else "runs of two seeds differ"
        raise ContractError(
            run.part,
            "noise is drawn from the seed",
            f"{found}.",
            "Draw noise from the random bits of the task; a recipe without noise draws none.",
        )


def check_resumes(run: SmallRun, plan: Plan) -> None:
    """A run that goes on from the arrays of a checkpoint is the uninterrupted one, whatever round it stopped in."""
    states = played(plan, run.shards)
    for stopped in states[:-1]:
        agents = AgentState.from_arrays({name: array.copy() for name, array in stopped.agents.to_arrays().items()})
        after = played(plan, run.shards, state=replace(stopped, agents=agents))
        if bits(after) != bits(states[stopped.round :]):
            raise ContractError(
                run.part,
                "a resumed run equals the uninterrupted one",
                f"it differs when it goes on after round {stopped.round}.",
                "Whatever a solver carries from round to round belongs into its Memory.",
            )


def check_alone(run: SmallRun, plan: Plan) -> None:
    """A batch of n agents is n batches of one: each with its rows of the plan, its own random bits, one broadcast."""
    agents, shards = run.shards.agents, run.shards
    state, server = begin(plan), first_state(plan, 1).server
    alone = [begin(plan.take([i])) for i in range(agents)]
    for k in range(1, plan.setting.rounds + 1):
        common = np.repeat(server.common, agents // len(server.common), axis=0)  # on a graph all hear something else
        release, state = solve_and_perturb(plan, state, shards, common, k, Bits(k, np.arange(agents)))
        server = next_server(plan, server, release.value[None], k)
        after = np.repeat(server.common, agents // len(server.common), axis=0)
        state = absorb(plan, state, after, k)
        for i in range(agents):
            mine = plan.take([i])
            single, alone[i] = solve_and_perturb(
                mine, alone[i], shards.take([i]), common[[i]], k, Bits(k, np.array([i]))
            )
            alone[i] = absorb(mine, alone[i], after[[i]], k)
            same = np.array_equal(single.value[0], release.value[i])
            if not (same and np.array_equal(alone[i].dual[0], state.dual[i]) and single.events[0] == release.events[i]):
                off = float(np.abs(single.value[0] - release.value[i]).max())
                raise ContractError(
                    run.part,
                    "an agent alone equals itself in a batch",
                    f"agent {i} of {agents} differs in round {k}, its release by {off:.3g}.",
                    "Nothing may depend on an agent's position or company: real owners compute alone.",
                )


@dataclass(frozen=True)
class Bits:
    """Seeded random bits of some agents in a round, as a task asks for them."""

    round: int
    agents: np.ndarray
    seed: int = 1

    def __call__(self, purpose: str) -> Stream:
        runs = np.zeros(len(self.agents), dtype=np.int64)
        return SeededRandomness(self.seed).stream(runs, self.agents, self.round, purpose)
