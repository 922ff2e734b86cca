"""A ledger that is gone, or older than what the registry knows, goes on, and counts all that is known to have left."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dpadmm.errors import InputError, Refused
from dpadmm.privacy.events import DpEvent
from dpadmm.privacy.ledger.hash_chain import connect, now
from dpadmm.privacy.ledger.registry import LedgerRegistry
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify


@dataclass(frozen=True)
class Restoration:
    """What was done.

    Attributes:
        reason: Why the ledger was locked; empty if it was not.
        counted: What the registry knew was released and the file did not count, by run; it is counted now.
        aside: Where the file is that was in the ledger's place before a backup was put there.
        anew: Whether there was no file, and one was made of what the registry knows.
    """

    reason: str
    counted: dict[str, dict[DpEvent, int]]
    aside: Path | None
    anew: bool


def restore(path: Path, registry: LedgerRegistry, backup: Path | None = None) -> Restoration:
    """Counts what the registry knows of a ledger, and lets it go on.

    Args:
        path: The ledger's place.
        registry: Of the account that keeps it.
        backup: A copy to put in its place first; without one the file that is there is taken, or one is made anew.

    Returns:
        What was done.

    Raises:
        InputError: The registry knows no ledger there, or the backup is of another one, or was changed.
    """
    note = registry.known(path)
    aside = _put_in_place(path, backup, note["identity"], registry.folder) if backup is not None else None
    anew = not path.exists()
    if anew:
        _move_aside(path)  # what is left of the file that is gone
    ledger = (
        SqliteLedger.make_anew(path, note, registry.folder) if anew else SqliteLedger.open(path, folder=registry.folder)
    )
    with closing(ledger):
        if ledger.identity != note["identity"]:
            raise InputError(f"{str(path)!r} is another ledger than the registry knows; name a backup of that one.")
        reason, counted = ledger.lock_reason, ledger.forgotten()
        try:
            ledger.confirm()
        except Refused as refused:
            raise InputError(str(refused)) from None
    return Restoration(reason, counted, aside, anew)


def _put_in_place(path: Path, backup: Path, identity: str, folder: Path) -> Path | None:
    """Puts a copy of a backup in the ledger's place; where what was there is now."""
    with closing(SqliteLedger.open(backup, reading=True, folder=folder)) as found:
        if found.identity != identity:
            raise InputError(f"{str(backup)!r} is a backup of another ledger; nothing was changed.")
        _check_unchanged(found, backup)
    beside, aside = path.with_name(f".{path.name}.restored"), None
    try:
        beside.unlink(missing_ok=True)
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with closing(connect(backup)) as source, closing(connect(beside)) as target:
            source.backup(target)
        aside = _move_aside(path)
        beside.rename(path)
    except (sqlite3.Error, OSError) as error:
        raise InputError(f"{str(backup)!r} cannot be put in the ledger's place: {error}.") from None
    finally:
        beside.unlink(missing_ok=True)
    return aside


def _check_unchanged(found: SqliteLedger, backup: Path) -> None:
    """Whoever keeps backups may have changed one: its tables could say that less was spent than its entries do."""
    try:
        problems = verify(found)
    except (Refused, sqlite3.Error, ValueError, KeyError, TypeError) as error:
        problems = [str(error)]
    if problems:
        raise InputError(
            f"{str(backup)!r} was changed since the ledger wrote it ({problems[0].rstrip('.')}); nothing was changed "
            f"here. Name another backup, or none: then the ledger is made anew of what the registry knows."
        )


def _move_aside(path: Path) -> Path | None:
    """Moves a ledger and its journals out of the way; its new place, if there was one."""
    there = path.exists()
    aside = path.with_name(f"{path.name}.replaced-{now().replace(':', '').replace('-', '')}")
    for kind in ("-wal", "-shm", "-journal", ""):
        left = Path(f"{path}{kind}")
        if left.exists():
            left.rename(f"{aside}{kind}")
    return aside if there else None
