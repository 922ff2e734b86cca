"""python -m dpadmm.federation.flare start KIT OWNER, or job SPEC FEDERATION JOB: see docs/flare.md."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from dpadmm._files import read_json, write_json
from dpadmm._private_files import private_folder
from dpadmm.errors import InputError
from dpadmm.federation.client.owner_folder import OwnerFolder
from dpadmm.federation.flare.guard import environment
from dpadmm.federation.server.federation import Federation
from dpadmm.federation.server.submission import submit
from dpadmm.spec.toml import read

_HERE = "dpadmm.federation.flare"
_GPU = "nvflare.app_common.resource_managers.gpu_resource_manager.GPUResourceManager"
_CLIENT = {"ssl_private_key", "ssl_cert", "ssl_root_cert", "fqsn", "is_leaf", "connection_security"}


def site(kit: Path, owner: OwnerFolder) -> None:
    """Writes the rules of an owner's site into its kit, in place of whatever rules are there."""
    owner.identity().card.check_valid()
    told: Any = read_json(kit / "startup" / "fed_client.json", "FLARE's settings")
    extra = {*told} - {"format_version", "servers", "client"} | {*told["client"]} - _CLIENT
    extra |= {path.name for path in (kit / "startup").glob("*resources.json")}
    if extra or told["client"].get("connection_security") != "mtls":
        raise InputError(f"kit {str(kit)!r} sets {', '.join(sorted(extra)) or 'no mutual TLS'}; ask for a plain one.")
    folder, local = str(owner.path), kit / "local"
    parts: dict[str, tuple[str, dict[str, Any]]] = {
        "guard": (f"{_HERE}.guard.SiteGuard", {"folder": folder}),
        "process_launcher": (f"{_HERE}.guard.ClosedLauncher", {}),
        "resource_manager": (_GPU, {"num_of_gpus": 0, "mem_per_gpu_in_GiB": 0, "expiration_period": 300}),
        "resource_consumer": (_GPU.replace("manager", "consumer").replace("Manager", "Consumer"), {}),
    }
    components = [{"id": name, "path": path, "args": given} for name, (path, given) in parts.items()]
    rules = {"format_version": 2, "class_list_enforcement_mode": "enforce", "allow_log_streaming": False}
    rules |= {"class_allow_list": [f"{_HERE}.agent.AgentExecutor"], "client": {"retry_timeout": 30}}
    rights = {"project_admin": {"submit_job": "any", "abort_job": "any", "byoc": "none", "shell_commands": "none"}}
    # Between FLARE's two processes: files in a folder of the owner's, and no port.
    inner = {"root_dir": str(private_folder(owner.path / "flare")), "dir_mode": "700", "file_mode": "600"}
    internal = {"scheme": "shared-file", "resources": {**inner, "poll_interval": 0.002, "max_poll_interval": 0.05}}
    shutil.rmtree(local, ignore_errors=True)
    local.mkdir(mode=0o700)
    write_json(local / "resources.json", {**rules, "components": components})
    write_json(local / "authorization.json", {"format_version": "1.0", "permissions": rights})
    write_json(local / "comm_config.json", {"allow_adhoc_conns": False, "internal": internal})
    write_json(local / "log_config.json", {"version": 1, "disable_existing_loggers": False})


def start(kit: Path, owner: OwnerFolder) -> None:
    """Becomes FLARE's process of an owner's site. Nothing in the kit is run."""
    site(kit, owner)
    module, given = "nvflare.private.fed.app.client.client_train", ["-m", str(kit.absolute()), "-s", "fed_client.json"]
    settings = ["--set", "secure_train=true", f"uid={owner.name}", "org=owner", "config_folder=config"]
    os.chdir(kit)
    command = [sys.executable, "-I", "-u", "-m", module, *given, *settings]
    os.execve(sys.executable, command, environment())


def job(spec: Path, home: Federation, folder: Path) -> None:
    """Submits a run, and writes the job that FLARE is given for it: which class the coordinator runs, and no code."""
    run, config = folder.name, folder / "app" / "config"
    owners = submit(home, read(spec), run, spec.parent).experiment.federation.owners
    given = {"federation": str(home.folder.absolute()), "run": run}
    flow = {"id": "run", "path": f"{_HERE}.coordinator.RunController", "args": given}
    config.mkdir(parents=True)
    write_json(config / "config_fed_server.json", {"format_version": 2, "workflows": [flow]})
    write_json(config / "config_fed_client.json", {"format_version": 2, "executors": []})
    deploy = {"app": ["server", *owners]}
    write_json(folder / "meta.json", {"name": run, "resource_spec": {}, "min_clients": 1, "deploy_map": deploy})


if __name__ == "__main__":
    try:
        match sys.argv[1:]:
            case ["start", kit, owner]:
                start(Path(kit), OwnerFolder.of(owner))
            case ["job", spec, federation, folder]:
                job(Path(spec), Federation.open(Path(federation)), Path(folder))
            case _:
                raise InputError(str(__doc__))
    except InputError as error:
        raise SystemExit(str(error)) from None
