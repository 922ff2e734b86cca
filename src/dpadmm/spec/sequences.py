"""Penalties and noise that vary as somebody lists them, as the text that a spec and a federation's terms hold.

A table has a row for each round (of a recipe with several phases, for each cycle or time of the phase) and a column for
each agent, or one column for all. It may be an array in Python, lists in a spec file, or a file: the numbers themselves
go into the text, and never the path.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpadmm._files import read_bytes, read_text
from dpadmm.errors import InputError

FIELDS = ("rho_schedule", "noise_schedule")
"""The fields of a run that take such a table."""

NAME = "sequence"  # of the members of both registries
MOST = 1_000_000  # numbers: those that rounds can be planned for one by one


def is_table(field: str, value: Any) -> bool:
    """Whether a value of this field is a table, and not a name or a part."""
    return field in FIELDS and (isinstance(value, list | tuple) or hasattr(value, "__array__"))


def table_text(field: str, table: Any) -> str:
    """`sequence:AGENTS:NUMBERS`, from rows of numbers, or from one number a row.

    Raises:
        InputError: it is no such table.
    """
    import numpy as np  # which the command line's help does without

    kind = field.replace("_", " ")
    try:
        rows = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{kind}: rows must be numbers, and as many in each row.") from None
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or rows.size == 0:
        raise InputError(f"{kind}: a table of shape {rows.shape}; a row for each round, a column for each agent.")
    if rows.size > MOST:
        raise InputError(f"{kind}: {rows.size:,} numbers; {MOST:,} are the most.")
    return f"{NAME}:{rows.shape[1]}:{','.join(repr(float(number)) for number in rows.flat)}"


def from_file(field: str, given: str, base: Path | None = None) -> str:
    """The text of the table in the file that `@FILE` names; any other text as it is.

    Files are .npy, or text with a line for each round, numbers with commas or spaces between them, and # before what is
    no number.

    Args:
        field: Of a run.
        given: What stands there.
        base: The folder that relative paths start from.

    Raises:
        InputError: the file cannot be read, or holds something else.
    """
    return table_text(field, _read(field, given, base)) if given.startswith("@") else given


def numbers_in_file(field: str, given: str) -> tuple[float, ...]:
    """All numbers of the file that `@FILE` names, row after row.

    Raises:
        InputError: the file cannot be read, or holds something else.
    """
    import numpy as np

    rows = _read(field, given, None)
    return tuple(np.ravel(rows).tolist()) if hasattr(rows, "__array__") else tuple(n for row in rows for n in row)


def _read(field: str, given: str, base: Path | None) -> Any:
    from dpadmm._archives import one_array  # imports NumPy

    path = (base or Path()) / given[1:]
    try:
        if path.suffix.lower() == ".npy":
            return one_array(read_bytes(path, field.replace("_", " ")))
        lines = read_text(path, field.replace("_", " ")).removeprefix("\ufeff").splitlines()
        return [_row(line) for line in lines if line.partition("#")[0].strip()]
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{field.replace('_', ' ')} {given!r}: the file cannot be read: {error}.") from None


def _row(line: str) -> Sequence[float]:
    return [float(number) for number in line.partition("#")[0].replace(",", " ").replace(";", " ").split()]
