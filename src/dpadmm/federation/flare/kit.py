"""A kit as found on disk: the folder with which a hospital, or the coordinator, takes part in a federation.

A kit comes from somebody else, over who knows which channel, and lies on a disk for a year. So it is looked at before
every start: a key that others can read, a certificate that has run out, or a setting that would open a door says so
here, by name and with a way out, and not as a handshake that fails somewhere inside gRPC.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from dpadmm.errors import InputError

AUTHORITY = "rootCA.pem"
_SETTINGS = {"fed_client.json": "client", "fed_server.json": "server", "fed_admin.json": "client"}
_FORMAT = "format_version"
# What a client's settings may say. FLARE reads components, handlers and rules from the same file; from there they would
# come before the owner's own.
_KNOWN: dict[str, frozenset[str]] = {
    "": frozenset({_FORMAT, "servers", "client"}),
    "servers": frozenset({"name", "service", "identity"}),
    "client": frozenset(
        {"ssl_private_key", "ssl_cert", "ssl_root_cert", "fqsn", "is_leaf", "connection_security"},
    ),
}


@dataclass(frozen=True)
class Kit:
    """A kit's folder, with `startup/` (from the coordinator) and `local/` (the site's own rules)."""

    path: Path

    @property
    def startup(self) -> Path:
        return self.path / "startup"

    @property
    def name(self) -> str:
        """What the certificate says, for that is what the other side believes."""
        return self._subject(NameOID.COMMON_NAME)

    @property
    def organisation(self) -> str:
        return self._subject(NameOID.ORGANIZATION_NAME)

    @property
    def is_server(self) -> bool:
        return self._settings_name == "fed_server.json"

    @property
    def address(self) -> str:
        """Where the server listens: host:port."""
        settings = self._settings
        try:
            if self._settings_name == "fed_admin.json":
                return f"{settings['admin']['host']}:{settings['admin']['port']}"
            return str(settings["servers"][0]["service"]["target"])
        except (KeyError, IndexError, TypeError):
            raise self._broken(f"startup/{self._settings_name} does not say where the server is") from None

    @property
    def expires(self) -> datetime:
        return self._certificate.not_valid_after_utc

    def check(self) -> None:
        """Raises `InputError` unless a site can be started with this kit, now and by this account alone."""
        certificate, key, authority = self._certificate, self._key, self._authority
        self._check_settings()
        if self._key_path.stat().st_mode & 0o077:
            raise InputError(
                f"private key {str(self._key_path)!r} can be read by other accounts of this machine; "
                f"say: chmod 600 {self._key_path}"
            )
        if _public(key.public_key()) != _public(certificate.public_key()):
            raise self._broken("its private key does not belong to its certificate")
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            raise self._broken(f"its certificate was not signed by its own {AUTHORITY}") from None
        for each, what in ((certificate, "certificate"), (authority, "authority")):
            self._check_dates(each, what)
        _ = self.address

    def _check_dates(self, certificate: x509.Certificate, what: str) -> None:
        now, where = datetime.now(UTC), f"the {what} of kit {str(self.path)!r}"
        if certificate.not_valid_after_utc <= now:
            raise InputError(
                f"{where} ran out on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; "
                "ask the coordinator for a renewed kit, and replace its folder startup."
            )
        if certificate.not_valid_before_utc > now:
            raise InputError(
                f"{where} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; "
                "see whether this machine's clock is right."
            )

    def _check_settings(self) -> None:
        """An owner's startup folder is somebody else's work: it may name a server and keys, and nothing more."""
        if self._settings_name != "fed_client.json":
            return
        extra = [each.name for each in self.startup.iterdir() if each.name.endswith("resources.json")]
        settings = self._settings
        for section, known in _KNOWN.items():
            parts = settings if not section else settings.get(section)
            for part in parts if isinstance(parts, list) else [parts]:
                if not isinstance(part, dict):
                    raise self._broken(f"startup/fed_client.json lacks {section!r}")
                extra += sorted(set(part) - known)
        if extra:
            raise InputError(
                f"kit {str(self.path)!r} would change what your site allows: its folder startup sets "
                f"{', '.join(extra)}. Do not use it; ask the coordinator for a plain one."
            )
        if settings["client"].get("connection_security") != "mtls":
            raise self._broken("startup/fed_client.json does not ask for mutual TLS")

    @cached_property
    def _settings_name(self) -> str:
        if not self.path.is_dir():
            raise InputError(f"no kit at {str(self.path)!r}: there is no such folder.")
        for name in _SETTINGS:
            if (self.startup / name).is_file():
                return name
        raise InputError(
            f"{str(self.path)!r} is not a kit: it has no startup/fed_client.json, nor that of a server. "
            "Name the folder that holds startup and local."
        )

    @cached_property
    def _settings(self) -> dict[str, Any]:
        try:
            settings = json.loads((self.startup / self._settings_name).read_text())
        except (OSError, ValueError):
            settings = None
        if not isinstance(settings, dict):
            raise self._broken(f"startup/{self._settings_name} cannot be read as JSON")
        return settings

    @property
    def _key_path(self) -> Path:
        return self.startup / f"{_SETTINGS[self._settings_name]}.key"

    @cached_property
    def _certificate(self) -> x509.Certificate:
        return self._read_certificate(f"{_SETTINGS[self._settings_name]}.crt")

    @cached_property
    def _authority(self) -> x509.Certificate:
        return self._read_certificate(AUTHORITY)

    @cached_property
    def _key(self) -> PrivateKeyTypes:
        text = self._read(self._key_path.name)
        try:
            return load_pem_private_key(text, password=None)
        except (ValueError, TypeError):
            raise self._broken(f"startup/{self._key_path.name} is not a private key") from None

    def _read_certificate(self, name: str) -> x509.Certificate:
        text = self._read(name)
        try:
            return x509.load_pem_x509_certificate(text)
        except ValueError:
            raise self._broken(f"startup/{name} is not a certificate") from None

    def _read(self, name: str) -> bytes:
        _ = self._settings_name
        try:
            return (self.startup / name).read_bytes()
        except FileNotFoundError:
            raise self._broken(f"startup/{name} is missing") from None
        except OSError as error:
            raise self._broken(f"startup/{name} cannot be read ({error.strerror})") from None

    def _subject(self, part: x509.ObjectIdentifier) -> str:
        found = self._certificate.subject.get_attributes_for_oid(part)
        if not found:
            raise self._broken("its certificate names nobody")
        return str(found[0].value)

    def _broken(self, why: str) -> InputError:
        return InputError(f"kit {str(self.path)!r} cannot be used: {why}. Ask the coordinator for a new one.")


def _public(key: Any) -> bytes:
    return bytes(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
