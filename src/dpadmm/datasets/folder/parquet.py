"""One agent's records in a Parquet file: encoded block by block, by public facts alone.

Parquet is compressed by row groups, so a single row costs the decoding of its group. Full passes are fine; whoever
picks rows at random (mini-batches) had better convert to arrays first (`dpadmm.datasets.convert`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpadmm._arrays import IntArray
from dpadmm._tables import text_columns, written_out
from dpadmm.datasets.cells import class_cells, class_numbers, number_cells, numbers
from dpadmm.datasets.encoding import Encoder
from dpadmm.errors import InputError, unknown
from dpadmm.problems.array_files import Block, StoredFile

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import parquet

_DECODED = 16_384  # rows of a group that are decoded together when some are picked
_BUFFER = 2**20  # bytes of a column that are read ahead, instead of a whole group's


@dataclass(frozen=True)
class ParquetBlocks:
    """Records in a Parquet file. `classes` are the public labels of the target column; None where it holds values.

    strict: whether a value that cannot be used is an error; else features and target are NaN, or the class is -1.
    """

    file: StoredFile
    encoder: Encoder
    target: str
    classes: tuple[str, ...] | None
    groups: tuple[int, ...]  # where each row group begins, and where the last one ends
    strict: bool = True

    @classmethod
    def of(cls, path: Path, encoder: Encoder, target: str, classes: tuple[str, ...] | None) -> ParquetBlocks:
        stored = StoredFile.of(path)
        with _opened(stored) as file:
            known = file.metadata
            sizes = [known.row_group(group).num_rows for group in range(known.num_row_groups)]
            columns = file.schema_arrow.names
        if not sum(sizes):
            raise InputError(f"{path} is empty: it has no records.")
        for name in (*(column.name for column in encoder.columns), target):
            if name not in columns:
                raise InputError(f"{path}: {unknown('column', name, columns)}")
        return cls(stored, encoder, target, classes, (0, *np.cumsum(sizes).tolist()))

    @property
    def name(self) -> str:
        return self.file.path.name

    @property
    def count(self) -> int:
        return self.groups[-1]

    @property
    def width(self) -> int:
        return len(self.encoder.feature_names)

    def walk(self, rows: int) -> Iterator[Block]:
        import pyarrow as pa

        held: list[pyarrow.RecordBatch] = []
        start = size = 0
        with _opened(self.file) as file:
            for batch in self._batches(file, batch_size=min(rows, self.count)):
                held.append(batch)
                size += batch.num_rows
                while size >= rows:  # Arrow may end a batch at the end of a group
                    table = pa.Table.from_batches(held)
                    yield self._encoded(table.slice(0, rows), start)
                    held, start, size = table.slice(rows).to_batches(), start + rows, size - rows
        if size:
            yield self._encoded(pa.Table.from_batches(held), start)

    def pick(self, rows: IntArray, out: np.ndarray) -> Block:
        if rows.size and not (rows.min() >= 0 and rows.max() < self.count):
            raise IndexError(f"{self.name} has the rows 0 to {self.count - 1}; asked for {rows.min()} to {rows.max()}")
        if out.dtype != np.float64 or out.shape != (rows.size, self.width):
            out = np.empty((rows.size, self.width))
        targets = np.empty(rows.size, np.float64 if self.classes is None else np.int64)
        order = np.argsort(rows, kind="stable")
        wanted = rows[order]
        with _opened(self.file) as file:
            for group in np.unique(np.searchsorted(self.groups, wanted, side="right") - 1).tolist():
                start = self.groups[group]
                for batch in self._batches(file, batch_size=_DECODED, row_groups=[group]):
                    here = slice(*np.searchsorted(wanted, (start, start + batch.num_rows)))
                    if here.start < here.stop:
                        found = self._encoded(_table(batch).take(wanted[here] - start), start)
                        out[order[here]], targets[order[here]] = found
                    start += batch.num_rows
        return out, targets

    def digest(self) -> str:
        return self.file.digest()

    def lenient(self) -> ParquetBlocks:
        return replace(self, strict=False)

    def _batches(self, file: parquet.ParquetFile, **which: Any) -> Iterator[pyarrow.RecordBatch]:
        """Rows of the file; each text is read once, and written out where that takes no more than it may."""
        from pyarrow import parquet

        with parquet.ParquetFile(self.file.path) as plain:
            types = plain.schema_arrow
        for batch in file.iter_batches(columns=self._columns(), **which):
            yield written_out(batch, types, str(self.file.path))

    def _columns(self) -> list[str]:
        return [*(column.name for column in self.encoder.columns), self.target]

    def _encoded(self, table: pyarrow.Table, start: int) -> Block:
        """Features and targets; rows of messages are counted from `start`, which is exact in a walk."""
        if not self.strict:
            features, usable = self.encoder.rows(table)
            features[~usable] = np.nan
            if self.classes is None:
                return features, number_cells(table, self.target)
            return features, class_cells(table, self.target, self.classes)
        try:
            features = self.encoder.transform(table, start)
            if self.classes is None:
                return features, numbers(table, self.target, start)
            return features, class_numbers(table, self.target, self.classes, start)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None


def schema(path: Path) -> list[str]:
    """The names of a file's columns."""
    with _opened(StoredFile.of(path)) as file:
        return list(file.schema_arrow.names)


def _table(batch: pyarrow.RecordBatch) -> pyarrow.Table:
    import pyarrow as pa

    return pa.Table.from_batches([batch])


def _opened(stored: StoredFile) -> parquet.ParquetFile:
    import pyarrow as pa
    from pyarrow import parquet

    if stored.size == 0:
        raise InputError(f"{stored.path} is empty.")
    stored.open().close()  # it is the file that was checked
    try:
        with parquet.ParquetFile(stored.path) as found:
            texts = text_columns(found.schema_arrow)
        return parquet.ParquetFile(stored.path, buffer_size=_BUFFER, read_dictionary=texts)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot read {stored.path}: {error}") from None
