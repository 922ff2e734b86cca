"""The kits of a federation: made once by the coordinator, one per owner, handed out, and renewed when keys grow old.

    FOLDER/federation.json        who takes part, and where the server is
    FOLDER/authority/             signs certificates: whoever holds it can pose as anybody. Keep it secret.
    FOLDER/coordinator/server/    the server's kit
    FOLDER/coordinator/admin/     with which runs are started
    FOLDER/owners/NAME/           goes to that owner

FLARE's own provisioning keeps every private key beside the authority's; here only the authority's is kept.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate

from dpadmm._files import read_json, write_json
from dpadmm.errors import InputError, unknown
from dpadmm.federation.flare.kit import AUTHORITY, Kit
from dpadmm.federation.flare.site_rules import guard_owner, guard_server

__all__ = ["ADMIN", "Federation", "Kit", "add", "create", "guard_owner", "guard_server", "renew"]

ADMIN = "coordinator@dpadmm.local"
_SERVER = "server"
_KEY = "rootCA.key"
_SCHEMA = "columns.toml"
_AUTHORITY_DAYS = 3650
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_HOST = re.compile(r"([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_TAKEN = ("server", "coordinator", "admin")


@dataclass(frozen=True)
class Federation:
    """The coordinator's folder, as it was made."""

    folder: Path
    name: str
    host: str
    port: int
    owners: tuple[str, ...]
    days: int

    @classmethod
    def open(cls, folder: Path) -> Federation:
        path = folder / "federation.json"
        if not path.exists():
            raise InputError(f"no federation at {str(folder)!r}: there is no {path.name}.")
        entries = read_json(path, "federation")
        try:
            return cls(folder, **{**entries, "owners": tuple(entries["owners"])})
        except (TypeError, KeyError):
            raise InputError(f"{str(path)!r} is not what was written there when the federation was made.") from None

    @property
    def server(self) -> Path:
        return self.folder / "coordinator" / "server"

    @property
    def admin(self) -> Path:
        return self.folder / "coordinator" / "admin"

    @property
    def authority(self) -> Path:
        return self.folder / "authority"

    def owner(self, name: str) -> Path:
        if name not in self.owners:
            raise unknown("owner", name, self.owners)
        return self.folder / "owners" / name

    def save(self) -> None:
        entries = {name: value for name, value in asdict(self).items() if name != "folder"}
        write_json(self.folder / "federation.json", entries)


def create(
    folder: Path,
    *,
    name: str,
    host: str,
    port: int,
    owners: Sequence[str],
    days: int = 365,
    schema: str | None = None,
) -> Federation:
    """A new federation at `folder`, whole or not at all. `schema`, the columns that everybody's records have, goes
    into every kit."""
    _check(name, host, port, owners, days)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"folder {str(folder)!r} is not empty; name a new one for the federation.")
    made = Federation(folder, name, host, port, tuple(owners), days)
    with _workshop(folder) as place:
        new = Federation(place / "made", name, host, port, tuple(owners), days)
        new.authority.mkdir(mode=0o700, parents=True)
        _found_authority(new, max(days, _AUTHORITY_DAYS))
        kits = _provision(new, place / "flare", new.owners)
        for path, kit in ((new.server, kits[_SERVER]), (new.admin, kits[ADMIN])):
            path.parent.mkdir(exist_ok=True)
            kit.rename(path)
        for owner in new.owners:
            new.owner(owner).parent.mkdir(exist_ok=True)
            kits[owner].rename(new.owner(owner))
        if schema is not None:
            for path in (new.server.parent, *(new.owner(owner) for owner in new.owners)):
                (path / _SCHEMA).write_text(schema)
        new.save()
        new.folder.replace(folder)
    try:
        guard_server(made.server)
        for owner in made.owners:
            guard_owner(made.owner(owner))
    except InputError:
        shutil.rmtree(folder)
        raise
    return made


def renew(folder: Path, owners: Sequence[str] = ()) -> list[Path]:
    """New keys and certificates in place of the old ones, which are removed: for the named owners, or for all and the
    coordinator. The rest of a kit stays. Old certificates stay valid until they run out; FLARE knows no revocation."""
    federation = Federation.open(folder)
    paths = {owner: federation.owner(owner) for owner in owners or federation.owners}
    if not owners:
        paths |= {_SERVER: federation.server, ADMIN: federation.admin}
    for path in paths.values():
        if not path.is_dir():
            raise InputError(f"no kit at {str(path)!r}; it was moved away, and cannot be renewed in place.")
    with _workshop(folder) as place:
        kits = _provision(federation, place, [owner for owner in federation.owners if owner in paths])
        for name, path in paths.items():
            old = place / f"{name}-old"
            if (path / "startup").exists():
                (path / "startup").rename(old)
            (kits[name] / "startup").rename(path / "startup")
    return list(paths.values())


