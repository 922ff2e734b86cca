"""Seals of owners' ledgers as others keep them, across runs: who restored an older ledger is shown what it has signed.

The coordinator keeps them, and so does every owner for the owners that it took part with. A seal shows no count and no
cost. Its signature is the owner's card's, so that nobody can put a made-up one in its place.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from dpadmm._files import parse_json
from dpadmm.errors import InputError, Refused
from dpadmm.federation.cards import SEAL, Card, NotGenuine
from dpadmm.federation.messages import seal_from_list, seal_to_list
from dpadmm.privacy.ledger.protocol import Seal

MOST = 4  # kept of an owner: those of the last runs, which may be of several ledgers
LARGEST_FILE = 16 << 20  # bytes
_LOCK = threading.Lock()


class KeptSeals:
    """A file of seals: {owner: [[run, seal], ...]}, the latest last.

    Args:
        read: The file's text; raises `FileNotFoundError` where there is none.
        write: Writes another text.
        path: For messages.
    """

    def __init__(self, read: Callable[[], str], write: Callable[[str], None], path: Path) -> None:
        self._read, self._write, self._path = read, write, path

    def of(self, owners: Iterable[str]) -> dict[str, list[Seal]]:
        """What is kept of these owners."""
        kept = self._kept()
        return {name: [Seal(*seal) for _, seal in kept[name]] for name in owners if name in kept}

    def keep(self, run: str, seals: Mapping[str, Seal | None]) -> None:
        """Keeps seals of a run in place of its earlier ones."""
        with _LOCK:
            kept = self._kept()
            before = json.dumps(kept)
            for name, seal in seals.items():
                if seal is not None:
                    others = [entry for entry in kept.get(name, []) if entry[0] != run]
                    kept[name] = [*others, [run, seal_to_list(seal)]][-MOST:]
            after = json.dumps(kept)
            if after != before:
                self._write(after)

    def _kept(self) -> dict[str, list[Any]]:
        try:
            found = parse_json(self._read(), f"file {str(self._path)!r}")
            for entries in found.values():
                if not all(Seal(*seal).well_formed for _, seal in entries):
                    raise ValueError
        except FileNotFoundError:
            return {}
        except InputError:
            raise
        except (AttributeError, TypeError, ValueError):
            raise InputError(f"{str(self._path)!r} holds no seals; restore it from a backup, or remove it.") from None
        return dict(found)


def to_lists(seals: Mapping[str, Iterable[Seal]]) -> dict[str, list[Any]]:
    """Seals by owner, as they travel."""
    return {name: [seal_to_list(seal) for seal in those] for name, those in seals.items()}


def from_lists(entry: Any, owners: Iterable[str]) -> dict[str, list[Seal]]:
    """Seals by owner as they came; of others than these owners, and whatever is no seal, is refused.

    Raises:
        Refused: That are no seals.
    """
    names = set(owners)
    if not isinstance(entry, Mapping) or not entry.keys() <= names:
        raise Refused("seals must be those of the run's owners.")
    return {name: _seals(those) for name, those in entry.items()}


def _seals(entry: Any) -> list[Seal]:
    if not isinstance(entry, list | tuple) or len(entry) > 4 * MOST:
        raise Refused("malformed seals.")
    found = [seal_from_list(each) for each in entry]
    if not all(seal is not None and seal.well_formed for seal in found):
        raise Refused("malformed seal.")
    return [seal for seal in found if seal is not None]


def own_seals(entry: Any) -> list[Seal]:
    """Seals of one owner as they came.

    Raises:
        Refused: That are none.
    """
    return _seals(entry)


def is_genuine(seal: Seal | None, card: Card) -> bool:
    """Whether a seal is signed by its owner's card."""
    if seal is None or not seal.well_formed:
        return False
    try:
        card.verify(SEAL, bytes.fromhex(seal.signature), seal.head, seal.mark)
    except NotGenuine:
        return False
    return True
