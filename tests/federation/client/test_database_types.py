"""What the records of a database become: types, order and columns, the same from SQLite and from PostgreSQL."""

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc
from record_databases import MARKER, PLAIN, ROWS, refusal

from dpadmm.datasets.cells import number_cells, person_cells
from dpadmm.federation.client import sources
from dpadmm.owner.admission import _first_of_each


def as_bytes(table):
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


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
    monkeypatch.setattr(sources, "_array", lambda values, *rest: sizes.append(len(values)) or array(values, *rest))
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


def test_what_cannot_be_a_column_is_named_and_what_cannot_be_a_value_is_missing(database):
    database.run("CREATE TABLE records (a integer, b text)")
    assert "finds no records" in refusal(database.source())
    assert "more than one column named 'a'; rename one with AS" in refusal(database.source("SELECT a, a FROM records"))
    blob = f"'{MARKER}'::bytea" if "postgresql" in database.place else f"CAST('{MARKER}' AS BLOB)"
    found = database.source(
        f"SELECT {blob} AS z, 1 AS a"
    ).table()  # 0.1.0: an error, so that one value kept an owner out
    assert found.to_pydict() == {"z": [None], "a": [1]}


def test_no_columns(postgres):
    postgres.run(PLAIN, rows=ROWS)
    assert "gives no columns" in refusal(postgres.source("SELECT FROM records"))


@pytest.mark.parametrize("size", [1, 10])
def test_numbers_and_text_in_one_column_are_text(sqlite, monkeypatch, size):
    monkeypatch.setattr(sources, "_ROWS", size)
    sqlite.run("CREATE TABLE records (a)", rows=[(1,), (0.5,), (MARKER,), (2.0,)])
    assert sqlite.source().table().to_pydict() == {"a": ["0.5", "1", "2", MARKER]}
    assert sqlite.source().table(["a"]).to_pydict() == {"a": ["0.5", "1", "2", MARKER]}


@pytest.mark.parametrize("other", [8, 2.5, None, MARKER, b"", 2**62])
def test_which_of_two_records_is_first_does_not_depend_on_a_third(sqlite, other):
    """A text among numbers made text of them, and "10" came before "9": so one record decided for every person with
    too many records which of them count. Sums of neighbours were 238 sensitivities apart with a thousand persons."""
    values = [9, 10, 0.5, -3, 2**53, 2**53 + 1, None]
    rows = [(person, value, place) for person in ("a", "b") for place, value in enumerate(values)]
    sqlite.run("CREATE TABLE records (who text, x, place)", rows=rows)
    alone = sqlite.source().table(["who"]).select(["who", "place"]).to_pylist()
    assert [row["place"] for row in alone] == [3, 2, 0, 1, 4, 5, 6] * 2
    sqlite.run(rows=[("z", other, 0)])
    assert sqlite.source().table(["who"]).select(["who", "place"]).to_pylist()[:-1] == alone


def test_texts_of_many_bytes_are_texts(sqlite, monkeypatch):
    """Beyond 2 GB Arrow gives several arrays, and its usual text has no room for all of them together."""
    sqlite.run("CREATE TABLE records (a text, b)", rows=[("x" * 50, 1), ("y" * 70, "z"), ("x", 2)])
    plain, array = sqlite.source().table(), sources._array
    monkeypatch.setattr(sources, "_LARGE", 100)
    monkeypatch.setattr(sources, "_array", lambda *given: pa.chunked_array([array(*given)[:1], array(*given)[1:]]))
    found = sqlite.source().table()
    assert found.to_pydict() == plain.to_pydict()
    assert [str(kind) for kind in found.schema.types] == ["large_string", "string"]


@pytest.mark.parametrize("last", [8, MARKER])
def test_which_records_of_a_person_are_the_first_does_not_depend_on_anothers(sqlite, last):
    rows = [(value, f"p{person:02}") for person in range(30) for value in (9, 10)]
    sqlite.run("CREATE TABLE records (x, who text)", rows=[*rows, (last, "z")])
    table = sqlite.source().table(["who"])
    counts = _first_of_each(person_cells(table, "who"), 1)
    assert set(number_cells(table, "x")[counts][:-1]) <= {9.0, 8.0}
    assert np.count_nonzero(number_cells(table, "x")[counts] == 9.0) == 30


def test_a_value_that_python_has_none_for_keeps_no_other_record_away(postgres):
    """Each of these made the whole query fail, so one record decided whether its owner took part."""
    postgres.run(
        "CREATE TABLE records (n integer, at timetz, span interval, raw json, deep jsonb)",
        "INSERT INTO records VALUES (1, '24:00:00+00', '100000000 years', ('1' || repeat('0', 5000))::json, '{}'), "
        "(2, '06:07+00', '1 day', (repeat('[', 3000) || repeat(']', 3000))::json, '[1]')",
    )
    found = postgres.source().table()
    assert found.column("n").to_pylist() == [1, 2]
    assert found.column("at").to_pylist() == [None, "06:07:00+00:00"]
