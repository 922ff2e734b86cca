"""Recipes side by side: the test error of each at the same total budgets, over the same records of the same owners.

    from dpadmm.engine.comparing import compare
    found = compare(source="adult", agents=(5, 100), epsilons=(0.5, 1.0), delta=1e-5, algorithms="all", repeats=10)

Every recipe runs with its own defaults; one that cannot, or would cost more than its budget, is left out, and why.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from dpadmm.admm import graphs
from dpadmm.engine.experiment import train
from dpadmm.engine.preparing import Prepared, load_data, prepare
from dpadmm.errors import ConvergenceError, InputError, unknown
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.relations import Relation
from dpadmm.problems.losses import LOSSES, STATISTICS
from dpadmm.spec import Experiment, RunSpec

ALL, AUTO, BASELINE, NON_PRIVATE = "all", "auto", "dpsgd", "admm"
PROBE = "gradient-descent"  # it takes any loss, penalty and set: what it refuses, data or problem are to blame for
KEPT = ("loss", "tau", "non_crossing", "penalty", "strength", "set", "rounds", "norm_bound", "intercept", "precision")
NOT_TAKEN = ("epsilon", "epsilons", "deltas", "alpha", "paper_noise", "noise_multiplier", "topology")
AT_THE_END = 1_000_000_000  # rounds between measurements; the last round is measured whatever this says


@dataclass(frozen=True)
class Cell:
    """One recipe at one budget with one number of agents; without a budget, what there is without privacy."""

    algorithm: str  # as it was asked for
    recipe: str  # which that came to
    agents: int
    epsilon: float | None  # the total that was asked for
    epsilon_spent: float | None  # and what the accountant says
    mean: float  # of the error on held-out records, over the repeats
    standard_error: float | None  # of that mean; None with one repeat
    repeats: int
    rounds: int
    loss: str
    topology: str | None
    seconds: float = field(compare=False)


@dataclass(frozen=True)
class LeftOut:
    """What could not run, and why."""

    algorithm: str
    agents: int
    epsilon: float | None
    reason: str


@dataclass(frozen=True)
class Frontier:
    """What a comparison has found by now."""

    data: str
    records: int
    held_out: int
    loss: str
    measure: str  # what the errors are: "test error" (a share), "RMSE" or "check loss"
    delta: float
    relation: str
    seed: int
    repeats: int
    agents: tuple[int, ...]
    epsilons: tuple[float, ...]
    algorithms: tuple[str, ...]
    cells: tuple[Cell, ...] = ()
    non_private: tuple[Cell, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()
    finished: bool = False  # whether nothing is missing

    def row(self, algorithm: str, agents: int) -> dict[float | None, Cell]:
        """A recipe's cells by their budgets."""
        return {each.epsilon: each for each in self.cells if (each.algorithm, each.agents) == (algorithm, agents)}

    def ranked(self, agents: int) -> tuple[str, ...]:
        """Recipes by their error at the largest budget, the best first; what did not run there comes last."""
        rows = {name: row for name in self.algorithms if (row := self.row(name, agents))}
        falling = self.epsilons[::-1]
        order = {name: [row[at].mean if at in row else math.inf for at in falling] for name, row in rows.items()}
        return tuple(sorted(order, key=order.__getitem__))

    def best(self, agents: int, epsilon: float) -> Cell | None:
        """The least error at a budget."""
        column = [each for each in self.cells if (each.agents, each.epsilon) == (agents, epsilon)]
        return min(column, key=lambda each: each.mean, default=None)

    def plus(self, found: Cell | LeftOut) -> Frontier:
        """With one more, in the order in which they were asked for."""
        name = "left_out" if isinstance(found, LeftOut) else "non_private" if found.epsilon is None else "cells"
        kept: dict[str, Any] = {name: tuple(sorted((*getattr(self, name), found), key=self._place))}
        return replace(self, **kept)

    def _place(self, found: Cell | LeftOut) -> tuple[int, int, float]:
        order = self.algorithms.index(found.algorithm) if found.algorithm in self.algorithms else -1
        return self.agents.index(found.agents), order, found.epsilon or 0.0


@dataclass(frozen=True)
class Job:
    """One cell to be: what `train` is given for it."""

    algorithm: str
    agents: int
    epsilon: float | None
    experiment: Experiment

    def done(self) -> tuple[Cell | LeftOut, tuple[str, ...]]:
        """What it came to, and what it warned of."""
        began = time.perf_counter()
        try:
            result = train(self.experiment)
            spent = None if result.guarantee is None else result.guarantee.epsilon
            if self.epsilon is not None and (spent is None or spent > self.epsilon):
                raise InputError(f"its true total is epsilon {spent or math.inf:.4g}, above the budget.")
            errors = result.history.last("test_error")
            mean = float(errors.mean())
            if not math.isfinite(mean):
                raise ConvergenceError("its error is not finite: the run has diverged.")
        except (InputError, ConvergenceError) as reason:
            return LeftOut(self.algorithm, self.agents, self.epsilon, " ".join(str(reason).split())), ()
        cell = Cell(
            algorithm=self.algorithm,
            recipe=result.plan.algorithm.name,
            agents=self.agents,
            epsilon=self.epsilon,
            epsilon_spent=spent,
            mean=mean,
            standard_error=float(np.std(errors, ddof=1)) / math.sqrt(errors.size) if errors.size > 1 else None,
            repeats=errors.size,
            rounds=result.plan.setting.rounds,
            loss=result.experiment.run.loss_text,
            topology=self.experiment.run.topology,
            seconds=time.perf_counter() - began,
        )
        return cell, result.warnings


