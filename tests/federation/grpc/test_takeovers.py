"""What took over an owner's machine in 0.1.0, tried again over streams; ../test_counterexamples.py names all of it.

rce.py: a coordinator's job was unpacked before it was looked at, and ran; an archive is bytes here. An honest server
relayed commands between owners; only sealed letters reach another agent. tls.py: any key of the federation passed for
the server's; only the pinned certificate does.
"""

from __future__ import annotations

import io
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from coordinated_runs import RING
from dialled_federation import Town
from evil_coordinator import WELCOME, Evil, request
from streams import until

from dpadmm.federation.certificates import TLS_NAME
from dpadmm.federation.client.dispatch import METHODS, Dispatcher
from dpadmm.federation.client.handler import Handler
from dpadmm.federation.frames import decode, encode
from dpadmm.federation.grpc.agent import Party

FORBIDDEN = (
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"),
    *("pickle.find_class", "ctypes.dlopen", "code.__new__", "shutil.unpack_archive"),
    *("os.symlink", "os.link", "os.chmod", "os.putenv", "socket.bind"),
)
_seen: list[tuple[str, str]] | None = None


def _hook(event: str, given: tuple[Any, ...]) -> None:
    if _seen is not None and (event in FORBIDDEN or event in ("import", "open", "os.rename", "os.mkdir")):
        _seen.append((event, str(given[0])))


sys.addaudithook(_hook)  # for good, but it does nothing while nobody watches


class Watched:
    """What this process does while it is watched: starts, imports, files it opens."""

    def __enter__(self) -> list[tuple[str, str]]:
        global _seen
        _seen = []
        return _seen

    def __exit__(self, *_: object) -> None:
        global _seen
        _seen = None


def archive(proof: Path) -> bytes:
    """The payload of rce.py: modules that are imported by themselves where the folder is on the path."""
    payload = f"open({str(proof)!r}, 'w').write('pwned')\n"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name in ("sitecustomize", "bcrypt", "coverage", "cython", "../../sitecustomize", "/tmp/sitecustomize"):
            file.writestr(f"app/custom/{name}.py", payload)
        file.writestr("app/config/config_fed_client.json", "{}")
    return made.getvalue()


@pytest.fixture
def lived(small_federation: ModuleType, tmp_path: Path) -> Any:
    """Three owners with ample budgets."""
    made = small_federation.SmallFederation(tmp_path)
    for name in made.owners:
        made.allow(name, epsilon=400.0)
    return made


@pytest.fixture
def evil(lived: Any, tmp_path: Path) -> Iterator[Any]:
    """attack(*frames): a coordinator that Ahorn has pinned sends these to its agent; what the agent answered."""
    dispatcher = Dispatcher(partial(Handler, lived.owner("ahorn")), lambda *_: ())
    assert "count" in dispatcher.answer("introduce", {})  # whatever an honest call imports and opens has been

    def attack(*sends: bytes) -> Evil:
        made = Evil(*sends, shown=_keys(lived.coordinator))
        made.mine, made.owner = _keys(lived.coordinator), _keys(lived.identities["ahorn"])
        made.asked = dispatcher  # type: ignore[assignment]
        return made

    yield attack
    dispatcher.close()


def _keys(identity: Any) -> Any:
    from streams import Keys

    return Keys(identity.tls_key_pem, identity.tls_certificate_pem)


