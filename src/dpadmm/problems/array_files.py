"""One agent's records in files, read a part at a time.

`Blocks` is what `StoredShards` asks of a reader. `ArrayBlocks` reads NumPy's .npy files; its sibling for Parquet needs
an encoder and lives with the data sets. A reader holds names and sizes, no records and no open file, so it can be
pickled.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dpadmm._archives import UNREADABLE
from dpadmm._arrays import IntArray
from dpadmm.errors import InputError
from dpadmm.problems.rows import pick

Block = tuple[NDArray[Any], NDArray[Any]]


class Blocks(Protocol):
    """Reads one agent's records; targets are class numbers (int64) or values (float64)."""

    @property
    def name(self) -> str:
        """The file, for messages."""

    @property
    def count(self) -> int: ...

    @property
    def width(self) -> int: ...

    def walk(self, rows: int) -> Iterator[Block]:
        """All records in order, `rows` at a time (the last block may be shorter).

        A block is the caller's to write on, and good until the next one is asked for: its memory is used again.
        """

    def pick(self, rows: IntArray, out: NDArray[Any]) -> Block:
        """The records of these numbers, in this order; features in `out` where it is of their type."""

    def digest(self) -> str:
        """Of the files' contents, wherever they lie."""

    def lenient(self) -> Blocks:
        """The same reader without errors about values: a feature or target that cannot be used is NaN, a class -1."""


