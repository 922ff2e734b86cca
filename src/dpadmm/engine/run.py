"""From a spec to a result: prepare, run, measure."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.solvers import Exact
from dpadmm.admm.state import State
from dpadmm.datasets.curves.slope import SlopeError
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.data import TEST, load_table
from dpadmm.engine.executor import Executor, InProcessExecutor
from dpadmm.engine.executors import open_executor
from dpadmm.engine.loop import evaluate, rounds
from dpadmm.engine.metrics import Observer
from dpadmm.engine.output import checkpoint
from dpadmm.engine.output.folder import Folder
from dpadmm.engine.output.history import History
from dpadmm.engine.output.status import StatusWriter
from dpadmm.engine.prepare import Prepared, prepare, with_choices
from dpadmm.engine.preprocessing.components import Components
from dpadmm.engine.preprocessing.stage import lifted_state
from dpadmm.engine.result import Result, claimed_epsilon, convergence_condition, coverage
from dpadmm.errors import InputError
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec import toml
from dpadmm.spec.declare import Experiment
from dpadmm.spec.parts import declared
from dpadmm.spec.projected_cost import described
from dpadmm.spec.train_options import TrainOptions

NUMBERS_AT_ONCE = 50_000_000  # how large the batch of runs that go side by side may grow
Progress = Callable[[int, int, History], None]
"""Told the run group's first run, the round just measured, and the history so far."""


def train(
    experiment: Experiment | None = None,
    *,
    data: Any = None,
    owners: str | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    checkpoint_every: int = 10,
    progress: Progress | None = None,
    engine: str = "local",
    tune_batches: bool = False,
    **changes: Unpack[TrainOptions],
) -> Result:
    """Simulates an experiment; keyword arguments change single fields of it, by name. Repeats differ in noise only.

    Args:
        experiment: what is to be run; without one, the defaults.
        data: the records: a name, a file or a folder as `source` takes it, or a table in memory (pandas, Polars,
            pyarrow), whose columns `target` and `owners` name.
        owners: the column that names each record's owner.
        out: a new folder for spec, history, model and result.
        resume: go on with the interrupted run in `out`, from its last checkpoint.
        checkpoint_every: rounds between checkpoints.
        progress: told how far the run is.
        engine: where the agents work (see `engine/executor.py`). The numbers are the same everywhere.
        tune_batches: choose mini-batches and inner steps that are not given for the least noise at the budget.
        **changes: fields of the experiment. Loss, penalty, set, algorithm, schedule, rho_schedule and noise_schedule
            may be parts of your own instead of names, the latter two arrays as well (a row per round, a column per
            agent), topology a networkx graph.

    Returns:
        The models, their history and what they cost.

    Raises:
        InputError: the experiment cannot be run as it is; nothing has been computed.
    """
    for word, field, value in (("data", "source", data), ("owners", "owner", owners)):
        if value is not None and changes.get(field) is not None:
            raise InputError(f"give {word} or {field}, not both: they mean the same.")
    source, table = (str(data), None) if isinstance(data, str | Path) else (None, data)
    asked = (experiment or Experiment()).changed(**declared(changes)).changed(source=source, owner=owners)
    _refuse_unwritable(asked, table, out)
    executor = open_executor(engine)
    found = prepare(asked) if table is None else _prepared_in_memory(asked, table)
    prepared = with_choices(found) if tune_batches else found
    with executor:
        return run_prepared(prepared, out, resume, checkpoint_every, progress, executor)


def _refuse_unwritable(experiment: Experiment, table: Any, out: Path | str | None) -> None:
    """Before anything is computed: an output folder must say what resuming, reporting and predicting need."""
    if out is None:
        return
    if table is not None:
        raise InputError(
            "records in memory do not go with an output folder (out): resuming and predicting need to find them "
            "again. Write them to a .parquet file and give its path as data."
        )
    toml.dumps(experiment)


def _prepared_in_memory(experiment: Experiment, table: Any) -> Prepared:
    """With the usual share of the records held out, unless the spec or the records themselves say which."""
    records = load_table(table, experiment.data)
    usual = TEST if experiment.data.test is None and records.held_out is None else None
    return prepare(experiment.changed(test=usual), records)


