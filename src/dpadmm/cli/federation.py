"""`dpadmm federation` and `dpadmm coordinator`: who takes part, their kits, and the server they talk to."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from dpadmm.cli.console import AsJson, err, examples, out, print_json, print_warning, table
from dpadmm.errors import InputError

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The federation's folder.", show_default=False)]

_INIT = "dpadmm federation init study --host fl.example.org --owner north --owner south --columns columns.toml"


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Who takes part in a federation, and the kits they get (needs the extra dpadmm\\[federation]).",
        epilog=examples(_INIT, "dpadmm federation status study --json"),
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    group.command("init", epilog=examples(_INIT))(init)
    group.command("status", epilog=examples("dpadmm federation status study"))(status)
    group.command("add", epilog=examples("dpadmm federation add study east"))(add)
    group.command(
        "renew", epilog=examples("dpadmm federation renew study", "dpadmm federation renew study --owner north")
    )(renew)
    app.add_typer(group, name="federation")
    other = typer.Typer(
        help="The coordinator's server, which owners connect to.",
        epilog=examples("dpadmm coordinator start study", "dpadmm coordinator start study --json"),
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    other.command("start", epilog=examples("dpadmm coordinator start study"))(start)
    other.callback()(lambda: None)  # a group even with one verb
    app.add_typer(other, name="coordinator")


def init(
    folder: Folder,
    host: Annotated[str, typer.Option("--host", help="The name by which owners reach the server.", show_default=False)],
    owner: Annotated[list[str], typer.Option("--owner", help="An owner's name; once for each.", show_default=False)],
    columns: Annotated[
        Path, typer.Option("--columns", help="What everybody's columns are, columns.toml.", show_default=False)
    ],
    port: Annotated[int, typer.Option("--port", help="The server's port.")] = 8002,
    name: Annotated[str | None, typer.Option("--name", help="The federation's name (the folder's).")] = None,
    days: Annotated[int, typer.Option("--days", help="How long certificates are valid.")] = 365,
    as_json: AsJson = False,
) -> None:
    """Make a federation: keys, certificates and a kit for every owner.

    Each owner gets its own folder below owners/, over a channel you trust.
    The folder authority/ signs certificates: keep it secret.
    """
    from dpadmm.federation.flare.provisioning import create
    from dpadmm.spec.columns import Schema

    schema = Schema.read(columns)
    made = create(
        folder, name=name or folder.name, host=host, port=port, owners=owner, days=days, schema=schema.dumps()
    )
    kits = {each: str(made.owner(each)) for each in made.owners}
    if as_json:
        print_json({"federation": made.name, "server": f"{host}:{port}", "kits": kits, "columns": schema.digest})
        return
    out().print(Text.assemble((made.name, "bold"), f": server at {host}:{port}, {len(kits)} owner(s)"))
    for each, path in kits.items():
        out().print(Text(f"  {each}: give {path} to it"), soft_wrap=True)
    out().print(Text(f"Next: dpadmm coordinator start {folder}"))


def add(
    folder: Folder,
    owner: Annotated[str, typer.Argument(help="The new owner's name.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """A kit for one more owner."""
    from dpadmm.federation.flare.provisioning import add as make

    path = make(folder, owner)
    if as_json:
        print_json({"owner": owner, "kit": str(path)})
    else:
        out().print(Text(f"{owner}: give {path} to it"), soft_wrap=True)


def renew(
    folder: Folder,
    owner: Annotated[
        list[str] | None, typer.Option("--owner", help="Of these owners only (all).", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """New keys and certificates in place of old ones.

    The rest of a kit stays as it is; owners get their new startup/ folders.
    """
    from dpadmm.federation.flare.provisioning import renew as make

    paths = [str(path) for path in make(folder, owner or ())]
    if as_json:
        print_json({"renewed": paths})
    else:
        for path in paths:
            out().print(Text(f"renewed {path}/startup"), soft_wrap=True)


def status(folder: Folder, as_json: AsJson = False) -> None:
    """Who is connected, how long kits are valid, and what runs are doing."""
    from dpadmm.federation.flare.provisioning import Federation
    from dpadmm.federation.flare.service import noted
    from dpadmm.federation.flare.submit import connected
    from dpadmm.federation.server.run_folder import runs_in

    federation = Federation.open(folder)
    running = noted(federation.server / "running") is not None
    seen = connected(federation)
    found = {
        "federation": federation.name,
        "server": f"{federation.host}:{federation.port}",
        "running": running,
        "reachable": seen is not None,
        "owners": [
            {
                "name": each,
                "last_heard_of": (seen or {}).get(each),
                "kit_expires": _expiry(federation.folder / "owners" / each),
            }
            for each in federation.owners
        ],
        "runs": [
            {"run": each.path.name, **each.status()} for each in runs_in(federation.folder / "coordinator" / "runs")
        ],
    }
    if as_json:
        print_json(found)
    else:
        _print_status(found)


def start(folder: Folder, as_json: AsJson = False) -> None:
    """Run the coordinator's server, until you press Ctrl-C. It holds no records."""
    from dpadmm.federation.flare.provisioning import Federation, Kit
    from dpadmm.federation.flare.service import serve

    federation = Federation.open(folder)
    card = Kit(federation.server)
    card.check()
    facts = {"federation": federation.name, "server": card.address, "kit_expires": card.expires.date().isoformat()}
    with serve(federation.server, print_warning) as look:
        if as_json:
            print_json(facts)
        else:
            out().print(
                Text(f"{federation.name}: listening at {card.address}; certificate valid until {facts['kit_expires']}")
            )
            err().print("Ctrl-C ends it.", style="dim")
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                look()


def _expiry(kit: Path) -> str | None:
    """None where the kit is not here any more."""
    from dpadmm.federation.flare.provisioning import Kit

    try:
        return Kit(kit).expires.date().isoformat()
    except InputError:
        return None


def _print_status(found: dict[str, Any]) -> None:
    import time

    console = out()
    state = "reachable" if found["reachable"] else "not reachable"
    console.print(Text.assemble((found["federation"], "bold"), f": server at {found['server']}, {state}"))
    owners = table(["owner", "last heard of", "kit valid until"], numbers=False)
    for owner in found["owners"]:
        heard = owner["last_heard_of"]
        ago = "not connected" if heard is None else f"{max(0.0, time.time() - heard):.0f} s ago"
        owners.add_row(owner["name"], ago, owner["kit_expires"] or "-")
    console.print(owners)
    if found["runs"]:
        runs = table(["run", "state", "round", ""], numbers=False)
        for run in found["runs"]:
            runs.add_row(Text(run["run"]), run["state"], str(run.get("round") or "-"), Text(run.get("message", "")))
        console.print(runs)
