"""What a coordinator gives to owners: its card, its address, and what everybody's columns are. All of it is public."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpadmm.errors import InputError
from dpadmm.federation.cards import COORDINATOR, INVITATION, LARGEST_CARD, SIGNATURE, Card, NotGenuine, strict_json
from dpadmm.federation.identity import Identity
from dpadmm.privacy.events import canonical
from dpadmm.spec.columns import Schema

VERSION = 1
LARGEST_INVITATION = 4_000_000  # characters; columns may have many values
_HOST = re.compile(r"([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_ADDRESS = re.compile(rf"(?P<host>{_HOST.pattern}):(?P<port>[0-9]{{1,5}})")


def check_address(host: str, port: int) -> str:
    """Where a coordinator is reached, as `host:port`.

    Raises:
        InputError: It cannot be one.
    """
    if len(host) > 253 or not _HOST.fullmatch(host):
        raise InputError(f"host {host!r} is no name of a machine, and no IPv4 address.")
    if not 1 <= port <= 65535:
        raise InputError(f"port {port} is not between 1 and 65535.")
    return f"{host}:{port}"


@dataclass(frozen=True)
class Invitation:
    """A coordinator's card with what goes with it; its identity has signed the rest."""

    card: Card
    address: str  # host:port
    columns: str  # as columns.toml

    @classmethod
    def signed(cls, identity: Identity, address: str, columns: str) -> tuple[Invitation, str]:
        """An invitation and its text."""
        made = cls(identity.card, address, columns)
        entries = {"dpadmm_invitation": VERSION, "card": identity.card.dumps(), "address": address, "columns": columns}
        signature = identity.sign(INVITATION, address, columns)
        return made, canonical({**entries, "signature": signature.hex()}) + "\n"

    @classmethod
    def loads(cls, text: str | bytes) -> Invitation:
        """The invitation that a text from anybody says.

        Args:
            text: As `signed` makes it.

        Returns:
            An invitation signed by its card's identity. Whose that is, the card's fingerprint says.

        Raises:
            NotGenuine: It says none.
        """
        entries = strict_json(text, LARGEST_INVITATION, "invitation")
        known = {"dpadmm_invitation", "card", "address", "columns", "signature"}
        if not isinstance(entries, dict) or entries.keys() != known:
            raise NotGenuine("this is no invitation of dpadmm")
        version = entries.pop("dpadmm_invitation")
        if type(version) is not int or version != VERSION:
            raise NotGenuine("the invitation is one of another version of dpadmm")
        if any(type(value) is not str for value in entries.values()):
            raise NotGenuine("the invitation's entries must be texts")
        card = Card.loads(entries["card"][: LARGEST_CARD + 1])
        if card.role != COORDINATOR:
            raise NotGenuine("the invitation's card is not a coordinator's")
        signature = entries["signature"]
        if not re.fullmatch(rf"[0-9a-f]{{{2 * SIGNATURE}}}", signature):
            raise NotGenuine("the invitation is not signed")
        card.verify(INVITATION, bytes.fromhex(signature), entries["address"], entries["columns"])
        found = _ADDRESS.fullmatch(entries["address"])
        try:
            if found is None:
                raise InputError("the address is none.")
            check_address(found["host"], int(found["port"]))
            Schema.loads(entries["columns"], "the invitation's columns")
        except InputError as error:
            raise NotGenuine(f"the invitation cannot be used: {str(error).rstrip('.')}") from None
        return cls(card, entries["address"], entries["columns"])

    @property
    def schema(self) -> Schema:
        return Schema.loads(self.columns)
