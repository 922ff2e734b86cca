"""What neighbours on a graph tell each other: signed by the sender, sealed for the receiver.

A letter is bound to the run, its terms, the round, and both cards. The coordinator, which carries it, can neither read
it nor use it elsewhere; it can lose it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from dpadmm.errors import Refused
from dpadmm.federation.cards import NEIGHBOUR, SIGNATURE, Card, NotGenuine, sealing_context
from dpadmm.federation.client.peer import Tell
from dpadmm.federation.identity import Identity

Relay = Callable[[str, int, Mapping[str, bytes], float], Collection[str]]
"""Sends letters (run, round, letters by receiver, timeout); who has got one. Raises `OSError` if none can be sent."""


class Letters:
    """The letters of one owner in one run.

    Args:
        identity: Whose they are.
        cards: The cards of all owners of the run, checked against its terms.
        run: The run's name.
        terms: The digest of its terms.
    """

    def __init__(self, identity: Identity, cards: Mapping[str, Card], run: str, terms: str) -> None:
        self._identity, self._cards, self._run, self._terms = identity, cards, run, terms

    def sealed(self, receiver: str, round: int, value: bytes) -> bytes:
        """A release as only this receiver can read it."""
        mine, theirs = self._identity.card, self._cards[receiver]
        signature = self._identity.sign(NEIGHBOUR, *self._parts(round, mine, theirs), value)
        return theirs.seal(sealing_context(NEIGHBOUR, self._run, self._terms, round, mine, theirs), signature + value)

    def opened(self, sender: Any, round: Any, data: Any) -> bytes:
        """The release in a letter from a neighbour.

        Raises:
            Refused: It is not that neighbour's, not for this owner, or not of this round of this run.
        """
        if type(sender) is not str or sender not in self._cards or type(round) is not int:
            raise Refused("that letter is from nobody who takes part.")
        mine, theirs = self._identity.card, self._cards[sender]
        try:
            context = sealing_context(NEIGHBOUR, self._run, self._terms, round, theirs, mine)
            content = self._identity.open_sealed(context, data)
            value = content[SIGNATURE:]
            theirs.verify(NEIGHBOUR, content[:SIGNATURE], *self._parts(round, theirs, mine), value)
        except NotGenuine:
            raise Refused(f"that letter is not what {sender} wrote for round {round} of this run.") from None
        return value

    def teller(self, relay: Relay, timeout: float) -> Tell:
        """Tells neighbours a release by letters."""

        def write(names: list[str], round: int, value: bytes) -> None:
            told = relay(self._run, round, {name: self.sealed(name, round, value) for name in names}, timeout)
            late = [name for name in names if name not in told]
            if late:
                raise OSError(", ".join(late))

        return write

    def _parts(self, round: int, sender: Card, receiver: Card) -> tuple[str, ...]:
        return self._run, self._terms, str(round), sender.fingerprint, receiver.fingerprint