def run_prepared(
    prepared: Prepared,
    out: Path | str | None = None,
    resume: bool = False,
    checkpoint_every: int = 10,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Result:
    """Runs what was prepared, in this process unless an executor is given, which the caller has entered."""
    if checkpoint_every < 1:
        raise InputError(f"checkpoint_every {checkpoint_every}: counts rounds, at least 1.")
    executor = executor or InProcessExecutor()
    if out is None:
        return _run(prepared, None, None, checkpoint_every, progress, executor)
    folder = Folder.open(Path(out), prepared.experiment, resume)
    with StatusWriter(folder.path, prepared.plan.setting.rounds, prepared.experiment.simulation.repeats) as live:
        folder.describe(_facts(prepared))
        result = replace(_run(prepared, folder, live, checkpoint_every, progress, executor), out=str(folder.path))
        folder.finish(result)
    return result


def _facts(prepared: Prepared) -> dict[str, Any]:
    """What a run's folder says before the first round."""
    data, every = prepared.dataset, prepared.experiment.simulation.measure_every
    return {
        **described(prepared.plan, prepared.experiment.run, prepared.shards.names, every),
        "data": prepared.experiment.data.source,
        "test_records": None if prepared.test is None else len(prepared.test.targets),
        "public_preprocessing": data.public_preprocessing,
        "simulated": True,
        "warnings": list(prepared.warnings),
    }


def _run(
    prepared: Prepared,
    folder: Folder | None,
    live: StatusWriter | None,
    checkpoint_every: int,
    progress: Progress | None,
    executor: Executor,
) -> Result:
    measure_every = prepared.experiment.simulation.measure_every
    digest = "" if folder is None else hashlib.sha256(toml.dumps(prepared.experiment).encode()).hexdigest()
    began = time.perf_counter()
    parts: list[tuple[State, History]] = []
    estimates: list[FloatArray] = []
    for group in _groups(prepared):
        part = prepared.turned(group[0])
        cohort = Cohort.of(part.plan, part.shards, group, SeededRandomness(part.experiment.simulation.seed))
        kept = None if folder is None else folder.checkpoint(group[0])
        if kept is not None and kept.exists():
            state, history = checkpoint.load(kept, digest, SimulationState.from_arrays)
        else:
            state, history = SimulationState.of(cohort), History()
        if live is not None:
            live.begin(group[0], state.round, history)
        observer = Observer(cohort, part.test, part.delta, executor, _slope_error(part), measure_every)
        for reached in rounds(cohort, state, executor):
            state = reached
            last = state.round == part.plan.setting.rounds
            if last or state.round % measure_every == 0:
                history.add(state.round, observer.measure(state), observer.of_nodes(state))
                if progress is not None:
                    progress(group[0], state.round, history)
            if live is not None:
                live.reached(state.round)
            if kept is not None and (last or state.round % checkpoint_every == 0):
                checkpoint.save(kept, digest, state, history)
        if part.plan.evaluation is not None:
            estimates.append(evaluate(cohort, state, executor))
        lifted = state.shared
        if part.view is not None:
            lifted = lifted_state(lifted, part.view, bool(part.experiment.run.intercept))
        parts.append((lifted, history))
    result = _result(prepared, part, parts, time.perf_counter() - began)
    if estimates:
        result = replace(result, estimated_error=float(np.concatenate(estimates).mean()))
    return result


def _slope_error(part: Prepared) -> SlopeError | None:
    """How far coefficient functions are from the truth; None where the records are no curves, or nobody knows it."""
    basis, truth = part.dataset.basis, part.dataset.truth
    if basis is None or truth is None:
        return None
    rotation = part.view.rotation if isinstance(part.view, Components) else None
    return SlopeError.of(basis, truth, part.plan.setting.problem.loss.outputs(0), rotation)


def _groups(prepared: Prepared) -> list[range]:
    """Runs that go side by side: as many as fit in memory."""
    setting, recipe = prepared.plan.setting, prepared.plan.algorithm
    exact = any(isinstance(phase.solver, Exact) for phase in recipe.phases)
    per_run = setting.agents * setting.dimension * (setting.dimension if exact else 1)
    # Every run sees its rows in its own way, so that no two can go side by side.
    size = max(1, NUMBERS_AT_ONCE // per_run) if prepared.stage is None else 1
    repeats = prepared.experiment.simulation.repeats
    return [range(first, min(first + size, repeats)) for first in range(0, repeats, size)]


def _result(prepared: Prepared, last: Prepared, parts: list[tuple[State, History]], seconds: float) -> Result:
    """`last` is what was prepared with the rows of the last runs, `prepared` with the rows as they came."""
    plan = last.plan
    history = parts[0][1]
    for _, other in parts[1:]:
        history = history.beside(other)
    models = np.concatenate([state.model for state, _ in parts])
    return Result(
        experiment=prepared.experiment,
        dataset=prepared.dataset,
        plan=plan,
        history=history,
        models=models,
        mean_models=np.concatenate([state.mean_model for state, _ in parts]),
        guarantee=None if prepared.delta is None else plan.accounts().worst(prepared.delta),
        claimed=claimed_epsilon(prepared),
        clipped=prepared.shards.clipped,
        seconds=seconds,
        warnings=prepared.warnings,
        choices=prepared.choices,
        reasons=prepared.reasons,
        convergence=convergence_condition(plan),
        components=last.view if isinstance(last.view, Components) else None,
        coverage=coverage(prepared, models),
    )
