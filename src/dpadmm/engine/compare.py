"""Recipes side by side: the test error of each at the same total budgets, over the same records of the same owners.

    from dpadmm.engine.compare import compare
    found = compare(source="adult", agents=(5, 100), epsilons=(0.5, 1.0), delta=1e-5, algorithms="all", repeats=10)

Every recipe runs with its own defaults; one that cannot, or would cost more than its budget, is left out, and why.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dpadmm.admm.algorithm import Algorithm
from dpadmm.admm.topology.graph import count_nodes
from dpadmm.engine import metrics
from dpadmm.engine.data import load_data
from dpadmm.engine.frontier import Cell, Frontier, LeftOut
from dpadmm.engine.prepare import Prepared, prepare
from dpadmm.engine.run import train
from dpadmm.errors import ConvergenceError, InputError, unknown
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.events import Relation
from dpadmm.problems.reference import optimum
from dpadmm.spec import resolve
from dpadmm.spec.declare import AUTO, Experiment, RunSpec
from dpadmm.spec.part import Part
from dpadmm.spec.parts import declared, imported

ALL, BASELINE, OPTIMUM = "all", "dpsgd", "optimum"
PROBE = "gradient-descent"  # it takes any loss, penalty and set: what it refuses, data or problem are to blame for
KEPT = ("loss", "tau", "non_crossing", "penalty", "strength", "set", "rounds", "norm_bound", "intercept")
NOT_TAKEN = ("epsilon", "epsilons", "deltas", "alpha", "paper_noise", "noise_multiplier", "topology")
AT_THE_END = 1_000_000_000  # rounds between measurements; the last round is measured whatever this says


@dataclass(frozen=True)
class ComparedRun:
    """One cell to be: what `train` is given for it."""

    algorithm: str
    agents: int
    epsilon: float | None
    experiment: Experiment

    def done(self) -> tuple[Cell | LeftOut, tuple[str, ...]]:
        """What it came to, and what it warned of."""
        began = time.perf_counter()
        try:
            cell, warnings = self._best() if self.epsilon is None else self._run(self.epsilon)
            if not math.isfinite(cell.mean):
                raise ConvergenceError("its error is not finite: the run has diverged.")
        except (InputError, ConvergenceError) as reason:
            return LeftOut(self.algorithm, self.agents, self.epsilon, " ".join(str(reason).split())), ()
        return replace(cell, seconds=time.perf_counter() - began), warnings

    def _run(self, epsilon: float) -> tuple[Cell, tuple[str, ...]]:
        result = train(self.experiment)
        spent = math.inf if result.guarantee is None else result.guarantee.epsilon
        if spent > epsilon:
            raise InputError(f"its true total is epsilon {spent:.4g}, above the budget.")
        errors = result.history.last("test_error")
        cell = Cell(
            algorithm=self.algorithm,
            recipe=result.plan.algorithm.name,
            agents=self.agents,
            epsilon=epsilon,
            epsilon_spent=spent,
            mean=float(errors.mean()),
            standard_error=float(np.std(errors, ddof=1)) / math.sqrt(errors.size) if errors.size > 1 else None,
            repeats=errors.size,
            rounds=result.plan.setting.rounds,
            loss=resolve.loss_text(result.experiment.run),
            topology=self.experiment.run.topology,
        )
        return cell, result.warnings

    def _best(self) -> tuple[Cell, tuple[str, ...]]:
        """Without privacy: the minimiser over all records, whatever rounds a recipe would need to come near it."""
        prepared = prepare(self.experiment)
        setting = prepared.plan.setting
        model = optimum(setting.problem, prepared.shards, setting.dimension)
        assert prepared.test is not None
        error = float(metrics.test_errors(setting.problem.loss, prepared.test, model[None, :])[0])
        loss = resolve.loss_text(self.experiment.run)
        return Cell(self.algorithm, OPTIMUM, self.agents, None, None, error, None, 1, 0, loss, None), ()


@dataclass(frozen=True)
class ComparisonPlan:
    """What is to be compared: all is checked, nothing has run. Going through it gives what is known after each run."""

    jobs: tuple[ComparedRun, ...]
    empty: Frontier

    def __iter__(self) -> Iterator[Frontier]:
        found = self.empty
        for place, job in enumerate(self.jobs, 1):
            what, warnings = job.done()
            new = tuple(warning for warning in warnings if warning not in found.warnings)
            found = replace(found.plus(what), warnings=found.warnings + new, finished=place == len(self.jobs))
            yield found


def compare(
    experiment: Experiment | None = None,
    *,
    progress: Callable[[Frontier, int, int], None] = lambda *_: None,
    **terms: Any,
) -> Frontier:
    """Runs what `arrange` makes of the terms; `progress` is told what is known by now, after how many of all runs."""
    comparison = arrange(experiment, **terms)
    found = comparison.empty
    for done, found in enumerate(comparison, 1):
        progress(found, done, len(comparison.jobs))
    return found


def arrange(
    experiment: Experiment | None = None,
    *,
    epsilons: Sequence[float],
    delta: float | None = None,
    agents: Sequence[int] = (),
    algorithms: Sequence[str | Algorithm] | str = ALL,
    relation: str = "zero-out",
    repeats: int = 10,
    topology: str = "complete",
    **changes: Any,
) -> ComparisonPlan:
    """Checks the terms of a comparison; an `InputError` for what no recipe could run with.

    No number of agents means: as many as the data have owners, else the usual. The topology is a kind of network,
    without its number of nodes: `ring`, `erdos-renyi:0.3`. Other keywords change single fields of the experiment.
    """
    recipes = _recipes(algorithms)
    base = (experiment or Experiment()).changed(
        delta=delta, relation=relation, repeats=repeats, measure_every=AT_THE_END, **declared(changes)
    )
    budgets = _budgets(base, epsilons)
    usual = base if base.run.loss else base.changed(loss=_usual_loss(base))
    probes = [_probe(usual, count) for count in sorted(set(agents)) or (None,)]
    jobs = []
    for probe in probes:
        count = probe.plan.setting.agents
        jobs.append(ComparedRun(OPTIMUM, count, None, probe.experiment))
        for name, recipe in recipes.items():
            terms = _terms(base if name == AUTO else usual, recipe, probe, topology)  # auto has a loss of its own
            jobs += [ComparedRun(name, count, epsilon, terms.changed(epsilon=epsilon)) for epsilon in budgets]
    jobs.sort(key=_slowness)  # so that there soon is something to show
    loss, test = probes[0].plan.setting.problem.loss, probes[0].test
    empty = Frontier(
        data=base.data.source,
        records=int(probes[0].shards.counts.sum()),
        held_out=0 if test is None else int(test.counts.sum()),
        loss=str(usual.run.loss),
        measure="check loss" if loss.levels else "RMSE" if loss.task == "regression" else "test error",
        delta=base.run.delta or 0.0,
        relation=base.run.relation,
        seed=base.simulation.seed,
        repeats=base.simulation.repeats,
        agents=tuple(probe.plan.setting.agents for probe in probes),
        epsilons=budgets,
        algorithms=tuple(recipes),
    )
    return ComparisonPlan(tuple(jobs), empty)


def _usual_loss(base: Experiment) -> str:
    classes = load_data(base.data, base.simulation.seed).classes
    return "squared" if classes is None else "logistic" if len(classes) == 2 else "softmax"


def _recipes(asked: Sequence[str | Algorithm] | str) -> dict[str, str | Part]:
    """Recipes, each once under the name that tables show, and the baseline among them."""
    words = [word.strip() for word in asked.split(",")] if isinstance(asked, str) else list(asked)
    if words == [ALL]:
        words = [AUTO, *(name for name, recipe in ALGORITHMS.items() if recipe.private)]
    if not any(words):
        raise InputError(f"algorithms: name some, separated by commas, or {ALL!r}.")
    found: dict[str, str | Part] = {}
    for word in (*words, BASELINE):
        run = imported(RunSpec(algorithm=declared({"algorithm": word})["algorithm"]))
        name = run.algorithm
        if isinstance(name, str) and name not in (AUTO, *ALGORITHMS):
            raise unknown("algorithm", name, (ALL, AUTO, *ALGORITHMS))
        if name != AUTO and not resolve.named_recipe(run).private:
            raise InputError(f"algorithm {name!r} is not private; the best without privacy stands beside all anyway.")
        if found.setdefault(str(name), name) != name:
            raise InputError(f"algorithms: two recipes have the name {str(name)!r}, which tables show; rename one.")
    return found


def _budgets(base: Experiment, epsilons: Sequence[float]) -> tuple[float, ...]:
    """In order; what would make every recipe refuse is refused here."""
    plain = {entry.name: entry.default for entry in fields(RunSpec)}
    for name in NOT_TAKEN:
        if getattr(base.run, name) != plain[name]:
            raise InputError(f"{name}: a comparison gives every recipe the same total budget, and what it needs.")
    if not epsilons or not all(0.0 < epsilon < math.inf for epsilon in epsilons):
        given = ", ".join(f"{epsilon:g}" for epsilon in epsilons) or "none"
        raise InputError(f"epsilons {given}: give total budgets, positive numbers such as 1.")
    if base.run.delta is None or not 0.0 <= base.run.delta < 1.0:
        raise InputError(f"delta {base.run.delta}: give one for all recipes, between 0 and 1, such as 1e-5.")
    Relation.parse(base.run.relation)
    return tuple(sorted({float(epsilon) for epsilon in epsilons}))


def _probe(base: Experiment, agents: int | None) -> Prepared:
    """The data over so many agents, with the problem but without a recipe's own terms."""
    run = RunSpec(algorithm=PROBE, **{name: getattr(base.run, name) for name in KEPT})
    found = prepare(replace(base, run=run).changed(agents=agents))
    if agents not in (None, found.plan.setting.agents):
        raise InputError(f"agents {agents}: the data name {found.plan.setting.agents} owners; leave the number out.")
    if found.test is None:
        raise InputError("no records are held out, and recipes are compared by their error on such.")
    return found


