"""`dpadmm agent`: an owner's agent in a federation. The owner starts it, gives its word, and sees what was spent."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from dpadmm.cli.console import AsJson, err, examples, number, out, print_json, print_warning, table

KitFolder = Annotated[
    Path, typer.Argument(metavar="KIT", help="Your kit, as the coordinator gave it to you.", show_default=False)
]
PolicyFile = Annotated[Path, typer.Option("--policy", help="What you allow (see docs/owner.md).", show_default=False)]
Data = Annotated[
    str,
    typer.Option("--data", help="A .csv or .parquet file, or a database URL without a password.", show_default=False),
]
Query = Annotated[
    str | None, typer.Option("--query", help="With a database: the SELECT that finds the records.", show_default=False)
]
Columns = Annotated[
    Path | None, typer.Option("--columns", help="What the columns are (the kit's columns.toml).", show_default=False)
]
LedgerFile = Annotated[
    Path | None, typer.Option("--ledger", help="Where the budget is kept (in the kit).", show_default=False)
]
Person = Annotated[
    str | None, typer.Option("--person", help="The column that says whose record it is.", show_default=False)
]
DryRun = Annotated[
    int | None,
    typer.Option(
        "--dry-run",
        metavar="SEED",
        help="Made-up records and seeded noise, which protects nobody.",
        show_default=False,
    ),
]

_START = "dpadmm agent start owners/north --policy policy.toml --data patients.parquet"


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="An owner's agent in a federation: start it, see what was spent, give your word.",
        epilog=examples(_START, "dpadmm agent status owners/north --json"),
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    database = "--data postgresql://reader@db/clinic --query 'SELECT * FROM patients'"
    group.command("start", epilog=examples(_START, f"dpadmm agent start owners/north --policy policy.toml {database}"))(
        start
    )
    group.command("check", epilog=examples(_START.replace("start", "check")))(check)
    group.command("status", epilog=examples("dpadmm agent status owners/north"))(status)
    group.command(
        "approve",
        epilog=examples(
            "dpadmm agent approve owners/north 3fa9c1", "dpadmm agent approve owners/north 3fa9c1 --decline"
        ),
    )(approve)
    app.add_typer(group, name="agent")


def start(
    kit: KitFolder,
    policy: PolicyFile,
    data: Data,
    query: Query = None,
    columns: Columns = None,
    ledger: LedgerFile = None,
    person: Person = None,
    dry_run: DryRun = None,
    as_json: AsJson = False,
) -> None:
    """Take part in a federation, until you press Ctrl-C.

    Kit, policy, columns and records are checked first; nobody is connected
    before they go together. What is asked of you, and what your agent says,
    appears here and in the kit's agent/events.jsonl.
    """
    from dpadmm.federation.flare.service import OwnerService, words

    service = OwnerService.of(
        kit, policy, data, query=query, columns=columns, ledger=ledger, person=person, dry_run=dry_run
    )
    found = service.check()
    _show(found, as_json)
    if dry_run is not None:
        print_warning("dry run: the noise is seeded and protects nobody. The records must be made up.")
    seen = len(service.site.events(10**9))
    with service.running(print_warning) as look:
        err().print("Connected as soon as the coordinator's server answers. Ctrl-C ends it.", style="dim")
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                look()
                events = service.site.events(10**9)
                for event in events[seen:] if len(events) >= seen else events:
                    err().print(Text(f"{event['time'][11:19]} {words(event)}"), soft_wrap=True)
                seen = len(events)


def check(
    kit: KitFolder,
    policy: PolicyFile,
    data: Data,
    query: Query = None,
    columns: Columns = None,
    ledger: LedgerFile = None,
    person: Person = None,
    as_json: AsJson = False,
) -> None:
    """Whether kit, policy, columns and records go together; nobody is connected."""
    from dpadmm.federation.flare.service import OwnerService

    service = OwnerService.of(kit, policy, data, query=query, columns=columns, ledger=ledger, person=person)
    _show(service.check(), as_json)


def status(kit: KitFolder, as_json: AsJson = False) -> None:
    """Whether your agent runs, what it has spent, and what waits for your word."""
    from dpadmm.cli.ledger import opened
    from dpadmm.federation.client.files import OwnerFiles
    from dpadmm.federation.flare.provisioning import Kit
    from dpadmm.federation.flare.service import noted
    from dpadmm.owner.policy import Policy
    from dpadmm.owner.spending import ledger_summary

    site, card = OwnerFiles(kit), Kit(kit)
    settings = site.settings()
    rules, path = Policy.read(Path(settings.policy)), Path(settings.ledger)
    spending: dict[str, Any] | None = None
    if path.exists():
        with opened(path) as store:
            held_to = None if settings.dry_run is not None else rules
            spending = ledger_summary(store, rules.delta, held_to)
    found = {
        "agent": card.name,
        "server": card.address,
        "kit_expires": card.expires.date().isoformat(),
        "running": noted(site.folder) is not None,
        "dry_run": settings.dry_run is not None,
        "waiting": site.waiting(),
        "spending": spending,
        "events": site.events(10),
    }
    if as_json:
        print_json(found)
    else:
        _print_status(found)


def approve(
    kit: KitFolder,
    digest: Annotated[str, typer.Argument(metavar="DIGEST", help="The terms, by the beginning of their digest.")],
    decline: Annotated[bool, typer.Option("--decline", help="Say no instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give your word on a run that waits for it: on these terms, and on no others."""
    from dpadmm.federation.client.files import OwnerFiles

    decided = OwnerFiles(kit).decide(digest, yes=not decline)
    if as_json:
        print_json({"digest": decided, "approved": not decline})
    else:
        out().print(f"{'Declined' if decline else 'Approved'}: {decided}")


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    console = out()
    kind = f"classes {', '.join(found['classes'])}" if found["classes"] else "a number"
    console.print(
        Text.assemble((found["agent"], "bold"), f" -> {found['server']}, kit valid until {found['kit_expires']}")
    )
    console.print(
        Text(f"{found['records']:,} records of {found['dataset']!r}, {len(found['columns'])} features; "
             f"target {found['target']!r} ({kind})"), soft_wrap=True,
    )  # fmt: skip
    if found["unusable"]:
        told = f"{found['unusable']:,} of them have a value that cannot be used and count as zero; nobody else is told."
        console.print(Text(" ".join(filter(None, [told, found["first_unusable"]])), style="yellow"), soft_wrap=True)
    console.print(Text(f"ledger {found['ledger']}; runs are approved by {found['approval']}"), soft_wrap=True)


