"""An owner's records: read once, encoded as agreed, and named by a digest that no order of rows or columns changes."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpadmm._arrays import BoolArray
from dpadmm.datasets.cells import person_cells
from dpadmm.errors import InputError, Refused
from dpadmm.federation.client.made_up import made_up
from dpadmm.federation.client.owner_folder import AgentSettings
from dpadmm.federation.client.sources import RecordSource
from dpadmm.owner.agreement import Agreement
from dpadmm.privacy.events import canonical
from dpadmm.privacy.events import digest as joined_digest
from dpadmm.problems.shards import Shards, gather
from dpadmm.spec.columns import Schema

if TYPE_CHECKING:
    import pyarrow


class Records:
    """An owner's records, encoded as agreed; read once, and kept in this process.

    In a dry run they are made up, and the owner's are not opened. A record with a value that cannot be used counts as
    zero. `unusable` is how many those are and `first_unusable` what is wrong with one of them: facts for the owner
    alone. Whether the records are as agreed depends on the names and types of columns only.
    """

    def __init__(self, schema: Schema, settings: AgentSettings, owner: str) -> None:
        self.schema = schema
        cells: pyarrow.Table | None = None
        if settings.dry_run is not None:  # the owner's own are not opened, whatever the settings name
            table = made_up(schema, settings.records, settings.dry_run, owner, settings.person)
        else:
            source = RecordSource.from_dict(settings.source)
            cells = source.cells()
            written = set(self.schema.text_columns) | ({settings.person} if settings.person else set())
            table = _table(source, written, cells)
        self.digest = digest(table)
        read = table if cells is None else cells
        self.persons: Sequence[bytes | None] | None = None
        if settings.person is not None:
            if settings.person not in read.column_names:
                raise InputError(f"there is no column {settings.person!r} that says whose record it is.")
            self.persons = person_cells(read, settings.person)
        self.features, self.targets, usable = self.schema.rows(read)
        self.usable: BoolArray = usable & np.isfinite(self.features).all(axis=1)
        self.first_unusable = None if self.usable.all() else _first_unusable(self.schema, read)

    @property
    def unusable(self) -> int:
        """How many records count as zero: never told to others."""
        return int(np.count_nonzero(~self.usable))

    def shards(self, agreement: Agreement, name: str) -> Shards:
        """As a run's terms want them: clipped, with an intercept, targets as its loss reads them."""
        run, count = agreement.run, len(self.features)
        loss = agreement.resolved.problem.loss
        if (loss.task == "regression") != (not self.schema.classes):
            raise Refused(f"loss {loss.name!r} is for {loss.task} targets, which the agreed columns do not have.")
        rows: dict[str, Any] = {"norm_bound": run.clip, "intercept": bool(run.intercept)}
        try:
            targets, known = loss.encode_all(self.targets, len(self.schema.classes))
        except InputError:  # of the number of classes, which is public
            raise Refused(f"loss {loss.name!r} is not for {len(self.schema.classes)} classes.") from None
        owner = np.zeros(count, dtype=np.int64)
        return gather(self.features, targets, owner, names=[name], usable=self.usable & known, **rows)


class UnfitRecords(Exception):
    """The records cannot be read as agreed: a file or database is missing, or a column, or one of another type."""


def _first_unusable(schema: Schema, table: pyarrow.Table) -> str | None:
    """What is wrong with one of the records that cannot be used. It shows a value: for the owner's eyes alone."""
    try:
        schema.encode(table)
    except InputError as error:
        return str(error)
    return None


def _table(source: RecordSource, text: Collection[str], cells: pyarrow.Table | None) -> pyarrow.Table:
    """The records in types of their own, by which they are named; where a CSV file cannot be read so, its cells."""
    try:
        return source.table(text)
    except InputError:
        if cells is None:
            raise
    return cells


def digest(table: pyarrow.Table) -> str:
    """Names the records: the same whatever the order of rows and of columns, chunking or encoding.

    A value counts as its text: whole numbers up to 2^53 are the same as integers, as floats and as written, and
    booleans are 0 and 1. Null is no text, not even the empty one. Whoever can guess all the records can check the guess
    against the digest: it names them, it does not hide them.
    """
    order = sorted(range(table.num_columns), key=table.column_names.__getitem__)
    table = table.select(order)
    rows: list[bytes] = []
    for batch in table.to_batches(max_chunksize=1 << 16):
        rows.extend(hashlib.sha256(row).digest() for row in _row_bytes(batch))
    rows.sort()
    return joined_digest(canonical(table.column_names), b"".join(rows))


def _row_bytes(batch: pyarrow.RecordBatch) -> list[bytes]:
    """Each row as bytes of its own: every value behind its length, so that ("a", "bc") is not ("ab", "c")."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.large_binary()
    cells = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        value = _canonical_text(name, column).cast(kind)
        length = pc.binary_length(value).cast(pa.large_string()).cast(kind)
        cells.append(pc.binary_join_element_wise(length, value, pa.scalar(b":", kind)).fill_null(b"-"))
    return pc.binary_join_element_wise(*cells, pa.scalar(b"", kind)).to_pylist()


def _canonical_text(name: str, column: pyarrow.Array) -> pyarrow.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    is_a = pa.types
    if is_a.is_nested(column.type) or is_a.is_interval(column.type):
        raise InputError(f"column {name!r} of type {column.type} holds no plain values; leave it out of the records.")
    if is_a.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if any(is_bytes(column.type) for is_bytes in (is_a.is_binary, is_a.is_large_binary, is_a.is_binary_view)):
        return column
    if is_a.is_fixed_size_binary(column.type):
        return column.cast(pa.binary())
    if is_a.is_boolean(column.type):
        column = column.cast(pa.int8())
    if not is_a.is_floating(column.type):
        return column.cast(pa.large_string())
    column = column.cast(pa.float64())
    whole = pc.and_(pc.equal(pc.floor(column), column), pc.less_equal(pc.abs(column), 2.0**53))
    integers = pc.if_else(whole, column, pa.scalar(None, pa.float64())).cast(pa.int64())
    return pc.coalesce(integers.cast(pa.large_string()), column.cast(pa.large_string()))
