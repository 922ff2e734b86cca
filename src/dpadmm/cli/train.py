"""`dpadmm train`: simulate a recipe over split data."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpadmm import _limits
from dpadmm._files import read_text
from dpadmm.cli import browser
from dpadmm.cli.console import RUN, AsJson, Open, Quiet, err, examples, numbers, print_json, print_warning
from dpadmm.cli.declared import FIELDS, declared, in_order, kind
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
            "dpadmm train --topology erdos-renyi:20:0.3 --algorithm private-mr-admm --epsilon 1 --delta 1e-5",
            "dpadmm train --topology ring:10 --algorithm private-r-admm --mechanism gamma-norm --epsilon 12",
            "dpadmm train --data functional-sim --algorithm fdp-admm --tau 0.5 --agents 20 --epsilon 1 --delta 1e-5",
            "dpadmm train --data spectra.csv --curve nm --target fat --algorithm fdp-admm --tau 0.1,0.5,0.9 "
            "--intercept --non-crossing --components 5 --epsilon 4 --delta 1e-4",
            "dpadmm train --epsilon 1 --delta 1e-5 --open",
            "dpadmm train --out run --resume",
            "dpadmm train --epsilon 1 --delta 1e-5 --engine dask:tcp://10.0.0.1:8786",
        ),
    )(_with_fields(train))


def train(
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="New folder for spec, history, model and result."),
    ] = None,
    tune_batches: Annotated[
        bool,
        typer.Option(
            "--tune-batches",
            help="Choose mini-batches and inner steps for the least noise at the budget.",
            rich_help_panel="Algorithm",
        ),
    ] = False,
    spec: Annotated[
        Path | None,
        typer.Option("--spec", help="TOML file that says all this; flags override it.", rich_help_panel=RUN),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            help="Where the agents work: local (this process), dask (a worker process per core), dask:NUMBER, or the "
            "address of a Dask scheduler, dask:tcp://HOST:8786. The numbers are the same.",
            rich_help_panel=RUN,
        ),
    ] = "local",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the interrupted run in --out.", rich_help_panel=RUN)
    ] = False,
    shown_at_once: Open = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Train a model over data split among agents, in a simulation.

    Private algorithms need a total budget: --epsilon, and --delta unless their
    noise is pure. Losses and errors are measured on the records themselves,
    which only a simulation may do.
    """
    values = {name: _read(name, value) for name, value in given.items()}
    experiment = _given(spec, out, resume).changed("the command line", **values)
    if tune_batches and resume:
        raise InputError("--tune-batches chooses for a new run; a resumed one goes on with what was chosen for it.")
    if shown_at_once and out is None:
        out = browser.temporary("train")
    _run(experiment, out, resume, engine, tune_batches, quiet, as_json)
    if shown_at_once and out is not None:
        browser.show_report(out, as_json)


def _with_fields(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for every declared field in place of `**given`, as Typer reads it.

    Those that people need first are in no panel of their own: Typer shows options without one before all panels.
    """
    signature = inspect.signature(command, eval_str=True)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    made = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                kind(field) | None, declared(field.name, rich_help_panel=None if field.first else field.panel)
            ],
        )
        for field in in_order()
    ]
    first = sum(FIELDS[each.name].first for each in made)
    parameters = [*made[:first], own[0], *made[first:], *own[1:]]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
    return command


def _read(name: str, given: Any) -> Any:
    """What a flag gives, as its field wants it."""
    if name == "start" and isinstance(given, str) and given.startswith("@"):
        from dpadmm.spec.sequences import numbers_in_file

        return numbers_in_file(name, given)
    if FIELDS[name].type.startswith("tuple[float"):
        return numbers(FIELDS[name].flag, given)
    return _FROM_FILES[name](given) if name in _FROM_FILES else given


def _set(given: str | None) -> str | None:
    """A set's text, or that of the file it names: a spec holds the set itself, wherever it was read from."""
    if given is None or not given.startswith("@"):
        return given
    try:
        return read_text(Path(given[1:]), "the set", limit=_limits.SPEC).strip()
    except InputError as error:
        raise InputError(f"--set {given}: {error}") from None


def _topology(given: str | None) -> str | None:
    """A topology's text, or that of the graph in the file it names."""
    if given is None or not given.startswith("@"):
        return given
    from dpadmm.admm.topology.graph import read_topology

    return read_topology(Path(given[1:]))


def _table(name: str) -> Callable[[str | None], str | None]:
    """Numbers that vary by round, or those in the file that is named."""
    from dpadmm.spec.sequences import from_file

    return lambda given: None if given is None else from_file(name, given)


_FROM_FILES: dict[str, Callable[[str | None], str | None]] = {
    "set": _set,
    "topology": _topology,
    "rho_schedule": _table("rho_schedule"),
    "noise_schedule": _table("noise_schedule"),
}


def _given(spec: Path | None, out: Path | None, resume: bool) -> Experiment:
    """What flags then change: a spec file, the interrupted run's own spec, or the defaults."""
    from dpadmm.engine.output.checkpoint import refuse_earlier
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
        refuse_earlier(out)
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
        err().print(hint, soft_wrap=True)
        raise typer.Exit(130) from None
    for warning in result.warnings:
        print_warning(warning)
    if as_json:
        print_json(result.summary())
    else:
        show(result, hints=not quiet)
