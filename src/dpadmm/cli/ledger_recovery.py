"""`dpadmm ledger restore` and `record-lost`: how the lock of a ledger that has forgotten releases ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dpadmm.cli.console import AsJson, examples, out, print_json
from dpadmm.errors import InputError, Refused

if TYPE_CHECKING:
    from dpadmm.privacy.events import DpEvent
    from dpadmm.privacy.ledger.registry import LedgerRegistry
    from dpadmm.privacy.units import Unit

_Ledger = Annotated[Path, typer.Argument(metavar="LEDGER", help="The owner's ledger file.", show_default=False)]
_State = Annotated[
    Path | None,
    typer.Option("--state", metavar="FOLDER", help="Where the keys and logs of ledgers are.", show_default=False),
]


def register(group: typer.Typer) -> None:
    group.command(
        "restore",
        epilog=examples("dpadmm ledger restore patients.ledger", "dpadmm ledger restore patients.ledger --backup copy"),
    )(restore)
    group.command(
        "record-lost",
        epilog=examples(
            "dpadmm ledger record-lost patients.ledger",
            "dpadmm ledger record-lost patients.ledger --terms terms.json --owner north",
            "dpadmm ledger record-lost patients.ledger --policy policy.toml",
        ),
    )(record_lost)


def restore(
    ledger: _Ledger,
    backup: Annotated[
        Path | None, typer.Option("--backup", help="A copy to put in the ledger's place.", show_default=False)
    ] = None,
    state: _State = None,
    as_json: AsJson = False,
) -> None:
    """Go on with an older ledger, a backup, or none at all.

    What the registry knows was released and the file does not count is
    counted, run by run. Without a file and a backup, a ledger is made of what
    the registry knows. A file that a backup replaces is moved aside.
    """
    from dpadmm.privacy.ledger.restore import restore as restored

    done = restored(ledger.absolute(), _registry(state), backup)
    counted = {run: sum(events.values()) for run, events in done.counted.items()}
    if as_json:
        aside = None if done.aside is None else str(done.aside)
        print_json({"ledger": str(ledger), "was_locked": done.reason or None, "counted": counted,
                    "moved_aside": aside, "made_anew": done.anew})  # fmt: skip
        return
    told = ", ".join(f"{count:,} of run {run!r}" for run, count in counted.items()) or "none: it had forgotten nothing"
    out().print(Text(f"Restored. Releases that are counted now: {told}."), soft_wrap=True)
    if done.aside is not None:
        out().print(Text(f"The file that was there is {done.aside}."), soft_wrap=True)


def record_lost(
    ledger: _Ledger,
    terms: Annotated[
        Path | None,
        typer.Option("--terms", help="A lost run's terms.json: all of the run is counted.", show_default=False),
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Your name in those terms.", show_default=False)] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", help="Count all that this policy allows: nothing is left.", show_default=False),
    ] = None,
    state: _State = None,
    as_json: AsJson = False,
) -> None:
    """Count releases that left, and that ledger and registry have forgotten.

    Without --terms or --policy, shows what is still known and changes
    nothing. What is recorded ends a lock.
    """
    from dpadmm.cli.ledger import opened

    if terms is not None and policy is not None:
        raise InputError("give --terms or --policy, not both: all that the policy allows counts every run.")
    if owner is not None and terms is None:
        raise InputError("--owner says who you are in the terms of a run; give them by --terms.")
    if terms is None and policy is None:
        with opened(ledger, state=state) as store:
            shown = [seal for entry in store.entries() for seal in entry.get("seals", ())]
            missing = {run: sum(events.values()) for run, events in store.forgotten().items()}
            found = {
                "ledger": str(ledger),
                "locked": store.lock_reason or None,
                "known_to_registry": missing,
                "unknown_seals": len(shown),
                "runs_in_logs": _joined(ledger, state, set(store.runs())),
            }
        _say_what_is_known(found, as_json)
        return
    tally, unit = _of_terms(terms, owner) if terms is not None else _of_policy(policy or Path())
    with opened(ledger, reading=False, state=state) as store:
        reason = store.lock_reason
        store.record_lost(tally, unit)
    if as_json:
        print_json({"ledger": str(ledger), "was_locked": reason or None, "recorded": sum(tally.values())})
    else:
        out().print(Text(f"Recorded {sum(tally.values()):,} lost release(s); the ledger goes on."), soft_wrap=True)


def _say_what_is_known(found: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(dict(found))
        return
    known = sum(found["known_to_registry"].values())
    lines = [
        f"Locked: {found['locked']}." if found["locked"] else "The ledger is not locked.",
        f"Releases that the registry knows and the ledger does not count: {known:,}.",
        f"Seals that were shown and nobody here knows: {found['unknown_seals']:,}.",
        f"Runs in the agents' logs that are not in the ledger: {', '.join(found['runs_in_logs']) or 'none'}.",
        "Ask the coordinator for the terms.json of each lost run, and give it by --terms with --owner; or, if you "
        "cannot tell, give --policy, which counts all that is allowed. Nothing was changed.",
    ]
    for line in lines:
        out().print(Text(line), soft_wrap=True)


def _registry(state: Path | None) -> LedgerRegistry:
    from dpadmm.privacy.ledger.record import default_folder
    from dpadmm.privacy.ledger.registry import LedgerRegistry

    return LedgerRegistry(default_folder() if state is None else (state / "ledgers").absolute())


def _joined(ledger: Path, state: Path | None, known: set[str]) -> list[str]:
    """Runs that the logs of agents with this ledger say were joined, and that it does not have."""
    from dpadmm._private_files import state_folder
    from dpadmm.federation.client.owner_folder import OwnerFolder

    found: dict[str, None] = {}
    for path in sorted(((state or state_folder()).absolute() / "agents").glob("*/keys.json")):
        folder = OwnerFolder(path.parent)
        if Path(folder.settings().ledger) == ledger.absolute():
            for event in folder.events(100_000):
                if event.get("kind") == "joined" and event.get("run") not in known:
                    found[str(event.get("run"))] = None
    return list(found)


def _of_terms(path: Path, owner: str | None) -> tuple[Mapping[DpEvent, int], Unit]:
    from dpadmm._files import read_text
    from dpadmm.owner.agreement import Agreement

    agreement = Agreement.loads(read_text(path, "terms"))
    if owner not in agreement.owners:
        raise InputError(f"--owner {owner!r}: the terms are for {', '.join(agreement.owners) or 'nobody'}.")
    try:
        (tally,) = agreement.plan().take([agreement.owners.index(owner)]).tallies()
    except Refused as refused:
        raise InputError(str(refused)) from None
    return tally, agreement.unit


def _of_policy(path: Path) -> tuple[Mapping[DpEvent, int], Unit]:
    from dpadmm.owner.policy import Policy
    from dpadmm.privacy.events import GaussianDpEvent, PureDpEvent

    cap = Policy.read(path).cap
    return ({PureDpEvent(cap.epsilon): 1} if cap.delta == 0 else {GaussianDpEvent(1.0 / cap.mu_total): 1}), cap.unit
