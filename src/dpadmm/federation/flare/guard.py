"""What stands between the network and a site, inside FLARE's own processes; `local/resources.json` puts it there.

FLARE lets a site's `authorization.json` decide about a command only if the server asks for that, and believes the
server about who is asking. That protects an owner from a coordinator's user, not from a coordinator. Here what an
owner's agent does not need is taken away, whoever asks: the commands themselves, jobs that carry anything but their
configuration, and classes other than the two that answer for the owner.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nvflare.apis.app_validation import AppValidator
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.workspace import Workspace
from nvflare.fuel.f3.cellnet.net_agent import NetAgent
from nvflare.fuel.f3.sfm import conn_manager
from nvflare.fuel.sec.audit import AuditService
from nvflare.private.defs import TrainingTopic
from nvflare.private.fed.client.admin_commands import AbortCommand, AdminCommands, ByeCommand, CheckStatusCommand
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

from dpadmm.federation.flare.site_rules import OWNER_CLASSES, STARTER

_COMMANDS = frozenset(
    {
        TrainingTopic.CHECK_RESOURCE,
        TrainingTopic.CANCEL_RESOURCE,
        TrainingTopic.DEPLOY,
        TrainingTopic.START_JOB,
        TrainingTopic.ABORT,
        TrainingTopic.NOTIFY_JOB_STATUS,  # a job's process tells its parent
    }
)
_SIGNATURES = frozenset({".__nvfl_sig.json", ".__nvfl_submitter.crt"})
_FILES = frozenset({"config/config_fed_client.json", "config/config_fed_server.json"})
_log = logging.getLogger(__name__)


class SiteGuard(FLComponent):
    """A component of an owner's site, in its standing process and in that of every job."""

    def __init__(self) -> None:
        super().__init__()
        watch_starter()
        close_doors()
        conn_manager.MAX_WAIT = 2  # seconds between tries; FLARE's 10 would hold up everybody after a server's restart

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """FLARE skips its own list of classes for jobs that are said to carry code; this one is never skipped."""
        if event_type == EventType.BEFORE_BUILD_COMPONENT:
            config = fl_ctx.get_prop(FLContextKey.COMPONENT_CONFIG)
            named = config.get("path") if isinstance(config, dict) else None
            if named not in OWNER_CLASSES:
                reason = f"class {named!r} is not one that this owner builds"
                _refuse(reason)
                fl_ctx.set_prop(FLContextKey.COMPONENT_BUILD_ERROR, reason, sticky=False, private=True)


class JobWatch:
    """The same for the coordinator's processes, which only must not outlive whoever started them."""

    def __init__(self) -> None:
        watch_starter()


class JobCheck(AppValidator):
    """Looks at a job before it is kept: two files of configuration, in which only the owner's two classes occur."""

    def validate(self, app_folder: str) -> tuple[str, dict[str, Any]]:
        reason = _wrong_with(Path(app_folder))
        if reason:
            _refuse(reason)
        return reason, {}


def watch_starter() -> None:
    """Ends this process soon after the one that started it: a federation must not go on when its owner's agent was
    killed. A job's process watches the standing one in the same way."""
    starter = os.environ.get(STARTER)
    if starter is None:
        return
    os.environ[STARTER] = str(os.getpid())
    threading.Thread(target=_wait_for_end, args=(int(starter),), name="watch", daemon=True).start()


def close_doors() -> None:
    """Takes away what a server can ask of a site and a run does not need."""
    processors = ClientRequestProcessors.request_processors
    processors[:] = [each for each in processors if _COMMANDS.issuperset(each.get_topics())]
    AdminCommands.commands[:] = [
        each for each in AdminCommands.commands if isinstance(each, AbortCommand | ByeCommand | CheckStatusCommand)
    ]
    for name in [each for each in vars(NetAgent) if each.startswith("_do_")]:
        setattr(NetAgent, name, _nothing)
    # A job of the name "startup" or "local" would have that folder of the kit removed to make room for it.
    Workspace._check_job_id = staticmethod(_job_name)


def _wait_for_end(starter: int) -> None:
    while os.getppid() == starter:
        time.sleep(0.5)
    os._exit(1)


def _nothing(agent: NetAgent, request: Any) -> None:
    """No answer: FLARE's network diagnosis tells addresses, settings and stacks, and can stop a site."""


def _job_name(name: Any) -> str:
    try:
        return str(uuid.UUID(str(name)))
    except ValueError:
        raise ValueError(f"job name {name!r} is not one that a server gives") from None


def _wrong_with(app: Path) -> str:
    if (app / "custom").exists():
        return "the job carries code of its own, which this owner does not run"
    for each in sorted(app.rglob("*")):
        inside = each.relative_to(app).as_posix()
        if each.is_symlink() or (each.is_file() and inside not in _FILES and each.name not in _SIGNATURES):
            return f"the job carries {inside!r}; this owner takes its configuration and nothing else"
    try:
        config = json.loads((app / "config" / "config_fed_client.json").read_text())
    except (OSError, ValueError):
        return "the job's config/config_fed_client.json cannot be read as JSON"
    for named in _classes(config):
        if named not in OWNER_CLASSES:
            return f"the job names class {named!r}, which is not one that this owner builds"
    return ""


def _classes(part: Any) -> Iterator[Any]:
    """Everything in a configuration that FLARE would take for a class."""
    if isinstance(part, dict):
        yield from (part[key] for key in ("path", "class_path", "name") if key in part)
        if any(isinstance(key, str) and key.startswith("@") for key in part):
            yield "a template"
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _classes(each)


def _refuse(reason: str) -> None:
    _log.warning("refused: %s", reason)
    AuditService.add_event(user="dpadmm", action="refused", msg=reason)
