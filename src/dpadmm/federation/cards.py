"""Who somebody is in a federation: a card with three public keys, signed by the first of them.

A card is public and may take any way. What makes it somebody's is its fingerprint: people compare it over another
channel, and from then on each side trusts exactly this card. Every `Card` that exists is well formed and signed by its
own identity, because making one checks that; whose it is, only its fingerprint says.

The identity (Ed25519) signs, sealing (X25519) is what others encrypt for, and the certificate (P-256, signed by itself)
is for TLS. A new card of the same holder is signed by the old identity as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding

from dpadmm._files import json_value
from dpadmm.errors import InputError
from dpadmm.federation.certificates import InvalidCertificate, check_certificate
from dpadmm.privacy.events import canonical, digest

VERSION = 1
OWNER, COORDINATOR = "owner", "coordinator"
LARGEST_CARD = 8192  # characters
KEY, SIGNATURE, PUBLIC = 32, 64, 32  # bytes
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_TAKEN = ("server", "coordinator", "admin")

# What a signature or a seal is for; one made for another purpose is none.
CARD = "dpadmm card"
ROTATION = "dpadmm rotation"
INVITATION = "dpadmm invitation"
TERMS = "dpadmm terms"
RELEASE = "dpadmm release"
DECISION = "dpadmm decision"
NEIGHBOUR = "dpadmm neighbour"
REQUEST = "dpadmm request"


class NotGenuine(Exception):
    """A signature, a seal or a card is not what it claims to be."""


def check_name(name: object) -> str:
    """A name that can be an owner's in terms, on a terminal and as a folder.

    Raises:
        InputError: It cannot.
    """
    if type(name) is not str or not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is no owner's name: up to 63 letters, digits, '-' and '_', a letter first.")
    if name.lower() in _TAKEN:
        raise InputError(f"{name!r} cannot be an owner's name; it stands for something else.")
    return name


def shown(fingerprint: str) -> str:
    """A fingerprint as people compare it, in groups of four."""
    return " ".join(fingerprint[place : place + 4] for place in range(0, len(fingerprint), 4))


def signed_bytes(purpose: str, *parts: bytes | str) -> bytes:
    """What is signed: the purpose and each part behind its length, so that no two lists of parts look alike."""
    return b"dpadmm signature 1\n" + digest(purpose, *parts).encode()


@dataclass(frozen=True)
class Card:
    """The public half of an `Identity`.

    Args:
        name: The owner's name, or the federation's.
        role: `owner` or `coordinator`.
        identity: The key that checks signatures.
        sealing: The key that others encrypt for.
        certificate: For TLS, as DER.
        replaces: The fingerprint of the card before this one, if there was one.
        vouched: The signature of that card's identity.
        signature: The signature of this card's identity.

    Raises:
        NotGenuine: They do not make a card.
    """

    name: str
    role: str
    identity: bytes
    sealing: bytes
    certificate: bytes
    replaces: str | None
    vouched: bytes | None
    signature: bytes

    def __post_init__(self) -> None:
        try:
            check_name(self.name)
        except InputError as error:
            raise NotGenuine(str(error).rstrip(".")) from None
        lengths = {"identity": PUBLIC, "sealing": PUBLIC, "signature": SIGNATURE, "vouched": SIGNATURE}
        for name, length in lengths.items():
            value = getattr(self, name)
            if not (name == "vouched" and value is None) and (type(value) is not bytes or len(value) != length):
                raise NotGenuine(f"the card's {name} must have {length} bytes")
        if self.role not in (OWNER, COORDINATOR):
            raise NotGenuine("the card's role must be 'owner' or 'coordinator'")
        if (self.replaces is None) != (self.vouched is None):
            raise NotGenuine("a card that replaces another one needs that one's signature")
        if self.replaces is not None and not is_fingerprint(self.replaces):
            raise NotGenuine("what the card replaces is no fingerprint")
        self.verify(CARD, self.signature, self.body)
        try:
            check_certificate(self.certificate, self.name)
        except InvalidCertificate as error:
            raise NotGenuine(str(error)) from None

    # -- as text ---------------------------------------------------------------------------------------------------

    @cached_property
    def body(self) -> str:
        """All of it but the signatures, the same for the same card."""
        return canonical(body_of(self.name, self.role, self.identity, self.sealing, self.certificate, self.replaces))

    @cached_property
    def fingerprint(self) -> str:
        """Names the card: 64 hexadecimal digits."""
        return digest(CARD, self.body)

    @property
    def shown(self) -> str:
        """The fingerprint as people compare it."""
        return shown(self.fingerprint)

    def dumps(self) -> str:
        """As text, which `loads` reads."""
        entries = {name: value.hex() if type(value) is bytes else value for name, value in asdict(self).items()}
        return canonical({"dpadmm_card": VERSION, **entries})

    @classmethod
    def loads(cls, text: str | bytes) -> Card:
        """The card that a text from anybody says.

        Args:
            text: As `dumps` writes it; blanks between its parts do not matter.

        Returns:
            A card that its own identity has signed. Whose it is, its fingerprint says.

        Raises:
            NotGenuine: It says none.
        """
        entries = strict_json(text, LARGEST_CARD, "card")
        known = {entry.name for entry in fields(cls)}
        if not isinstance(entries, dict) or entries.keys() != {"dpadmm_card", *known}:
            raise NotGenuine("this is no card of dpadmm")
        version = entries.pop("dpadmm_card")
        if type(version) is not int or version != VERSION:
            raise NotGenuine("the card is one of another version of dpadmm")
        if any(type(value) not in (str, type(None)) for value in entries.values()):
            raise NotGenuine("the card's entries must be texts")
        for name in ("identity", "sealing", "certificate", "vouched", "signature"):
            entries[name] = None if entries[name] is None else _from_hex(entries[name])
        return cls(**entries)

    # -- what it is for --------------------------------------------------------------------------------------------

    def verify(self, purpose: str, signature: object, *parts: bytes | str) -> None:
        """Checks what this identity signed.

        Raises:
            NotGenuine: It did not sign these parts for this purpose.
        """
        if type(signature) is not bytes or len(signature) != SIGNATURE:
            raise NotGenuine("there is no signature")
        try:
            Ed25519PublicKey.from_public_bytes(self.identity).verify(signature, signed_bytes(purpose, *parts))
        except InvalidSignature:
            raise NotGenuine(f"the signature ({purpose}) is not {self.name}'s") from None

    def seal(self, context: bytes, data: bytes) -> bytes:
        """Encrypts for the holder of this card, who must name the same context; see `sealing_context`."""
        mine = X25519PrivateKey.generate()
        public = mine.public_key().public_bytes_raw()
        try:
            shared = mine.exchange(X25519PublicKey.from_public_bytes(self.sealing))
        except ValueError:
            raise NotGenuine(f"the sealing key of {self.name} is none") from None
        return public + seal_cipher(shared, public, self.sealing, context).encrypt(bytes(12), data, context)

    def check_follows(self, before: Card) -> None:
        """Checks that the holder of an older card has made this one.

        Raises:
            NotGenuine: It has another name or role, replaces another card, or is not signed by the old identity.
        """
        if (self.name, self.role) != (before.name, before.role):
            raise NotGenuine(f"the new card is for the {self.role} {self.name}, not the {before.role} {before.name}")
        if self.replaces != before.fingerprint:
            raise NotGenuine(f"the new card of {self.name} does not replace the card that is known")
        before.verify(ROTATION, self.vouched, self.body)

    @cached_property
    def valid_until(self) -> datetime:
        return x509.load_der_x509_certificate(self.certificate).not_valid_after_utc

    def check_valid(self, now: datetime | None = None) -> None:
        """Raises an `InputError` where the card's certificate has run out, or is not valid yet."""
        now = datetime.now(UTC) if now is None else now
        if now > self.valid_until:
            day = self.valid_until.date().isoformat()
            raise InputError(f"the card of {self.name} ran out on {day}; its holder must make a new one.")
        if now < x509.load_der_x509_certificate(self.certificate).not_valid_before_utc:
            raise InputError(f"the card of {self.name} is not valid yet; check the clocks.")

    @cached_property
    def certificate_pem(self) -> bytes:
        """The certificate as transports take it."""
        return x509.load_der_x509_certificate(self.certificate).public_bytes(Encoding.PEM)


