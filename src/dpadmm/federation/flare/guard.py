"""What stands between the network and an owner's site, inside FLARE's own processes; `site` puts it there.

FLARE exists to run what a server sends. Here what an owner's agent does not need is taken away, whoever asks. These are
FLARE's private classes: tests/federation/flare/test_guard.py fails when they change.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import uuid
from pathlib import Path
from typing import Any

from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobHandleSpec
from nvflare.apis.workspace import Workspace
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.process_launcher import ProcessHandle
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.cellnet.fqcn import FQCN, FqcnInfo
from nvflare.fuel.f3.cellnet.net_agent import NetAgent
from nvflare.private.admin_defs import Message, ok_reply
from nvflare.private.defs import RequestHeader, TrainingTopic
from nvflare.private.fed.client.admin import RequestProcessor
from nvflare.private.fed.client.admin_commands import AbortCommand, AdminCommands, ByeCommand, CheckStatusCommand
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
from nvflare.private.scheduler_constants import ShareableHeader
from nvflare.utils.job_launcher_utils import generate_client_command, get_credential_env
from nvflare.utils.process_utils import spawn_process

from dpadmm.federation.client.databases import PASSWORD

KEPT = ("CHECK_RESOURCE", "CANCEL_RESOURCE", "START_JOB", "ABORT", "NOTIFY_JOB_STATUS")
ENVIRONMENT = (
    *("PATH", "HOME", "LANG", "TZ", "TMPDIR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "DPADMM_STATE", PASSWORD),
    *("PGPASSWORD", "PGPASSFILE", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_ARENA_MAX"),
)
_HEADERS = (RequestHeader.JOB_STATUS, RequestHeader.ADMIN_COMMAND, ShareableHeader.RESOURCE_RESERVE_TOKEN)
_honest = CoreCell.process_message


class SiteGuard(FLComponent):
    """A component of an owner's site, in its standing process and in that of every job; `folder` is the agent's."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        known = {topic: each for each in ClientRequestProcessors.request_processors for topic in each.get_topics()}
        kept = [Bodyless(topic, known[topic]) for topic in (getattr(TrainingTopic, name) for name in KEPT)]
        ClientRequestProcessors.request_processors[:] = [FixedJob(folder), *kept]
        AdminCommands.commands[:] = [AbortCommand(), ByeCommand(), CheckStatusCommand()]
        for name in [each for each in vars(NetAgent) if each.startswith("_do_")]:
            setattr(NetAgent, name, lambda *_: None)  # FLARE's diagnosis of networks tells settings, and stops sites
        CoreCell.process_message = _process_message


class FixedJob(RequestProcessor):
    """Writes a job's folder as this owner has it. What the server sent to be unpacked there is never looked at."""

    def __init__(self, folder: str) -> None:
        executor = {"path": "dpadmm.federation.flare.agent.AgentExecutor", "args": {"folder": folder}}
        self._config = {"format_version": 2, "executors": [{"tasks": ["*"], "executor": executor}]}

    def get_topics(self) -> list[str]:
        return [TrainingTopic.DEPLOY]

    def process(self, req: Message, app_ctx: Any) -> Message:
        job = job_name(req)
        workspace = Workspace(root_dir=app_ctx.args.workspace, site_name=app_ctx.get_client_name())
        config = Path(workspace.get_app_config_dir(job))
        Path(workspace.get_run_dir(job)).mkdir(mode=0o700)  # a second one of that name is refused
        config.mkdir(parents=True)
        (config / "config_fed_client.json").write_text(json.dumps(self._config))
        Path(workspace.get_job_meta_path(job)).write_text(json.dumps(job_meta(req)))
        return ok_reply(body="this owner's own job is in place")


class Bodyless(RequestProcessor):
    """One of FLARE's processors, which gets a few plain headers and no body."""

    def __init__(self, topic: str, honest: RequestProcessor) -> None:
        self._topic, self._honest = topic, honest

    def get_topics(self) -> list[str]:
        return [self._topic]

    def process(self, req: Message, app_ctx: Any) -> Message:
        bare = Message(topic=self._topic, body={})
        bare.set_headers({name: req.get_header(name) for name in _HEADERS if type(req.get_header(name)) in (str, int)})
        bare.set_header(RequestHeader.JOB_ID, job_name(req))
        bare.set_header(RequestHeader.JOB_META, job_meta(req))
        return self._honest.process(bare, app_ctx)


class ClosedLauncher(ClientProcessJobLauncher):
    """Starts a job's process so that Python takes nothing from where it is or from its environment."""

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> JobHandleSpec:
        credentials = get_credential_env(fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS))
        command = [sys.executable, "-I", *shlex.split(generate_client_command(fl_ctx))[1:]]
        return ProcessHandle(process_adapter=spawn_process(command, {**environment(), **credentials}))


def environment() -> dict[str, str]:
    """What FLARE's processes of an owner are told of the environment; and that tracebacks show no values."""
    return {name: os.environ[name] for name in ENVIRONMENT if name in os.environ} | {"NVFLARE_SECURE_LOGGING": "true"}


def job_name(req: Message) -> str:
    """A job's name is one that a server gives, and no path."""
    return str(uuid.UUID(req.get_header(RequestHeader.JOB_ID)))


def job_meta(req: Message) -> dict[str, Any]:
    """Of what a server says of a job: its name, and the names of its clients."""
    found = req.get_header(RequestHeader.JOB_META)
    clients = found.get("job_clients", []) if type(found) is dict else []
    kept = [{k: v for k, v in each.items() if type(v) in (str, bool, type(None))} for each in clients]
    return {"job_id": job_name(req), "resource_spec": {}, "job_clients": kept}


def from_neighbour(cell: CoreCell, endpoint: Any, message: Any) -> bool:
    """Whether a message comes from the server itself over the connection to it, or from this site's own processes."""
    origin = message.get_header(MessageHeaderKey.ORIGIN)
    root = FqcnInfo(origin).root if type(origin) is str else ""
    return root in (FQCN.ROOT_SERVER, cell.my_info.root) and root == FqcnInfo(endpoint.name).root


def _process_message(cell: CoreCell, endpoint: Any, connection: Any, app_id: int, message: Any) -> None:
    if from_neighbour(cell, endpoint, message):
        _honest(cell, endpoint, connection, app_id, message)
