"""Where an owner's records come from: a file, or a database and a query that can only read.

What is said about a source travels: into logs, settings files and answers to others. So no `RecordSource` can hold a
password, and no error that leaves this module shows one, or a record's value. Such errors are raised after the one they
replace has been dealt with, not from within it: a logger that walks the chain of causes finds nothing either.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from dpadmm import _limits
from dpadmm._databases import HostileDatabase, check_journal
from dpadmm._fields import from_table
from dpadmm._tables import repeated
from dpadmm.datasets.files import SUFFIXES, read_cells, read_table
from dpadmm.errors import InputError
from dpadmm.federation.client.databases import (
    ADVICE,
    PASSWORD,
    classified,
    database_url,
    read_only,
    refuse_password,
    sqlite_file,
)

if TYPE_CHECKING:
    import pyarrow
    from sqlalchemy import Connection

_ROWS = 10_000  # fetched at a time: their Python objects are the dear ones, and are gone before the next arrive
_LARGE = 2**31  # bytes of text in a column, for which Arrow's usual type has no room
_NOT_CODE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(\w*)\$.*?\$\1\$", re.DOTALL)
_READS = re.compile(r"[(\s]*(select|with)\b", re.IGNORECASE)
_WHOLE = (bool, int)
_NUMBERS = (*_WHOLE, float, Decimal)
_TEXTS = (str, datetime, date, time, UUID)


@dataclass(frozen=True)
class RecordSource:
    """Where an owner's records are: a CSV or Parquet file, or what a query finds in a database.

    `place` is a path, or an SQLAlchemy URL without a password. PostgreSQL and SQLite are kept from writing whatever the
    query says; with other databases, what a query changes is at least never committed. No value keeps the records from
    being read, unless the query itself fails on it (a cast, a division by zero): write one that cannot.
    """

    place: str
    query: str | None = None

    def __post_init__(self) -> None:
        refuse_password(self.place)
        if not self._in_database:
            if self.query is not None:
                raise InputError(f"{self.place} is a file, and a query is for a database; leave the query out.")
            if Path(self.place).suffix.lower() not in SUFFIXES:
                raise InputError(
                    f"cannot read {self.place}: the name of a file ends in {' or '.join(SUFFIXES)}, "
                    "and the URL of a database has :// in it."
                )
            return
        database_url(self.place)
        if self.query is None:
            raise InputError(f"{self.place} is a database and needs a query, such as SELECT age, sick FROM patients.")
        code = _NOT_CODE.sub(" ", self.query).strip().rstrip("; \n")
        if ";" in code or not _READS.match(code):
            raise InputError(f"the query of {self.place} must be one statement that reads: SELECT or WITH.")

    @classmethod
    def parse(cls, text: str, query: str | None = None) -> RecordSource:
        """The source that was asked for; all but the reading is checked now, so that nobody waits for a spelling."""
        source = cls(text.strip(), query.strip() if query is not None else None)
        source._check_file()
        return source

    @property
    def _in_database(self) -> bool:
        return "://" in self.place

    def table(self, text: Collection[str] = ()) -> pyarrow.Table:
        """The records; columns in `text` are kept as written, as by `read_table`.

        A file keeps its order. A database has none, so its rows are sorted by all columns: the same records are the
        same table, bit for bit, and of two records the same one is first whatever the others are. Its numbers are int64
        or float64 (NUMERIC too), booleans 0 and 1, and dates ISO 8601, in UTC if they know their time zone.
        """
        self._check_file()
        if self.query is None:
            return _read(self.place, partial(read_table, text=text))
        return _from_database(self.place, self.query, text)

    def cells(self, text: Collection[str] = ()) -> pyarrow.Table | None:
        """The records of a CSV file with every cell as its bytes, so that no cell decides how another one is read; None
        where the source has types of its own and `table` reads each value by itself."""
        self._check_file()
        return _read(self.place, read_cells) if Path(self.place).suffix.lower() == ".csv" else None

    def _check_file(self) -> None:
        """SQLite would make an empty database of a name that is wrong."""
        file = sqlite_file(database_url(self.place)) if self._in_database else self.place
        if file is not None and not Path(file).is_file():
            raise InputError(f"there is no file {file}.")

    def absolute(self) -> RecordSource:
        """The same for a process that works in another folder."""
        if not self._in_database:
            return RecordSource(str(Path(self.place).absolute()))
        url = database_url(self.place)
        file = sqlite_file(url)
        if file is None:
            return self
        return RecordSource(url.set(database=str(Path(file).absolute())).render_as_string(), self.query)

    def __str__(self) -> str:
        return self.place

    def to_dict(self) -> dict[str, str]:
        """Plain JSON; what is not there is not written, as TOML has no null."""
        return {"place": self.place} | ({} if self.query is None else {"query": self.query})

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any], where: str = "the source") -> RecordSource:
        """The source written by `to_dict`; whether its file is there is seen when it is read."""
        return from_table(cls, entries, where)


def _read(path: str, read: Callable[[str], pyarrow.Table]) -> pyarrow.Table:
    """The table of a file; pyarrow's own words quote the line they stumble over, so they are replaced."""
    try:
        return read(path)
    except Exception as error:
        said = str(error)
    if said.startswith(f"{path} is empty"):
        raise InputError(said)
    if said.startswith(f"{path} has more than one column"):
        raise InputError(f"{path} has two columns of one name, or its first line is a record and does not name them.")
    raise InputError(
        f"cannot read {path}: it is damaged, or not what its name says. dpadmm.datasets.read_table says more about it; "
        "its message may show a record, so look at it where the file is."
    )


