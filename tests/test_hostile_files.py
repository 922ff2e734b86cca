"""Files that strangers send, small ones that ask for much: each is refused in a line, in little time and memory.

The scripts that are named hung, took gigabytes or ended in a traceback with 0.1.0.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import hostile_files
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from dpadmm import _limits
from dpadmm._archives import read_arrays
from dpadmm._databases import connect
from dpadmm._files import read_bytes, read_json, read_text, read_toml
from dpadmm.admm.topology.text import read_topology
from dpadmm.applications.power_flow.cases import read_case
from dpadmm.datasets import read_idx, read_npz, read_table
from dpadmm.datasets.files import read_cells
from dpadmm.datasets.folder.parquet import ParquetBlocks
from dpadmm.engine.output import checkpoint
from dpadmm.errors import InputError
from dpadmm.federation.client.sources import RecordSource
from dpadmm.owner.agreement import Agreement
from dpadmm.privacy.events import Relation
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.report.tables import disagreement, read_history, read_nodes
from dpadmm.spec.columns import Schema
from dpadmm.spec.sequences import from_file
from dpadmm.spec.toml import read as read_spec

SECONDS, MEGABYTES = 20.0, 600


@contextmanager
def refused(seconds: float = SECONDS, megabytes: int = MEGABYTES, words: str = "") -> Iterator[None]:
    """One line, and bounds on processor time and memory beyond what this process had before."""
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=words or None) as found:
        yield
    assert time.process_time() - began < seconds
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10 < megabytes
    assert len(str(found.value)) < 2 * _limits.MESSAGE


# -- texts -------------------------------------------------------------------------------------------------------------


def hidden(text: str) -> str:
    """A text of TOML that seems to stand within quotes for whoever overlooks that a quote is escaped."""
    return f'a = """\\""" """\n{text}\nb = """ """\n'


@pytest.mark.parametrize(
    "text",
    [
        hidden(".".join("a" * 40_000) + " = 1"),
        hidden("c = [" + "1," * (_limits.TOML_VALUES + 1) + "]"),
        '\\"""\n' * 700_000,
        "[run]\ntau = " + "[" * 5000 + "]" * 5000 + "\n",  # files.py
        "x = " + "{a=" * 300 + "1" + "}" * 300,
        ".".join("a" * 5000) + " = 1\n",
        "[" + ".".join("a" * 5000) + "]\n",
        "x = " + "1" * 10_000,
        "x = [" + "1," * 1_000_000 + "]",
        "x = '" + "'" * 1_000_001,
        '"""' * 300_001,
    ],
    ids=[
        "hidden key",
        "hidden values",
        "no end",
        "files.py",
        "tables",
        "dotted",
        "header",
        "digits",
        "many",
        "quotes",
        "open",
    ],
)
def test_toml_of_strangers(tmp_path: Path, text: str) -> None:
    """files.py: a traceback, 5,000 brackets deep."""
    (tmp_path / "deep.toml").write_text(text)
    with refused(10.0):
        read_spec(tmp_path / "deep.toml")
    with refused(10.0):
        read_toml(tmp_path / "deep.toml", "policy")


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, "[" * 100 + "]" * 100, '{"a":' * 60 + "1" + "}" * 60, "[" + "[]," * 5_000_000, "1" * 100_000],
    ids=["misc.py", "hundred", "objects", "many", "digits"],
)
def test_json_of_strangers(tmp_path: Path, text: str) -> None:
    """misc.py: a traceback of a model and of terms."""
    (tmp_path / "deep.json").write_text(text)
    with refused():
        read_json(tmp_path / "deep.json", "model")
    with refused():
        Agreement.loads(text)


def test_moderate_depth_and_size_are_read(tmp_path: Path) -> None:
    deep = json.loads("[" * _limits.DEPTH + "]" * _limits.DEPTH)
    (tmp_path / "a.json").write_text(json.dumps(deep))
    assert read_json(tmp_path / "a.json", "model") == deep
    (tmp_path / "a.toml").write_text("a.b.c = 1.5\nx = '=[,{.'\ny = " + json.dumps(list(range(100_000))))
    found = read_toml(tmp_path / "a.toml", "policy")
    assert (found["a"], found["x"], len(found["y"])) == ({"b": {"c": 1.5}}, "=[,{.", 100_000)


