"""How a run comes together: owners show their cards, terms are written down, and all sign them or refuse.

The coordinator trusts exactly the cards that were added to its folder. The terms hold their fingerprints; each owner
signs the terms that it joins, is shown what all others have signed, and signs every release.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from dpadmm._plain import plain
from dpadmm.errors import ClusterError, InputError, Refused
from dpadmm.federation.cards import RELEASE, TERMS, Card, NotGenuine
from dpadmm.federation.messages import (
    VERSION,
    InvalidRelease,
    release_in,
    release_parts,
    seal_to_list,
    terms_parts,
    to_bytes,
)
from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.federation.server.sizes import check_sizes
from dpadmm.federation.server.state import CoordinatorState, SignedRelease
from dpadmm.owner.agreement import Agreement
from dpadmm.privacy.ledger.protocol import Seal
from dpadmm.spec import auto
from dpadmm.spec.declare import AUTO

Replies = dict[str, Any]
POLL = 2.0  # seconds between looks at whether an owner has given its word
COUNT = 10**9


class Transport(Protocol):
    """How owners are asked. `present` are those of this job; who does not answer is not in the replies."""

    @property
    def present(self) -> tuple[str, ...]: ...

    def ask(self, method: str, calls: Mapping[str, Mapping[str, Any]], seconds: float) -> Replies:
        """Calls a method of several owners at once; a reply for everybody who answered in time."""


class Interrupted(ClusterError):
    """The run cannot go on in this job; nothing is lost, and another one takes it up."""


class Owners:
    """The owners of one job: who is there, and what they were asked.

    Args:
        run: The run's name.
        folder: Where it is written down.
        transport: Asks them.
        pins: The cards that the coordinator trusts, by name.
    """

    def __init__(self, run: str, folder: RunFolder, transport: Transport, pins: Mapping[str, Card]) -> None:
        self._run, self._folder, self._transport, self._pins = run, folder, transport, pins
        self._experiment = folder.experiment
        self._terms = self._experiment.federation
        self.lost: set[str] = set()  # who did not answer in this job
        self.barred: set[str] = set()  # who answered what cannot be used
        self.rounds_answered: dict[str, int] = {}  # how far each was when it joined
        self.dry_run = False  # whether somebody's noise is seeded

    def there(self, name: str) -> bool:
        return name in self._transport.present and name not in self.lost and name not in self.barred

    def call(self, method: str, calls: Mapping[str, Mapping[str, Any]]) -> Replies:
        """What those say who answer in time; who does not is lost to this job."""
        if not calls:
            return {}
        replies = self._transport.ask(method, calls, self._terms.timeout)
        self.lost |= calls.keys() - replies.keys()
        return {name: _plain(reply) for name, reply in replies.items()}

    # -- who takes part --------------------------------------------------------------------------------------------

    def agreement(self) -> Agreement:
        """What was agreed; in the first job, made of what the owners say of themselves."""
        known = self._folder.agreement()
        owners = tuple(self._terms.owners if known is None else known.owners)
        for name in owners:
            if name not in self._pins:
                raise Refused(f"no card of {name} is trusted here; add it with 'dpadmm federation add'.")
        identities = tuple(self._pins[name].fingerprint for name in owners)
        if known is not None and identities != known.identities:
            others = [name for name, now, then in zip(owners, identities, known.identities, strict=True) if now != then]
            raise Refused(f"{', '.join(others)} has another card than when the run began; submit a new run.")
        calls: dict[str, dict[str, Any]] = {name: {} for name in owners if name in self._transport.present}
        found = self.call("introduce", calls)
        _refuse_any(found)
        self.dry_run = self._folder.is_dry_run(any(reply.get("dry_run") is True for reply in found.values()))
        for name, reply in found.items():
            self._check_introduction(name, reply)
        if known is not None:
            for name, reply in found.items():
                if reply["count"] != known.counts[owners.index(name)]:
                    raise Refused(f"{name} has another number of records than when the run began.")
            return known
        absent = [name for name in owners if name not in found]
        if absent:
            raise Interrupted(f"{', '.join(absent)} must be there to begin.")
        agreement = self._drafted(tuple(found[name]["count"] for name in owners), owners, identities)
        check_sizes(agreement)
        self._folder.agree(agreement)
        return agreement

    def _check_introduction(self, name: str, reply: Mapping[str, Any]) -> None:
        if reply.get("version") != VERSION:
            raise Refused(f"{name} has another version of dpadmm; use the same everywhere.")
        text = reply.get("card")
        try:
            shown = Card.loads(text if type(text) is str else "")
        except NotGenuine as error:
            raise Refused(f"{name} shows no card: {error}.") from None
        if shown.fingerprint != self._pins[name].fingerprint:
            raise Refused(f"{name} shows another card than the one that is trusted here.")
        if reply.get("columns") != self._folder.schema.digest:
            raise Refused(f"{name} has agreed to other columns than the coordinator's columns.toml.")
        if type(reply.get("count")) is not int or not 1 <= reply["count"] <= COUNT:
            raise ClusterError(f"{name} says it has {plain(repr(reply.get('count')), 50)} records.")

    def _drafted(self, counts: tuple[int, ...], owners: tuple[str, ...], identities: tuple[str, ...]) -> Agreement:
        run, schema = self._experiment.run, self._folder.schema
        classes = len(schema.classes)
        if run.algorithm == AUTO:
            auto.check(run)
            width = schema.width + auto.with_intercept(run)
            run, _ = auto.choose(run, auto.Facts(np.array(counts), width, classes, plain=False))
        width, terms = schema.width + bool(run.intercept), self._terms
        known = {"owners": owners, "identities": identities}
        return Agreement(
            run, counts, width, classes, terms.stragglers, terms.records_per_person, schema=schema, **known
        )

    # -- what they sign --------------------------------------------------------------------------------------------

    def join(self, agreement: Agreement, state: CoordinatorState) -> None:
        """All agree to the run and sign its terms, or take it up again; then each is shown what all have signed."""
        terms = agreement.dumps()
        seen = dict(zip(agreement.owners, state.seals, strict=True))
        waiting = [name for name in agreement.owners if name in self._transport.present]
        signed = self._signed(agreement)
        while waiting:
            calls = {name: {"run": self._run, "terms": terms, "seen": seal_to_list(seen[name])} for name in waiting}
            found = self.call("join", calls)
            _refuse_any(found)
            for name, reply in found.items():
                if reply.get("joined") == agreement.digest and type(reply.get("rounds_answered")) is int:
                    signed[name] = self._terms_signature(agreement, name, reply.get("signature"))
                    self.rounds_answered[name] = reply["rounds_answered"]
                elif reply.get("waiting") != agreement.digest:
                    raise ClusterError(f"{name} did not say whether it takes part.")
            waiting = [name for name in calls if name in found and name not in self.rounds_answered]
            if waiting:
                self._folder.tell("waiting", f"for the word of {', '.join(waiting)}", waiting=waiting)
                time.sleep(POLL)
        self._folder.keep_signatures(signed)
        absent = [name for name in agreement.owners if name not in signed]
        if absent:
            raise Interrupted(f"{', '.join(absent)} must join before the run can begin.")
        self._confirm(agreement, signed)

    def _terms_signature(self, agreement: Agreement, name: str, signature: Any) -> bytes:
        try:
            self._pins[name].verify(TERMS, signature, *terms_parts(self._run, agreement.digest))
        except NotGenuine as error:
            raise ClusterError(f"{name} has not signed the terms: {error}.") from None
        return bytes(signature)

    def _signed(self, agreement: Agreement) -> dict[str, bytes]:
        """The signatures that earlier jobs have kept, checked again."""
        kept = self._folder.signatures()
        names = [name for name in agreement.owners if name in kept]
        return {name: self._terms_signature(agreement, name, kept[name]) for name in names}

    def _confirm(self, agreement: Agreement, signed: Mapping[str, bytes]) -> None:
        cards = {name: self._pins[name].dumps() for name in agreement.owners}
        given = {"run": self._run, "cards": cards, "signatures": dict(signed)}
        found = self.call("confirm", {name: given for name in agreement.owners if self.there(name)})
        _refuse_any(found)
        for name, reply in found.items():
            if reply.get("confirmed") != agreement.digest:
                raise ClusterError(f"{name} did not say whether it knows the other owners.")

    def release_in(
        self, agreement: Agreement, name: str, reply: Mapping[str, Any], step: int | str, dimension: int, longest: float
    ) -> SignedRelease:
        """The release of a reply, signed by its owner for this step of this run.

        Raises:
            InvalidRelease: It has none.
        """
        if "refused" in reply:
            raise InvalidRelease(f"it refuses: {reply['refused']}")
        value, seal = release_in(reply, dimension, longest)
        signature = reply.get("signature")
        self._check_release(agreement, name, signature, step, reply["value"], seal)
        return value, seal, bytes(signature)  # type: ignore[arg-type]  # it was checked

    def check_kept(self, agreement: Agreement, state: CoordinatorState) -> None:
        """Checks the releases of a checkpoint by the cards that are trusted now.

        Raises:
            InputError: One is not its owner's.
        """
        for agent, name in enumerate(agreement.owners):
            round = int(state.last_answered[agent])
            if round:
                value = to_bytes(state.shared.released[0, agent])
                try:
                    self._check_release(agreement, name, state.signatures[agent], round, value, state.seals[agent])
                except InvalidRelease as error:
                    raise InputError(f"the checkpoint's release of {name}, round {round}: {error}.") from None

    def _check_release(
        self, agreement: Agreement, name: str, signature: Any, step: int | str, value: bytes, seal: Seal | None
    ) -> None:
        parts = release_parts(self._run, agreement.digest, step, value, seal_to_list(seal))
        try:
            self._pins[name].verify(RELEASE, signature, *parts)
        except NotGenuine as error:
            raise InvalidRelease(str(error)) from None


def _plain(reply: Any) -> dict[str, Any]:
    """A reply as it may be read: a refusal is a short text."""
    if not isinstance(reply, Mapping):
        return {}
    return {**reply, "refused": plain(reply["refused"])} if "refused" in reply else dict(reply)


def _refuse_any(replies: Replies) -> None:
    said = [f"{name}: {reply['refused']}" for name, reply in replies.items() if "refused" in reply]
    if said:
        raise Refused("; ".join(said))