@pytest.fixture(autouse=True)
def server_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The evil server's certificate is a card's."""
    monkeypatch.setattr("streams.SERVER_NAME", TLS_NAME)


def test_an_archive_from_the_coordinator_is_not_unpacked_and_not_run(evil: Any, lived: Any, tmp_path: Path) -> None:
    """rce.py: it is refused like any other argument that is none, by every method and in every place of it."""
    proof, payload = tmp_path / "PWNED", archive(tmp_path / "PWNED")
    bodies = [(method, payload) for method in METHODS]
    for method, names in METHODS.items():
        bodies += [(method, encode(dict.fromkeys(names, payload)))]
        bodies += [(method, encode({**dict.fromkeys(names, "study"), name: payload})) for name in names]
        bodies += [(method, encode({**dict.fromkeys(names, "study"), name: {"custom": payload}})) for name in names]
    frames = [request(number, method, body) for number, (method, body) in enumerate(bodies, 1)]
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    with Watched() as seen, evil(WELCOME, *frames) as attack:
        until(lambda: len(attack.got) > len(frames), 30.0)
    for frame, (method, body) in zip(attack.got[1:], bodies, strict=True):
        if method != "introduce" or body == payload:
            assert list(decode(frame.body)) == ["refused"], (method, body[:40])
    assert [event for event in seen if event[0] in FORBIDDEN] == []
    assert not any(name in event[1] for event in seen for name in ("custom", "sitecustomize", "bcrypt", "cython"))
    after = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.name for path in after - before} <= {"events.jsonl", "events.old.jsonl"}
    assert all(payload[:30] not in path.read_bytes() for path in after)
    assert not proof.exists()


@pytest.mark.parametrize("method", ["deploy", "start_job", "shell", "train.deploy", "sys_info", "configure_job_log"])
def test_there_is_no_command_to_deploy_or_start_anything(evil: Any, tmp_path: Path, method: str) -> None:
    with evil(WELCOME, request(1, method, archive(tmp_path / "PWNED"))) as attack:
        until(lambda: attack.streams > 1)  # the stream was ended, and the agent dials again
    assert not (tmp_path / "PWNED").exists()


def test_an_archive_from_another_owner_through_an_honest_coordinator_reaches_an_inbox_that_refuses_it(
    lived: Any, tmp_path: Path
) -> None:
    """The second way of rce.py. Eiche takes part in the same run; it signs and seals an archive as its release."""
    proof = tmp_path / "PWNED"
    with Town(lived) as town:
        for name in lived.owners:
            town.enter(name)
        terms = lived.terms(**RING)
        session = town.hub.session(lived.owners)
        given = {"run": "study", "terms": terms.dumps(), "seen": None}
        assert all(
            "joined" in reply for reply in session.ask("join", dict.fromkeys(lived.owners, given), 30.0).values()
        )
        confirmation = lived.confirmation("study", terms)
        found = session.ask("confirm", dict.fromkeys(lived.owners, confirmation), 30.0)
        assert all("confirmed" in reply for reply in found.values())
        town.hub._relays.allow({name: {"run": "study"} for name in lived.owners})
        attacker = _letters(lived, "eiche", terms)
        payload = archive(proof)
        relay = town.dispatchers["eiche"].relay
        with Watched() as seen:
            for data in (payload, attacker.sealed("ahorn", 1, payload), attacker.sealed("birke", 1, payload)):
                assert relay("study", 1, {"ahorn": data}, 10.0) == []
        log = lived.owner("ahorn").events(100)
    reasons = [event["reason"] for event in log if event["kind"] == "refused" and event.get("asked") == "hear"]
    assert len(reasons) == 3
    assert [event for event in seen if event[0] in FORBIDDEN] == []
    assert not proof.exists()


def _letters(lived: Any, name: str, terms: Any) -> Any:
    from dpadmm.federation.client.letters import Letters

    return Letters(lived.identities[name], lived.pins(), "study", terms.digest)


def test_no_key_of_the_federation_but_the_coordinators_passes_for_its_own(lived: Any) -> None:
    """tls.py: owners' certificates were accepted as the server's."""
    for name, identity in lived.identities.items():
        other = Evil(WELCOME, request(1, "introduce"), shown=_keys(identity))
        other.mine, other.owner = _keys(lived.coordinator), _keys(lived.identities["ahorn"])
        with other:
            until(lambda posing=other: any("cannot be reached" in text for text in posing.told))
            threading.Event().wait(0.2)
        assert other.streams == 0, name


def test_the_address_that_an_agent_dials_needs_the_pinned_key_whatever_it_is_called(lived: Any) -> None:
    """Whoever takes over the coordinator's address, or its name in the DNS, has no key of the pinned certificate."""
    party = Party(b"", b"", lived.coordinator.tls_certificate_pem, TLS_NAME, "coordinator.example:8002")
    assert party.server_name == TLS_NAME
    assert party.address.split(":")[0] not in lived.coordinator.card.certificate.decode("latin-1")
