"""A policy whose file is read again when it has changed."""

from __future__ import annotations

from pathlib import Path

from dpadmm.federation.client.owner_folder import read_policy
from dpadmm.owner.policy import Policy


class PolicyFile:
    """An owner's policy as its file says it now.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[tuple[int, ...] | None, Policy] | None = None  # as last read, and what its file was then

    def current(self) -> Policy:
        """The policy; read anew where the file may have changed.

        Raises:
            InputError: The file cannot be used.
        """
        mark = self._mark()
        if self._read is None or mark is None or mark != self._read[0]:
            self._read = mark, read_policy(self._path)
        return self._read[1]

    def _mark(self) -> tuple[int, ...] | None:
        """Changes with the file; None if it cannot be looked at."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
