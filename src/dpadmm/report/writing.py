"""A report as a file: written whole or not at all, and never over anything that is not a report."""

from __future__ import annotations

import os
from pathlib import Path

from dpadmm.errors import InputError
from dpadmm.report.document import Document
from dpadmm.report.page import html

MARK = b'<meta name="generator" content="dpadmm">'
_HEAD = 100_000  # bytes in which the mark must be


def check(path: Path, force: bool = False) -> None:
    """Before the work: whether the file may be written."""
    if path.is_dir():
        raise InputError(f"-o {str(path)!r} is a folder; name a file, such as report.html.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"-o {str(path)!r}: there is no folder {str(path.absolute().parent)!r}.")
    if path.exists() and not force:
        with path.open("rb") as file:
            if MARK not in file.read(_HEAD):
                raise InputError(f"-o {str(path)!r} is not a report of dpadmm; --force writes over it all the same.")


def write(document: Document, path: Path) -> int:
    """The page's size in bytes."""
    page = html(document).encode()
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(page)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InputError(f"-o {str(path)!r} cannot be written: {error.strerror}.") from None
    return len(page)
