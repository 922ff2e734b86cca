"""Letters between neighbours: read by their receiver alone, and good for one round of one run."""

from __future__ import annotations

from typing import Any

import pytest

from dpadmm.errors import Refused
from dpadmm.federation.cards import OWNER, Card
from dpadmm.federation.client.letters import Letters
from dpadmm.federation.identity import Identity

OWNERS = ("ahorn", "birke", "eiche")
VALUE = b"\1" * 32


@pytest.fixture(scope="module")
def identities() -> dict[str, Identity]:
    """Three owners, whose cards all of them know."""
    return {name: Identity.create(name, OWNER) for name in OWNERS}


def letters(identities: dict[str, Identity], name: str, run: str = "study", terms: str = "ab" * 32) -> Letters:
    cards: dict[str, Card] = {each: identity.card for each, identity in identities.items()}
    return Letters(identities[name], cards, run, terms)


def test_the_receiver_reads_what_the_sender_wrote(identities: dict[str, Identity]) -> None:
    sealed = letters(identities, "ahorn").sealed("birke", 3, VALUE)
    assert letters(identities, "birke").opened("ahorn", 3, sealed) == VALUE
    assert VALUE not in sealed


@pytest.mark.parametrize(
    "changed",
    [
        {"sender": "eiche"},
        {"sender": "birke"},
        {"sender": "nobody"},
        {"sender": None},
        {"round": 4},
        {"round": "3"},
        {"round": True},
        {"reader": "eiche"},
        {"run": "other"},
        {"terms": "cd" * 32},
        {"data": b""},
        {"data": b"\0" * 200},
        {"data": "text"},
    ],
    ids=str,
)
def test_a_letter_is_good_for_nothing_else(identities: dict[str, Identity], changed: dict[str, Any]) -> None:
    sealed = letters(identities, "ahorn").sealed("birke", 3, VALUE)
    given = {"sender": "ahorn", "round": 3, "reader": "birke", "run": "study", "terms": "ab" * 32, "data": sealed}
    given |= changed
    reader = letters(identities, given["reader"], given["run"], given["terms"])
    with pytest.raises(Refused):
        reader.opened(given["sender"], given["round"], given["data"])


@pytest.mark.parametrize("place", [0, 31, 32, 60, -1])
def test_a_letter_with_one_changed_bit_is_refused(identities: dict[str, Identity], place: int) -> None:
    sealed = bytearray(letters(identities, "ahorn").sealed("birke", 3, VALUE))
    sealed[place] ^= 1
    with pytest.raises(Refused):
        letters(identities, "birke").opened("ahorn", 3, bytes(sealed))


def test_another_owner_cannot_write_in_a_neighbours_name(identities: dict[str, Identity]) -> None:
    """The receiver's card is public: anybody can seal for it, but only Ahorn can sign as Ahorn."""
    posing = Letters(identities["eiche"], {name: each.card for name, each in identities.items()}, "study", "ab" * 32)
    posing._identity = _Posing(identities["eiche"], identities["ahorn"].card)  # type: ignore[assignment]
    sealed = posing.sealed("birke", 3, VALUE)
    with pytest.raises(Refused):
        letters(identities, "birke").opened("ahorn", 3, sealed)


class _Posing:
    def __init__(self, mine: Identity, card: Card) -> None:
        self.card, self.sign = card, mine.sign


def test_a_neighbour_that_has_not_got_its_letter_is_named(identities: dict[str, Identity]) -> None:
    sent: list[Any] = []

    def relay(run: str, round: int, given: Any, seconds: float) -> list[str]:
        sent.append((run, round, sorted(given), seconds))
        return ["birke"]

    tell = letters(identities, "ahorn").teller(relay, 7.0)
    tell(["birke"], 2, VALUE)
    with pytest.raises(OSError, match="eiche"):
        tell(["birke", "eiche"], 2, VALUE)
    assert sent == [("study", 2, ["birke"], 7.0), ("study", 2, ["birke", "eiche"], 7.0)]
