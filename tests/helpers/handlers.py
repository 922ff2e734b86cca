"""Asking the handler of one owner in a small federation, and what its ledger and log say afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dpadmm.errors import NOT_ALLOWED
from dpadmm.federation.client.handler import Handler
from dpadmm.federation.messages import to_bytes
from dpadmm.owner.agreement import Agreement
from dpadmm.privacy.ledger.sqlite import SqliteLedger

ZEROS = to_bytes(np.zeros(4))
NAN, INF = to_bytes(np.full(4, np.nan)), to_bytes(np.array([0.0, 0.0, 0.0, np.inf]))


def handler(lived: Any, name: str = "ahorn") -> Handler:
    """The handler of an owner whose agent was started again."""
    return Handler(lived.owner(name))


def is_joined(reply: dict[str, Any], terms: Agreement, answered: int = 0) -> bool:
    """Whether a reply says that a run was joined, so many rounds being answered."""
    told = {name: reply.get(name) for name in ("signature", "seal", "seals")}
    return reply == {"joined": terms.digest, "rounds_answered": answered, **told}


def join(lived: Any, made: Handler, run: str, terms: Agreement, seen: Any = None) -> int:
    """Joins a run that all owners have signed; how many rounds were answered before."""
    reply = made.join(run, terms.dumps(), seen)
    assert is_joined(reply, terms, reply.get("rounds_answered", 0)), reply
    assert made.confirm(**lived.confirmation(run, terms)) == {"confirmed": terms.digest}
    return int(reply["rounds_answered"])


def joined(lived: Any, name: str = "ahorn", **changes: Any) -> tuple[Handler, str]:
    """A handler that has joined the run 'study', and the digest of the terms."""
    terms, made = lived.terms(**changes), handler(lived, name)
    assert join(lived, made, "study", terms) == 0
    return made, terms.digest


def decide(lived: Any, name: str = "ahorn", approve: bool = True, run: str | None = None) -> None:
    """The owner's decision on the run that waits."""
    keys, site = lived.identities[name], lived.owner(name)
    (id,) = [id for id, entry in waiting(lived, name).items() if run in (None, entry["proposal"]["run"])]
    site.decisions(keys.card).decide(keys, id, approve)


def waiting(lived: Any, name: str = "ahorn") -> dict[str, Any]:
    """What waits for an owner."""
    return dict(lived.owner(name).decisions(lived.identities[name].card).waiting())


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
    return list(lived.owner(name).events(1000))


def why(lived: Any, reply: dict[str, Any], name: str = "ahorn") -> str:
    """Why an owner's policy or budget does not allow something: its log says so, and the reply does not."""
    assert reply == {"refused": NOT_ALLOWED}
    return str(log(lived, name)[-1]["reason"])


def reason(reply: dict[str, Any]) -> str:
    """Why a reply refuses; it must say nothing else."""
    assert list(reply) == ["refused"]
    return str(reply["refused"])
