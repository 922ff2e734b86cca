"""Whether all owners of a run's terms have signed them, with the cards whose fingerprints the terms list."""

from __future__ import annotations

from typing import Any

from dpadmm.errors import Refused
from dpadmm.federation.cards import LARGEST_CARD, OWNER, TERMS, Card, NotGenuine
from dpadmm.federation.messages import terms_parts
from dpadmm.owner.agreement import Agreement


def confirmed_cards(run: str, agreement: Agreement, cards: Any, signatures: Any) -> dict[str, Card]:
    """The cards of all owners of the terms, each of whom has signed them.

    Args:
        run: The run's name.
        agreement: Its terms.
        cards: What came as the owners' cards, by name.
        signatures: What came as their signatures.

    Returns:
        The cards by name.

    Raises:
        Refused: A card is not the one that the terms list, or a signature is not its holder's.
    """
    names = set(agreement.owners)
    if any(type(given) is not dict or given.keys() != names for given in (cards, signatures)):
        raise Refused("a run is confirmed by the card and the signature of each of its owners.")
    known: dict[str, Card] = {}
    for name, fingerprint in zip(agreement.owners, agreement.identities, strict=True):
        try:
            known[name] = _card(cards[name], name, fingerprint)
            known[name].verify(TERMS, signatures[name], *terms_parts(run, agreement.digest))
        except NotGenuine as error:
            raise Refused(f"{name} has not joined on these terms: {error}.") from None
    return known


def _card(text: Any, name: str, fingerprint: str) -> Card:
    """The card of an owner whom the terms name."""
    if type(text) is not str or len(text) > LARGEST_CARD:
        raise NotGenuine("there is no card")
    card = Card.loads(text)
    if (card.name, card.role, card.fingerprint) != (name, OWNER, fingerprint):
        raise NotGenuine("the card is not the one that the terms name")
    return card
