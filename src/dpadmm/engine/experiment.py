"""From a spec to a result: load, split, plan, run, measure."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm.admm.algorithm import Plan
from dpadmm.admm.noise import PaperNoise
from dpadmm.admm.solvers import Exact
from dpadmm.datasets import (
    DATASETS,
    Column,
    Dataset,
    Described,
    Encoder,
    StoredDataset,
    is_folder,
    load,
    open_folder,
    split,
)
from dpadmm.engine import checkpoint
from dpadmm.engine.choices import Choice, choose
from dpadmm.engine.engines import opened
from dpadmm.engine.folder import Folder
from dpadmm.engine.history import History
from dpadmm.engine.loop import Cohort, State, evaluate, rounds, start, without_memory
from dpadmm.engine.observer import Observer
from dpadmm.engine.result import Result
from dpadmm.engine.workforce import Engine, Local
from dpadmm.errors import InputError
from dpadmm.privacy.claims import Claim
from dpadmm.privacy.mechanisms import Gaussian
from dpadmm.privacy.randomness import Seeded, generator
from dpadmm.problems.naming import build
from dpadmm.problems.shards import FloatArray, Shards, gather
from dpadmm.problems.splits import SPLITS
from dpadmm.spec import DataSpec, Experiment

ADULT_TEST = 5222  # the papers train on 40,000 records and test on the rest
NUMBERS_AT_ONCE = 50_000_000  # how large the batch of runs that go side by side may grow

Progress = Callable[[int, int, History], None]
"""Told the run group's first run, the round just measured, and the history so far."""


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

    @property
    def delta(self) -> float | None:
        """The delta to account at; None for a run that is not private."""
        return (self.experiment.run.delta or 0.0) if self.plan.algorithm.private else None


def prepare(experiment: Experiment) -> Prepared:
    """Loads and splits the data, and fixes every number of the run."""
    run, data, seed = experiment.run, experiment.data, experiment.simulation.seed
    recipe, problem = run.recipe(), run.problem()  # a wrong name must not wait for a large file
    run.request()
    dataset = load_data(data, seed)
    classes = len(dataset.classes or ())
    if (problem.loss.task == "regression") != (dataset.classes is None):
        kind = "numbers" if dataset.classes is None else "classes"
        raise InputError(f"loss {problem.loss.name!r} is for {problem.loss.task} targets; {dataset.name!r} has {kind}.")
    if run.norm_bound is None and dataset.norm_bound is not None:
        experiment = experiment.changed(norm_bound=dataset.norm_bound)
        run = experiment.run
    rows: dict[str, Any] = {"norm_bound": run.clip, "intercept": run.intercept, "precision": run.precision}
    encode = partial(problem.loss.encode, classes=classes)
    shards: Shards
    if isinstance(dataset, StoredDataset):
        shards, held_out, lost = dataset.shards(encode, **rows), dataset.held_out, set[str]()
    else:
        train, held_out = _held_out(dataset, data, seed)
        shards = shard(train, encode(train.targets), data, seed, **rows)
        lost = set[str]() if dataset.owners is None else set(dataset.owners) - set(shards.names)
    test = None
    if held_out is not None:
        owner = np.zeros(len(held_out), dtype=np.int64)
        test = gather(held_out.features, held_out.targets, owner, names=["test"], **rows)
    plan = run.plan(shards.counts, shards.width, classes)
    if recipe.private and run.noise_multiplier and not run.delta and isinstance(plan.noise[0].mechanism, Gaussian):
        raise InputError("with a noise multiplier, give the delta at which epsilon is to be reported.")
    return Prepared(experiment, dataset, shards, test, plan, tuple(_warnings(plan, dataset, lost, experiment)))


def load_data(data: DataSpec, seed: int) -> Dataset | StoredDataset:
    """The records a spec names; those of a folder stay in their files."""
    if data.source not in DATASETS and is_folder(data.source):
        return _open_folder(data)
    columns: tuple[Column, ...] | None = None
    if data.columns:
        columns = Encoder.from_dict({"columns": list(data.columns)}).columns
    return load(
        data.source, target=data.target, owner=data.owner, columns=columns, scaling=data.scaling, task=data.task,
        seed=seed, directory=data.data_dir,
    )  # fmt: skip


