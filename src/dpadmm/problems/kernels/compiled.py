"""Numba functions whose cache on disk can never be stale.

Numba's own cache notices a change of the file a function stands in, but not of the functions it calls: a kernel
compiled with yesterday's loss would go on computing yesterday's gradient. Here the cache folder is named by a digest
of every source of this room, so any change anywhere in it is a new folder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.extending import overload

_CONFIG: Any = numba.config
_ROOM = Path(__file__).parents[1]  # problems/: losses and kernels alike

# Sums may be re-ordered and multiply-adds fused (that is what makes a dot product fast); nothing that would
# change the meaning of infinities or NaN is allowed. The order chosen is fixed at compile time, so results repeat.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


def _cache_folder() -> str:
    digest = hashlib.sha256()
    for source in sorted(_ROOM.rglob("*.py")):
        digest.update(source.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return str(Path(home) / "dpadmm" / digest.hexdigest()[:16])


_CACHE_FOLDER = _cache_folder()


def compiled(*, parallel: bool = False, fast: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`numba.njit`, cached in a folder that belongs to exactly this state of the sources."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        before = _CONFIG.CACHE_DIR
        _CONFIG.CACHE_DIR = _CACHE_FOLDER
        try:
            return numba.njit(
                cache=True,
                parallel=parallel,
                fastmath=_FAST if fast else False,
                error_model="numpy",
                nogil=True,
            )(function)
        finally:
            _CONFIG.CACHE_DIR = before

    return decorate


def implements(stub: Callable[..., Any], tag: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives `stub` a body for one tag; kernels that call the stub are compiled once per tag, with the body inlined.

    A tag is a `NamedTuple` class of its own name: its fields are the parameters of the loss, its type selects the code.
    """

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        @overload(stub, strict=False)
        def choose(loss: types.Type, margin: types.Type, target: types.Type) -> Callable[..., Any] | None:
            return body if getattr(loss, "instance_class", None) is tag else None

        return body

    return register
