"""Asking the handler of one owner in a small federation, and what its ledger and log say afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dpadmm.federation.client.files import OwnerFiles
from dpadmm.federation.client.handler import Handler
from dpadmm.federation.messages import to_bytes
from dpadmm.privacy.ledger.sqlite import SqliteLedger

ZEROS = to_bytes(np.zeros(4))
NAN, INF = to_bytes(np.full(4, np.nan)), to_bytes(np.array([0.0, 0.0, 0.0, np.inf]))


def handler(lived: Any, name: str = "ahorn") -> Handler:
    """The handler of an owner whose agent was started again."""
    return Handler(OwnerFiles(lived.home / name), name)


def joined(lived: Any, name: str = "ahorn", **changes: Any) -> tuple[Handler, str]:
    """A handler that has joined the run 'study', and the digest of the terms."""
    terms, made = lived.terms(**changes), handler(lived, name)
    assert made.join("server", "study", terms.dumps()) == {"joined": terms.digest, "rounds_answered": 0}
    return made, terms.digest


def chain(lived: Any, name: str = "ahorn") -> list[str]:
    """The kinds of all entries of an owner's ledger."""
    path = lived.ledger_path(name)
    return [entry["kind"] for entry in SqliteLedger.open(path, reading=True).entries()] if path.exists() else ["create"]


@contextmanager
def untouched(lived: Any, name: str = "ahorn") -> Iterator[None]:
    """Whatever is asked inside adds no entry to the owner's ledger: no reservation, no debit."""
    before = chain(lived, name)
    yield
    assert chain(lived, name) == before


def log(lived: Any, name: str = "ahorn") -> list[dict[str, Any]]:
    """What an owner's log says."""
    return OwnerFiles(lived.home / name).events(1000)


def reason(reply: dict[str, Any]) -> str:
    """Why a reply refuses; it must say nothing else."""
    assert list(reply) == ["refused"]
    return str(reply["refused"])


def site_digest(site: OwnerFiles) -> str:
    """The digest of the only terms that wait for the owner's approval."""
    (digest,) = site.waiting()
    return digest
