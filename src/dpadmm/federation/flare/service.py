"""An owner's agent from its own command line: set up and checked before anybody is connected, then kept running."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpadmm._files import read_json, write_json
from dpadmm.engine.output.status import alive, process
from dpadmm.errors import InputError
from dpadmm.federation.client.files import AgentSettings, OwnerFiles
from dpadmm.federation.client.records import Records
from dpadmm.federation.client.sources import RecordSource
from dpadmm.federation.flare.processes import start_client, start_server, stop
from dpadmm.federation.flare.provisioning import Kit
from dpadmm.owner.policy import Policy
from dpadmm.spec.columns import Schema

_NOTE = "pid"  # the file that says which process looks after a site
_PAUSE = 0.5  # seconds between looks at a process
_RESTS = (1.0, 2.0, 5.0, 10.0, 30.0)  # before a process that ended is started again


@dataclass(frozen=True)
class OwnerService:
    """One owner: kit, policy, columns, records, ledger."""

    site: OwnerFiles
    settings: AgentSettings

    @classmethod
    def of(
        cls,
        kit: Path,
        policy: Path,
        data: str,
        *,
        query: str | None = None,
        columns: Path | None = None,
        ledger: Path | None = None,
        person: str | None = None,
        dry_run: int | None = None,
    ) -> OwnerService:
        """As the owner says; what it leaves out has its place in the kit."""
        rules = Policy.read(policy)
        source = RecordSource.parse(data, query).absolute()
        kind = "dry_run" if dry_run is not None else "ledger"
        settings = AgentSettings(
            policy=str(policy.absolute()),
            columns=str((columns or kit / "columns.toml").absolute()),
            ledger=str((ledger or kit / "agent" / f"{_plain(rules.dataset)}.{kind}").absolute()),
            source=source.to_dict(),
            person=person,
            dry_run=dry_run,
        )
        return cls(OwnerFiles(kit.absolute()), settings)

    def check(self) -> dict[str, Any]:
        """Whether all of it goes together; raises an `InputError` that tells the owner, and nobody else, what does not.

        Reads the records once, so that whatever is wrong with them is found here and not in front of others.
        """
        kit, rules = Kit(self.site.kit), Policy.read(Path(self.settings.policy))
        kit.check()
        if kit.is_server:
            raise InputError(f"{str(self.site.kit)!r} is the coordinator's kit, not an owner's.")
        schema = Schema.read(Path(self.settings.columns))
        records = Records(self.settings)
        if len(records.features) < rules.smallest_count:
            raise InputError(
                f"there are {len(records.features)} records; the policy takes part with {rules.smallest_count} or more."
            )
        return {
            "agent": kit.name,
            "server": kit.address,
            "kit_expires": kit.expires.date().isoformat(),
            "dataset": rules.dataset,
            "records": len(records.features),
            "unusable": records.unusable,
            "first_unusable": records.first_unusable,
            "columns": list(schema.encoder.feature_names),
            "target": schema.target,
            "classes": list(schema.classes),
            "approval": rules.approval,
            "ledger": self.settings.ledger,
            "dry_run": self.settings.dry_run is not None,
        }

    @contextmanager
    def running(self, tell: Callable[[str], None]) -> Iterator[Callable[[], None]]:
        """The agent's process, and a function that looks after it for a moment."""
        self.site.save(self.settings)
        with kept_running(lambda: start_client(self.site.kit), self.site.folder, tell) as look:
            yield look


@contextmanager
def kept_running(begin: Callable[[], Any], folder: Path, tell: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """A site's process: started, noted in `folder`, started again if it ends, and stopped in the end."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    note, other = folder / _NOTE, noted(folder)
    if other is not None:
        raise InputError(
            f"process {other['pid']} on {other.get('host')} already runs this kit; stop it first. If there is no such "
            f"process any more, remove {str(note)!r}."
        )
    site, ends = begin(), 0
    write_json(note, process())

    def look() -> None:
        nonlocal site, ends
        time.sleep(_PAUSE)
        if site.poll() is not None:
            rest = _RESTS[min(ends, len(_RESTS) - 1)]
            tell(f"the process ended (code {site.returncode}); starting it again in {rest:g} s.")
            time.sleep(rest)
            site, ends = begin(), ends + 1

    try:
        yield look
    finally:
        note.unlink(missing_ok=True)
        stop(site)


def noted(folder: Path) -> Mapping[str, Any] | None:
    """The process that runs a site, if there is one; one on another machine is taken to be there."""
    try:
        told = read_json(folder / _NOTE, "note")
    except InputError:
        return None
    return told if isinstance(told, Mapping) and "pid" in told and alive(told) else None


def serve(kit: Path, tell: Callable[[str], None]) -> Any:
    """The coordinator's server, kept running."""
    return kept_running(lambda: start_server(kit), kit / "running", tell)


def words(event: Mapping[str, Any]) -> str:
    """A line of an owner's log, for people."""
    kind, run = event["kind"], event.get("run")
    if kind == "waiting":
        return f"run {run!r} waits for your word: dpadmm agent approve KIT {str(event.get('digest'))[:12]}"
    if kind == "asked":
        return str(event.get("sentence"))
    if kind == "refused":
        return f"refused ({event.get('asked')}, by {event.get('by')}): {event.get('reason')}"
    if kind == "error":
        return f"trouble ({event.get('asked')}): {event.get('reason')}"
    if kind == "unusable":
        return f"{event.get('records')} record(s) have a value that cannot be used and count as zero; see 'agent check'"
    if kind == "joined":
        return f"joined run {run!r}, round {event.get('round')}"
    return f"{kind} run {run!r}"


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)
