"""What is known of a run before its first round: its shape, its noise, and what it will have cost after each round.

All of it follows from public facts; of the records only their number enters.
"""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpadmm._version import __version__
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.setting import TotalBudget
from dpadmm.privacy.accounting import Guarantee, best
from dpadmm.privacy.events import DpEvent, Tally
from dpadmm.spec.declare import RunSpec

MOST_ROUNDS = 50  # at which costs are told
MOST_GROUPS = 100  # of agents that spend alike, of which the costs are told
EVALUATIONS = 1_000  # of an accountant, in all
COSTLY_EVALUATIONS = 24  # of mini-batches, or of rounds that all differ: they take a tenth of a second each


def versions() -> dict[str, str]:
    return {"dpadmm": __version__, "numpy": np.__version__, "python": platform.python_version()}


def described(plan: Plan, run: RunSpec, names: Sequence[str], every: int = 1) -> dict[str, Any]:
    """A plan's public facts as plain values; `every` is how many rounds lie between measurements."""
    setting = plan.setting
    return {
        "versions": versions(),
        "algorithm": str(run.algorithm),
        "agents": list(names),
        "records": int(setting.counts.sum()),
        "fewest_records": int(setting.counts.min()),
        "most_records": int(setting.counts.max()),
        "dimension": setting.dimension,
        "rounds": setting.rounds,
        "releases_models": plan.algorithm.consensus.releases_models,
        "privacy": _privacy(plan, run, every) if plan.algorithm.private else None,
    }


def _privacy(plan: Plan, run: RunSpec, every: int) -> dict[str, Any]:
    delta = run.reported_delta
    total = plan.accounts().worst(delta)
    return {
        "relation": str(plan.setting.relation),
        "unit_size": plan.setting.unit_size,
        "total": _plain(total),
        "noise": [_noise(plan, phase) for phase in range(len(plan.noise))],
        "before": bool(plan.before),
        "evaluation": plan.evaluation is not None,
        "budgets": _budgets(plan, run, total.accountant, every),
    }


def _plain(found: Guarantee) -> dict[str, Any]:
    epsilon = found.epsilon if math.isfinite(found.epsilon) else None
    return {"epsilon": epsilon, "delta": found.delta, "relation": str(found.relation), "accountant": found.accountant}


def _noise(plan: Plan, index: int) -> dict[str, Any]:
    """What one phase of the cycle draws."""
    phase, noise = plan.algorithm.phases[index], plan.noise[index]
    multipliers = np.concatenate([each.mechanism.noise_multiplier for each in (noise.course or (noise,))])
    return {
        "perturbation": phase.perturbation.name,
        "reads_records": phase.solver.reads_records,
        "mechanism": noise.mechanism.name,
        "multiplier": [float(multipliers.min()), float(multipliers.max())],
        "steps": phase.solver.steps,
        "times": plan.algorithm.times(index, plan.setting.rounds),
    }


def _budgets(plan: Plan, run: RunSpec, accountant: str, every: int) -> dict[str, Any]:
    """What agents have spent after some of the rounds; those that spend alike, within one limit, are told of once."""
    agents = plan.setting.agents
    deltas = _of_each(run.deltas or (run.delta or 0.0,), agents)
    limits: Sequence[float | None] = [None] * agents
    if isinstance(plan.request, TotalBudget):  # which is without what is set aside: the limit is of all
        limits = _of_each(run.epsilons or (run.epsilon or 0.0,), agents)
    groups: dict[Any, list[int]] = {}
    for agent, events in enumerate(zip(*_columns(plan), strict=True)):
        groups.setdefault((events, deltas[agent], limits[agent]), []).append(agent)
    costly = accountant == "pld" or any(noise.course for noise in plan.noise)
    affordable = (COSTLY_EVALUATIONS if costly else EVALUATIONS) // min(len(groups), MOST_GROUPS)
    rounds = _some(plan.setting.rounds, max(3, min(MOST_ROUNDS, affordable)), every)
    told = [
        {"agents": members, "delta": delta, "limit": limit, "epsilon": _course(plan, members[0], delta, rounds)}
        for (_, delta, limit), members in _chosen(list(groups.items()))
    ]
    return {"rounds": rounds, "of": told, "left_out": max(0, len(groups) - MOST_GROUPS)}


def _of_each(given: Sequence[float], agents: int) -> Sequence[float]:
    return given if len(given) == agents else tuple(given) * agents


def _columns(plan: Plan) -> list[tuple[DpEvent, ...]]:
    """All events of a run that agents may differ in, one tuple of all agents each."""
    columns = [each.events for noise in plan.noise for each in (noise.course or (noise,))]
    return [*columns, *([plan.before] if plan.before else [])]


def _chosen(groups: list[Any]) -> list[Any]:
    """All of them, or some from the smallest limit to the largest."""
    if len(groups) <= MOST_GROUPS:
        return groups
    groups = sorted(groups, key=lambda group: (group[0][2] or 0.0, group[1][0]))
    return [groups[place] for place in np.linspace(0, len(groups) - 1, MOST_GROUPS).round().astype(int)]


def _some(rounds: int, most: int, every: int) -> list[int]:
    """At most so many rounds, the last one among them, and of those that are measured where it can be."""
    measured = [*range(every, rounds, every), rounds]
    places = np.linspace(0, len(measured) - 1, min(most, len(measured))).round().astype(int)
    return [measured[place] for place in places]


def _course(plan: Plan, agent: int, delta: float, rounds: Sequence[int]) -> list[float | None]:
    """What an agent has spent after each of these rounds; the last one is with all that comes after the rounds."""
    found = (best(_tally(plan, agent, round), delta, plan.setting.relation).epsilon for round in rounds)
    return [epsilon if math.isfinite(epsilon) else None for epsilon in found]


def _tally(plan: Plan, agent: int, round: int) -> Tally:
    """As `Plan.accounts`, but of one agent: what all of them did need not be compared."""
    tally = Counter([plan.before[agent]] if plan.before else [])
    for phase, noise in enumerate(plan.noise):
        times = plan.algorithm.times(phase, round)
        if not noise.course:
            tally[noise.events[agent]] += times
        tally.update(each.events[agent] for each in noise.course[:times])
    if round == plan.setting.rounds and plan.evaluation is not None:
        tally[plan.evaluation.events()[agent]] += 1
    return tally
