"""`dpadmm train`: simulate a recipe over split data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dpadmm.cli import browser, options
from dpadmm.cli.console import AsJson, err, examples, print_json, print_warning
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.spec.declare import Experiment


def register(app: typer.Typer) -> None:
    app.command(
        "train",
        epilog=examples(
            "dpadmm train --epsilon 1 --delta 1e-5 --out run",
            "dpadmm train --algorithm auto --relation zero-out --epsilon 1 --delta 1e-5",
            "dpadmm train --data my.csv --target y --owner hospital --epsilon 1 --delta 1e-6",
            "dpadmm train --algorithm admm --repeats 3 --json",
            "dpadmm train --data digits --loss softmax --algorithm obj-g --set box:0.5 --epsilon 8 --delta 1e-5",
            "dpadmm train --spec run/spec.toml --rounds 50",
            "dpadmm train --algorithm ps-admm-sgd --relation zero-out --tune-batches --epsilon 1 --delta 1e-5",
            "dpadmm train --topology erdos-renyi:20:0.3 --algorithm private-mr-admm --rounds 50 --epsilon 12",
            "dpadmm train --topology ring:10 --algorithm private-r-admm --mechanism gaussian --epsilon 1 --delta 1e-5",
            "dpadmm train --data functional-sim --algorithm fdp-admm --tau 0.5 --agents 20 --epsilon 1 --delta 1e-5",
            "dpadmm train --data spectra.csv --curve nm --target fat --algorithm fdp-admm --tau 0.1,0.5,0.9 "
            "--intercept --non-crossing --components 5 --epsilon 4 --delta 1e-4",
            "dpadmm train --epsilon 1 --delta 1e-5 --open",
            "dpadmm train --out run --resume",
            "dpadmm train --epsilon 1 --delta 1e-5 --engine dask:tcp://10.0.0.1:8786",
        ),
    )(train)


def train(
    source: options.Source = None,
    data_dir: options.DataDir = None,
    target: options.Target = None,
    owner: options.Owner = None,
    agents: options.Agents = None,
    split: options.Split = None,
    test: options.Test = None,
    scaling: options.Scaling = None,
    task: options.Task = None,
    curve: options.Curve = None,
    basis: options.Basis = None,
    smoothing: options.Smoothing = None,
    loss: options.Loss = None,
    tau: options.Tau = None,
    non_crossing: options.NonCrossing = None,
    penalty: options.Penalty = None,
    strength: options.Strength = None,
    domain: options.Domain = None,
    norm_bound: options.NormBound = None,
    intercept: options.Intercept = None,
    weighting: options.Weighting = None,
    precision: options.Precision = None,
    algorithm: options.Algorithm = None,
    rounds: options.Rounds = None,
    updates: options.Updates = None,
    batch: options.Batch = None,
    sampling: options.Sampling = None,
    average: options.Average = None,
    reach: options.Reach = None,
    tune_batches: options.TuneBatches = False,
    components: options.Components = None,
    components_share: options.ComponentsShare = None,
    standardise: options.Standardise = None,
    momentum: options.Momentum = None,
    topology: options.Topology = None,
    damping: options.Damping = None,
    rho: options.Rho = None,
    dual_rho: options.DualRho = None,
    rho_schedule: options.RhoSchedule = None,
    radius: options.Radius = None,
    schedule: options.Schedule = None,
    tolerance: options.Tolerance = None,
    extra_curvature: options.ExtraCurvature = None,
    unit_gain: options.UnitGain = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    epsilons: options.Epsilons = None,
    deltas: options.Deltas = None,
    alpha: options.Alpha = None,
    relation: options.NeighbourRelation = None,
    paper_noise: options.PaperNoise = None,
    noise_multiplier: options.NoiseMultiplier = None,
    mechanism: options.Mechanism = None,
    evaluation_epsilon: options.EvaluationEpsilon = None,
    seed: options.Seed = None,
    repeats: options.Repeats = None,
    measure_every: options.MeasureEvery = None,
    spec: options.SpecFile = None,
    out: options.Out = None,
    resume: options.Resume = False,
    engine: options.Engine = "local",
    shown_at_once: options.Open = False,
    quiet: options.Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a model over data split among agents, in a simulation.

    Private algorithms need a total budget: --epsilon, and --delta unless their
    noise is pure. Losses and errors are measured on the records themselves,
    which only a simulation may do.
    """
    experiment = _given(spec, out, resume).changed(
        "the command line",
        source=source, data_dir=data_dir, target=target, owner=owner, agents=agents, split=split, test=test,
        scaling=scaling, task=task, curve=curve, basis=basis, smoothing=smoothing, loss=loss,
        tau=options.numbers("--tau", tau), non_crossing=non_crossing, penalty=penalty, strength=strength,
        set=_set(domain), norm_bound=norm_bound, intercept=intercept, weighting=weighting, precision=precision,
        algorithm=algorithm, rounds=rounds, updates=updates, batch=batch, sampling=sampling, average=average,
        reach=reach, components=components, components_share=components_share, standardise=standardise,
        momentum=momentum, topology=_topology(topology), damping=damping, rho=rho, dual_rho=dual_rho,
        rho_schedule=rho_schedule, radius=radius, schedule=schedule, tolerance=tolerance,
        extra_curvature=extra_curvature, unit_gain=unit_gain,
        epsilon=epsilon, delta=delta, epsilons=options.numbers("--epsilons", epsilons),
        deltas=options.numbers("--deltas", deltas), alpha=options.numbers("--alpha", alpha), relation=relation,
        paper_noise=paper_noise, noise_multiplier=noise_multiplier, mechanism=mechanism,
        evaluation_epsilon=evaluation_epsilon, seed=seed, repeats=repeats, measure_every=measure_every,
    )  # fmt: skip
    if tune_batches and resume:
        raise InputError("--tune-batches chooses for a new run; a resumed one goes on with what was chosen for it.")
    if shown_at_once and out is None:
        out = browser.temporary("train")
    _run(experiment, out, resume, engine, tune_batches, quiet, as_json)
    if shown_at_once and out is not None:
        browser.show_report(out, as_json)


