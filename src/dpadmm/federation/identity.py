"""The private half of a card: the keys of one owner or coordinator, made where they are used and never sent.

    keys.json    the private keys and the card, in one file, so that they always go together

It lies in a private folder (`_private_files`). Only the card leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from dpadmm._private_files import read_private, write_private
from dpadmm.errors import InputError
from dpadmm.federation.cards import (
    CARD,
    PUBLIC,
    ROTATION,
    Card,
    NotGenuine,
    body_of,
    check_name,
    seal_cipher,
    signed_bytes,
    strict_json,
)
from dpadmm.federation.certificates import make_certificate
from dpadmm.privacy.events import canonical

KEYS_FILE = "keys.json"
DAYS = 365  # that a certificate is valid
_LONGEST = 3650
_LARGEST_FILE = 20_000  # bytes
_KEYS = ("identity", "sealing", "tls")

_Key = Ed25519PrivateKey | X25519PrivateKey | ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Identity:
    """The keys of one owner or coordinator, and the card that goes with them."""

    card: Card
    _identity: Ed25519PrivateKey = field(repr=False)
    _sealing: X25519PrivateKey = field(repr=False)
    _tls: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def create(cls, name: str, role: str, *, days: int = DAYS, before: Identity | None = None) -> Identity:
        """New keys.

        Args:
            name: Whose they are.
            role: `owner` or `coordinator`.
            days: How long the certificate is valid.
            before: The keys that these replace.

        Returns:
            The keys, in memory only.

        Raises:
            InputError: The name or the number of days cannot be used.
        """
        check_name(name)
        if not 1 <= days <= _LONGEST:
            raise InputError(f"a card is valid for 1 to {_LONGEST} days, not for {days}.")
        identity, sealing = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
        tls = ec.generate_private_key(ec.SECP256R1())
        certificate = make_certificate(name, tls, days)
        public = identity.public_key().public_bytes_raw(), sealing.public_key().public_bytes_raw(), certificate
        replaces = None if before is None else before.card.fingerprint
        body = canonical(body_of(name, role, *public, replaces))
        vouched = None if before is None else before.sign(ROTATION, body)
        signature = identity.sign(signed_bytes(CARD, body))
        return cls(Card(name, role, *public, replaces, vouched, signature), identity, sealing, tls)

    def renewed(self, *, days: int = DAYS) -> Identity:
        """New keys of the same holder; their card is signed by these, too.

        Args:
            days: How long the new certificate is valid.

        Returns:
            The new keys, in memory only.
        """
        return Identity.create(self.card.name, self.card.role, days=days, before=self)

    # -- on disk ---------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Writes keys and card into a private folder.

        Args:
            folder: A private folder, which exists.

        Raises:
            InputError: The folder is not this user's alone.
        """
        keys: tuple[_Key, ...] = (self._identity, self._sealing, self._tls)
        entries = {name: _pem(key).decode() for name, key in zip(_KEYS, keys, strict=True)}
        write_private(folder / KEYS_FILE, canonical({"card": self.card.dumps(), **entries}) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Identity:
        """The keys in a folder.

        Args:
            folder: Where `save` wrote them.

        Returns:
            The keys.

        Raises:
            FileNotFoundError: There are none.
            InputError: The folder or a file is not this user's alone, or they do not go together.
        """
        place = folder / KEYS_FILE
        try:
            entries = strict_json(read_private(place, _LARGEST_FILE), _LARGEST_FILE, "file")
            card = Card.loads(entries["card"])
            identity, sealing, tls = (load_pem_private_key(entries[name].encode(), None) for name in _KEYS)
        except (NotGenuine, KeyError, TypeError, AttributeError, ValueError, UnsupportedAlgorithm) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{str(place)!r} does not hold a card and its keys; restore it from a backup.") from None
        if not (
            isinstance(identity, Ed25519PrivateKey)
            and isinstance(sealing, X25519PrivateKey)
            and isinstance(tls, ec.EllipticCurvePrivateKey)
            and identity.public_key().public_bytes_raw() == card.identity
            and sealing.public_key().public_bytes_raw() == card.sealing
            and tls.public_key() == x509.load_der_x509_certificate(card.certificate).public_key()
        ):
            raise InputError(f"the keys in {str(place)!r} are not those of the card there; restore it from a backup.")
        return cls(card, identity, sealing, tls)

    # -- what they are for -----------------------------------------------------------------------------------------

    def sign(self, purpose: str, *parts: bytes | str) -> bytes:
        """A signature over these parts, for one purpose; `Card.verify` checks it."""
        return self._identity.sign(signed_bytes(purpose, *parts))

    def open_sealed(self, context: bytes, data: object) -> bytes:
        """What somebody sealed for this card in this context; who it was, a signature inside must say.

        Raises:
            NotGenuine: It was not sealed for this card in this context, or was changed.
        """
        if type(data) is not bytes or len(data) < PUBLIC:
            raise NotGenuine("there is no seal")
        public = data[:PUBLIC]
        try:
            shared = self._sealing.exchange(X25519PublicKey.from_public_bytes(public))
            cipher = seal_cipher(shared, public, self.card.sealing, context)
            return cipher.decrypt(bytes(12), data[PUBLIC:], context)
        except (InvalidTag, ValueError):
            raise NotGenuine("the seal cannot be opened") from None

    @property
    def tls_key_pem(self) -> bytes:
        """The key of the certificate, for a transport in this process."""
        return _pem(self._tls)

    @property
    def tls_certificate_pem(self) -> bytes:
        return self.card.certificate_pem


def _pem(key: _Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
