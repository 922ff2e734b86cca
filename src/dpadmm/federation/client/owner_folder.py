"""An owner's state on its own machine: STATE/agents/NAME, which nobody else made and nobody else can write to.

    keys.json            the owner's keys and its card
    coordinator.json     the coordinator's card: exactly this one is trusted
    columns.toml         what everybody's columns are
    agent.json           where policy, records and ledger are; never a password
    *.ledger             what was spent, unless the owner keeps it elsewhere
    waiting/ decisions/ used/     see `decisions`
    events.jsonl         what was asked, agreed and refused; of the records it says how many cannot be used, and no more
    lock process.json    which process is the agent

STATE is what the owner says, `DPADMM_STATE`, or the platform's folder. Every file is opened by `_private_files`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from dpadmm._fields import from_table
from dpadmm._files import json_value, parse_json, parse_toml
from dpadmm._limits import LOG, MESSAGE, TEXT
from dpadmm._plain import plain
from dpadmm._private_files import (
    append_private,
    locked,
    move_private,
    private_folder,
    read_own,
    read_private,
    state_folder,
    write_private,
)
from dpadmm.errors import InputError
from dpadmm.federation.cards import Card, NotGenuine, check_name
from dpadmm.federation.client.decisions import Decisions
from dpadmm.federation.identity import KEYS_FILE, Identity
from dpadmm.federation.invitation import Invitation
from dpadmm.owner.policy import Policy
from dpadmm.privacy.ledger.registry import LedgerRegistry
from dpadmm.spec.columns import Schema

_PINNED = "coordinator.json"


@dataclass(frozen=True)
class AgentSettings:
    """What an owner's agent works with; paths are absolute."""

    address: str  # of the coordinator, host:port
    policy: str
    ledger: str
    source: Mapping[str, Any]  # as `Source.to_dict` writes it
    person: str | None = None  # the column that says whose record it is
    dry_run: int | None = None  # the seed of a dry run with made-up records


