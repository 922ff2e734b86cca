"""A PostgreSQL server of one's own for as long as a block of code runs: real, on a free loopback port, with passwords.

No pytest here: a demonstration can load this file too. The server never runs as root, which it would refuse.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from debian import Unavailable, install, run

_HOST = "127.0.0.1"
_SECONDS = 60.0
_SETTINGS = {
    "listen_addresses": _HOST,
    "unix_socket_directories": "",
    "fsync": "off",  # nobody needs these records after a power cut
    "max_connections": "30",
    "shared_buffers": "16MB",
}


@dataclass(frozen=True)
class Server:
    """Where the server is; `user` may do anything there, with the password that the caller chose."""

    port: int
    user: str = "owner"
    database: str = "postgres"

    def url(self, user: str | None = None) -> str:
        """Without a password, as a `Source` wants it."""
        return f"postgresql+psycopg://{user or self.user}@{_HOST}:{self.port}/{self.database}"


@contextlib.contextmanager
def postgres(password: str) -> Iterator[Server]:
    """A new and empty server; at the end it is stopped and its files are removed, whatever happened."""
    binaries = _binaries()
    account = _account()
    with _folder(account) as folder:
        _initialise(binaries, folder, password, account)
        process, port = _started(binaries, folder, account)
        try:
            yield Server(port)
        finally:
            _stop(process)


def _binaries() -> Path:
    """The folder of initdb, postgres and pg_isready, installed if need be."""
    found = _find()
    if found is None:
        install("PostgreSQL server (no initdb)", ["postgresql"], lambda: _find() is not None)
        found = _find()
    if found is None:
        raise Unavailable("PostgreSQL was installed, but initdb is neither on the PATH nor in /usr/lib/postgresql.")
    return found


def _find() -> Path | None:
    places = list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    newest = max(places, key=lambda place: float(place.parts[-3]), default=None)
    found = shutil.which("initdb")
    if newest is None and found is not None:
        newest = Path(found).resolve()
    return None if newest is None else newest.parent


def _account() -> dict[str, Any]:
    """Who runs the server, for `subprocess`: ourselves, or somebody without rights if we are root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise Unavailable("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody.")


@contextlib.contextmanager
def _folder(account: dict[str, Any]) -> Iterator[Path]:
    """A folder that the account can reach: the one for temporary files may be closed to all but its owner."""
    for base in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        with tempfile.TemporaryDirectory(prefix="dpadmm-postgres-", dir=base, ignore_cleanup_errors=True) as name:
            if account:
                os.chown(name, account["user"], account["group"])
            if subprocess.run(["test", "-w", name], cwd="/", **account).returncode == 0:
                yield Path(name)
                return
    raise Unavailable("the account that is to run PostgreSQL can write to no folder for temporary files.")


def _initialise(binaries: Path, folder: Path, password: str, account: dict[str, Any]) -> None:
    secret = folder / "password"  # a file: a command line can be read by everybody on the machine
    secret.touch(mode=0o600)
    secret.write_text(password + "\n")
    if account:
        os.chown(secret, account["user"], account["group"])
    command = [binaries / "initdb", "--pgdata", folder / "data", "--username", Server(0).user, "--pwfile", secret]
    options = ["--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"]
    run([*command, *options], cwd=folder, env=_environment(), **account)
    secret.unlink()


def _started(binaries: Path, folder: Path, account: dict[str, Any]) -> tuple[subprocess.Popen[bytes], int]:
    """The server, ready for connections. Somebody may take the port between our look and its start: then another."""
    settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
    log = folder / "log"
    for _ in range(3):
        port = _free_port()
        command = [binaries / "postgres", "-D", folder / "data", "-p", str(port), *settings]
        with log.open("wb") as output:
            streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
            process = subprocess.Popen(command, cwd=folder, env=_environment(), **streams, **account)
        ready = False
        try:
            ready = _is_ready(binaries, port, process)
        finally:
            if not ready:
                _stop(process)
        if ready:
            return process, port
    raise Unavailable(f"PostgreSQL does not start: {log.read_text(errors='replace')[-500:]}")


def _is_ready(binaries: Path, port: int, process: subprocess.Popen[bytes]) -> bool:
    question = [binaries / "pg_isready", "--quiet", "--host", _HOST, "--port", str(port)]
    limit = time.monotonic() + _SECONDS
    while process.poll() is None and time.monotonic() < limit:
        if subprocess.run(question, env=_environment()).returncode == 0:
            return process.poll() is None
        time.sleep(0.05)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Fast: connections are cut, not waited for. Killed only if that does not help."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((_HOST, 0))
        return int(free.getsockname()[1])


def _environment() -> dict[str, str]:
    """Nothing of ours: no passwords, and words in English."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
