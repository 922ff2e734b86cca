"""What an owner's site under FLARE does with what a server sends; and whether FLARE is still the one we looked at."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nvflare
import pytest
from known_flare import KNOWN
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.cellnet.fqcn import FqcnInfo
from nvflare.fuel.f3.cellnet.net_agent import NetAgent
from nvflare.fuel.f3.message import Message as CellMessage
from nvflare.private.admin_defs import Message
from nvflare.private.defs import RequestHeader
from nvflare.private.fed.client.admin import FedAdminAgent
from nvflare.private.fed.client.admin_commands import AdminCommands
from nvflare.private.fed.client.client_executor import JobExecutor
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
from nvflare.private.fed.client.command_agent import CommandAgent
from nvflare.private.fed.client.scheduler_cmds import CheckResourceProcessor, StartJobProcessor

from dpadmm.federation.flare import guard

JOB = "43397a13-7292-4051-a8a9-b36a7df80a35"
SOURCES: dict[str, tuple[Any, ...]] = {
    "who is let in": (CoreCell.process_message, CoreCell._process_received_msg),
    "what a site dispatches": (FedAdminAgent._dispatch_request, CommandAgent),
    "how a job begins": (JobExecutor.start_app, StartJobProcessor, CheckResourceProcessor),
    "what a job's process is given": (guard.ClientProcessJobLauncher, guard.generate_client_command),
}


class Unreadable(Message):
    """A request whose body must not be looked at."""

    def __init__(self, topic: str, job: str = JOB, **meta: Any) -> None:
        self.topic, self.headers = topic, {}
        self.set_header(RequestHeader.JOB_ID, job)
        self.set_header(RequestHeader.JOB_META, {"job_id": job, **meta})

    @property
    def body(self) -> Any:
        raise AssertionError("the body was read")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[guard.SiteGuard]:
    """FLARE's classes as they are at an owner's site; as they were, afterwards."""
    lists = ClientRequestProcessors.request_processors, AdminCommands.commands
    before = [list(each) for each in lists]
    methods = {name: each for name, each in vars(NetAgent).items() if name.startswith("_do_")}
    honest = CoreCell.process_message
    yield guard.SiteGuard(str(tmp_path / "agent"))
    for each, kept in zip(lists, before, strict=True):
        each[:] = kept
    for name, method in methods.items():
        setattr(NetAgent, name, method)
    CoreCell.process_message = honest


@pytest.fixture
def site(tmp_path: Path) -> Any:
    """What FLARE's processors are given of a site."""
    for name in ("startup", "local"):
        (tmp_path / name).mkdir()
    return SimpleNamespace(args=SimpleNamespace(workspace=str(tmp_path)), get_client_name=lambda: "ahorn")


# -- whether FLARE has changed -----------------------------------------------------------------------------------------


def test_flare_is_the_version_that_we_looked_at() -> None:
    assert nvflare.__version__.startswith("2.9.")


def test_a_site_has_the_handlers_that_we_know() -> None:
    """A new one would be taken away with the others, but somebody must look at what else came with it."""
    topics = {topic for each in ClientRequestProcessors.request_processors for topic in each.get_topics()}
    assert topics == set(KNOWN["topics"])
    assert sorted(name for name in vars(NetAgent) if name.startswith("_do_")) == KNOWN["diagnosis"]
    assert sorted(type(each).__name__ for each in AdminCommands.commands) == KNOWN["commands"]


@pytest.mark.parametrize("what", SOURCES)
def test_flares_own_code_is_the_one_that_we_read(what: str) -> None:
    """These are private: whoever moves to another FLARE reads them again, and then writes the new digest here."""
    text = "".join(inspect.getsource(each) for each in SOURCES[what])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == KNOWN[what]


def test_every_callback_of_a_site_is_registered_where_we_know() -> None:
    """Files of FLARE's that register one for messages, among those that a client's processes load."""
    root, found = Path(nvflare.__file__).parent, set()
    for path in [*root.glob("private/**/*.py"), *root.glob("fuel/**/*.py"), *root.glob("apis/**/*.py")]:
        if re.search(r"register_(request|blob|aux_message)_(cb|handler)\(", path.read_text()):
            found.add(path.relative_to(root).as_posix())
    assert found == set(KNOWN["registering"])


# -- what the guard does -----------------------------------------------------------------------------------------------


def test_what_a_run_does_not_need_is_taken_away(guarded: guard.SiteGuard) -> None:
    left = {topic: each for each in ClientRequestProcessors.request_processors for topic in each.get_topics()}
    assert {topic: type(each) for topic, each in left.items()} == {
        "train.deploy": guard.FixedJob,
        **dict.fromkeys(
            ("scheduler.check_resource", "scheduler.cancel_resource", "train.start_job", "train.abort",
             "train.notify_job_status"), guard.Bodyless,
        ),
    }  # fmt: skip
    assert {type(each).__name__ for each in AdminCommands.commands} == {
        "AbortCommand",
        "ByeCommand",
        "CheckStatusCommand",
    }
    agent = NetAgent.__new__(NetAgent)
    assert all(getattr(agent, name)(CellMessage()) is None for name in KNOWN["diagnosis"])


