"""Verification finds whatever was changed in a ledger."""

import sqlite3
from pathlib import Path

import pytest
from ledgers import filled, kinds

from dpadmm.errors import Refused
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify

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
