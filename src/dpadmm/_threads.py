"""One pool of threads at a time: compiled loops have theirs, and BLAS called inside them starts none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread_pool() -> Iterator[None]:
    """Threads belong to the compiled loops; BLAS called inside them must not start its own.

    Two pools would fight over the cores, and BLAS sums in another order on two threads than on one.
    """
    with _pools(len(sys.modules)).limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _pools(modules: int) -> ThreadpoolController:
    """All pools there are. Looking for them takes milliseconds, so they are kept until another module was imported."""
    return ThreadpoolController()
