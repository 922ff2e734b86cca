"""From a spec to a finished run: a job at a time, and another one whenever an owner was lost and is back.

FLARE does not bring an owner back into a job that it fell out of. So the run is taken up by a new job, from the
coordinator's checkpoint; the owners' ledgers make that free of cost.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dpadmm.errors import ClusterError, InputError
from dpadmm.federation.flare.provisioning import ADMIN, Federation
from dpadmm.federation.flare.site_rules import OWNER_CLASSES, SERVER_CLASSES
from dpadmm.federation.server.run_folder import OVER, RunFolder
from dpadmm.owner.request import is_name
from dpadmm.spec import auto, resolve
from dpadmm.spec.columns import Schema
from dpadmm.spec.declare import AUTO, WAIT, Experiment, RunSpec
from dpadmm.spec.part import refuse_own_parts

Watch = Callable[[dict[str, Any]], None]
"""Told the run's status whenever it changes."""

_LOOK = 0.25  # seconds between looks at a run's status
_ENDED = "FINISHED"
_START = 60.0  # seconds that a job may take to begin, beside what owners are waited for


def prepare(federation: Federation, experiment: Experiment, name: str, schema: Schema | None = None) -> RunFolder:
    """A run's folder at the coordinator, new or to be taken up again; everything that can be checked before is."""
    if not is_name(name) or "/" in name or name.startswith("."):
        raise InputError(f"run name {name!r}: at most 100 letters, without '/', and not beginning with a dot.")
    _check_parts(experiment.run)
    columns = schema or Schema.read(federation.server.parent / "columns.toml")
    owners = experiment.federation.owners or federation.owners
    for owner in owners:
        federation.owner(owner)
    experiment = experiment.changed(owners=list(owners))
    if experiment.federation.public_test is not None:
        path = Path(experiment.federation.public_test).absolute()
        if not path.is_file():
            raise InputError(f"public_test: there is no file {str(path)!r}.")
        experiment = experiment.changed(public_test=str(path))
    return RunFolder.create(federation.folder / "coordinator" / "runs" / name, experiment, columns)


def _check_parts(run: RunSpec) -> None:
    """Refuses what no owner could make a recipe and a problem of: names that nobody has, and parts of one's own."""
    refuse_own_parts(run, "the terms of a federation")
    if run.algorithm == AUTO:
        auto.check(run)
    else:
        resolve.resolved(run)


def submit(
    federation: Federation, folder: RunFolder, watch: Watch = lambda status: None, limit: float = 3600.0
) -> dict[str, Any]:
    """Runs it to its end; what its status says then. Gives up after `limit` seconds without progress."""
    owners, stragglers = folder.experiment.federation.owners, folder.experiment.federation.stragglers
    progress = _Progress(limit)
    while True:
        status = folder.status()
        if folder.finished and status["state"] == "finished":
            return status
        try:
            with _session(federation) as session:
                there = _gather(session, owners, folder, stragglers, progress, watch)
                folder.pause(False)
                folder.tell("submitted", round=status.get("round"))
                with _job(folder, there) as job:
                    number = session.submit_job(str(job))
                folder.note(f"job {number} with {', '.join(there)}")
                status = _follow(session, number, folder, progress, watch)
        except _Unreachable as error:
            progress.check(f"the coordinator's server cannot be reached ({error})")
            watch({**folder.status(), "message": "the coordinator's server cannot be reached"})
            time.sleep(1.0)
            continue
        if status["state"] in OVER:
            watch(status)
            return status
        progress.check(status.get("message") or "the job ended early")
        folder.note(f"interrupted: {status.get('message') or 'the job ended early'}")


def connected(federation: Federation) -> dict[str, float] | None:
    """Which owners are logged in, and when each was last heard of; None where the server does not answer."""
    try:
        with _session(federation) as session:
            return _heard_of(session)
    except _Unreachable:
        return None


class _Unreachable(Exception):
    """The server does not answer; it may be back soon."""


class _Progress:
    """Whether a run still gets anywhere."""

    def __init__(self, limit: float) -> None:
        self._limit, self._since = limit, time.monotonic()
        self._mark: tuple[int, Any] = (0, None)

    def see(self, status: dict[str, Any]) -> None:
        """A further round is progress, and so is an owner's word; jobs that begin and end are not."""
        mark = (max(status.get("round") or 0, self._mark[0]), status.get("waiting") or self._mark[1])
        if mark != self._mark:
            self._mark, self._since = mark, time.monotonic()

    def check(self, why: str) -> None:
        if time.monotonic() - self._since > self._limit:
            raise ClusterError(f"nothing has moved for {self._limit:g} s: {why}. The run can be taken up again.")


