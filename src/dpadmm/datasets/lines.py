"""A CSV file line by line: a record is a line, and no line decides how another one is read.

A quotation mark that is never closed, a cell of megabytes or a byte that is no text spoils its own line and nothing
else. So a value cannot have line breaks in it. Files are read in blocks, which hold whole lines.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from dpadmm.errors import InputError

if TYPE_CHECKING:
    import pyarrow

_LINES = 20_000  # read at a time: their Python objects are the dear ones, and are gone before the next arrive
_MARK = b"\xef\xbb\xbf"  # with which some programs begin a file
_BYTES = "latin-1"  # gives every byte a character, and back


def read_lines(path: Path) -> pyarrow.Table:
    """The table of a CSV file, every cell as its bytes.

    Args:
        path: The file; its first line names the columns.

    Returns:
        A record for every line, in their order, so that their number does not depend on what they hold. One with too
        few or too many cells, an empty one too, or with quotation marks that do not fit, is a record without values.

    Raises:
        InputError: The first line names no columns.
        OSError: The file cannot be read.
    """
    import pyarrow as pa

    with path.open("rb") as file:
        lines = (line.rstrip(b"\r\n") for line in file)
        names = _cells(next(lines, b"").removeprefix(_MARK))
        if names is None or not any(names):
            raise InputError(f"{path}: the first line names no columns.")
        # Large: a block of 2 GB has no place in an array of the other kind, and one long cell would fill it up.
        schema = pa.schema([(name.decode(errors="replace"), pa.large_binary()) for name in names])
        return pa.Table.from_batches(list(_batches(lines, schema)), schema)


def _batches(lines: Iterator[bytes], schema: pyarrow.Schema) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa

    while block := list(islice(lines, _LINES)):
        columns = zip(*_records(block, len(schema)), strict=True)
        yield pa.record_batch([pa.array(column, pa.large_binary()) for column in columns], schema=schema)


def _records(lines: Iterable[bytes], width: int) -> Iterator[list[bytes] | list[None]]:
    for line in lines:
        cells = _cells(line)
        yield cells if cells is not None and len(cells) == width else [None] * width


def _cells(line: bytes) -> list[bytes] | None:
    """What stands between the commas; None where quotation marks do not fit, or a quoted cell is very long."""
    if b'"' not in line:
        return line.split(b",") if line else None
    try:
        (found,) = csv.reader([line.decode(_BYTES)], strict=True)
    except (csv.Error, ValueError):
        return None
    return [cell.encode(_BYTES) for cell in found]