def _terms(base: Experiment, name: str | Part, probe: Prepared, topology: str) -> Experiment:
    """What a recipe is given, but for the budget."""
    terms = base.changed(algorithm=name, agents=probe.experiment.data.agents)
    if name == AUTO:
        return terms
    recipe = resolve.named_recipe(terms.run)
    if recipe.consensus.decentralised:
        kind, *numbers = topology.split(":")
        agents = probe.plan.setting.agents
        text = ":".join((kind, str(agents), *numbers))
        if agents > 1 and count_nodes(text) != agents:  # one agent alone is left to the recipe to refuse
            raise InputError(f"topology {topology!r}: it is no kind of network that could have {agents} nodes.")
        terms = terms.changed(topology=text)
    usual = resolve.loss(imported(RunSpec(algorithm=name)))
    if usual.task == "regression" and probe.dataset.classes is not None:
        # Made for numbers, it is left with its own loss, and refuses: with another it would be its neighbour's copy.
        terms = replace(terms, run=replace(terms.run, loss=None))
    return terms


def _slowness(job: ComparedRun) -> int:
    """Whole gradients, then mini-batches, whose noise takes long to calibrate, then exact solves."""
    if job.algorithm in (OPTIMUM, AUTO):
        return 0
    solver = resolve.named_recipe(job.experiment.run).phases[0].solver
    return 2 if solver.sampled else 1 if solver.first_order else 3
