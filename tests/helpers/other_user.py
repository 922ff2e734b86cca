"""Doing something as another user of the machine, in a child process; that takes root."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")


def as_nobody(call: Callable[[], Any]) -> str:
    """What a process of another user gets: the text of the result, or the name of the exception."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: this child is short
        child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            said = repr(call())
        except BaseException as error:
            said = type(error).__name__
        os.write(writing, said.encode()[:1000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """A folder that other users can pass through; pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