@dataclass(frozen=True)
class Comparison:
    """What is to be compared: all is checked, nothing has run. Going through it gives what is known after each run."""

    jobs: tuple[Job, ...]
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
    algorithms: Sequence[str] | str = ALL,
    relation: str = "zero-out",
    repeats: int = 10,
    topology: str = "complete",
    **changes: Any,
) -> Comparison:
    """Checks the terms of a comparison; an `InputError` for what no recipe could run with.

    No number of agents means: as many as the data have owners, else the usual. The topology is a kind of network,
    without its number of nodes: `ring`, `erdos-renyi:0.3`. Other keywords change single fields of the experiment.
    """
    names = _names(algorithms)
    base = (experiment or Experiment()).changed(
        delta=delta, relation=relation, repeats=repeats, measure_every=AT_THE_END, **changes
    )
    budgets = _budgets(base, epsilons)
    usual = base if base.run.loss else base.changed(loss=_usual_loss(base))
    probes = [_probe(usual, count) for count in sorted(set(agents)) or (None,)]
    jobs = []
    for probe in probes:
        count = probe.plan.setting.agents
        jobs.append(Job(NON_PRIVATE, count, None, _terms(usual, NON_PRIVATE, probe, topology).changed(repeats=1)))
        for name in names:
            terms = _terms(base if name == AUTO else usual, name, probe, topology)  # auto has a loss of its own
            jobs += [Job(name, count, epsilon, terms.changed(epsilon=epsilon)) for epsilon in budgets]
    jobs.sort(key=lambda job: _slowness(job.algorithm))  # so that there soon is something to show
    loss, test = probes[0].plan.setting.problem.loss, probes[0].test
    empty = Frontier(
        data=base.data.source,
        records=int(probes[0].shards.counts.sum()),
        held_out=0 if test is None else int(test.counts.sum()),
        loss=usual.run.loss or "",
        measure="check loss" if loss.levels else "RMSE" if loss.task == "regression" else "test error",
        delta=base.run.delta or 0.0,
        relation=base.run.relation,
        seed=base.simulation.seed,
        repeats=base.simulation.repeats,
        agents=tuple(probe.plan.setting.agents for probe in probes),
        epsilons=budgets,
        algorithms=names,
    )
    return Comparison(tuple(jobs), empty)


def _usual_loss(base: Experiment) -> str:
    classes = load_data(base.data, base.simulation.seed).classes
    return "squared" if classes is None else "logistic" if len(classes) == 2 else "softmax"


def _names(asked: Sequence[str] | str) -> tuple[str, ...]:
    """Recipes by name, each once, and the baseline among them."""
    words = [word.strip() for word in asked.split(",")] if isinstance(asked, str) else list(asked)
    if words == [ALL]:
        words = [AUTO, *(name for name, recipe in ALGORITHMS.items() if recipe.private)]
    if not any(words):
        raise InputError(f"algorithms: name some, separated by commas, or {ALL!r}.")
    for word in words:
        if word not in (AUTO, *ALGORITHMS):
            raise unknown("algorithm", word, (ALL, AUTO, *ALGORITHMS))
        if word != AUTO and not ALGORITHMS[word].private:
            raise InputError(f"algorithm {word!r} is not private; {NON_PRIVATE!r} stands beside all others anyway.")
    return tuple(dict.fromkeys((*words, BASELINE)))


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


def _terms(base: Experiment, name: str, probe: Prepared, topology: str) -> Experiment:
    """What a recipe is given, but for the budget."""
    terms = base.changed(algorithm=name, agents=probe.experiment.data.agents)
    if name == AUTO:
        return terms
    recipe = ALGORITHMS[name]
    if recipe.consensus.decentralised:
        kind, *numbers = topology.split(":")
        agents = probe.plan.setting.agents
        text = ":".join((kind, str(agents), *numbers))
        if agents > 1 and graphs.count(text) != agents:  # one agent alone is left to the recipe to refuse
            raise InputError(f"topology {topology!r}: it is no kind of network that could have {agents} nodes.")
        terms = terms.changed(topology=text)
    if (LOSSES | STATISTICS)[recipe.base_loss.split(":")[0]].task == "regression" and probe.dataset.classes is not None:
        # Made for numbers, it is left with its own loss, and refuses: with another it would be its neighbour's copy.
        terms = replace(terms, run=replace(terms.run, loss=None))
    return terms


def _slowness(name: str) -> int:
    """Whole gradients, then mini-batches, whose noise takes long to calibrate, then exact solves."""
    solver = None if name in (NON_PRIVATE, AUTO) else ALGORITHMS[name].phases[0].solver
    return 0 if solver is None else 2 if solver.sampled else 1 if solver.first_order else 3
