"""A small federation, of which one owner is asked, and databases with records."""

import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from record_databases import Database

from dpadmm.federation.client.databases import PASSWORD


@pytest.fixture
def lived(small_federation: ModuleType, tmp_path: Path) -> Any:
    """Three owners with their files below one folder."""
    return small_federation.SmallFederation(tmp_path)


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    """An empty SQLite database."""
    path = tmp_path / "records.db"
    path.touch()
    return Database(f"sqlite:///{path}", lambda: sqlite3.connect(path), "?")


@pytest.fixture(scope="session")
def sources_database(postgres_server: Any) -> tuple[str, dict[str, Any]]:
    """A database for the sources alone, and how to connect to it."""
    import psycopg  # only these tests need it

    server, password = postgres_server
    place = {"host": "127.0.0.1", "port": server.port, "user": server.user, "password": password}
    with contextlib.closing(psycopg.connect(**place, dbname=server.database, autocommit=True)) as connection:
        connection.execute("CREATE DATABASE sources")
    return replace(server, database="sources").url(), {**place, "dbname": "sources"}


@pytest.fixture
def postgres(sources_database: Any, monkeypatch: pytest.MonkeyPatch) -> Database:
    """An empty PostgreSQL database, with its password in the environment."""
    import psycopg

    url, place = sources_database
    monkeypatch.setenv(PASSWORD, place["password"])
    database = Database(url, lambda: psycopg.connect(**place), "%s")
    database.run("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return database


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Any:
    """One of each kind."""
    return request.getfixturevalue(request.param)
