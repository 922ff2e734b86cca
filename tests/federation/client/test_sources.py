"""Sources: files, SQLite and a real PostgreSQL give the same records, nothing is written, and nothing is given away."""

import contextlib
import json
import random
import sqlite3
import sys
import traceback
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, ipc, parquet

from dpadmm.datasets import read_table
from dpadmm.errors import InputError
from dpadmm.federation.client import sources
from dpadmm.federation.client.records import digest
from dpadmm.federation.client.sources import PASSWORD, RecordSource

MARKER = "zanzibar"  # planted where nothing may leak from
SELECT = "SELECT * FROM records"
PLAIN = "CREATE TABLE records (age integer, cost double precision, city text)"
ROWS = [(30, 1.5, "Bern"), (30, 1.5, "Bern"), (30, 0.25, "Oslo"), (None, 2.0, "Rome"), (51, None, None), (7, 2.0, "")]


class Database:
    """One to write to, behind the back of the source."""

    def __init__(self, place, connect, mark):
        self.place, self._connect, self._mark = place, connect, mark

    def run(self, *statements, rows=()):
        with contextlib.closing(self._connect()) as connection:
            for statement in statements:
                connection.execute(statement)
            if rows:
                marks = ", ".join([self._mark] * len(rows[0]))
                connection.cursor().executemany(f"INSERT INTO records VALUES ({marks})", rows)
            connection.commit()

    def count(self):
        with contextlib.closing(self._connect()) as connection:
            return connection.execute("SELECT count(*) FROM records").fetchone()[0]

    def source(self, query=SELECT):
        return RecordSource.parse(self.place, query)


@pytest.fixture
def sqlite(tmp_path):
    path = tmp_path / "records.db"
    path.touch()
    return Database(f"sqlite:///{path}", lambda: sqlite3.connect(path), "?")


@pytest.fixture(scope="module")
def own(postgres_server):
    """A database that no other file's tests look into."""
    server, password = postgres_server
    place = {"host": "127.0.0.1", "port": server.port, "user": server.user, "password": password}
    with contextlib.closing(psycopg.connect(**place, dbname=server.database, autocommit=True)) as connection:
        connection.execute("CREATE DATABASE sources")
    return replace(server, database="sources").url(), {**place, "dbname": "sources"}


