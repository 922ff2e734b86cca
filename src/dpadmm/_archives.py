"""Compressed files and archives of arrays: what they would become is checked before it is."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from collections.abc import Collection
from pathlib import Path
from tokenize import TokenError
from typing import IO
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.lib import format as npy

from dpadmm import _limits
from dpadmm._files import opened
from dpadmm.errors import InputError

_SMALL = 1 << 20  # bytes that any file may become
_GZIP = b"\x1f\x8b"  # how every gzip file begins
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# What NumPy and its archives raise for bytes that are none of theirs.
UNREADABLE = (
    *(OSError, ValueError, EOFError, KeyError, RuntimeError, TypeError, MemoryError),
    *(NotImplementedError, BadZipFile, struct.error, zlib.error, IndexError),
    *(SyntaxError, TokenError),  # of the header of an array
)


def unpacked(raw: bytes, where: str, most: int = _limits.DATA) -> bytes:
    """The bytes of a file, unpacked if it is compressed by gzip: by what it holds, since downloads misname it.

    Args:
        raw: The file's bytes.
        where: Names it in messages.
        most: The most bytes that it may become.

    Raises:
        InputError: It is damaged, or would become too large.
    """
    if not raw.startswith(_GZIP):
        return raw
    most = min(most, _limits.DATA, _limits.RATIO * len(raw) + _SMALL)
    found = _first(raw, where, most + 1)
    if len(found) > most:
        raise InputError(
            f"cannot read {where}: its {len(raw):,} bytes unpack to more than {most:,}; unpack it by hand if that is "
            f"no mistake."
        )
    return found


def beginning(raw: bytes, where: str, count: int) -> bytes:
    """The first bytes of a file, unpacked if it is compressed."""
    return _first(raw, where, count) if raw.startswith(_GZIP) else raw[:count]


def _first(raw: bytes, where: str, count: int) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            return file.read(count)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {where}: {error}; fetch or copy it again.") from None


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an npz file whose members are not compressed, so that they take no more than the file does.

    Raises:
        ValueError: It is damaged, holds objects (which would have code run), or asks for more than it may.
        InputError: It cannot be opened.
    """
    with opened(path, "file") as file:
        return _arrays(file, None)[0]


def some_arrays(raw: bytes, names: Collection[str]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Those arrays of an npz file that are asked for, compressed or not, and the names of all of them.

    Raises:
        ValueError: As `read_arrays`.
    """
    return _arrays(io.BytesIO(raw), names)


def _arrays(file: IO[bytes], names: Collection[str] | None) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays of these names, or all arrays of an archive that is not compressed; and the names of all."""
    try:
        with ZipFile(file) as archive:
            size = _size(file)
            _check_members(archive, size, size if names is None else min(_limits.DATA, _limits.RATIO * size))
            members = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
            found = {}
            for name, entry in members.items():
                if names is None or name in names:
                    with archive.open(entry) as member:
                        found[name] = _array(member, entry.file_size)
            return found, list(members)
    except UNREADABLE as error:
        raise ValueError(str(error) or type(error).__name__) from None


def one_array(raw: bytes) -> np.ndarray:
    """The array of a npy file.

    Raises:
        ValueError: As `read_arrays`.
    """
    try:
        return _array(io.BytesIO(raw), len(raw))
    except UNREADABLE as error:
        raise ValueError(str(error) or type(error).__name__) from None


def _size(file: IO[bytes]) -> int:
    place = file.tell()
    end = file.seek(0, io.SEEK_END)
    file.seek(place)
    return end


def _check_members(archive: ZipFile, size: int, most: int) -> None:
    members = archive.infolist()
    total = sum(entry.file_size for entry in members)
    if len(members) > _limits.MEMBERS or len({entry.filename for entry in members}) < len(members):
        raise ValueError(f"it has {len(members):,} members, or two of one name")
    if total > most:
        raise ValueError(f"its {size:,} bytes would become {total:,}, and {most:,} are the most")


def _array(member: IO[bytes], size: int) -> np.ndarray:
    """An array as its header declares it, which must be what the member has."""
    version = npy.read_magic(member)
    if version not in _HEADERS:
        raise ValueError(f"an array of version {version}")
    shape, fortran, kind = _HEADERS[version](member)
    count = math.prod(shape)
    declared = count * kind.itemsize
    if kind.hasobject:
        raise ValueError("Object arrays cannot be read: code would have to run")
    if declared != size - member.tell() or count > size:
        raise ValueError(f"an array of shape {shape} takes {declared:,} bytes, and has {size - member.tell():,}")
    return np.ndarray(shape, kind, bytearray(member.read(declared)), order="F" if fortran else "C")
