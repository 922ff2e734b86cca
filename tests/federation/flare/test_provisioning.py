"""Kits: how they are made and renewed, and what is found wrong with them."""

from __future__ import annotations

import json
import shutil
import stat
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from dpadmm.errors import InputError
from dpadmm.federation.flare import processes, provisioning
from dpadmm.federation.flare.provisioning import Federation, Kit, add, create, renew

OWNERS = ("st-mary", "charite")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    folder = tmp_path_factory.mktemp("kits") / "federation"
    return create(folder, name="demo", host="fl.example.org", port=8002, owners=OWNERS, days=30, schema="age = 1\n")


@pytest.fixture
def federation(made: Federation, tmp_path: Path) -> Federation:
    shutil.copytree(made.folder, tmp_path / "federation")
    return Federation.open(tmp_path / "federation")


@pytest.fixture
def kit(federation: Federation) -> Path:
    return federation.owner("charite")


def _dated(kit: Path, authority: Path, start: timedelta, end: timedelta) -> None:
    """The kit's certificate with other dates, signed by the authority."""
    path, now = kit / "startup" / "client.crt", datetime.now(UTC)
    old = x509.load_pem_x509_certificate(path.read_bytes())
    key: Any = load_pem_private_key((authority / "rootCA.key").read_bytes(), password=None)
    builder = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        .issuer_name(old.issuer)
        .public_key(old.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + start)
        .not_valid_after(now + end)
    )
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    made = builder.sign(key, hashes.SHA256())
    path.write_bytes(made.public_bytes(Encoding.PEM))


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_everything_has_its_place(made: Federation) -> None:
    assert Federation.open(made.folder) == made
    found = {each.relative_to(made.folder).as_posix() for each in made.folder.glob("*/*")}
    assert found == {
        "authority/rootCA.key",
        "authority/rootCA.pem",
        "coordinator/server",
        "coordinator/admin",
        "coordinator/columns.toml",
        "owners/st-mary",
        "owners/charite",
    }
    assert list(made.folder.parent.iterdir()) == [made.folder]
    for name in OWNERS:
        assert (made.owner(name) / "columns.toml").read_text() == "age = 1\n"
    with pytest.raises(InputError, match="did you mean 'charite'"):
        made.owner("charité")


def test_only_the_account_reads_keys(made: Federation) -> None:
    keys = list(made.folder.rglob("*.key"))
    assert len(keys) == 5
    assert {_mode(each) for each in keys} == {0o600}
    assert _mode(made.authority) == 0o700
    secret = (made.owner("charite") / "startup" / "client.key").read_text().splitlines()[1]
    assert not any(secret in each.read_text() for each in made.authority.iterdir())


def test_a_kit_says_what_it_is(made: Federation) -> None:
    for path, name in (
        (made.owner("st-mary"), "st-mary"),
        (made.server, "fl.example.org"),
        (made.admin, provisioning.ADMIN),
    ):
        found = Kit(path)
        found.check()
        assert (found.name, found.address) == (name, "fl.example.org:8002")
        assert abs(found.expires - datetime.now(UTC) - timedelta(days=30)) < timedelta(hours=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "a b"}, "federation name 'a b'"),
        ({"host": "https://fl.example.org"}, "host 'https://fl.example.org' must be a name"),
        ({"host": "fl.example.org:8002"}, "no port"),
        ({"host": "-x"}, "host '-x'"),
        ({"port": 0}, "port 0"),
        ({"days": 0}, "days 0"),
        ({"owners": []}, "needs an owner"),
        ({"owners": ["St. Mary"]}, "owner 'St. Mary' must be"),
        ({"owners": ["a\n"]}, "must be 1 to 63"),
        ({"owners": ["../x"]}, "owner '../x'"),
        ({"owners": ["Server"]}, "belongs to the coordinator"),
        ({"owners": ["localhost"]}, "belongs to the coordinator"),
        ({"owners": ["a", "A"]}, "named twice"),
    ],
)
def test_bad_names_are_refused_and_nothing_remains(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"name": "demo", "host": "localhost", "port": 8002, "owners": ["a"], **change}
    with pytest.raises(InputError, match=message):
        create(tmp_path / "f", **given)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(InputError, match="not empty"):
        create(tmp_path, name="demo", host="localhost", port=8002, owners=["a"])
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]


def test_nothing_half_made_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> None:
        raise InputError("no")

    for name in ("_provision", "guard_owner"):
        with monkeypatch.context() as patch:
            patch.setattr(provisioning, name, lambda *given: fail(given[0]))
            with pytest.raises(InputError):
                create(tmp_path / "f", name="demo", host="localhost", port=8002, owners=["a"])
        assert list(tmp_path.iterdir()) == []


