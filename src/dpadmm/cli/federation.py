"""`dpadmm federation`: the coordinator's keys, whose cards it trusts, and what became of the runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from dpadmm.cli.console import AsJson, examples, out, print_json, table

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The federation's folder.", show_default=False)]
Days = Annotated[int, typer.Option("--days", help="How long the coordinator's card is valid.")]

_INIT = "dpadmm federation init study --host fl.example.org --columns columns.toml"
_ADD = "dpadmm federation add study north.card.json south.card.json"


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Whose cards a coordinator trusts, and what its runs do (needs the extra dpadmm\\[federation]).",
        epilog=examples(_INIT, _ADD, "dpadmm federation status study --json"),
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    group.command("init", epilog=examples(_INIT))(init)
    group.command("add", epilog=examples(_ADD))(add)
    group.command("remove", epilog=examples("dpadmm federation remove study north"))(remove)
    group.command("status", epilog=examples("dpadmm federation status study"))(status)
    group.command("renew", epilog=examples("dpadmm federation renew study"))(renew)
    app.add_typer(group, name="federation")


def init(
    folder: Folder,
    host: Annotated[
        str, typer.Option("--host", help="The name by which owners reach the coordinator.", show_default=False)
    ],
    columns: Annotated[
        Path, typer.Option("--columns", help="What everybody's columns are, columns.toml.", show_default=False)
    ],
    port: Annotated[int, typer.Option("--port", help="Where the coordinator listens.")] = 8002,
    name: Annotated[str | None, typer.Option("--name", help="The federation's name (the folder's).")] = None,
    days: Days = 365,
    as_json: AsJson = False,
) -> None:
    """Make a federation: the coordinator's keys, and an invitation for owners.

    The invitation is public: the coordinator's card, its address and the
    columns. Owners make their own keys, and send you a card each.
    """
    from dpadmm.federation.server.federation import Federation
    from dpadmm.spec.columns import Schema

    made = Federation.create(folder, host=host, columns=Schema.read(columns), name=name, port=port, days=days)
    card = made.identity().card
    if as_json:
        found = {"federation": made.name, "server": made.address, "invitation": str(made.invitation)}
        print_json({**found, "fingerprint": card.fingerprint, "columns": made.schema.digest})
        return
    console = out()
    console.print(Text.assemble((made.name, "bold"), f": owners will reach it at {made.address}"), soft_wrap=True)
    console.print(Text(f"  {card.shown}"), soft_wrap=True)
    console.print(
        Text(f"Next: give {made.invitation} to the owners, and read the fingerprint to them."), soft_wrap=True
    )


def add(
    folder: Folder,
    cards: Annotated[list[Path], typer.Argument(metavar="CARD...", help="Owners' cards.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Trust owners' cards: exactly these may connect under these names.

    An owner's new card takes the place of its old one if the old one has
    signed it. Compare fingerprints with the owners over another channel.
    """
    from dpadmm.federation.client.setup import read_card
    from dpadmm.federation.server.federation import Federation

    federation = Federation.open(folder)
    found = [(card, federation.add(card)) for card in [read_card(path) for path in cards]]
    if as_json:
        rows = [{"owner": card.name, "fingerprint": card.fingerprint, "replaced": replaced} for card, replaced in found]
        print_json({"federation": federation.name, "added": rows})
        return
    for card, replaced in found:
        until = card.valid_until.date().isoformat()
        note = ", in place of its old card" if replaced else ""
        out().print(Text.assemble((card.name, "bold"), f", valid until {until}{note}"), soft_wrap=True)
        out().print(Text(f"  {card.shown}"), soft_wrap=True)
    out().print("Compare them with the owners over another channel, such as the telephone.", soft_wrap=True)


def remove(
    folder: Folder,
    owner: Annotated[str, typer.Argument(help="The owner's name.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Trust an owner no longer: its connection ends, and its runs cannot go on."""
    from dpadmm.federation.server.federation import Federation

    card = Federation.open(folder).remove(owner)
    if as_json:
        print_json({"removed": owner, "fingerprint": card.fingerprint})
    else:
        out().print(Text(f"{owner} is trusted no longer; the card was {card.shown}"), soft_wrap=True)


def renew(folder: Folder, days: Days = 365, as_json: AsJson = False) -> None:
    """Replace the coordinator's keys by new ones, and write a new invitation.

    The old keys sign the new card. Owners accept it by 'dpadmm agent trust';
    the coordinator must be started again.
    """
    from dpadmm.federation.server.federation import Federation

    federation = Federation.open(folder)
    card = federation.renew(days).card
    if as_json:
        print_json({"fingerprint": card.fingerprint, "invitation": str(federation.invitation)})
        return
    out().print(Text(f"  {card.shown}"), soft_wrap=True)
    out().print(Text(f"Next: give {federation.invitation} to the owners, and start again."), soft_wrap=True)


def status(folder: Folder, as_json: AsJson = False) -> None:
    """Who is trusted and who is connected, how long cards are valid, and what runs are doing."""
    from dpadmm.federation.server.federation import Federation
    from dpadmm.federation.server.run_folder import runs_in
    from dpadmm.federation.server.service import NOTE, presence

    federation = Federation.open(folder)
    seen = presence(federation.folder / NOTE)
    heard: Mapping[str, float] = {} if seen is None else seen["owners"]
    found = {
        "federation": federation.name,
        "server": federation.address,
        "fingerprint": federation.identity().card.fingerprint,
        "valid_until": federation.identity().card.valid_until.date().isoformat(),
        "running": seen is not None,
        "owners": [
            {
                "name": card.name,
                "fingerprint": card.fingerprint,
                "valid_until": card.valid_until.date().isoformat(),
                "last_heard_of": heard.get(card.name),
            }
            for card in federation.pins().values()
        ],
        "runs": [{"run": each.path.name, **each.status()} for each in runs_in(federation.runs)],
    }
    if as_json:
        print_json(found)
    else:
        _print_status(found)


def _print_status(found: dict[str, Any]) -> None:
    console = out()
    state = "running" if found["running"] else "not running"
    console.print(Text.assemble((found["federation"], "bold"), f" at {found['server']}: {state}"), soft_wrap=True)
    owners = table(["owner", "last heard of", "card valid until", "fingerprint begins"], numbers=False)
    for owner in found["owners"]:
        heard = owner["last_heard_of"]
        ago = "not connected" if heard is None else f"{max(0.0, time.time() - heard):.0f} s ago"
        owners.add_row(owner["name"], ago, owner["valid_until"], owner["fingerprint"][:16])
    console.print(owners)
    if found["runs"]:
        runs = table(["run", "state", "round", ""], numbers=False)
        for run in found["runs"]:
            runs.add_row(Text(run["run"]), run["state"], str(run.get("round") or "-"), Text(run.get("message", "")))
        console.print(runs)
