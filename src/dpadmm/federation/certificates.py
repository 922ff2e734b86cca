"""The TLS certificates of cards: each of one key, signed by that key, for one name, and unable to sign others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

TLS_NAME = "federation.dpadmm"  # of every certificate: a pin says whose it is, a host's name does not
_LARGEST = 2048  # bytes
_EARLIER = timedelta(hours=1)  # clocks differ


class InvalidCertificate(Exception):
    """A certificate is not one that `make_certificate` makes."""


def make_certificate(name: str, key: ec.EllipticCurvePrivateKey, days: int) -> bytes:
    """A certificate (DER) for so many days, signed by its own key."""
    now, holder = datetime.now(UTC), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(holder)
        .issuer_name(holder)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(TLS_NAME)]), critical=False)
        .sign(key, SHA256())
    )
    return made.public_bytes(Encoding.DER)


def check_certificate(data: object, name: str) -> None:
    """A TLS certificate as `make_certificate` makes them: of one key, signed by that key, and for nothing else.

    Raises:
        InvalidCertificate: It is none.
    """
    if type(data) is not bytes or len(data) > _LARGEST:
        raise InvalidCertificate("the card's certificate is none")
    try:
        found = x509.load_der_x509_certificate(data)
        key = found.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
            raise InvalidCertificate("the card's certificate must be for a key on the curve P-256")
        found.verify_directly_issued_by(found)
        kinds = {extension.oid: extension.value for extension in found.extensions}
        names = kinds.get(x509.SubjectAlternativeName.oid)
        limits = kinds.get(x509.BasicConstraints.oid)
        holder = [attribute.value for attribute in found.subject]
        lasting = found.not_valid_before_utc <= found.not_valid_after_utc
    except InvalidCertificate:
        raise
    except Exception:  # whatever a parser finds wrong with what strangers sent
        raise InvalidCertificate("the card's certificate is none, or is not signed by its own key") from None
    if not isinstance(limits, x509.BasicConstraints) or limits.ca:
        raise InvalidCertificate("the card's certificate must not sign others")
    if not isinstance(names, x509.SubjectAlternativeName) or list(names) != [x509.DNSName(TLS_NAME)]:
        raise InvalidCertificate(f"the card's certificate must be for {TLS_NAME!r}")
    if holder != [name] or not lasting:
        raise InvalidCertificate("the card's certificate is for another name, or for no time")