@pytest.mark.parametrize("read", [read_text, read_json, read_toml, read_bytes])
def test_what_is_no_file_or_too_long_is_not_read(tmp_path: Path, read: Callable[..., object]) -> None:
    """A named pipe would keep the reader waiting, and a device has no end."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with refused(words="cannot be read: (it is not a file|Is a directory)"):
            read(path, "policy")
    (tmp_path / "long").write_bytes(b"1" * 11)
    with refused(words="has 11 bytes, and at most 10 are read"):
        read(tmp_path / "long", "policy", limit=10)
    with refused(words="no name of a file"):
        read(Path("a\0b"), "policy")


def test_a_graph_file_of_strangers(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text('{"edges": ' + "[" * 100_000)
    assert read_topology(tmp_path / "deep.json")  # as it is; `parse` refuses it
    os.mkfifo(tmp_path / "pipe")
    with refused(words="it is not a file"):
        read_topology(tmp_path / "pipe")


# -- networks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "%{\n" * 60_000,  # files.py
        "mpc.bus(" * 40_000,  # files.py
        "mpc.bus(" * 40_000 + ")=\n",
        "%{\n%}\n" * 60_000,
        "mpc.baseMVA = " + "1" * 200_000 + "x;",
        "mpc.baseMVA = 1;\nmpc.bus = [" + "1" * 200_000 + "x];\nmpc.gen = [];\nmpc.branch = [];",
        "mpc.baseMVA = 1;\nmpc.bus = [" + "1e" * 200_000 + "];\nmpc.gen = [];\nmpc.branch = [];",
        "mpc.bus" + " " * 500_000,
        "mpc.bus = " + "[" * 500_000,
        "... " * 200_000,
        "mpc.bus = [" + "1 ..." * 100_000 + "];",
    ],
)
def test_power_networks_of_strangers(tmp_path: Path, text: str) -> None:
    """files.py: 180 kB of '%{' and 320 kB of 'mpc.bus(' took more than 15 s. Nothing in a file is computed."""
    (tmp_path / "c.m").write_text(text)
    with refused(5.0, 200):
        read_case(tmp_path / "c.m")


def test_a_network_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_limits, "CASE", 10)
    (tmp_path / "c.m").write_text("mpc.baseMVA = 1;")
    with refused(words="at most 10 are read"):
        read_case(tmp_path / "c.m")


# -- arrays ------------------------------------------------------------------------------------------------------------


def test_a_packed_idx_file_of_gigabytes(tmp_path: Path) -> None:
    """files.py: 5 MB that unpack to 5 GB."""
    path = hostile_files.gzip_bomb(tmp_path / "x-idx3-ubyte")
    assert 4_000_000 < path.stat().st_size < 6_000_000
    with refused(5.0, 100, "not an idx file"):
        read_idx(path)
    path = hostile_files.promised_idx(tmp_path / "y", 256)
    with refused(10.0, 400, "unpack to more than"):
        read_idx(path)


def array_header(text: str) -> bytes:
    """An array that begins with this in place of a description."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(8)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    "member",
    [
        hostile_files.npy((1 << 40,), b"\0" * 16),
        hostile_files.npy((1 << 33, 1 << 33), b""),
        hostile_files.npy((1 << 40,), b"", "<U0"),
        hostile_files.npy((2,), b"\0" * 16, "|O"),
        hostile_files.npy((), b"", "<U1000000000"),
        b"\x93NUMPY\x01\x00\xff\xff",
        b"",
        *map(array_header, ("((((\n", "x\n  y\n z\n", "{'descr': (), 'fortran_order': False, 'shape': (1,)}")),
    ],
    ids=["large", "wrapping", "empty texts", "objects", "long text", "header", "nothing", "open", "indented", "tuple"],
)
def test_arrays_of_strangers(tmp_path: Path, member: bytes, compressed: bool) -> None:
    """No code is run, and what an array's header declares is checked before there is memory for it."""
    path = tmp_path / "a.npz"
    path.write_bytes(hostile_files.npz({"X.npy": member}, compressed))
    with refused(5.0, 100, "damaged, or not of plain arrays"):
        read_npz(path, ["X"])
    with refused(5.0, 100, "cannot be read"):
        checkpoint.load(path, "digest", lambda *_: pytest.fail("it was read"))


