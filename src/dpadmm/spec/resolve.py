"""What a declared run means: its recipe, problem and noise, from the registries, and with public facts its plan.

`resolved` makes them once for a run; who needs one of them is given the result. Nothing here imports a user's module:
parts by import path have become values before (`parts.imported`), or are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm._fields import names
from dpadmm._registry import build, refuse_import_path
from dpadmm.admm.algorithm import Algorithm, Plan
from dpadmm.admm.noise_schedule import NOISE_SCHEDULES
from dpadmm.admm.rho import RHO_SCHEDULES, ConstantRho
from dpadmm.admm.schedules import SCHEDULES
from dpadmm.admm.setting import Density, Multiplier, NoiseRequest, PaperNoise, Setting, TotalBudget
from dpadmm.admm.topology.graph import Topology, count_nodes, parse_topology
from dpadmm.errors import InputError, unknown
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses import LOSSES, STATISTICS, Loss, Quantile, Quantiles, SmoothedQuantile
from dpadmm.problems.penalties import PENALTIES
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import ConvexSet, NonCrossing, Whole
from dpadmm.problems.sets.text import parse as parse_set
from dpadmm.spec._part_options import PartOptions
from dpadmm.spec.declare import AUTO, ROUNDS, WEIGHTINGS, RunSpec
from dpadmm.spec.part import Part, unwrapped

QUANTILE_LOSSES = (Quantile.name, SmoothedQuantile.name, Quantiles.name)


@dataclass(frozen=True, eq=False)
class ResolvedRun:
    """A declared run with its parts; all but the records' number and size is fixed."""

    run: RunSpec
    recipe: Algorithm
    problem: Problem
    noise: NoiseRequest

    def with_data(self, norm_bound: float | None, topology: str | None) -> ResolvedRun:
        """The same parts where the data say how long rows are, and which node of the topology each owner is."""
        run = replace(self.run, norm_bound=norm_bound, topology=topology)
        if run.clip == self.run.clip:
            return replace(self, run=run)
        return replace(self, run=run, problem=replace(self.problem, domain=_domain(run, self.problem.loss)))

    def tuned(self, **options: Any) -> ResolvedRun:
        """The same run with these options of its recipe's parts."""
        return replace(self, run=replace(self.run, **options), recipe=self.recipe.tuned(**options))

    def plan(self, counts: IntArray, width: int, classes: int, records_per_person: int = 1) -> Plan:
        """Every number of the run, from public facts.

        Args:
            counts: records of each agent.
            width: columns, with the intercept.
            classes: of the targets; 0 where they are numbers.
            records_per_person: how many records of one person are protected together.
        """
        run = self.run
        if run.centred and run.components is None:
            raise InputError("centred is about components; give their number, or leave it out.")
        by_record = self.recipe.weighting == "records"
        task = replace(self.problem, records=int(counts.sum()) if by_record else None)
        setting = Setting(
            problem=task,
            counts=counts,
            dimension=task.loss.dimension(width, classes),
            norm_bound=run.row_bound,
            relation=Relation.parse(run.relation),
            rounds=ROUNDS if run.rounds is None else run.rounds,
            rho=self.recipe.base_rho if run.rho is None else run.rho,
            radius=self.recipe.base_radius if run.radius is None else run.radius,
            unit_size=records_per_person,
            width=width,
            start=_start(run, task.loss, task.loss.dimension(width, classes)),
            graph=_topology(run, self.recipe, counts.size),
        )
        planned = self.recipe.plan(setting, self.noise)
        if run.evaluation_epsilon is None:
            return planned
        if task.loss.task == "regression":
            raise InputError("an evaluation is an error rate: it needs classes, and this is a regression.")
        return planned.with_evaluation(run.evaluation_epsilon)


def resolved(run: RunSpec) -> ResolvedRun:
    """The run with its parts, each made once."""
    algorithm = recipe(run)
    return ResolvedRun(run, algorithm, problem(run), _noise_request(run, algorithm))


def plan(run: RunSpec, counts: IntArray, width: int, classes: int, records_per_person: int = 1) -> Plan:
    """The plan of a run that nobody has resolved yet; see `ResolvedRun.plan`."""
    return resolved(run).plan(counts, width, classes, records_per_person)


def noise_request(run: RunSpec) -> NoiseRequest:
    """The noise that a run which nobody has resolved yet asks for."""
    return _noise_request(run, recipe(run))


def named_recipe(run: RunSpec) -> Algorithm:
    """The recipe as it is in the catalogue, or as it was given."""
    if isinstance(run.algorithm, Part):
        return run.algorithm.value
    if run.algorithm == AUTO:
        raise InputError(
            f"algorithm {AUTO!r} stands for what public facts come to, and has no parts itself; use the spec that "
            f"a simulation with it writes (dpadmm train --algorithm {AUTO} --out RUN)."
        )
    if run.algorithm in ALGORITHMS:
        return ALGORITHMS[run.algorithm]
    refuse_import_path("algorithm", run.algorithm)
    raise unknown("algorithm", run.algorithm, [AUTO, *ALGORITHMS])


