"""The coordinator's process: it finds the runs of its folder, and takes each as far as the owners who are there allow.

A run is a folder (`run_folder`); whoever submits one writes the folder and watches its status, and this process need
not run yet, nor know who that was. A job is one attempt at a run. A job that is interrupted, because an owner was lost
or this process ended, is followed by another one when the owners that the run needs are there. That costs nothing: the
coordinator goes on from its checkpoint, and owners answer what they have answered before from their ledgers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from dpadmm._files import read_json, write_json
from dpadmm.engine.output.status import alive, process
from dpadmm.errors import InputError
from dpadmm.federation.server.enrolment import Transport
from dpadmm.federation.server.run_folder import OVER, RunFolder, runs_in
from dpadmm.spec.declare import WAIT, FederationSpec

NOTE = "coordinator.json"  # in the federation's folder: which process serves it, and who is connected
_LOOK = 0.25  # seconds between looks at runs and owners
_REFRESH = 5.0  # seconds after which the note is written anew although nobody came or went
_JOBS = 4  # at the same time
_FIRST_REST, _LONGEST_REST = 0.25, 10.0  # seconds between jobs of a run that gets nowhere
_PAUSE = 2.0  # seconds between two pauses of a run for owners that are back, at first


class Network(Protocol):
    """Who is connected and when each was last heard of, who of them owes no answer, and the transport of a job."""

    @property
    def heard(self) -> Mapping[str, float]: ...

    @property
    def free(self) -> frozenset[str]: ...

    def session(self, names: Iterable[str]) -> Transport: ...


Begin = Callable[[RunFolder, Transport], None]
"""Takes a run as far as one job gets."""


class Service:
    """All runs in a folder.

    Args:
        runs: The folder that has a folder for each run.
        network: The owners' connections.
        begin: Runs one job.
        tell: Told what happens to runs, for whoever looks at this process.
    """

    def __init__(self, runs: Path, network: Network, begin: Begin, tell: Callable[[str], None]) -> None:
        self._runs, self._network, self._begin, self._tell = runs, network, begin, tell
        self._known: dict[str, _Run] = {}
        self._said: dict[str, str] = {}

    def serve(self, note: Path, address: str, stop: threading.Event) -> None:
        """Looks after all runs until `stop` is set. Jobs that are under way then end as interrupted."""
        written, seen = 0.0, None
        try:
            while not stop.is_set():
                heard = dict(self._network.heard)
                if seen != heard.keys() or time.monotonic() - written > _REFRESH:
                    write_json(note, {"address": address, "owners": heard, **process()})
                    written, seen = time.monotonic(), heard.keys()
                self.look()
                stop.wait(_LOOK)
        finally:
            note.unlink(missing_ok=True)

    def look(self) -> None:
        """Begins jobs that can begin, and notices those that have ended."""
        for folder in runs_in(self._runs):
            run = self._known.setdefault(folder.path.name, _Run(folder))
            try:
                self._tend(run)
            except (InputError, OSError) as error:  # one folder that cannot be read must not keep others waiting
                self._say(run.name, f"cannot be taken up: {error}")

    def wait(self, seconds: float) -> None:
        """Waits for jobs under way, which end soon once no owner can be reached."""
        until = time.monotonic() + seconds
        for run in self._known.values():
            if run.job is not None:
                run.job.join(max(0.0, until - time.monotonic()))

    def _tend(self, run: _Run) -> None:
        if run.job is not None:
            if run.job.is_alive():
                self._make_room(run)
                return
            run.job = None
            self._ended(run)
        mark = run.folder.mark
        if mark == run.over or time.monotonic() < run.rests_until:
            return
        status = run.folder.status()
        if status["state"] in OVER and (status["state"] != "finished" or run.folder.finished):
            run.over = mark
            return
        if sum(each.job is not None for each in self._known.values()) < _JOBS:
            self._try(run, status)

    def _try(self, run: _Run, status: Mapping[str, Any]) -> None:
        """Begins a job if the owners are there that it needs: all of them, or where the terms can do without some,
        enough of them once the terms are agreed on."""
        given, present, free = run.given, self._network.heard.keys(), self._network.free
        there = [name for name in given.owners if name in present and (name in free or name not in run.lost)]
        absent = [name for name in given.owners if name not in there]
        enough = run.folder.agreed and given.stragglers != WAIT and len(there) >= given.min_owners
        if absent and not enough:
            message = f"waiting for {', '.join(absent)}"
            if status.get("message") != message:
                run.folder.tell(status["state"], message, round=status.get("round"), rounds=status.get("rounds"))
            return
        run.folder.pause(False)
        run.folder.tell("submitted", round=status.get("round"), rounds=status.get("rounds"))
        run.folder.note(f"a job with {', '.join(there)}")
        session = self._network.session(there)
        run.round = status.get("round") or 0
        run.job = threading.Thread(target=self._job, args=(run, session), name=f"run {run.name}", daemon=True)
        run.job.start()

    def _job(self, run: _Run, session: Transport) -> None:
        try:
            self._begin(run.folder, session)
        except Exception as error:  # none is known to; one that came every time would otherwise be tried for ever
            run.folder.tell("failed", f"the coordinator failed ({type(error).__name__}: {error})")

    def _ended(self, run: _Run) -> None:
        status = run.folder.status()
        run.lost = set(status.get("lost") or ())
        message = status.get("message") or "the job ended early"
        if status["state"] in OVER:
            self._say(run.name, " ".join(filter(None, [status["state"], status.get("message")])))
            return
        run.folder.note(f"interrupted: {message}")
        self._say(run.name, f"interrupted: {message}")
        run.tries = 0 if (status.get("round") or 0) > run.round else run.tries + 1
        rest = min(_LONGEST_REST, _FIRST_REST * 2.0 ** min(run.tries, 10))
        run.rests_until = time.monotonic() + rest

    def _make_room(self, run: _Run) -> None:
        """Asks a job to pause when an owner that fell silent is back, so that the next one takes it in. Each pause
        makes the next one wait longer: an owner that comes and goes must not hold up the others."""
        if run.given.stragglers == WAIT or run.folder.asked_to_pause or time.monotonic() < run.pauses_after:
            return
        status = run.folder.status()
        if self._network.free.intersection(status.get("silent") or ()):
            run.folder.pause(True)
            run.pauses += 1
            run.pauses_after = time.monotonic() + _PAUSE * 2.0 ** min(run.pauses - 1, 8)

    def _say(self, run: str, text: str) -> None:
        if self._said.get(run) != text:
            self._said[run] = text
            self._tell(f"run {run!r} {text}")


@dataclass
class _Run:
    """What is known of a run while this process goes on."""

    folder: RunFolder
    job: threading.Thread | None = None
    lost: set[str] = field(default_factory=set)  # owners that did not answer in the last job
    round: int = 0  # that it began with
    tries: int = 0  # jobs in a row that did no round
    rests_until: float = 0.0
    pauses: int = 0
    pauses_after: float = 0.0
    over: object = None  # the status file of a run that is over, so that it is not read again

    @property
    def name(self) -> str:
        return self.folder.path.name

    @cached_property
    def given(self) -> FederationSpec:
        return self.folder.experiment.federation


def presence(note: Path) -> Mapping[str, Any] | None:
    """Which process serves a federation and who is connected to it; None where none does.

    Args:
        note: The note that the process writes.

    Returns:
        Its address, and when each connected owner was last heard of.
    """
    try:
        told = read_json(note, "note")
    except InputError:
        return None
    if not isinstance(told, Mapping) or not isinstance(told.get("owners"), Mapping) or not alive(told):
        return None
    return told
