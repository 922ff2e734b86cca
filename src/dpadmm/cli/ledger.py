"""`dpadmm ledger`: what was spent of a data set's budget, by which run, and whether the ledger is in order."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dpadmm.cli.console import AsJson, examples, number, out, print_csv, print_json, print_warning, table
from dpadmm.errors import InputError, Refused

if TYPE_CHECKING:
    from dpadmm.owner.policy import Policy
    from dpadmm.privacy.ledger.sqlite import SqliteLedger

DELTA = 1e-6
_COLUMNS = ["run", "algorithm", "state", "holds", "releases", "agreed", "epsilon", "delta", "records_per_person",
            "relation", "enters", "claimed_by"]  # fmt: skip

Path_ = Annotated[Path, typer.Argument(metavar="LEDGER", help="The owner's ledger file.", show_default=False)]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV on stdout, and nothing else there.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="What was spent of a data set's budget, by which run, and whether the ledger is in order.",
        epilog=examples("dpadmm ledger show patients.ledger", "dpadmm ledger show patients.ledger --json"),
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    group.command(
        "show",
        epilog=examples(
            "dpadmm ledger show patients.ledger",
            "dpadmm ledger show patients.ledger --policy policy.toml",
            "dpadmm ledger show patients.ledger --delta 1e-5 --json",
        ),
    )(show)
    group.command("verify", epilog=examples("dpadmm ledger verify patients.ledger"))(verify)
    group.command(
        "export",
        epilog=examples("dpadmm ledger export patients.ledger > entries.csv", "dpadmm ledger export x.ledger --json"),
    )(export)
    group.command(
        "migrate",
        epilog=examples("dpadmm ledger migrate patients.ledger", "dpadmm ledger migrate patients.ledger --json"),
    )(migrate)
    group.command("confirm", epilog=examples("dpadmm ledger confirm patients.ledger --yes"))(confirm)
    app.add_typer(group, name="ledger")


def show(
    ledger: Path_,
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta", help=f"Report epsilon at this delta (the policy's; else {DELTA:g}).", show_default=False
        ),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", help="The owner's policy: also show what is left.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """What was spent, by which run, what is held, and what was refused.

    The cap is the owner's policy, and guaranteed however runs are chosen. The
    amount spent so far is no guarantee by itself. "Held" is what open runs
    have set aside; "left" is the largest Gaussian run that is still allowed.
    """
    from dpadmm.owner.policy import Policy
    from dpadmm.owner.spending import ledger_summary

    rules = None if policy is None else Policy.read(policy)
    with opened(ledger) as store:
        found = ledger_summary(store, _delta(delta, rules), rules)
    if as_json:
        print_json(found)
    elif as_csv:
        _print_csv(found["runs"], _COLUMNS)
    else:
        _print_summary(found)


def verify(ledger: Path_, as_json: AsJson = False) -> None:
    """Whether anything in the ledger was changed, added or removed.

    Prints what does not add up and ends with code 1 if there is anything,
    with code 2 if the file cannot be read at all.
    """
    from dpadmm.privacy.ledger.verify import verify as inconsistencies

    with opened(ledger) as store:
        problems, locked = inconsistencies(store), store.lock_reason
        entries = sum(1 for _ in store.entries()) if not problems else None
    if as_json:
        print_json({"ledger": str(ledger), "ok": not problems, "problems": problems, "locked": locked or None})
    elif problems:
        for problem in problems:
            out().print(Text(problem, style="red"), soft_wrap=True)
    else:
        out().print(f"{entries:,} entries, all in order.")
    if locked and not as_json:
        print_warning(f"locked: {locked}.")
    if problems:
        raise typer.Exit(1)


def export(ledger: Path_, as_json: AsJson = False, as_csv: AsCsv = False) -> None:
    """All entries of the ledger: CSV, or one JSON object with --json.

    Released values, private state and the digest of the records are not in
    it.
    """
    if as_json and as_csv:
        raise InputError("--json or --csv, not both.")
    with opened(ledger) as store:
        entries = [_public(entry) for entry in store.entries()]
        about = {"ledger": str(ledger), "dataset": store.dataset, "relation": str(store.relation)}
    if as_json:
        print_json({**about, "entries": entries})
    else:
        _print_csv(map(_flat, entries), ["number", "time", "kind", "run", "step", "detail", "head"])


def confirm(
    ledger: Path_,
    yes: Annotated[bool, typer.Option("--yes", help="I have looked: go on with this file, at this place.")] = False,
    as_json: AsJson = False,
) -> None:
    """Unlock a ledger that was copied, moved or restored from a backup.

    Only the owner can know that no twin of this file is in use, and whether
    releases have left that it does not count.
    """
    with opened(ledger, reading=not yes) as store:
        reason = store.lock_reason
        if reason and not yes:
            raise InputError(f"the ledger is locked: {reason}. Look into it, then confirm with --yes.")
        if reason:
            store.confirm()
    if as_json:
        print_json({"ledger": str(ledger), "was_locked": reason or None})
    else:
        out().print(
            Text(f"Confirmed. It was locked: {reason}." if reason else "The ledger is not locked."), soft_wrap=True
        )


def migrate(ledger: Path_, as_json: AsJson = False) -> None:
    """Make a ledger of this version out of one of 0.1.0, with all its entries.

    A backup of the file is made first. Entries stay as they are and get unit
    1 (one record), claimed by 0.1.0. If anything fails, the ledger is locked.
    """
    from dpadmm.privacy.ledger.migrate import migrate as migrated

    done = migrated(ledger)
    if as_json:
        print_json(
            {
                "ledger": str(ledger),
                "backup": str(done.backup),
                "entries": done.entries,
                "runs": list(done.runs),
                "locked": done.locked or None,
            }
        )
        return
    text = (
        f"Migrated: {done.entries:,} entries of {len(done.runs):,} runs kept, claimed by 0.1.0. Backup: {done.backup}"
    )
    out().print(Text(text), soft_wrap=True)
    if done.locked:
        print_warning(f"locked, as it was before: {done.locked}.")


@contextmanager
def opened(path: Path, reading: bool = True) -> Iterator[SqliteLedger]:
    """The ledger, untouched unless it is to be confirmed; what the file refuses is the user's error here."""
    from dpadmm.privacy.ledger.sqlite import SqliteLedger

    try:
        store = SqliteLedger.open(path, reading=reading)
        try:
            yield store
        finally:
            store.close()
    except InputError:
        raise
    except Refused as refused:
        raise InputError(f"{str(path)!r}: {refused}") from None
    except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{str(path)!r} cannot be read ({error}); look with 'dpadmm ledger verify'.") from None


