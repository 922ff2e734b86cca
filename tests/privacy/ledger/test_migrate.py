"""Ledgers that version 0.1.0 wrote: they are migrated with all they say, or locked, and never discarded."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ledgers import GAUSSIAN, amount, debit, join

from dpadmm.errors import InputError, Refused
from dpadmm.privacy import gaussian
from dpadmm.privacy.events import GaussianDpEvent, PoissonSampledDpEvent, Relation, flatten
from dpadmm.privacy.filter import Cap
from dpadmm.privacy.gdp import mu_of_pure
from dpadmm.privacy.ledger import migrate as module
from dpadmm.privacy.ledger.hash_chain import connect
from dpadmm.privacy.ledger.migrate import LOCK, _OldLedger, migrate
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify
from dpadmm.privacy.units import Unit

DUMPS = Path(__file__).parent / "ledgers_of_0_1_0"


def written_by_0_1_0(path: Path, name: str = "replace") -> Path:
    """A file that 0.1.0 wrote, at this place: its owner has confirmed it here."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((DUMPS / f"{name}.sql").read_text(encoding="utf-8"))
    with closing(connect(path)) as connection:
        _OldLedger(path, connection).confirm()
    return path


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The files here have one key: another test's log would say that they are older."""
    with pytest.MonkeyPatch.context() as patch:  # one that no test undoes
        patch.setenv("DPADMM_STATE", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def old(path: Path) -> Path:
    """Two finished runs, one open, and two releases that were lost."""
    return written_by_0_1_0(path)


def _raw(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def _content(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [*connection.iterdump()]


def test_an_old_ledger_is_refused_with_the_remedy(old: Path) -> None:
    before = old.read_bytes()
    for reading in (False, True):
        with pytest.raises(InputError, match=r"has schema 2, and this .* is 3; run 'dpadmm ledger migrate .*patients"):
            SqliteLedger.open(old, reading=reading)
    assert old.read_bytes() == before


def test_everything_is_kept_and_marked(old: Path) -> None:
    entries, before = _raw(old, "SELECT * FROM entries ORDER BY number"), _content(old)
    done = migrate(old)
    assert _content(done.backup) == before
    assert (done.backup.stat().st_mode & 0o077, done.entries, done.locked) == (0, len(entries), "")
    ledger = SqliteLedger.open(old)
    assert (verify(ledger), ledger.locked) == ([], "")
    assert _raw(old, "SELECT * FROM entries ORDER BY number")[: len(entries)] == entries
    runs = ledger.runs()
    assert set(done.runs) == set(runs)
    assert {name.split("-")[0] for name in runs} == {"first", "open", "pure", "lost"}
    for run in runs.values():
        assert (run.account.unit, run.account.claimed, run.account.whole) == (Unit(1, Relation.REPLACE), "0.1.0", None)
    (first, opened, laplace) = (next(iter(runs[name].agreed)) for name in ("first", "open", "pure"))
    assert ledger.spent() == {first: 2, opened: 1, laplace: 2, GaussianDpEvent(40.0): 2}
    squares = 2 / first.noise_multiplier**2 + 2 / 40.0**2 + 2 * mu_of_pure(1 / laplace.noise_multiplier) ** 2
    for held, left in ((False, 1), (True, 4)):
        mu = (squares + left / opened.noise_multiplier**2) ** 0.5
        assert amount(ledger, held=held) == pytest.approx(gaussian.epsilon(mu, 1e-6), rel=1e-9)
    stored = ledger.find("first", "1")
    assert stored is not None
    assert stored.seal is not None
    ledger.check_seal(stored.seal)  # it still knows what it signed


def test_a_migrated_ledger_goes_on(old: Path) -> None:
    migrate(old)
    ledger = SqliteLedger.open(old)
    ledger.finish("open")
    join(ledger, "new", {GAUSSIAN: 1})
    debit(ledger, "new", 1, GAUSSIAN)
    assert ledger.runs()["new"].account.claimed == ""
    assert verify(ledger) == []
    with pytest.raises(InputError, match=r"has schema 3, and only 2, of version 0\.1\.0, is migrated"):
        migrate(old)


def test_mini_batches_enter_as_a_whole(path: Path) -> None:
    migrate(written_by_0_1_0(path, "zero-out"))
    ledger = SqliteLedger.open(path)
    sampled, batches = ledger.runs()["sampled"], ledger.runs()["batches"]
    assert set(flatten(sampled.agreed)) == {PoissonSampledDpEvent(0.05, GaussianDpEvent(1.2))}
    assert sampled.account.whole is not None
    assert 0.0 < sampled.account.whole.delta0 <= 1e-8
    assert batches.account.whole is None
    assert verify(ledger) == []
    # What 0.1.0 said of blanked records says nothing of more of them, nor of replaced ones, at the same price.
    one, two, other = (
        Cap(4.0, 1e-6, Unit(*unit)) for unit in ((1, Relation.ZERO_OUT), (2, Relation.ZERO_OUT), (1, Relation.REPLACE))
    )
    spent = [float(cap.total(ledger.charges()).mu2) for cap in (one, two, other)]
    assert spent[1:] == pytest.approx([4 * spent[0]] * 2, rel=1e-9)


def test_what_0_1_0_said_of_replaced_records_is_not_believed_of_blank_ones(old: Path) -> None:
    migrate(old)
    ledger = SqliteLedger.open(old)
    blanked = Cap(100.0, 1e-6, Unit(1, Relation.ZERO_OUT))
    assert ledger.amount(blanked) == float("inf")
    with pytest.raises(Refused, match="would come to epsilon inf"):
        ledger.reserve("new", "t", [{GAUSSIAN: 1}], blanked, blanked.unit, {})


@pytest.mark.parametrize(
    ("tampering", "reason"),
    [
        ("UPDATE balances SET spent = spent - 1 WHERE run = 'first'", "the balances are not what the entries say"),
        ("UPDATE entries SET body = replace(body, '40.0', '400.0')", "was changed"),
        ("UPDATE balances SET event = 'x' WHERE run = 'open'", "Expecting value"),
        ("DROP TABLE balances", "no such table"),
        ("UPDATE entries SET body = 'x' WHERE number = 3", "entry 3 .* was changed"),
    ],
)
def test_a_failed_migration_locks(old: Path, tampering: str, reason: str) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(tampering)
        connection.commit()
    kept = _raw(old, "SELECT name, terms FROM runs")
    with pytest.raises(InputError, match=f"was not migrated .*{reason}.*it is locked"):
        migrate(old)
    assert _raw(old, "SELECT value FROM meta WHERE name IN ('schema', 'locked') ORDER BY name") == [(LOCK,), ("2",)]
    assert _raw(old, "SELECT name, terms FROM runs") == kept
    with pytest.raises(InputError, match="dpadmm ledger migrate"):
        SqliteLedger.open(old)


def test_a_ledger_that_cannot_be_locked_is_not_said_to_be(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*entry: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    before = old.read_bytes()
    monkeypatch.setattr(_OldLedger, "_append", full)
    with pytest.raises(InputError, match=r"disk is full.*it could not be locked, so let nobody use it, and as it was"):
        migrate(old)
    assert old.read_bytes() == before


@pytest.mark.parametrize("after", ["open", "lock_for_migration"])
def test_of_two_that_migrate_at_once_the_second_does_nothing(
    old: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    original = getattr(_OldLedger, after)

    def then_another(*arguments: Any) -> Any:
        monkeypatch.undo()
        result = original(*arguments)
        migrate(old)
        return result

    monkeypatch.setattr(_OldLedger, after, then_another)
    with pytest.raises(InputError, match=r"was migrated by another process meanwhile; nothing was changed"):
        migrate(old)
    ledger = SqliteLedger.open(old)
    assert (verify(ledger), ledger.locked) == ([], "")
    join(ledger, "new", {GAUSSIAN: 1})


def test_without_a_backup_nothing_is_changed(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError("no space left on device")

    before = old.read_bytes()
    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(InputError, match=r"no backup of .* can be written .*nothing was changed"):
        migrate(old)
    assert old.read_bytes() == before
    assert [each.name for each in old.parent.iterdir()] == [old.name]


def test_backups_do_not_replace_each_other(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "now", lambda: "2026-01-01T00:00:00Z")
    before, content = old.read_bytes(), _content(old)
    backups = []
    for _ in range(3):
        old.write_bytes(before)
        backups.append(migrate(old).backup)
    assert len(set(backups)) == 3
    assert all(_content(backup) == content for backup in backups)


def test_a_copy_is_migrated_and_stays_locked(old: Path) -> None:
    copy = old.with_name("copy.ledger")
    shutil.copyfile(old, copy)
    assert "copy" in migrate(copy).locked
    ledger = SqliteLedger.open(copy)
    assert "copy" in ledger.locked
    assert verify(ledger) == []
    ledger.confirm()
    join(ledger, "new", {GAUSSIAN: 1})


@pytest.mark.parametrize("last", ["lock_for_migration", "_append", "verify"])
def test_a_kill_in_the_middle_leaves_a_locked_ledger_that_can_be_migrated(old: Path, last: str) -> None:
    """Killed after the lock, after the entry and after all changes, but before the transaction's end."""
    before = _raw(old, "SELECT * FROM entries ORDER BY number")
    where = "module" if last == "verify" else "module._OldLedger"
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom dpadmm.privacy.ledger import migrate as module\n"
        f"original, calls = {where}.{last}, []\n"
        "def killed(*arguments):\n"
        "    result = original(*arguments)\n"
        "    calls.append(result)\n"
        f"    if len(calls) == {2 if last == '_append' else 1}:\n"  # the first entry is the lock
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return result\n"
        f"{where}.{last} = killed\n"
        "module.migrate(Path(sys.argv[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(old)], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    assert _raw(old, "SELECT value FROM meta WHERE name IN ('schema', 'locked') ORDER BY name") == [(LOCK,), ("2",)]
    assert _raw(old, "SELECT * FROM entries ORDER BY number")[: len(before)] == before
    with pytest.raises(InputError, match="dpadmm ledger migrate"):
        SqliteLedger.open(old)
    done_again = migrate(old)
    assert (done_again.entries, done_again.locked) == (len(before) + 1, "")  # the lock is an entry, too
    ledger = SqliteLedger.open(old)
    assert verify(ledger) == []
    join(ledger, "new", {GAUSSIAN: 1})
