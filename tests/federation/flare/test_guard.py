"""Real sites over loopback: who gets in, and what a server cannot make an owner's site do.

The server here lies as much as it can: it grants its user everything, never asks a site for authorisation, and says
that whoever asks has FLARE's role `super`, which may do anything.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from nvflare.fuel.flare_api.flare_api import new_secure_session

from dpadmm.errors import InputError
from dpadmm.federation.flare import processes
from dpadmm.federation.flare.provisioning import ADMIN, Federation, Kit, create, guard_owner, guard_server
from dpadmm.federation.flare.site_rules import OWNER_CLASSES, SERVER_CLASSES

LIAR = """
import runpy
from nvflare.private.admin_defs import Message
from nvflare.private.defs import RequestHeader

honest = Message.set_header

lies = {RequestHeader.REQUIRE_AUTHZ: "false", RequestHeader.USER_ROLE: "super", RequestHeader.SUBMITTER_ROLE: "super"}

def lie(self, key, value):
    honest(self, key, lies.get(key, value))

Message.set_header = lie
runpy.run_module("nvflare.private.fed.app.server.server_train", run_name="__main__", alter_sys=True)
"""
STRANGER = "nvflare.app_common.np.np_trainer.NPTrainer"
PATIENCE = 30.0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _until(what: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"did not happen within {seconds:g} s")


def _log_in(federation: Federation) -> Any:
    with redirect_stdout(StringIO()):
        try:
            return new_secure_session(ADMIN, str(federation.admin), timeout=3.0)
        except Exception:  # the server is not up yet; FLARE raises one of many
            return None


def _names(session: Any) -> set[str]:
    return {each.name for each in session.get_system_info().client_info}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    folder = tmp_path_factory.mktemp("doors") / "federation"
    return create(folder, name="demo", host="localhost", port=_free_port(), owners=["good", "late"])


@pytest.fixture(scope="module")
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Everything in it is ended in the end."""
    all_of_them: list[subprocess.Popen[bytes]] = []
    yield all_of_them
    for each in all_of_them:
        processes.stop(each, seconds=3)


