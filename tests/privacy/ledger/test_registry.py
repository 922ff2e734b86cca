"""One ledger per data set: a second one, by name or by content, is noticed."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier

import pytest
from ledgers import GAUSSIAN, join

from dpadmm.errors import InputError
from dpadmm.privacy.events import Relation
from dpadmm.privacy.ledger.record import default_folder
from dpadmm.privacy.ledger.registry import LedgerRegistry
from dpadmm.privacy.ledger.sqlite import SqliteLedger

RECORDS, OTHERS = "a" * 64, "b" * 64


@pytest.fixture
def registry(tmp_path: Path) -> LedgerRegistry:
    return LedgerRegistry(tmp_path / "shelf" / "ledgers")


def test_a_ledger_is_made_once_and_then_opened(registry: LedgerRegistry, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "folder" / "patients.ledger"
    made = registry.ledger(path, "patients", RECORDS, Relation.REPLACE)
    again = registry.ledger(path, "patients", RECORDS, Relation.REPLACE)
    assert made.meta == again.meta
    assert len(list(registry.folder.glob("*.json"))) == 1
    registry.ledger(tmp_path / "other.ledger", "visits", OTHERS, Relation.REPLACE)
    assert len(list(registry.folder.glob("*.json"))) == 2


@pytest.mark.parametrize(
    ("dataset", "records", "same"), [("patients", OTHERS, "same name"), ("renamed", RECORDS, "same content")]
)
def test_a_second_ledger_is_noticed(
    registry: LedgerRegistry, tmp_path: Path, dataset: str, records: str, same: str
) -> None:
    first = tmp_path / "first.ledger"
    registry.ledger(first, "patients", RECORDS, Relation.REPLACE)
    second = tmp_path / "second.ledger"
    with pytest.raises(InputError, match=same) as caught:
        registry.ledger(second, dataset, records, Relation.REPLACE)
    assert str(first) in str(caught.value)
    assert not second.exists()
    # Also one that was made elsewhere, past this shelf.
    SqliteLedger.create(second, dataset, records, Relation.REPLACE, registry.folder).close()
    with pytest.raises(InputError, match=same):
        registry.ledger(second, dataset, records, Relation.REPLACE)


def test_a_ledger_that_is_gone_is_not_silently_replaced(registry: LedgerRegistry, tmp_path: Path) -> None:
    path = tmp_path / "patients.ledger"
    registry.ledger(path, "patients", RECORDS, Relation.REPLACE).close()
    backup = tmp_path / "backup"
    path.rename(backup)
    with pytest.raises(InputError, match=r"was here and is gone.*dpadmm ledger restore"):
        registry.ledger(path, "patients", RECORDS, Relation.REPLACE)
    assert not path.exists()
    with pytest.raises(InputError, match="same name"):
        registry.ledger(tmp_path / "fresh.ledger", "patients", RECORDS, Relation.REPLACE)
    shutil.copyfile(backup, path)
    assert "copy" in registry.ledger(path, "patients", RECORDS, Relation.REPLACE).locked


def test_a_moved_ledger_is_the_same_one(registry: LedgerRegistry, tmp_path: Path) -> None:
    path, moved = tmp_path / "patients.ledger", tmp_path / "moved.ledger"
    registry.ledger(path, "patients", RECORDS, Relation.REPLACE).close()
    path.rename(moved)
    assert registry.ledger(moved, "patients", RECORDS, Relation.REPLACE).locked == ""
    with pytest.raises(InputError, match=str(moved)):  # the shelf has learnt where it is now
        registry.ledger(path, "patients", RECORDS, Relation.REPLACE)


def test_a_ledger_the_shelf_did_not_know_is_noted(registry: LedgerRegistry, tmp_path: Path) -> None:
    """A crash between making a ledger and noting it is mended by the next opening."""
    path = tmp_path / "patients.ledger"
    SqliteLedger.create(path, "patients", RECORDS, Relation.REPLACE, registry.folder).close()
    registry.ledger(path, "patients", RECORDS, Relation.REPLACE)
    with pytest.raises(InputError, match="same name"):
        registry.ledger(tmp_path / "second.ledger", "patients", RECORDS, Relation.REPLACE)


@pytest.mark.parametrize(
    ("dataset", "records", "what"),
    [("visits", RECORDS, "data set 'patients', not 'visits'"), ("patients", OTHERS, "records")],
)
def test_a_ledger_for_something_else_is_refused(
    registry: LedgerRegistry, tmp_path: Path, dataset: str, records: str, what: str
) -> None:
    path = tmp_path / "patients.ledger"
    join(registry.ledger(path, "patients", RECORDS, Relation.REPLACE), "run", {GAUSSIAN: 1})
    with pytest.raises(InputError, match=what):
        registry.ledger(path, dataset, records, Relation.REPLACE)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"dataset": 1}'])
def test_a_broken_note_is_named(registry: LedgerRegistry, tmp_path: Path, text: str) -> None:
    registry.folder.mkdir(parents=True)
    (registry.folder / "broken.json").write_text(text)
    with pytest.raises(InputError, match=r"broken\.json"):
        registry.ledger(tmp_path / "patients.ledger", "patients", RECORDS, Relation.REPLACE)


def test_the_shelf_is_in_the_accounts_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DPADMM_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "dpadmm" / "ledgers"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".local" / "state" / "dpadmm" / "ledgers"
    monkeypatch.setenv("DPADMM_STATE", str(tmp_path / "mine"))
    assert default_folder() == tmp_path / "mine" / "ledgers"


def test_notes_are_closed_to_other_users_who_could_check_guesses_of_records_against_them(tmp_path: Path) -> None:
    registry = LedgerRegistry(tmp_path / "open")
    registry.folder.mkdir(mode=0o755)  # as version 0.1.0 left it
    before = os.umask(0o022)
    try:
        registry.ledger(tmp_path / "patients.ledger", "patients", RECORDS, Relation.REPLACE).close()
    finally:
        os.umask(before)
    (note,) = registry.folder.glob("*.json")
    assert (note.stat().st_mode & 0o777, registry.folder.stat().st_mode & 0o777) == (0o600, 0o700)


def test_of_those_who_begin_at_once_one_gets_a_ledger(registry: LedgerRegistry, tmp_path: Path) -> None:
    """Without a lock all of them found that there was none yet, and each had the whole budget."""
    begin = Barrier(8)

    def one(number: int) -> bool:
        begin.wait()
        with suppress(InputError):
            registry.ledger(tmp_path / f"{number}.ledger", "patients", RECORDS, Relation.REPLACE).close()
            return True
        return False

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(one, range(8))) == 1
    assert len(list(tmp_path.glob("*.ledger"))) == 1


def test_a_registry_that_another_process_holds_is_waited_for_and_then_named(
    registry: LedgerRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpadmm.privacy.ledger.registry._TIMEOUT", 0.05)
    with registry._alone(), pytest.raises(InputError, match="another process has been using the registry"):
        registry.ledger(tmp_path / "patients.ledger", "patients", RECORDS, Relation.REPLACE)
    assert not (tmp_path / "patients.ledger").exists()


def test_a_ledger_that_was_moved_without_its_journal_is_refused(registry: LedgerRegistry, tmp_path: Path) -> None:
    """After a crash the journal undoes what was debited elsewhere, once the ledger is moved back: 40 of 45 rounds."""
    path, moved = tmp_path / "patients.ledger", tmp_path / "moved.ledger"
    registry.ledger(path, "patients", RECORDS, Relation.REPLACE).close()
    journal = path.with_name("patients.ledger-journal")
    journal.write_bytes(b"what a crash left")
    path.rename(moved)
    with pytest.raises(InputError, match=r"was moved without '.*patients\.ledger-journal'"):
        registry.ledger(moved, "patients", RECORDS, Relation.REPLACE)
    journal.unlink()
    registry.ledger(moved, "patients", RECORDS, Relation.REPLACE).close()


def test_a_ledger_of_two_names_is_refused(registry: LedgerRegistry, tmp_path: Path) -> None:
    path, other = tmp_path / "patients.ledger", tmp_path / "other.ledger"
    registry.ledger(path, "patients", RECORDS, Relation.REPLACE).close()
    other.hardlink_to(path)
    for name in (path, other):
        with pytest.raises(InputError, match="another name on this disk"):
            registry.ledger(name, "patients", RECORDS, Relation.REPLACE)
    other.unlink()
    registry.ledger(path, "patients", RECORDS, Relation.REPLACE).close()


def test_a_ledger_that_others_may_read_is_closed_to_them(registry: LedgerRegistry, tmp_path: Path) -> None:
    path = tmp_path / "patients.ledger"
    registry.ledger(path, "patients", RECORDS, Relation.REPLACE).close()
    path.chmod(0o644)
    registry.ledger(path, "patients", RECORDS, Relation.REPLACE).close()
    assert path.stat().st_mode & 0o777 == 0o600
