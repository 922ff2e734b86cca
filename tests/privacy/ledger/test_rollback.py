"""An older copy in the ledger's place, with and without the state's log: what is noticed, counted, and how it ends."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from ledgers import GAUSSIAN, debit, filled, join, kinds, put_back, snapshot
from other_user import as_nobody, needs_root, reachable_folder

from dpadmm.errors import InputError, Refused
from dpadmm.privacy.events import PoissonSampledDpEvent, Relation
from dpadmm.privacy.filter import Cap
from dpadmm.privacy.ledger.hash_chain import COPY, GONE, OLDER, keyed_digest
from dpadmm.privacy.ledger.record import BLOCK, LedgerRecord, Line
from dpadmm.privacy.ledger.registry import LedgerRegistry
from dpadmm.privacy.ledger.restore import restore
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify
from dpadmm.privacy.units import Unit

RECORDS = "a" * 64


@pytest.fixture
def registry(tmp_path: Path) -> LedgerRegistry:
    return LedgerRegistry(tmp_path / "state" / "ledgers")


def opened(registry: LedgerRegistry, path: Path) -> SqliteLedger:
    return registry.ledger(path, "patients", RECORDS, Relation.REPLACE)


def released(ledger: SqliteLedger) -> int:
    return sum(ledger.spent().values())


@pytest.mark.parametrize("how", ["copied over", "deleted, then copied"])
def test_a_backup_put_back_locks_and_restore_counts_what_it_forgot(
    registry: LedgerRegistry, path: Path, how: str
) -> None:
    """`ledger_tests.py`: a copy over the file went unnoticed; after delete-then-copy `confirm` went on with less."""
    ledger = opened(registry, path)
    backup = snapshot(ledger)
    join(ledger, "one", {GAUSSIAN: 5})
    for step in range(1, 6):
        debit(ledger, "one", step, GAUSSIAN)
    ledger.close()
    if how == "deleted, then copied":
        path.unlink()
    path.write_bytes(backup.file)
    path.chmod(0o600)
    older = opened(registry, path)
    assert older.locked in (OLDER, COPY)
    assert released(older) == 0
    with pytest.raises(Refused, match="locked"):
        join(older, "two", {GAUSSIAN: 5})
    older.close()
    assert restore(path, registry).counted == {"one": {GAUSSIAN: 5}}
    again = opened(registry, path)
    assert (again.locked, released(again), verify(again)) == ("", 5, [])
    assert again.spent() == {GAUSSIAN: 5}


def test_confirm_cannot_lower_a_total_however_often_the_backup_is_put_back(path: Path) -> None:
    """`ledger_tests.py`: seven runs of epsilon 1 under a policy of 1.9, by a backup and `confirm` between them."""
    ledger = SqliteLedger.create(path, "patients", RECORDS, Relation.REPLACE)
    backup = snapshot(ledger)
    for turn in range(1, 8):
        join(ledger, f"run {turn}", {GAUSSIAN: 2})
        debit(ledger, f"run {turn}", 1, GAUSSIAN)
        debit(ledger, f"run {turn}", 2, GAUSSIAN)
        put_back(ledger, backup)
        ledger = SqliteLedger.open(path)
        assert ledger.locked == OLDER
        ledger.confirm()
        assert released(ledger) == 2 * turn
    assert verify(ledger) == []


def test_one_release_that_is_rolled_back_again_and_again_is_counted_each_time(path: Path) -> None:
    """The same step, with fresh noise each time: what was rolled back is the last entry alone."""
    ledger = SqliteLedger.create(path, "patients", RECORDS, Relation.REPLACE)
    join(ledger, "run", {GAUSSIAN: 3})
    backup = snapshot(ledger)
    values = []
    for turn in range(1, 5):
        values.append(debit(ledger, "run", 1, GAUSSIAN, inputs=f"try {turn}").value)
        put_back(ledger, backup)
        ledger = SqliteLedger.open(path)
        with pytest.raises(Refused, match="'dpadmm ledger restore'"):
            debit(ledger, "run", 1, GAUSSIAN)
        ledger.confirm()
        assert released(ledger) == turn


def test_a_rollback_is_noticed_while_the_ledger_is_open(path: Path) -> None:
    ledger = SqliteLedger.create(path, "patients", RECORDS, Relation.REPLACE)
    join(ledger, "run", {GAUSSIAN: 3})
    debit(ledger, "run", 1, GAUSSIAN)
    twin = SqliteLedger.open(path)
    backup = snapshot(ledger)
    debit(twin, "run", 2, GAUSSIAN)
    twin.fold()
    put_back(twin, backup)
    with pytest.raises(Refused, match="locked"):
        debit(ledger, "run", 2, GAUSSIAN)


def test_two_copies_in_use_at_once_are_told_apart(path: Path) -> None:
    """`fork.py`: whichever writes second finds that it does not hold the log's last entry."""
    ledger = SqliteLedger.create(path, "patients", RECORDS, Relation.REPLACE)
    join(ledger, "run", {GAUSSIAN: 3})
    ledger.fold()
    copy = path.with_name("copy")
    shutil.copyfile(path, copy)
    copy.chmod(0o600)
    twin = SqliteLedger.open(copy)
    assert twin.locked == COPY
    twin.confirm()
    debit(twin, "run", 1, GAUSSIAN)
    with pytest.raises(Refused, match="older"):
        debit(ledger, "run", 1, GAUSSIAN)
    assert ledger.find("run", "1") is None


