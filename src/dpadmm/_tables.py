"""Tables of named columns in CSV and Parquet files: what they would take in memory is checked before it is taken."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpadmm import _limits
from dpadmm._files import opened
from dpadmm.errors import InputError

if TYPE_CHECKING:
    import pyarrow

_FEW = 10_000_000  # cells that any file may have


def csv_bytes(raw: bytes, where: str, columns: int = _limits.COLUMNS, **options: Any) -> pyarrow.Table:
    """The table of a CSV text; every row has as many cells as the first line has names.

    Args:
        raw: The text.
        where: Names it in messages.
        columns: The most columns.
        options: Given to pyarrow.

    Raises:
        InputError: It has too many columns.
        pyarrow.ArrowException: It is no such table.
    """
    from pyarrow import csv

    check_columns(raw.partition(b"\n")[0], where, columns)
    return csv.read_csv(io.BytesIO(raw), **options)


def csv_file(path: Path, **options: Any) -> pyarrow.Table:
    """The same of a file of any length."""
    from pyarrow import csv

    with opened(path, "file") as file:
        check_columns(file.readline(_limits.HEADER + 1), str(path))
    return csv.read_csv(path, **options)


def check_columns(line: bytes, where: str, most: int = _limits.COLUMNS) -> None:
    """Of a first line: each column costs memory, whatever is in it."""
    count = line.count(b",") + 1
    if count > most or len(line) > _limits.HEADER:
        raise InputError(f"{where} has more than {most:,} columns, or a first line above {_limits.HEADER:,} bytes.")


def repeated(names: Iterable[str]) -> str | None:
    """A name that comes more than once, if there is one; in one pass, since there may be many."""
    return next((name for name, times in Counter(names).items() if times > 1), None)


def parquet_file(path: Path) -> pyarrow.Table:
    """The table of a Parquet file, which can repeat a value for nothing.

    Raises:
        InputError: It would take too much memory.
        pyarrow.ArrowException: It is no such file.
    """
    import pyarrow as pa
    from pyarrow import parquet

    with opened(path, "file") as file:
        size = file.seek(0, io.SEEK_END)
    with parquet.ParquetFile(path) as found:
        schema = found.schema_arrow
        _check_cells(found, size, path)
    texts = [each.name for each in schema if _is_text(each.type)]
    with parquet.ParquetFile(path, read_dictionary=texts) as found:  # each text once, and where it stands
        table = found.read()
    total = 0
    for place, column in enumerate(table.columns):
        if isinstance(column.type, pa.DictionaryType) and _is_text(column.type.value_type):
            total += sum(map(_text_bytes, column.chunks))
            if total > _limits.DATA:
                raise InputError(f"{path}: its texts take more than {_limits.DATA:,} bytes when they are written out.")
            if column.type != schema.field(place).type:
                table = table.set_column(place, schema.field(place), column.cast(schema.field(place).type))
    return table


def text_columns(schema: pyarrow.Schema) -> list[str]:
    """The columns that a file can say once for many rows."""
    return [each.name for each in schema if _is_text(each.type)]


def written_out(batch: pyarrow.RecordBatch, schema: pyarrow.Schema, where: str) -> pyarrow.RecordBatch:
    """Some rows whose texts were read as dictionaries, in the types of their file.

    Raises:
        InputError: The texts would take too much memory.
    """
    import pyarrow as pa

    coded = [name for name in batch.schema.names if isinstance(batch.schema.field(name).type, pa.DictionaryType)]
    texts = [batch.column(name) for name in coded if _is_text(batch.schema.field(name).type.value_type)]
    total = sum(map(_text_bytes, texts))
    if total > _limits.DATA:
        raise InputError(f"{where}: its texts take more than {_limits.DATA:,} bytes when they are written out.")
    return batch.cast(pa.schema([schema.field(name) for name in batch.schema.names]))


def _check_cells(found: Any, size: int, path: Path) -> None:
    about = found.metadata
    cells = about.num_rows * about.num_columns
    if any(each.type.num_fields for each in found.schema_arrow):  # lists have any number of values in a row
        groups = (about.row_group(group) for group in range(about.num_row_groups))
        cells = max(cells, sum(group.column(k).num_values for group in groups for k in range(about.num_columns)))
    if about.num_columns > _limits.COLUMNS or cells > min(_limits.CELLS, _FEW + _limits.CELLS_PER_BYTE * size):
        raise InputError(f"{path}: {size:,} bytes hold {cells:,} values in {about.num_columns:,} columns; too many.")


def _is_text(kind: Any) -> bool:
    import pyarrow.types as is_

    return any(test(kind) for test in (is_.is_string, is_.is_binary, is_.is_large_string, is_.is_large_binary))


def _text_bytes(chunk: Any) -> int:
    """What the texts of a column come to, each as often as it stands there."""
    import pyarrow.compute as pc

    lengths = pc.cast(pc.binary_length(chunk.dictionary), "int64")
    return int(pc.sum(lengths.take(chunk.indices)).as_py() or 0)
