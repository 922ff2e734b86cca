"""What a simulation gives back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.recycling_condition import Condition, condition
from dpadmm.admm.setting import PaperNoise
from dpadmm.admm.solvers import Recycled
from dpadmm.datasets import Described
from dpadmm.engine.output.history import History
from dpadmm.engine.prepare import Prepared
from dpadmm.engine.preprocessing.components import Components
from dpadmm.privacy.accounting import Guarantee
from dpadmm.privacy.claims import Claim
from dpadmm.privacy.mechanisms import Gaussian
from dpadmm.spec import resolve
from dpadmm.spec.declare import Experiment
from dpadmm.spec.projected_cost import versions
from dpadmm.spec.tuning import Choice

LARGEST_GRAPH = 100  # nodes up to which the convergence of recycled rounds is looked into without being asked


@dataclass(frozen=True, eq=False)
class Result:
    """A finished run, or several that were simulated; arrays have one row per run.

    Attributes:
        experiment: What was run, with all that `auto` chose.
        dataset: What is known of the records.
        plan: Every number of the run.
        history: What was measured, round by round.
        models: The last broadcast.
        mean_models: The mean of all broadcasts; weighted where the theorem behind the steps says so (001, 5.5).
        guarantee: What the run cost; None: the recipe is not private.
        claimed: The epsilon that the paper would claim of its own noise.
        clipped: Rows over the norm bound; None in a federation, whose owners keep it to themselves.
        seconds: How long the rounds took.
        warnings: What the user should know.
        out: The output folder.
        choices: Of mini-batches and inner steps, where the engine was asked to choose.
        reasons: What `auto` chose, and why.
        estimated_error: The mean of the owners' private estimates, where the terms have them.
        components: Of the last run, where rows were turned onto some.
        coverage: Share of held-out records below each quantile that was predicted.
        simulated: The noise is seeded and protects nobody.
        missed_rounds: By owner.
        convergence: What theorem IV.1 says of recycled rounds, on graphs that are not too large.
    """

    experiment: Experiment
    dataset: Described
    plan: Plan
    history: History
    models: FloatArray  # the last broadcast
    mean_models: FloatArray  # the mean of all broadcasts
    guarantee: Guarantee | None  # None: the recipe is not private
    claimed: float | None  # what the paper would say of its own noise
    clipped: int | None  # None in a federation, whose owners keep it to themselves
    seconds: float
    warnings: tuple[str, ...]
    out: str | None = None
    choices: tuple[Choice, ...] = ()  # of mini-batches and inner steps, where the engine was asked to choose
    reasons: tuple[str, ...] = ()  # what `auto` chose, and why
    estimated_error: float | None = None  # the mean of the owners' private estimates, where the terms have them
    components: Components | None = None  # of the last run, where rows were turned onto some
    coverage: tuple[float, ...] = ()  # share of held-out records below each quantile that was predicted
    simulated: bool = True  # the noise is seeded and protects nobody
    missed_rounds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # by owner
    convergence: Condition | None = None  # what theorem IV.1 says of recycled rounds, on graphs that are not too large

    @property
    def fully_accounted(self) -> bool:
        """Whether epsilon is finite and covers everything that was done with the records."""
        public = self.dataset.public_preprocessing and not self.dataset.classes_found
        return public and self.guarantee is not None and math.isfinite(self.guarantee.epsilon)

    @property
    def private(self) -> bool:
        """Whether the noise protects somebody: fully accounted, and not simulated with a seed."""
        return self.fully_accounted and not self.simulated

    @property
    def test_error(self) -> float | None:
        return self._mean("test_error")

    @property
    def train_loss(self) -> float:
        return float(self.history.last("train_loss").mean())

    @property
    def by_agent(self) -> list[Guarantee]:
        """What each agent's run costs, at its own delta: where agents have budgets of their own."""
        run = self.experiment.run
        if self.guarantee is None or not (run.epsilons or run.deltas):
            return []
        accounts, agents = self.plan.accounts(), self.plan.setting.agents
        deltas = run.deltas if len(run.deltas) == agents else (run.deltas or (run.delta or 0.0,)) * agents
        return [accounts.guarantee(agent, delta) for agent, delta in enumerate(deltas)]

    def summary(self) -> dict[str, Any]:
        """What the command line prints: one flat object, nothing infinite in it.

        Returns:
            Plain values by name.
        """
        run, guarantee = self.experiment.run, self.guarantee
        setting = self.plan.setting
        multiplier = float(self.plan.noise[0].mechanism.noise_multiplier.min()) if guarantee is not None else None
        return {
            "algorithm": str(run.algorithm),
            "data": self.experiment.data.source,
            "loss": resolve.loss_text(run),
            "tau": list(setting.problem.loss.levels),
            "penalty": str(run.penalty),
            "strength": run.strength,
            "set": str(run.set),
            "agents": setting.agents,
            "records": int(setting.counts.sum()),
            "fewest_records": int(setting.counts.min()),
            "most_records": int(setting.counts.max()),
            "dimension": setting.dimension,
            "rounds": setting.rounds,
            "topology": run.topology,
            "edges": None if setting.graph is None else len(setting.graph.edges),
            "converges_by_theorem": None if self.convergence is None else self.convergence.holds,
            "private": self.private,
            "fully_accounted": self.fully_accounted,
            "epsilon": _finite(guarantee.epsilon if guarantee else None),
            "delta": guarantee.delta if guarantee else None,
            "relation": str(setting.relation),
            "accountant": guarantee.accountant if guarantee else "none",
            "claimed_epsilon": self.claimed,
            "epsilon_by_agent": [_finite(each.epsilon) for each in self.by_agent],
            "noise_multiplier": multiplier,
            **{name: self._mean(name) for name in _MEASURED},
            "test_error_std": self._spread("test_error"),
            "coverage": list(self.coverage),
            "basis": None if self.dataset.basis is None else self.dataset.basis.text,
            "components": None if self.components is None else self.components.rotation.shape[1],
            "estimated_error": self.estimated_error,
            "reasons": list(self.reasons),
            "choices": [choice.to_dict() for choice in self.choices],
            "repeats": self.experiment.simulation.repeats,
            "seed": self.experiment.simulation.seed,
            "simulated": self.simulated,
            "missed_rounds": {name: list(rounds) for name, rounds in self.missed_rounds.items()},
            "clipped_rows": self.clipped,
            "versions": versions(),
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
            "out": self.out,
        }

    def _mean(self, name: str) -> float | None:
        return float(self.history.last(name).mean()) if name in self.history else None

    def _spread(self, name: str) -> float | None:
        if name not in self.history or len(self.models) < 2:
            return None
        return float(np.std(self.history.last(name), ddof=1))


