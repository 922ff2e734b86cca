"""FLARE's processes: a site's standing one, and those that it starts for jobs.

Each begins under its kit's rules, written anew, and ends with us: `stop` ends all of them, and if we are killed they
notice within a second (`guard.watch_starter`). The kernel's own signal for that is tied to the thread that
started a process, and would end a federation whose starter was a thread.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dpadmm.errors import InputError
from dpadmm.federation.flare.kit import Kit
from dpadmm.federation.flare.site_rules import STARTER, guard_owner, guard_server

_NOTHING: Mapping[str, str] = MappingProxyType({})
_HEARTBEAT = 4  # seconds; how soon a server that was restarted knows its sites again


def start_client(kit: Path, environment: Mapping[str, str] = _NOTHING) -> subprocess.Popen[bytes]:
    """An owner's site. It keeps trying until the server answers."""
    found = Kit(kit)
    found.check()
    if found.is_server:
        raise InputError(f"{str(kit)!r} is the server's kit, not an owner's.")
    guard_owner(kit)
    settings = [f"uid={found.name}", f"org={found.organisation}", f"heart_beat_interval={_HEARTBEAT}"]
    return _start("nvflare.private.fed.app.client.client_train", "fed_client.json", settings, kit, environment)


def start_server(kit: Path, environment: Mapping[str, str] = _NOTHING) -> subprocess.Popen[bytes]:
    """The coordinator's site."""
    found = Kit(kit)
    found.check()
    if not found.is_server:
        raise InputError(f"{str(kit)!r} is an owner's kit, not the server's.")
    _check_port(found.address)
    guard_server(kit)
    settings = [f"org={found.organisation}"]
    return _start("nvflare.private.fed.app.server.server_train", "fed_server.json", settings, kit, environment)


def stop(process: subprocess.Popen[bytes], seconds: float = 10) -> None:
    """Ends a site with all that it started: politely first, then not. A job has a session of its own, so that the
    site's group does not hold it; children are looked up."""
    jobs = _started_by(process)
    _send(signal.SIGTERM, process, jobs)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and (process.poll() is None or any(_alive(each) for each in jobs)):
        time.sleep(0.05)
    _send(signal.SIGKILL, process, [*jobs, *_started_by(process)])
    process.wait()


def _started_by(process: subprocess.Popen[bytes]) -> list[Any]:
    import psutil

    try:
        return list(psutil.Process(process.pid).children(recursive=True)) if process.poll() is None else []
    except psutil.NoSuchProcess:
        return []


def _alive(job: Any) -> bool:
    """A process that ended and that nobody asked about is still listed."""
    import psutil

    try:
        return bool(job.is_running() and job.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _send(which: signal.Signals, process: subprocess.Popen[bytes], jobs: list[Any]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, which)
    for job in jobs:
        if _alive(job):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(job.pid, which)


def _check_port(address: str) -> None:
    """gRPC lets two servers listen at one port, and gives each half of the calls."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # those that ended a moment ago do not count
        try:
            probe.bind((host, int(port)))
        except OSError as error:
            raise InputError(f"a server cannot listen at {address}: {error.strerror}.") from None


def _start(
    module: str, settings: str, more: list[str], kit: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    if importlib.util.find_spec("nvflare") is None:
        raise InputError("a federation needs NVIDIA FLARE; say: pip install 'dpadmm[federation]'")
    place = kit.resolve()
    logs = place / "logs"
    logs.mkdir(exist_ok=True)
    surroundings = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("NVFL_", "NVFLARE_", "FL_LOG_"))},
        **environment,
        "NVFL_LOG_ROOT": str(logs),
        "NVFL_AUDIT_ROOT": str(logs),
        "NVFLARE_SECURE_LOGGING": "true",  # no values in tracebacks
        "PYTHONSAFEPATH": "1",  # a job's files lie in the folder that Python would import from
        STARTER: str(os.getpid()),
    }
    command = [sys.executable, "-u", "-m", module, "-m", str(place), "-s", settings]
    command += ["--set", "secure_train=true", "config_folder=config", *more]
    with (logs / "console.txt").open("ab") as console:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            env=surroundings,
            cwd=place,
            start_new_session=True,
        )
