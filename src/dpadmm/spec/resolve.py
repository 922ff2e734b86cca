"""What a declared run means: its recipe, problem, noise and plan, from the registries and public facts."""

from __future__ import annotations

from typing import Any

from dpadmm._arrays import IntArray
from dpadmm._registry import build
from dpadmm.admm.algorithm import Algorithm, Plan
from dpadmm.admm.noise import NoiseRequest
from dpadmm.admm.rho import RHO_SCHEDULES, ConstantRho
from dpadmm.admm.schedules import SCHEDULES
from dpadmm.admm.setting import Setting
from dpadmm.admm.topology.graph import Topology, count_nodes, parse_topology
from dpadmm.errors import InputError, unknown
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.relations import Relation
from dpadmm.problems.losses import LOSSES, STATISTICS, Loss, Quantile, Quantiles, SmoothedQuantile
from dpadmm.problems.penalties import PENALTIES
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import ConvexSet, NonCrossing, Whole
from dpadmm.problems.sets.text import parse as parse_set
from dpadmm.spec.declare import AUTO, ROUNDS, WEIGHTINGS, RunSpec
from dpadmm.spec.noise import NOISE_FIELDS, requested

QUANTILE_LOSSES = (Quantile.name, SmoothedQuantile.name, Quantiles.name)


def named_recipe(run: RunSpec) -> Algorithm:
    """The recipe as it is in the catalogue."""
    if run.algorithm == AUTO:
        raise InputError(
            f"algorithm {AUTO!r} stands for what public facts come to, and has no parts itself; use the spec that "
            f"a simulation with it writes (dpadmm train --algorithm {AUTO} --out RUN)."
        )
    if run.algorithm not in ALGORITHMS:
        raise unknown("algorithm", run.algorithm, [AUTO, *ALGORITHMS])
    return ALGORITHMS[run.algorithm]


def recipe(run: RunSpec) -> Algorithm:
    """The algorithm, with this spec's changes to its parts."""
    changes: dict[str, Any] = {
        name: getattr(run, name)
        for name in (
            *("mechanism", "updates", "batch", "sampling", "average", "reach", "damping", "momentum"),
            *("tolerance", "extra_curvature", "unit_gain", "weighting"),
        )
        if getattr(run, name) is not None
    }
    if run.weighting not in (None, *WEIGHTINGS):
        raise unknown("weighting", str(run.weighting), WEIGHTINGS)
    named = named_recipe(run)
    if run.rho_schedule is not None:
        changes["rho"] = build("rho schedule", RHO_SCHEDULES, run.rho_schedule)
        if run.rho is not None and not changes["rho"].scales_rho:
            raise InputError(f"give a rho or the rho schedule {run.rho_schedule!r}, not both: it makes its own.")
    elif run.rho is not None and not named.rho.scales_rho:
        changes["rho"] = ConstantRho()
    if run.dual_rho is not None:
        if not named.consensus.decentralised:
            raise InputError(f"algorithm {run.algorithm!r} has a server, and one rho for all its steps.")
        changes["dual_rho"] = ConstantRho(run.dual_rho)
    if run.schedule is not None:
        changes["schedule"] = build("schedule", SCHEDULES, run.schedule)
    return named.tuned(**changes)


def loss_text(run: RunSpec) -> str:
    """The loss by name and numbers, with the levels asked for."""
    text = named_recipe(run).base_loss if run.loss is None else run.loss
    return _with_levels(text, run.tau) if run.tau else text


def problem(run: RunSpec, records: int | None = None) -> Problem:
    """The problem; `records` is how many there are in all, where they are to count alike."""
    loss = build("loss", LOSSES | STATISTICS, loss_text(run))
    statistic = named_recipe(run).base_loss in STATISTICS
    if (loss.name in STATISTICS) != statistic:
        raise InputError(f"algorithm {run.algorithm!r} does not go with loss {loss.name!r}.")
    domain = parse_set(run.set)
    if run.non_crossing:
        domain = _non_crossing(loss, domain, run.clip, bool(run.intercept))
    return Problem(loss, build("penalty", PENALTIES, run.penalty), run.strength, domain, records)


def noise_request(run: RunSpec) -> NoiseRequest:
    """The noise asked for."""
    return requested(recipe(run), **{name: getattr(run, name) for name in NOISE_FIELDS})


def topology(run: RunSpec, agents: int) -> Topology | None:
    """Who talks to whom, where there is no server; a network of another size is refused before it is built."""
    if run.topology is None:
        return None
    if not named_recipe(run).consensus.decentralised:
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


def plan(run: RunSpec, counts: IntArray, width: int, classes: int, records_per_person: int = 1) -> Plan:
    """Every number of the run, from this spec and public facts: records per agent, columns (with the intercept),
    classes, and how many records of one person are protected together."""
    algorithm = recipe(run)
    task = problem(run, int(counts.sum()) if algorithm.weighting == "records" else None)
    setting = Setting(
        problem=task,
        counts=counts,
        dimension=task.loss.dimension(width, classes),
        norm_bound=run.row_bound,
        relation=Relation.parse(run.relation),
        rounds=ROUNDS if run.rounds is None else run.rounds,
        rho=algorithm.base_rho if run.rho is None else run.rho,
        radius=algorithm.base_radius if run.radius is None else run.radius,
        unit_size=records_per_person,
        width=width,
        precision=run.precision,
        graph=topology(run, counts.size),
    )
    planned = algorithm.plan(setting, noise_request(run))
    if run.evaluation_epsilon is None:
        return planned
    if task.loss.task == "regression":
        raise InputError("an evaluation is an error rate: it needs classes, and this is a regression.")
    return planned.with_evaluation(run.evaluation_epsilon)


def _with_levels(loss: str, levels: tuple[float, ...]) -> str:
    """The text of a quantile loss at these levels: `quantile` at 0.1 and 0.9 is `quantiles:0.1,0.9`."""
    name, *numbers = loss.split(":")
    if name not in QUANTILE_LOSSES:
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