def _from_database(place: str, query: str, text: Collection[str]) -> pyarrow.Table:
    import sqlalchemy

    url = database_url(place)
    file = sqlite_file(url)
    most = _limits.CELLS if file is None else _most_cells(Path(file))
    connected = False
    try:
        if file is None and os.environ.get(PASSWORD):
            url = url.set(password=os.environ[PASSWORD])
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
        with engine.connect() as connection:
            connected = True
            return _fetch(read_only(connection, url), query, text, place, most)
    except InputError:
        raise
    except (ImportError, sqlalchemy.exc.NoSuchModuleError):
        trouble = f"no driver for {place} is installed; PostgreSQL's comes with pip install 'dpadmm[federation]'."
    except Exception as error:  # whatever it is, its text may hold SQL, a value, or how the database is reached
        if connected:
            advice = "Try it with the database's own tools, which say more."
            trouble = f"the query of {place} failed: {classified(error)}. {advice}"
        else:
            advice = f"Is the database there, and may this account log in? If it asks, {ADVICE}."
            trouble = f"cannot connect to {place}: {classified(error)}. {advice}"
    raise InputError(trouble)


def _most_cells(file: Path) -> int:
    """How many cells may come of an SQLite file, which is checked before SQLite opens it."""
    try:
        check_journal(file)
        return min(_limits.CELLS, 1_000_000 + _limits.CELLS_IN_DATABASE * file.stat().st_size)
    except HostileDatabase as error:
        raise InputError(f"{file} is not read: {error}.") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from None