_MEASURED = (
    "train_loss",
    "train_loss_local",
    "objective",
    "augmented_objective",
    "criterion",
    "residual",
    "test_error",
    "test_error_local",
    "mise",
)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def coverage(prepared: Prepared, models: FloatArray) -> tuple[float, ...]:
    """The share of held-out records below each level's prediction, which should be that level; the mean of all runs."""
    loss, test = prepared.plan.setting.problem.loss, prepared.test
    if not loss.levels or test is None:
        return ()
    predicted = loss.predictions(test.real_rows, models).reshape(len(models), len(test.targets), -1)
    return tuple(np.mean(test.targets[:, None] <= predicted, axis=(0, 1)).tolist())


def convergence_condition(plan: Plan) -> Condition | None:
    """Theorem IV.1's verdict on a recipe that recycles: by public bounds on curvature, from its first cycle on."""
    graph, smoothness = plan.setting.graph, plan.setting.smoothness
    damping = [phase.solver.damping for phase in plan.algorithm.phases if isinstance(phase.solver, Recycled)]
    if graph is None or smoothness is None or not damping or graph.nodes > LARGEST_GRAPH:
        return None
    theta, following = plan.rho(1), plan.rho(1 + len(plan.algorithm.phases))
    if plan.algorithm.consensus.by_edge and np.ndim(theta):
        return None  # the theorem's matrices are those of penalties of nodes
    return condition(graph, theta, damping[0], smoothness, following)


def claimed_epsilon(prepared: Prepared) -> float | None:
    """What the papers would say their per-round noise costs in all: their formula for Gaussian noise, else a sum."""
    run = prepared.experiment.run
    if prepared.plan.algorithm.consensus.decentralised:
        printed = prepared.plan.printed()
        return None if printed is None else float(printed[-1])
    if not isinstance(prepared.plan.request, PaperNoise) or run.epsilon is None:
        return None
    if prepared.plan.algorithm.phases[0].solver.sampled:  # 002's formula speaks of the whole run
        return run.epsilon
    steps = prepared.plan.setting.rounds * prepared.plan.level.steps
    if run.delta and isinstance(prepared.plan.noise[0].mechanism, Gaussian):
        return Claim(str(run.algorithm), run.epsilon, run.delta, steps).total
    return steps * run.epsilon
