"""FLARE's real processes on loopback: provisioned, started and submitted to by FLARE's own tools."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import flare_federation
import numpy as np
import psutil
import pytest
from coordinated_runs import RING, coefficients
from process_federation import until

from dpadmm.engine.run import train

PAYLOAD = "open({proof!r}, 'a').write(open('/proc/self/cmdline').read() + chr(10))\n"


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with flare_federation.FlareFederation(tmp_path_factory.mktemp("flare")) as made:
        until(lambda: made.connected() == set(made.owners), 90.0)
        yield made


@pytest.mark.parametrize("changes", [{}, RING], ids=["star", "ring"])
def test_a_run_equals_the_simulation_bit_for_bit(town: Any, changes: dict[str, Any]) -> None:
    folder = town.submit("ring" if changes else "star", **changes)
    assert town.run(folder)["state"] == "finished", folder.status()
    assert np.array_equal(coefficients(folder), train(town.small_federation.simulation(**changes)).models[0])


def test_a_jobs_own_code_never_arrives_at_an_owner_and_no_process_listens(town: Any, tmp_path: Path) -> None:
    """planted.py and rce.py: a job of FLARE's own kind that carries code, submitted with FLARE's tools."""
    proof, job = tmp_path / "PWNED", tmp_path / "jobs" / "evil"
    (job / "app" / "custom").mkdir(parents=True)
    for name in ("sitecustomize", "bcrypt", "trainer"):
        (job / "app" / "custom" / f"{name}.py").write_text(PAYLOAD.format(proof=str(proof)))
    (job / "app" / "config").mkdir()
    trainer = {"tasks": ["*"], "executor": {"path": "trainer.Trainer", "args": {}}}
    flow = {"id": "wait", "path": "nvflare.app_common.workflows.initialize_global_weights.InitializeGlobalWeights"}
    given = {"task_name": "get_weights"}
    configs = {"client": {"executors": [trainer]}, "server": {"workflows": [{**flow, "args": given}]}}
    for side, config in configs.items():
        (job / "app" / "config" / f"config_fed_{side}.json").write_text(json.dumps({"format_version": 2, **config}))
    meta = {"name": "evil", "resource_spec": {}, "min_clients": 1, "deploy_map": {"app": ["@ALL"]}}
    (job / "meta.json").write_text(json.dumps(meta))
    before = {name: jobs(town, name) for name in town.owners}
    town.flare("job", "submit", "-j", str(job), "--startup-kit", str(town.kits / flare_federation.ADMIN))
    found: dict[str, set[bool]] = {name: set() for name in town.owners}
    begun: set[str] = set()

    def have_all_begun() -> bool:
        begun.update(name for name in town.owners if look(town, name, found[name]))
        return begun == set(town.owners)

    until(have_all_begun, 60.0, "the job did not begin")
    end = time.monotonic() + 3.0
    while time.monotonic() < end:
        for name in town.owners:
            look(town, name, found[name])
        time.sleep(0.1)
    for name in town.owners:
        assert found[name] == {True}
        (new,) = jobs(town, name) - before[name]
        files = {path.name for path in (town.kits / name / new).rglob("*") if path.is_file()}
        assert not [file for file in files if file.endswith(".py")], files
        config = (town.kits / name / new / f"app_{name}" / "config" / "config_fed_client.json").read_text()
        assert "dpadmm.federation.flare.agent.AgentExecutor" in config
        assert "trainer" not in config
    ran = proof.read_text()
    assert "server.runner_process" in ran  # FLARE runs a job's code at the server, as it would at any other client
    assert "client_train" not in ran
    assert "worker_process" not in ran


def look(town: Any, name: str, found: set[bool]) -> bool:
    """Notes of a site and what it has started whether Python was closed and nothing listens; whether a job runs."""
    running, site = False, psutil.Process(town.processes[name].pid)
    for each in (site, *children(town, name)):
        with suppress(psutil.NoSuchProcess):  # a job's process may just have ended
            listening = [it for it in each.net_connections("all") if it.status == psutil.CONN_LISTEN]
            found.add(each.cmdline()[1:2] == ["-I"] and not listening)
            running |= each is not site
    return running


def jobs(town: Any, name: str) -> set[str]:
    """FLARE's jobs that an owner's site has a folder of."""
    return {path.name for path in (town.kits / name).iterdir() if path.is_dir() and path.name.count("-") == 4}


def children(town: Any, name: str) -> list[psutil.Process]:
    return [each for each in psutil.Process(town.processes[name].pid).children() if each.status() != "zombie"]
