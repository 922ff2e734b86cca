"""The rules in kits, and what they take away inside FLARE."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpadmm.federation.flare.site_rules import guard_owner, guard_server

CLASSES = ["nvflare.collab.runtime.executor.CollabExecutor", "dpadmm.federation.flare.agent_app.AgentApp"]


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """As far as rules go, any folder is a kit."""
    kit = tmp_path / "kit"
    kit.mkdir()
    guard_owner(kit)
    return kit


def test_an_owner_allows_what_its_agent_needs(kit: Path) -> None:
    resources = json.loads((kit / "local" / "resources.json").read_text())
    assert resources["class_allow_list"] == CLASSES
    assert resources["class_list_enforcement_mode"] == "enforce"
    assert resources["allow_log_streaming"] is False
    assert "log" not in json.dumps(resources["components"])
    (rights,) = json.loads((kit / "local" / "authorization.json").read_text())["permissions"].values()
    assert {name for name, who in rights.items() if who != "none"} == {"submit_job", "abort_job", "abort"}
    assert rights["byoc"] == rights["shell_commands"] == "none"
    logging = json.loads((kit / "local" / "log_config.json").read_text())
    assert [each["class"].rpartition(".")[2] for each in logging["handlers"].values()] == ["RotatingFileHandler"]
    assert logging["loggers"]["root"]["level"] == "WARNING"


def test_tampered_rules_are_put_right(kit: Path, tmp_path: Path) -> None:
    local = kit / "local"
    before = {each.name: each.read_text() for each in local.iterdir()}
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (local / "resources.json").unlink()
    (local / "resources.json").symlink_to(victim)
    (local / "authorization.json").write_text('{"permissions": {"project_admin": "any"}}')
    (local / "log_config.json").unlink()
    (local / "evil__resources.json").write_text("{}")
    (local / "job_resources.json").write_text("{}")
    (local / "comm_config.json").write_text("{}")
    (local / "privacy.json").write_text("{}")
    (local / "custom").mkdir()
    (local / "custom" / "evil.py").write_text("")
    for _ in range(2):
        guard_owner(kit)
        assert {each.name: each.read_text() for each in local.iterdir()} == before
    assert victim.read_text() == "mine"


def test_a_server_keeps_everything_in_its_folder(tmp_path: Path) -> None:
    guard_server(tmp_path)
    text = (tmp_path / "local" / "resources.json").read_text()
    resources = json.loads(text)
    assert "/tmp/nvflare" not in text
    assert resources["class_allow_list"] == [
        "nvflare.collab.runtime.controller.CollabController",
        "dpadmm.federation.flare.coordinator_app.CoordinatorApp",
    ]
    parts = {each["id"]: each["args"] for each in resources["components"]}
    assert parts["job_manager"]["uri_root"] == str(tmp_path.resolve() / "jobs")
    assert parts["job_scheduler"]["max_jobs"] == 4
    storage = resources["snapshot_persistor"]["args"]["storage"]["args"]
    assert storage["root_dir"] == str(tmp_path.resolve() / "snapshots")
    (rights,) = json.loads((tmp_path / "local" / "authorization.json").read_text())["permissions"].values()
    assert rights["byoc"] == "none"


def test_inside_flare_the_doors_are_closed() -> None:
    """In a process of its own: it changes FLARE."""
    code = """
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.workspace import Workspace
from nvflare.fuel.f3.cellnet.net_agent import NetAgent
from nvflare.private.fed.client.admin_commands import AdminCommands
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
from dpadmm.federation.flare.guard import SiteGuard

keeper = SiteGuard()
print(sorted(topic for each in ClientRequestProcessors.request_processors for topic in each.get_topics()))
print(sorted(each.get_command_name() for each in AdminCommands.commands))
print(NetAgent._do_process_info(None, None), NetAgent._do_stop(None, None))
for name in ("local", "startup", "../x", "3e2b6a9e-7b9f-4c57-9a7e-2f6f0f7e5f11"):
    try:
        print(Workspace._check_job_id(name))
    except ValueError as error:
        print(error)
for path in ("dpadmm.federation.flare.agent_app.AgentApp", "subprocess.Popen"):
    context = FLContext()
    context.set_prop(FLContextKey.COMPONENT_CONFIG, {"path": path}, sticky=False, private=True)
    context.set_prop(FLContextKey.JOB_META, {"byoc": True}, sticky=False, private=True)
    keeper.handle_event(EventType.BEFORE_BUILD_COMPONENT, context)
    print(context.get_prop(FLContextKey.COMPONENT_BUILD_ERROR))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [
        "['scheduler.cancel_resource', 'scheduler.check_resource', 'train.abort', 'train.deploy', "
        "'train.notify_job_status', 'train.start_job']",
        "['abort', 'check_status', 'shutdown']",
        "None None",
        "job name 'local' is not one that a server gives",
        "job name 'startup' is not one that a server gives",
        "job name '../x' is not one that a server gives",
        "3e2b6a9e-7b9f-4c57-9a7e-2f6f0f7e5f11",
        "None",
        "class 'subprocess.Popen' is not one that this owner builds",
    ]


def test_flare_is_not_loaded_before_it_is_needed() -> None:
    modules = "dpadmm.federation.flare.provisioning, dpadmm.federation.flare.processes"
    code = f"import sys, {modules}; print('nvflare' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
    assert os.environ.get("DPADMM_STARTER") is None