def test_without_flare_one_is_told_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith(("nvflare", "dpadmm.federation.flare.certificates"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nvflare", None)
    monkeypatch.delattr("dpadmm.federation.flare.certificates", raising=False)
    with pytest.raises(InputError, match=r"pip install 'dpadmm\[federation\]'"):
        create(tmp_path / "f", name="demo", host="localhost", port=8002, owners=["a"])
    assert list(tmp_path.iterdir()) == []


def test_renewal_changes_keys_and_nothing_else(federation: Federation, kit: Path) -> None:
    (kit / "ledger.db").write_text("books")
    (kit / "local" / "resources.json").write_text("{}")
    before = {path: (path / "startup" / "client.key").read_bytes() for path in map(federation.owner, OWNERS)}
    root = (kit / "startup" / "rootCA.pem").read_bytes()
    assert renew(federation.folder, ["charite"]) == [kit]
    after = {path: (path / "startup" / "client.key").read_bytes() for path in before}
    assert [path for path in before if before[path] != after[path]] == [kit]
    assert (kit / "startup" / "rootCA.pem").read_bytes() == root
    assert ((kit / "ledger.db").read_text(), (kit / "local" / "resources.json").read_text()) == ("books", "{}")
    Kit(kit).check()

    renewed = renew(federation.folder)
    assert set(renewed) == {*before, federation.server, federation.admin}
    for path in renewed:
        Kit(path).check()
    assert {_mode(each) for each in federation.folder.rglob("*.key")} == {0o600}
    assert [each.name for each in federation.folder.parent.iterdir()] == ["federation"]
    with pytest.raises(InputError, match="unknown owner 'nobody'"):
        renew(federation.folder, ["nobody"])


def test_an_owner_joins_later(federation: Federation) -> None:
    path = add(federation.folder, "ucl")
    Kit(path).check()
    assert Kit(path).address == "fl.example.org:8002"
    assert (path / "columns.toml").read_text() == "age = 1\n"
    assert Federation.open(federation.folder).owners == (*OWNERS, "ucl")
    for name in ("UCL", "server", "x y"):
        with pytest.raises(InputError):
            add(federation.folder, name)


def test_a_lost_authority_is_said_so(federation: Federation) -> None:
    (federation.authority / "rootCA.key").unlink()
    with pytest.raises(InputError, match=r"authority in .* cannot be read"):
        renew(federation.folder)
    Kit(federation.owner("charite")).check()


def _other_key(kit: Path) -> None:
    shutil.copy(kit.parent / "st-mary" / "startup" / "client.key", kit / "startup" / "client.key")


def _other_root(kit: Path) -> None:
    other = create(kit.parents[2] / "other", name="demo", host="localhost", port=1, owners=["x"])
    shutil.copy(other.authority / "rootCA.pem", kit / "startup" / "rootCA.pem")


def _settings(**changes: Any) -> Callable[[Path], None]:
    def change(kit: Path) -> None:
        path = kit / "startup" / "fed_client.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda kit: shutil.rmtree(kit), "there is no such folder"),
        (lambda kit: shutil.rmtree(kit / "startup"), "is not a kit"),
        (lambda kit: (kit / "startup" / "client.key").unlink(), "startup/client.key is missing"),
        (lambda kit: (kit / "startup" / "client.crt").unlink(), "startup/client.crt is missing"),
        (lambda kit: (kit / "startup" / "rootCA.pem").write_text("x"), "rootCA.pem is not a certificate"),
        (lambda kit: (kit / "startup" / "client.key").write_text("x"), "client.key is not a private key"),
        (lambda kit: (kit / "startup" / "fed_client.json").write_text("{"), "cannot be read as JSON"),
        (lambda kit: (kit / "startup" / "client.key").chmod(0o640), "chmod 600"),
        (_other_key, "does not belong to its certificate"),
        (_other_root, "not signed by its own rootCA.pem"),
        (lambda kit: _dated(kit, kit.parents[1] / "authority", -timedelta(9), -timedelta(1)), "ran out on"),
        (lambda kit: _dated(kit, kit.parents[1] / "authority", timedelta(1), timedelta(9)), "is not valid before"),
        (_settings(components=[]), "sets components. Do not use it"),
        (_settings(require_signed_jobs=False), "sets require_signed_jobs"),
        (_settings(client={"connection_security": "clear"}), "mutual TLS"),
        (lambda kit: (kit / "startup" / "x__resources.json").write_text("{}"), "sets x__resources.json"),
    ],
)
def test_what_is_wrong_with_a_kit_is_said(kit: Path, harm: Callable[[Path], None], message: str) -> None:
    harm(kit)
    with pytest.raises(InputError, match=message):
        Kit(kit).check()
    with pytest.raises(InputError, match=message):
        processes.start_client(kit)
