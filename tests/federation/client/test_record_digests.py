"""The digest of records: equal if and only if the records are, wherever they come from."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet
from record_databases import PLAIN, ROWS

from dpadmm.errors import InputError
from dpadmm.federation.client.records import digest
from dpadmm.federation.client.sources import RecordSource

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
