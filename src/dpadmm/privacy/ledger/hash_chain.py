"""A file that only grows: one SQLite file whose entries each hold the hash of the one before.

Writes are full and synchronous (a write-ahead log), all or nothing, and take the file's lock before they read, so that
two processes may share a file. Changing, removing or re-ordering an entry breaks the chain. The links are keyed with
the ledger's own secret: heads leave with releases, and the first entry names the records by their digest, so a plain
hash would let whoever knows all records but one try out the last. The key, and a log of the entries, are in the
owner's state (`record`).

A ledger takes nothing while it is locked. It locks itself where it finds itself at another place on the disk (a copy),
where it does not hold the last entry of its log (an older copy, put in its place), and where it is shown a seal that it
signed and does not know. A `Seal` is a head signed with the key; it says neither how many entries there are nor of
what kind. How a lock ends: `recovery`.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Self

from dpadmm import _databases
from dpadmm._files import json_value
from dpadmm._private_files import check_folder
from dpadmm.errors import InputError, Refused
from dpadmm.privacy.events import canonical, digest
from dpadmm.privacy.ledger.protocol import Seal
from dpadmm.privacy.ledger.record import LedgerRecord, Line, Log, default_folder

COPY = "this file is a copy or was moved, and its twin may be in use"
OLDER = "it is older than what this account's registry knows of it: a copy was put in its place"
GONE = "its log in this account's registry is gone"
FORGOTTEN = "it was shown a seal that it signed and does not know: what it and the registry forgot was released"
ENDS = {
    COPY: "'dpadmm ledger confirm' goes on with this file",
    OLDER: "'dpadmm ledger restore' counts what the registry knows and goes on",
    GONE: "restore the log from a backup, or look and then 'dpadmm ledger confirm'",
    FORGOTTEN: "'dpadmm ledger record-lost' counts what was lost and goes on",
}
"""What to do about each."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entries (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, run TEXT NOT NULL, body TEXT NOT NULL, head TEXT NOT NULL UNIQUE);
"""


class Chain:
    """The file, its lock and its chain; what the entries mean is the ledger's business."""

    schema: ClassVar[int]
    migrated_from: ClassVar[int | None] = None
    recorded: ClassVar[bool] = True  # whether the key is apart from the file
    tables: ClassVar[str]

    def __init__(
        self, path: Path, connection: sqlite3.Connection, folder: Path | None = None, key: bytes | None = None
    ) -> None:
        self.path = path
        self._connection = connection
        self.meta: dict[str, str] = dict(connection.execute("SELECT name, value FROM meta"))
        within = self.meta.get("key")  # in ledgers that 0.1.0, or an early 0.2.0, has made
        self._own_key = key if within is None else bytes.fromhex(within)
        self.identity = self.meta["identity"] if within is None else _identity(bytes.fromhex(within))
        """Names this ledger and no other, whatever its place; a copy has the same."""
        if not _DIGEST.fullmatch(self.identity):  # it names files, and the ledger may be a stranger's
            raise ValueError("its identity is no digest")
        self.record = LedgerRecord(folder or default_folder(), self.identity)
        self._added: list[Line] = []
        self._reading = False

    @property
    def _key(self) -> bytes:
        if self._own_key is None:
            self._own_key = self.record.key()
        return self._own_key

    @classmethod
    def _create(cls, path: Path, meta: Mapping[str, str], folder: Path | None, known: bytes | None = None) -> Self:
        """A new file, for the key that is `known` or a new one; `data` in `meta` is keyed with it if it is known."""
        # Made whole beside its place, then linked there: nobody sees half a ledger, and of two makers one comes first.
        beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        folder, key = folder or default_folder(), known or secrets.token_bytes(32)
        record = LedgerRecord(folder, _identity(key))
        if path.exists():
            raise InputError(f"ledger {str(path)!r} exists; open it, or choose another file.")
        check_folder(path, "ledger")
        for kind in ("-wal", "-journal"):  # SQLite would take it for the new file's
            if left_over(path, kind):
                raise InputError(f"{f'{path}{kind}'!r} is of a ledger that was here; move it aside.")
        made = known is not None  # then its log has a past
        try:
            os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # its journals get the same rights
            connection = connect(beside)
            try:
                with writing(connection):
                    for statement in filter(str.strip, f"{_TABLES}{cls.tables}".split(";")):
                        connection.execute(statement)
                    facts = {**meta, "place": place_of(beside)}
                    if known is None:
                        facts["data"] = keyed_digest(key, meta["data"])
                    own = {"schema": str(cls.schema), "identity": _identity(key), "locked": ""}
                    connection.executemany("INSERT INTO meta VALUES (?, ?)", {**facts, **own}.items())
                    ledger = cls(beside, connection, folder, key)
                    ledger._append("create", "", facts)
            finally:
                connection.close()  # its journal would have the wrong name
            record.begin(key, ledger._added)
            path.hardlink_to(beside)
            made = True
        except FileExistsError:
            raise InputError(f"ledger {str(path)!r} exists; open it, or choose another file.") from None
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"ledger {str(path)!r} cannot be written: {error}.") from None
        finally:
            beside.unlink(missing_ok=True)
            if not made:
                record.remove()
        return cls.open(path, folder=folder)

    @classmethod
    def open(cls, path: Path, *, reading: bool = False, folder: Path | None = None) -> Self:
        """An existing ledger: refused if a newer version wrote it, locked if it is a copy or older than its log.

        Opened for `reading`, nothing in it changes: a copy may be looked at without becoming anything else. `folder`
        is where its key and log are; by default that of this account.
        """
        if not path.exists():
            raise InputError(f"there is no ledger at {str(path)!r}; create it first.")
        if not reading:
            check_folder(path, "ledger")
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
            ledger = cls(path, connection, folder)
            if reading:
                connection.execute("PRAGMA query_only = 1")
                ledger._reading = True
            elif cls.recorded:
                with suppress(sqlite3.OperationalError):  # in use just now: the older kind of journal does as well
                    connection.execute("PRAGMA journal_mode = WAL")
                ledger._keep_key_apart()
                ledger._lock_where_needed()
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
        return self.meta["place"] != place_of(self.path)

    @property
    def locked(self) -> str:
        """Why the ledger has locked itself; empty if it has not."""
        return str(self._connection.execute("SELECT value FROM meta WHERE name = 'locked'").fetchone()[0])

    @property
    def lock_reason(self) -> str:
        """As `locked`, also for a file that was opened for reading and could not note what is wrong with it."""
        reason = self.locked or (COPY if self.moved else "")
        if reason or not self.record.exists:
            return reason
        with self.record.held() as log:
            return self._mismatch(log)

    def is_of(self, data_digest: str) -> bool:
        """Whether it is the ledger of the records with this digest."""
        return self.meta["data"] in (keyed_digest(self._key, data_digest), data_digest)  # the latter: of 0.1.0

    def lock(self, reason: str, **more: Any) -> None:
        """Nothing more is released until the owner has looked; a ledger that is locked stays as it is."""
        with self._guard(), self._writing() as log:
            if not self.locked:
                fits = not self._mismatch(log)
                if fits:
                    self._complete(log)
                self._append("lock", "", {"reason": reason, **more})
                self._connection.execute("UPDATE meta SET value = ? WHERE name = 'locked'", (reason,))
                if not fits:
                    self._added.clear()  # a line of it would make the log agree with the wrong file

    def _lock_where_needed(self) -> None:
        with self._guard(), self.record.held() as log:
            reason = COPY if self.moved else self._mismatch(log)
            if not reason:
                self._complete(log)
        if reason:
            self.lock(reason)

    def _keep_key_apart(self) -> None:
        """Moves the key of a ledger that an earlier version made into the owner's state."""
        if "key" not in self.meta:
            return
        with self._guard(), writing(self._connection):
            self.record.begin(self._key, self._lines())
            self._connection.execute("DELETE FROM meta WHERE name = 'key'")
            self._connection.execute("INSERT OR IGNORE INTO meta VALUES ('identity', ?)", (self.identity,))
            del self.meta["key"]
        self.fold()

    def fold(self) -> None:
        """Puts all that was written into the one file, so that a copy of it is whole."""
        with self._guard():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

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

    def seal(self, head: str) -> Seal:
        """The seal of an entry, by its head."""
        return Seal(head, self._mac("seal", head))

    def latest_seal(self) -> Seal:
        """The seal of the last entry."""
        with self._guard():
            row = self._connection.execute("SELECT head FROM entries ORDER BY number DESC LIMIT 1").fetchone()
        self._make_sure_of_log()
        return self.seal(row[0])

    def signed(self, seal: Seal) -> bool:
        """Whether a seal is one of this ledger's, known or forgotten."""
        return seal.well_formed and hmac.compare_digest(self.seal(seal.head).mark, seal.mark)

    def check_seal(self, *seals: Seal) -> None:
        """Locks the ledger if a seal is its own and neither chain nor log know it: both are old backups."""
        if not all(self.signed(seal) for seal in seals):
            raise Refused("the seal in the request is not one of this ledger's.")
        unknown = [seal.head for seal in seals if not self._knows(seal.head)]
        if unknown:
            self.lock(FORGOTTEN, seals=unknown)
            raise Refused("the ledger was restored from an old backup; its owner must look before it goes on.")

    def _knows(self, head: str) -> bool:
        with self._guard():
            if self._connection.execute("SELECT 1 FROM entries WHERE head = ?", (head,)).fetchone():
                return True
            locks = self._connection.execute("SELECT body FROM entries WHERE kind = 'lock'").fetchall()
            if not self.locked and any(head in json_value(body).get("seals", ()) for (body,) in locks):
                return True  # its owner has counted what was lost since
            with self.record.held() as log:
                return log is not None and any(line.head == head for line in log.lines())

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A write that is refused, with the reason, where the file is locked or cannot take it."""
        with self._guard("written"), self._writing() as log:
            reason = self.locked or self._mismatch(log)
            if reason:
                todo = ENDS.get(reason, "its owner must look before it goes on")
                told = "the ledger is locked; its owner must look before it goes on."
                raise Refused(f"the ledger is locked: {reason}; {todo}.", told=told)
            self._complete(log)
            yield

    @contextmanager
    def _writing(self) -> Iterator[Log | None]:
        """A transaction whose entries are in the log as well when this ends: first the file, on disk, then the log.

        The file's lock is taken before the log's, by everybody, and the log's is held until both are written.
        """
        self._added.clear()
        with ExitStack() as held:
            with writing(self._connection):
                log = held.enter_context(self.record.held()) if self.recorded else None
                yield log
            if log is not None and self._added:
                log.append(self._added)
            self._added.clear()

    def _mismatch(self, log: Log | None) -> str:
        """What is wrong between this file and its log; nothing while the file holds the log's last entry."""
        if not self.recorded:
            return ""
        if log is None or log.last is None:
            return GONE
        row = self._connection.execute("SELECT head FROM entries WHERE number = ?", (log.last.number,)).fetchone()
        return "" if row is not None and row[0] == log.last.head else OLDER

    def _complete(self, log: Log | None) -> None:
        """Adds to the log what a crash kept from it; the file holds the log's last entry."""
        if log is not None and log.last is not None:
            log.append(self._lines(after=log.last.number))

    def _lines(self, after: int = 0) -> list[Line]:
        rows = self._connection.execute("SELECT * FROM entries WHERE number > ? ORDER BY number", (after,))
        return [Line.of(number, head, kind, run, json_value(body)) for number, kind, run, body, head in rows]

    def _make_sure_of_log(self) -> None:
        """Nothing leaves by an entry that is not in the log: another process, or a crash, may have kept it from it."""
        if self._reading or not self.recorded:
            return
        with self._guard(), self.record.held() as log:
            reason = self._mismatch(log)
            if reason:
                raise Refused(f"the ledger is locked: {reason}; {ENDS[reason]}.", told="the ledger is locked.")
            self._complete(log)

    @contextmanager
    def _guard(self, done: str = "used") -> Iterator[None]:
        """What goes wrong with the file is a refusal."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
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
        self._added.append(Line.of(number, head, kind, run, body))
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


def keyed_digest(key: bytes, data_digest: str) -> str:
    """Names records in a ledger and its note; only the holder of the key can check a guess of them against it."""
    return hmac.new(key, digest("records", data_digest).encode(), "sha256").hexdigest()


def left_over(path: Path, kind: str) -> bool:
    """Whether a journal with something in it lies beside a ledger's place."""
    left = Path(f"{path}{kind}")
    return left.exists() and left.stat().st_size > 0


def _identity(key: bytes) -> str:
    return digest("dpadmm ledger", key)


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def connect(path: Path) -> sqlite3.Connection:
    try:
        connection = _databases.connect(path, timeout=30.0)
        connection.execute(
            "PRAGMA synchronous = EXTRA"
        )  # when a commit returns it is on disk, and so is its folder entry
        connection.execute("PRAGMA secure_delete = 1")  # what is deleted is private: states, and the key of old ledgers
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


def place_of(path: Path) -> str:
    """Where the file is, by device and number; a copy is elsewhere."""
    status = path.stat()
    return f"{status.st_dev}:{status.st_ino}"
