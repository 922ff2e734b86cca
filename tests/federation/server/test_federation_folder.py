"""The coordinator's folder: whose cards it trusts, and what is not in it."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from small_federation import SCHEMA

import dpadmm.federation.certificates as module
from dpadmm.errors import InputError
from dpadmm.federation.cards import COORDINATOR, OWNER, Card, NotGenuine
from dpadmm.federation.identity import Identity
from dpadmm.federation.invitation import Invitation
from dpadmm.federation.server.federation import Federation
from dpadmm.privacy.events import canonical

NORTH, SOUTH = Identity.create("north", OWNER), Identity.create("south", OWNER)


@pytest.fixture
def study(tmp_path: Path) -> Federation:
    return Federation.create(tmp_path / "study", host="fl.example.org", columns=SCHEMA)


def test_federation_has_keys_of_its_own_and_an_invitation(study: Federation) -> None:
    found = Federation.open(study.folder)
    assert found == study
    assert (found.name, found.address, found.schema) == ("study", "fl.example.org:8002", SCHEMA)
    invitation = Invitation.loads(study.invitation.read_bytes())
    assert invitation.card == study.identity().card
    assert (invitation.address, invitation.schema) == ("fl.example.org:8002", SCHEMA)
    assert invitation.card.role == COORDINATOR
    assert dict(study.pins()) == {}
    with pytest.raises(InputError, match="is not empty"):
        Federation.create(study.folder, host="localhost", columns=SCHEMA)
    with pytest.raises(InputError, match="no federation at"):
        Federation.open(study.folder / "runs")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"host": "a b"}, "no name of a machine"),
        ({"host": ""}, "no name of a machine"),
        ({"host": "http://x"}, "no name of a machine"),
        ({"port": 0}, "between 1 and 65535"),
        ({"port": 70000}, "between 1 and 65535"),
        ({"name": "my study"}, "no owner's name"),
        ({"days": 0}, "1 to 3650"),
    ],
)
def test_values_that_cannot_be_used_leave_nothing_behind(tmp_path: Path, change: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Federation.create(tmp_path / "study", **{"host": "localhost", "columns": SCHEMA, **change})
    assert not (tmp_path / "study").exists()


def test_cards_are_trusted_once_they_are_added_and_not_after_they_are_removed(study: Federation) -> None:
    assert study.add(NORTH.card) is False
    study.add(SOUTH.card)
    assert dict(study.pins()) == {"north": NORTH.card, "south": SOUTH.card}
    assert study.remove("north") == NORTH.card
    assert dict(Federation.open(study.folder).pins()) == {"south": SOUTH.card}
    with pytest.raises(InputError, match="no owner 'north' here; there are: south"):
        study.remove("north")


def test_another_card_of_an_owner_must_be_signed_by_the_one_that_is_known(study: Federation) -> None:
    study.add(NORTH.card)
    for stranger in (Identity.create("north", OWNER), Identity.create("north", OWNER).renewed()):
        with pytest.raises(InputError, match="owner 'north' has another card"):
            study.add(stranger.card)
        assert study.pins()["north"] == NORTH.card
    new = NORTH.renewed()
    assert study.add(new.card) is True
    assert study.pins()["north"] == new.card
    with pytest.raises(InputError, match="has another card"):
        study.add(NORTH.card)  # the old one does not come back
    last = new.renewed()
    study.add(last.card)
    assert study.pins()["north"] == last.card


def test_cards_that_cannot_be_owners_are_refused(study: Federation) -> None:
    study.add(NORTH.card)
    with pytest.raises(InputError, match="a coordinator's, not an owner's"):
        study.add(study.identity().card)
    with pytest.raises(InputError, match="would be taken for 'north'"):
        study.add(Identity.create("North", OWNER).card)


def test_expired_card_is_refused(study: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EARLIER", timedelta(days=3))
    monkeypatch.setattr(module, "timedelta", lambda days: timedelta(days=days - 2))
    old = Identity.create("north", OWNER, days=1)
    with pytest.raises(InputError, match="the card of north ran out on"):
        study.add(old.card)


def test_card_under_another_name_or_one_that_was_changed_is_not_trusted(study: Federation) -> None:
    study.add(NORTH.card)
    place = study.folder / "owners" / "north.card.json"
    place.rename(place.with_name("west.card.json"))
    with pytest.raises(InputError, match="is the card of 'north'"):
        study.pins()
    changed = {**json.loads(NORTH.card.dumps()), "identity": SOUTH.card.identity.hex()}
    place.write_text(canonical(changed))
    place.with_name("west.card.json").unlink()
    place.chmod(0o600)
    with pytest.raises(InputError, match="cannot be used"):
        study.pins()
    place.chmod(0o664)
    with pytest.raises(InputError, match="chmod 600"):
        study.pins()


def test_no_private_key_of_an_owner_is_below_the_coordinators_folder(study: Federation) -> None:
    for owner in (NORTH, SOUTH):
        study.add(owner.card)
    own = {path.name for path in (study.folder / "keys").iterdir()}
    assert own == {"keys.json"}
    for path in study.folder.rglob("*"):
        if path.is_file() and path.parent.name != "keys":
            assert not re.search(rb"PRIVATE|BEGIN", path.read_bytes()), path
    secrets = [key for owner in (NORTH, SOUTH) for key in (owner.tls_key_pem, owner._identity.private_bytes_raw())]
    everything = b"".join(path.read_bytes() for path in study.folder.rglob("*") if path.is_file())
    assert not any(secret in everything or secret.hex().encode() in everything for secret in secrets)


def test_new_keys_of_the_coordinator_are_signed_by_the_old_ones(study: Federation) -> None:
    before = study.identity().card
    study.renew()
    after = Invitation.loads(study.invitation.read_bytes()).card
    assert after == study.identity().card != before
    after.check_follows(before)


@pytest.mark.parametrize(
    "change",
    [
        {"address": "evil.example.org:8002"},
        {"columns": SCHEMA.dumps().replace("100.0", "200.0")},
        {"card": Identity.create("study", COORDINATOR).card.dumps()},
        {"card": NORTH.card.dumps()},
        {"signature": "0" * 128},
        {"signature": "x"},
        {"dpadmm_invitation": 2},
        {"more": "x"},
        {"address": 5},
        {"card": "{}"},
    ],
)
def test_invitation_that_was_changed_is_refused(study: Federation, change: dict) -> None:
    entries = json.loads(study.invitation.read_text())
    with pytest.raises(NotGenuine):
        Invitation.loads(canonical({**entries, **change}))


@pytest.mark.parametrize(
    ("address", "columns"), [("nowhere", SCHEMA.dumps()), ("x:99999", SCHEMA.dumps()), ("x:1", "[")]
)
def test_signed_nonsense_is_no_invitation(address: str, columns: str) -> None:
    _, text = Invitation.signed(Identity.create("study", COORDINATOR), address, columns)
    with pytest.raises(NotGenuine, match="cannot be used"):
        Invitation.loads(text)


def test_card_is_no_invitation_and_an_invitation_no_card(study: Federation) -> None:
    with pytest.raises(NotGenuine):
        Invitation.loads(NORTH.card.dumps())
    with pytest.raises(NotGenuine):
        Card.loads(study.invitation.read_text())