@dataclass(frozen=True)
class OwnerFolder:
    """The folder of one owner's agent."""

    path: Path

    @classmethod
    def of(cls, name: str, state: Path | None = None) -> OwnerFolder:
        """The place of an agent of this name.

        Args:
            name: The owner's name.
            state: The folder for state; None: the usual one.
        """
        return cls((state_folder() if state is None else state.absolute()) / "agents" / check_name(name))

    @property
    def exists(self) -> bool:
        """Whether an agent was made here."""
        return os.path.lexists(self.path / KEYS_FILE)

    @property
    def name(self) -> str:
        return self.path.name

    # -- how it is made --------------------------------------------------------------------------------------------

    def create(self, identity: Identity, invitation: Invitation, settings: AgentSettings) -> None:
        """Writes down a new owner's keys, whom it trusts, and what its agent works with.

        Raises:
            InputError: There is an agent of this name already, or the folder is not this user's alone.
        """
        private_folder(self.path)
        if self.exists:
            raise InputError(f"{self.name!r} has an agent already, in {str(self.path)!r}; its keys are kept.")
        self.trust(invitation)
        self.save(settings)
        identity.save(self.path)  # the last file: without it there is no agent

    def trust(self, invitation: Invitation) -> None:
        """Writes down whom the owner trusts as coordinator, and the columns."""
        write_private(self.path / "columns.toml", invitation.columns)
        write_private(self.path / _PINNED, invitation.card.dumps() + "\n")

    def save(self, settings: AgentSettings) -> None:
        write_private(self.path / "agent.json", json.dumps(asdict(settings), indent=2) + "\n")

    # -- what is in it ---------------------------------------------------------------------------------------------

    def settings(self) -> AgentSettings:
        entries = parse_json(self._text("agent.json"), f"file {str(self.path / 'agent.json')!r}")
        return from_table(AgentSettings, entries, f"file {str(self.path / 'agent.json')!r}")

    def identity(self) -> Identity:
        self._check_there()
        return Identity.load(self.path)

    def coordinator(self) -> Card:
        """The card of the coordinator that is trusted."""
        try:
            return Card.loads(self._text(_PINNED))
        except NotGenuine as error:
            raise InputError(f"{str(self.path / _PINNED)!r} cannot be used: {error}.") from None

    def schema(self) -> Schema:
        return Schema.loads(self._text("columns.toml", TEXT), str(self.path / "columns.toml"))

    def policy(self) -> Policy:
        """The policy as its file says now; others must not be able to write to it."""
        path = Path(self.settings().policy)
        return read_policy(path)

    @property
    def registry(self) -> LedgerRegistry:
        """Where ledgers of this account are noted."""
        return LedgerRegistry(self.path.parent.parent / "ledgers")

    def decisions(self, card: Card) -> Decisions:
        """What the owner of this card has decided here."""
        return Decisions(self.path, card)

    def _text(self, name: str, limit: int = 1 << 20) -> str:
        self._check_there()
        try:
            return read_private(self.path / name, limit).decode()
        except FileNotFoundError:
            raise InputError(f"there is no {str(self.path / name)!r}; restore it from a backup.") from None
        except UnicodeDecodeError:
            raise InputError(f"{str(self.path / name)!r} is not text in UTF-8.") from None

    def _check_there(self) -> None:
        if not self.exists:
            raise InputError(
                f"there is no agent {self.name!r} in {str(self.path.parent)!r}; make one with 'dpadmm agent init'."
            )

    # -- which process is the agent --------------------------------------------------------------------------------

    @contextmanager
    def running(self) -> Iterator[str]:
        """Makes this process the agent; its random number, which a request to stop must name.

        Raises:
            InputError: Another process is the agent.
        """
        private_folder(self.path)
        with locked(self.path / "lock") as mine:
            if not mine:
                raise InputError(f"agent {self.name!r} runs already; 'dpadmm agent stop {self.name}' ends it.")
            number = token_hex(32)
            write_private(self.path / "process.json", json.dumps({"process": number}))
            yield number

    @property
    def is_running(self) -> bool:
        self._check_there()
        with locked(self.path / "lock") as mine:
            return not mine

    def stop(self, identity: Identity) -> None:
        """Asks the process that is the agent to end.

        Raises:
            InputError: There is none.
        """
        if not self.is_running:
            raise InputError(f"agent {self.name!r} does not run.")
        told = parse_json(self._text("process.json"), "process.json")
        process = told.get("process") if isinstance(told, dict) else None
        if type(process) is not str:
            raise InputError(f"{str(self.path / 'process.json')!r} does not say which process is the agent.")
        self.decisions(identity.card).stop(identity, process)

    # -- what happened ---------------------------------------------------------------------------------------------

    def note(self, kind: str, **facts: Any) -> None:
        """One line in the owner's log; a full disk must not keep the agent from refusing."""
        short = {name: plain(fact, MESSAGE) if type(fact) is str else fact for name, fact in facts.items()}
        entry = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "kind": kind, **short}
        line = json.dumps(entry, default=lambda fact: type(fact).__name__).encode() + b"\n"
        path, old = self.path / "events.jsonl", self.path / "events.old.jsonl"
        with suppress(OSError, InputError):
            if not append_private(path, line, LOG):
                old.unlink(missing_ok=True)
                move_private(path, old)
                append_private(path, line, LOG)

    def events(self, count: int = 20) -> list[dict[str, Any]]:
        """The last ones; a line that was torn when the machine stopped, and what was written behind it, is left out."""
        try:
            text = read_private(self.path / "events.jsonl", 2 * LOG).decode(errors="replace")
        except (OSError, InputError):
            return []
        found = []
        for line in text.splitlines()[-count:]:
            with suppress(ValueError):
                entry = json_value(line)
                if isinstance(entry, dict):
                    found.append(entry)
        return found


def read_policy(path: Path) -> Policy:
    """A policy, from a file that nobody but this user (or root) can write to."""
    try:
        text = read_own(path).decode()
    except UnicodeDecodeError:
        raise InputError(f"policy {str(path)!r} is not TOML: it is not text in UTF-8.") from None
    return from_table(Policy, parse_toml(text, f"policy {str(path)!r}"), str(path))