@pytest.mark.parametrize(
    "content",
    [array_header("((((\n"), array_header("{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,)}")],
    ids=["open", "large"],
)
def test_lists_of_numbers_in_a_file_of_strangers(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rho.npy").write_bytes(content)
    with refused(5.0, 100, "the file cannot be read"):
        from_file("rho", "@rho.npy", tmp_path)


def test_an_archive_that_unpacks_to_much_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    zeros = np.zeros(1 << 22)
    np.savez_compressed(path, X=zeros)
    with refused(5.0, 100, "would become"):
        read_npz(path, ["X"])
    with pytest.raises(ValueError, match="would become"):  # a checkpoint is not compressed at all
        read_arrays(path)
    np.savez(path, X=zeros, y=np.array("text"), z=np.asfortranarray(np.eye(3)))
    found = read_arrays(path)
    np.testing.assert_array_equal(found["X"], zeros)
    assert (str(found["y"]), found["z"].flags.f_contiguous, found["z"].flags.writeable) == ("text", True, True)


# -- tables ------------------------------------------------------------------------------------------------------------


def test_a_history_that_asks_for_gigabytes(tmp_path: Path) -> None:
    """report_dos.py and misc.py: 600 kB for 12 GiB."""
    path = hostile_files.sparse_history(tmp_path / "history.csv")
    assert path.stat().st_size < 700_000
    with refused(5.0, 200, "has 40,000 rows for 40,000 rounds of 40,000 runs or nodes; most of it is missing"):
        read_history(path)
    rows = path.read_text().replace("loss", "disagreement").replace("run,round", "run,round,node")
    path = tmp_path / "nodes.csv"
    path.write_text(re.sub(r"(?m)^(\d+),", r"0,\1,", rows))
    with refused(5.0, 200, "most of it is missing"):
        read_nodes(path)
    with refused(5.0, 200, "most of it is missing"):
        disagreement(tmp_path, 0)


def test_tables_of_very_many_columns(tmp_path: Path) -> None:
    header = ",".join(f"c{k}" for k in range(_limits.COLUMNS + 1))
    path = tmp_path / "wide.csv"
    path.write_text(f"{header}\n{header}\n")
    for read in (read_table, read_cells):
        with refused(5.0, 100, "more than 100,000 columns"):
            read(path)
    path.write_text("run,round," + ",".join(f"c{k}" for k in range(_limits.METRICS)) + "\n1,1\n2,2\n")
    with refused(5.0, 100, "must begin with the columns"):
        read_history(path)


def test_lines_without_cells_do_not_make_a_table_of_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_limits, "CELLS", 10_000_000)
    path = tmp_path / "empty.csv"
    path.write_text(",".join(f"c{k}" for k in range(20_000)) + "\n" + "\n" * 200_000)
    with refused(20.0, 600, "more than 500 lines for its 20,000 columns"):
        read_cells(path)


def test_parquet_that_says_once_what_many_rows_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    once = pa.DictionaryArray.from_arrays(np.zeros(2000, dtype=np.int32), ["y" * 1_000_000])
    parquet.write_table(pa.table({"x": once}), path, store_schema=False)
    assert path.stat().st_size < 1_200_000
    monkeypatch.setattr(_limits, "DATA", 1 << 28)
    before = pa.total_allocated_bytes()
    with refused(10.0, 300, "its texts take more than"):
        read_table(path)
    assert pa.total_allocated_bytes() - before < 1 << 28
    monkeypatch.setattr(_limits, "CELLS", 1000)
    with refused(words="too many"):
        read_table(path)


def test_parquet_in_a_folder_whose_texts_come_to_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """445 bytes, of which 2 GB were made."""
    monkeypatch.setattr(_limits, "DATA", 10_000_000)
    path, rows = tmp_path / "a.parquet", 1_000
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * 50_000]))
    parquet.write_table(pa.table({"sex": text, "ill": ["no"] * rows}), path, store_schema=False)
    agreed = 'target = "ill"\nclasses = ["no", "yes"]\n[[columns]]\nname = "sex"\nvalues = ["f", "m"]\n'
    blocks = ParquetBlocks.of(path, Schema.loads(agreed, "columns").encoder, "ill", ("no", "yes")).lenient()
    with refused(5.0, 100, "its texts take more than 10,000,000 bytes"):
        list(blocks.walk(rows))
    with refused(5.0, 100, "its texts take more than 10,000,000 bytes"):
        blocks.pick(np.array([1, 2]), np.empty((2, 2)))


def test_an_ordinary_parquet_file_is_read_as_it_is(tmp_path: Path) -> None:
    words = pa.array(["a", None, "b", "a"])
    table = pa.table({"n": [1, 2, 3, 4], "w": words, "d": words.dictionary_encode(), "l": [[1], [], None, [2, 3]]})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").equals(parquet.read_table(tmp_path / "a.parquet"))


