"""One pool of threads at a time: compiled loops have theirs, and BLAS called inside them starts none.

And a thread that ends a process whose parent has ended.
"""

from __future__ import annotations

import os
import sys
import threading
import time
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


def end_with_parent(every: float = 1.0) -> None:
    """From now on this process ends, at once, when the one that started it has ended."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(every)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@lru_cache(maxsize=1)
def _pools(modules: int) -> ThreadpoolController:
    """All pools there are. Looking for them takes milliseconds, so they are kept until another module was imported."""
    return ThreadpoolController()