@dataclass(frozen=True)
class StoredFile:
    """A file as it was when it was opened first; it must stay so, because it was checked then."""

    path: Path
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> StoredFile:
        try:
            found = path.stat()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}.") from None
        return cls(path.absolute(), found.st_size, found.st_mtime_ns)

    def open(self) -> FileIO:
        """The file, unbuffered."""
        try:
            file = self.path.open("rb", buffering=0)
        except OSError as error:
            raise InputError(f"cannot read {self.path.name}: {error.strerror}.") from None
        found = os.fstat(file.fileno())
        if (found.st_size, found.st_mtime_ns) != (self.size, self.modified):
            file.close()
            raise InputError(f"{self.path.name} has changed since it was opened; open it again.")
        return file

    def digest(self) -> str:
        with self.open() as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class StoredArray:
    """A .npy file: where its numbers begin, their type and shape."""

    file: StoredFile
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, path: Path) -> StoredArray:
        file = StoredFile.of(path)
        if file.size == 0:
            raise InputError(f"{path} is empty.")
        with file.open() as opened:
            try:
                version = npy.read_magic(opened)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, fortran, dtype = read(opened)
            except UNREADABLE as error:
                raise InputError(f"{path} is not a .npy file: {error}") from None
            offset = opened.tell()
        if fortran and len(shape) > 1:
            raise InputError(
                f"{path} is in Fortran order, so no record lies in one piece; save numpy.ascontiguousarray of it."
            )
        if not shape or shape[0] == 0:
            raise InputError(f"{path} is empty: its shape is {shape}.")
        expected = offset + math.prod(shape) * dtype.itemsize
        if min(shape) < 0 or file.size != expected:
            raise InputError(f"{path} has {file.size} bytes; an array of shape {shape} has {expected}. Write it again.")
        return cls(file, offset, dtype, shape)

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.shape[1:])) * self.dtype.itemsize

    def read(self, file: FileIO, start: int, out: NDArray[Any]) -> None:
        """Rows from `start` on into `out`, by plain reads: a private copy, which nobody changes after it is checked."""
        space = out.reshape(-1).view(np.uint8).data
        file.seek(self.offset + start * self.row_bytes)
        while space:
            got = file.readinto(space)
            if not got:
                raise InputError(f"{self.file.path.name} ended too early; open it again.")
            space = space[got:]
        if hasattr(os, "posix_fadvise"):  # the disk fetches what comes next while this is computed with
            here = self.offset + start * self.row_bytes + out.nbytes
            os.posix_fadvise(file.fileno(), here, out.nbytes, os.POSIX_FADV_WILLNEED)

    def pick(self, rows: IntArray, out: NDArray[Any]) -> None:
        """Single rows into `out`; the pages they lie in are mapped for this long only, since they count as memory."""
        with self.file.open() as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # unmapped with the last array over it
            if self._cold(file, rows):
                # All at once: a disk answers many questions in the time of a few, and reads nothing in between.
                pages.madvise(mmap.MADV_RANDOM)
                for row in rows.tolist():
                    at = self.offset + row * self.row_bytes
                    os.posix_fadvise(file.fileno(), at, self.row_bytes, os.POSIX_FADV_WILLNEED)
        table = np.frombuffer(pages, self.dtype, int(np.prod(self.shape)), self.offset).reshape(self.shape)
        if table.ndim == 1:
            np.take(table, rows, out=out)
        else:
            pick(table, rows, out)

    def _cold(self, file: FileIO, rows: IntArray) -> bool:
        """Whether some of a few of these rows are on the disk only; False where the system cannot say."""
        if not hasattr(os, "RWF_NOWAIT"):
            return False
        space = bytearray(self.row_bytes)
        try:
            return any(
                os.preadv(file.fileno(), [space], self.offset + row * self.row_bytes, os.RWF_NOWAIT) < len(space)
                for row in rows[:: rows.size // 32 + 1].tolist()
            )
        except BlockingIOError:
            return True
        except OSError:
            return False


@dataclass(frozen=True)
class ArrayBlocks:
    """Records in two .npy files: features (float32 or float64, in C order) and targets.

    classes: how many there are, targets being class numbers 0..classes-1; None where targets are values.
    strict: whether a target that cannot be used is an error; else it is NaN, or -1 where there are classes.
    """

    features: StoredArray
    targets: StoredArray
    classes: int | None
    strict: bool = True

    @classmethod
    def of(cls, features: Path, targets: Path, classes: int | None) -> ArrayBlocks:
        table, column = StoredArray.of(features), StoredArray.of(targets)
        if len(table.shape) != 2 or table.shape[1] == 0:
            raise InputError(f"{features} has shape {table.shape}; a table of records by features is needed.")
        if table.dtype not in (np.float32, np.float64):
            raise InputError(f"{features} holds {table.dtype.str}; save it as float32 or float64.")
        if column.shape != table.shape[:1]:
            raise InputError(
                f"{targets} has shape {column.shape}, and {features.name} {table.shape[0]} rows: one target for each "
                f"is needed."
            )
        if column.dtype.kind not in ("iuf" if classes is None else "iu") or not column.dtype.isnative:
            wanted = "numbers" if classes is None else "class numbers, whole ones such as uint8"
            raise InputError(f"{targets} holds {column.dtype.str}; {wanted} are needed.")
        return cls(table, column, classes)

    @property
    def name(self) -> str:
        return self.features.file.path.name

    @property
    def count(self) -> int:
        return self.features.shape[0]

    @property
    def width(self) -> int:
        return self.features.shape[1]

    def walk(self, rows: int) -> Iterator[Block]:
        rows = min(rows, self.count)
        table = np.empty((rows, self.width), self.features.dtype)
        column = np.empty(rows, self.targets.dtype)
        with self.features.file.open() as features, self.targets.file.open() as targets:
            for start in range(0, self.count, rows):
                size = min(rows, self.count - start)
                self.features.read(features, start, table[:size])
                self.targets.read(targets, start, column[:size])
                yield table[:size], self._checked(column[:size], range(start, start + size))

    def pick(self, rows: IntArray, out: NDArray[Any]) -> Block:
        if rows.size and not (rows.min() >= 0 and rows.max() < self.count):
            raise IndexError(f"{self.name} has the rows 0 to {self.count - 1}; asked for {rows.min()} to {rows.max()}")
        if out.dtype != self.features.dtype or out.shape != (rows.size, self.width):
            out = np.empty((rows.size, self.width), self.features.dtype)
        column = np.empty(rows.size, self.targets.dtype)
        self.features.pick(rows, out)
        self.targets.pick(rows, column)
        return out, self._checked(column, rows)

    def digest(self) -> str:
        return f"{self.features.file.digest()}{self.targets.file.digest()}"

    def lenient(self) -> ArrayBlocks:
        return replace(self, strict=False)

    def _checked(self, targets: NDArray[Any], rows: range | IntArray) -> NDArray[Any]:
        if self.classes is None:
            with np.errstate(over="ignore"):
                values = targets.astype(np.float64)
            wrong, needed = ~np.isfinite(values), "a finite number is needed"
        else:
            values = targets.astype(np.int64)
            wrong, needed = (values < 0) | (values >= self.classes), f"classes are 0 to {self.classes - 1}"
        if wrong.any() and not self.strict:
            values[wrong] = np.nan if self.classes is None else -1
        elif wrong.any():
            at = int(np.argmax(wrong))
            raise InputError(
                f"{self.targets.file.path.name}, row {rows[at] + 1}: the target is {targets[at]}; {needed}."
            )
        return values
