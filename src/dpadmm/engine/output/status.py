"""What a run says of itself while it goes on: for whoever watches it, and for whoever finds it dead.

history.csv and nodes.csv grow as rounds are measured, in that order; a finished run writes them anew, run by run.
status.json says how far the run is, and which process it is. Both are written a few times a second at most.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dpadmm._files import csv_text, write_json
from dpadmm.engine.output.history import History
from dpadmm.errors import ClusterError, ConvergenceError, InputError

INTERVAL = 0.5  # seconds between words on how far a run is
_OURS = (InputError, ConvergenceError, ClusterError)  # whose words are made for people; others' may quote records


class StatusWriter:
    """The words of one run, in its folder; without a folder it says nothing."""

    def __init__(self, folder: Path | None, rounds: int, runs: int) -> None:
        self._folder, self._rounds, self._runs = folder, rounds, runs
        self._first = self._round = self._written = 0
        self._history = History()
        self._fresh = True  # whether history.csv is yet to be begun
        self._said = self._started = 0.0

    def __enter__(self) -> Self:
        self._started = time.time()
        self._say("running")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._say("finished")
        elif isinstance(error, KeyboardInterrupt):
            self._end("interrupted")
        else:
            name = type(error).__name__
            self._end("crashed", f"{name}: {error}" if isinstance(error, _OURS) else name)

    def _end(self, state: str, error: str = "") -> None:
        with suppress(OSError):  # the disk may be what ended the run, and that error is the one to be seen
            self._append()
            self._say(state, error)

    def begin(self, first: int, round: int, history: History) -> None:
        """Some runs that go side by side, the first of which has this number; after `round` rounds, if they go on."""
        self._first, self._round, self._history, self._written = first, round, history, 0
        self._tell()

    def reached(self, round: int) -> None:
        """After a round, measured or not."""
        self._round = round
        if round == self._rounds or time.monotonic() - self._said >= INTERVAL:
            self._tell()

    def _tell(self) -> None:
        self._append()
        self._say("running")

    def _append(self) -> None:
        since, history = self._written, self._history
        if self._folder is None or since == len(history.rounds):
            return
        kinds = [("history.csv", history.header, history.rows(self._first, since))]
        if history.nodes:
            kinds.append(("nodes.csv", history.node_header, history.node_rows(self._first, since)))
        for name, header, rows in kinds:
            _write_rows(self._folder / name, [header] if self._fresh else [], rows, self._fresh)
        self._fresh, self._written = False, len(history.rounds)

    def _say(self, state: str, error: str = "") -> None:
        if self._folder is None:
            return
        self._said = time.monotonic()
        told = {"state": state, "round": self._round, "rounds": self._rounds, "run": self._first, "runs": self._runs}
        times = {"started": self._started, "time": time.time()}
        write_json(self._folder / "status.json", {**told, "error": error, **times, **process()})


def _write_rows(path: Path, header: list[list[str]], rows: Iterable[list[str]], fresh: bool) -> None:
    with path.open("w" if fresh else "a", newline="") as file:
        file.write(csv_text([*header, *rows]))


def process() -> dict[str, Any]:
    """Which one this is."""
    return {"pid": os.getpid(), "host": platform.node(), "born": _born(os.getpid())}


def alive(told: Mapping[str, Any]) -> bool:
    """Whether the process that said so is still there; one on another machine is taken to be."""
    pid = told.get("pid")
    if not isinstance(pid, int) or told.get("host") != platform.node() or os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's, but there
    if not Path("/proc/self/stat").exists():
        return True
    born = _born(pid)
    return born != "" and born == told.get("born", born)


def _born(pid: int) -> str:
    """When a process began, so that a number that was given away again is noticed; empty where it cannot be known, or
    where the process has ended and only its parent has not looked yet."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot}/{fields[19]}"
