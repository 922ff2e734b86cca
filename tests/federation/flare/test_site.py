"""The rules that `python -m dpadmm.federation.flare start` writes for an owner's site, and the job of a run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dpadmm.errors import InputError
from dpadmm.federation.flare import __main__ as commands
from dpadmm.federation.server.federation import Federation

SETTINGS: dict[str, Any] = {
    "format_version": 2,
    "servers": [{"name": "study", "service": {"target": "localhost:8002", "scheme": "grpc"}, "identity": "localhost"}],
    "client": {"ssl_private_key": "client.key", "ssl_cert": "client.crt", "connection_security": "mtls"},
}


@pytest.fixture
def lived(small_federation: ModuleType, tmp_path: Path) -> Any:
    return small_federation.SmallFederation(tmp_path)


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """A kit as somebody else made it, with rules of theirs."""
    made = tmp_path / "kit"
    for name in ("startup", "local/custom"):
        (made / name).mkdir(parents=True)
    (made / "startup" / "fed_client.json").write_text(json.dumps(SETTINGS))
    for name in ("resources.json", "privacy.json", "x__p_resources.json", "custom/sitecustomize.py"):
        (made / "local" / name).write_text("{}")
    return made


def test_rules_of_whoever_made_the_kit_are_gone(lived: Any, kit: Path) -> None:
    commands.site(kit, lived.owner("ahorn"))
    left = {path.name for path in (kit / "local").rglob("*")}
    assert left == {"resources.json", "authorization.json", "comm_config.json", "log_config.json"}
    rules = json.loads((kit / "local" / "resources.json").read_text())
    parts = {part["id"]: part["path"].rsplit(".", 1)[1] for part in rules["components"]}
    assert (parts["guard"], parts["process_launcher"]) == ("SiteGuard", "ClosedLauncher")
    assert rules["class_allow_list"] == ["dpadmm.federation.flare.agent.AgentExecutor"]
    assert rules["class_list_enforcement_mode"] == "enforce"


def test_flares_processes_speak_through_files_in_a_folder_of_the_owners(lived: Any, kit: Path) -> None:
    commands.site(kit, lived.owner("ahorn"))
    internal = json.loads((kit / "local" / "comm_config.json").read_text())["internal"]
    folder = Path(internal["resources"]["root_dir"])
    assert internal["scheme"] == "shared-file"
    assert folder == lived.owner("ahorn").path / "flare"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (internal["resources"]["dir_mode"], internal["resources"]["file_mode"]) == ("700", "600")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"components": [{"id": "evil", "path": "os.system"}]}, "components"),
        ({"relay_config": {}}, "relay_config"),
        ({"client": {**SETTINGS["client"], "components": []}}, "components"),
        ({"client": {**SETTINGS["client"], "connection_security": "clear"}}, "mutual TLS"),
    ],
)
def test_a_kit_that_sets_more_than_keys_and_address_is_refused(
    lived: Any, kit: Path, change: dict[str, Any], said: str
) -> None:
    (kit / "startup" / "fed_client.json").write_text(json.dumps({**SETTINGS, **change}))
    with pytest.raises(InputError, match=said):
        commands.site(kit, lived.owner("ahorn"))


def test_a_kit_with_parts_beside_its_settings_is_refused(lived: Any, kit: Path) -> None:
    (kit / "startup" / "relay__resources.json").write_text("{}")
    with pytest.raises(InputError, match="relay__resources"):
        commands.site(kit, lived.owner("ahorn"))


def test_nothing_of_the_kit_is_run(lived: Any, kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *given: became.append(given))
    monkeypatch.setenv("PYTHONPATH", "/tmp/evil")
    monkeypatch.chdir(kit.parent)
    commands.start(Path("kit"), lived.owner("ahorn"))
    ((_, command, environment),) = became
    assert command[1:5] == ["-I", "-u", "-m", "nvflare.private.fed.app.client.client_train"]
    assert command[command.index("-m", 5) + 1] == str(kit)  # absolute, although we have gone there
    assert "PYTHONPATH" not in environment


def test_a_job_names_one_class_and_carries_no_code(lived: Any, small_federation: ModuleType, tmp_path: Path) -> None:
    home = Federation.create(tmp_path / "federation", host="localhost", columns=small_federation.SCHEMA)
    for name in lived.owners:
        home.add(lived.identities[name].card)
    spec, folder = tmp_path / "spec.toml", tmp_path / "jobs" / "study"
    spec.write_text(small_federation.SPEC)
    commands.job(spec, home, folder)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {"meta.json", "app/config/config_fed_server.json", "app/config/config_fed_client.json"}
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["deploy_map"] == {"app": ["server", *lived.owners]}
    (flow,) = json.loads((folder / "app/config/config_fed_server.json").read_text())["workflows"]
    assert flow["path"] == "dpadmm.federation.flare.coordinator.RunController"
    assert (home.runs / "study" / "status.json").exists()
