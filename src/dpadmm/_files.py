"""Reading and writing whole files: what is written appears complete or not at all, what cannot be read says where.

Whatever is read here may come from somebody else: it has a size (`_limits`), which is checked before it is read, and
JSON and TOML have a depth and a number of values as well. What exceeds them is an `InputError` of one line.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from dpadmm import _limits
from dpadmm._plain import cell
from dpadmm.errors import InputError

_WAITS_NOT = getattr(os, "O_NONBLOCK", 0)  # a named pipe must not keep us waiting
# Texts and comments of TOML: what is left without them says how much there is to parse. A text must end here where it
# ends for tomllib (at a quote that is not escaped; of four or five quotes the first ones belong to it), or the rest
# would be hidden. Each alternative is possessive, and a text without an end takes all that is left, so that this takes
# one pass.
_TEXTS = re.compile(
    r'#[^\n]*+|"""(?:[^"\\]++|\\(?s:.)|"(?!""))*+(?:"{3,5}|\\?\Z)|\'\'\'(?s:.*?)(?:\'{3,5}|\Z)'
    r'|"(?:[^"\\\n]++|\\.)*+"|\'[^\'\n]*+\'',
)
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{_limits.KEY_PARTS}}}")


@contextmanager
def atomic_open(path: Path, *, durable: bool = False) -> Iterator[IO[bytes]]:
    """A file to write bytes to, renamed to `path` at the end: no reader sees half of it, and a failure leaves nothing.

    With `durable` the content is on disk before the file is renamed, so that a power cut leaves the old one or this.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")  # in a folder of several users, too
    try:
        with beside.open("xb") as file:  # what is there already, such as a link, is somebody else's
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
    """Rows as CSV; each of them ends in `end`, and no text is a formula to those who open it in a spreadsheet."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end).writerows([cell(value) for value in row] for row in rows)
    return text.getvalue()


@contextmanager
def opened(path: Path, what: str, limit: int | None = None) -> Iterator[IO[bytes]]:
    """A file to read bytes from, which is a file and not longer than it may be.

    Args:
        path: The file.
        what: Its role in messages, as in "spec file".
        limit: The most bytes; None for as many as it has, where a reader takes it part by part.

    Raises:
        InputError: It is missing, something else (a folder, a pipe, a device), or too long.
    """
    try:
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _WAITS_NOT))  # noqa: SIM115
    except OSError as error:
        raise InputError(f"{what} {str(path)!r} cannot be read: {error.strerror}.") from None
    except ValueError:  # a zero character
        raise InputError(f"{what} {str(path)!r} cannot be read: that is no name of a file.") from None
    with file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{what} {str(path)!r} cannot be read: it is not a file.")
        if limit is not None and found.st_size > limit:
            raise _too_long(f"{what} {str(path)!r}", found.st_size, limit)
        yield file


def read_bytes(path: Path, what: str, limit: int = _limits.TEXT) -> bytes:
    """The bytes of a file."""
    with opened(path, what, limit) as file:
        try:
            found = file.read(limit + 1)
        except OSError as error:
            raise InputError(f"{what} {str(path)!r} cannot be read: {error.strerror}.") from None
    if len(found) > limit:  # it has grown meanwhile, or said it had no size
        raise _too_long(f"{what} {str(path)!r}", len(found), limit)
    return found


def _too_long(what: str, size: int, limit: int) -> InputError:
    return InputError(f"{what} has {size:,} bytes, and at most {limit:,} are read; is it the right one?")


def read_text(path: Path, what: str, kind: str = "text", limit: int = _limits.TEXT) -> str:
    """The text of a file, its line ends as one; `what` names the file's role in messages, as in "spec file", and `kind`
    what it must be."""
    try:
        text = read_bytes(path, what, limit).decode()
    except UnicodeDecodeError:
        raise InputError(f"{what} {str(path)!r} is not {kind}: it is not text in UTF-8.") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The tables of a TOML text."""
    try:
        _check_amount(_TEXTS.sub("s", text))
        found = tomllib.loads(text)
        _check_depth(found)
    except ValueError as error:  # a TOMLDecodeError, or a number of thousands of digits
        raise InputError(f"{where} is not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{where} is not TOML: it is nested too deeply.") from None
    return found


def _check_amount(bare: str) -> None:
    """Of a TOML text without its texts, before anything is made of it."""
    if sum(map(bare.count, "=,[{")) > _limits.TOML_VALUES:
        raise ValueError(f"it has more than {_limits.TOML_VALUES:,} values.")
    if _LONG_KEY.search(bare):
        raise ValueError(f"a key has more than {_limits.KEY_PARTS} parts.")


def read_toml(path: Path, what: str, limit: int = _limits.TEXT) -> dict[str, Any]:
    """The tables of a TOML file."""
    return parse_toml(read_text(path, what, "TOML", limit), f"{what} {str(path)!r}")


def json_value(text: str | bytes, values: int = _limits.VALUES, **hooks: Any) -> Any:
    """What a JSON text holds.

    Args:
        text: Anything, from anybody.
        values: The most values inside it.
        hooks: Given to `json.loads`.

    Raises:
        ValueError: It holds nothing, too much, or is nested too deeply.
    """
    parts = sum(map(text.count, ",[{")) if isinstance(text, str) else sum(map(text.count, (b",", b"[", b"{")))
    if parts > values:  # each value but the first stands behind one of these; within texts they count as well
        raise ValueError(f"it has more than {values:,} values")
    try:
        found = json.loads(text, **hooks)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_depth(found)
    return found


def _check_depth(found: Any) -> None:
    """Level by level: what is made of a value later may go into its depth by calling itself."""
    level = [found] if isinstance(found, dict | list) else []
    for _ in range(_limits.DEPTH):
        inside = [each.values() if isinstance(each, dict) else each for each in level]
        level = [part for parts in inside for part in parts if isinstance(part, dict | list)]
        if not level:
            return
    raise ValueError("it is nested too deeply")


def parse_json(text: str, where: str) -> Any:
    """What a JSON text holds."""
    try:
        return json_value(text)
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {error}.") from None


def read_json(path: Path, what: str, limit: int = _limits.RESULT) -> Any:
    """What a JSON file holds."""
    return parse_json(read_text(path, what, "JSON", limit), f"{what} {str(path)!r}")
