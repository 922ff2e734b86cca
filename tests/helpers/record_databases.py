"""Databases with records to read, and refusals that must not repeat them."""

import contextlib
import traceback

import pytest

from dpadmm.errors import InputError
from dpadmm.federation.client.sources import RecordSource

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


def refusal(source, *places):
    """What the reading of a source is refused with; the marker must be nowhere in it, nor behind it."""
    with pytest.raises(InputError) as caught:
        source.table(*places)
    keep_quiet(caught.value)
    return str(caught.value)


def keep_quiet(error):
    """The marker must be nowhere in an error, nor in those it came of."""
    shown = "".join(traceback.format_exception(error))
    assert MARKER not in shown
    while error is not None:
        assert MARKER not in f"{error} {error!r} {error.args} {vars(error)}"
        error = error.__context__ or error.__cause__