def _open_folder(data: DataSpec) -> StoredDataset:
    """A folder's records, which say themselves what they are; a spec that says otherwise is refused."""
    told = "its dataset.json says target, columns and task, and its files who owns what"
    for name, value in (("target", data.target), ("owner", data.owner), ("columns", data.columns or None)):
        if value is not None:
            raise InputError(f"{name} {value!r}: {data.source!r} is a folder; {told}.")
    if data.test is not None:
        raise InputError(
            f"test {data.test:g}: the records of the folder {data.source!r} stay where they are; put held-out ones "
            f"into its sub-folder 'test'."
        )
    if data.scaling != "public":
        raise InputError(f"scaling {data.scaling!r}: the folder {data.source!r} is used as it is; only 'public' goes.")
    found = open_folder(data.source)
    if data.task == "regression" and found.classes is not None:
        raise InputError(f"the folder {data.source!r} has classes; it is not for a regression.")
    return found


def _held_out(dataset: Dataset, data: DataSpec, seed: int) -> tuple[Dataset, Dataset | None]:
    """(train, test): by the share asked for, else by the data set's own test records, else by the usual share."""
    if data.test is None and dataset.held_out is not None:
        return dataset, dataset.held_out
    share = data.test if data.test is not None else (ADULT_TEST if data.source == "adult" else 0.2)
    if share >= 1 and share != int(share):
        raise InputError(f"test {share:g}: a share below 1, or a whole number of records.")
    return split(dataset, int(share) if share >= 1 else share, seed)


def shard(train: Dataset, targets: np.ndarray, data: DataSpec, seed: int, **rows: Any) -> Shards:
    """The training records over their owners: by the owner column where there is one, else by the split asked for."""
    if train.owners is not None:
        return gather(train.features, targets, train.owners, **rows)
    if not 1 <= data.agents <= len(train):
        raise InputError(f"agents {data.agents}: must lie between 1 and the number of training records, {len(train)}.")
    owner = build("split", SPLITS, data.split)(train.targets, data.agents, generator(seed, "owners"))
    names = [f"agent {i}" for i in range(data.agents)]
    return gather(train.features, targets, owner, names=names, **rows)


def train(
    experiment: Experiment | None = None,
    *,
    out: Path | str | None = None,
    resume: bool = False,
    checkpoint_every: int = 10,
    progress: Progress | None = None,
    engine: str = "local",
    auto: bool = False,
    **changes: Any,
) -> Result:
    """Simulates an experiment; keyword arguments change single fields of it, by name.

    Repeats differ in their noise only. With `out`, spec, history, model and result are written there; an interrupted
    run goes on from its last checkpoint with `resume`. The engine says where the agents work (see `engines`); the
    numbers are the same, and so a run may go on with another one. With `auto`, mini-batches and inner steps that are
    not given are chosen for the least noise at the budget (see `choices`).
    """
    with opened(engine) as ready:
        prepared = prepare((experiment or Experiment()).changed(**changes))
        if auto:
            prepared = _chosen(prepared)
        return run_prepared(prepared, out, resume, checkpoint_every, progress, ready)


def _chosen(prepared: Prepared) -> Prepared:
    classes = len(prepared.dataset.classes or ())
    counts, width = prepared.plan.setting.counts, prepared.shards.width
    run, choices = choose(prepared.experiment.run, counts, width, classes)
    experiment = replace(prepared.experiment, run=run)
    return replace(prepared, experiment=experiment, plan=run.plan(counts, width, classes), choices=choices)