def _delta(asked: float | None, policy: Policy | None) -> float:
    if asked is not None and not 0.0 <= asked < 1.0:
        raise InputError(f"--delta {asked:g}: must lie between 0 and 1, such as 1e-6.")
    if asked is not None:
        return asked
    return DELTA if policy is None else policy.delta


def _print_summary(found: Mapping[str, Any]) -> None:
    console = out()
    unit = "" if found["records_per_person"] == 1 else f", {found['records_per_person']} records of a person"
    at = f"at delta {found['delta']:g} ({found['relation']} relation{unit})"
    console.print(
        Text(f"{found['dataset']}: {found['releases']:,} releases in {len(found['runs']):,} runs", style="bold")
    )
    if found["locked"]:
        console.print(Text(f"Locked: {found['locked']}.", style="bold red"), soft_wrap=True)
    shown = table(["", "epsilon"], show_header=False)
    if found["policy_epsilon"] is not None:
        cap = f"the cap, guaranteed (delta {found['policy_delta']:g})"
        shown.add_row(cap, number(found["policy_epsilon"], "#.4g"), style="bold")
    shown.add_row("spent so far (not a guarantee by itself)", number(found["epsilon_spent"], "#.4g"))
    shown.add_row("with what open runs hold (likewise)", number(found["epsilon_with_held"], "#.4g"))
    if found["policy_epsilon"] is not None:
        shown.add_row("left, for a Gaussian run", number(found["epsilon_left"], "#.4g"), style="bold")
    console.print(f"Total epsilon {at}:")
    console.print(shown)
    for version in found["claimed_by"]:
        console.print(
            Text(f"Totals count releases as claimed by {version}, whose noise was not exact."), soft_wrap=True
        )
    if found["runs"]:
        runs = table(["run", "algorithm", "state", "releases", "agreed", "own guarantee"])
        for run in found["runs"]:
            claimed = f", claimed by {run['claimed_by']}" if run["claimed_by"] else ""
            state = f"{run['state']}{', holds' if run['holds'] else ''}{claimed}"
            counts = (f"{run['releases']:,}", f"{run['agreed']:,}", number(run["epsilon"], "#.4g"))
            runs.add_row(Text(run["run"]), run["algorithm"] or "-", state, *counts)
        console.print(runs)
    if found["refusals"]:
        refusals = table(["refused", "times", "last"])
        for refusal in found["refusals"]:
            refusals.add_row(Text(refusal["reason"]), f"{refusal['times']:,}", refusal["last"])
        console.print(refusals)


def _public(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without the digest of the records: whoever knew all but one could try out the last."""
    return {name: value for name, value in entry.items() if name != "data"}


def _flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    from dpadmm.privacy.events import canonical

    own = ("number", "time", "kind", "run", "step", "head")
    detail = canonical({name: value for name, value in entry.items() if name not in own})
    return {**{name: entry.get(name, "") for name in own}, "detail": detail}


def _print_csv(rows: Iterable[Mapping[str, Any]], columns: list[str]) -> None:
    print_csv([columns, *([row.get(column, "") for column in columns] for row in rows)])
