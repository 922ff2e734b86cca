"""The rules in a kit's `local/`: what a site allows, where it keeps things, and what it writes down.

They are written anew at every start, so that an old kit, or one that somebody has changed, is as strict as a new one.
An owner trusts nobody: its rules name what its agent needs, and forbid the rest.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpadmm._files import write_json
from dpadmm.errors import InputError

STARTER = "DPADMM_STARTER"
OWNER_CLASSES = ("nvflare.collab.runtime.executor.CollabExecutor", "dpadmm.federation.flare.agent_app.AgentApp")
SERVER_CLASSES = (
    "nvflare.collab.runtime.controller.CollabController",
    "dpadmm.federation.flare.coordinator_app.CoordinatorApp",
)
_HERE = "dpadmm.federation.flare.guard"
_WRITTEN = ("resources.json", "authorization.json", "log_config.json")
# What else FLARE would read from `local/`: it adds to, or goes before, what is written here.
_STRAY = ("*resources.json", "privacy.json", "comm_config.*", "custom", "study_registry.json", "*.default", "*.sample")
_NEVER = {"byoc": "none", "shell_commands": "none", "clone_job": "none", "server-predeployed-flwr": "none"}


def guard_owner(kit: Path) -> None:
    """The rules of an owner's site."""
    resources = {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": list(OWNER_CLASSES),
        "allow_log_streaming": False,
        "client": {"retry_timeout": 30, "compression": "Gzip"},
        "app_validator": {"path": f"{_HERE}.JobCheck", "args": {}},
        "components": [
            _component("site_guard", f"{_HERE}.SiteGuard"),
            _component(
                "resource_manager", "nvflare.app_common.resource_managers.gpu_resource_manager.GPUResourceManager",
                num_of_gpus=0, mem_per_gpu_in_GiB=0, expiration_period=300,
            ),
            _component(
                "resource_consumer", "nvflare.app_common.resource_consumers.gpu_resource_consumer.GPUResourceConsumer"
            ),
            _component(
                "process_launcher", "nvflare.app_common.job_launcher.client_process_launcher.ClientProcessJobLauncher"
            ),
        ],
    }  # fmt: skip
    _write(kit, resources, {"submit_job": "any", "abort_job": "any", "abort": "any", **_NEVER, "operate": "none"})


def guard_server(kit: Path) -> None:
    """The rules of the coordinator's site: it keeps jobs and snapshots in its own folder, and starts jobs at once."""
    storage = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    place = kit.resolve()
    resources = {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": list(SERVER_CLASSES),
        "allow_log_streaming": False,
        "servers": [
            {"admin_storage": "transfer", "max_num_clients": 1000, "heart_beat_timeout": 60, "admin_timeout": 10.0}
        ],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors.storage_state_persistor.StorageStatePersistor",
            "args": {
                "uri_root": "/",
                "storage": {"path": storage, "args": {"root_dir": str(place / "snapshots"), "uri_root": "/"}},
            },
        },
        "components": [
            _component("watch", f"{_HERE}.JobWatch"),
            _component(
                "job_scheduler", "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                max_jobs=4, min_schedule_interval=1.0, max_schedule_interval=10.0, max_schedule_count=1000,
            ),
            _component(
                "job_manager", "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                uri_root=str(place / "jobs"), job_store_id="job_store",
            ),
            _component("job_store", storage),
            _component(
                "process_launcher", "nvflare.app_common.job_launcher.server_process_launcher.ServerProcessJobLauncher"
            ),
        ],
    }  # fmt: skip
    rights = dict.fromkeys(("submit_job", "manage_job", "download_job", "view", "operate"), "any")
    _write(kit, resources, {**rights, **_NEVER})


def _component(name: str, path: str, **arguments: Any) -> dict[str, Any]:
    return {"id": name, "path": path, "args": arguments}


def _write(kit: Path, resources: Mapping[str, Any], rights: Mapping[str, str]) -> None:
    local = kit / "local"
    authorization = {"format_version": "1.0", "permissions": {"project_admin": dict(rights)}}
    try:
        local.mkdir(exist_ok=True)
        (kit / "logs").mkdir(exist_ok=True)
        for pattern in _STRAY:
            for each in local.glob(pattern):
                if each.name not in _WRITTEN:
                    _remove(each)
        for name, content in zip(_WRITTEN, (resources, authorization, _LOGGING), strict=True):
            _replace(local / name, content)
    except OSError as error:
        raise InputError(f"the rules of kit {str(kit)!r} cannot be written: {error.strerror}.") from None


def _replace(path: Path, content: Mapping[str, Any]) -> None:
    """Never through a link to somewhere else: the file is renamed to its place, and a folder in its way is removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    write_json(path, content)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


# One file per process, in the folder that `NVFL_LOG_ROOT` names, and nothing on the terminal. A call that goes well
# leaves no line; FLARE would write several per call.
_LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {
        "file": {
            "class": "logging.handlers.RotatingFileHandler",
            "formatter": "plain",
            "filename": "log.txt",
            "maxBytes": 10_000_000,
            "backupCount": 3,
        }
    },
    "loggers": {
        "root": {"level": "WARNING", "handlers": ["file"]},
        "nvflare": {"level": "WARNING"},
        "dpadmm": {"level": "INFO"},
    },
}