def _set(given: str | None) -> str | None:
    """A set's text, or that of the file it names: a spec holds the set itself, wherever it was read from."""
    if given is None or not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--set {given}: the file cannot be read: {error}.") from None


def _topology(given: str | None) -> str | None:
    """A topology's text, or that of the graph in the file it names."""
    if given is None or not given.startswith("@"):
        return given
    from dpadmm.admm.topology.graph import read_topology

    return read_topology(Path(given[1:]))


def _given(spec: Path | None, out: Path | None, resume: bool) -> Experiment:
    """What flags then change: a spec file, the interrupted run's own spec, or the defaults."""
    from dpadmm.spec.declare import Experiment
    from dpadmm.spec.toml import read

    if resume and out is None:
        raise InputError("--resume needs --out, the folder of the interrupted run.")
    if spec is not None:
        return read(spec)
    if resume and out is not None:
        kept = out / "spec.toml"
        if not kept.is_file():
            raise InputError(f"--out {str(out)!r} holds no interrupted run to resume.")
        return read(kept)
    return Experiment()


def _run(
    experiment: Experiment, out: Path | None, resume: bool, engine: str, tune_batches: bool, quiet: bool, as_json: bool
) -> None:
    from dpadmm.cli.progress import training_bar
    from dpadmm.cli.summary import show
    from dpadmm.engine.run import train as run

    try:
        with training_bar(experiment, shown=not (as_json or quiet)) as progress:
            result = run(
                experiment, out=out, resume=resume, progress=progress, engine=engine, tune_batches=tune_batches
            )
    except KeyboardInterrupt:
        if out is not None and (out / "spec.toml").exists():
            hint = f"interrupted; to go on: dpadmm train --out {out} --resume"
        else:
            hint = "interrupted; with --out a run can be resumed."
        err().print(hint, soft_wrap=True, markup=False)
        raise typer.Exit(130) from None
    for warning in result.warnings:
        print_warning(warning)
    if as_json:
        print_json(result.summary())
    else:
        show(result, hints=not quiet)