def add(folder: Path, owner: str) -> Path:
    """A kit for one more owner. A server that is running lets it in without being told."""
    federation = Federation.open(folder)
    _check(federation.name, federation.host, federation.port, [*federation.owners, owner], federation.days)
    path = folder / "owners" / owner
    if path.exists():
        raise InputError(f"there is something at {str(path)!r} already; move it away first.")
    with _workshop(folder) as place:
        kit = _provision(federation, place, [owner])[owner]
        schema = federation.server.parent / _SCHEMA
        if schema.exists():
            shutil.copyfile(schema, kit / _SCHEMA)
        guard_owner(kit)
        kit.rename(path)
    Federation(**{**vars(federation), "owners": (*federation.owners, owner)}).save()
    return path


def _check(name: str, host: str, port: int, owners: Sequence[str], days: int) -> None:
    if not _NAME.fullmatch(name):
        raise InputError(f"federation name {name!r} must be 1 to 63 letters, digits, '-' and '_', without spaces.")
    if not _HOST.fullmatch(host) or len(host) > 253:
        raise InputError(f"host {host!r} must be a name such as 'fl.example.org', or an IPv4 address; no port, no URL.")
    if not 1 <= port <= 65535:
        raise InputError(f"port {port} must be from 1 to 65535.")
    if not 1 <= days <= 36500:
        raise InputError(f"days {days}: certificates must be valid for 1 to 36500 days.")
    if not owners:
        raise InputError("a federation needs an owner; name at least one.")
    seen: set[str] = set()
    for owner in owners:
        if not _NAME.fullmatch(owner):
            raise InputError(f"owner {owner!r} must be 1 to 63 letters, digits, '-' and '_', without spaces.")
        if owner.lower() in (*_TAKEN, host.lower()):
            raise InputError(f"owner {owner!r}: that name belongs to the coordinator; choose another.")
        if owner.lower() in seen:
            raise InputError(f"owner {owner!r} is named twice; upper and lower case do not count as different.")
        seen.add(owner.lower())


@contextlib.contextmanager
def _workshop(folder: Path) -> Iterator[Path]:
    """A private folder on the same disk, gone afterwards, so that what is made appears whole."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise InputError(f"nothing can be made at {str(folder)!r}: {error.strerror}.") from None
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _found_authority(federation: Federation, days: int) -> None:
    utils = _certificates().utils
    private, public = utils.generate_keys()
    itself = utils.Identity(federation.name)
    certificate = utils.generate_cert(itself, itself, private, public, valid_days=days, ca=True)
    (federation.authority / AUTHORITY).write_bytes(utils.serialize_cert(certificate))
    key = federation.authority / _KEY
    key.touch(0o600)
    key.write_bytes(utils.serialize_pri_key(private))


def _provision(federation: Federation, place: Path, owners: Sequence[str]) -> dict[str, Path]:
    """What FLARE makes for the coordinator and these owners, by name."""
    certificates = _certificates()
    try:
        certificate = (federation.authority / AUTHORITY).read_bytes()
        key = load_pem_private_key((federation.authority / _KEY).read_bytes(), password=None)
        ends = load_pem_x509_certificate(certificate).not_valid_after_utc
    except (OSError, ValueError) as error:
        raise InputError(f"the authority in {str(federation.authority)!r} cannot be read: {error}.") from None
    if ends <= datetime.now(UTC):
        raise InputError(f"the authority in {str(federation.authority)!r} ran out on {ends:%Y-%m-%d}; create anew.")
    project = certificates.Project(federation.name, "", serialized_root_cert=certificate, root_private_key=key)
    server = project.set_server(federation.host, "coordinator", {"fed_learn_port": federation.port})
    project.add_admin(ADMIN, "coordinator", {"role": "project_admin"})
    for owner in owners:
        project.add_client(owner, owner.replace("-", "_"), {})
    noise = io.StringIO()
    with contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
        context = certificates.Provisioner(str(place), certificates.builders(federation.days, ends)).provision(project)
    made = context.get_result_location()
    if made is None or context.get_errors():
        raise InputError(f"FLARE could not make the kits: {' '.join(context.get_errors())}")
    kits = {_SERVER if each.name == server.name else each.name: each for each in Path(made).iterdir()}
    for kit in kits.values():
        kit.chmod(0o700)
        for each in kit.glob("startup/*.key"):
            each.chmod(0o600)
    return kits


def _certificates() -> Any:
    """FLARE's provisioning, or how to get it."""
    try:
        from dpadmm.federation.flare import certificates
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("nvflare"):
            raise
        raise InputError("a federation needs NVIDIA FLARE; say: pip install 'dpadmm[federation]'") from None
    return certificates
