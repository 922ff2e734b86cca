"""The row of a record is a function of that record alone, bit for bit, wherever records are kept.

One record is replaced by another, with anything in its cells; every other record must become the same row of integers
and keep its target. `Every path` below is a table of text, read and encoded as an owner's agent does it.
"""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from dpadmm.datasets import Category, Numeric, load
from dpadmm.datasets.curves.encoder import CurveEncoder
from dpadmm.datasets.encoding import Encoder
from dpadmm.datasets.files import read_cells
from dpadmm.datasets.folder.parquet import ParquetBlocks
from dpadmm.datasets.lines import read_lines
from dpadmm.federation.client.owner_folder import AgentSettings
from dpadmm.federation.client.records import Records
from dpadmm.federation.client.sources import RecordSource
from dpadmm.problems.array_files import ArrayBlocks
from dpadmm.problems.losses import Logistic, Quantile
from dpadmm.problems.shards import Shards, gather
from dpadmm.problems.stored_shards import gather_blocks
from dpadmm.spec.columns import Schema

RECORDS = 12
COLUMNS = ("age", "dose", "work", "ill")
SCHEMA = Schema.of(
    Encoder((Numeric("age", 17.0, 90.0), Numeric("dose"), Category("work", ("State", "Private", "01")))),
    "ill",
    ("no", "yes"),
)
CURVES = Schema.of(
    CurveEncoder(tuple(f"t{j}" for j in range(8)), tuple(float(j) for j in range(8)), "bspline:5", 1e-3), "y", None
)

# What the one record may hold, where the others hold honest values.
NUMBERS = ("17", "0.1", "1e308", "-1e999", "nan", "inf", "", "NA", "old", "0x10", "true", "2020-01-01", "1,5", " 30 ",
           "+5", "1e-400", "9007199254740993", "123456789012345678901234567890", "0.1000000000000000055511151231257827",
           "-0", "１２", "10:30", "\u2603")  # fmt: skip
WORDS = ("State", "01", "1", "", "nobody", "NA", "1.0", "\u2603", "true")
LABELS = ("no", "yes", "maybe", "", "0", "1")

many = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
one_record = st.tuples(*(st.sampled_from(each) for each in (NUMBERS, NUMBERS, WORDS, LABELS)))


def honest(seed: int = 0) -> list[tuple[str, ...]]:
    draw = np.random.default_rng(seed)
    return [
        (str(draw.integers(17, 91)), repr(float(draw.normal())), WORDS[draw.integers(2)], LABELS[draw.integers(2)])
        for _ in range(RECORDS)
    ]


class Encoded(NamedTuple):
    rows: np.ndarray
    targets: np.ndarray


def encoded(table: Any, schema: Schema, loss: Any = None) -> Encoded:
    """As `Records.shards` does it."""
    features, raw, usable = schema.rows(table)
    own = loss or Logistic()
    targets, known = own.encode_all(raw, len(schema.classes))
    found = gather(features, targets, np.zeros(len(features), int), norm_bound=1.3, intercept=True, names=["me"],
                   usable=usable & known)  # fmt: skip
    return Encoded(np.asarray(found.features), found.targets)


def as_csv(folder: Path, records: list[tuple[str, ...]], names: tuple[str, ...] = COLUMNS) -> Any:
    with (folder / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, *records])
    return read_cells(folder / "a.csv")


def as_parquet(folder: Path, records: list[tuple[str, ...]]) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({name: list(column) for name, column in zip(COLUMNS, zip(*records, strict=True), strict=True)})
    parquet.write_table(table, folder / "a.parquet", row_group_size=5)
    return read_cells(folder / "a.parquet")


def as_database(folder: Path, records: list[tuple[str, ...]], typed: bool = False) -> Any:
    """SQLite, where every cell has a type of its own; with `typed`, whatever can be a number is one."""

    def cell(text: str) -> Any:
        try:
            return float(text) if typed and text.isascii() else text
        except ValueError:
            return text or None

    (folder / "a.db").unlink(missing_ok=True)
    with sqlite3.connect(folder / "a.db") as database:
        database.execute(f"CREATE TABLE people (place, {', '.join(COLUMNS)})")
        rows = [(place, cell(age), cell(dose), work, ill) for place, (age, dose, work, ill) in enumerate(records)]
        database.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", rows)
    source = RecordSource.parse(f"sqlite:///{folder / 'a.db'}", f"SELECT {', '.join(COLUMNS)}, place FROM people")
    table = source.table(SCHEMA.text_columns)
    return table.sort_by("place").select(COLUMNS)  # which comes first is the order of their values


