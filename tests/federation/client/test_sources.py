"""Where records come from: files and databases, how a source is written down, and what cannot be one."""

import json
import sqlite3
import sys
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from record_databases import MARKER, PLAIN, ROWS, SELECT, refusal

from dpadmm.datasets import read_table
from dpadmm.errors import InputError
from dpadmm.federation.client.sources import RecordSource

# -- files -------------------------------------------------------------------------------------------------------------


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


# -- what a source says of itself --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_name_of_postgresql_means_the_one_driver(postgres, scheme):
    postgres.run(PLAIN, rows=ROWS)
    place = postgres.place.replace("postgresql+psycopg", scheme)
    assert RecordSource.parse(place, SELECT).table().num_rows == len(ROWS)


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


# -- the server that these tests use -----------------------------------------------------------------------------------


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
