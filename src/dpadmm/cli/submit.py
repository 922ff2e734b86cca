"""`dpadmm submit`: a spec becomes a run of a federation, and is watched while the coordinator's process works on it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from dpadmm._files import read_json
from dpadmm.cli.console import AsJson, err, examples, number, out, print_error, print_json, print_warning, table
from dpadmm.cli.progress import Bar, bar


def register(app: typer.Typer) -> None:
    app.command(
        "submit",
        epilog=examples(
            "dpadmm submit spec.toml --federation study",
            "dpadmm submit spec.toml --federation study --name trial-2 --json",
        ),
    )(submit)


def submit(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="Tables [run] and [federation].", show_default=False)],
    federation: Annotated[Path, typer.Option("--federation", help="The federation's folder.")] = Path(),
    name: Annotated[str | None, typer.Option("--name", help="The run's name (the file's).", show_default=False)] = None,
    limit: Annotated[
        float, typer.Option("--limit", help="Give up after so many seconds in which nothing moves.")
    ] = 86_400.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a spec in a federation, at the coordinator.

    The owners are asked; each computes its own noise and keeps its own ledger.
    The coordinator's process (dpadmm coordinator start) does the work: the run
    goes on if you press Ctrl-C, and the same command watches it again.
    Model and result are in the federation's runs/NAME.
    """
    from dpadmm.federation.server.federation import Federation
    from dpadmm.federation.server.submission import follow
    from dpadmm.federation.server.submission import submit as begin
    from dpadmm.spec.toml import read

    home = Federation.open(federation)
    folder = begin(home, read(spec), name or spec.stem, spec.parent)
    try:
        with bar(not (as_json or quiet), "submitted", elapsed=True) as progress:
            status = follow(home, folder, partial(_move, progress), limit)
    except KeyboardInterrupt:
        err().print("the run goes on without you; to watch it again, give the same command.", soft_wrap=True)
        raise typer.Exit(130) from None
    if status["state"] != "finished":
        if as_json:
            print_json({"run": folder.path.name, **status})
        print_error(RuntimeError(f"{status['state']}: {status['message']}"))
        raise typer.Exit(1)
    result = read_json(folder.path / "result.json", "result")
    for warning in result["warnings"]:
        print_warning(warning)
    if as_json:
        print_json({"run": folder.path.name, **result})
    else:
        _show(result)


def _show(result: dict[str, Any]) -> None:
    console = out()
    console.print(
        Text.assemble(
            (result["algorithm"], "bold"),
            f": {result['records']:,} records of {result['agents']:,} owners, {result['dimension']:,} coefficients, "
            f"{result['rounds']:,} rounds, {result['seconds']:.1f} s",
        )
    )
    if result["private"]:
        spent = f"epsilon {number(result['epsilon'], '#.4g')}, delta {result['delta']:g} in total"
        console.print(
            Text.assemble(
                ("Private: ", "bold green"), (spent, "bold"),
                f" for every record of every owner ({result['relation']} relation, {result['accountant']}).",
            )
        )  # fmt: skip
    shown = table(["", ""], show_header=False)
    for label, key in (("test error (public records)", "test_error"), ("estimated error (private)", "estimated_error")):
        if result[key] is not None:
            shown.add_row(label, number(result[key]))
    for owner, rounds in result["missed_rounds"].items():
        shown.add_row(f"rounds missed by {owner}", f"{len(rounds)}")
    shown.add_row("saved in", result["out"])
    console.print(shown)


def _move(progress: Bar, status: dict[str, Any]) -> None:
    note = status.get("message") or ", ".join(f"without {name}" for name in status.get("absent", ()))
    progress.move(status.get("round") or 0, status.get("rounds"), status["state"], note)
