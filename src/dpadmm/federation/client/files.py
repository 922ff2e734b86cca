"""An owner's own files beside its kit: its settings, what awaits its word, and what happened.

agent.json       where policy, records, columns and ledger are; never a password
waiting/         terms that wait for the owner's word, by their digest
approved/        digests it has said yes to; refused/ those it has said no to
events.jsonl     what was asked, agreed and refused; of the records it says how many cannot be used, and nothing else
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpadmm._fields import from_table
from dpadmm._files import read_json, write_json
from dpadmm.errors import InputError

LARGEST_LOG = 1_000_000  # bytes; what is older is forgotten: strangers can make it grow
_DIGEST = 64


@dataclass(frozen=True)
class AgentSettings:
    """What an owner's agent works with; paths are absolute."""

    policy: str
    columns: str
    ledger: str
    source: Mapping[str, Any]  # as `Source.to_dict` writes it
    person: str | None = None  # the column that says whose record it is
    dry_run: int | None = None  # the seed of a dry_run with made-up records
    registry: str | None = None  # where this account's ledgers are noted; None: the usual place


@dataclass(frozen=True)
class OwnerFiles:
    """The folder `agent` in an owner's kit."""

    kit: Path

    @property
    def folder(self) -> Path:
        return self.kit / "agent"

    def save(self, settings: AgentSettings) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(self.folder / "agent.json", asdict(settings))

    def settings(self) -> AgentSettings:
        try:
            return from_table(AgentSettings, read_json(self.folder / "agent.json", "settings"), "settings")
        except InputError:
            raise InputError(f"{str(self.kit)!r} has no agent yet; start it with 'dpadmm agent start'.") from None

    # -- the owner's word ------------------------------------------------------------------------------------------

    def ask(self, digest: str, told: Mapping[str, Any]) -> None:
        """Puts terms before the owner."""
        place = self._place("waiting", digest)
        if not place.exists():
            write_json(place, told)
            self.note("waiting", run=told.get("run"), digest=digest)

    def waiting(self) -> dict[str, dict[str, Any]]:
        """What awaits the owner's word, by digest."""
        return {path.stem: read_json(path, "terms") for path in sorted(self.folder.glob("waiting/*.json"))}

    def decide(self, digest: str, yes: bool) -> str:
        """The owner's word on terms that wait, named by the beginning of their digest; the whole digest."""
        found = [known for known in self.waiting() if known.startswith(digest)] if digest else []
        if len(found) != 1:
            what = f"{len(found)} of the terms that wait here begin with {digest!r}"
            raise InputError(f"{what}; see 'dpadmm agent status'.")
        told = self.waiting()[found[0]]
        write_json(self._place("approved" if yes else "refused", found[0]), told)
        self._place("waiting", found[0]).unlink()
        self.note("approved" if yes else "declined", run=told.get("run"), digest=found[0])
        return found[0]

    def approved(self, digest: str, run: str) -> bool:
        """Whether the owner has said yes to these terms for this run: the same terms again are another release."""
        try:
            return bool(read_json(self._place("approved", digest), "approval")["run"] == run)
        except (ValueError, KeyError, TypeError):
            return False

    def declined(self, digest: str) -> bool:
        return self._place("refused", digest).exists()

    def _place(self, kind: str, digest: str) -> Path:
        if len(digest) != _DIGEST or not digest.isalnum():
            raise InputError(f"{digest!r} is no digest of terms.")
        (self.folder / kind).mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder / kind / f"{digest}.json"

    # -- what happened ---------------------------------------------------------------------------------------------

    def note(self, kind: str, **facts: Any) -> None:
        """One line in the owner's log; a full disk must not keep the agent from refusing."""
        path = self.folder / "events.jsonl"
        entry = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "kind": kind, **facts}
        line = json.dumps(entry, default=lambda fact: type(fact).__name__)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size > LARGEST_LOG:
                path.replace(path.with_suffix(".old.jsonl"))
            with path.open("a") as file:
                file.write(line + "\n")
        except OSError:
            return

    def events(self, count: int = 20) -> list[dict[str, Any]]:
        """The last ones; a line that was torn when the machine stopped, and what was written behind it, is left out."""
        try:
            lines = (self.folder / "events.jsonl").read_text(errors="replace").splitlines()[-count:]
        except OSError:
            return []
        found = []
        for line in lines:
            with suppress(ValueError):
                found.append(json.loads(line))
        return found
