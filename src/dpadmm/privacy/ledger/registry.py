"""Which ledgers this account keeps, so that a second one for the same data set is noticed.

A budget belongs to a data set, not to a file: a fresh ledger for records that have one already would be a fresh budget.
The registry is a folder with one note per ledger: its data set's name, its records' digest, keyed by the ledger's own
key, its identity and its path; beside it lie the key and the log of the ledger (`record`). It can only notice what
happens under one account; it is a guard against accidents and backups, not against an owner who cheats.
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
from dpadmm._private_files import private_folder, read_private, write_private
from dpadmm.errors import InputError
from dpadmm.privacy.events import Relation, digest
from dpadmm.privacy.ledger.hash_chain import keyed_digest, left_over
from dpadmm.privacy.ledger.record import LedgerRecord
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify

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
        place = self.folder / "lock.db"
        os.close(os.open(place, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))
        place.chmod(0o600)  # earlier versions left it open
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
            ledger = SqliteLedger.create(path, dataset, data_digest, relation, self.folder)
            self._note(path, ledger)
            return ledger
        self._check_journal(path, dataset, data_digest)  # before SQLite opens the file
        after_crash = left_over(path, "-wal")
        ledger = SqliteLedger.open(path, folder=self.folder)
        try:
            if ledger.dataset != dataset:
                raise InputError(f"ledger {str(path)!r} is for data set {ledger.dataset!r}, not {dataset!r}.")
            self._check_only(path, dataset, data_digest)
            self._check_same(path, ledger)
            if not ledger.is_of(data_digest) and (ledger.locked or not ledger.take_records(data_digest)):
                raise InputError(f"ledger {str(path)!r} is for other records than these.")
            if after_crash and not ledger.locked:  # it may be another file's: an older copy may be half undone by it
                for problem in verify(ledger)[:1]:
                    ledger.lock(problem)
        except BaseException:
            ledger.close()
            raise
        self._note(path, ledger)
        return ledger

    def _check_same(self, path: Path, ledger: SqliteLedger) -> None:
        """A ledger of the same data set that was made elsewhere does not take the place of the one that is known."""
        kept = self._kept(self._place_of_note(ledger.dataset))
        if kept is not None and kept.get("identity", ledger.identity) != ledger.identity:
            raise InputError(
                f"{str(path)!r} is not the ledger of data set {ledger.dataset!r} that this account knows: put that "
                f"one back, or make one of what the registry knows by 'dpadmm ledger restore'."
            )

    def _check_new(self, path: Path, dataset: str, data_digest: str) -> None:
        for note, kept, same in self._alike(dataset, data_digest):
            if kept["path"] != str(path.absolute()):
                raise InputError(
                    f"a data set of the same {same} has its ledger at {kept['path']!r}: use that one. "
                    f"If it is gone, 'dpadmm ledger restore {kept['path']}' makes it anew of what is known ({note})."
                )
            raise InputError(
                f"the ledger of data set {dataset!r} was here and is gone: 'dpadmm ledger restore {path}' puts a "
                f"backup back, or makes it anew of what the registry knows."
            )

    def _check_journal(self, path: Path, dataset: str, data_digest: str) -> None:
        """A ledger that was moved after a crash must bring its journal: at its old place it would undo, once the ledger
        is moved back, whatever was debited in between."""
        for _, kept, _ in self._alike(dataset, data_digest):
            for kind in ("-journal", "-wal"):
                left = Path(kept["path"] + kind)
                if kept["path"] != str(path.absolute()) and left_over(Path(kept["path"]), kind):
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
            kept = self._kept(note)
            if kept is None:
                continue
            known = data_digest  # notes of earlier versions have it as it is
            if "identity" in kept and kept["dataset"] != dataset:
                known = keyed_digest(LedgerRecord(self.folder, kept["identity"]).key(), data_digest)
            same = "name" if kept["dataset"] == dataset else "content" if kept["data"] == known else None
            if same is not None:
                yield note, kept, same

    def _kept(self, note: Path) -> dict[str, str] | None:
        """What a note says; None where there is none."""
        try:
            kept = {name: str(text) for name, text in json.loads(read_private(note)).items()}
            if not kept.keys() >= {"dataset", "data", "path"}:
                raise ValueError
        except FileNotFoundError:
            return None
        except InputError:
            raise
        except (ValueError, AttributeError):
            raise InputError(f"{str(note)!r} is not a note on a ledger; look at it, and remove it.") from None
        return kept

    def _place_of_note(self, dataset: str) -> Path:
        return self.folder.absolute() / f"{digest(dataset)[:16]}.json"

    def _note(self, path: Path, ledger: SqliteLedger) -> None:
        note, facts = self._place_of_note(ledger.dataset), ledger.meta
        kept = {"dataset": ledger.dataset, "data": facts["data"], "identity": ledger.identity,
                "relation": facts["relation"], "path": str(path.absolute())}  # fmt: skip
        if self._kept(note) != kept:
            write_private(note, json.dumps(kept))

    def check_unknown(self, data_digest: str) -> None:
        """Refuses a dry run of records that have a ledger: its noise can be computed by whoever knows the seed.

        Raises:
            InputError: They have one.
        """
        if not self.folder.exists():
            return
        self._close_to_others()
        for _, kept, _ in self._alike("", data_digest):
            raise InputError(f"these records have a ledger, at {kept['path']!r}; a dry run is for made-up records.")

    def known(self, path: Path) -> dict[str, str]:
        """The note on the ledger whose place this is.

        Raises:
            InputError: There is none.
        """
        self._close_to_others()
        for note in sorted(self.folder.glob("*.json")):
            kept = self._kept(note)
            if kept is not None and kept["path"] == str(path.absolute()) and "identity" in kept:
                return kept
        raise InputError(f"the registry in {str(self.folder)!r} knows no ledger at {str(path)!r}; name its --state.")

    def _close_to_others(self) -> None:
        """Makes the folder private, as are its files."""
        if self.folder.is_dir() and not self.folder.is_symlink() and self.folder.stat().st_uid == os.geteuid():
            self.folder.chmod(0o700)  # earlier versions left it open
        private_folder(self.folder)
