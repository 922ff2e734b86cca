"""The ledger on disk: reservations, debits, totals; tampering, copies, backups, full disks."""

import inspect
import json
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpadmm.errors import InputError, Refused
from dpadmm.privacy.accounting import best
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import DpEvent, GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent, PureDpEvent
from dpadmm.privacy.ledger.protocol import Seal, Step, Stored
from dpadmm.privacy.ledger.sqlite import REASONS, SqliteLedger
from dpadmm.privacy.ledger.verify import verify
from dpadmm.privacy.relations import Relation
from dpadmm.privacy.serialization import digest

BUDGET = Budget(3.0, 1e-6)
GAUSSIAN, PURE, LAPLACE = GaussianDpEvent(20.0), PureDpEvent(0.01), LaplaceDpEvent(50.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "patients.ledger"


@pytest.fixture
def ledger(path: Path) -> SqliteLedger:
    return SqliteLedger.create(path, "patients", "d" * 64, Relation.REPLACE)


def join(ledger: SqliteLedger, run: str, tally: dict[DpEvent, int], hold: bool = True, budget: Budget = BUDGET) -> None:
    ledger.reserve(run, f"terms of {run}", [tally], budget, {"rounds": 3}, hold)


def debit(
    ledger: SqliteLedger,
    run: str,
    step: object,
    event: DpEvent,
    budget: Budget = BUDGET,
    inputs: str = "in",
    size: int = 3,
) -> Stored:
    value = np.random.default_rng(len(str(step))).normal(size=(1, size))
    state = {"dual": value + 1, "round": np.array(1)}
    return ledger.commit(Step(run, str(step), inputs, (event,), value, state, ledger.position(run)), budget)


def kinds(ledger: SqliteLedger) -> list[str]:
    return [entry["kind"] for entry in ledger.entries()]


def filled(ledger: SqliteLedger) -> list[Stored]:
    """Two runs, one finished; six entries and three releases."""
    join(ledger, "first", {GAUSSIAN: 3})
    releases = [debit(ledger, "first", 1, GAUSSIAN), debit(ledger, "first", 2, GAUSSIAN)]
    ledger.finish("first")
    join(ledger, "second", {PURE: 2})
    return [*releases, debit(ledger, "second", 1, PURE)]


# -- the budget --------------------------------------------------------------------------------------------------------


def test_reserving_debiting_finishing_and_giving_back(ledger: SqliteLedger) -> None:
    join(ledger, "run", {GAUSSIAN: 3, PURE: 1})
    assert (ledger.spent(), ledger.committed()) == ({}, {GAUSSIAN: 3, PURE: 1})
    debit(ledger, "run", 1, GAUSSIAN)
    debit(ledger, "run", 2, PURE)
    run = ledger.runs()["run"]
    assert run.held == {GAUSSIAN: 2}
    assert ledger.spent() == {GAUSSIAN: 1, PURE: 1}
    assert ledger.committed() == {GAUSSIAN: 3, PURE: 1}
    ledger.finish("run")
    assert ledger.committed() == ledger.spent() == {GAUSSIAN: 1, PURE: 1}
    assert ledger.state("run") is None
    assert kinds(ledger) == ["create", "reserve", "debit", "debit", "finish"]
    assert [*ledger.entries()][-1]["given_back"] == [[{"kind": "GaussianDpEvent", "noise_multiplier": 20.0}, 2]]
    ledger.finish("run")
    assert len(kinds(ledger)) == 5  # finishing again is no news
    with pytest.raises(Refused, match="finished"):
        join(ledger, "run", {GAUSSIAN: 3, PURE: 1})
    with pytest.raises(Refused, match="nothing is left"):
        debit(ledger, "run", 3, GAUSSIAN)
    with pytest.raises(Refused, match="not in this ledger"):
        ledger.finish("another")
    assert verify(ledger) == []


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_the_total_over_three_runs_is_the_accountants(ledger: SqliteLedger, delta: float) -> None:
    runs: dict[str, dict[DpEvent, int]] = {
        "gaussian": {GAUSSIAN: 20},
        "pure": {PURE: 5},
        "mixed": {GaussianDpEvent(31.0): 3, LAPLACE: 1, GAUSSIAN: 2},
    }
    total: Counter[DpEvent] = Counter()
    for name, tally in runs.items():
        join(ledger, name, tally)
        total.update(tally)
        assert ledger.guarantee(delta, held=True) == best(total, delta, Relation.REPLACE)
    so_far: Counter[DpEvent] = Counter()
    for name, tally in runs.items():
        for event, count in tally.items():
            for number in range(count):
                debit(ledger, name, f"{event}{number}", event)
                so_far[event] += 1
                assert ledger.spent() == so_far
        assert ledger.guarantee(delta) == best(so_far, delta, Relation.REPLACE)
    assert ledger.guarantee(delta) == best(total, delta, Relation.REPLACE)
    assert ledger.guarantee(delta).accountant in ("pure+gaussian", "zcdp")
    # Composing each run alone and adding the epsilons would be more.
    assert ledger.guarantee(delta).epsilon < sum(best(t, delta, Relation.REPLACE).epsilon for t in runs.values())
    assert verify(ledger) == []


def test_a_run_that_does_not_fit_is_refused_at_the_start(ledger: SqliteLedger) -> None:
    most = next(n for n in range(1, 10_000) if best({GAUSSIAN: n + 1}, 1e-6, Relation.REPLACE).epsilon > 3.0)
    with pytest.raises(Refused, match=r"epsilon 3\.\d+ at delta 1e-06; its owner allows 3"):
        join(ledger, "long", {GAUSSIAN: most + 1})
    assert (ledger.runs(), kinds(ledger)) == ({}, ["create"])
    join(ledger, "fits", {GAUSSIAN: most})
    with pytest.raises(Refused, match="would come to"):
        join(ledger, "more", {GAUSSIAN: 1})
    ledger.finish("fits")
    join(ledger, "more", {GAUSSIAN: most})
    with pytest.raises(Refused, match="epsilon inf"):
        join(ledger, "bare", {GaussianDpEvent(0.0): 1})


def test_joining_again_is_no_news_and_other_terms_are_refused(ledger: SqliteLedger) -> None:
    join(ledger, "run", {GAUSSIAN: 2})
    join(ledger, "run", {GAUSSIAN: 2})
    assert kinds(ledger) == ["create", "reserve"]
    with pytest.raises(Refused, match="other terms"):
        ledger.reserve("run", "other", [{GAUSSIAN: 2}], BUDGET, {}, True)


def test_more_than_was_agreed_is_refused(ledger: SqliteLedger) -> None:
    join(ledger, "run", {GAUSSIAN: 1})
    debit(ledger, "run", 1, GAUSSIAN)
    for event in (GAUSSIAN, PURE, GaussianDpEvent(1e9)):
        with pytest.raises(Refused, match="nothing is left"):
            debit(ledger, "run", 2, event)
    with pytest.raises(Refused, match="nothing is left"):
        debit(ledger, "never joined", 1, GAUSSIAN)
    assert ledger.spent() == {GAUSSIAN: 1}
    assert kinds(ledger) == ["create", "reserve", "debit"]


def test_without_a_hold_others_may_take_the_room(ledger: SqliteLedger) -> None:
    most = next(n for n in range(1, 10_000) if best({GAUSSIAN: n + 1}, 1e-6, Relation.REPLACE).epsilon > 3.0)
    join(ledger, "loose", {GAUSSIAN: most}, hold=False)
    assert ledger.committed() == {}
    debit(ledger, "loose", 1, GAUSSIAN)
    join(ledger, "other", {GAUSSIAN: most - 1}, hold=False)
    for number in range(most - 1):
        debit(ledger, "other", number, GAUSSIAN)
    with pytest.raises(Refused, match="would come to"):
        debit(ledger, "loose", 2, GAUSSIAN)
    assert ledger.spent() == {GAUSSIAN: most}
    assert verify(ledger) == []


def test_a_run_without_a_hold_cannot_eat_what_is_held_for_another(ledger: SqliteLedger) -> None:
    most = next(n for n in range(1, 10_000) if best({GAUSSIAN: n + 1}, 1e-6, Relation.REPLACE).epsilon > 3.0)
    join(ledger, "loose", {GAUSSIAN: 5}, hold=False)
    join(ledger, "firm", {GAUSSIAN: most - 1}, hold=True)
    debit(ledger, "loose", 1, GAUSSIAN)
    with pytest.raises(Refused, match="would come to"):
        debit(ledger, "loose", 2, GAUSSIAN)
    for number in range(most - 1):
        debit(ledger, "firm", number, GAUSSIAN)
    assert ledger.spent() == {GAUSSIAN: most}


def test_a_stricter_budget_binds_at_once(ledger: SqliteLedger) -> None:
    join(ledger, "run", {GAUSSIAN: 10})
    debit(ledger, "run", 1, GAUSSIAN)
    spent = ledger.guarantee(1e-6).epsilon
    with pytest.raises(Refused, match="would come to"):
        debit(ledger, "run", 2, GAUSSIAN, budget=Budget(spent, 1e-6))
    assert ledger.spent() == {GAUSSIAN: 1}
    debit(ledger, "run", 2, GAUSSIAN)


def test_a_subsampled_release_is_kept_and_counted(path: Path) -> None:
    ledger = SqliteLedger.create(path, "patients", "d" * 64, Relation.ZERO_OUT)
    event = PoissonSampledDpEvent(0.01, GaussianDpEvent(1.5))
    join(ledger, "run", {event: 2})
    debit(ledger, "run", 1, event)
    assert SqliteLedger.open(path).spent() == {event: 1}
    assert verify(SqliteLedger.open(path)) == []


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_reopening_gives_the_same(ledger: SqliteLedger, path: Path) -> None:
    filled(ledger)
    ledger.refuse("no")
    before = (
        ledger.runs(),
        ledger.spent(),
        [*ledger.entries()],
        ledger.refusals(),
        ledger.meta,
        ledger.position("second"),
    )
    ledger.close()
    again = SqliteLedger.open(path)
    after = (again.runs(), again.spent(), [*again.entries()], again.refusals(), again.meta, again.position("second"))
    assert after == before
    assert (again.dataset, again.relation) == ("patients", Relation.REPLACE)
    assert again.terms("second") == {"rounds": 3}
    assert again.terms("third") is None
    assert verify(again) == []


def test_a_repeated_step_returns_what_is_stored(ledger: SqliteLedger, path: Path) -> None:
    join(ledger, "run", {GAUSSIAN: 2})
    first = debit(ledger, "run", 1, GAUSSIAN)
    again = ledger.commit(Step("run", "1", "in", (GAUSSIAN,), np.zeros((1, 3)), {"round": np.array(9)}, 0), BUDGET)
    assert again.value.tobytes() == first.value.tobytes()
    assert (again.seal, again.events, again.inputs) == (first.seal, first.events, first.inputs)
    found = SqliteLedger.open(path).find("run", "1")
    assert found is not None
    assert (found.value.tobytes(), found.seal) == (first.value.tobytes(), first.seal)
    state = ledger.state("run")
    assert state is not None
    assert int(state["round"]) == 1  # the second commit changed nothing
    with pytest.raises(Refused, match="other inputs"):
        debit(ledger, "run", 1, GAUSSIAN, inputs="else")
    assert ledger.find("run", "2") is None
    assert ledger.spent() == {GAUSSIAN: 1}


def test_a_commit_from_an_old_position_is_refused(ledger: SqliteLedger, path: Path) -> None:
    join(ledger, "run", {GAUSSIAN: 3})
    debit(ledger, "run", 1, GAUSSIAN)
    arguments: Any = ((GAUSSIAN,), np.zeros((1, 3)), {"round": np.array(2)})
    with pytest.raises(Refused, match="moved on"):
        SqliteLedger.open(path).commit(Step("run", "2", "in", *arguments, 0), BUDGET)
    assert ledger.spent() == {GAUSSIAN: 1}
    ledger.commit(Step("run", "2", "in", *arguments, ledger.position("run")), BUDGET)
    assert ledger.spent() == {GAUSSIAN: 2}


def test_refusals_are_counted_and_bounded(ledger: SqliteLedger) -> None:
    ledger._connection.execute("PRAGMA synchronous = OFF")
    for number in range(REASONS + 30):
        ledger.refuse(f"reason {number}")
    ledger.refuse("reason 3")
    reasons = {reason: times for reason, times, _ in ledger.refusals()}
    assert len(reasons) == REASONS + 1
    assert (reasons["reason 3"], reasons["other reasons"]) == (2, 30)
    assert kinds(ledger) == ["create"]


# -- tampering ---------------------------------------------------------------------------------------------------------

TAMPERING = {
    "an entry's body": "UPDATE entries SET body = replace(body, '20.0', '2000.0') WHERE number = 3",
    "an entry's kind": "UPDATE entries SET kind = 'lock' WHERE number = 3",
    "an entry's run": "UPDATE entries SET run = 'second' WHERE number = 3",
    "an entry's head": "UPDATE entries SET head = 'f' || substr(head, 2) || 'f' WHERE number = 4",
    "an entry's body, to nonsense": "UPDATE entries SET body = 'x' WHERE number = 3",
    "the order of entries": "UPDATE entries SET number = CASE number WHEN 3 THEN 40 ELSE number END",
    "one more entry": "INSERT INTO entries SELECT 8, kind, run, body, 'a' FROM entries WHERE number = 7",
    **{f"entry {n}, removed": f"DELETE FROM entries WHERE number = {n}" for n in range(1, 8)},
    "all entries, removed": "DELETE FROM entries",
    "a release's value": "UPDATE releases SET value = zeroblob(100) WHERE run = 'first' AND step = '1'",
    "a release's inputs": "UPDATE releases SET inputs = 'out' WHERE run = 'first' AND step = '1'",
    "a release's step": "UPDATE releases SET step = '9' WHERE run = 'second'",
    "a release's entry": "UPDATE releases SET entry = 4 WHERE run = 'first' AND step = '1'",
    "a release, removed": "DELETE FROM releases WHERE run = 'second'",
    "a release, from nowhere": "INSERT INTO releases SELECT run, '7', inputs, entry, value FROM releases LIMIT 1",
    "less spent": "UPDATE balances SET spent = spent - 1 WHERE run = 'first'",
    "more agreed": "UPDATE balances SET agreed = agreed + 100 WHERE run = 'second'",
    "a balance, removed": "DELETE FROM balances WHERE run = 'first'",
    "another event": "UPDATE balances SET event = replace(event, '20.0', '2000.0')",
    "a finished run, opened": "UPDATE runs SET finished = 0 WHERE name = 'first'",
    "an open run, finished": "UPDATE runs SET finished = 1 WHERE name = 'second'",
    "what is held": "UPDATE runs SET holds = 0 WHERE name = 'second'",
    "the terms": "UPDATE runs SET terms = '{\"rounds\":30}' WHERE name = 'second'",
    "the terms' digest": "UPDATE runs SET terms_digest = 'x' WHERE name = 'second'",
    "a run, removed": "DELETE FROM runs WHERE name = 'second'",
    "the state": "UPDATE states SET arrays = zeroblob(50)",
    "the state's entry": "UPDATE states SET entry = 3",
    "the state, removed": "DELETE FROM states",
    "the data set's name": "UPDATE meta SET value = 'others' WHERE name = 'dataset'",
    "the records' digest": "UPDATE meta SET value = 'x' WHERE name = 'data'",
    "the relation": "UPDATE meta SET value = 'zero-out' WHERE name = 'relation'",
    "the place": "UPDATE meta SET value = '1:1' WHERE name = 'place'",
    "the lock": "UPDATE meta SET value = 'shut' WHERE name = 'locked'",
    "the key": f"UPDATE meta SET value = '{'0' * 64}' WHERE name = 'key'",
}


@pytest.mark.parametrize("statement", TAMPERING.values(), ids=TAMPERING)
def test_tampering_is_found(ledger: SqliteLedger, path: Path, statement: str) -> None:
    filled(ledger)
    assert len(kinds(ledger)) == 7
    assert verify(ledger) == []
    ledger.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()
    assert verify(SqliteLedger.open(path)) != []


def test_a_changed_release_or_state_is_not_given_out(ledger: SqliteLedger, path: Path) -> None:
    filled(ledger)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE releases SET value = zeroblob(100)")
        connection.execute("UPDATE states SET arrays = zeroblob(100)")
    connection.close()
    with pytest.raises(Refused, match="release was changed"):
        ledger.find("first", "1")
    with pytest.raises(Refused, match="state was changed"):
        ledger.state("second")


def test_heads_do_not_depend_on_the_records_by_a_public_formula(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever knows all records but one must not be able to try out the last against a release's seal.

    Two ledgers of the same records, name and second have unrelated heads: something secret is in them.
    """
    monkeypatch.setattr("dpadmm.privacy.ledger.hash_chain.now", lambda: "2026-01-01T00:00:00Z")
    monkeypatch.setattr("dpadmm.privacy.ledger.hash_chain._place", lambda path: "1:1")
    books = [SqliteLedger.create(tmp_path / name, "patients", "d" * 64, Relation.REPLACE) for name in ("a", "b")]
    for book in books:
        join(book, "run", {GAUSSIAN: 1})
        debit(book, "run", 1, GAUSSIAN)
    first, second = ([*book.entries()] for book in books)
    assert [{**entry, "head": ""} for entry in first] == [{**entry, "head": ""} for entry in second]
    assert not {entry["head"] for entry in first} & {entry["head"] for entry in second}


def test_a_private_state_is_in_no_entry_not_even_as_a_digest(ledger: SqliteLedger) -> None:
    filled(ledger)
    (arrays,) = ledger._connection.execute("SELECT arrays FROM states").fetchone()
    assert digest(arrays) not in json.dumps([*ledger.entries()])


# -- files -------------------------------------------------------------------------------------------------------------


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
    backup = path.read_bytes()
    late = debit(ledger, "run", 2, GAUSSIAN)
    ledger.close()
    inode = path.stat().st_ino
    path.write_bytes(backup)
    assert path.stat().st_ino == inode
    restored = SqliteLedger.open(path)
    assert restored.locked == ""  # the file alone cannot know
    assert restored.spent() == {GAUSSIAN: 1}
    assert early.seal is not None
    assert late.seal is not None
    restored.check_seal(early.seal)
    assert restored.locked == ""
    with pytest.raises(Refused, match="old backup"):
        restored.check_seal(late.seal)
    assert "backup" in restored.locked
    entries = len(kinds(restored))
    with pytest.raises(Refused, match="old backup"):
        restored.check_seal(late.seal)
    assert len(kinds(restored)) == entries  # a stranger with a seal cannot make it grow
    with pytest.raises(Refused, match="locked"):
        debit(restored, "run", 2, GAUSSIAN)
    assert SqliteLedger.open(path).locked == restored.locked
    restored.confirm()
    restored.record_lost({GAUSSIAN: 1})
    assert restored.spent() == {GAUSSIAN: 2}
    debit(restored, "run", 2, GAUSSIAN)
    assert restored.spent() == {GAUSSIAN: 3}
    assert verify(restored) == []


def test_a_restored_ledger_that_went_on_differently_is_recognised(ledger: SqliteLedger, path: Path) -> None:
    """The number exists, the head is another."""
    join(ledger, "run", {GAUSSIAN: 5})
    backup = path.read_bytes()
    late = debit(ledger, "run", 1, GAUSSIAN)
    ledger.close()
    path.write_bytes(backup)
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
        replace(genuine, number=genuine.number + 1),
        replace(genuine, head="0" * 64),
        replace(genuine, signature="0" * 64),
        replace(genuine, signature="ä" * 64),
        replace(genuine, signature=genuine.signature.upper()),
        Seal(10**5000, "0" * 64, "0" * 64),
        Seal(None, None, None),  # type: ignore[arg-type]
        Seal(True, "0" * 64, genuine.signature),
        other.seal(7, "0" * 64),
    ]
    for seal in strangers:
        with pytest.raises(Refused, match="not one of this ledger's"):
            ledger.check_seal(seal)
    assert ledger.locked == ""
    assert "lock" not in kinds(ledger)


# -- disks -------------------------------------------------------------------------------------------------------------


def unchanged(path: Path, entries: int, spent: dict[DpEvent, int]) -> None:
    again = SqliteLedger.open(path)
    assert (len(kinds(again)), again.spent(), verify(again)) == (entries, spent, [])
    assert again.find("run", "2") is None


def test_a_full_disk_is_a_refusal(ledger: SqliteLedger, path: Path) -> None:
    join(ledger, "run", {GAUSSIAN: 3})
    debit(ledger, "run", 1, GAUSSIAN)
    (pages,) = ledger._connection.execute("PRAGMA page_count").fetchone()
    ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Refused, match=r"cannot be written \(database or disk is full\); nothing was released"):
        debit(ledger, "run", 2, GAUSSIAN, size=10_000)
    unchanged(path, 3, {GAUSSIAN: 1})
    ledger._connection.execute(f"PRAGMA max_page_count = {10 * pages}")
    debit(ledger, "run", 2, GAUSSIAN, size=1000)
    assert SqliteLedger.open(path).spent() == {GAUSSIAN: 2}


def test_a_ledger_that_cannot_be_written_is_a_refusal(ledger: SqliteLedger, path: Path) -> None:
    join(ledger, "run", {GAUSSIAN: 3})
    late = debit(ledger, "run", 1, GAUSSIAN)
    assert late.seal is not None
    ledger._connection.execute("PRAGMA query_only = 1")
    for attempt in (
        lambda: debit(ledger, "run", 2, GAUSSIAN),
        lambda: join(ledger, "more", {PURE: 1}),
        lambda: ledger.finish("run"),
        lambda: ledger.refuse("no"),
        lambda: ledger.lock("why"),
        lambda: ledger.check_seal(ledger.seal(99, "0" * 64)),
    ):
        with pytest.raises(Refused, match="readonly"):
            attempt()
    unchanged(path, 3, {GAUSSIAN: 1})


def test_a_ledger_that_cannot_be_read_is_a_refusal(ledger: SqliteLedger, path: Path) -> None:
    filled(ledger)
    ledger._connection.execute("DROP TABLE releases")
    ledger._connection.execute("DROP TABLE states")
    for attempt in (lambda: ledger.find("first", "1"), lambda: ledger.state("first"), lambda: ledger.position("first")):
        with pytest.raises(Refused, match="cannot be used"):
            attempt()


def _limited(path: str) -> None:
    """In a process whose files may not grow: what it can still do."""
    ledger = SqliteLedger.open(Path(path))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (Path(path).stat().st_size, resource.RLIM_INFINITY))
    value = np.zeros((1, 20_000))
    state = {"round": np.array(2)}
    try:
        step = Step("run", "2", "in", (GaussianDpEvent(20.0),), value, state, ledger.position("run"))
        ledger.commit(step, Budget(3.0, 1e-6))
    except Refused as refused:
        print(f"refused: {refused}")


def test_a_file_that_may_not_grow_is_a_refusal(ledger: SqliteLedger, path: Path) -> None:
    join(ledger, "run", {GAUSSIAN: 3})
    debit(ledger, "run", 1, GAUSSIAN)
    imports = (
        "import resource, signal, sys\nfrom pathlib import Path\nimport numpy as np\n"
        "from dpadmm.errors import Refused\nfrom dpadmm.privacy.calibration import Budget\n"
        "from dpadmm.privacy.events import GaussianDpEvent\nfrom dpadmm.privacy.ledger.protocol import Step\n"
        "from dpadmm.privacy.ledger.sqlite import SqliteLedger\n"
    )
    script = f"{imports}{inspect.getsource(_limited)}_limited(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("refused: the ledger cannot be written (")
    unchanged(path, 3, {GAUSSIAN: 1})
