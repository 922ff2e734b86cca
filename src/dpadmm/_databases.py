"""SQLite files that somebody else may have made.

A database is a program: a view or a trigger can take the place of a table and compute for ever when it is read. So only
plain tables and indices are accepted, nothing in the file may call functions, values and rows have a limit, and a
statement that does not come to an end is interrupted. So is a journal beside it: SQLite rolls it back when it opens
the file, and then deletes the file that such a journal may name at its end.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from pathlib import Path

from dpadmm import _limits

_BEGINS = b"SQLite format 3\0"
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")  # the end of a journal that names the one of several databases
_GLANCE = 100_000  # steps of SQLite's machine between looks at how long a statement takes
_PAUSE = 5.0  # seconds after which the count of steps begins anew: an agent's ledger is open for days
# What a table may be made of: names, types and keys. No column is computed, none has a check or a computed default.
_TABLE = re.compile(r"CREATE TABLE [\w\"`\[\]]+ ?\(.*\)( WITHOUT ROWID| STRICT|, )*", re.IGNORECASE | re.DOTALL)
_COMPUTED = re.compile(r"\b(GENERATED|CHECK|AS|SELECT|VIRTUAL|DEFAULT\s*\()", re.IGNORECASE)
_INDEX = re.compile(r"CREATE (UNIQUE )?INDEX \w+ ON \w+ ?\([\w, ]+\)", re.IGNORECASE)


class HostileDatabase(sqlite3.DatabaseError):
    """A database that is more than tables."""


def connect(path: Path, *, timeout: float) -> sqlite3.Connection:
    """A connection to a file that exists or is to be made, by which nothing in the file can run.

    Args:
        path: The file.
        timeout: Seconds to wait for another process's lock.

    Raises:
        sqlite3.Error: It is no database, or one with more in it than tables and indices.
    """
    if path.exists() and not path.is_file():
        raise HostileDatabase("it is not a file")
    check_journal(path)
    connection = sqlite3.connect(path, timeout=timeout, isolation_level=None)
    try:
        restrain(connection, _limits.STEPS)
        _check_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def check_journal(path: Path) -> None:
    """Refuses a journal that names another file: no ledger has one, and SQLite would delete that file.

    Args:
        path: The database.

    Raises:
        HostileDatabase: There is such a journal beside it.
    """
    journal = Path(f"{os.path.realpath(path)}-journal")  # SQLite follows links of the database before it looks
    try:
        if not journal.is_file():
            return
        with journal.open("rb") as file:
            file.seek(-min(file.seek(0, os.SEEK_END), len(_NAMES_ANOTHER)), os.SEEK_END)
            end = file.read()
    except OSError as error:
        raise HostileDatabase(f"its journal {str(journal)!r} cannot be read: {error.strerror}") from None
    if end == _NAMES_ANOTHER:
        raise HostileDatabase(f"its journal {str(journal)!r} names another file, which SQLite would delete")


def restrain(connection: sqlite3.Connection, steps: int) -> None:
    """Limits what a file can have SQLite do: no functions, no large values, no statement without an end.

    Args:
        connection: To a file whose tables were not read yet.
        steps: The most steps of SQLite's machine without a pause.
    """
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _limits.CELL)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _limits.STATEMENT)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 0)
    connection.set_progress_handler(_Watch(steps), _GLANCE)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {setting}")


def _check_tables(connection: sqlite3.Connection) -> None:
    for kind, name, text in connection.execute("SELECT type, name, sql FROM sqlite_master LIMIT 100"):
        plain_table = kind == "table" and type(text) is str and _TABLE.fullmatch(text) and not _COMPUTED.search(text)
        plain_index = kind == "index" and (text is None or (type(text) is str and _INDEX.fullmatch(text)))
        if not plain_table and not plain_index:
            raise HostileDatabase(f"it has a {str(kind)[:20]} {str(name)[:60]!r} that is no plain table")


class _Watch:
    """Interrupts a statement that takes too many steps; SQLite asks it while a statement runs."""

    def __init__(self, steps: int) -> None:
        self._steps, self._left, self._last = steps, 0, 0.0

    def __call__(self) -> int:
        now = time.monotonic()
        if now - self._last > _PAUSE:
            self._left = self._steps // _GLANCE
        self._last = now
        self._left -= 1
        return int(self._left < 0)
