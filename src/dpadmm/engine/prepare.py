"""From a spec to everything a run needs: data loaded and every number fixed; nothing has run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dpadmm.admm.algorithm import Plan
from dpadmm.admm.topology.graph import count_nodes, parse_topology
from dpadmm.datasets import Dataset, Described, StoredDataset
from dpadmm.engine.data import hold_out, load_data, shard
from dpadmm.engine.executors.base import Executor
from dpadmm.engine.preprocessing.stage import Stage, View
from dpadmm.errors import InputError
from dpadmm.privacy.mechanisms import Gaussian
from dpadmm.problems.shards import Shards, gather
from dpadmm.spec import resolve
from dpadmm.spec.auto import Facts, drafted, settled, with_loss
from dpadmm.spec.declare import AUTO, Experiment
from dpadmm.spec.tuning import Choice, choose


@dataclass(frozen=True, eq=False)
class Prepared:
    """A spec with its data: everything is checked, nothing has run."""

    experiment: Experiment
    dataset: Described
    shards: Shards
    test: Shards | None
    plan: Plan
    warnings: tuple[str, ...]
    choices: tuple[Choice, ...] = ()
    reasons: tuple[str, ...] = ()  # what `auto` chose, and why
    stage: Stage | None = None  # what is released before the rounds, where rows are to be seen in another way
    view: View | None = None  # in which they are

    def turned(self, run: int, executor: Executor | None = None) -> Prepared:
        """The same for one of the runs, its rows as its own release before the rounds lets them be seen."""
        if self.stage is None:
            return self
        intercept = bool(self.experiment.run.intercept)
        view = self.stage.find(self.shards, self.experiment.simulation.seed, run, executor)
        shards = view.rows(self.shards, intercept)
        test = None if self.test is None else view.shown(self.test, intercept)
        return replace(self, shards=shards, test=test, plan=self.stage.planned(shards.width), view=view)

    @property
    def delta(self) -> float | None:
        """The delta to account at; None for a run that is not private."""
        run = self.experiment.run
        return max((run.delta or 0.0, *run.deltas)) if self.plan.algorithm.private else None


def prepare(experiment: Experiment, dataset: Dataset | None = None) -> Prepared:
    """Loads and splits the data, and fixes every number of the run.

    With a data set in memory nothing is loaded, and nothing held out that is not asked for.
    """
    experiment = _with_nodes(experiment)
    if dataset is not None:
        whole = experiment.data.test is None and dataset.held_out is None
        experiment = experiment.changed(source=dataset.name, test=0.0 if whole else None)
    auto = experiment.run.algorithm == AUTO
    if auto:
        experiment = replace(experiment, run=drafted(experiment.run))
    run, data, seed = experiment.run, experiment.data, experiment.simulation.seed
    recipe, problem = resolve.recipe(run), resolve.problem(run)  # a wrong name must not wait for a large file
    resolve.noise_request(run)
    levels = problem.loss.levels
    records: Dataset | StoredDataset = dataset or load_data(data, seed, levels[0] if len(levels) == 1 else None)
    classes = len(records.classes or ())
    if auto:
        experiment = replace(experiment, run=with_loss(run, classes))
        run, problem = experiment.run, resolve.problem(experiment.run)
    if (problem.loss.task == "regression") != (records.classes is None):
        kind = "numbers" if records.classes is None else "classes"
        raise InputError(f"loss {problem.loss.name!r} is for {problem.loss.task} targets; {records.name!r} has {kind}.")
    if run.norm_bound is None and records.norm_bound is not None:
        experiment = experiment.changed(norm_bound=records.norm_bound)
        run = experiment.run
    rows: dict[str, Any] = {"norm_bound": run.clip, "intercept": bool(run.intercept), "precision": run.precision}
    encode = partial(problem.loss.encode, classes=classes)
    shards: Shards
    if isinstance(records, StoredDataset):
        shards, held_out, lost = records.shards(encode, **rows), records.held_out, set[str]()
    else:
        train, held_out = hold_out(records, data, seed)
        shards = shard(train, encode(train.targets), data, seed, **rows)
        lost = set[str]() if records.owners is None else set(records.owners) - set(shards.names)
    if run.topology is not None and run.topology.lstrip().startswith("{"):  # with owners' names in it, perhaps
        experiment = experiment.changed(topology=parse_topology(run.topology, shards.names).text)
        run = experiment.run
    test = None
    if held_out is not None:
        owner = np.zeros(len(held_out), dtype=np.int64)
        test = gather(held_out.features, held_out.targets, owner, names=["test"], **rows)
    reasons: tuple[str, ...] = ()
    if auto:
        plain = isinstance(records, Dataset) and not shards.sparse and records.basis is None
        run, reasons = settled(run, Facts(shards.counts, shards.width, classes, plain))
        experiment = replace(experiment, run=run)
    plan = resolve.plan(run, shards.counts, shards.width, classes)
    _check_deltas(run.deltas, shards.agents)
    if recipe.private and run.noise_multiplier and not run.delta and isinstance(plan.noise[0].mechanism, Gaussian):
        raise InputError("with a noise multiplier, give the delta at which epsilon is to be reported.")
    warnings = tuple(_warnings(plan, records, lost, experiment))
    prepared = Prepared(experiment, records, shards, test, plan, warnings, reasons=reasons)
    return prepared if run.components is None and run.standardise is None else _staged(prepared, classes)


def _staged(prepared: Prepared, classes: int) -> Prepared:
    """With the release that comes before the rounds; the plan is of as many columns as are known beforehand."""
    if isinstance(prepared.dataset, StoredDataset):
        raise InputError("components and standardise are for records in memory; those in files are read as they are.")
    if prepared.experiment.run.standardise is not None and (prepared.shards.sparse or prepared.dataset.basis):
        kind = "curves" if prepared.dataset.basis else "sparse rows"
        raise InputError(f"standardise: {kind} would not be {kind} any more; leave it out.")
    width = prepared.shards.width
    stage = Stage.of(prepared.experiment.run, prepared.plan, width, classes)
    return replace(prepared, stage=stage, plan=stage.planned(width))


def _check_deltas(deltas: tuple[float, ...], agents: int) -> None:
    """Also where no budget is made of them, and epsilons are only told at them."""
    if len(deltas) not in (0, 1, agents):
        raise InputError(f"{len(deltas)} deltas for {agents} agents: give one, or one for each.")
    for delta in deltas:
        if not 0.0 <= delta < 1.0:
            raise InputError(f"delta {delta:g}: must lie between 0 and 1, such as 1e-6.")


def _with_nodes(experiment: Experiment) -> Experiment:
    """As many agents as the topology has nodes, where nothing else says how many."""
    run, data = experiment.run, experiment.data
    if run.topology is None or data.agents is not None or data.owner is not None:
        return experiment
    return experiment.changed(agents=count_nodes(run.topology))


def with_choices(prepared: Prepared) -> Prepared:
    """The same with mini-batches and inner steps chosen for the least noise at the budget."""
    classes = len(prepared.dataset.classes or ())
    counts, width = prepared.plan.setting.counts, prepared.shards.width
    run, choices = choose(prepared.experiment.run, counts, width, classes)
    experiment = replace(prepared.experiment, run=run)
    chosen = replace(prepared, experiment=experiment, plan=resolve.plan(run, counts, width, classes), choices=choices)
    return chosen if prepared.stage is None else _staged(chosen, classes)


def _warnings(plan: Plan, dataset: Described, lost: set[str], experiment: Experiment) -> list[str]:
    """`lost`: owners of whom no record is left to train on."""
    found = []
    if lost:
        some = ", ".join(map(repr, sorted(lost)[:5]))
        found.append(f"all records of {some} fell into the test set: {len(lost)} owner(s) fewer.")
    fewest, delta = int(plan.setting.counts.min()), max((experiment.run.delta or 0.0, *experiment.run.deltas))
    if plan.algorithm.private and delta > 1.0 / (10 * fewest):
        found.append(
            f"delta {delta:g} is above 1/(10 m) = {1 / (10 * fewest):.2g} for the smallest agent (m = {fewest} "
            f"records): such a delta permits giving away whole records."
        )
    if not dataset.public_preprocessing:
        found.append(
            "the features were scaled by maxima of the data themselves: that step is not covered by any epsilon, "
            "so this run is not private."
        )
    return found