def _print_status(found: dict[str, Any]) -> None:
    from dpadmm.federation.flare.service import words

    console = out()
    running = ("running", "bold green") if found["running"] else ("not running", "bold red")
    console.print(
        Text.assemble(
            (found["agent"], "bold"), f" -> {found['server']}: ", running, f"; kit valid until {found['kit_expires']}"
        )
    )
    spending = found["spending"]
    if spending is None:
        console.print("Nothing was spent yet.")
    else:
        left = "" if spending["epsilon_left"] is None else f", left {number(spending['epsilon_left'], '#.4g')}"
        cap = "" if left == "" else f"; guaranteed is the cap, {spending['policy_epsilon']:g}"
        spent = number(spending["epsilon_spent"], "#.4g")
        held = number(spending["epsilon_with_held"], "#.4g")
        console.print(
            f"{spending['dataset']}: epsilon {spent} spent, {held} with what open runs hold{left} "
            f"(delta {spending['delta']:g}, {spending['relation']} relation){cap}",
            soft_wrap=True,
        )
        for version in spending["claimed_by"]:
            console.print(f"Totals count releases as claimed by {version}, whose noise was not exact.", soft_wrap=True)
        if spending["runs"]:
            shown = table(["run", "algorithm", "state", "releases", "own guarantee"])
            for run in spending["runs"]:
                shown.add_row(
                    Text(run["run"]), run["algorithm"] or "-", run["state"], f"{run['releases']:,}",
                    number(run["epsilon"], "#.4g"),
                )  # fmt: skip
            console.print(shown)
    for digest, told in found["waiting"].items():
        console.print(Text.assemble(("Waits for your word: ", "bold yellow"), told["sentence"]), soft_wrap=True)
        console.print(Text(f"  dpadmm agent approve KIT {digest[:12]}   (or --decline)"))
    for event in found["events"]:
        console.print(Text(f"{event['time']} {words(event)}", style="dim"), soft_wrap=True)
