"""A ledger of version 0.1.0 becomes one of this version, with all its entries.

The entries stay as they are, byte for byte, and so does their chain. One entry more says what unit their events
protect (one record, by the ledger's relation: 0.1.0 kept no unit) and that they are claimed by 0.1.0, whose noise was
not exact.

A backup is made first. Then the ledger is locked, and that is on disk before anything is changed; all changes and the
end of the lock are one transaction. Whatever fails or is killed in between leaves a locked ledger of the old kind: it
takes nothing, in neither version, until it is migrated.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpadmm.errors import InputError, Refused
from dpadmm.privacy.events import canonical
from dpadmm.privacy.filter import Bound, Cap
from dpadmm.privacy.ledger.hash_chain import connect, now, writing
from dpadmm.privacy.ledger.protocol import Account, Run
from dpadmm.privacy.ledger.sqlite import LOST_DELTA0, SqliteLedger, whole_of
from dpadmm.privacy.ledger.verify import verify
from dpadmm.privacy.units import Unit

VERSION = "0.1.0"
LOCK = "its migration from version 0.1.0 did not end; run 'dpadmm ledger migrate' again"


@dataclass(frozen=True)
class Migration:
    """What was done.

    Attributes:
        backup: The file as it was.
        entries: How many entries were kept.
        runs: Their runs.
        locked: Why the ledger is locked, if it was before.
    """

    backup: Path
    entries: int
    runs: tuple[str, ...]
    locked: str


class _OldLedger(SqliteLedger):
    """The old tables, as far as the chain and the accounts of its runs."""

    schema = 2
    recorded = False

    def lock_for_migration(self) -> tuple[int, str]:
        """Locks the ledger, on disk; how many entries it had, none of which is read, and why it was locked before."""
        with writing(self._connection):
            self._check_still_old()
            (entries,) = self._connection.execute("SELECT COUNT(*) FROM entries").fetchone()
            before = self.locked
            if not before:
                self._append("lock", "", {"reason": LOCK})
                self._connection.execute("UPDATE meta SET value = ? WHERE name = 'locked'", (LOCK,))
        return int(entries), "" if before == LOCK else before

    def migrate(self, locked: str) -> tuple[str, ...]:
        """All changes, and the end of the migration's lock."""
        with writing(self._connection):
            self._check_still_old()
            self._connection.execute("ALTER TABLE runs ADD COLUMN account TEXT NOT NULL DEFAULT ''")
            placeholder = canonical(Account(Unit(1, self.relation), claimed=VERSION).as_dict())
            self._connection.execute("UPDATE runs SET account = ?", (placeholder,))
            accounts = {name: _account(run).as_dict() for name, run in self.runs().items()}
            rows = [(canonical(account), name) for name, account in accounts.items()]
            self._connection.executemany("UPDATE runs SET account = ? WHERE name = ?", rows)
            self._append("migrate", "", {"version": VERSION, "accounts": accounts, "locked": locked})
            changes = [(locked, "locked"), (str(SqliteLedger.schema), "schema")]
            self._connection.executemany("UPDATE meta SET value = ? WHERE name = ?", changes)
            problems = verify(self)
            if problems:
                raise Refused(f"what it says does not add up: {problems[0]}")
        return tuple(accounts)

    def _check_still_old(self) -> None:
        """Raises where another process has migrated it since it was opened; it is in order then."""
        (found,) = self._connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
        if found != str(self.schema):
            raise InputError(
                f"ledger {str(self.path)!r} was migrated by another process meanwhile; nothing was changed."
            )


def migrate(path: Path) -> Migration:
    """Makes a ledger of this version out of one of 0.1.0.

    Args:
        path: The ledger's file.

    Returns:
        What was done, and where the backup is.

    Raises:
        InputError: The file is no ledger of 0.1.0, or cannot be migrated; then it is locked and otherwise unchanged.
    """
    if not path.exists():
        raise InputError(f"there is no ledger at {str(path)!r}; name one of version {VERSION}.")
    _check_schema(path)
    backup = _back_up(path)
    try:
        old = _OldLedger.open(path)
        with closing(old):
            entries, locked = old.lock_for_migration()
            runs = old.migrate(locked)
    except (Refused, sqlite3.Error, ValueError, KeyError, TypeError) as error:
        state = "it is locked" if _locked(path) else "it could not be locked, so let nobody use it"
        raise InputError(
            f"ledger {str(path)!r} was not migrated ({str(error).rstrip('.')}); {state}, and as it was at "
            f"{str(backup)!r}. Restore one that is in order, and count what it forgot as spent."
        ) from None
    return Migration(backup, entries, runs, locked)


def _account(run: Run) -> Account:
    """A run of 0.1.0: what is not Gaussian or pure enters as a whole, by a delta0 of its own policy's delta."""
    unit, terms = run.account.unit, run.terms.get("policy")
    whole: Bound | None = whole_of(run.agreed, unit, _delta0(terms) if isinstance(terms, Mapping) else LOST_DELTA0)
    return Account(unit, whole, claimed=VERSION)


def _delta0(policy: Mapping[str, Any]) -> float:
    """A sixteenth of the slack; by public numbers, so nothing that was released has a say in it."""
    slack = float(Cap(float(policy["epsilon"]), float(policy["delta"])).slack)
    return slack / 16.0 or LOST_DELTA0


def _check_schema(path: Path) -> None:
    try:
        with closing(connect(path)) as connection:
            found = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    except sqlite3.Error as error:
        raise InputError(f"{str(path)!r} is not a usable ledger: {error}.") from None
    if found is None or found[0] != str(_OldLedger.schema):
        raise InputError(f"ledger {str(path)!r} has schema {found and found[0]}, and only {_OldLedger.schema}, "
                         f"of version {VERSION}, is migrated; leave it as it is.")  # fmt: skip


def _locked(path: Path) -> bool:
    try:
        with closing(connect(path)) as connection:
            return bool(connection.execute("SELECT value FROM meta WHERE name = 'locked'").fetchone()[0])
    except (sqlite3.Error, InputError, TypeError):
        return False


def _back_up(path: Path) -> Path:
    """A copy of the file as it is, whole and on disk before it has its name; readable by its owner only."""
    stamp = now().replace(":", "").replace("-", "")
    backup = path.with_name(f"{path.name}.{VERSION}.{stamp}")
    number = 1
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.{VERSION}.{stamp}-{number}")
    beside = backup.with_name(f".{backup.name}")
    try:
        beside.unlink(missing_ok=True)
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with closing(connect(path)) as source, closing(connect(beside)) as target:
            source.backup(target)
        beside.rename(backup)
    except (sqlite3.Error, OSError) as error:
        raise InputError(f"no backup of {str(path)!r} can be written ({error}); nothing was changed.") from None
    finally:
        beside.unlink(missing_ok=True)
    return backup