def _fetch(connection: Connection, query: str, text: Collection[str], place: str, most: int) -> pyarrow.Table:
    """The rows in a table, sorted; a few at a time are Python objects."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # Without parameters a % is a %. The cursor stays on the server, which then takes one statement and no more.
    options = {"no_parameters": True, "stream_results": True}
    with connection.exec_driver_sql(query, execution_options=options) as result:
        columns = list(result.keys())
        _check_names(columns)
        chunks: list[list[Any]] = [[] for _ in columns]
        keys: list[list[pyarrow.Array]] = [[] for _ in range(2 * len(columns))]
        for rows in result.partitions(_ROWS):
            most -= len(rows) * len(columns)
            if most < 0:
                raise InputError(f"the query of {place} finds more values than are read; select fewer.")
            for place_of, (name, values) in enumerate(zip(columns, zip(*rows, strict=True), strict=True)):
                chunks[place_of].append(_array(values, name in text))
                for key, found in zip(keys[2 * place_of :], _keys(values, name in text), strict=False):
                    key.append(found)
    if not chunks[0]:
        raise InputError(f"the query of {place} finds no records.")
    names = [str(number) for number in range(len(keys))]
    by = pa.table([pa.chunked_array(key) for key in keys], names=names)
    order = pc.sort_indices(by, sort_keys=[(name, "ascending") for name in names])
    return pa.table([_joined(chunk) for chunk in chunks], names=columns).take(order)


def _check_names(columns: Sequence[str]) -> None:
    if not columns:
        raise InputError("the query gives no columns; name them after SELECT.")
    twice = repeated(columns)
    if twice is not None:
        raise InputError(f"the query gives more than one column named {twice!r}; rename one with AS.")


def _array(values: Sequence[Any], as_text: bool) -> pyarrow.Array | pyarrow.ChunkedArray:
    """Some rows' values of a column; texts of 2 GB and more are several arrays."""
    import pyarrow as pa

    known: list[Any] = [value if isinstance(value, _NUMBERS + _TEXTS) else None for value in values]
    if as_text:
        return pa.array([None if value is None else _written(value) for value in known], pa.string())
    if any(isinstance(value, _TEXTS) for value in known):
        return _as_text(known)
    kinds = set(map(type, known)) - {type(None)}
    if not kinds:
        return pa.nulls(len(values))
    if kinds.issubset(_WHOLE):
        try:
            return pa.array([None if value is None else int(value) for value in known], pa.int64())
        except OverflowError:
            pass  # an unsigned number, beyond int64
    return pa.array([None if value is None else _number(value) for value in known], pa.float64())


def _keys(values: Sequence[Any], as_text: bool) -> tuple[pyarrow.Array, pyarrow.Array]:
    """What a column's values are sorted by: numbers, then text, then what is missing.

    Which of two rows comes first, their own values alone say. As a column of one type they would not: where a third
    row has a text among numbers, "10" would come before "9", and another one of a person's records would be its first.
    """
    import pyarrow as pa

    numbers: list[float | None] = []
    texts: list[str | None] = []
    for value in values:
        is_number = not as_text and isinstance(value, _NUMBERS)
        numbers.append(_number(value) if is_number else None)
        written = isinstance(value, _TEXTS) or (isinstance(value, _NUMBERS) and not is_number)
        # Whole numbers that are one float64 are told apart by their digits.
        beyond = is_number and isinstance(value, int) and abs(value) >= 2**53
        texts.append(str(value) if beyond else _written(value) if written else None)
    return pa.array(numbers, pa.float64()), pa.array(texts, pa.large_string())


def _number(value: Any) -> float:
    """The nearest float64, NaN where there is none.

    Adding 0.0 leaves one zero: minus zero sorts as its equal, and would stand now before it and now behind.
    """
    try:
        return float(value) + 0.0
    except (OverflowError, ValueError):
        return math.nan


def _as_text(values: Sequence[Any]) -> pyarrow.Array | pyarrow.ChunkedArray:
    """A column of numbers and text: each number as it reads where it is one of many."""
    import pyarrow as pa

    def word(value: Any) -> str | None:
        if isinstance(value, bool | int):
            return str(int(value))
        if isinstance(value, float | Decimal):
            return _written(_number(value))
        return None if value is None else _written(value)

    return pa.array(map(word, values), pa.string())


def _joined(chunks: Sequence[pyarrow.Array | pyarrow.ChunkedArray]) -> pyarrow.ChunkedArray:
    """The chunks in the one type that has room for all; none depends on which row came in which chunk."""
    import pyarrow as pa

    types = {chunk.type for chunk in chunks} - {pa.null()}
    final = pa.float64() if len(types) > 1 else next(iter(types), pa.null())
    if pa.string() in types:
        final = pa.string()
        chunks = [chunk if chunk.type == final else _as_text(chunk.to_pylist()) for chunk in chunks]
        if sum(chunk.nbytes for chunk in chunks) >= _LARGE:  # no row may fill a column so that it cannot be sorted
            final = pa.large_string()
    parts = [part for chunk in chunks for part in getattr(chunk, "chunks", [chunk])]
    return pa.chunked_array([part.cast(final, safe=False) for part in parts], final)


def _written(value: Any) -> str:
    """A value as text, as a database and `datasets.tables.texts` would write it: 1.0 reads "1"."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)  # else the text would depend on the session's time zone
    return value.isoformat() if isinstance(value, date | time) else str(value)
