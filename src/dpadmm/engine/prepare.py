"""From a spec to everything a run needs: data loaded and every number fixed; nothing has run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpadmm.admm.algorithm import Plan
from dpadmm.admm.topology.graph import count_nodes, parse_topology
from dpadmm.datasets import Dataset, Described, StoredDataset
from dpadmm.engine.data import Dealt, deal, load_data
from dpadmm.engine.executor import Executor
from dpadmm.engine.preprocessing.stage import Stage, View
from dpadmm.errors import InputError
from dpadmm.privacy.mechanisms import Gaussian
from dpadmm.problems.losses import Loss
from dpadmm.problems.shards import Shards
from dpadmm.spec import auto, resolve
from dpadmm.spec.declare import AUTO, DataSpec, Experiment, RunSpec
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
    asked, data, seed = imported(experiment.run), _data(experiment, dataset), experiment.simulation.seed
    named = None if asked.algorithm == AUTO else resolve.resolved(asked)  # a wrong name must not wait for a large file
    loss = auto.check(asked) if named is None else named.problem.loss
    records = dataset or load_data(data, seed, _single_level(loss))
    dealt = deal(records, data, seed)
    bound, topology = _norm_bound(asked, records), _topology(asked, dealt)
    if named is None:
        declared, reasons = _chosen(replace(asked, norm_bound=bound, topology=topology), records, dealt)
    else:
        declared, reasons = named.with_data(bound, topology), ()
    _check_targets(declared.problem.loss, records)
    classes = len(records.classes or ())
    shards, test = dealt.shards(declared.run, declared.problem.loss, classes)
    plan = declared.plan(shards.counts, shards.width, classes)
    _check_deltas(declared, plan)
    resolved = replace(experiment, run=declared.run, data=data)
    warnings = tuple(_warnings(plan, records, dealt.lost, resolved))
    prepared = Prepared(resolved, records, shards, test, plan, declared, warnings, reasons=reasons)
    staged = declared.run.components is not None or declared.run.standardise is not None
    return _staged(prepared, classes) if staged else prepared


def _single_level(loss: Loss | None) -> float | None:
    """The level of a quantile regression that has one."""
    return loss.levels[0] if loss is not None and len(loss.levels) == 1 else None


def _norm_bound(run: RunSpec, records: Described) -> float | None:
    """The spec's, or else the one that the data set documents."""
    return records.norm_bound if run.norm_bound is None else run.norm_bound


def _topology(run: RunSpec, dealt: Dealt) -> str | None:
    """The spec's; where its edges may name owners, with their places instead."""
    if run.topology is None or not run.topology.lstrip().startswith("{"):
        return run.topology
    return parse_topology(run.topology, dealt.names).text


def _chosen(run: RunSpec, records: Described, dealt: Dealt) -> tuple[ResolvedRun, tuple[str, ...]]:
    """What `auto` makes of a run and of what is public about its records, and why."""
    width = len(records.feature_names) + auto.with_intercept(run)
    facts = auto.Facts(dealt.counts, width, len(records.classes or ()), dealt.plain)
    chosen, reasons = auto.choose(run, facts)
    return resolve.resolved(chosen), reasons


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


def _check_targets(loss: Loss, records: Described) -> None:
    if (loss.task == "regression") != (records.classes is None):
        kind = "numbers" if records.classes is None else "classes"
        raise InputError(f"loss {loss.name!r} is for {loss.task} targets; {records.name!r} has {kind}.")


def _check_deltas(declared: ResolvedRun, plan: Plan) -> None:
    """Also where no budget is made of them, and epsilons are only told at them."""
    run, agents = declared.run, plan.setting.agents
    if len(run.deltas) not in (0, 1, agents):
        raise InputError(f"{len(run.deltas)} deltas for {agents} agents: give one, or one for each.")
    for delta in run.deltas:
        if not 0.0 <= delta < 1.0:
            raise InputError(f"delta {delta:g}: must lie between 0 and 1, such as 1e-6.")
    multiplied = declared.recipe.private and run.noise_multiplier and not run.delta
    if multiplied and isinstance(plan.noise[0].mechanism, Gaussian):
        raise InputError("with a noise multiplier, give the delta at which epsilon is to be reported.")


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
    declared, choices = choose(prepared.declared, counts, width, classes)
    experiment, plan = replace(prepared.experiment, run=declared.run), declared.plan(counts, width, classes)
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
    if dataset.classes_found and plan.algorithm.private:
        some = ",".join(dataset.classes or ())
        found.append(
            f"the classes are the labels that occur in the records, and no epsilon covers which do; name the labels "
            f"that may occur, such as --classes {some if len(some) <= 60 else 'no,yes'}."
        )
    if not dataset.public_preprocessing:
        found.append(
            "the features were scaled by maxima of the data themselves: that step is not covered by any epsilon, "
            "so this run is not private."
        )
    return found
