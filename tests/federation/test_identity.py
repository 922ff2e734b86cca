"""Cards and keys: what is signed and sealed holds for one identity, one purpose and one place, and nowhere else."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from dpadmm._private_files import private_folder
from dpadmm.errors import InputError
from dpadmm.federation.cards import (
    CARD,
    COORDINATOR,
    NEIGHBOUR,
    OWNER,
    RELEASE,
    TERMS,
    Card,
    NotGenuine,
    body_of,
    check_name,
    sealing_context,
)
from dpadmm.federation.certificates import TLS_NAME
from dpadmm.federation.identity import Identity
from dpadmm.privacy.events import canonical

NORTH, SOUTH = Identity.create("north", OWNER), Identity.create("south", OWNER)


def altered(card: Card, **changes: Any) -> str:
    return canonical({**json.loads(card.dumps()), **changes})


# -- cards -------------------------------------------------------------------------------------------------------------


def test_card_as_text_is_the_same_card() -> None:
    card = NORTH.card
    assert Card.loads(card.dumps()) == card
    assert Card.loads(json.dumps(json.loads(card.dumps()), indent=2)).fingerprint == card.fingerprint
    assert card.shown.replace(" ", "") == card.fingerprint
    assert len(card.shown.split()) == 16


def test_card_holds_no_private_key() -> None:
    private = [NORTH._identity.private_bytes_raw(), NORTH._sealing.private_bytes_raw()]
    private.append(NORTH._tls.private_numbers().private_value.to_bytes(32, "big"))
    for key in private:
        assert key.hex() not in NORTH.card.dumps()
        assert key not in NORTH.card.certificate
    assert "PRIVATE" not in repr(NORTH)
    assert not any(key.hex() in repr(NORTH) for key in private)


@pytest.mark.parametrize("field", ["identity", "sealing", "certificate"])
def test_card_with_a_swapped_key_is_refused(field: str) -> None:
    with pytest.raises(NotGenuine):
        Card.loads(altered(NORTH.card, **{field: getattr(SOUTH.card, field).hex()}))


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "west"},
        {"role": COORDINATOR},
        {"role": "admin"},
        {"replaces": SOUTH.card.fingerprint},
        {"replaces": SOUTH.card.fingerprint, "vouched": NORTH.card.signature.hex()},
        {"vouched": NORTH.card.signature.hex()},
        {"signature": SOUTH.card.signature.hex()},
        {"signature": NORTH.card.signature.hex()[:-2]},
        {"signature": None},
        {"signature": NORTH.card.signature.hex().upper()},
        {"identity": " " + NORTH.card.identity.hex()},
        {"identity": [1, 2]},
        {"certificate": ""},
        {"certificate": NORTH.card.certificate.hex() + "00"},
        {"dpadmm_card": 2},
        {"dpadmm_card": True},
        {"dpadmm_card": 1.0},
        {"more": "x"},
        {"name": "../north"},
        {"name": "\x1b[2J"},
        {"name": "server"},
    ],
)
def test_altered_card_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(NotGenuine):
        Card.loads(altered(NORTH.card, **changes))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "1" * 10_000, "[" * 5000, '{"name": "a", "name": "b"}', '{"dpadmm_card": 1}', b"\xff\xfe"],
)
def test_text_that_is_no_card_is_refused(text: str | bytes) -> None:
    with pytest.raises(NotGenuine):
        Card.loads(text)


def test_card_with_an_entry_twice_is_refused() -> None:
    text = NORTH.card.dumps()
    with pytest.raises(NotGenuine, match="twice"):
        Card.loads(text[:-1] + ',"name":"north"}')


@given(st.binary(max_size=300))
def test_any_bytes_are_a_card_or_refused(data: bytes) -> None:
    with pytest.raises(NotGenuine):
        Card.loads(data)


@given(st.data())
def test_no_single_character_of_a_card_can_be_changed(data: st.DataObject) -> None:
    text = NORTH.card.dumps()
    place = data.draw(st.integers(0, len(text) - 1))
    changed = text[:place] + data.draw(st.sampled_from('0123456789abcdef"{}:, nZ')) + text[place + 1 :]
    try:
        found = Card.loads(changed)
    except NotGenuine:
        return
    assert found == NORTH.card


def signed(identity: Identity, certificate: bytes, name: str = "north") -> Card:
    """A card around any certificate, signed properly."""
    public = identity.card.identity, identity.card.sealing, certificate
    return Card(name, OWNER, *public, None, None, identity.sign(CARD, canonical(body_of(name, OWNER, *public, None))))


def certificate(
    key: Any = None, signer: Any = None, name: str = "north", host: str = TLS_NAME, ca: bool = False
) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
    holder = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(holder).issuer_name(holder).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    return made.sign(key if signer is None else signer, SHA256()).public_bytes(Encoding.DER)


def test_certificate_must_be_one_as_we_make_them() -> None:
    signed(NORTH, certificate())
    bad = {
        "signs others": certificate(ca=True),
        "another host": certificate(host="bank.example"),
        "another name": certificate(name="south"),
        "signed by another key": certificate(signer=ec.generate_private_key(ec.SECP256R1())),
        "another curve": certificate(ec.generate_private_key(ec.SECP384R1())),
        "another kind of key": certificate(rsa.generate_private_key(65537, 2048)),
        "no certificate": b"\x30\x03\x02\x01\x01",
        "too long": bytes(5000),
    }
    for what, data in bad.items():
        with pytest.raises(NotGenuine):
            print(what, signed(NORTH, data))


@pytest.mark.parametrize("name", ["", "a b", "-x", "x" * 64, "é", "a/b", ".", "server", "Coordinator", 7, None, "a\n"])
def test_names_that_cannot_be_owners(name: object) -> None:
    with pytest.raises(InputError):
        check_name(name)


def test_expired_card_says_so() -> None:
    card = NORTH.card
    card.check_valid()
    with pytest.raises(InputError, match="the card of north ran out on"):
        card.check_valid(datetime.now(UTC) + timedelta(days=731))
    with pytest.raises(InputError, match="not valid yet"):
        card.check_valid(datetime.now(UTC) - timedelta(days=2))
    with pytest.raises(InputError, match="1 to 3650 days"):
        Identity.create("north", OWNER, days=0)


# -- rotation ----------------------------------------------------------------------------------------------------------


def test_new_card_follows_the_one_it_replaces_and_no_other() -> None:
    new = NORTH.renewed().card
    assert Card.loads(new.dumps()) == new
    assert new.fingerprint != NORTH.card.fingerprint
    new.check_follows(NORTH.card)
    for stranger in (SOUTH.card, Identity.create("north", OWNER).card, NORTH.renewed().card):
        with pytest.raises(NotGenuine):
            new.check_follows(stranger)
    with pytest.raises(NotGenuine):
        Identity.create("north", OWNER).card.check_follows(NORTH.card)


def test_somebody_else_cannot_make_a_card_that_follows() -> None:
    thief = Identity.create("north", OWNER)
    public = thief.card.identity, thief.card.sealing, thief.card.certificate
    body = canonical(body_of("north", OWNER, *public, NORTH.card.fingerprint))
    signature = thief.sign(CARD, body)
    for vouched in (thief.sign("dpadmm rotation", body), NORTH.sign(CARD, body), NORTH.sign(TERMS, body)):
        made = Card("north", OWNER, *public, NORTH.card.fingerprint, vouched, signature)
        with pytest.raises(NotGenuine):
            made.check_follows(NORTH.card)


# -- signatures --------------------------------------------------------------------------------------------------------


def test_signature_holds_for_one_identity_purpose_and_list_of_parts() -> None:
    signature = NORTH.sign(RELEASE, "study", b"\x00\x01")
    NORTH.card.verify(RELEASE, signature, "study", b"\x00\x01")
    wrong: list[tuple[Card, str, Any, tuple[bytes | str, ...]]] = [
        (SOUTH.card, RELEASE, signature, ("study", b"\x00\x01")),
        (NORTH.card, TERMS, signature, ("study", b"\x00\x01")),
        (NORTH.card, RELEASE, signature, ("study\x00", b"\x01")),
        (NORTH.card, RELEASE, signature, ("study", b"\x00", b"\x01")),
        (NORTH.card, RELEASE, signature, ("study",)),
        (NORTH.card, RELEASE, signature, (b"\x00\x01", "study")),
        (NORTH.card, RELEASE, signature[:-1], ("study", b"\x00\x01")),
        (NORTH.card, RELEASE, bytearray(signature), ("study", b"\x00\x01")),
        (NORTH.card, RELEASE, None, ("study", b"\x00\x01")),
        (NORTH.card, RELEASE, signature.hex(), ("study", b"\x00\x01")),
    ]
    for card, purpose, given_signature, parts in wrong:
        with pytest.raises(NotGenuine):
            card.verify(purpose, given_signature, *parts)


# -- seals -------------------------------------------------------------------------------------------------------------

CONTEXT = sealing_context(NEIGHBOUR, "study", "d" * 64, 3, NORTH.card, SOUTH.card)


def test_seal_opens_for_its_receiver() -> None:
    data = SOUTH.card.seal(CONTEXT, b"a release")
    assert SOUTH.open_sealed(CONTEXT, data) == b"a release"
    assert b"a release" not in data
    assert SOUTH.card.seal(CONTEXT, b"a release") != data


def test_seal_opens_for_nobody_else_and_nowhere_else() -> None:
    data = SOUTH.card.seal(CONTEXT, b"a release")
    with pytest.raises(NotGenuine):
        NORTH.open_sealed(CONTEXT, data)
    others = [
        sealing_context("dpadmm release", "study", "d" * 64, 3, NORTH.card, SOUTH.card),
        sealing_context(NEIGHBOUR, "other", "d" * 64, 3, NORTH.card, SOUTH.card),
        sealing_context(NEIGHBOUR, "study", "e" * 64, 3, NORTH.card, SOUTH.card),
        sealing_context(NEIGHBOUR, "study", "d" * 64, 4, NORTH.card, SOUTH.card),
        sealing_context(NEIGHBOUR, "study", "d" * 64, 3, SOUTH.card, NORTH.card),
        sealing_context(NEIGHBOUR, "study", "d" * 64, 3, NORTH.renewed().card, SOUTH.card),
    ]
    assert len({CONTEXT, *others}) == 7
    for context in others:
        with pytest.raises(NotGenuine):
            SOUTH.open_sealed(context, data)


@given(st.integers(0, 56), st.integers(1, 255))
def test_seal_that_was_changed_does_not_open(place: int, flip: int) -> None:
    data = bytearray(SOUTH.card.seal(CONTEXT, b"a release"))
    data[place] ^= flip
    if place == 31 and flip == 128:
        return  # the highest bit of an X25519 key is not read; the key that it is mixed with changes all the same
    with pytest.raises(NotGenuine):
        SOUTH.open_sealed(CONTEXT, bytes(data))


@pytest.mark.parametrize("data", [None, "text", b"", bytes(31), bytes(32), bytes(48), bytes(100), bytearray(60)])
def test_what_is_no_seal_does_not_open(data: object) -> None:
    with pytest.raises(NotGenuine):
        SOUTH.open_sealed(CONTEXT, data)


# -- on disk -----------------------------------------------------------------------------------------------------------


def test_keys_are_loaded_as_they_were_saved(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "keys")
    with pytest.raises(FileNotFoundError):
        Identity.load(folder)
    NORTH.save(folder)
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {"keys.json": 0o600}
    found = Identity.load(folder)
    assert found.card == NORTH.card
    NORTH.card.verify(TERMS, found.sign(TERMS, "x"), "x")
    assert found.open_sealed(CONTEXT, NORTH.card.seal(CONTEXT, b"y")) == b"y"
    assert found.tls_key_pem == NORTH.tls_key_pem


@pytest.mark.parametrize("name", ["identity", "sealing", "tls"])
def test_another_owners_key_does_not_go_with_the_card(tmp_path: Path, name: str) -> None:
    folder, other = private_folder(tmp_path / "keys"), private_folder(tmp_path / "other")
    NORTH.save(folder)
    SOUTH.save(other)
    mine, theirs = (json.loads((place / "keys.json").read_text()) for place in (folder, other))
    (folder / "keys.json").write_text(json.dumps({**mine, name: theirs[name]}))
    with pytest.raises(InputError, match="not those of the card"):
        Identity.load(folder)
    for nonsense in ("nonsense", "", None, 5, mine["identity" if name == "sealing" else "sealing"]):
        (folder / "keys.json").write_text(json.dumps({**mine, name: nonsense}))
        with pytest.raises(InputError, match=r"restore it from a backup"):
            Identity.load(folder)
    for text in ("", "[]", "{}", "5", '{"card": 1}'):
        (folder / "keys.json").write_text(text)
        with pytest.raises(InputError, match="does not hold a card and its keys"):
            Identity.load(folder)


def test_keys_that_others_may_read_are_not_loaded(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "keys")
    NORTH.save(folder)
    (folder / "keys.json").chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        Identity.load(folder)


def test_cards_cannot_be_made_by_changing_fields() -> None:
    with pytest.raises(NotGenuine):
        replace(NORTH.card, name="south")
    assert set(asdict(NORTH.card)) == {
        *("name", "role", "identity", "sealing", "certificate", "replaces", "vouched", "signature")
    }