def _gather(
    session: Any, owners: Sequence[str], folder: RunFolder, stragglers: str, progress: _Progress, watch: Watch
) -> list[str]:
    """Owners for the next job: all of them, or where the terms can do without some, those who are there."""
    status, begun = folder.status(), folder.agreement() is not None
    lost, since, least = status.get("lost", ()), status["time"], folder.experiment.federation.min_owners
    while True:
        seen = _heard_of(session)
        there = [name for name in owners if name in seen and (name not in lost or seen[name] > since)]
        absent = [name for name in owners if name not in there]
        if not absent or (begun and stragglers != WAIT and len(there) >= least):
            return there
        watch({**status, "message": f"waiting for {', '.join(absent)}"})
        progress.check(f"{', '.join(absent)} are not connected")
        time.sleep(0.5)


def _follow(session: Any, job: str, folder: RunFolder, progress: _Progress, watch: Watch) -> dict[str, Any]:
    """Watches a job until it is over; asks it to pause when an owner that fell silent is back."""
    absences: dict[str, float] = {}
    known: dict[str, Any] | None = None
    looked, moved = 0.0, time.monotonic()
    stall = 3 * folder.experiment.federation.timeout + _START
    while True:
        status = folder.status()
        if status != known:
            known, moved = status, time.monotonic()
            watch(status)
            progress.see(status)
        if time.monotonic() - moved > stall:
            # A server that was lost and is back may say for ever that a job is running which nobody runs.
            _call(lambda: session.abort_job(job))
            return {**status, "state": "interrupted", "message": "the job does not move"}
        if status["state"] in (*OVER, "interrupted"):
            _until_ended(session, job)
            return status
        if time.monotonic() - looked > 2.0:
            looked = time.monotonic()
            if _state(session, job).startswith(_ENDED):
                time.sleep(_LOOK)
                final = folder.status()
                return final if final["state"] in OVER else {**final, "state": "interrupted"}
            silent = set(status.get("silent", ()))
            absences = {name: absences.get(name, status["time"]) for name in silent}
            back = [name for name, when in _heard_of(session).items() if when > absences.get(name, float("inf"))]
            if back:
                folder.pause(True)
        time.sleep(_LOOK)


def _until_ended(session: Any, job: str, seconds: float = 30.0) -> None:
    """So that the next job does not meet the processes of this one."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not _state(session, job).startswith(_ENDED):
        time.sleep(_LOOK)


def _state(session: Any, job: str) -> str:
    return str(_call(lambda: session.get_job_meta(job)).get("status", ""))


def _heard_of(session: Any) -> dict[str, float]:
    """Who is logged in, and when it was last heard of."""
    return {client.name: client.last_connect_time for client in _call(session.get_system_info).client_info}


def _call(call: Callable[[], Any]) -> Any:
    """FLARE prints what it does, and raises whatever it likes when the server has gone."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return call()
        except Exception as error:
            raise _Unreachable(type(error).__name__) from None


@contextlib.contextmanager
def _session(federation: Federation) -> Iterator[Any]:
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    # What FLARE has to say of a lost connection is not for a terminal; that it is lost, we say ourselves.
    logging.getLogger("nvflare").addHandler(logging.NullHandler())
    logging.getLogger("nvflare").propagate = False
    try:  # FLARE would take its whole time-out to find out
        socket.create_connection((federation.host, federation.port), timeout=5.0).close()
    except OSError as error:
        raise _Unreachable(error.strerror or type(error).__name__) from None
    session = _call(lambda: new_secure_session(ADMIN, str(federation.admin.resolve()), timeout=10.0))
    try:
        yield session
    finally:
        with contextlib.suppress(_Unreachable):
            _call(session.close)


@contextlib.contextmanager
def _job(folder: RunFolder, owners: Sequence[str]) -> Iterator[Path]:
    """What FLARE is given: two files that name classes which everybody has installed, and no code."""
    place = Path(tempfile.mkdtemp(prefix="job-", dir=folder.path.parent))
    controller, coordinator = SERVER_CLASSES
    executor, agent = OWNER_CLASSES
    properties = {"run": folder.path.name, "folder": str(folder.path.absolute())}
    server = {
        "format_version": 2,
        "server": {"task_request_interval": 0.2},  # how soon owners are ready; FLARE's own is 2 seconds
        "workflows": [
            {"id": "controller", "path": controller, "args": {"server_obj_id": "coordinator", "props": properties}}
        ],
        "components": [{"id": "coordinator", "path": coordinator, "args": {}}],
        "task_data_filters": [],
        "task_result_filters": [],
    }
    client = {
        "format_version": 2,
        "executors": [{"tasks": ["*"], "executor": {"path": executor, "args": {"client_obj_id": "agent"}}}],
        "components": [{"id": "agent", "path": agent, "args": {}}],
        "task_data_filters": [],
        "task_result_filters": [],
    }
    meta = {
        "name": folder.path.name,
        "resource_spec": {},
        "min_clients": len(owners),
        "mandatory_clients": list(owners),
        "deploy_map": {"app": ["server", *owners]},
    }
    try:
        config = place / "app" / "config"
        config.mkdir(parents=True)
        for path, content in (
            (place / "meta.json", meta),
            (config / "config_fed_server.json", server),
            (config / "config_fed_client.json", client),
        ):
            path.write_text(json.dumps(content))
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