def body_of(
    name: str, role: str, identity: bytes, sealing: bytes, certificate: bytes, replaces: str | None
) -> Mapping[str, Any]:
    """What a card says, without signatures."""
    keys = {"identity": identity.hex(), "sealing": sealing.hex(), "certificate": certificate.hex()}
    return {"version": VERSION, "name": name, "role": role, "replaces": replaces, **keys}


def sealing_context(purpose: str, run: str, terms: str, round: int, sender: Card, receiver: Card) -> bytes:
    """What a seal is bound to: opened in any other place it is none."""
    parties = (sender.name, receiver.name, sender.fingerprint, receiver.fingerprint)
    return digest(purpose, run, terms, str(round), *parties).encode()


def seal_cipher(shared: bytes, ephemeral: bytes, receiver: bytes, context: bytes) -> ChaCha20Poly1305:
    """The cipher of one seal. Its key is used once, so its nonce may be zero."""
    info = b"dpadmm seal 1\n" + ephemeral + receiver + context
    return ChaCha20Poly1305(HKDF(SHA256(), KEY, salt=None, info=info).derive(shared))


def is_fingerprint(text: object) -> bool:
    """Whether a text can be a card's fingerprint, or another digest."""
    return type(text) is str and re.fullmatch(r"[0-9a-f]{64}", text) is not None


def strict_json(text: str | bytes, limit: int, what: str) -> Any:
    """What a short JSON text from anybody holds; no name may come twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise NotGenuine(f"the {what} has an entry twice")
        return found

    if len(text) > limit:
        raise NotGenuine(f"the {what} is longer than {limit:,} characters")
    try:
        return json_value(text, object_pairs_hook=once)
    except ValueError:
        raise NotGenuine(f"the {what} is not JSON") from None


def _from_hex(text: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        raise NotGenuine("the card's keys must be hexadecimal digits") from None
    if found.hex() != text:
        raise NotGenuine("the card's keys must be hexadecimal digits")
    return found
