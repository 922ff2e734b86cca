"""`dpadmm reproduce`: the papers' figures and tables, run anew."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dpadmm import _plots
from dpadmm.cli.console import AsJson, err, examples, number, out, print_json, print_warning, table
from dpadmm.cli.progress import Bar, bar
from dpadmm.errors import InputError, unknown

if TYPE_CHECKING:
    from dpadmm.reproducing.results import Results
    from dpadmm.reproducing.target import Target


def register(app: typer.Typer) -> None:
    app.command(
        "reproduce",
        epilog=examples(
            "dpadmm reproduce --list",
            "dpadmm reproduce 000 figure-3",
            "dpadmm reproduce 004 table-1 --scale paper --workers 2",
            "dpadmm reproduce 003 --out figures --json",
            "dpadmm reproduce --write docs/reproductions.md",
        ),
    )(reproduce)


def reproduce(
    paper: Annotated[str | None, typer.Argument(help="000 to 004; all without one.", show_default=False)] = None,
    figure: Annotated[str | None, typer.Argument(help="figure-1, table-2; or 1.", show_default=False)] = None,
    scale: Annotated[
        str,
        typer.Option(
            "--scale",
            help="small (under two minutes a figure), paper (its own sizes), or medium: its data and fewer rounds, for "
            "figures whose own sizes take days.",
        ),
    ] = "small",
    destination: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for numbers and figures.", show_default="reproductions/results/SCALE"),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where the declarations are.", show_default="those of dpadmm")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", help="Processes that run at the same time.")] = 1,
    listed: Annotated[bool, typer.Option("--list", help="List what there is, and run nothing.")] = False,
    write: Annotated[
        Path | None, typer.Option("--write", help="Make the documentation's page from kept results; runs nothing.")
    ] = None,
    redrawn: Annotated[bool, typer.Option("--redraw", help="Draw kept results anew; runs nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the papers' figures and tables, and say whether their claims hold.

    Every curve comes with its true total epsilon. An interrupted run goes on
    where it was when it is started again.
    """
    from dpadmm.reproducing import collection
    from dpadmm.reproducing.page import page
    from dpadmm.reproducing.target import REQUIRED, SCALES

    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    if workers < 1:
        raise InputError(f"--workers {workers}: at least 1.")
    place = collection.folder(folder)
    chosen = [target for target in collection.targets(place, paper, figure) if scale in target.scales]
    if not chosen:
        raise InputError(f"none of these figures has a {scale} scale; all have {' and '.join(REQUIRED)}.")
    if listed:
        _list(chosen, scale, as_json)
        return
    if write is not None:
        write.write_text(page(collection.targets(place), collection.home(folder), place))
        if as_json:
            print_json({"written": str(write), "figures": len(chosen)})
        return
    _plots.check_installed("'reproduce'")
    kept = destination or collection.home(folder) / "results" / scale
    if redrawn:
        _redraw(chosen, scale, kept, place, as_json)
    else:
        _run(chosen, scale, kept, place, workers, as_json)


def _list(chosen: list[Target], scale: str, as_json: bool) -> None:
    if as_json:
        rows = [{"target": t.id, "title": t.title, "claim": t.claim, "runs": len(t.jobs(scale))} for t in chosen]
        print_json({"scale": scale, "targets": rows})
        return
    shown = table(["figure", "runs", "what it shows"], numbers=False)
    for target in chosen:
        shown.add_row(target.id, str(len(target.jobs(scale))), target.title)
    out().print(shown)


def _redraw(chosen: list[Target], scale: str, kept: Path, place: Path, as_json: bool) -> None:
    from dpadmm.reproducing.run import redraw

    drawn = redraw(chosen, scale, kept, place)
    if not drawn:
        raise InputError(f"{str(kept)!r} has no results of these figures at the {scale} scale; run them first.")
    if as_json:
        print_json({"scale": scale, "out": str(kept), "drawn": drawn})
    else:
        out().print(f"drawn: {', '.join(drawn)}", soft_wrap=True)


def _run(chosen: list[Target], scale: str, kept: Path, place: Path, workers: int, as_json: bool) -> None:
    from dpadmm.reproducing.run import forget
    from dpadmm.reproducing.run import reproduce as run

    work = kept / "unfinished"
    summaries: list[dict[str, Any]] = []
    for target in chosen:
        try:
            with bar(not as_json, target.id, elapsed=True) as progress:
                results = run(target, scale, kept, place, work, workers, partial(_move, progress))
        except KeyboardInterrupt:
            err().print("interrupted; the same command goes on where it was.")
            raise typer.Exit(130) from None
        except InputError as error:
            if len(chosen) == 1:
                raise
            print_warning(f"{target.id} was not run: {error}")
            summaries.append({"target": target.id, "scale": scale, "verdict": "not run", "reason": str(error)})
            continue
        summaries.append(results.summary())
        if not as_json:
            _show(results, place, kept)
    forget((job for target in chosen for job in target.jobs(scale)), work)
    if as_json:
        print_json({"scale": scale, "out": str(kept), "targets": summaries})


def _show(results: Results, place: Path, kept: Path) -> None:
    """Final numbers of every run, then the verdict."""
    target, published, console = results.target, results.published(place), out()
    title = f": {target.title} ({results.scale} scale)"
    console.print(Text.assemble("\n", (f"{target.paper}, {target.figure}", "bold"), title))
    shown = table(["run", *target.metrics, *(["the paper"] if published else []), "claimed", "true epsilon"])
    for job, outcome in results.findings:
        values = [number(outcome.value(m), ".4g") if m in outcome.tracks else "-" for m in target.metrics]
        theirs = [number(published.get(job.name), ".4g")] if published else []
        total = number(outcome.epsilon, ".4g") if outcome.private else "not private"
        shown.add_row(job.name, *values, *theirs, number(outcome.claimed, ".4g"), total)
    console.print(shown)
    console.print(Text.assemble(f"Claim: {target.claim}\n", (results.sentence, "bold")), soft_wrap=True)
    console.print(f"{kept / target.id}.png, .csv, .json", style="dim", soft_wrap=True)


def _move(progress: Bar, done: int, total: int, name: str) -> None:
    progress.move(done, total, note=name)