def test_another_ledger_in_its_place_is_refused(registry: LedgerRegistry, path: Path) -> None:
    """`fork.py`: a fresh file for records that have a ledger."""
    with closing(opened(registry, path)) as first:
        filled(first)
    path.rename(path.with_name("aside"))
    SqliteLedger.create(path, "patients", RECORDS, Relation.REPLACE, registry.folder).close()
    with pytest.raises(InputError, match=r"not the ledger of data set 'patients' that this account knows"):
        opened(registry, path)


@pytest.mark.parametrize("with_backup", [True, False])
def test_a_ledger_that_is_gone_is_restored_with_all_that_is_known(
    registry: LedgerRegistry, path: Path, with_backup: bool
) -> None:
    ledger = opened(registry, path)
    join(ledger, "run", {GAUSSIAN: 3})
    debit(ledger, "run", 1, GAUSSIAN)
    ledger.fold()
    backup = path.with_name("backup")
    shutil.copyfile(path, backup)
    debit(ledger, "run", 2, GAUSSIAN)
    ledger.close()
    path.unlink()
    with pytest.raises(InputError, match="dpadmm ledger restore"):
        opened(registry, path)
    done = restore(path, registry, backup if with_backup else None)
    assert (done.anew, done.counted) == (not with_backup, {"run": {GAUSSIAN: 1 if with_backup else 2}})
    again = opened(registry, path)
    assert (again.locked, released(again), verify(again)) == ("", 2, [])
    join(again, "next", {GAUSSIAN: 1})


def test_a_backup_that_is_put_back_moves_the_file_aside(registry: LedgerRegistry, path: Path) -> None:
    ledger = opened(registry, path)
    ledger.fold()
    shutil.copyfile(path, path.with_name("backup"))
    join(ledger, "run", {GAUSSIAN: 3})
    debit(ledger, "run", 1, GAUSSIAN)
    ledger.close()
    done = restore(path, registry, path.with_name("backup"))
    assert done.aside is not None
    assert done.aside.exists()
    assert released(opened(registry, path)) == 1
    SqliteLedger.create(path.with_name("other"), "visits", RECORDS, Relation.REPLACE, registry.folder).close()
    with pytest.raises(InputError, match="a backup of another ledger"):
        restore(path, registry, path.with_name("other"))


@needs_root
@pytest.mark.parametrize("rights", [0o1777, 0o777])
def test_another_user_cannot_put_its_own_journal_beside_a_ledger(rights: int) -> None:
    """SQLite writes what was released, and the solver's state, to a journal that lies there already."""
    with reachable_folder() as folder:
        shared, journal = folder / "shared", folder / "shared" / "patients.ledger-wal"
        shared.mkdir()
        shared.chmod(rights)
        as_nobody(lambda: (os.umask(0), journal.touch(0o666)))
        assert journal.stat().st_uid != os.geteuid()
        with pytest.raises(InputError, match="others can put files beside the ledger"):
            opened(LedgerRegistry(folder / "registry"), shared / "patients.ledger")
        assert journal.stat().st_size == 0


