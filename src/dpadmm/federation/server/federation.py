"""The coordinator's folder: its own keys, the cards of the owners it trusts, and the runs.

    FOLDER/federation.json          its name and where owners reach it
    FOLDER/columns.toml             what everybody's records look like
    FOLDER/invitation.json          for the owners; public
    FOLDER/keys/keys.json           the coordinator's own keys (private)
    FOLDER/owners/NAME.card.json    the owners' cards, exactly these (private, so that nobody else can add one)
    FOLDER/runs/NAME/               a folder for each run

No key of an owner is ever here: owners make theirs, and send a card.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dpadmm._fields import from_table
from dpadmm._files import atomic_write, read_json, read_text, write_json
from dpadmm._private_files import private_folder, read_private, write_private
from dpadmm.errors import InputError
from dpadmm.federation.cards import COORDINATOR, LARGEST_CARD, OWNER, Card, NotGenuine, check_name
from dpadmm.federation.identity import DAYS, Identity
from dpadmm.federation.invitation import Invitation, check_address
from dpadmm.spec.columns import Schema

PORT = 8002
_CARD = ".card.json"


@dataclass(frozen=True)
class _Facts:
    name: str
    host: str
    port: int


@dataclass(frozen=True)
class Federation:
    """A coordinator's folder, as it was made."""

    folder: Path
    name: str
    host: str
    port: int

    @classmethod
    def create(
        cls, folder: Path, *, host: str, columns: Schema, name: str | None = None, port: int = PORT, days: int = DAYS
    ) -> Federation:
        """A new federation without owners.

        Args:
            folder: A new or empty folder.
            host: The name by which owners reach the coordinator.
            columns: What everybody's records look like.
            name: The federation's name; None: the folder's.
            port: Where the coordinator listens.
            days: How long its card is valid.

        Returns:
            The federation, with keys of its own and an invitation for owners.

        Raises:
            InputError: A value cannot be used, or the folder is not empty.
        """
        name = folder.absolute().name if name is None else name
        check_address(host, port)
        identity = Identity.create(name, COORDINATOR, days=days)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"folder {str(folder)!r} is not empty; name a new one for the federation.")
        made = cls(folder, name, host, port)
        identity.save(private_folder((folder / "keys").absolute()))
        private_folder((folder / "owners").absolute())
        made.runs.mkdir()
        atomic_write(made.columns, columns.dumps())
        made._invite(identity)
        write_json(folder / "federation.json", {"name": name, "host": host, "port": port})
        return made

    @classmethod
    def open(cls, folder: Path) -> Federation:
        """The federation in a folder.

        Raises:
            InputError: There is none.
        """
        path = folder / "federation.json"
        if not path.exists():
            raise InputError(f"no federation at {str(folder)!r}: make one with 'dpadmm federation init'.")
        facts = from_table(_Facts, read_json(path, "federation"), str(path))
        return cls(folder, facts.name, facts.host, facts.port)

    # -- what is in it ---------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def columns(self) -> Path:
        return self.folder / "columns.toml"

    @property
    def schema(self) -> Schema:
        return Schema.read(self.columns)

    @property
    def invitation(self) -> Path:
        return self.folder / "invitation.json"

    def identity(self) -> Identity:
        """The coordinator's keys."""
        try:
            return Identity.load((self.folder / "keys").absolute())
        except FileNotFoundError as error:
            raise InputError(f"the coordinator's keys are gone: there is no {error.filename!r}.") from None

    def pins(self) -> Mapping[str, Card]:
        """The cards of the owners that are trusted now, by name; read anew at each call."""
        found: dict[str, Card] = {}
        for path in sorted(self._owners.glob(f"*{_CARD}")):
            try:
                card = _loaded(read_private(path, LARGEST_CARD))
            except FileNotFoundError:
                continue  # removed since
            except NotGenuine as error:
                raise InputError(f"{str(path)!r} cannot be used: {error}.") from None
            if card.name != path.name.removesuffix(_CARD):
                raise InputError(f"{str(path)!r} is the card of {card.name!r}; remove it.")
            found[card.name] = card
        return found

    # -- who is trusted --------------------------------------------------------------------------------------------

    def add(self, card: Card) -> bool:
        """Trusts an owner's card from now on.

        Args:
            card: As the owner sent it. Whose it is, only a comparison of fingerprints over another channel says.

        Returns:
            Whether it took the place of an older card of the same owner.

        Raises:
            InputError: It is no owner's, has run out, or is not signed by the card of this owner that is trusted.
        """
        if card.role != OWNER:
            raise InputError(f"the card of {card.name!r} is a {card.role}'s, not an owner's.")
        card.check_valid()
        pins = self.pins()
        known = pins.get(card.name)
        alike = [name for name in pins if name.lower() == card.name.lower() and name != card.name]
        if alike:
            raise InputError(f"owner {card.name!r} would be taken for {alike[0]!r}; it needs another name.")
        for other in pins.values():
            if other.name != card.name and other.identity == card.identity:
                raise InputError(f"the card of {card.name!r} has the identity of {other.name!r}.")
        if known is not None and known.fingerprint != card.fingerprint:
            try:
                card.check_follows(known)
            except NotGenuine as error:
                raise InputError(
                    f"owner {card.name!r} has another card: {error}. If its keys are lost, compare fingerprints with "
                    f"the owner, use 'dpadmm federation remove {self.folder} {card.name}', and add the new card."
                ) from None
        write_private(self._card(card.name), card.dumps() + "\n")
        return known is not None and known.fingerprint != card.fingerprint

    def remove(self, name: str) -> Card:
        """Trusts an owner no longer; its connection ends.

        Returns:
            The card that was trusted.

        Raises:
            InputError: There is no such owner.
        """
        pins = self.pins()
        if name not in pins:
            raise InputError(f"no owner {name!r} here; there are: {', '.join(pins) or 'none'}.")
        self._card(name).unlink()
        return pins[name]

    def renew(self, days: int = DAYS) -> Identity:
        """New keys of the coordinator, in place of the old ones, and a new invitation; owners accept it by their own
        command, because the old identity has signed the new card."""
        identity = self.identity().renewed(days=days)
        identity.save((self.folder / "keys").absolute())
        self._invite(identity)
        return identity

    def _invite(self, identity: Identity) -> None:
        columns = read_text(self.columns, "columns", "TOML")
        atomic_write(self.invitation, Invitation.signed(identity, self.address, columns)[1])

    @property
    def _owners(self) -> Path:
        return (self.folder / "owners").absolute()

    def _card(self, name: str) -> Path:
        return self._owners / f"{check_name(name)}{_CARD}"


@lru_cache(maxsize=1024)
def _loaded(text: bytes) -> Card:
    return Card.loads(text)
