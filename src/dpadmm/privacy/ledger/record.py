"""What an owner's state keeps of a ledger outside its file: the key of its chain, and a log of its entries.

    IDENTITY.key      the key, so that whoever gets a copy of the ledger cannot compute its links
    IDENTITY.log      for each entry its number and head, and what it counts as agreed or spent

An older copy that is put in the ledger's place does not hold the last entry of the log, and is recognised by that. The
order of a release is: the ledger's transaction, on disk; then a line of the log, on disk; then the release leaves. So
whatever has left is in both. After a crash between the two the ledger is one entry ahead of the log, holds the log's
last entry, and the log is completed. A ledger that does not hold the log's last entry never comes from a crash.

A line is written in place into a file that grows by whole blocks of zeros, so that one `fdatasync` puts it on disk. A
line that a power cut tore does not match its checksum and counts as not written; nothing has left by it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpadmm._private_files import opened_private, private_folder, read_private, state_folder, write_private
from dpadmm.errors import InputError, Refused
from dpadmm.privacy.events import canonical

BLOCK = 1 << 16  # bytes by which a log grows
_TIMEOUT = 30.0  # seconds to wait for another process that writes to the log
_COUNTED = {
    "reserve": ("tally", "account"),
    "debit": ("event",),
    "lost": ("tally", "account", "of"),
    "migrate": ("accounts",),
}
"""What a line repeats of an entry: what is needed to count it, and neither values nor terms."""


def default_folder() -> Path:
    """Where records and notes of ledgers are unless told otherwise."""
    return state_folder() / "ledgers"


@dataclass(frozen=True)
class Line:
    """An entry as the log repeats it."""

    number: int
    head: str
    kind: str
    run: str
    counted: Mapping[str, Any]

    @classmethod
    def of(cls, number: int, head: str, kind: str, run: str, body: Mapping[str, Any]) -> Line:
        """The line of an entry."""
        return cls(number, head, kind, run, {name: body[name] for name in _COUNTED.get(kind, ()) if name in body})

    def dumps(self) -> bytes:
        text = canonical([self.number, self.head, self.kind, self.run, dict(self.counted)]).encode()
        return text + b"\t" + _checksum(text) + b"\n"

    @classmethod
    def loads(cls, line: bytes) -> Line | None:
        """None for a line that is torn."""
        text, _, mark = line.rpartition(b"\t")
        return cls(*json.loads(text)) if text and mark == _checksum(text) else None


class Log:
    """The log, while this process holds its lock."""

    def __init__(self, file: int, known: tuple[int, Line] | None) -> None:
        self._file = file
        self._end, self.last = 0, None
        if known is not None and self._still(*known):
            self._end, self.last = known
        else:
            self._find_end()

    @property
    def place(self) -> tuple[int, Line] | None:
        """Where it ends, for the next time."""
        return None if self.last is None else (self._end, self.last)

    def lines(self) -> list[Line]:
        """All of them, in the order in which they were written."""
        found = [Line.loads(line) for line in os.pread(self._file, self._end, 0).split(b"\n")[:-1]]
        return [line for line in found if line is not None]

    def append(self, lines: Sequence[Line]) -> None:
        """Adds lines, on disk when this returns; the last one only after the others are."""
        for part in (lines[:-1], lines[-1:]):
            if not part:
                continue
            data = b"".join(line.dumps() for line in part)
            size = os.fstat(self._file).st_size
            while self._end + len(data) >= size:
                _write(self._file, bytes(BLOCK), size)
                size += BLOCK
                os.fsync(self._file)
            _write(self._file, data, self._end)
            os.fdatasync(self._file) if hasattr(os, "fdatasync") else os.fsync(self._file)
            self._end += len(data)
            self.last = part[-1]

    def _still(self, end: int, last: Line) -> bool:
        line = last.dumps()
        start = end - len(line)
        return os.pread(self._file, len(line) + 1, start) in (line, line + b"\0")

    def _find_end(self) -> None:
        size, window = os.fstat(self._file).st_size, 2 * BLOCK
        while True:
            start = max(0, size - window)
            data = os.pread(self._file, size - start, start)
            begin = data.find(b"\n") + 1 if start else 0
            for line in data[begin:].split(b"\n")[:-1]:
                found = Line.loads(line)
                if found is None:
                    break
                begin += len(line) + 1
                self.last = found
            if self.last is not None or not start:
                self._end = start + begin
                return
            window *= 2


class LedgerRecord:
    """The key and the log of one ledger.

    Args:
        folder: Where they are; closed to others.
        identity: Of the ledger.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder = folder.absolute()
        self._key = self.folder / f"{identity[:32]}.key"
        self._log = self.folder / f"{identity[:32]}.log"
        self._known: tuple[int, Line] | None = None
        self._held: Log | None = None

    @property
    def exists(self) -> bool:
        """Whether this state has the ledger's key."""
        return os.path.lexists(self._key)

    def key(self) -> bytes:
        """The chain's key.

        Raises:
            InputError: It is not here, or not closed to others.
        """
        try:
            return bytes.fromhex(read_private(self._key).decode())
        except FileNotFoundError:
            raise InputError(
                f"the ledger's key {str(self._key)!r} is not there: name the state that it belongs to, or restore "
                f"the key from a backup."
            ) from None
        except InputError:
            raise
        except ValueError:
            raise InputError(f"{str(self._key)!r} holds no key; restore it from a backup.") from None

    def begin(self, key: bytes, lines: Sequence[Line]) -> None:
        """Writes a ledger's first log, and then its key; what is there already stays."""
        private_folder(self.folder)
        if not os.path.lexists(self._log):
            data = b"".join(line.dumps() for line in lines)
            write_private(self._log, data.ljust((len(data) // BLOCK + 1) * BLOCK, b"\0"))
        with suppress(FileExistsError):
            write_private(self._key, key.hex(), new=True)
        if self.key() != key:
            raise InputError(f"{str(self._key)!r} is another ledger's key.")

    def remove(self) -> None:
        """Forgets a ledger that was never made."""
        for path in (self._key, self._log):
            path.unlink(missing_ok=True)

    @contextmanager
    def held(self) -> Iterator[Log | None]:
        """The log, locked against other processes; None where it is gone. Inside of itself it is the same."""
        if self._held is not None:
            yield self._held
            return
        try:
            opened = opened_private(self._log)
        except FileNotFoundError:
            yield None
            return
        with opened as file:
            _lock(file)
            self._held = Log(file, self._known)
            try:
                yield self._held
            finally:
                self._known, self._held = self._held.place, None


def _lock(file: int) -> None:
    until = time.monotonic() + _TIMEOUT
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise Refused("the ledger's log is in use by another process.", told=None) from None
            time.sleep(0.002)


def _write(file: int, data: bytes, place: int) -> None:
    left = memoryview(data)
    while left:
        done = os.pwrite(file, left, place)
        left, place = left[done:], place + done


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:16].encode()