def test_ledger_in_a_folder_that_others_can_write_to_is_opened_for_reading_only(
    registry: LedgerRegistry, path: Path
) -> None:
    home = path.parent / "shared"
    home.mkdir()
    opened(registry, home / "patients.ledger").close()
    home.chmod(0o1777)
    with pytest.raises(InputError, match="move it to a folder that only you can write to"):
        opened(registry, home / "patients.ledger")
    SqliteLedger.open(home / "patients.ledger", reading=True, folder=registry.folder).close()


@pytest.mark.parametrize(
    "change",
    ["UPDATE balances SET spent = 0", "DELETE FROM runs", "UPDATE entries SET body = '{' WHERE number = 3"],
)
def test_a_backup_that_somebody_changed_is_not_put_back(registry: LedgerRegistry, path: Path, change: str) -> None:
    """Its entries have all that the log has; what counts are tables, which said that nothing was spent."""
    ledger, backup = opened(registry, path), path.with_name("backup")
    join(ledger, "run", {GAUSSIAN: 3})
    debit(ledger, "run", 1, GAUSSIAN)
    ledger.close()
    shutil.copyfile(path, backup)
    with closing(sqlite3.connect(backup)) as connection, connection:
        connection.execute(change)
    with pytest.raises(InputError, match="was changed since the ledger wrote it"):
        restore(path, registry, backup)
    again = opened(registry, path)
    assert (again.locked, released(again), verify(again)) == ("", 1, [])


def test_a_lost_run_that_entered_as_a_whole_is_charged_as_a_whole(path: Path) -> None:
    cap, event = Cap(3.0, 1e-5, Unit(1, Relation.ZERO_OUT)), PoissonSampledDpEvent(0.01, GAUSSIAN)
    ledger = SqliteLedger.create(path, "patients", RECORDS, Relation.ZERO_OUT)
    backup = snapshot(ledger)
    join(ledger, "first", {GAUSSIAN: 1}, cap=cap)
    join(ledger, "sampled", {event: 200}, cap=cap)
    debit(ledger, "sampled", 1, event, cap=cap)
    before = cap.total(ledger.charges())
    put_back(ledger, backup)
    older = SqliteLedger.open(path)
    older.confirm()
    assert cap.total(older.charges()) == before