def run_prepared(
    prepared: Prepared,
    out: Path | str | None = None,
    resume: bool = False,
    checkpoint_every: int = 10,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> Result:
    """Runs what was prepared, in this process unless an engine is given."""
    if checkpoint_every < 1:
        raise InputError(f"checkpoint_every {checkpoint_every}: counts rounds, at least 1.")
    measure_every = prepared.experiment.simulation.measure_every
    folder = None if out is None else Folder.open(Path(out), prepared.experiment, resume)
    digest = hashlib.sha256(prepared.experiment.dumps().encode()).hexdigest()
    engine = engine or Local()
    engine.start()
    began = time.perf_counter()
    parts: list[tuple[State, History]] = []
    estimates: list[FloatArray] = []
    for group in _groups(prepared):
        cohort = Cohort.of(prepared.plan, prepared.shards, group, Seeded(prepared.experiment.simulation.seed))
        kept = None if folder is None else folder.checkpoint(group[0])
        if kept is not None and kept.exists():
            state, history = checkpoint.load(kept, digest)
        else:
            state, history = start(cohort), History()
        with closing(engine.hire(cohort, state)) as workforce:
            observer = Observer(cohort, prepared.test, prepared.delta, workforce)
            for reached in rounds(cohort, state, workforce):
                state = reached
                last = state.round == prepared.plan.setting.rounds
                if last or state.round % measure_every == 0:
                    history.add(state.round, observer.measure(state))
                    if progress is not None:
                        progress(group[0], state.round, history)
                if kept is not None and (last or state.round % checkpoint_every == 0):
                    checkpoint.save(kept, digest, state, history)
            if prepared.plan.evaluation is not None:
                estimates.append(evaluate(cohort, state, workforce))
        parts.append((without_memory(state), history))
    result = _result(prepared, parts, time.perf_counter() - began)
    if estimates:
        result = replace(result, estimated_error=float(np.concatenate(estimates).mean()))
    if folder is not None:
        result = replace(result, out=str(folder.path))
        folder.finish(result)
    return result


def _groups(prepared: Prepared) -> list[range]:
    """Runs that go side by side: as many as fit in memory."""
    setting, recipe = prepared.plan.setting, prepared.plan.algorithm
    exact = any(isinstance(phase.solver, Exact) for phase in recipe.phases)
    per_run = setting.agents * setting.dimension * (setting.dimension if exact else 1)
    size = max(1, NUMBERS_AT_ONCE // per_run)
    repeats = prepared.experiment.simulation.repeats
    return [range(first, min(first + size, repeats)) for first in range(0, repeats, size)]


def _result(prepared: Prepared, parts: list[tuple[State, History]], seconds: float) -> Result:
    plan = prepared.plan
    history = parts[0][1]
    for _, other in parts[1:]:
        history = history.beside(other)
    return Result(
        experiment=prepared.experiment,
        dataset=prepared.dataset,
        plan=plan,
        history=history,
        models=np.concatenate([state.common for state, _ in parts]),
        mean_models=np.concatenate([state.mean_common for state, _ in parts]),
        guarantee=None if prepared.delta is None else plan.accounts().worst(prepared.delta),
        claimed=_claimed(prepared),
        clipped=prepared.shards.clipped,
        seconds=seconds,
        warnings=prepared.warnings,
        choices=prepared.choices,
    )


def _claimed(prepared: Prepared) -> float | None:
    """What the papers would say their per-round noise costs in all: their formula for Gaussian noise, else a sum."""
    run = prepared.experiment.run
    if not isinstance(run.request(), PaperNoise) or run.epsilon is None:
        return None
    if prepared.plan.algorithm.phases[0].solver.sampled:  # 002's formula speaks of the whole run
        return run.epsilon
    steps = run.rounds * prepared.plan.level.steps
    if run.delta and isinstance(prepared.plan.noise[0].mechanism, Gaussian):
        return Claim(run.algorithm, run.epsilon, run.delta, steps).total
    return steps * run.epsilon


def _warnings(plan: Plan, dataset: Described, lost: set[str], experiment: Experiment) -> list[str]:
    """`lost`: owners of whom no record is left to train on."""
    found = []
    if lost:
        some = ", ".join(map(repr, sorted(lost)[:5]))
        found.append(f"all records of {some} fell into the test set: {len(lost)} owner(s) fewer.")
    fewest, delta = int(plan.setting.counts.min()), experiment.run.delta
    if plan.algorithm.private and delta and delta > 1.0 / (10 * fewest):
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
