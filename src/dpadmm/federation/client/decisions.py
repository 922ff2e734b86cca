"""What an owner decides, as signed files: the only way in which a command reaches the agent.

    waiting/ID.json      a run that waits for the owner, and what it would cost
    decisions/ID.json    approve, decline or stop, signed by the owner's identity
    used/ID.json         decisions that the agent has acted on

An approval is for one proposal: one run with one digest of terms, over one data set and its records, in one ledger,
under one policy, asked for by one coordinator. It is moved to `used/` before the run is joined, so it counts once. A
decline is for the terms, whatever the run is called. A stop is for one process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from dpadmm import _limits
from dpadmm._fields import from_table
from dpadmm._plain import plain
from dpadmm._private_files import move_private, private_folder, read_private, write_private
from dpadmm.errors import InputError, Refused
from dpadmm.federation.cards import DECISION, Card, NotGenuine, is_fingerprint, strict_json
from dpadmm.federation.identity import Identity
from dpadmm.privacy.events import canonical, digest

APPROVE, DECLINE, STOP = "approve", "decline", "stop"
LARGEST = 1_000_000  # bytes of a file here


@dataclass(frozen=True)
class Proposal:
    """What an approval is for. Whatever of it is another one needs another approval."""

    run: str
    terms: str  # their digest
    dataset: str  # its name in the policy
    records: str  # their digest
    ledger: str  # its identity
    policy: str  # its digest
    owner: str  # fingerprint of its card
    coordinator: str  # likewise

    @property
    def id(self) -> str:
        """Names the proposal, for the owner to decide on."""
        return digest("dpadmm proposal", canonical(asdict(self)))


@dataclass(frozen=True)
class _Decision:
    kind: str
    subject: Mapping[str, Any]
    nonce: str
    time: float
    signature: str

    @property
    def signed(self) -> tuple[str, ...]:
        return self.kind, canonical(dict(self.subject)), self.nonce, canonical(self.time)


class Decisions:
    """An owner's decisions in its own folder; `card` says whose signature counts."""

    def __init__(self, folder: Path, card: Card) -> None:
        self._folder, self._card = folder, card

    # -- what waits ------------------------------------------------------------------------------------------------

    def ask(self, proposal: Proposal, told: Mapping[str, Any]) -> bool:
        """Puts a proposal before the owner; whether it was new."""
        known = self.waiting()
        if proposal.id in known:
            return False
        for id, entry in known.items():  # asked under an older policy, say: what it would have cost is out of date
            if (entry["proposal"]["run"], entry["proposal"]["terms"]) == (proposal.run, proposal.terms):
                self._place("waiting", id).unlink(missing_ok=True)
        if len(known) >= _limits.WAITING:  # whoever asks must not fill the disk
            raise Refused("too many runs wait for this owner's decision.")
        entry = {"proposal": asdict(proposal), "told": dict(told)}
        text = canonical(entry)
        if len(text) > _limits.PROPOSAL:
            short = {name: plain(told[name], _limits.MESSAGE) for name in ("run", "sentence") if name in told}
            text = canonical({**entry, "told": short})
        write_private(self._place("waiting", proposal.id), text)
        return True

    def waiting(self) -> dict[str, dict[str, Any]]:
        """What waits for the owner, by the proposal's id."""
        found = {}
        for path in self._files("waiting"):
            text = read_private(path, LARGEST)
            with suppress(NotGenuine, KeyError, TypeError):
                entry = strict_json(text, LARGEST, "proposal")
                if Proposal(**entry["proposal"]).id == path.stem and isinstance(entry["told"], dict):
                    found[path.stem] = entry
        return found

    def withdraw(self, proposal: Proposal) -> None:
        """Nothing waits any longer: the run was joined, or cannot be."""
        with suppress(FileNotFoundError):
            self._place("waiting", proposal.id).unlink()

    # -- what is decided -------------------------------------------------------------------------------------------

    def decide(self, identity: Identity, which: str, approve: bool) -> Proposal:
        """The owner's decision on a proposal that waits.

        Args:
            identity: The owner's keys.
            which: The name of the run, or the beginning of the proposal's id.
            approve: Yes or no.

        Returns:
            The proposal.

        Raises:
            InputError: No proposal that waits is meant so, or several are: a coordinator can ask for several runs of
                one name.
        """
        waiting = self.waiting()
        found = [id for id in waiting if which and (id.startswith(which) or waiting[id]["proposal"]["run"] == which)]
        if len(found) != 1:
            raise InputError(
                f"{len(found)} of the runs that wait here have the name {which!r} or an id that begins so; see "
                f"'dpadmm agent status'."
            )
        proposal = Proposal(**waiting[found[0]]["proposal"])
        self._write(identity, APPROVE if approve else DECLINE, asdict(proposal))
        self.withdraw(proposal)
        return proposal

    def use_approval(self, proposal: Proposal) -> bool:
        """Whether the owner has approved this proposal. Where it has, that approval is used up by now."""
        for path, decision in self._decided(APPROVE):
            if dict(decision.subject) == asdict(proposal) and self._use(path):
                return True
        return False

    def approved(self, proposal: Proposal) -> bool:
        """The same without using it up."""
        return any(dict(decision.subject) == asdict(proposal) for _, decision in self._decided(APPROVE))

    def declined(self, terms: str) -> bool:
        """Whether the owner has declined these terms, whatever the run was called."""
        return any(decision.subject.get("terms") == terms for _, decision in self._decided(DECLINE))

    def stop(self, identity: Identity, process: str) -> None:
        """Asks the agent's process of this number to end."""
        self._write(identity, STOP, {"process": process})

    def use_stop(self, process: str) -> bool:
        """Whether the owner has asked the process of this number to end; that request is used up by now."""
        asked = [path for path, decision in self._decided(STOP) if dict(decision.subject) == {"process": process}]
        used = [self._use(path) for path in asked]  # all of them
        return any(used)

    def carry_over(self, identity: Identity) -> None:
        """Signs anew what the owner has declined, for the card that takes the place of this one."""
        after = Decisions(self._folder, identity.card)
        for _, decision in list(self._decided(DECLINE)):
            after._write(identity, DECLINE, decision.subject)

    # -- files -----------------------------------------------------------------------------------------------------

    def _write(self, identity: Identity, kind: str, subject: Mapping[str, Any]) -> None:
        if identity.card.fingerprint != self._card.fingerprint:
            raise InputError("these keys are not those of this agent.")
        decision = _Decision(kind, subject, token_hex(32), time.time(), "")
        entry = {**asdict(decision), "signature": identity.sign(DECISION, *decision.signed).hex()}
        write_private(self._place("decisions", decision.nonce), canonical(entry), new=True)

    def _decided(self, kind: str) -> Iterator[tuple[Path, _Decision]]:
        """Decisions of a kind that this owner has signed and that were not used; whatever else lies there is none."""
        for path in self._files("decisions"):
            with suppress(NotGenuine, InputError, FileNotFoundError, ValueError):
                decision = self._genuine(path)
                if decision.kind == kind and not self._place("used", decision.nonce).exists():
                    yield path, decision

    def _genuine(self, path: Path) -> _Decision:
        entry = strict_json(read_private(path, LARGEST), LARGEST, "decision")
        decision = from_table(_Decision, entry, "decision")
        self._card.verify(DECISION, bytes.fromhex(decision.signature), *decision.signed)
        if path.stem != decision.nonce:  # a copy under another name would count again
            raise NotGenuine("the decision has another name")
        return decision

    def _use(self, path: Path) -> bool:
        try:
            move_private(path, self._place("used", path.stem))
        except (FileNotFoundError, FileExistsError):
            return False
        return True

    def _files(self, kind: str) -> list[Path]:
        folder = self._folder / kind
        if not folder.is_dir():
            return []
        return sorted(path for path in private_folder(folder).glob("*.json") if is_fingerprint(path.stem))

    def _place(self, kind: str, id: str) -> Path:
        if not is_fingerprint(id):
            raise InputError(f"{id!r} names no decision.")
        return private_folder(self._folder / kind) / f"{id}.json"