def test_a_crash_between_file_and_log_is_completed_and_locks_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry is on disk and its line is not: the release has not left, and is counted when it does."""
    ledger = SqliteLedger.create(path, "patients", RECORDS, Relation.REPLACE)
    join(ledger, "run", {GAUSSIAN: 3})
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(28, "no space left on device")))
        with pytest.raises(Refused, match="no space left"):
            debit(ledger, "run", 1, GAUSSIAN)
        assert released(ledger) == 1
        with pytest.raises(Refused, match="no space left"):
            ledger.find("run", "1")  # not even by asking again
    ledger.close()
    again = SqliteLedger.open(path)
    assert (again.locked, released(again), verify(again)) == ("", 1, [])
    assert again.find("run", "1") is not None
    with again.record.held() as log:
        assert log is not None
        assert log.last is not None
        assert (log.last.number, log.last.kind) == (3, "debit")


@pytest.mark.parametrize("cut", [1, 17, 60])
def test_a_torn_line_counts_as_not_written(path: Path, cut: int) -> None:
    ledger = SqliteLedger.create(path, "patients", RECORDS, Relation.REPLACE)
    join(ledger, "run", {GAUSSIAN: 3})
    debit(ledger, "run", 1, GAUSSIAN)
    ledger.close()
    data = bytearray(ledger.record._log.read_bytes())
    end = len(bytes(data).rstrip(b"\0"))
    data[end - cut : end] = bytes(cut)
    ledger.record._log.write_bytes(data)
    again = SqliteLedger.open(path)
    assert (again.locked, released(again)) == ("", 1)
    with again.record.held() as log:
        assert log is not None
        assert [line.kind for line in log.lines()] == ["create", "reserve", "debit"]


def test_a_log_of_many_blocks_is_read_from_its_end(tmp_path: Path) -> None:
    key, lines = b"k" * 32, [Line(n, f"{n:064x}", "debit", "run", {"event": "e" * 200}) for n in range(1, 2001)]
    record = LedgerRecord(tmp_path / "ledgers", "f" * 64)
    record.begin(key, lines[:1])
    with record.held() as log:
        assert log is not None
        log.append(lines[1:])
    assert record._log.stat().st_size > 5 * BLOCK
    for fresh in (record, LedgerRecord(tmp_path / "ledgers", "f" * 64)):
        with fresh.held() as log:
            assert log is not None
            assert log.last == lines[-1]
            assert log.lines() == lines


def test_a_log_that_is_gone_locks(path: Path) -> None:
    ledger = SqliteLedger.create(path, "patients", RECORDS, Relation.REPLACE)
    filled(ledger)
    ledger.close()
    ledger.record._log.unlink()
    again = SqliteLedger.open(path)
    assert again.locked == GONE
    again.confirm()
    assert SqliteLedger.open(path).locked == ""
    assert released(again) == 3


def test_key_and_records_are_not_in_the_file(registry: LedgerRegistry, path: Path) -> None:
    """`poisonledger.py`: the note named the records by a plain digest, against which a guess could be checked."""
    ledger = opened(registry, path)
    filled(ledger)
    key = ledger.record.key()
    ledger.close()
    (note,) = registry.folder.glob("*.json")
    for text in (path.read_bytes(), note.read_bytes()):
        assert RECORDS.encode() not in text
        assert key.hex().encode() not in text
        assert key not in text
    assert json.loads(note.read_text())["data"] == keyed_digest(key, RECORDS)


@needs_root
def test_other_users_read_nothing_of_a_ledger() -> None:
    """`ledger_tests.py` and `poisonledger.py`: files were 0644, and the chain's key and the state could be read."""
    with reachable_folder() as home:
        registry, path = LedgerRegistry(home / "state" / "ledgers"), home / "patients.ledger"
        filled(opened(registry, path))
        files = [path, *registry.folder.glob("*")]
        assert len(files) >= 4
        for file in files:
            assert as_nobody(file.read_bytes) == "PermissionError"
            assert file.stat().st_mode & 0o777 == 0o600
        assert registry.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("which", ["key", "log"])
def test_rights_of_key_and_log_are_checked_at_every_opening(path: Path, which: str) -> None:
    ledger = SqliteLedger.create(path, "patients", RECORDS, Relation.REPLACE)
    ledger.close()
    (ledger.record._key if which == "key" else ledger.record._log).chmod(0o644)
    with pytest.raises(InputError, match="others have rights"):
        join(SqliteLedger.open(path), "run", {GAUSSIAN: 1})


def test_a_ledger_that_an_early_version_made_gives_its_key_to_the_state(path: Path) -> None:
    """Its key was in the file; its entries are kept, and its log begins with all of them."""
    ledger = SqliteLedger.create(path, "patients", RECORDS, Relation.REPLACE)
    filled(ledger)
    key = ledger.record.key()
    ledger.close()
    ledger.record.remove()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("DELETE FROM meta WHERE name = 'identity'")
        connection.execute("INSERT INTO meta VALUES ('key', ?)", (key.hex(),))
        connection.commit()
    assert verify(SqliteLedger.open(path, reading=True)) == []
    again = SqliteLedger.open(path)
    assert (again.locked, verify(again), len(kinds(again))) == ("", [], 7)
    assert "key" not in SqliteLedger.open(path).meta
    again.close()
    assert key.hex().encode() not in path.read_bytes()
    with again.record.held() as log:
        assert log is not None
        assert len(log.lines()) == 7


def test_a_whole_machine_put_back_is_noticed_by_a_seal_alone(path: Path) -> None:
    """State and ledger from one snapshot agree with each other; only what others keep says otherwise."""
    ledger = SqliteLedger.create(path, "patients", RECORDS, Relation.REPLACE)
    join(ledger, "run", {GAUSSIAN: 3})
    backup = snapshot(ledger)
    seal = debit(ledger, "run", 1, GAUSSIAN).seal
    assert seal is not None
    put_back(ledger, backup, log=True)
    again = SqliteLedger.open(path)
    debit(again, "run", 1, GAUSSIAN, inputs="else")  # nothing here knows
    with pytest.raises(Refused, match="old backup"):
        again.check_seal(seal)
    with pytest.raises(Refused, match="locked"):
        debit(again, "run", 2, GAUSSIAN)
