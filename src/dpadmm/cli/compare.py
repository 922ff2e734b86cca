"""`dpadmm compare`: the error of every recipe at the same total budgets."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpadmm import _plots
from dpadmm.cli.console import AsJson, Quiet, err, examples, numbers, print_json, print_warning
from dpadmm.cli.declared import declared
from dpadmm.cli.progress import bar
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.engine.compare import ComparisonPlan
    from dpadmm.engine.frontier import Frontier


def register(app: typer.Typer) -> None:
    app.command(
        "compare",
        epilog=examples(
            "dpadmm compare --data adult --agents 5,100 --epsilon 0.1,0.5,1,2 --delta 1e-5 --picture frontier.png",
            "dpadmm compare --data breast-cancer --agents 5 --epsilon 1 --delta 1e-5 --algorithms dp-admm,pvp",
            "dpadmm compare --data digits --agents 10 --epsilon 1,4 --delta 1e-5 --topology ring --csv cells.csv",
            "dpadmm compare --data my.csv --target y --owner hospital --epsilon 1,2 --delta 1e-6 --json",
        ),
    )(compare)


def compare(
    epsilon: Annotated[str, typer.Option("--epsilon", help="Total budgets of every agent: 0.5,1,2.")],
    delta: Annotated[float | None, declared("delta")] = None,
    agents: Annotated[
        str | None,
        typer.Option("--agents", help="Numbers of agents to split the records over: 5,100.", show_default="100"),
    ] = None,
    algorithms: Annotated[
        str,
        typer.Option("--algorithms", help="Private ones from 'dpadmm algorithms', auto, import paths; or all."),
    ] = "all",
    repeats: Annotated[int, declared("repeats", show_default=True)] = 10,
    relation: Annotated[str, typer.Option("--relation", help="Of all of them: replace or zero-out.")] = "zero-out",
    topology: Annotated[
        str,
        typer.Option("--topology", help="Kind of network of those without a server: ring, erdos-renyi:0.3."),
    ] = "complete",
    source: Annotated[str | None, declared("source")] = None,
    data_dir: Annotated[str | None, declared("data_dir")] = None,
    target: Annotated[str | None, declared("target")] = None,
    owner: Annotated[str | None, declared("owner")] = None,
    split: Annotated[str | None, declared("split")] = None,
    test: Annotated[float | None, declared("test")] = None,
    task: Annotated[str | None, declared("task")] = None,
    loss: Annotated[str | None, declared("loss", show_default="logistic, softmax or squared")] = None,
    norm_bound: Annotated[float | None, declared("norm_bound")] = None,
    intercept: Annotated[bool | None, declared("intercept")] = None,
    rounds: Annotated[int | None, declared("rounds")] = None,
    seed: Annotated[int | None, declared("seed")] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Draw it to this .png, .svg or .pdf.", show_default=False)
    ] = None,
    cells: Annotated[
        Path | None, typer.Option("--csv", help="Write every cell to this file.", show_default=False)
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compare algorithms: their test error at the same total budgets.

    Each runs with its own defaults, over the same records of the same agents;
    DPSGD and ADMM without noise are always among them. What cannot run on
    these terms is left out, with its reason.
    """
    from dpadmm.cli import frontier
    from dpadmm.engine.compare import arrange

    if picture is not None:
        _plots.check(picture, "--picture")
    if cells is not None and not cells.absolute().parent.is_dir():
        raise InputError(f"--csv {str(cells)!r}: there is no folder {str(cells.absolute().parent)!r}.")
    comparison = arrange(
        epsilons=numbers("--epsilon", epsilon), delta=delta, agents=numbers("--agents", agents, int) or (),
        algorithms=algorithms, relation=relation, repeats=repeats, topology=topology, source=source,
        data_dir=data_dir, target=target, owner=owner, split=split, test=test, task=task, loss=loss,
        norm_bound=norm_bound, intercept=intercept, rounds=rounds, seed=seed,
    )  # fmt: skip
    found = _run(comparison, shown=not (as_json or quiet))
    for warning in found.warnings:
        print_warning(warning)
    if as_json:
        print_json(asdict(found))
    else:
        frontier.show(found)
    if cells is not None:
        frontier.write(found, cells)
    if picture is not None and found.cells:
        frontier.draw(found, picture)
    elif picture is not None:
        print_warning(f"--picture {str(picture)!r}: no run has come to an end, and there is nothing to draw.")
    if not found.finished:
        raise typer.Exit(130)


def _run(comparison: ComparisonPlan, shown: bool) -> Frontier:
    """All of it, or what was known when a person lost patience."""
    found = comparison.empty
    try:
        with bar(shown, total=len(comparison.jobs), elapsed=True) as progress:
            progress.move(0, note=_job(comparison, 0))
            for done, known in enumerate(comparison, 1):
                found = known
                progress.move(done, note=_job(comparison, done))
    except KeyboardInterrupt:
        err().print("interrupted; this is what is known so far.")
    return found


def _job(comparison: ComparisonPlan, done: int) -> str:
    """What is run after this many jobs."""
    job = comparison.jobs[min(done, len(comparison.jobs) - 1)]
    budget = "no privacy" if job.epsilon is None else f"epsilon {job.epsilon:g}"
    return f"{job.algorithm}, {job.agents} agents, {budget}"