@pytest.fixture
def postgres(own, monkeypatch):
    url, place = own
    monkeypatch.setenv(PASSWORD, place["password"])
    database = Database(url, lambda: psycopg.connect(**place), "%s")
    database.run("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return database


@pytest.fixture(params=["sqlite", "postgres"])
def database(request):
    return request.getfixturevalue(request.param)


def refusal(source, *places):
    """What the reading of a source is refused with; the marker must be nowhere in it, nor behind it."""
    with pytest.raises(InputError) as caught:
        source.table(*places)
    keep_quiet(caught.value)
    return str(caught.value)


def keep_quiet(error):
    shown = "".join(traceback.format_exception(error))
    assert MARKER not in shown
    while error is not None:
        assert MARKER not in f"{error} {error!r} {error.args} {vars(error)}"
        error = error.__context__ or error.__cause__


def as_bytes(table):
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


# Files


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_keeps_its_order_and_is_read_as_ever(tmp_path, suffix):
    path = tmp_path / f"data{suffix}"
    table = pa.table({"code": ["02", "01"], "age": [50, 20]})
    csv.write_csv(table, path) if suffix == ".csv" else parquet.write_table(table, path)
    source = RecordSource.parse(f" {path} ")
    found = source.table(["code"])
    assert found.to_pydict() == {"code": ["02", "01"], "age": [50, 20]}
    assert found.equals(read_table(path, ["code"]))
    assert str(source) == str(path)


def test_without_being_told_a_csv_file_reads_01_as_a_number(tmp_path):
    (tmp_path / "data.csv").write_text("code\n01\n")
    assert RecordSource.parse(str(tmp_path / "data.csv")).table().to_pydict() == {"code": [1]}


def test_a_file_that_cannot_be_a_source_is_named(tmp_path):
    (tmp_path / "data.csv").write_text("a\n1\n")
    with pytest.raises(InputError, match=r"data\.csv is a file, and a query is for a database"):
        RecordSource.parse(str(tmp_path / "data.csv"), SELECT)
    with pytest.raises(InputError, match=r"there is no file .*absent\.csv"):
        RecordSource.parse(str(tmp_path / "absent.csv"))
    with pytest.raises(InputError, match=r"data\.txt: the name of a file ends in \.csv or \.parquet"):
        RecordSource.parse(str(tmp_path / "data.txt"))
    source = RecordSource.parse(str(tmp_path / "data.csv"))
    (tmp_path / "data.csv").unlink()
    with pytest.raises(InputError, match=r"there is no file .*data\.csv"):
        source.table()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("ragged.csv", f"a,b\n1,2\n{MARKER},2,3\n".encode(), "cannot read .*: it is damaged"),
        ("latin.csv", b"a,b\n1," + MARKER.encode() + b"\xff\n", "cannot read .*: it is damaged"),
        ("damaged.parquet", b"PAR1" + MARKER.encode() * 9 + b"PAR1", "cannot read .*: it is damaged"),
        (
            "headless.csv",
            f"{MARKER},{MARKER}\nx,y\n".encode(),
            "two columns of one name, or its first line is a record",
        ),
        ("bare.csv", f"{MARKER},age\n".encode(), r"bare\.csv is empty: it has columns but no records"),
        ("nothing.csv", b"", r"nothing\.csv is empty\."),
    ],
)
def test_a_file_that_cannot_be_read_shows_none_of_its_records(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    source = RecordSource.parse(str(tmp_path / name))
    with pytest.raises(InputError, match=said):
        source.table(["b"])
    refusal(source, ["b"])


# What the records of a database become


def test_types_of_postgresql(postgres, monkeypatch):
    postgres.run(
        """CREATE TABLE records (small smallint, big bigint, half real, price numeric(9, 2), sick boolean, city text,
        born date, seen timestamp, sent timestamptz, at time, id uuid, never integer)""",
        """INSERT INTO records VALUES
        (1, 9007199254740993, 0.5, 12.50, true, 'Bern', '1970-03-04', '2020-01-02 03:04:05', '2020-01-02 03:04:05+02',
         '06:07', '00000000-0000-0000-0000-00000000000a', NULL),
        (2, -1, NULL, NULL, false, '', NULL, NULL, '2020-07-02 03:04:05.25+00', NULL, NULL, NULL)""",
    )
    monkeypatch.setenv("PGTZ", "Asia/Tokyo")
    found = postgres.source().table()
    assert found.to_pydict() == {
        "small": [1, 2],
        "big": [9007199254740993, -1],
        "half": [0.5, None],
        "price": [12.5, None],
        "sick": [1, 0],
        "city": ["Bern", ""],
        "born": ["1970-03-04", None],
        "seen": ["2020-01-02T03:04:05", None],
        "sent": ["2020-01-02T01:04:05+00:00", "2020-07-02T03:04:05.250000+00:00"],
        "at": ["06:07:00", None],
        "id": ["00000000-0000-0000-0000-00000000000a", None],
        "never": [None, None],
    }
    kinds = [*["int64"] * 2, *["double"] * 2, "int64", *["string"] * 6, "null"]
    assert [str(kind) for kind in found.schema.types] == kinds


def test_types_of_sqlite(sqlite):
    sqlite.run("CREATE TABLE records (a, b, c, d)", rows=[(1, 2, "x", None), (2, 0.5, None, None)])
    found = sqlite.source().table()
    assert found.to_pydict() == {"a": [1, 2], "b": [2.0, 0.5], "c": ["x", None], "d": [None, None]}
    assert [str(kind) for kind in found.schema.types] == ["int64", "double", "string", "null"]


def test_text_columns_are_kept_as_written(postgres):
    postgres.run(
        "CREATE TABLE records (code text, n integer, price numeric, x float8, sick boolean, never integer)",
        "INSERT INTO records VALUES ('01', 7, 1.50, 1.0, true, NULL), ('1', NULL, NULL, 2.5, false, NULL)",
    )
    found = postgres.source().table(["code", "n", "price", "x", "sick", "never", "absent"])
    assert found.to_pydict() == {
        "code": ["01", "1"],
        "n": ["7", None],
        "price": ["1.50", None],
        "x": ["1", "2.5"],
        "sick": ["true", "false"],
        "never": [None, None],
    }
    assert set(found.schema.types) == {pa.string()}


def test_text_stays_text_in_either_database(database):
    database.run(PLAIN, rows=[(1, 1.0, "01")])
    assert database.source().table().to_pydict() == {"age": [1], "cost": [1.0], "city": ["01"]}


def test_rows_have_one_order_however_they_come(database):
    tables = []
    for seed in range(4):
        rows = ROWS * 3
        random.Random(seed).shuffle(rows)
        database.run("DROP TABLE IF EXISTS records", PLAIN, rows=rows)
        tables.append(database.source().table())
    assert tables[0].num_rows == 3 * len(ROWS)
    assert tables[0].column("age").to_pylist() == [7] * 3 + [30] * 9 + [51] * 3 + [None] * 3
    assert Counter(zip(*tables[0].to_pydict().values(), strict=True)) == Counter(ROWS * 3)
    assert len({as_bytes(table) for table in tables}) == 1


def test_zeros_and_no_numbers_have_one_order_too(postgres):
    found = set()
    for values in ("(0, 1), ('-0', 2), ('nan', 3), (NULL, 4)", "(NULL, 4), ('-0', 2), ('nan', 3), (0, 1)"):
        postgres.run("DROP TABLE IF EXISTS records", "CREATE TABLE records (x float8, y integer)")
        postgres.run(f"INSERT INTO records VALUES {values}")
        table = postgres.source().table()
        assert table.column("y").to_pylist() == [1, 2, 3, 4]
        found.add(as_bytes(table))
        found.add(as_bytes(postgres.source("SELECT x, 1 AS y FROM records ORDER BY y").table()))
    assert len(found) == 2


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_type_depends_on_how_many_rows_are_fetched_at_a_time(sqlite, monkeypatch, size):
    monkeypatch.setattr(sources, "_ROWS", size)
    rows = [(None, None, 2**53 + 1), (1, None, 1), (2, "x", 2), (0.5, None, 2)]
    sqlite.run("CREATE TABLE records (a, b, c)", rows=rows)
    found = sqlite.source().table()
    assert found.to_pydict() == {"a": [0.5, 1.0, 2.0, None], "b": [None, None, "x", None], "c": [2, 1, 2, 2**53 + 1]}
    assert [str(kind) for kind in found.schema.types] == ["double", "string", "int64"]


def test_more_rows_than_are_fetched_at_a_time(database, monkeypatch):
    sizes, array = [], sources._array
    monkeypatch.setattr(
        sources, "_array", lambda name, values, *rest: sizes.append(len(values)) or array(name, values, *rest)
    )
    number = 2 * sources._ROWS + 5
    numbers = f"WITH RECURSIVE up(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM up WHERE i < {number})"
    database.run(f"CREATE TABLE records AS {numbers} SELECT i FROM up")
    assert database.source().table().column("i").to_pylist() == list(range(1, number + 1))
    assert sizes == [sources._ROWS, sources._ROWS, 5]


def test_postgresql_keeps_the_rows_until_they_are_fetched(postgres):
    open_cursors = postgres.source("SELECT count(*) AS open FROM pg_cursors").table()
    assert open_cursors.to_pydict() == {"open": [1]}


@pytest.mark.parametrize(
    "condition", ["city LIKE 'B%'", "city <> ':x' AND city <> 'Oslo;'", "city = 'Bern' -- Rome; Oslo"]
)
def test_signs_that_mean_something_elsewhere_are_left_alone(database, condition):
    database.run(PLAIN, rows=[(1, 1.0, "Bern")])
    assert database.source(f"SELECT city FROM records WHERE {condition}").table().to_pydict() == {"city": ["Bern"]}


@pytest.mark.parametrize(
    "query", ["SELECT age FROM records ;\n", "/* ages; */ with a as (select age from records) select * from a"]
)
def test_a_query_may_end_in_a_semicolon_and_begin_with_a_comment(database, query):
    database.run(PLAIN, rows=[(1, 1.0, "Bern")])
    assert database.source(query).table().to_pydict() == {"age": [1]}


def test_what_cannot_be_a_column_is_named(database):
    database.run("CREATE TABLE records (a integer, b text)")
    assert "finds no records" in refusal(database.source())
    assert "more than one column named 'a'; rename one with AS" in refusal(database.source("SELECT a, a FROM records"))
    blob = f"'{MARKER}'::bytea" if "postgresql" in database.place else f"CAST('{MARKER}' AS BLOB)"
    assert "column 'z' holds values of type bytes" in refusal(database.source(f"SELECT {blob} AS z"))


def test_no_columns(postgres):
    postgres.run(PLAIN, rows=ROWS)
    assert "gives no columns" in refusal(postgres.source("SELECT FROM records"))


@pytest.mark.parametrize("size", [1, 10])
def test_numbers_and_text_in_one_column(sqlite, monkeypatch, size):
    monkeypatch.setattr(sources, "_ROWS", size)
    sqlite.run("CREATE TABLE records (a)", rows=[(1,), (0.5,), (MARKER,), (2.0,)])
    assert "column 'a' holds numbers and text" in refusal(sqlite.source())
    assert sqlite.source().table(["a"]).to_pydict() == {"a": ["0.5", "1", "2", MARKER]}


# Reading only


@pytest.mark.parametrize(
    "query", ["", "DELETE FROM records", "-- SELECT\nDROP TABLE records", "SELECT 1; SELECT 2", "SELECTED", "PRAGMA x"]
)
def test_a_query_is_one_statement_that_reads(query):
    with pytest.raises(InputError, match="must be one statement that reads: SELECT or WITH"):
        RecordSource("postgresql://owner@localhost/records", query)


WRITING = {
    "sqlite": [
        "WITH doomed AS (SELECT 1) DELETE FROM records",
        "WITH more AS (SELECT 1) INSERT INTO records SELECT * FROM records",
        "SELECT 1 AS `'`; DELETE FROM records; --'",
    ],
    "postgres": [
        "WITH gone AS (DELETE FROM records RETURNING *) SELECT * FROM gone",
        "WITH more AS (SELECT 1) INSERT INTO records SELECT * FROM records RETURNING *",
        "SELECT erase()",
        "SELECT set_config('transaction_read_only', 'off', false), erase()",
        r"SELECT E'\''; COMMIT; DELETE FROM records; --'",
        "SELECT * INTO copy FROM records",
    ],
}


@pytest.mark.parametrize(("name", "query"), [(name, query) for name, queries in WRITING.items() for query in queries])
def test_nothing_is_written_whatever_the_query_says(request, name, query):
    database = request.getfixturevalue(name)
    database.run(PLAIN, rows=ROWS)
    if name == "postgres":
        database.run(
            """CREATE FUNCTION erase() RETURNS integer LANGUAGE plpgsql AS
            'BEGIN DELETE FROM records; RETURN 1; END'"""
        )
    assert "failed: " in refusal(database.source(query))
    assert database.count() == len(ROWS)
    assert database.source().table().num_rows == len(ROWS)


def test_the_reason_is_the_databases_own(sqlite, postgres):
    """Sequences move even if a transaction is undone; so it is the transaction that must not write."""
    sqlite.run(PLAIN, rows=ROWS)
    assert "OperationalError (SQLITE_READONLY)" in refusal(sqlite.source(WRITING["sqlite"][0]))
    postgres.run("CREATE SEQUENCE records")
    assert "ReadOnlySqlTransaction (25006)" in refusal(postgres.source("SELECT nextval('records')"))
    assert postgres.source("SELECT is_called FROM records").table().to_pydict() == {"is_called": [0]}


# Passwords, and what errors say


@pytest.mark.parametrize(
    "place",
    [
        f"postgresql://owner:{MARKER}@localhost/records",
        f"postgresql+psycopg://owner:{MARKER}@localhost:5432/records",
        f"postgresql://:{MARKER}@localhost/records",
        f"postgresql://owner:{MARKER}@x@localhost/records",
        f"postgresql://ow/ner:{MARKER}@localhost/records",
        f"postgresql://owner:{MARKER}@localhost:port/records",
        f"postgresql:/owner:{MARKER}@localhost/records",
        f"postgresql://localhost/records?user=owner&password={MARKER}",
        f"postgresql://localhost/records?sslpassword={MARKER}",
        f"mssql+pyodbc:///?odbc_connect=UID=owner;Pwd={MARKER}",
        f"jdbc:postgresql://localhost/records?password={MARKER}",
        f"host=localhost password={MARKER}",
        f"mysql://owner:{MARKER}@localhost/records",
    ],
)
def test_a_password_in_the_place_is_refused_and_not_repeated(place):
    for make in (
        RecordSource,
        RecordSource.parse,
        lambda place, query: RecordSource.from_dict({"place": place, "query": query}),
    ):
        with pytest.raises(
            InputError, match=f"has a password in it .* environment variable {PASSWORD} .*pgpass"
        ) as caught:
            make(place, SELECT)
        keep_quiet(caught.value)


def test_the_password_comes_from_the_environment_and_goes_nowhere(postgres, postgres_server, monkeypatch):
    postgres.run(PLAIN, rows=ROWS)
    source = postgres.source()
    assert source.table().num_rows == len(ROWS)
    password = postgres_server[1]
    assert password not in f"{source} {source!r} {source.to_dict()}"
    assert str(source) == postgres.place

    monkeypatch.delenv(PASSWORD)
    monkeypatch.setenv("PGPASSWORD", password)
    assert source.table().num_rows == len(ROWS)
    monkeypatch.delenv("PGPASSWORD")
    assert f"cannot connect to {postgres.place}: OperationalError" in refusal(source)


def test_a_wrong_password_is_not_shown(postgres, monkeypatch):
    monkeypatch.setenv(PASSWORD, MARKER)
    source = postgres.source()
    assert "may this account log in? If it asks, a password goes into" in refusal(source)
    try:
        source.table()
    except InputError as error:
        with_locals = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "place = " in with_locals
    assert MARKER not in with_locals


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_name_of_postgresql_means_the_one_driver(postgres, scheme):
    postgres.run(PLAIN, rows=ROWS)
    place = postgres.place.replace("postgresql+psycopg", scheme)
    assert RecordSource.parse(place, SELECT).table().num_rows == len(ROWS)


def test_nobody_listens(monkeypatch):
    monkeypatch.setenv(PASSWORD, MARKER)
    said = refusal(RecordSource.parse("postgresql://owner@127.0.0.1:1/records", SELECT))
    assert "cannot connect to postgresql://owner@127.0.0.1:1/records: OperationalError" in said


@pytest.mark.parametrize(
    ("name", "query", "said"),
    [
        ("postgres", "SELECT CAST(city AS integer) FROM records", "InvalidTextRepresentation (22P02)"),
        ("postgres", f"SELECT {MARKER} FROM records", "UndefinedColumn (42703)"),
        ("postgres", "SELECT * FROM absent", "UndefinedTable (42P01)"),
        ("postgres", f"SELECT 1 / age AS z, '{MARKER}' AS y FROM records", "DivisionByZero (22012)"),
        ("postgres", "SELECT complain(city) FROM records", "RaiseException (P0001)"),
        ("postgres", "SELECT CAST('infinity' AS date) AS z, city FROM records", "DataError"),
        ("sqlite", f"SELECT {MARKER} FROM records", "OperationalError (SQLITE_ERROR)"),
        ("sqlite", "SELECT CAST(city || x'ff' AS TEXT) FROM records", "OperationalError"),
        ("sqlite", f"SELECT '{MARKER}' FROM records WHERE (", "OperationalError (SQLITE_ERROR)"),
    ],
)
def test_a_query_that_fails_shows_no_record(request, name, query, said):
    database = request.getfixturevalue(name)
    database.run(PLAIN, rows=[(0, 1.0, MARKER)])
    if name == "postgres":
        database.run(
            """CREATE FUNCTION complain(who text) RETURNS integer LANGUAGE plpgsql AS
            'BEGIN RAISE EXCEPTION ''this is %'', who; END'"""
        )
    shown = refusal(database.source(query))
    assert f"the query of {database.place} failed: {said}" in shown
    assert "own tools, which say more" in shown


def test_a_failure_while_rows_arrive_shows_no_record(postgres, monkeypatch):
    monkeypatch.setattr(sources, "_ROWS", 2)
    postgres.run(PLAIN, rows=[(5, 1.0, "1")] * 9 + [(0, 1.0, MARKER)])
    assert "DivisionByZero (22012)" in refusal(postgres.source("SELECT city, 1 / age AS z FROM records"))


def test_a_file_that_is_no_database(tmp_path):
    (tmp_path / "records.db").write_text(MARKER * 999)
    assert "DatabaseError (SQLITE_NOTADB)" in refusal(RecordSource.parse(f"sqlite:///{tmp_path}/records.db", SELECT))


def test_places_that_are_no_database(tmp_path):
    with pytest.raises(InputError, match="is a database and needs a query, such as SELECT"):
        RecordSource.parse("postgresql://owner@localhost/records")
    for place in ("://", "postgresql://owner@localhost:port/records"):
        with pytest.raises(
            InputError, match="is no URL of a database; one looks like postgresql://user@host:5432/name"
        ):
            RecordSource.parse(place, SELECT)
    with pytest.raises(InputError, match=r"there is no file .*absent\.db"):
        RecordSource.parse(f"sqlite:///{tmp_path}/absent.db", SELECT)
    with pytest.raises(InputError, match=r"there is no file .*absent\.db"):
        RecordSource(f"sqlite:///{tmp_path}/absent.db", SELECT).table()
    assert list(tmp_path.iterdir()) == []
    for place in ("sqlite://", "sqlite:///:memory:"):
        with pytest.raises(InputError, match="in memory has no records"):
            RecordSource.parse(place, SELECT)


def test_what_is_not_installed_is_named(monkeypatch):
    for place in ("mysql://owner@localhost/records", "nonsense://owner@localhost/records"):
        assert f"no driver for {place} is installed" in refusal(RecordSource.parse(place, SELECT))
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(InputError, match=r"needs SQLAlchemy: pip install 'dpadmm\[federation\]'"):
        RecordSource.parse("postgresql://owner@localhost/records", SELECT)


def test_sources_are_kept_as_json(tmp_path):
    (tmp_path / "data.csv").write_text("a\n1\n")
    for source in (
        RecordSource.parse(str(tmp_path / "data.csv")),
        RecordSource("postgresql://owner@localhost/records", SELECT),
    ):
        assert RecordSource.from_dict(json.loads(json.dumps(source.to_dict()))) == source
    assert RecordSource("data.csv").to_dict() == {"place": "data.csv"}
    with pytest.raises(InputError, match=r"unknown key in settings\.json 'plase'; did you mean 'place'"):
        RecordSource.from_dict({"plase": "data.csv"}, "settings.json")
    with pytest.raises(InputError, match="the source lacks place"):
        RecordSource.from_dict({})
    with pytest.raises(InputError, match="place = 3 must be a text"):
        RecordSource.from_dict({"place": 3})


# Digests

CELLS = st.one_of(st.none(), st.text("ab1:-", max_size=3))
TABLES = st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5)


