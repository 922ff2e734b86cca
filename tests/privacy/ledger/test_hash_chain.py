"""The hash chain: heads and seals, copies and old backups, and files that are no ledger."""

import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledgers import GAUSSIAN, PURE, debit, filled, join, kinds, put_back, snapshot

from dpadmm.errors import InputError, Refused
from dpadmm.privacy.events import Relation, digest
from dpadmm.privacy.ledger.hash_chain import FORGOTTEN
from dpadmm.privacy.ledger.protocol import Seal
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify


def test_heads_do_not_depend_on_the_records_by_a_public_formula(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever knows all records but one must not be able to try out the last against a release's seal.

    Two ledgers of the same records, name and second have unrelated heads: something secret is in them.
    """
    monkeypatch.setattr("dpadmm.privacy.ledger.hash_chain.now", lambda: "2026-01-01T00:00:00Z")
    monkeypatch.setattr("dpadmm.privacy.ledger.hash_chain.place_of", lambda path: "1:1")
    books = [SqliteLedger.create(tmp_path / name, "patients", "d" * 64, Relation.REPLACE) for name in ("a", "b")]
    for book in books:
        join(book, "run", {GAUSSIAN: 1})
        debit(book, "run", 1, GAUSSIAN)
    first, second = ([*book.entries()] for book in books)
    keyed = {"head": "", "data": ""}
    assert [{**entry, **keyed} for entry in first] == [{**entry, **keyed} for entry in second]
    assert first[0]["data"] != second[0]["data"]
    assert "d" * 64 not in json.dumps(first)
    assert not {entry["head"] for entry in first} & {entry["head"] for entry in second}


def test_a_private_state_is_in_no_entry_not_even_as_a_digest(ledger: SqliteLedger) -> None:
    filled(ledger)
    (arrays,) = ledger._connection.execute("SELECT arrays FROM states").fetchone()
    assert digest(arrays) not in json.dumps([*ledger.entries()])


def test_another_schema_is_refused(ledger: SqliteLedger, path: Path) -> None:
    for other in (SqliteLedger.schema + 1, SqliteLedger.schema - 1):
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (str(other),))
        connection.close()
        with pytest.raises(InputError, match=f"has schema {other}, and this program's is {SqliteLedger.schema}"):
            SqliteLedger.open(path)
    ledger.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM meta WHERE name = 'schema'")
    connection.close()
    with pytest.raises(InputError, match="unknown"):
        SqliteLedger.open(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"not a database" * 100, b"SQLite format 3\x00" + b"\x00" * 200, None, "meta"],
    ids=["empty", "text", "broken", "folder", "another database"],
)
def test_what_is_no_ledger_is_refused(path: Path, content: Any) -> None:
    if content is None:
        path.mkdir()
    elif content == "meta":
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE meta (name TEXT, value TEXT)")
            connection.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SqliteLedger.schema),))
        connection.close()
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"usable ledger|cannot be opened"):
        SqliteLedger.open(path)
    with pytest.raises(InputError, match="exists"):
        SqliteLedger.create(path, "patients", "d", Relation.REPLACE)
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_there_must_be_a_file_to_open_and_none_to_create(ledger: SqliteLedger, path: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no ledger"):
        SqliteLedger.open(path.with_name("other"))
    with pytest.raises(InputError, match="exists"):
        SqliteLedger.create(path, "patients", "d", Relation.REPLACE)
    with pytest.raises(InputError, match="cannot be"):
        SqliteLedger.create(tmp_path / "no" / "folder", "patients", "d", Relation.REPLACE)
    assert verify(ledger) == []  # the failed creation left the first one alone


def test_a_creator_who_comes_second_does_not_remove_the_first_ones_ledger(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file appears after the second has looked and before it writes."""
    first: list[SqliteLedger] = []
    original = Path.hardlink_to

    def late(self: Path, target: Path) -> None:
        if not first:
            first.append(None)  # type: ignore[arg-type]
            first[0] = SqliteLedger.create(path, "patients", "d", Relation.REPLACE)
        original(self, target)

    monkeypatch.setattr(Path, "hardlink_to", late)
    with pytest.raises(InputError, match="exists"):
        SqliteLedger.create(path, "patients", "d", Relation.REPLACE)
    join(first[0], "run", {GAUSSIAN: 1})
    assert list(SqliteLedger.open(path).runs()) == ["run"]


def test_a_copy_is_locked_until_its_owner_confirms(ledger: SqliteLedger, path: Path) -> None:
    filled(ledger)
    ledger.fold()
    copy = path.with_name("copy.ledger")
    shutil.copyfile(path, copy)
    book = SqliteLedger.open(copy)
    assert "copy" in book.locked
    entries = len(kinds(book))
    for attempt in (
        lambda: join(book, "third", {PURE: 1}),
        lambda: debit(book, "second", 2, PURE),
        lambda: book.finish("second"),
        lambda: book.refuse("no"),
    ):
        with pytest.raises(Refused, match="locked"):
            attempt()
    assert len(kinds(SqliteLedger.open(copy))) == entries  # opening it again does not lock it again
    assert book.spent() == ledger.spent()
    assert book.find("first", "1") is not None  # what was released may be read
    book.confirm()
    assert book.locked == ""
    debit(book, "second", 2, PURE)
    again = SqliteLedger.open(copy)
    assert (again.locked, verify(again)) == ("", [])
    assert not ledger.locked


def test_a_ledger_moved_on_its_disk_stays_open(ledger: SqliteLedger, path: Path) -> None:
    ledger.close()
    moved = path.rename(path.with_name("moved.ledger"))
    assert SqliteLedger.open(moved).locked == ""


def test_an_old_backup_put_back_in_place_is_recognised_by_a_seal(ledger: SqliteLedger, path: Path) -> None:
    join(ledger, "run", {GAUSSIAN: 5})
    early = debit(ledger, "run", 1, GAUSSIAN)
    backup = snapshot(ledger)
    late = debit(ledger, "run", 2, GAUSSIAN)
    inode = path.stat().st_ino
    put_back(ledger, backup, log=True)
    assert path.stat().st_ino == inode
    restored = SqliteLedger.open(path)
    assert restored.locked == ""  # file and log alone cannot know
    assert restored.spent() == {GAUSSIAN: 1}
    assert early.seal is not None
    assert late.seal is not None
    restored.check_seal(early.seal)
    assert restored.locked == ""
    with pytest.raises(Refused, match="old backup"):
        restored.check_seal(late.seal)
    assert restored.locked == FORGOTTEN
    entries = len(kinds(restored))
    with pytest.raises(Refused, match="old backup"):
        restored.check_seal(late.seal)
    assert len(kinds(restored)) == entries  # a stranger with a seal cannot make it grow
    with pytest.raises(Refused, match="locked"):
        debit(restored, "run", 2, GAUSSIAN)
    assert SqliteLedger.open(path).locked == restored.locked
    with pytest.raises(Refused, match="record-lost"):
        restored.confirm()  # it would count nothing
    with pytest.raises(Refused, match="at least one release"):
        restored.record_lost({})
    restored.record_lost({GAUSSIAN: 1})
    restored.check_seal(late.seal)  # it is shown again, and was settled
    assert restored.locked == ""
    assert restored.spent() == {GAUSSIAN: 2}
    debit(restored, "run", 2, GAUSSIAN)
    assert restored.spent() == {GAUSSIAN: 3}
    assert verify(restored) == []


def test_a_restored_ledger_that_went_on_differently_is_recognised(ledger: SqliteLedger, path: Path) -> None:
    """The number exists, the head is another."""
    join(ledger, "run", {GAUSSIAN: 5})
    backup = snapshot(ledger)
    late = debit(ledger, "run", 1, GAUSSIAN)
    put_back(ledger, backup, log=True)
    restored = SqliteLedger.open(path)
    debit(restored, "run", 1, GAUSSIAN, inputs="else")
    assert late.seal is not None
    with pytest.raises(Refused, match="old backup"):
        restored.check_seal(late.seal)
    assert restored.locked


def test_a_forged_seal_is_refused_and_locks_nothing(ledger: SqliteLedger, tmp_path: Path) -> None:
    genuine = filled(ledger)[-1].seal
    assert genuine is not None
    ledger.check_seal(genuine)
    other = SqliteLedger.create(tmp_path / "other", "patients", "d", Relation.REPLACE)
    strangers: list[Any] = [
        replace(genuine, head="0" * 64),
        replace(genuine, mark="0" * 64),
        replace(genuine, mark="ä" * 64),
        replace(genuine, mark=genuine.mark.upper()),
        replace(genuine, signature="0"),
        Seal("0" * 64, "0" * 64),
        Seal(None, None, None),  # type: ignore[arg-type]
        Seal(True, genuine.mark),  # type: ignore[arg-type]
        other.seal("0" * 64),
    ]
    for seal in strangers:
        with pytest.raises(Refused, match="not one of this ledger's"):
            ledger.check_seal(seal)
    assert ledger.locked == ""
    assert "lock" not in kinds(ledger)
