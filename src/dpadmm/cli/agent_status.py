"""What `dpadmm agent` prints: cards, checks, events and the status of an agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from dpadmm.cli.console import number, out, table

if TYPE_CHECKING:
    from dpadmm.federation.cards import Card

_SHORT = 12  # letters of an id


def print_cards(mine: Card, coordinator: Card) -> None:
    """Both fingerprints, for comparing them over another channel."""
    console = out()
    for who, card in (("you", mine), ("coordinator", coordinator)):
        until = card.valid_until.date().isoformat()
        console.print(Text.assemble((card.name, "bold"), f" ({who}), valid until {until}"), soft_wrap=True)
        console.print(Text(f"  {card.shown}"), soft_wrap=True)
    console.print("Compare both with the coordinator over another channel, such as the telephone.", soft_wrap=True)


def print_check(found: Mapping[str, Any]) -> None:
    """What was checked before an agent connects."""
    console = out()
    kind = f"classes {', '.join(found['classes'])}" if found["classes"] else "a number"
    console.print(
        Text.assemble((found["agent"], "bold"), f" -> {found['coordinator']} at {found['server']}"), soft_wrap=True
    )
    console.print(
        Text(f"{found['records']:,} records of {found['dataset']!r}, {len(found['columns'])} features; "
             f"target {found['target']!r} ({kind})"), soft_wrap=True,
    )  # fmt: skip
    if found["unusable"]:
        told = f"{found['unusable']:,} of them have a value that cannot be used and count as zero; nobody else is told."
        console.print(Text(" ".join(filter(None, [told, found["first_unusable"]])), style="yellow"), soft_wrap=True)
    console.print(Text(f"ledger {found['ledger']}; runs are approved by {found['approval']}"), soft_wrap=True)


def words(event: Mapping[str, Any], name: str) -> str:
    """A line of an owner's log, for people."""
    kind, run = event.get("kind"), event.get("run")
    if kind == "waiting":
        return f"run {run!r} waits for you: dpadmm agent approve {name} {str(event.get('proposal'))[:_SHORT]}"
    if kind == "asked":
        return str(event.get("sentence"))
    if kind == "refused":
        return f"refused ({event.get('asked')}): {event.get('reason')}"
    if kind == "error":
        return f"trouble ({event.get('asked')}): {event.get('reason')}"
    if kind == "unusable":
        return f"{event.get('records')} record(s) have a value that cannot be used and count as zero; see 'agent check'"
    if kind == "joined":
        return f"joined run {run!r}, round {event.get('round')}"
    return str(kind) if run is None else f"{kind}: run {run!r}"


def print_status(found: Mapping[str, Any]) -> None:
    """Whether an agent runs, what it has spent, and what waits."""
    console = out()
    running = ("running", "bold green") if found["running"] else ("not running", "bold red")
    console.print(
        Text.assemble(
            (found["agent"], "bold"), f" -> {found['coordinator']} at {found['server']}: ", running,
            f"; card valid until {found['valid_until']}",
        ), soft_wrap=True,
    )  # fmt: skip
    if found["spending"] is None:
        console.print("Nothing was spent yet.")
    else:
        _print_spending(found["spending"])
    for id, told in found["waiting"].items():
        console.print(Text.assemble(("Waits for you: ", "bold yellow"), str(told.get("sentence"))), soft_wrap=True)
        console.print(Text(f"  dpadmm agent approve {found['agent']} {id[:_SHORT]}   (or --decline)"), soft_wrap=True)
    for event in found["events"]:
        line = f"{event.get('time')} {words(event, found['agent'])}"
        console.print(Text(line, style="dim"), soft_wrap=True)


def _print_spending(spending: Mapping[str, Any]) -> None:
    console = out()
    left = "" if spending["epsilon_left"] is None else f", left {number(spending['epsilon_left'], '#.4g')}"
    cap = "" if left == "" else f"; guaranteed is the cap, {spending['policy_epsilon']:g}"
    spent = number(spending["epsilon_spent"], "#.4g")
    held = number(spending["epsilon_with_held"], "#.4g")
    console.print(
        Text(f"{spending['dataset']}: epsilon {spent} spent, {held} with what open runs hold{left} "
             f"(delta {spending['delta']:g}, {spending['relation']} relation){cap}"), soft_wrap=True,
    )  # fmt: skip
    for version in spending["claimed_by"]:
        text = f"Totals count releases as claimed by {version}, whose noise was not exact."
        console.print(Text(text), soft_wrap=True)
    if spending["runs"]:
        shown = table(["run", "algorithm", "state", "releases", "own guarantee"])
        for run in spending["runs"]:
            shown.add_row(
                Text(run["run"]), run["algorithm"] or "-", run["state"], f"{run['releases']:,}",
                number(run["epsilon"], "#.4g"),
            )  # fmt: skip
        console.print(shown)