def as_table(rows):
    return pa.table(
        {name: pa.array(column, pa.string()) for name, column in zip("xy", zip(*rows, strict=True), strict=True)}
    )


@given(TABLES, TABLES)
def test_digests_are_equal_if_and_only_if_the_records_are(first, second):
    assert (digest(as_table(first)) == digest(as_table(second))) == (Counter(first) == Counter(second))


@given(
    st.lists(
        st.tuples(CELLS, st.one_of(st.none(), st.floats()), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=8
    ),
    st.randoms(use_true_random=False),
)
def test_a_digest_knows_no_order_no_chunks_and_no_encoding(rows, chance):
    types = {"x": pa.string(), "y": pa.float64(), "z": pa.int64()}

    def table(rows):
        columns = zip(*rows, strict=True)
        return pa.table({name: pa.array(c, kind) for (name, kind), c in zip(types.items(), columns, strict=True)})

    name = digest(table(rows))
    shuffled = list(rows)
    chance.shuffle(shuffled)
    cut = chance.randrange(len(rows))
    moved = pa.concat_tables([table(shuffled).slice(0, cut), table(shuffled).slice(cut)]).select(["z", "x", "y"])
    assert digest(moved) == name
    coded = moved.set_column(1, "x", moved.column("x").dictionary_encode())
    assert coded.column("x").type != pa.string()
    assert digest(coded) == name
    assert digest(moved.set_column(1, "x", moved.column("x").cast(pa.large_string()))) == name


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"x": ["a"], "y": ["bc"]}, {"x": ["ab"], "y": ["c"]}),
        ({"x": [None]}, {"x": [""]}),
        ({"x": [None]}, {"x": ["-"]}),
        ({"x": [float("nan")]}, {"x": pa.array([None], pa.float64())}),
        ({"x": ["1"]}, {"x": ["01"]}),
        ({"x": ["a"]}, {"y": ["a"]}),
        ({"x": ["a"], "y": ["b"]}, {"x": ["b"], "y": ["a"]}),
        ({"x": ["a", "b"], "y": ["a", "b"]}, {"x": ["a", "b"], "y": ["b", "a"]}),
        ({"x": ["a"]}, {"x": ["a", "a"]}),
        ({"x": ["a"]}, {"x": ["a"], "y": pa.nulls(1)}),
        ({"x": [0.1]}, {"x": [np.nextafter(0.1, 1)]}),
        ({"x": [0.1]}, {"x": pa.array([0.1], pa.float32())}),
        ({"x": [2**53 + 1]}, {"x": [2**53]}),
        ({"x": [2.0**53 + 2]}, {"x": [2.0**53]}),
    ],
)
def test_other_records_have_another_digest(first, second):
    assert digest(pa.table(first)) != digest(pa.table(second))