def recipe(run: RunSpec) -> Algorithm:
    """The algorithm, with this spec's changes to its parts."""
    changes: dict[str, Any] = {
        name: getattr(run, name) for name in (*names(PartOptions), "weighting") if getattr(run, name) is not None
    }
    if run.weighting not in (None, *WEIGHTINGS):
        raise unknown("weighting", str(run.weighting), WEIGHTINGS)
    named = named_recipe(run)
    if run.rho_schedule is not None:
        changes["rho"] = build("rho schedule", RHO_SCHEDULES, unwrapped(run.rho_schedule))
        if run.rho is not None and not changes["rho"].scales_rho:
            raise InputError(f"give a rho or the rho schedule {run.rho_schedule!r}, not both: it makes its own.")
    elif run.rho is not None and not named.rho.scales_rho:
        changes["rho"] = ConstantRho()
    if run.dual_rho is not None:
        if not named.consensus.decentralised:
            raise InputError(f"algorithm {run.algorithm!r} has a server, and one rho for all its steps.")
        changes["dual_rho"] = ConstantRho(run.dual_rho)
    if run.noise_schedule is not None:
        changes["noise_schedule"] = build("noise schedule", NOISE_SCHEDULES, unwrapped(run.noise_schedule))
    if run.schedule is not None:
        changes["schedule"] = build("schedule", SCHEDULES, unwrapped(run.schedule))
    return named.tuned(**changes)


def loss_text(run: RunSpec) -> str:
    """The loss by name and numbers, with the levels asked for; of a loss by value its import path or name."""
    return str(_loss(run))


def loss(run: RunSpec) -> Loss:
    """The loss, with the levels asked for."""
    return build("loss", LOSSES | STATISTICS, unwrapped(_loss(run)))


def problem(run: RunSpec) -> Problem:
    """The problem, where all owners count alike."""
    found = loss(run)
    statistic = named_recipe(run).base_loss in STATISTICS
    if (found.name in STATISTICS) != statistic:
        raise InputError(f"algorithm {run.algorithm!r} does not go with loss {found.name!r}.")
    penalty = build("penalty", PENALTIES, unwrapped(run.penalty))
    return Problem(found, penalty, run.strength, _domain(run, found))


def _noise_request(run: RunSpec, algorithm: Algorithm) -> NoiseRequest:
    return requested(algorithm, **{name: getattr(run, name) for name in NOISE_FIELDS})


def _loss(run: RunSpec) -> str | Part:
    given = named_recipe(run).base_loss if run.loss is None else run.loss
    return _with_levels(given, run.tau) if run.tau else given


def _domain(run: RunSpec, loss: Loss) -> ConvexSet:
    given = unwrapped(run.set)
    domain = parse_set(given) if isinstance(given, str) else given
    return _non_crossing(loss, domain, run.clip, bool(run.intercept)) if run.non_crossing else domain


def _start(run: RunSpec, loss: Loss, dimension: int) -> FloatArray | None:
    """Where all begin; None for zeros."""
    if not any(run.start):
        return None
    if loss.name in STATISTICS:
        raise InputError(f"loss {loss.name!r} is a statistic, which is released as it is; leave the start out.")
    if len(run.start) not in (1, dimension):
        raise InputError(
            f"start: {len(run.start):,} numbers, and models have {dimension:,} coefficients: give one, or one for each."
        )
    return np.broadcast_to(np.asarray(run.start, dtype=np.float64), (dimension,)).copy()


def _topology(run: RunSpec, algorithm: Algorithm, agents: int) -> Topology | None:
    """Who talks to whom, where there is no server; a network of another size is refused before it is built."""
    if run.topology is None:
        return None
    if not algorithm.consensus.decentralised:
        raise InputError(
            f"topology {run.topology!r}: algorithm {run.algorithm!r} has a server that talks to all agents. "
            f"Algorithms on graphs are {', '.join(n for n, a in ALGORITHMS.items() if a.consensus.decentralised)}."
        )
    if count_nodes(run.topology) != agents:
        raise InputError(
            f"topology {run.topology!r} has {count_nodes(run.topology)} nodes, and there are {agents} agents: "
            f"it must have one for each."
        )
    return parse_topology(run.topology)


def _with_levels(loss: str | Part, levels: tuple[float, ...]) -> str:
    """The text of a quantile loss at these levels: `quantile` at 0.1 and 0.9 is `quantiles:0.1,0.9`."""
    name, *numbers = str(loss).split(":")
    if isinstance(loss, Part) or name not in QUANTILE_LOSSES:
        raise InputError(f"tau is a level of a quantile regression; loss {loss!r} has none. Use loss 'quantile'.")
    if numbers:
        raise InputError(f"give the levels by tau or in the loss {loss!r}, not both.")
    listed = ",".join(f"{level:.17g}" for level in levels)
    width = f":{SmoothedQuantile.width:g}" if name == SmoothedQuantile.name else ""
    return f"{Quantiles.name if len(levels) > 1 or name == Quantiles.name else name}:{listed}{width}"