# -- ledgers -----------------------------------------------------------------------------------------------------------


def test_a_ledger_whose_table_is_a_view_that_never_ends(tmp_path: Path) -> None:
    """misc.py and misc2.py: `dpadmm ledger show` hung."""
    path = hostile_files.recursive_view(tmp_path / "evil.ledger")
    with refused(1.0, 50, "it has a view 'meta' that is no plain table"):
        SqliteLedger.open(path, reading=True)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; END",
        "CREATE TABLE b (x, y GENERATED ALWAYS AS (x + 1))",
        "CREATE TABLE b (x CHECK (x > 1))",
        "CREATE TABLE b (x DEFAULT (abs(1)))",
        "CREATE INDEX i ON a (abs(x))",
        "CREATE INDEX i ON a (x) WHERE x > 1",
        "CREATE VIEW v AS SELECT 1",
    ],
)
def test_a_database_that_is_more_than_tables(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE a (x)")
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(sqlite3.DatabaseError, match="no plain table"):
        connect(path, timeout=1.0)


def test_a_journal_beside_a_database_cannot_have_a_file_deleted(tmp_path: Path) -> None:
    """SQLite rolls such a journal back when it opens the database, and then deletes the file that it names."""
    victim, path = tmp_path / "thesis.txt", tmp_path / "copy.ledger"
    victim.write_text("mine")
    hostile_files.database_with_journal(path, victim)
    (tmp_path / "link.ledger").symlink_to(path)
    for name in (path, tmp_path / "link.ledger"):
        with refused(1.0, 50, "names another file, which SQLite would delete"):
            SqliteLedger.open(name, reading=True)
    source = RecordSource(f"sqlite:///{path}", "SELECT name FROM meta")
    with refused(1.0, 50, "names another file, which SQLite would delete"):
        source.table()
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("where", ["", " WHERE number < 0"])
def test_records_in_a_database_whose_view_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(_limits, "QUERY", 20_000_000)
    monkeypatch.setattr(_limits, "CELLS_IN_DATABASE", 0)
    path = tmp_path / "records.db"
    with closing(sqlite3.connect(path)) as connection:
        endless = "WITH RECURSIVE r(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM r) SELECT number FROM r"
        connection.execute(f"CREATE VIEW records AS {endless}")
    with refused(20.0, 600, "more values than are read|SQLITE_INTERRUPT"):
        RecordSource(f"sqlite:///{path}", f"SELECT number FROM records{where}").table()


def test_a_statement_that_does_not_end_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_limits, "STEPS", 5_000_000)
    connection = connect(tmp_path / "a.db", timeout=1.0)
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r) SELECT max(n) FROM r"
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        connection.execute(endless)
    assert connection.execute("SELECT 1").fetchone() == (1,)
    connection.close()


def test_a_value_of_a_database_has_a_limit(tmp_path: Path) -> None:
    connection = connect(tmp_path / "a.db", timeout=1.0)
    with pytest.raises(sqlite3.DataError, match="too big"):
        connection.execute(f"SELECT zeroblob({_limits.CELL + 1})")
    connection.close()


@pytest.mark.parametrize("identity", ["../../../../../etc/passwd", "/tmp/any", "\x1b]0;x", "a" * 63, "A" * 64])
def test_a_ledger_whose_identity_names_other_files(tmp_path: Path, identity: str) -> None:
    """Its key was looked for there, and the error advised to close /etc to others."""
    path = tmp_path / "a.ledger"
    SqliteLedger.create(path, "a", "0" * 64, Relation.parse("replace"), tmp_path / "ledgers").close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE name = 'identity'", (identity,))
    for reading in (True, False):
        with refused(1.0, 50, "is not a usable ledger: its identity is no digest"):
            SqliteLedger.open(path, reading=reading, folder=tmp_path / "ledgers")


def test_others_cannot_read_what_the_registry_notes(tmp_path: Path) -> None:
    """poisonledger.py: a note in a folder that others could read let them check guesses of a record."""
    from dpadmm.privacy.ledger.registry import LedgerRegistry

    made = LedgerRegistry(tmp_path / "state" / "ledgers")
    made.ledger(tmp_path / "a.ledger", "a", "0" * 64, Relation.parse("replace")).close()
    kept = [tmp_path / "state" / "ledgers", *(tmp_path / "state" / "ledgers").rglob("*"), tmp_path / "a.ledger"]
    assert len(kept) > 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept if path.name != "lock.db")