def test_what_reads_the_same_has_the_same_digest():
    same = [[1, 0], [1.0, -0.0], ["1", "0"], [True, False], [b"1", b"0"]]
    assert len({digest(pa.table({"x": values})) for values in same}) == 1
    assert len(digest(pa.table({"x": [1]}))) == 64
    with pytest.raises(InputError, match="column 'x' of type list"):
        digest(pa.table({"x": [[1]]}))


def test_the_same_records_from_everywhere_have_one_digest(tmp_path, sqlite, postgres):
    columns = dict(zip(["age", "cost", "city"], zip(*ROWS[:4], strict=True), strict=True))
    csv.write_csv(pa.table(columns), tmp_path / "data.csv")
    parquet.write_table(pa.table(columns), tmp_path / "data.parquet", use_dictionary=True)
    tables = [RecordSource.parse(str(tmp_path / name)).table() for name in ("data.csv", "data.parquet")]
    for database in (sqlite, postgres):
        database.run(PLAIN, rows=ROWS[:4])
        tables.append(database.source().table())
    assert {table.num_rows for table in tables} == {4}
    assert len({digest(table) for table in tables}) == 1


# The server that these tests use


def test_a_server_is_gone_after_its_block_even_if_that_fails(postgres_server):
    module = sys.modules[type(postgres_server[0]).__module__]
    ports, folders = [], []

    def fail():
        with module.postgres("secret") as server:
            ports.append(server.port)
            with connected(server.port) as connection:
                folders.append(Path(connection.execute("SHOW data_directory").fetchone()[0]).parent)
            assert folders[0].is_dir()
            raise KeyError

    def connected(port):
        return psycopg.connect(host="127.0.0.1", port=port, user="owner", password="secret", dbname="postgres")

    with pytest.raises(KeyError):
        fail()
    assert not folders[0].exists()
    with pytest.raises(psycopg.OperationalError):
        connected(ports[0])


def test_where_no_server_can_be_had_the_reason_is_given(postgres_server, monkeypatch):
    module = sys.modules[type(postgres_server[0]).__module__]
    monkeypatch.setattr(module, "_find", lambda: None)
    monkeypatch.setattr(module.os, "geteuid", lambda: 1000)
    with pytest.raises(module.Unavailable, match="only root on Debian can install it"), module.postgres("secret"):
        pass


def test_a_source_is_the_same_for_a_process_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "records.csv").write_text("age\n1\n")
    with sqlite3.connect(tmp_path / "records.db") as connection:
        connection.execute("CREATE TABLE people (age INTEGER)")
        connection.execute("INSERT INTO people VALUES (1)")
    connection.close()
    monkeypatch.chdir(tmp_path)
    far = RecordSource("postgresql+psycopg://reader@db.example.org/clinic", "SELECT 1")
    here = [RecordSource.parse("records.csv"), RecordSource.parse("sqlite:///records.db", "SELECT age FROM people")]
    tables = [source.table() for source in here]
    absolute = [source.absolute() for source in here]
    monkeypatch.chdir("/")
    assert [source.table() for source in absolute] == tables
    assert far.absolute() == far