def _non_crossing(loss: Loss, domain: ConvexSet, radius: float, intercept: bool) -> ConvexSet:
    """The set of models whose quantiles cross for no row up to the norm bound."""
    if not isinstance(loss, Quantiles) or len(loss.levels) < 2:
        raise InputError(
            f"non_crossing is about several quantile levels; loss {loss.name!r} has one. Give several tau."
        )
    if not intercept:
        raise InputError(
            "non_crossing needs an intercept: without one, all quantiles of the row 0 are 0, and no two levels could "
            "differ. Set intercept."
        )
    if not isinstance(domain, Whole):
        raise InputError(f"non_crossing is a set of its own; it does not go with the set {domain.name!r}.")
    return NonCrossing(len(loss.levels), radius)


NOISE_FIELDS = (
    *("epsilon", "delta", "epsilons", "deltas", "alpha"),
    *("paper_noise", "noise_multiplier", "evaluation_epsilon"),
)
"""What of a spec is about noise."""


def requested(
    recipe: Algorithm,
    *,
    epsilon: float | None,
    delta: float | None,
    epsilons: tuple[float, ...],
    deltas: tuple[float, ...],
    alpha: tuple[float, ...],
    paper_noise: bool,
    noise_multiplier: float | None,
    evaluation_epsilon: float | None,
) -> NoiseRequest:
    """The noise asked for; a private recipe must be given a budget, a density, a multiplier, or per-round noise."""
    asked = {"epsilon": epsilon, "epsilons": epsilons, "alpha": alpha, "noise multiplier": noise_multiplier}
    given = [name for name, value in asked.items() if value not in (None, ())]
    total = recipe.private and bool(given) and given[0].startswith("epsilon")
    if paper_noise and not total:
        raise InputError("paper_noise makes noise of an epsilon for every round; it goes with epsilon and delta only.")
    if evaluation_epsilon is not None and (not total or paper_noise or recipe.as_printed):
        raise InputError("evaluation_epsilon is a part of a total budget; give one, as epsilon and delta.")
    if not recipe.private:
        if given and not (given == ["noise multiplier"] and not noise_multiplier):
            raise InputError(
                f"algorithm {recipe.name!r} is not private, so {given[0]} {_said(asked[given[0]])} means nothing to "
                f"it; leave the budget out, or choose a private algorithm such as 'dp-admm'."
            )
        return Multiplier(0.0)
    if len(given) > 1:
        raise InputError(f"give {_article(given[0])} or {_article(given[1])}, not both: each follows from the other.")
    if delta is not None and not 0.0 <= delta < 1.0:
        raise InputError(f"delta {delta:g}: must lie between 0 and 1, such as 1e-6.")
    if noise_multiplier is not None:
        return Multiplier(noise_multiplier, delta or Multiplier.delta)
    if alpha:
        return Density(alpha, delta or Density.delta)
    if not given:
        raise InputError(
            f"algorithm {recipe.name!r} is private: give a total budget (epsilon, and delta unless the noise is "
            f"pure), or a noise multiplier."
        )
    budgets = _budgets(epsilons or (epsilon or 0.0,), deltas or (delta or 0.0,), evaluation_epsilon)
    if delta is not None and deltas:
        raise InputError("give one delta for all agents or deltas for each, not both.")
    if not (paper_noise or recipe.as_printed):
        return TotalBudget(budgets)
    if len(budgets) > 1:
        raise InputError("the papers' noise is the same for all agents; give one epsilon and one delta.")
    return PaperNoise(budgets[0])


def _budgets(
    epsilons: tuple[float, ...], deltas: tuple[float, ...], evaluation_epsilon: float | None
) -> tuple[Budget, ...]:
    if len(deltas) not in (1, len(epsilons)):
        raise InputError(f"{len(deltas)} deltas for {len(epsilons)} epsilons: give one, or one for each.")
    least = min(epsilons)
    if evaluation_epsilon is not None and not 0.0 < evaluation_epsilon < least:
        raise InputError(f"evaluation_epsilon {evaluation_epsilon!r}: must be positive and below epsilon {least:g}.")
    pairs = zip(epsilons, deltas if len(deltas) > 1 else deltas * len(epsilons), strict=True)
    return tuple(Budget(_rest(epsilon, evaluation_epsilon), delta) for epsilon, delta in pairs)


def _rest(epsilon: float, part: float | None) -> float:
    """What a part of a budget leaves of it, a little less than that: sums of upper bounds are rounded up."""
    return epsilon if part is None else epsilon - part - 8.0 * math.ulp(epsilon)


def _said(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else f"{value}"


def _article(name: str) -> str:
    return f"an {name}" if name[0] in "ae" else f"a {name}"