TABLES: dict[str, Callable[..., Any]] = {
    "csv": as_csv,
    "parquet": as_parquet,
    "sqlite": as_database,
    "sqlite with types": partial(as_database, typed=True),
}


@pytest.mark.parametrize("kind", TABLES)
@many
@given(one_record, st.integers(0, RECORDS - 1), st.integers(0, 3))
def test_another_record_changes_no_row(tmp_path: Path, kind: str, other: Any, place: int, seed: int) -> None:
    records = honest(seed)
    before = encoded(TABLES[kind](tmp_path, records), SCHEMA)
    assert before.rows.any(axis=1).all()
    records[place] = other
    after = encoded(TABLES[kind](tmp_path, records), SCHEMA)
    for one, two in zip(before, after, strict=True):
        np.testing.assert_array_equal(np.delete(one, place, 0), np.delete(two, place, 0))


@many
@given(st.lists(one_record, min_size=6, max_size=6), one_record, st.integers(0, 5))
def test_odd_records_do_not_depend_on_each_other_either(tmp_path: Path, records: Any, other: Any, place: int) -> None:
    """Cells that are read by a rule of their own (hexadecimal digits, dates) must not wait for others of their kind."""
    for make in (as_csv, as_database):
        before = encoded(make(tmp_path, records), SCHEMA)
        changed = [*records[:place], other, *records[place + 1 :]]
        after = encoded(make(tmp_path, changed), SCHEMA)
        for one, two in zip(before, after, strict=True):
            np.testing.assert_array_equal(np.delete(one, place, 0), np.delete(two, place, 0))


def persons(folder: Path, kind: str, ids: list[Any]) -> list[bytes | None]:
    """Whose each record is, as an owner's agent reads it."""
    columns = Schema.of(Encoder((Numeric("age", 0.0, 1.0),)), "ill", ("no", "yes"))
    source: dict[str, str] = {"place": str(folder / f"a.{kind}")}
    if kind == "csv":
        lines = (each if b"," in each else each + b",0.5,yes" for each in (str(each).encode() for each in ids))
        (folder / "a.csv").write_bytes(b"\n".join([b"who,age,ill", *lines]))
    else:
        source = {"place": f"sqlite:///{folder / 'a.db'}", "query": "SELECT age, who, ill FROM people"}
        (folder / "a.db").unlink(missing_ok=True)
        with sqlite3.connect(folder / "a.db") as database:
            database.execute("CREATE TABLE people (age, who, ill)")
            database.executemany("INSERT INTO people VALUES (?, ?, 'yes')", list(enumerate(ids)))
    found = Records(columns, AgentSettings("localhost:8002", "policy.toml", "ledger", source, person="who"), "north")
    assert found.persons is not None
    return list(found.persons)


@pytest.mark.parametrize(
    ("kind", "ids", "other"),
    [
        ("csv", [7, "0007", "7.0"] * 3, "A7"),
        ("csv", [7, "0007", "7.0"] * 3, '7,"0.5,yes'),
        ("csv", [7, "0007", "7.0"] * 3, "7,0.5,yes,more"),
        ("db", [300000000000000000 + number for number in range(6)], 0.5),
        ("db", [300000000000000000 + number for number in range(6)], "A7"),
        ("db", ["7", "0007", "7.0"], None),
        ("db", ["7", "0007", "7.0"], b"\xff"),
    ],
)
def test_whose_a_record_is_does_not_depend_on_another_record(
    tmp_path: Path, kind: str, ids: list[Any], other: Any
) -> None:
    """Read as a column, one identifier decided whether "7" and "0007" were one person: epsilon 18 for a printed 1."""
    before, after = (persons(tmp_path, kind, [*ids, last]) for last in ("9", other))
    assert before[:-1] == after[:-1]
    assert len(set(before)) == len({*ids, "9"})


def test_an_open_quotation_mark_or_a_long_cell_spoils_its_own_line_only(tmp_path: Path) -> None:
    """Arrow's reader took 19,894 records after such a mark for one value, and refused a file with a cell of 2 MB."""
    lines = [b"30,0.5,State,yes"] * 50_000
    for wrong in (b"", b'"31,0.5,State,yes', b"x" * 2_000_000 + b",0.5,State,yes", b"31,0\r5,State,yes"):
        (tmp_path / "a.csv").write_bytes(b"\n".join([b"age,dose,work,ill", *lines[:100], wrong, *lines]))
        found = encoded(read_cells(tmp_path / "a.csv"), SCHEMA)
        assert np.flatnonzero(~found.rows.any(axis=1)).tolist() == [100]


