"""Numba functions whose cache on disk can never be stale.

Numba's own cache notices a change of the file a function stands in, but not of the functions it calls: a kernel
compiled with yesterday's loss would go on computing yesterday's gradient. Here the cache folder is named by a digest
of every source of the rooms that hold compiled functions (`ROOMS`), so any change anywhere in them is a new folder.
Kernels of a loss from outside these rooms lie in a folder that is named by the digest of that loss as well
(`loss_digest.py`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from dpadmm._kernels import tags
from dpadmm._kernels.kernel_cache import KernelCache
from dpadmm._kernels.loss_digest import ROOMS

_PACKAGE = Path(__file__).parents[1]

# Sums may be re-ordered and multiply-adds fused (that is what makes a dot product fast); nothing that would
# change the meaning of infinities or NaN is allowed. The order chosen is fixed at compile time, so results repeat.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


def _cache_folder() -> str:
    digest = hashlib.sha256()
    for room in ROOMS:
        for source in sorted((_PACKAGE / room).rglob("*.py")):
            digest.update(source.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return str(Path(home) / "dpadmm" / digest.hexdigest()[:16])


_CACHE_FOLDER = _cache_folder()


def compiled(*, parallel: bool = False, fast: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`numba.njit`, cached in a folder that belongs to exactly this state of the sources.

    A function that stands outside `ROOMS` is compiled in memory: nothing here knows what it depends on.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        found: Any = numba.njit(parallel=parallel, fastmath=_FAST if fast else False, error_model="numpy", nogil=True)(
            function
        )
        found._cache = KernelCache(function, _CACHE_FOLDER)
        return found

    return decorate


def implements(stub: Callable[..., Any], tag: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives `stub` a body for one tag; kernels that call the stub are compiled once per tag, with the body inlined.

    A tag is a `NamedTuple` class of its own name: its fields are the parameters of the loss, its type selects the code.
    The body is compiled into every kernel at the first use of the tag; for another body, define the tag again.
    """

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        tags.register(stub, tag, body)
        return body

    return register