def test_a_job_that_is_deployed_is_the_owners_own_and_the_archive_is_not_read(site: Any, tmp_path: Path) -> None:
    processor = guard.FixedJob("/state/agents/ahorn")
    processor.process(Unreadable("train.deploy", job_clients=[{"name": "ahorn"}], launcher_spec={"docker": {}}), site)
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {f"{JOB}/meta.json", f"{JOB}/app_ahorn/config/config_fed_client.json"}
    config = json.loads((tmp_path / JOB / "app_ahorn/config/config_fed_client.json").read_text())
    (executor,) = config["executors"]
    assert executor["executor"]["path"] == "dpadmm.federation.flare.agent.AgentExecutor"
    assert executor["executor"]["args"] == {"folder": "/state/agents/ahorn"}
    meta = json.loads((tmp_path / JOB / "meta.json").read_text())
    assert meta == {"job_id": JOB, "resource_spec": {}, "job_clients": [{"name": "ahorn"}]}
    with pytest.raises(FileExistsError):  # not a second time, in place of the first
        processor.process(Unreadable("train.deploy"), site)


@pytest.mark.parametrize("name", ["startup", "local", "../ahorn", "", "43397a13", "/tmp/x", None, 7])
def test_a_jobs_name_is_never_a_path(site: Any, tmp_path: Path, name: Any) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        guard.FixedJob("x").process(Unreadable("train.deploy", name), site)
    assert {path.name for path in tmp_path.rglob("*")} == {"startup", "local"}


def test_flares_own_processors_get_no_body_and_few_headers() -> None:
    seen: list[Message] = []
    honest = SimpleNamespace(process=lambda req, ctx: seen.append(req))
    asked = Unreadable("train.start_job", job_clients=[{"name": "ahorn", "x": [object()]}], resource_spec={"gpus": 9})
    asked.set_header(RequestHeader.COMPONENT_TARGET, "guard")
    asked.set_header("_resource_reserve_token", "token")
    guard.Bodyless("train.start_job", honest).process(asked, None)  # type: ignore[arg-type]
    (req,) = seen
    assert req.body == {}
    assert req.headers == {
        "_resource_reserve_token": "token",
        "job_id": JOB,
        "job_meta": {"job_id": JOB, "resource_spec": {}, "job_clients": [{"name": "ahorn"}]},
    }


@pytest.mark.parametrize(
    ("me", "neighbour", "origin", "let_in"),
    [
        ("ahorn", "server", "server", True),
        ("ahorn.job", "server", "server.job", True),
        ("ahorn", "ahorn.job", "ahorn.job", True),
        ("ahorn.job", "ahorn", "ahorn", True),
        ("ahorn", "server", "birke", False),  # an honest server passes on what another owner sent
        ("ahorn", "server", "birke.job", False),
        ("ahorn", "server", "admin", False),
        ("ahorn.job", "birke.job", "birke.job", False),
        ("ahorn", "ahorn.job", "server", False),  # a process here that says that it is the server
        ("ahorn", "server", "ahorn.job", False),  # and a server that says that it is a process here
        ("ahorn", "server", None, False),
        ("ahorn", "server", "", False),
    ],
)
def test_only_the_server_and_this_sites_own_processes_are_heard(
    guarded: guard.SiteGuard, monkeypatch: pytest.MonkeyPatch, me: str, neighbour: str, origin: Any, let_in: bool
) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(guard, "_honest", lambda *given: heard.append(given))
    cell = SimpleNamespace(my_info=FqcnInfo(me))
    message = CellMessage({} if origin is None else {MessageHeaderKey.ORIGIN: origin})
    CoreCell.process_message(cell, SimpleNamespace(name=neighbour), None, 1, message)  # type: ignore[arg-type]
    assert bool(heard) == let_in


def test_a_jobs_process_gets_a_listed_environment_and_nothing_of_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(guard, "spawn_process", lambda *given: started.append(given) or SimpleNamespace())
    for name in ("PYTHONPATH", "PYTHONSTARTUP", "LD_PRELOAD", "NVFL_X", "BASH_ENV"):
        monkeypatch.setenv(name, "/tmp/evil")
    monkeypatch.setenv("DPADMM_STATE", "/state")
    context = FLContext()
    given = {
        JobProcessArgs.EXE_MODULE: ("-m", "nvflare.private.fed.app.client.worker_process"),
        JobProcessArgs.JOB_ID: ("-n", JOB),
        JobProcessArgs.AUTH_TOKEN: ("-t", "secret-token"),
    }
    context.set_prop(FLContextKey.JOB_PROCESS_ARGS, given, private=True, sticky=False)
    guard.ClosedLauncher().launch_job({}, context)
    ((command, environment),) = started
    assert command[:4] == [sys.executable, "-I", "-m", "nvflare.private.fed.app.client.worker_process"]
    assert "secret-token" not in " ".join(command)  # other users of the machine see command lines
    assert set(environment) <= {*guard.ENVIRONMENT, "NVFLARE_SECURE_LOGGING"} | _credentials()
    assert environment["DPADMM_STATE"] == "/state"
    assert "/tmp/evil" not in environment.values()
    assert set(os.environ) - set(environment)


def _credentials() -> set[str]:
    from nvflare.utils.job_launcher_utils import get_credential_env

    return set(get_credential_env({JobProcessArgs.AUTH_TOKEN: ("-t", "x")}))
