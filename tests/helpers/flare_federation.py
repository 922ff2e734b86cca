"""A federation over FLARE on loopback: provisioned, started and submitted to by FLARE's own tools; dry runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from process_federation import ENVIRONMENT, free_port
from small_federation import POLICY, SCHEMA, SPEC, SmallFederation

from dpadmm.federation.client.setup import read_invitation
from dpadmm.federation.server.federation import Federation
from dpadmm.federation.server.run_folder import OVER, RunFolder
from dpadmm.spec.toml import dumps

ADMIN = "admin@coordinator.example"
PROJECT = """\
api_version: 3
name: study
participants:
  - {{name: localhost, type: server, org: coordinator, fed_learn_port: {port}}}
{clients}
  - {{name: admin@coordinator.example, type: admin, org: coordinator, role: project_admin}}
builders:
  - {{path: nvflare.lighter.impl.workspace.WorkspaceBuilder}}
  - path: nvflare.lighter.impl.static_file.StaticFileBuilder
    args: {{config_folder: config, scheme: grpc}}
  - {{path: nvflare.lighter.impl.cert.CertBuilder}}
  - {{path: nvflare.lighter.impl.signature.SignatureBuilder}}
"""
FLARE = str(Path(sys.executable).with_name("nvflare"))
OURS = [sys.executable, "-m", "dpadmm.federation.flare"]
SERVER = [sys.executable, "-u", "-m", "nvflare.private.fed.app.server.server_train"]


def allow_our_controller(kit: Path) -> None:
    """What docs/flare.md tells the coordinator to write into its own site's rules."""
    rules = json.loads((kit / "local" / "resources.json.default").read_text())
    rules["class_allow_list"].append("dpadmm.federation.flare.coordinator.RunController")
    (kit / "local" / "resources.json").write_text(json.dumps(rules))


class FlareFederation:
    """Owners with kits, each in processes of its own, and FLARE's server."""

    def __init__(self, home: Path, **small: Any) -> None:
        self.home, self.small_federation = home, SmallFederation(home, **small)
        self.owners = self.small_federation.owners
        self.federation = Federation.create(home / "federation", host="localhost", columns=SCHEMA)
        invitation = read_invitation(self.federation.invitation)
        for name in self.owners:
            self.small_federation.policy(name).write_text(POLICY.format(name=name).replace("4.0", "400.0"))
            self.small_federation.owner(name).trust(invitation)
            self.federation.add(self.small_federation.identities[name].card)
        clients = "\n".join(f"  - {{name: {name}, type: client, org: {name}}}" for name in self.owners)
        self.port = free_port()
        (home / "project.yml").write_text(PROJECT.format(clients=clients, port=self.port))
        self.flare("provision", "-p", "project.yml", "-w", "kits")
        self.kits = home / "kits" / "study" / "prod_00"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> FlareFederation:
        for name in ("server", *self.owners):
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        """Ends sites and what they have started, which has sessions of its own and must be known before."""
        import psutil

        below = []
        for process in self.processes.values():
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                below += psutil.Process(process.pid).children(recursive=True)
                os.killpg(process.pid, signal.SIGTERM)
        psutil.wait_procs(below, timeout=2.0)
        for each in (*below, *self.processes.values()):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        for process in self.processes.values():
            process.wait()

    def start(self, name: str) -> None:
        kit = self.kits / ("localhost" if name == "server" else name)
        if name == "server":
            words = ["secure_train=true", "org=coordinator", "config_folder=config"]
            command = [*SERVER, "-m", str(kit), "-s", "fed_server.json", "--set", *words]
            allow_our_controller(kit)
        else:
            command = [*OURS, "start", str(kit), name]
        surroundings = {**os.environ, **ENVIRONMENT, "DPADMM_STATE": str(self.home / name / "state")}
        with (self.home / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=surroundings, cwd=self.home,
                start_new_session=True,
            )  # fmt: skip

    def connected(self) -> set[str]:
        """Who has logged in at FLARE's server, as its log says."""
        log = (self.home / "server.log").read_text(errors="replace")
        return {name for name in self.owners if f"Client: New client {name}" in log}

    def flare(self, *words: str) -> str:
        """One of FLARE's own commands."""
        surroundings = {**os.environ, "HOME": str(self.home)}
        done = subprocess.run([FLARE, *words], cwd=self.home, env=surroundings, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def submit(self, name: str, text: str = SPEC, **changes: Any) -> RunFolder:
        """Submits a run, first to our folder and then to FLARE."""
        spec = self.home / f"{name}.toml"
        spec.write_text(dumps(self.small_federation.experiment(text, **{"timeout": 30.0, **changes})))
        job = self.home / "jobs" / name
        subprocess.run([*OURS, "job", str(spec), str(self.federation.folder), str(job)], check=True, cwd=self.home)
        self.flare("job", "submit", "-j", str(job), "--startup-kit", str(self.kits / ADMIN))
        return RunFolder(self.federation.runs / name)

    def run(self, folder: RunFolder, seconds: float = 120.0) -> dict[str, Any]:
        until = time.monotonic() + seconds
        while folder.status()["state"] not in OVER:
            assert time.monotonic() < until, (folder.status(), (folder.path / "events.txt").read_text())
            time.sleep(0.1)
        return folder.status()
