"""`dpadmm agent`: an owner's agent in a federation. Its owner makes it, starts it, decides, and sees what was spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dpadmm.cli.agent_status import print_cards, print_check, print_status, words
from dpadmm.cli.console import AsJson, err, examples, out, print_json, print_warning

if TYPE_CHECKING:
    from dpadmm.federation.client.owner_folder import OwnerFolder

Name = Annotated[str, typer.Argument(metavar="NAME", help="Your name in the federation.", show_default=False)]
State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="FOLDER",
        help="Where agents keep keys, ledgers and decisions ($DPADMM_STATE, or the platform's folder for state).",
        show_default=False,
    ),
]
InvitationFile = Annotated[
    Path, typer.Option("--invitation", help="What the coordinator gave you, invitation.json.", show_default=False)
]
PolicyFile = Annotated[Path, typer.Option("--policy", help="What you allow (see docs/owner.md).", show_default=False)]
Data = Annotated[
    str | None,
    typer.Option("--data", help="A .csv or .parquet file, or a database URL without a password.", show_default=False),
]
Query = Annotated[
    str | None, typer.Option("--query", help="With a database: the SELECT that finds the records.", show_default=False)
]
LedgerFile = Annotated[
    Path | None, typer.Option("--ledger", help="Where the budget is kept (in the state).", show_default=False)
]
Person = Annotated[
    str | None, typer.Option("--person", help="The column that says whose record it is.", show_default=False)
]
DryRun = Annotated[
    int | None,
    typer.Option(
        "--dry-run",
        metavar="SEED",
        help="Made-up records (yours are not opened) and seeded noise, which protects nobody.",
        show_default=False,
    ),
]
MadeUp = Annotated[int, typer.Option("--records", help="With --dry-run: how many records are made up.")]
CardFile = Annotated[
    Path | None, typer.Option("--card", help="Where to write your card (NAME.card.json).", show_default=False)
]
Days = Annotated[int, typer.Option("--days", help="How long the card is valid.")]

_INIT = "dpadmm agent init north --invitation invitation.json --policy policy.toml --data patients.parquet"


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="An owner's agent in a federation: make and start it, decide on runs, see what was spent.",
        epilog=examples(_INIT, "dpadmm agent start north", "dpadmm agent status north --json"),
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    database = "--data postgresql://reader@db/clinic --query 'SELECT * FROM patients'"
    group.command("init", epilog=examples(_INIT, _INIT.replace("--data patients.parquet", database)))(init)
    group.command("check", epilog=examples("dpadmm agent check north"))(check)
    group.command("start", epilog=examples("dpadmm agent start north"))(start)
    group.command("stop", epilog=examples("dpadmm agent stop north"))(stop)
    group.command("status", epilog=examples("dpadmm agent status north", "dpadmm agent status north --json"))(status)
    group.command(
        "approve", epilog=examples("dpadmm agent approve north 3fa9c1", "dpadmm agent approve north 3fa9c1 --decline")
    )(approve)
    group.command("rotate", epilog=examples("dpadmm agent rotate north --card north-2.card.json"))(rotate)
    group.command("trust", epilog=examples("dpadmm agent trust north --invitation invitation.json"))(trust)
    app.add_typer(group, name="agent")


def init(
    name: Name,
    invitation: InvitationFile,
    policy: PolicyFile,
    data: Data = None,
    query: Query = None,
    ledger: LedgerFile = None,
    person: Person = None,
    dry_run: DryRun = None,
    records: MadeUp = 200,
    card: CardFile = None,
    days: Days = 365,
    state: State = None,
    as_json: AsJson = False,
) -> None:
    """Make your keys, your ledger, and a card for the coordinator.

    Keys and ledger stay here; the card is public. Policy, columns and records
    are checked first, and nothing is written before they go together. Compare
    both fingerprints with the coordinator over another channel.
    """
    from dpadmm.federation.client import setup

    folder, invited = _folder(name, state), setup.read_invitation(invitation)
    settings = setup.settings_of(
        folder,
        invited.address,
        policy=policy,
        data=data,
        query=query,
        ledger=ledger,
        person=person,
        dry_run=dry_run,
        records=records,
    )
    place = card or Path(f"{name}{setup.CARD}")
    found = {**setup.make(folder, invited, settings, place, days), "card": str(place), "state": str(folder.path)}
    if as_json:
        print_json(found)
        return
    print_cards(folder.identity().card, invited.card)
    print_check(found)
    out().print(Text(f"Next: send {place} to the coordinator, and 'dpadmm agent start {name}'."), soft_wrap=True)


def check(name: Name, state: State = None, as_json: AsJson = False) -> None:
    """Whether keys, policy, columns and records go together; nobody is connected."""
    from dpadmm.federation.client import setup

    found = setup.checked(_folder(name, state))
    if as_json:
        print_json(found)
    else:
        print_check(found)


def start(name: Name, state: State = None, as_json: AsJson = False) -> None:
    """Take part in a federation, until you press Ctrl-C or give 'agent stop'.

    Keys, policy, columns and records are checked first; nobody is connected
    before they go together. The agent connects to the coordinator, and nobody
    connects to it. What is asked of you, and what your agent says, appears
    here and in its log.
    """
    from dpadmm.cli.agent_process import serve
    from dpadmm.federation.client import setup

    folder = _folder(name, state)
    found = setup.checked(folder)
    if as_json:
        print_json(found)
    else:
        print_check(found)
    if found["dry_run"]:
        print_warning("dry run: the noise is seeded and protects nobody. The records are made up.")
    console = err()
    serve(
        folder,
        lambda text: console.print(Text(text), soft_wrap=True),
        lambda event: console.print(Text(f"{event['time'][11:19]} {words(event, name)}"), soft_wrap=True),
    )


def stop(
    name: Name,
    seconds: Annotated[float, typer.Option("--seconds", help="How long to wait for its end.")] = 30.0,
    state: State = None,
    as_json: AsJson = False,
) -> None:
    """End your agent, once it has answered what it is at.

    Runs that need you wait until you start it again, or go on without you, as
    their terms say. What was released stays released.
    """
    import time

    from dpadmm.errors import ClusterError

    folder = _folder(name, state)
    folder.stop(folder.identity())
    until = time.monotonic() + seconds
    while folder.is_running:
        if time.monotonic() > until:
            raise ClusterError(f"agent {name!r} was asked to end, and has not done so within {seconds:g} s.")
        time.sleep(0.1)
    if as_json:
        print_json({"agent": name, "running": False})
    else:
        out().print(Text(f"{name} has stopped."))


def status(name: Name, state: State = None, as_json: AsJson = False) -> None:
    """Whether your agent runs, what it has spent, and what waits for you to decide."""
    from dpadmm.cli.ledger import opened
    from dpadmm.federation.client import setup
    from dpadmm.owner.spending import ledger_summary

    folder = _folder(name, state)
    card, settings, rules = folder.identity().card, folder.settings(), folder.policy()
    spending: dict[str, Any] | None = None
    if Path(settings.ledger).exists():
        with opened(Path(settings.ledger), state=folder.path.parent.parent) as store:
            spending = ledger_summary(store, rules.delta, None if settings.dry_run is not None else rules)
    waiting = folder.decisions(card).waiting()
    found = {
        **setup.cards(card, folder.coordinator(), settings),
        "state": str(folder.path),
        "running": folder.is_running,
        "dry_run": settings.dry_run is not None,
        "waiting": {id: {"terms_digest": entry["proposal"]["terms"], **entry["told"]} for id, entry in waiting.items()},
        "spending": spending,
        "events": folder.events(10),
    }
    if as_json:
        print_json(found)
    else:
        print_status(found)


def approve(
    name: Name,
    run: Annotated[
        str, typer.Argument(metavar="ID", help="The run that waits, by its name or the beginning of its id.")
    ],
    decline: Annotated[bool, typer.Option("--decline", help="Say no instead, to these terms under any name.")] = False,
    state: State = None,
    as_json: AsJson = False,
) -> None:
    """Approve a run that waits for you: this run on these terms, once.

    The approval holds for this data set, its ledger and your policy as it is
    now. It is written down with your signature, for your agent to find.
    """
    folder = _folder(name, state)
    identity = folder.identity()
    proposal = folder.decisions(identity.card).decide(identity, run, not decline)
    folder.note("declined" if decline else "approved", run=proposal.run, digest=proposal.terms, proposal=proposal.id)
    found = {"run": proposal.run, "id": proposal.id, "terms_digest": proposal.terms, "approved": not decline}
    if as_json:
        print_json(found)
    else:
        out().print(Text(f"{'Declined' if decline else 'Approved'}: run {proposal.run!r}, terms {proposal.terms}"))


def rotate(name: Name, card: CardFile = None, days: Days = 365, state: State = None, as_json: AsJson = False) -> None:
    """Replace your keys by new ones.

    Your old keys sign the new card, so that the coordinator can tell it from
    a stranger's. Runs whose terms name the old card cannot go on; finish them
    first. The agent must be stopped.
    """
    from dpadmm.federation.client import setup

    folder = _folder(name, state)
    place = card or Path(f"{name}{setup.CARD}")
    made = setup.rotate(folder, place, days)
    if as_json:
        print_json({**setup.cards(made, folder.coordinator(), folder.settings()), "card": str(place)})
        return
    print_cards(made, folder.coordinator())
    out().print(Text(f"Next: send {place} to the coordinator, and 'dpadmm agent start {name}'."), soft_wrap=True)


def trust(
    name: Name,
    invitation: InvitationFile,
    another: Annotated[
        bool, typer.Option("--another", help="Trust a card that the coordinator's old one has not signed.")
    ] = False,
    state: State = None,
    as_json: AsJson = False,
) -> None:
    """Accept a new invitation from your coordinator: new keys, another address, or other columns."""
    from dpadmm.federation.client import setup

    folder = _folder(name, state)
    found = setup.trust(folder, setup.read_invitation(invitation), another=another)
    if as_json:
        print_json(setup.cards(folder.identity().card, found, folder.settings()))
    else:
        print_cards(folder.identity().card, found)


def _folder(name: str, state: Path | None) -> OwnerFolder:
    from dpadmm.federation.client.owner_folder import OwnerFolder

    return OwnerFolder.of(name, state)
