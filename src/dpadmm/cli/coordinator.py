"""`dpadmm coordinator`: the process that owners connect to, and that takes submitted runs to their end."""

from __future__ import annotations

import signal
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from dpadmm.cli.console import AsJson, err, examples, out, print_json

if TYPE_CHECKING:
    from dpadmm.federation.server.federation import Federation

_LOOPBACK = ("localhost", "127.0.0.1")


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="The coordinator's process, which owners connect to (needs the extra dpadmm\\[federation]).",
        epilog=examples("dpadmm coordinator start study", "dpadmm coordinator start study --json"),
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    group.command("start", epilog=examples("dpadmm coordinator start study"))(start)
    group.callback()(lambda: None)  # a group even with one verb
    app.add_typer(group, name="coordinator")


def start(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The federation's folder.", show_default=False)],
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen", help="Address to listen on (all of this machine's; loopback for localhost).", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve a federation, until you press Ctrl-C. The coordinator holds no records.

    Owners whose cards were added may connect; runs that were submitted begin
    when their owners are there. If this process ends, its runs go on from
    where they were when it is started again.
    """
    from dpadmm._private_files import locked
    from dpadmm._threads import one_thread_pool
    from dpadmm.errors import InputError
    from dpadmm.federation.grpc.server import Hub
    from dpadmm.federation.server.coordinator import Coordinator
    from dpadmm.federation.server.federation import Federation
    from dpadmm.federation.server.service import NOTE, Service

    federation = Federation.open(folder)
    identity = federation.identity()
    identity.card.check_valid()
    console = err()

    def tell(text: str) -> None:
        console.print(Text(text), soft_wrap=True)

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    host = listen or (federation.host if federation.host in _LOOPBACK else "[::]")
    with locked((folder / "keys" / "lock").absolute()) as mine, one_thread_pool():
        if not mine:
            raise InputError(f"another process already serves {str(folder)!r}; stop it first.")
        hub = Hub(
            identity.tls_key_pem,
            identity.tls_certificate_pem,
            lambda: _certificates(federation),
            tell,
        )
        hub.start(f"{host}:{federation.port}")
        service = Service(
            federation.runs,
            hub,
            lambda run, session: Coordinator(run.path.name, run, session, federation.pins).run(),
            tell,
        )
        facts = {
            "federation": federation.name,
            "server": federation.address,
            "fingerprint": identity.card.fingerprint,
            "valid_until": identity.card.valid_until.date().isoformat(),
        }
        if as_json:
            print_json(facts)
        else:
            out().print(
                Text(f"{federation.name}: owners reach it at {federation.address}; card {identity.card.shown}, "
                     f"valid until {facts['valid_until']}"), soft_wrap=True,
            )  # fmt: skip
            console.print("Ctrl-C ends it; its runs go on when it is started again.", style="dim")
        try:
            service.serve(folder / NOTE, federation.address, stop)
        finally:
            hub.close()
            service.wait(10.0)


def _certificates(federation: Federation) -> dict[str, bytes]:
    """Of the owners that are trusted now."""
    now = datetime.now(UTC)
    return {name: card.certificate for name, card in federation.pins().items() if now <= card.valid_until}
