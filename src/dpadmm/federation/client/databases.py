"""How an owner's database is reached: by a URL without a password, and so that a query can only read.

No error that leaves this module shows a password, or a record's value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dpadmm import _limits
from dpadmm._databases import restrain
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection

PASSWORD = "DPADMM_DATABASE_PASSWORD"
ADVICE = f"a password goes into the environment variable {PASSWORD} or, with PostgreSQL, PGPASSWORD or ~/.pgpass"
_DRIVERS = {"postgres": "postgresql+psycopg", "postgresql": "postgresql+psycopg"}
_SECRET = re.compile(r"(password|passwd|pwd)\s*=", re.IGNORECASE)


def refuse_password(place: str) -> None:
    """Not by the URL's grammar alone: a password in a URL that is wrong elsewhere is a password too."""
    rest = place.partition("://")[2] or place
    if ":" in rest.rpartition("@")[0] or _SECRET.search(place):
        raise InputError(f"the source has a password in it (a : before an @, or password=); take it out: {ADVICE}.")


def database_url(place: str) -> URL:
    try:
        from sqlalchemy import make_url
        from sqlalchemy.exc import ArgumentError
    except ImportError:
        raise InputError("reading a database needs SQLAlchemy: pip install 'dpadmm[federation]'.") from None
    try:
        url = make_url(place)
    except (ArgumentError, ValueError):  # the latter for a port that is no number
        raise InputError(
            f"{place} is no URL of a database; one looks like postgresql://user@host:5432/name or sqlite:///path."
        ) from None
    return url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))


def sqlite_file(url: URL) -> str | None:
    """The file of an SQLite database; None if the database is elsewhere."""
    if url.get_backend_name() != "sqlite":
        return None
    if url.database in (None, "", ":memory:"):
        raise InputError("an SQLite database in memory has no records; name its file: sqlite:///path.")
    return url.database


def classified(error: Exception) -> str:
    """The kind of an error in the driver's terms, and nothing that depends on a record."""
    origin = getattr(error, "orig", None) or error
    code = getattr(origin, "sqlstate", None) or getattr(origin, "sqlite_errorname", None)
    return f"{type(origin).__name__} ({code})" if code else type(origin).__name__


def read_only(connection: Connection, url: URL) -> Connection:
    if url.get_backend_name() == "sqlite":
        driver: Any = connection.connection.dbapi_connection
        restrain(driver, _limits.QUERY)  # a view in the file may never end
        connection.exec_driver_sql("PRAGMA query_only=ON")
        driver.text_factory = lambda raw: raw.decode(errors="replace")  # text that is no UTF-8 is no error
    if url.get_backend_name() == "postgresql":
        connection = connection.execution_options(postgresql_readonly=True)
        _take_any_value(connection.connection.dbapi_connection)
    return connection


def _take_any_value(driver: Any) -> None:
    """What Python has no value for (a date such as infinity, JSON of any depth) is missing; it must not keep the other
    records from us."""
    from psycopg.types import datetime as known
    from psycopg.types.string import TextLoader

    def lenient(loader: type[Any]) -> type[Any]:
        class Lenient(loader):  # type: ignore[misc]
            def load(self, data: Any) -> Any:
                try:
                    return super().load(data)
                except Exception:
                    return None

        return Lenient

    for name, loader in (
        ("date", known.DateLoader),
        ("timestamp", known.TimestampLoader),
        ("timestamptz", known.TimestamptzLoader),
        ("time", known.TimeLoader),
        ("timetz", known.TimetzLoader),
        ("interval", known.IntervalLoader),
        ("json", TextLoader),
        ("jsonb", TextLoader),
    ):
        driver.adapters.register_loader(name, lenient(loader))