@pytest.fixture(scope="module")
def session(
    federation: Federation, started: list[subprocess.Popen[bytes]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """A user of the lying server, to which a good site and two bad ones have been talking for long enough."""
    code = tmp_path_factory.mktemp("code")
    (code / "lying_server.py").write_text(LIAR)
    guard_server(federation.server)
    rights = {"format_version": "1.0", "permissions": {"project_admin": "any"}}
    (federation.server / "local" / "authorization.json").write_text(json.dumps(rights))
    surroundings = {"PYTHONPATH": str(code)}
    started.append(
        processes._start("lying_server", "fed_server.json", ["org=coordinator"], federation.server, surroundings)
    )
    session = _until(lambda: _log_in(federation))
    bad = [_foreign(federation), _expired(federation)]
    for kit in bad:
        guard_owner(kit)
        settings = [f"uid={Kit(kit).name}", f"org={Kit(kit).organisation}"]
        module = "nvflare.private.fed.app.client.client_train"
        started.append(processes._start(module, "fed_client.json", settings, kit, {}))
    started.append(processes.start_client(federation.owner("good")))  # last, so that the others had more time
    _until(lambda: _names(session))
    yield session
    session.close()


def _foreign(federation: Federation) -> Path:
    """A kit of another authority that has everything else in common with this one, and trusts this server."""
    folder = federation.folder.parent / "foreign"
    same = {"name": federation.name, "host": federation.host, "port": federation.port}
    kit = create(folder, owners=["stranger"], **same).owner("stranger")
    shutil.copy(federation.authority / "rootCA.pem", kit / "startup" / "rootCA.pem")
    return kit


def _expired(federation: Federation) -> Path:
    kit = federation.owner("late")
    path, now = kit / "startup" / "client.crt", datetime.now(UTC)
    old = x509.load_pem_x509_certificate(path.read_bytes())
    key: Any = load_pem_private_key((federation.authority / "rootCA.key").read_bytes(), password=None)
    builder = x509.CertificateBuilder(old.issuer, old.subject, old.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=2)).not_valid_after(now - timedelta(days=1))
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    return kit


def _answered(federation: Federation, kit: Path) -> bool:
    """Whether the server says a word to a holder of this key; it hangs up on others."""
    context = ssl.create_default_context(cafile=str(federation.authority / "rootCA.pem"))
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(kit / "startup" / "client.crt", kit / "startup" / "client.key")
    with socket.create_connection(("localhost", federation.port), 10) as line:
        try:
            with context.wrap_socket(line, server_hostname="localhost") as talk:
                return bool(talk.recv(1))
        except (ssl.SSLError, ConnectionError):
            return False


def _job(folder: Path, executor: str = OWNER_CLASSES[0], agent: str = OWNER_CLASSES[1]) -> Path:
    config = folder / "app" / "config"
    config.mkdir(parents=True)
    server = {
        "format_version": 2,
        "workflows": [{"id": "c", "path": SERVER_CLASSES[0], "args": {"server_obj_id": "s"}}],
        "components": [{"id": "s", "path": SERVER_CLASSES[1], "args": {}}],
    }
    client = {
        "format_version": 2,
        "executors": [{"tasks": ["*"], "executor": {"path": executor, "args": {"client_obj_id": "a"}}}],
        "components": [{"id": "a", "path": agent, "args": {}}],
    }
    meta = {"name": "job", "resource_spec": {}, "min_clients": 1, "deploy_map": {"app": ["server", "good"]}}
    (config / "config_fed_server.json").write_text(json.dumps(server))
    (config / "config_fed_client.json").write_text(json.dumps(client))
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder


def _outcome(session: Any, job: Path) -> str:
    number = session.submit_job(str(job))
    meta = _until(lambda: _ended(session.get_job_meta(number)))
    assert meta["status"] == "FINISHED:FAILED_TO_RUN"
    return " ".join(meta["job_deploy_detail"])


def _ended(meta: dict[str, Any]) -> dict[str, Any] | None:
    """The reason is written a moment after the status."""
    return meta if meta["status"].startswith("FINISHED") and "job_deploy_detail" in meta else None


def _written(federation: Federation, name: str) -> str:
    return (federation.owner("good") / "logs" / "good" / name).read_text()


def test_a_good_kit_gets_in_and_no_other(session: Any, federation: Federation) -> None:
    assert _names(session) == {"good"}
    assert _answered(federation, federation.owner("good"))
    assert not _answered(federation, federation.owner("late"))
    assert not _answered(federation, federation.folder.parent / "foreign" / "owners" / "stranger")
    with pytest.raises(InputError, match="ran out on"):
        Kit(federation.owner("late")).check()
    with pytest.raises(InputError, match="ran out on"):
        processes.start_client(federation.owner("late"))


def test_a_second_server_is_refused(session: Any, federation: Federation) -> None:
    with pytest.raises(InputError, match=f"cannot listen at localhost:{federation.port}"):
        processes.start_server(federation.server)


def test_code_in_a_job_is_refused(session: Any, federation: Federation, tmp_path: Path) -> None:
    job = _job(tmp_path / "job")
    (job / "app" / "custom").mkdir()
    (job / "app" / "custom" / "evil.py").write_text("raise SystemExit\n")
    assert "good: NVFLARE_ERROR: the job carries code of its own" in _outcome(session, job)
    assert "refused: the job carries code of its own" in _written(federation, "log.txt")
    assert "[A:refused]the job carries code of its own" in _written(federation, "audit.log")


def test_files_in_a_job_are_refused(session: Any, tmp_path: Path) -> None:
    job = _job(tmp_path / "job")
    (job / "app" / "config" / "environment.json").write_text("{}")
    assert "the job carries 'config/environment.json'" in _outcome(session, job)


@pytest.mark.parametrize("place", ["executor", "agent"])
def test_another_class_is_refused(session: Any, tmp_path: Path, place: str) -> None:
    job = _job(tmp_path / "job", **{place: STRANGER})
    assert f"the job names class '{STRANGER}'" in _outcome(session, job)
    assert "dpadmm" not in _outcome(session, job)


@pytest.mark.parametrize(
    "command",
    [
        "ls good",
        "cat good startup/fed_client.json",
        "pwd good",
        "sys_info client good",
        "report_env good",
        "report_resources client good",
        "check_status client good",
        "show_scopes client good",
        "configure_site_log client good DEBUG",
        "restart client good",
        "shutdown client good",
    ],
)
def test_commands_are_refused(session: Any, federation: Federation, command: str) -> None:
    reply = json.dumps(session.do_command(command), default=str)
    assert "invalid_request" in reply or "i, n, v, a, l, i, d" in reply
    assert str(federation.folder) not in reply
    assert "rootCA" not in reply


def test_network_diagnosis_is_not_answered(session: Any) -> None:
    for command in ("process_info good", "peers good", "conns good"):
        assert "timeout" in json.dumps(session.do_command(command), default=str)
    assert _names(session) == {"good"}


def test_everything_is_in_the_kit_and_nothing_on_the_terminal(session: Any, federation: Federation) -> None:
    kit = federation.owner("good")
    assert (kit / "logs" / "console.txt").read_text() == ""
    assert not list(kit.glob("*.log")) + list(kit.glob("log*.txt"))
    assert "ERROR" not in _written(federation, "log.txt")


def test_a_site_ends_with_whoever_started_it(federation: Federation, tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    shutil.copytree(federation.owner("good"), kit)
    code = f"""
import time
from pathlib import Path
from dpadmm.federation.flare.processes import start_client
print(start_client(Path({str(kit)!r})).pid, flush=True)
time.sleep(60)
"""
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert starter.stdout is not None
    with starter, starter.stdout:
        site = psutil.Process(int(starter.stdout.readline()))
        _until(lambda: (kit / "logs" / "good" / "log.txt").exists())  # its rules are in force
        os.kill(starter.pid, signal.SIGKILL)
        starter.wait()
    _until(lambda: not processes._alive(site), 10)


def test_stopping_ends_all_that_was_started() -> None:
    code = "import subprocess, sys, time; subprocess.Popen(['sleep', '60'], start_new_session=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    children = _until(lambda: psutil.Process(process.pid).children())
    processes.stop(process, seconds=2)
    assert process.returncode == -signal.SIGTERM
    assert not any(processes._alive(each) for each in children)
    processes.stop(process)
