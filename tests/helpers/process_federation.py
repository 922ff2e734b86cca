"""A federation of real processes on loopback: a coordinator's, and one of each owner, started by their commands."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from slow_network import enter
from small_federation import POLICY, SCHEMA, SPEC, SmallFederation

from dpadmm.federation.client.setup import read_invitation
from dpadmm.federation.server.federation import Federation
from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.federation.server.service import NOTE, presence
from dpadmm.federation.server.submission import follow, submit

ENVIRONMENT = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
COMMAND = [sys.executable, "-c", "from dpadmm.cli.main import main; main()"]
COORDINATOR = "coordinator"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ProcessFederation:
    """Owners that live in processes of their own; dry runs, so that runs can be compared bit for bit."""

    def __init__(
        self, home: Path, host: str = "localhost", environment: Mapping[str, str] | None = None, **small: Any
    ) -> None:
        self.small_federation = SmallFederation(home, **small)
        self.owners = self.small_federation.owners
        self.environment = {**ENVIRONMENT, **(environment or {})}
        self.networks: dict[str, str] = {}  # namespaces that parties live in, where not in this one
        self.federation = Federation.create(home / "federation", host=host, port=free_port(), columns=SCHEMA)
        invitation = read_invitation(self.federation.invitation)
        for name in self.owners:
            self.small_federation.policy(name).write_text(POLICY.format(name=name).replace("4.0", "400.0"))
            owner = self.small_federation.owner(name)
            owner.trust(invitation)
            owner.save(replace(owner.settings(), address=invitation.address))
            self.federation.add(self.small_federation.identities[name].card)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> ProcessFederation:
        for name in (COORDINATOR, *self.owners):
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGINT)
        for process in self.processes.values():
            try:
                process.wait(5.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def command(self, name: str) -> list[str]:
        if name == COORDINATOR:
            return [*COMMAND, "coordinator", "start", str(self.federation.folder)]
        return [*COMMAND, "agent", "start", name, "--state", str(self.small_federation.home / name / "state")]

    def start(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        surroundings = {**os.environ, **self.environment, **(environment or {})}
        with (
            (self.log(name)).open("ab") as log,
            ThreadPoolExecutor(1, initializer=enter, initargs=(self.networks.get(name),)) as thread,
        ):
            begin = thread.submit(
                subprocess.Popen, self.command(name), env=surroundings, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            self.processes[name] = begin.result()

    def log(self, name: str) -> Path:
        """What a process has said."""
        return self.small_federation.home / f"{name}.log"

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def present(self) -> set[str]:
        """Who is connected, as the coordinator's process says."""
        told = presence(self.federation.folder / NOTE)
        return set() if told is None else set(told["owners"])

    def prepare(self, name: str = "study", text: str = SPEC, **changes: Any) -> RunFolder:
        experiment = self.small_federation.experiment(text, **{"timeout": 30.0, **changes})
        return submit(self.federation, experiment, name, self.small_federation.home)

    def run(self, folder: RunFolder, limit: float = 120.0, watch: Any = lambda status: None) -> dict[str, Any]:
        return follow(self.federation, folder, watch, limit)


def until(condition: Any, seconds: float = 60.0, what: str = "") -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what or "it did not happen in time"
        time.sleep(0.05)
