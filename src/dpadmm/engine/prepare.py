"""From a spec to everything a run needs: data loaded and every number fixed; nothing has run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpadmm.admm.algorithm import Plan
from dpadmm.admm.topology.graph import count_nodes, parse_topology
from dpadmm.datasets import Dataset, Described, StoredDataset
from dpadmm.engine.data import deal, load_data
from dpadmm.engine.executor import Executor
from dpadmm.engine.preprocessing.stage import Stage, View
from dpadmm.errors import InputError
from dpadmm.privacy.mechanisms import Gaussian
from dpadmm.problems.shards import Shards
from dpadmm.spec import auto, resolve
from dpadmm.spec.declare import AUTO, DataSpec, Experiment
from dpadmm.spec.parts import imported
from dpadmm.spec.resolve import ResolvedRun
from dpadmm.spec.tuning import Choice, choose


@dataclass(frozen=True, eq=False)
class Prepared:
    """A spec with its data: everything is checked, nothing has run."""

    experiment: Experiment
    dataset: Described
    shards: Shards
    test: Shards | None
    plan: Plan
    declared: ResolvedRun  # the run with its parts
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
        plan = self.plan if shards.width == self.plan.setting.width else self.stage.planned(shards.width)
        return replace(self, shards=shards, test=test, plan=plan, view=view)

    @property
    def delta(self) -> float | None:
        """The delta to account at; None for a run that is not private."""
        run = self.experiment.run
        return run.reported_delta if self.plan.algorithm.private else None


def prepare(experiment: Experiment, dataset: Dataset | None = None) -> Prepared:
    """Loads and splits the data, and fixes every number of the run.

    Args:
        experiment: what is to be run; parts by import path are imported.
        dataset: records in memory. Then nothing is loaded, and nothing held out that is not asked for.

    Returns:
        The run with its records: everything is checked, nothing has run.

    Raises:
        InputError: the experiment cannot be run as it is.
    """
    run, data, seed = imported(experiment.run), _data(experiment, dataset), experiment.simulation.seed
    declared = None if run.algorithm == AUTO else resolve.resolved(run)  # a wrong name must not wait for a large file
    loss = auto.check(run) if declared is None else declared.problem.loss
    levels = () if loss is None else loss.levels
    records: Dataset | StoredDataset = dataset or load_data(data, seed, levels[0] if len(levels) == 1 else None)
    if run.norm_bound is None and records.norm_bound is not None:
        run = replace(run, norm_bound=records.norm_bound)
        declared = declared and declared.with_norm_bound(records.norm_bound)
    dealt = deal(records, data, seed)
    classes, reasons = len(records.classes or ()), tuple[str, ...]()
    if run.topology is not None and run.topology.lstrip().startswith("{"):  # with owners' names in it, perhaps
        run = replace(run, topology=parse_topology(run.topology, dealt.names).text)
        declared = declared and replace(declared, run=run)
    if declared is None:
        width = len(records.feature_names) + auto.with_intercept(run)
        run, reasons = auto.choose(run, auto.Facts(dealt.counts, width, classes, dealt.plain))
        declared = resolve.resolved(run)
    loss = declared.problem.loss
    if (loss.task == "regression") != (records.classes is None):
        kind = "numbers" if records.classes is None else "classes"
        raise InputError(f"loss {loss.name!r} is for {loss.task} targets; {records.name!r} has {kind}.")
    shards, test = dealt.shards(run, loss, classes)
    plan = declared.plan(shards.counts, shards.width, classes)
    _check_deltas(run.deltas, shards.agents)
    told = declared.recipe.private and run.noise_multiplier and not run.delta
    if told and isinstance(plan.noise[0].mechanism, Gaussian):
        raise InputError("with a noise multiplier, give the delta at which epsilon is to be reported.")
    experiment = replace(experiment, run=run, data=data)
    warnings = tuple(_warnings(plan, records, dealt.lost, experiment))
    prepared = Prepared(experiment, records, shards, test, plan, declared, warnings, reasons=reasons)
    return prepared if run.components is None and run.standardise is None else _staged(prepared, classes)


def _staged(prepared: Prepared, classes: int) -> Prepared:
    """With the release that comes before the rounds; the plan is of as many columns as are known beforehand."""
    if isinstance(prepared.dataset, StoredDataset):
        raise InputError("components and standardise are for records in memory; those in files are read as they are.")
    if prepared.experiment.run.standardise is not None and (prepared.shards.sparse or prepared.dataset.basis):
        kind = "curves" if prepared.dataset.basis else "sparse rows"
        raise InputError(f"standardise: {kind} would not be {kind} any more; leave it out.")
    width = prepared.shards.width
    stage = Stage.of(prepared.declared, prepared.plan, width, classes)
    return replace(prepared, stage=stage, plan=stage.planned(width))


def _check_deltas(deltas: tuple[float, ...], agents: int) -> None:
    """Also where no budget is made of them, and epsilons are only told at them."""
    if len(deltas) not in (0, 1, agents):
        raise InputError(f"{len(deltas)} deltas for {agents} agents: give one, or one for each.")
    for delta in deltas:
        if not 0.0 <= delta < 1.0:
            raise InputError(f"delta {delta:g}: must lie between 0 and 1, such as 1e-6.")


def _data(experiment: Experiment, dataset: Dataset | None) -> DataSpec:
    """Where the records come from; as many agents as the topology has nodes, where nothing else says how many."""
    run, data = experiment.run, experiment.data
    if run.topology is not None and data.agents is None and data.owner is None:
        data = replace(data, agents=count_nodes(run.topology))
    if dataset is None:
        return data
    whole = data.test is None and dataset.held_out is None
    return replace(data, source=dataset.name, test=0.0 if whole else data.test)


def with_choices(prepared: Prepared) -> Prepared:
    """The same with mini-batches and inner steps chosen for the least noise at the budget."""
    classes = len(prepared.dataset.classes or ())
    counts, width = prepared.plan.setting.counts, prepared.shards.width
    run, choices = choose(prepared.experiment.run, counts, width, classes)
    experiment, declared = replace(prepared.experiment, run=run), resolve.resolved(run)
    plan = declared.plan(counts, width, classes)
    chosen = replace(prepared, experiment=experiment, declared=declared, plan=plan, choices=choices)
    return chosen if prepared.stage is None else _staged(chosen, classes)


def _warnings(plan: Plan, dataset: Described, lost: frozenset[str], experiment: Experiment) -> list[str]:
    """`lost`: owners of whom no record is left to train on."""
    found = []
    if lost:
        some = ", ".join(map(repr, sorted(lost)[:5]))
        found.append(f"all records of {some} fell into the test set: {len(lost)} owner(s) fewer.")
    fewest, delta = int(plan.setting.counts.min()), experiment.run.reported_delta
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
