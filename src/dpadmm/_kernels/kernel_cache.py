"""Compiled kernels on disk: one file per kernel and signature, and whatever cannot be read is compiled anew.

Numba's own cache keeps one index per kernel for all losses. An index with the tag of somebody's own loss cannot be read
where that loss cannot be imported, and then no loss works. Here is no index, and kernels of losses from outside the
library lie in folders of their own.

What this relies on in Numba, beyond its documentation: a dispatcher asks `_cache.load_overload` before it compiles and
calls `_cache.save_overload` afterwards; `CompileResult._reduce` and `_rebuild` turn machine code into what can be
pickled and back; `library.has_dynamic_globals` says that code contains addresses; `codegen.magic_tuple` names the
processor.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core import compiler, serialize
from numba.core.caching import NullCache

from dpadmm._kernels import tags
from dpadmm._kernels.loss_digest import OWN, PACKAGE

_REBUILD: Any = compiler.CompileResult._rebuild
_DUMPS: Any = serialize.dumps
_SUFFIX = ".kernel"
_CHECKSUM = 32  # bytes of SHA-256 at the start of each file: damaged machine code must not run


class KernelCache(NullCache):
    """What a Numba dispatcher asks before it compiles one kernel."""

    def __init__(self, function: Callable[..., Any], folder: str) -> None:
        """Keeps what is compiled of `function` in `folder`, or beside it for losses from outside the library."""
        self._function = function
        self._home = Path(folder)

    @property
    def cache_path(self) -> str:
        """Where kernels of the library's own losses lie."""
        return str(self._home)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code for a signature; None where there is none, or none that can be read."""
        target_context.refresh()
        # Anything can go wrong while unpickling, and compiling anew is always right.
        with contextlib.suppress(Exception):
            file = self._file(sig, target_context.codegen())
            if file is None:
                return None
            content = file.read_bytes()
            if hashlib.sha256(content[_CHECKSUM:]).digest() != content[:_CHECKSUM]:
                return None
            found = _REBUILD(target_context, *pickle.loads(content[_CHECKSUM:]))
            return found if tuple(found.signature.args) == tuple(sig) else None
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps machine code where that is possible: a disk may be full, or not ours to write to."""
        with contextlib.suppress(Exception):
            file = self._file(sig, data.codegen)
            if file is None or data.library.has_dynamic_globals or data.lifted:
                return
            content = _DUMPS(data._reduce())
            file.parent.mkdir(parents=True, exist_ok=True)
            _write(file, hashlib.sha256(content).digest() + content)

    def _file(self, sig: Any, codegen: Any) -> Path | None:
        """Where the code for a signature is kept; None where it is compiled in memory only."""
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        if not isinstance(sig, tuple) or not name.startswith(OWN) or "<locals>" in name:
            return None
        classes = [found for each in sig for found in _classes(each)]
        folder: Path | None = self._home
        if not all(tags.own(each) for each in classes):
            folder = self._folder_outside(classes)
        if folder is None:
            return None
        versions = (numba.__version__, sys.implementation.cache_tag, getattr(sys, "abiflags", ""))
        named = [f"{each.__module__}.{each.__qualname__}" for each in classes]
        key = repr((name, [str(each) for each in sig], named, versions, codegen.magic_tuple()))
        return folder / f"{name.removeprefix(PACKAGE)}-{hashlib.sha256(key.encode()).hexdigest()[:32]}{_SUFFIX}"

    def _folder_outside(self, classes: list[type]) -> Path | None:
        found = hashlib.sha256(self._home.name.encode())
        for each in classes:
            if not tags.own(each):
                digest = tags.kept_as(each)
                if digest is None:
                    return None
                found.update(digest.encode())
        return self._home.parent / "losses" / found.hexdigest()[:16]


def _classes(kind: Any) -> Iterator[type]:
    """The classes of the named tuples in a type."""
    if isinstance(kind, types.BaseTuple):
        found: Any = kind
        if isinstance(kind, types.BaseNamedTuple):
            yield found.instance_class
        for each in found.types:
            yield from _classes(each)


def _write(file: Path, content: bytes) -> None:
    """Writes a file that others see whole or not at all."""
    unfinished = file.with_name(f"{file.name}.{uuid.uuid4().hex[:16]}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
