"""`dpadmm watch`: a run's page while it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpadmm.cli import browser
from dpadmm.cli.console import AsJson, err, examples, print_json, print_warning

_STATES = {
    "running": "watching",
    "finished": "the run has finished",
    "crashed": "the run has crashed",
    "interrupted": "the run was interrupted",
}


def register(app: typer.Typer) -> None:
    app.command(
        "watch",
        epilog=examples("dpadmm watch run", "dpadmm watch run --port 8765 --no-open", "dpadmm watch run --json"),
    )(watch)


def watch(
    run: Annotated[Path, typer.Argument(help="The run's folder; it need not exist yet.", show_default=False)],
    port: Annotated[int, typer.Option("--port", help="Where to listen; 0: any free port.", min=0, max=65535)] = 0,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; others than this machine's can read.")] = (
        "127.0.0.1"
    ),
    shown: Annotated[bool, typer.Option("--open/--no-open", help="Show the page in a browser.")] = True,
    patience: Annotated[
        float, typer.Option("--patience", help="Seconds to wait for somebody to look, once the run is over.", min=0.0)
    ] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Show a run's report while it goes on, in a browser on this machine.

    Stops by itself when the run is over, or has crashed, and everybody who
    looks has been told. The run is only read, and never waits for it. With
    --json the address is printed at once, and no browser is opened.
    """
    from dpadmm.errors import InputError
    from dpadmm.report.server import PageServer, is_loopback
    from dpadmm.report.watching import Watched

    if run.exists() and not run.is_dir():
        raise InputError(f"{str(run)!r} is a file; name the folder of a run.")
    if not is_loopback(host):
        print_warning(f"whoever can reach {host} can see this run, without a password.")
    server = PageServer(Watched(run, patience), host, port)
    if as_json:
        print_json({"run": str(run), "url": server.address})
    else:
        _say(f"{run}: {server.address} (Ctrl-C stops watching, not the run)")
        if shown and not browser.opened(server.address):
            _say("no browser here; open the address above.")
    try:
        server.watch(lambda state: None if as_json else _say(_words(run, state)))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _words(run: Path, state: str) -> str:
    if state == "running" and not run.exists():
        return f"waiting for a run in {run}"
    return _STATES[state]


def _say(text: str) -> None:
    err().print(text, soft_wrap=True)
