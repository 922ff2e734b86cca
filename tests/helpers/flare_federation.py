"""A federation of real processes on loopback: a server, owners with kits of their own, mutual TLS."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
from slow_network import enter
from small_federation import POLICY, SCHEMA, SPEC, SmallFederation

from dpadmm.federation.client.files import OwnerFiles
from dpadmm.federation.flare.processes import start_client, start_server, stop
from dpadmm.federation.flare.provisioning import Federation, create
from dpadmm.federation.flare.submit import prepare, submit
from dpadmm.federation.server.run_folder import RunFolder

ENVIRONMENT = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class FlareFederation:
    """A federation whose owners live in processes of their own; dry runs, so that runs can be compared bit for bit."""

    schema = SCHEMA

    def __init__(
        self, home: Path, host: str = "localhost", environment: Mapping[str, str] | None = None, **small_federation: Any
    ) -> None:
        self.small_federation = SmallFederation(home, **small_federation)
        self.owners = self.small_federation.owners
        self.environment = {**ENVIRONMENT, **(environment or {})}
        self.networks: dict[str, str] = {}  # namespaces that parties live in, where not in this one
        for name in self.owners:
            self.small_federation.policy(name).write_text(POLICY.format(name=name).replace("4.0", "400.0"))
        self.federation: Federation = create(
            home / "federation", name="town", host=host, port=free_port(), owners=self.owners, schema=SCHEMA.dumps()
        )
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for name in self.owners:
            OwnerFiles(self.kit(name)).save(self.small_federation.settings(name, small_federation.get("dry_run", 7)))

    def kit(self, name: str) -> Path:
        return self.federation.server if name == "server" else self.federation.owner(name)

    def __enter__(self) -> FlareFederation:
        for name in ("server", *self.owners):
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            stop(process, seconds=2)

    def site(self, name: str) -> OwnerFiles:
        return OwnerFiles(self.kit(name))

    def start(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        begin = start_server if name == "server" else start_client
        with ThreadPoolExecutor(1, initializer=enter, initargs=(self.networks.get(name),)) as thread:
            started = thread.submit(begin, self.kit(name), {**self.environment, **(environment or {})})
            self.processes[name] = started.result()

    def kill(self, name: str) -> None:
        """SIGKILL to a party and to everything that it started."""
        process = self.processes[name]
        below = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGKILL)
        for each in below:
            if each.is_running():
                each.kill()
        process.wait()

    def prepare(self, name: str = "study", text: str = SPEC, **changes: Any) -> RunFolder:
        return prepare(self.federation, self.small_federation.experiment(text, **{"timeout": 30.0, **changes}), name)

    def run(self, folder: RunFolder, limit: float = 180.0, watch: Any = lambda status: None) -> dict[str, Any]:
        return submit(self.federation, folder, watch, limit)


def until(condition: Any, seconds: float = 30.0, what: str = "") -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what or "it did not happen in time"
        time.sleep(0.05)