def test_a_line_that_is_no_record_counts_as_a_record_of_zeros(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"age,dose,work,ill\n30,0.5,State,yes\n31,0.5\n32,\xff\xfe,State,no\n33,1,01,no\n")
    found = encoded(read_cells(tmp_path / "a.csv"), SCHEMA)
    assert found.rows.any(axis=1).tolist() == [True, False, False, True]


points = st.sampled_from(["", "0.5", "-3", "nan", "1e308", "inf", "x", "1e-300"])


@many
@given(st.lists(points, min_size=8, max_size=8), st.integers(0, RECORDS - 1), st.integers(0, 3), st.booleans())
def test_another_curve_changes_no_row(tmp_path: Path, other: Any, place: int, seed: int, holes: bool) -> None:
    """0.1.0 inverted one matrix for all curves without holes, and one for each as soon as a curve had a hole: the last
    bit of every coefficient changed. A loss with a kink made whole gradients of it, delta 1.0 at a claimed 1e-6."""
    draw = np.random.default_rng(seed)
    names = (*CURVES.encoder.columns, CURVES.target)
    records = [tuple(repr(float(value)) for value in draw.normal(size=9)) for _ in range(RECORDS)]
    if holes:
        records = [("", *record[1:]) if number % 3 else record for number, record in enumerate(records)]
    before = encoded(as_csv(tmp_path, records, names), CURVES, Quantile())
    records[place] = (*other, "0.0")
    after = encoded(as_csv(tmp_path, records, names), CURVES, Quantile())
    for one, two in zip(before, after, strict=True):
        np.testing.assert_array_equal(np.delete(one, place, 0), np.delete(two, place, 0))


def test_the_curves_of_the_counterexample_keep_every_bit(tmp_path: Path) -> None:
    """400 curves of 30 points, one of which loses a point; in a file, as `load` reads it."""
    draw = np.random.default_rng(1)
    curve, mine = draw.normal(size=30), draw.normal(size=30)
    found = []
    for hole in (False, True):
        first = ["" if hole and j == 3 else repr(float(value)) for j, value in enumerate(mine)]
        rows = [(*first, "0.0"), *([(*(repr(float(value)) for value in curve), "0.0")] * 399)]
        as_csv(tmp_path, rows, (*(f"t{j}" for j in range(30)), "y"))
        data = load(str(tmp_path / "a.csv"), target="y", curve="t", basis="bspline:12", task="regression")
        found.append(data.features)
    np.testing.assert_array_equal(found[0][1:], found[1][1:])
    assert len(np.unique(found[0][1:], axis=0)) == 1  # and equal curves have equal rows, wherever they lie


@pytest.mark.parametrize("text", ["cosine:6", "fourier:7", "legendre:5"])
def test_equal_curves_have_equal_rows_wherever_they_lie(text: str) -> None:
    """Another instance: a product of many rows rounds some of them by their place.

    In 0.1.0 the last three of 1,003 equal curves had other bits than the rest.
    """
    from dpadmm.datasets.curves import Curves, parse, scores

    curve = np.random.default_rng(2).normal(size=100)
    times = np.sort(np.random.default_rng(3).random(100))
    same = Curves.on_grid(times, np.tile(curve, (1003, 1)), (0.0, 1.0))
    assert len(np.unique(scores(same, parse(text), 1e-4), axis=0)) == 1
    ragged = Curves.individual([times] * 51, [curve] * 51, (0.0, 1.0))
    assert len(np.unique(scores(ragged, parse(text), 1e-4), axis=0)) == 1


# -- rows: dense, sparse, clipped, from files ----------------------------------------------------------------------

cells = st.sampled_from([0.0, -0.0, 0.3, -1.7, 1e-320, 1e200, -1e308, np.nan, np.inf, 3e38])


def dense(table: np.ndarray) -> Any:
    return table


def in_single_precision(table: np.ndarray) -> Any:
    with np.errstate(over="ignore"):
        return table.astype(np.float32)


def in_order(table: np.ndarray) -> Any:
    return csr_array(table)


def shuffled_and_repeated(table: np.ndarray) -> Any:
    """Columns from the last to the first, each stored as itself and a half more of it that is taken away again."""
    count, width = table.shape
    data = np.stack([table, table / 2, -table / 2], axis=2)[:, ::-1].reshape(-1)
    indices = np.tile(np.repeat(np.arange(width)[::-1], 3), count)
    return csr_array((data, indices, np.arange(count + 1) * 3 * width), shape=table.shape)


