"""`dpadmm report`: runs as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpadmm.cli import browser
from dpadmm.cli.console import AsJson, examples, out, print_json


def register(app: typer.Typer) -> None:
    app.command(
        "report",
        epilog=examples(
            "dpadmm report run",
            "dpadmm report run other-run -o comparison.html --open",
            "dpadmm report federation/coordinator/runs/study --json",
        ),
    )(report)


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of runs, such as 'dpadmm train --out' writes.", show_default=False)
    ],
    file: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")] = Path("report.html"),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is not a report.")] = False,
    shown: Annotated[bool, typer.Option("--open", help="Show it in a browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write one self-contained page that shows one run, or several side by side.

    Runs may be finished, going on, interrupted or crashed. Only the folders'
    own files are read, never any records; the page loads nothing.
    """
    from dpadmm.report.gather import gather
    from dpadmm.report.page import check, write

    check(file, force)
    document = gather(runs)
    size = write(document, file)
    seen = browser.opened(file.absolute().as_uri()) if shown else False
    if as_json:
        print_json(
            {
                "report": str(file),
                "bytes": size,
                "opened": seen,
                "runs": [
                    {
                        "name": run.name,
                        "state": run.state,
                        "round": run.round,
                        "rounds": run.rounds,
                        "private": run.guarantee.accounted and not run.guarantee.simulated,
                        "simulated": run.guarantee.simulated,
                        "guarantee": run.guarantee.exact,
                    }
                    for run in document.runs
                ],
                "charts": [chart.id for chart in document.charts],
            }
        )
        return
    for run in document.runs:
        done = f"round {run.round:,} of {run.rounds:,}"
        out().print(f"{run.name}: {run.state}, {done}; {run.guarantee.exact}", soft_wrap=True)
    hint = " (no browser here to show it)" if shown and not seen else ""
    out().print(f"report in {file}, {size / 1000:,.0f} kB{hint}", soft_wrap=True)
