"""The command `dpadmm`: its verbs, and what becomes of errors."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpadmm.cli import (
    agent,
    audit,
    compare,
    coordinator,
    demo,
    federation,
    graph,
    ledger,
    listings,
    power_flow,
    predict,
    privacy,
    reconstruct,
    report,
    reproduce,
    slope,
    submit,
    train,
    watch,
)
from dpadmm.cli.console import print_error
from dpadmm.errors import ClusterError, ConvergenceError, InputError


class Verbs(TyperGroup):
    """Turns the library's own errors into one line and an exit code; anything else is a bug and shows its traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (InputError, ConvergenceError, ClusterError) as error:
            print_error(error)
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=Verbs,
    name="dpadmm",
    help="Differentially private distributed learning by ADMM, accounted end to end.",
    epilog="Every verb has --help with examples, and --json for one JSON object on stdout.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # a traceback with local variables could print records
)


def _version(wanted: bool) -> None:
    if wanted:
        from dpadmm._version import __version__

        typer.echo(f"dpadmm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


for verb in (
    *(train, report, watch, compare, predict, slope, power_flow),
    *(privacy, audit, graph, ledger, demo, reconstruct, listings),
    *(federation, coordinator, agent, submit, reproduce),
):
    verb.register(app)


def main() -> None:
    # Threads of the compiled loops that wait by spinning are several times slower when another program needs a core.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    app()
