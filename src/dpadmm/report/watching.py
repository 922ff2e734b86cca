"""A run's page while it goes on: what there is to see of a folder, and who has seen it.

`Watched` looks at the folder about once a second and only reads. It keeps the newest document, says when it has
changed, and knows when everybody has been shown the end.
"""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from dpadmm.errors import InputError
from dpadmm.report.document import Document
from dpadmm.report.gather import document as shown
from dpadmm.report.gather import waiting
from dpadmm.report.page import html
from dpadmm.report.reading import NotYet, breathes, read

GLANCE = 1.0  # seconds between two looks
GRACE = 3.0  # seconds to go on after everybody has seen the end: a browser may ask again
TORN = 10.0  # seconds for which a file that makes no sense is taken to be in the midst of being written

Signature = tuple[tuple[str, int, int], ...]


class Watched:
    """The newest document of a folder, for any number of readers."""

    def __init__(self, folder: Path, patience: float) -> None:
        self.folder, self._patience = folder, patience
        self._changed = threading.Condition()
        self._document = waiting(folder, f"there is no run in {str(folder)!r} yet.")
        self._number = 1  # of the document
        self._signature: Signature = ()
        self._wrong_since: float | None = None
        self._ended: float | None = None  # when that was found out
        self._seen: float | None = None  # when somebody was last shown the end
        self._visited = False
        self._readers = 0  # that are connected and have not been shown the end
        self.stopped = False

    # -- looking -----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Reads the folder, if anything in it has changed; an end is final."""
        if self._ended is not None:
            return
        try:
            signature = (*_signature(self.folder), ("breathes", int(breathes(self.folder)), 0))
            if signature == self._signature:
                return
            found = read(self.folder)
            self._put(shown([found]), found.over)
            self._signature, self._wrong_since = signature, None
        except NotYet as error:
            self._wait(str(error))
        except InputError as error:
            # Files of a run that goes on may be in the midst of being written; what stays wrong is wrong.
            now = time.monotonic()
            self._wrong_since = self._wrong_since or now
            if now - self._wrong_since > TORN:
                self._wait(str(error))

    def _wait(self, why: str) -> None:
        if self._signature:  # the run was there, and its folder is gone or spoilt: what was seen stays
            return
        with self._changed:
            known = self._document.runs[0].warnings
        if list(known) != [f"Waiting: {why}"]:
            self._put(waiting(self.folder, why), over=False)

    def _put(self, document: Document, over: bool) -> None:
        with self._changed:
            self._document, self._number = document, self._number + 1
            if over:
                self._ended = time.monotonic()
                self._seen = self._ended if self._visited else None
            self._changed.notify_all()

    # -- showing -----------------------------------------------------------------------------------------------------

    def page(self) -> str:
        with self._changed:
            self._visited = True
            document = self._document
            if self._ended is not None:
                self._seen = time.monotonic()
        return html(document, live=True)

    def next(self, known: int, seconds: float) -> tuple[int, str | None, bool]:
        """The number and JSON of a document that is newer than a known one, None where there is none for so long; and
        whether it is the last one."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > known or self.stopped, seconds)
            number, document, over = self._number, self._document, self._ended is not None
        if number <= known:
            return number, None, over
        return number, json.dumps(document.to_json(), separators=(",", ":"), allow_nan=False), over

    def come(self) -> None:
        with self._changed:
            self._visited = True
            self._readers += 1

    def leave(self, shown_the_end: bool) -> None:
        with self._changed:
            self._readers -= 1
            if shown_the_end:
                self._seen = time.monotonic()

    # -- the end -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        with self._changed:
            return self._document.runs[0].state

    def done(self) -> bool:
        """Whether nobody is left who should be shown anything."""
        with self._changed:
            if self._ended is None:
                return False
            now = time.monotonic()
            if self._seen is None:
                return now - self._ended > self._patience
            return self._readers == 0 and now - self._seen > GRACE

    def stop(self) -> None:
        """Lets readers go."""
        with self._changed:
            self.stopped = True
            self._changed.notify_all()


def _signature(folder: Path) -> Signature:
    """Of the files, by their times and sizes."""
    found = []
    for each in sorted(folder.glob("*")):
        if each.suffix in (".json", ".csv", ".toml") and not each.name.startswith("."):
            try:
                known = each.stat()
            except OSError:  # renamed in the meantime
                continue
            found.append((each.name, known.st_mtime_ns, known.st_size))
    return tuple(found)
