"""Queries write nothing, and no password and no record shows in an error."""

import traceback

import pytest
from record_databases import MARKER, PLAIN, ROWS, SELECT, keep_quiet, refusal

from dpadmm.errors import InputError
from dpadmm.federation.client import sources
from dpadmm.federation.client.databases import PASSWORD
from dpadmm.federation.client.sources import RecordSource


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


def test_nobody_listens(monkeypatch):
    monkeypatch.setenv(PASSWORD, MARKER)
    said = refusal(RecordSource.parse("postgresql://owner@127.0.0.1:1/records", SELECT))
    assert "cannot connect to postgresql://owner@127.0.0.1:1/records: OperationalError" in said


def test_values_that_no_driver_can_read_are_read_all_the_same(sqlite, postgres):
    """0.1.0 failed: a date or a byte of one record kept its owner out."""
    for database in (sqlite, postgres):
        database.run(PLAIN, rows=[(0, 1.0, "Bern"), (1, 2.0, "Rome")])
    day = "CASE age WHEN 0 THEN CAST('infinity' AS date) ELSE CAST('2020-02-03' AS date) END"
    dates = f"SELECT age, {day} AS z FROM records"
    assert postgres.source(dates).table().to_pydict() == {"age": [0, 1], "z": [None, "2020-02-03"]}
    moments = "SELECT age, CAST('-infinity' AS timestamptz) AS z FROM records"
    assert postgres.source(moments).table().to_pydict() == {"age": [0, 1], "z": [None, None]}
    raw = "SELECT age, CASE age WHEN 0 THEN CAST(city || x'ff' AS TEXT) ELSE city END AS z FROM records"
    assert sqlite.source(raw).table().to_pydict() == {"age": [0, 1], "z": ["Bern\ufffd", "Rome"]}


@pytest.mark.parametrize(
    ("name", "query", "said"),
    [
        ("postgres", "SELECT CAST(city AS integer) FROM records", "InvalidTextRepresentation (22P02)"),
        ("postgres", f"SELECT {MARKER} FROM records", "UndefinedColumn (42703)"),
        ("postgres", "SELECT * FROM absent", "UndefinedTable (42P01)"),
        ("postgres", f"SELECT 1 / age AS z, '{MARKER}' AS y FROM records", "DivisionByZero (22012)"),
        ("postgres", "SELECT complain(city) FROM records", "RaiseException (P0001)"),
        ("sqlite", f"SELECT {MARKER} FROM records", "OperationalError (SQLITE_ERROR)"),
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