STORED = (dense, in_single_precision, in_order, shuffled_and_repeated)


@pytest.mark.parametrize("store", STORED)
@pytest.mark.parametrize("intercept", [False, True])
@many
@given(st.lists(cells, min_size=5, max_size=5), st.integers(0, RECORDS - 1), st.sampled_from([0.01, 1.0, 1e6]))
def test_another_row_changes_no_row(store: Any, intercept: bool, other: Any, place: int, bound: float) -> None:
    """Rows that are clipped, that are not, and that are nothing, next to each other."""
    table = np.random.default_rng(0).normal(size=(RECORDS, 5)) * np.logspace(-3, 3, RECORDS)[:, None]
    changed = table.copy()
    changed[place] = other
    one, two = (made(store(each), bound, intercept) for each in (table, changed))
    np.testing.assert_array_equal(np.delete(one, place, 0), np.delete(two, place, 0))
    assert (np.abs(two).astype(np.int64) ** 2).sum(axis=1).max() <= 4**22


@many
@given(st.lists(cells, min_size=5, max_size=5), st.sampled_from([0.01, 1.0, 1e6]))
def test_dense_and_sparse_storage_give_the_same_row(record: Any, bound: float) -> None:
    table = np.vstack([record, np.random.default_rng(0).normal(size=(3, 5))])
    np.testing.assert_array_equal(made(dense(table), bound, True), made(in_order(table), bound, True))


def made(features: Any, bound: float, intercept: bool) -> np.ndarray:
    count = features.shape[0]
    usable = np.ones(count, dtype=bool)
    found = gather(features, np.ones(count), np.zeros(count, int), norm_bound=bound, intercept=intercept, names=["me"],
                   usable=usable)  # fmt: skip
    return np.asarray(found.features.toarray() if found.sparse else found.features)


def arrays(folder: Path, table: np.ndarray, targets: np.ndarray) -> Any:
    np.save(folder / "a.npy", table)
    np.save(folder / "a.targets.npy", targets)
    return ArrayBlocks.of(folder / "a.npy", folder / "a.targets.npy", 2)


def parquet(folder: Path, table: np.ndarray, targets: np.ndarray) -> Any:
    import pyarrow as pa
    from pyarrow import parquet as files

    names = [f"x{column}" for column in range(table.shape[1])]
    columns = dict(zip(names, table.T, strict=True)) | {"y": [("no", "yes", "?")[target] for target in targets]}
    files.write_table(pa.table(columns), folder / "a.parquet", row_group_size=5)
    return ParquetBlocks.of(folder / "a.parquet", Encoder(tuple(Numeric(name) for name in names)), "y", ("no", "yes"))


@pytest.mark.parametrize("store", [arrays, parquet])
@many
@given(st.lists(cells, min_size=5, max_size=5), st.integers(0, RECORDS - 1), st.integers(0, 2))
def test_another_row_of_a_file_changes_no_row(tmp_path: Path, store: Any, other: Any, place: int, target: int) -> None:
    """Walked over and picked, and the same as in memory."""
    table = np.random.default_rng(0).normal(size=(RECORDS, 5))
    targets = np.arange(RECORDS) % 2
    changed, others = table.copy(), targets.copy()
    changed[place], others[place] = other, target
    found = [in_files(store(tmp_path, *each)) for each in ((table, targets), (changed, others))]
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(np.delete(one, place, 0), np.delete(two, place, 0))
    np.testing.assert_array_equal(found[0][0], made(table, 1.3, True))


def in_files(source: Any) -> list[np.ndarray]:
    loss = Logistic()
    encode, admit = partial(loss.encode, classes=2), partial(loss.admit, classes=2)
    shards = gather_blocks([source], encode, norm_bound=1.3, intercept=True, admit=admit)
    ((_, features, targets),) = [(agents, features.copy(), targets) for agents, features, targets in shards.blocks()]
    picked: Shards = shards.pick(np.arange(RECORDS), np.array([RECORDS]))
    np.testing.assert_array_equal(picked.features, features)
    np.testing.assert_array_equal(picked.targets, targets)
    return [features, targets]


def test_one_long_cell_does_not_fill_the_block_that_it_is_read_in(tmp_path: Path) -> None:
    """Arrays with offsets of 32 bits have room for 2 GB: of 20,000 notes of 100 kB one that was longer decided whether
    anybody's record could be read."""
    path = tmp_path / "notes.csv"
    path.write_bytes(b"x,note\n1,a\n2,b\n")
    assert set(read_lines(path).schema.types) == {pa.large_binary()}
