"""Which ledgers this account keeps, so that a second one for the same data set is noticed.

A budget belongs to a data set, not to a file: a fresh ledger for records that have one already would be a fresh budget.
The registry is a folder with one small file per ledger (its data set's name, its records' digest, its path). It can
only notice what happens under one account; it is a guard against accidents, not against an owner who cheats.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpadmm import _databases
from dpadmm._files import atomic_write, read_json, read_text
from dpadmm._private_files import private_folder, state_folder, write_private
from dpadmm.errors import InputError
from dpadmm.privacy.events import Relation, digest
from dpadmm.privacy.ledger.sqlite import SqliteLedger


def default_folder() -> Path:
    """Where the registry is unless told otherwise."""
    return state_folder() / "ledgers"


_TIMEOUT = 60.0  # seconds to wait for another process that looks for a ledger


@dataclass(frozen=True)
class LedgerRegistry:
    """The ledgers of this account."""

    folder: Path

    def ledger(self, path: Path, dataset: str, data_digest: str, relation: Relation) -> SqliteLedger:
        """The ledger at `path`, made if there is none; refused where it is not this data set's, or not its only one.

        `relation` is that of a new one. Entries of an old one keep theirs, and totals convert them. One process at a
        time looks and notes, so that two that begin at once cannot both find that there is no ledger yet.
        """
        with self._alone():
            return self._opened(path, dataset, data_digest, relation)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps other processes waiting; if this one ends, however it does, SQLite lets the next one in."""
        self._close_to_others()
        with ExitStack() as held:
            try:
                lock = held.enter_context(closing(_databases.connect(self.folder / "lock.db", timeout=_TIMEOUT)))
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                raise InputError(
                    f"another process has been using the registry of ledgers in {str(self.folder)!r} for "
                    f"{_TIMEOUT:g} s; end it and try again."
                ) from None
            yield

    def _opened(self, path: Path, dataset: str, data_digest: str, relation: Relation) -> SqliteLedger:
        if not path.exists():
            self._check_new(path, dataset, data_digest)
            path.parent.mkdir(parents=True, exist_ok=True)
            ledger = SqliteLedger.create(path, dataset, data_digest, relation)
            self._note(path, dataset, data_digest)
            return ledger
        self._check_journal(path, dataset, data_digest)  # before SQLite opens the file
        ledger = SqliteLedger.open(path)
        try:
            for what, found, expected in (
                ("data set", ledger.dataset, dataset),
                ("records (by digest)", ledger.meta["data"], data_digest),
            ):
                if found != expected:
                    raise InputError(f"ledger {str(path)!r} is for {what} {found!r}, not {expected!r}.")
            self._check_only(path, dataset, data_digest)
        except InputError:
            ledger.close()
            raise
        self._note(path, dataset, data_digest)
        return ledger

    def _check_new(self, path: Path, dataset: str, data_digest: str) -> None:
        for note, kept, same in self._alike(dataset, data_digest):
            if kept["path"] != str(path.absolute()):
                raise InputError(
                    f"a data set of the same {same} has its ledger at {kept['path']!r}: use that one. "
                    f"If it is gone for good, remove {str(note)!r} and count its budget as spent."
                )
            raise InputError(
                f"the ledger of data set {dataset!r} was here and is gone: restore it from a backup. If there is "
                f"none, remove {str(note)!r} and count its budget as spent."
            )

    def _check_journal(self, path: Path, dataset: str, data_digest: str) -> None:
        """A ledger that was moved after a crash must bring its journal: at its old place it would undo, once the ledger
        is moved back, whatever was debited in between."""
        for _, kept, _ in self._alike(dataset, data_digest):
            for kind in ("-journal", "-wal"):
                left = Path(kept["path"] + kind)
                if kept["path"] != str(path.absolute()) and left.exists():
                    raise InputError(
                        f"ledger {str(path)!r} was moved without {str(left)!r}, which holds a change that a crash "
                        f"interrupted. Move the ledger back to {kept['path']!r} and open it there once."
                    )

    def _check_only(self, path: Path, dataset: str, data_digest: str) -> None:
        """A ledger that was moved is still the only one; a second one is not."""
        for note, kept, same in self._alike(dataset, data_digest):
            other = Path(kept["path"])
            if other.exists() and not other.samefile(path):
                raise InputError(
                    f"a data set of the same {same} has its ledger at {kept['path']!r}, too: keep one, and remove "
                    f"{str(note)!r} if that is {str(path)!r}."
                )

    def _alike(self, dataset: str, data_digest: str) -> Iterator[tuple[Path, dict[str, str], str]]:
        """The notes on ledgers for the same name or the same records."""
        for note in sorted(self.folder.glob("*.json")):
            try:
                kept = {name: str(text) for name, text in read_json(note, "note").items()}
                same = "name" if kept["dataset"] == dataset else "content" if kept["data"] == data_digest else None
                if same is not None:
                    yield note, {"path": kept["path"]}, same
            except (ValueError, KeyError, AttributeError):
                raise InputError(f"{str(note)!r} is not a note on a ledger; look at it, and remove it.") from None

    def _note(self, path: Path, dataset: str, data_digest: str) -> None:
        note = self.folder / f"{digest(dataset)[:16]}.json"
        text = json.dumps({"dataset": dataset, "data": data_digest, "path": str(path.absolute())})
        if not note.exists() or read_text(note, "note") != text:
            (write_private if os.name == "posix" else atomic_write)(note, text)

    def _close_to_others(self) -> None:
        """Makes the folder private: a note names records by their digest, against which guesses can be checked."""
        if os.name != "posix":  # whose users have no modes
            self.folder.mkdir(parents=True, exist_ok=True)
            return
        if self.folder.is_dir() and not self.folder.is_symlink() and self.folder.stat().st_uid == os.geteuid():
            self.folder.chmod(0o700)  # earlier versions left it open
        private_folder(self.folder)
