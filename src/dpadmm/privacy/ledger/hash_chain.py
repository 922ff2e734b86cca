"""A file that only grows: one SQLite file whose entries each hold the hash of the one before.

Writes are full and synchronous, all or nothing, and take the file's lock before they read, so that two processes may
share a file. Changing, removing or re-ordering an entry breaks the chain. The links are keyed with the ledger's own
secret: heads leave with releases, and the first entry names the records by their digest, so a plain hash would let
whoever knows all records but one try out the last. A `Seal` is a head signed with the same key: a ledger that provably
signed a head it does not know was restored from an old backup, and locks itself. So does a copy, which finds itself at
another place on the disk. A locked ledger takes nothing until its owner confirms.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Self

from dpadmm import _databases
from dpadmm._files import json_value
from dpadmm.errors import InputError, Refused
from dpadmm.privacy.events import canonical, digest
from dpadmm.privacy.ledger.protocol import Seal

COPY = "this file is a copy or was moved, and its twin may be in use"
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entries (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, run TEXT NOT NULL, body TEXT NOT NULL, head TEXT NOT NULL UNIQUE);
"""


class Chain:
    """The file, its lock and its chain; what the entries mean is the ledger's business."""

    schema: ClassVar[int]
    migrated_from: ClassVar[int | None] = None
    tables: ClassVar[str]

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self.meta: dict[str, str] = dict(connection.execute("SELECT name, value FROM meta"))
        self._key = bytes.fromhex(self.meta["key"])

    @classmethod
    def _create(cls, path: Path, meta: Mapping[str, str]) -> Self:
        # Made whole beside its place, then linked there: nobody sees half a ledger, and of two makers one comes first.
        beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # its journals get the same rights
            connection = connect(beside)
            try:
                with writing(connection):
                    for statement in filter(str.strip, f"{_TABLES}{cls.tables}".split(";")):
                        connection.execute(statement)
                    facts = {**meta, "place": _place(beside)}
                    own = {"schema": str(cls.schema), "key": secrets.token_hex(32), "locked": ""}
                    connection.executemany("INSERT INTO meta VALUES (?, ?)", {**facts, **own}.items())
                    cls(beside, connection)._append("create", "", facts)
            finally:
                connection.close()  # its journal would have the wrong name
            path.hardlink_to(beside)
        except FileExistsError:
            raise InputError(f"ledger {str(path)!r} exists; open it, or choose another file.") from None
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"ledger {str(path)!r} cannot be written: {error}.") from None
        finally:
            beside.unlink(missing_ok=True)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path, *, reading: bool = False) -> Self:
        """An existing ledger: refused if a newer version wrote it, locked if it is a copy.

        Opened for `reading`, nothing in it changes: a copy may be looked at without becoming anything else.
        """
        if not path.exists():
            raise InputError(f"there is no ledger at {str(path)!r}; create it first.")
        if not reading:
            _close_to_others(path)
        connection = connect(path)
        try:
            schema = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
            if schema is None or int(schema[0]) != cls.schema:
                found = "unknown" if schema is None else schema[0]
                remedy = "use the version of dpadmm that wrote it."
                if found == str(cls.migrated_from):
                    remedy = f"run 'dpadmm ledger migrate {path}', which makes a backup first."
                raise InputError(
                    f"ledger {str(path)!r} has schema {found}, and this program's is {cls.schema}; {remedy}"
                )
            ledger = cls(path, connection)
            if reading:
                connection.execute("PRAGMA query_only = 1")
            elif ledger.moved:
                ledger.lock(COPY)
        except InputError:
            connection.close()
            raise
        except (sqlite3.Error, Refused, KeyError, ValueError) as error:
            connection.close()
            raise InputError(f"{str(path)!r} is not a usable ledger: {error}.") from None
        return ledger

    def close(self) -> None:
        self._connection.close()

    @property
    def moved(self) -> bool:
        """Whether the file is not where it was made or last confirmed."""
        return self.meta["place"] != _place(self.path)

    @property
    def locked(self) -> str:
        """Why the ledger is locked; empty if it is not."""
        return str(self._connection.execute("SELECT value FROM meta WHERE name = 'locked'").fetchone()[0])

    @property
    def lock_reason(self) -> str:
        """As `locked`, also for a copy that was opened for reading and could not note that it is one."""
        return self.locked or (COPY if self.moved else "")

    @property
    def identity(self) -> str:
        """Names this ledger and no other, whatever its place; a copy has the same."""
        return digest("dpadmm ledger", self._key)

    def lock(self, reason: str) -> None:
        """Nothing more is released until the owner confirms; a ledger that is locked stays as it is."""
        with self._guard(), writing(self._connection):
            if not self.locked:
                self._append("lock", "", {"reason": reason})
                self._connection.execute("UPDATE meta SET value = ? WHERE name = 'locked'", (reason,))

    def confirm(self) -> None:
        """The owner has looked: this file, at this place, is the one to go on with."""
        with self._guard(), writing(self._connection):
            place = _place(self.path)
            self._append("confirm", "", {"was": self.locked, "place": place})
            changes = [("", "locked"), (place, "place")]
            self._connection.executemany("UPDATE meta SET value = ? WHERE name = ?", changes)

    @contextmanager
    def reading(self) -> Iterator[Callable[[str], sqlite3.Cursor]]:
        """Queries that read the file; what goes wrong with it is a refusal."""
        with self._guard():
            yield self._connection.execute

    def entries(self) -> Iterator[dict[str, Any]]:
        """The chain, entry by entry."""
        for number, kind, run, body, head in self._connection.execute("SELECT * FROM entries ORDER BY number"):
            yield {"number": number, "kind": kind, "run": run, "head": head, **json_value(body)}

    def broken_links(self) -> list[str]:
        """Entries that were changed, or are missing."""
        problems, previous, expected = [], "", 1
        for number, kind, run, body, head in self._connection.execute("SELECT * FROM entries ORDER BY number"):
            if number != expected:
                problems.append(f"entries {expected} to {number - 1} are missing")
            if self._link(previous, number, kind, run, body) != head:
                problems.append(f"entry {number} ({kind}) or what came before it was changed")
            previous, expected = head, number + 1
        return problems

    def seal(self, number: int, head: str) -> Seal:
        return Seal(number, head, self._mac("seal", str(number), head))

    def check_seal(self, seal: Seal) -> None:
        """Locks the ledger if the seal is its own and the chain does not know it: this is an old backup."""
        if not (seal.well_formed and hmac.compare_digest(self.seal(seal.number, seal.head).signature, seal.signature)):
            raise Refused("the seal in the request is not one of this ledger's.")
        with self._guard():
            row = self._connection.execute("SELECT head FROM entries WHERE number = ?", (seal.number,)).fetchone()
        if row is None or row[0] != seal.head:
            self.lock(f"it was restored from a backup: entry {seal.number}, which it signed, is not in it")
            raise Refused("the ledger was restored from an old backup; its owner must confirm before it goes on.")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A write that is refused, with the reason, where the file is locked or cannot take it."""
        with self._guard("written"), writing(self._connection):
            reason = self.locked
            if reason:
                whole = f"the ledger is locked ({reason}); its owner must confirm before it goes on."
                raise Refused(whole, told="the ledger is locked; its owner must confirm before it goes on.")
            yield

    @contextmanager
    def _guard(self, done: str = "used") -> Iterator[None]:
        """What goes wrong with the file is a refusal."""
        try:
            yield
        except sqlite3.Error as error:
            told = f"the ledger cannot be {done}; nothing was released."
            raise Refused(f"the ledger cannot be {done} ({error}); nothing was released.", told=told) from None

    def _link(self, previous: str, number: int, kind: str, run: str, body: str) -> str:
        return self._mac("link", previous, str(number), kind, run, body)

    def _mac(self, *parts: bytes | str) -> str:
        """What only the holder of the ledger's key can compute."""
        return hmac.new(self._key, digest(*parts).encode(), "sha256").hexdigest()

    def _append(self, kind: str, run: str, body: Mapping[str, Any]) -> tuple[int, str]:
        row = self._connection.execute("SELECT number, head FROM entries ORDER BY number DESC LIMIT 1").fetchone()
        number, previous = (row[0] + 1, row[1]) if row else (1, "")
        text = canonical({**body, "time": now()})
        head = self._link(previous, number, kind, run, text)
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", (number, kind, run, text, head))
        return number, head


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything or nothing; the lock comes first, so what is read inside is still true when it is written."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def connect(path: Path) -> sqlite3.Connection:
    try:
        connection = _databases.connect(path, timeout=30.0)
        connection.execute(
            "PRAGMA synchronous = EXTRA"
        )  # when a commit returns it is on disk, and so is its folder entry
    except sqlite3.Error as error:
        raise InputError(f"ledger {str(path)!r} cannot be opened: {error}.") from None
    return connection


def _close_to_others(path: Path) -> None:
    """For its owner's eyes only, and by one name: SQLite's journal belongs to a name, and would not follow another."""
    status = path.stat()
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        raise InputError(f"ledger {str(path)!r} has another name on this disk (a hard link); remove one of them.")
    if stat.S_IMODE(status.st_mode) & 0o077:  # earlier versions left it open
        with suppress(PermissionError):
            path.chmod(0o600)


def _place(path: Path) -> str:
    """Where the file is, by device and number; a copy is elsewhere."""
    status = path.stat()
    return f"{status.st_dev}:{status.st_ino}"
