"""Reading and writing whole files: what is written appears complete or not at all, what cannot be read says where."""

from __future__ import annotations

import csv
import io
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from dpadmm.errors import InputError


@contextmanager
def atomic_open(path: Path, *, durable: bool = False) -> Iterator[IO[bytes]]:
    """A file to write bytes to, renamed to `path` at the end: no reader sees half of it, and a failure leaves nothing.

    With `durable` the content is on disk before the file is renamed, so that a power cut leaves the old one or this.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with beside.open("wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def atomic_write(path: Path, content: bytes | str, *, durable: bool = False) -> None:
    """Writes a whole file; text is written as it is, in UTF-8."""
    with atomic_open(path, durable=durable) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_json(path: Path, value: Any, indent: int = 2) -> None:
    """Writes a whole JSON file."""
    atomic_write(path, json.dumps(value, indent=indent) + "\n")


def csv_text(rows: Iterable[Sequence[Any]], end: str = "\r\n") -> str:
    """Rows as CSV; each of them ends in `end`."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end).writerows(rows)
    return text.getvalue()


def read_text(path: Path, what: str, kind: str = "text") -> str:
    """The text of a file; `what` names the file's role in messages, as in "spec file", and `kind` what it must be."""
    try:
        return path.read_text()
    except OSError as error:
        raise InputError(f"{what} {str(path)!r} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{what} {str(path)!r} is not {kind}: it is not text in UTF-8.") from None


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The tables of a TOML text."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where} is not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{where} is not TOML: it is nested too deeply.") from None


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The tables of a TOML file."""
    return parse_toml(read_text(path, what, "TOML"), f"{what} {str(path)!r}")


def parse_json(text: str, where: str) -> Any:
    """What a JSON text holds."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {error}.") from None
    except RecursionError:
        raise InputError(f"{where} is not JSON: it is nested too deeply.") from None


def read_json(path: Path, what: str) -> Any:
    """What a JSON file holds."""
    return parse_json(read_text(path, what, "JSON"), f"{what} {str(path)!r}")
