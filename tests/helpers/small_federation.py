"""A federation in one process: real desks with real agents and ledgers, and a line that is a function call."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm.datasets.encoding import Category, Encoder, Numeric
from dpadmm.engine.result import Result
from dpadmm.engine.run import train
from dpadmm.federation.cards import COORDINATOR, OWNER, TERMS, Card
from dpadmm.federation.client.dispatch import Dispatcher
from dpadmm.federation.client.handler import Handler
from dpadmm.federation.client.letters import Relay
from dpadmm.federation.client.made_up import made_up
from dpadmm.federation.client.owner_folder import AgentSettings, OwnerFolder
from dpadmm.federation.client.sources import RecordSource
from dpadmm.federation.identity import Identity
from dpadmm.federation.invitation import Invitation
from dpadmm.federation.messages import terms_parts
from dpadmm.federation.server.coordinator import Coordinator
from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.owner.agreement import Agreement
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.spec.columns import Schema
from dpadmm.spec.declare import Experiment, RunSpec
from dpadmm.spec.toml import loads

OWNERS = ("ahorn", "birke", "eiche")
SCHEMA = Schema.of(
    Encoder((Numeric("age", 0.0, 100.0), Numeric("dose", -1.0, 1.0), Category("sex", ("f", "m")))), "ill", ("no", "yes")
)
SPEC = """
[run]
algorithm = "dp-admm"
rounds = 6
epsilon = 2.0
delta = 1e-6
strength = 1e-3

[federation]
owners = ["ahorn", "birke", "eiche"]
timeout = 5
"""
POLICY = 'dataset = "{name}"\nepsilon = 4.0\ndelta = 1e-6\n'


@cache
def identity(name: str, role: str = OWNER) -> Identity:
    """Keys of an owner or coordinator; tests share them."""
    return Identity.create(name, role)


def records(path: Path, counts: Mapping[str, int], seed: int = 0) -> None:
    """Made-up patients of all owners, in one file with a column that says whose they are."""
    draw = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["owner", "age", "dose", "sex", "ill"])
        for name, count in counts.items():
            for _ in range(count):
                age, dose, sex = draw.uniform(0, 100), draw.uniform(-1, 1), draw.choice(["f", "m"])
                ill = "yes" if age / 50 + dose + draw.normal() > 1.2 else "no"
                table.writerow([name, repr(float(age)), repr(float(dose)), sex, ill])


def made_up_records(path: Path, counts: Mapping[str, int], seed: int) -> None:
    """What the agents of a dry run make up, in such a file: a simulation reads the same."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["owner", "age", "dose", "sex", "ill"])
        for name, count in counts.items():
            for row in made_up(SCHEMA, count, seed, name).to_pylist():
                table.writerow([name, repr(row["age"]), repr(row["dose"]), row["sex"], row["ill"]])


def split(path: Path, name: str, target: Path) -> None:
    """One owner's records in a file of their own."""
    with path.open() as file, target.open("w", newline="") as out:
        rows = list(csv.reader(file))
        csv.writer(out).writerows([rows[0][1:], *(row[1:] for row in rows[1:] if row[0] == name)])


class DirectLine:
    """A transport that is a function call: the owners' dispatchers, each with the threads that its agent has."""

    def __init__(self, desks: Mapping[str, Dispatcher], present: tuple[str, ...] | None = None) -> None:
        self.desks = dict(desks)
        for name, desk in self.desks.items():
            desk.relay = self._relay(name)
        self.present = tuple(desks) if present is None else present
        self.tamper: Callable[[str, str, Any], Any] = lambda name, method, reply: reply  # None: it gets lost
        self.reaches: Callable[[str, str, Mapping[str, Any]], bool] = lambda name, method, call: True
        self.carry: Callable[..., bool] = lambda sender, receiver, run, round, sealed: self.hear(
            sender, receiver, run, round, sealed
        )
        self.calls: list[tuple[str, str, Mapping[str, Any]]] = []

    def ask(self, method: str, calls: Mapping[str, Mapping[str, Any]], seconds: float) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def one(name: str) -> None:
            self.calls.append((name, method, calls[name]))
            if not self.reaches(name, method, calls[name]):
                return
            reply = self.tamper(name, method, self.desks[name].answer(method, dict(calls[name])))
            if reply is not None:
                found[name] = reply

        with ThreadPoolExecutor(len(calls)) as all_at_once:
            list(all_at_once.map(one, calls))
        return found

    def hear(self, sender: str, receiver: str, run: str, round: int, sealed: bytes) -> bool:
        """Whether a letter reached its receiver, who could read it."""
        given = {"run": run, "sender": sender, "round": round, "sealed": sealed}
        return "heard" in self.desks[receiver].answer("hear", given)

    def _relay(self, sender: str) -> Relay:
        def relay(run: str, round: int, letters: Mapping[str, bytes], timeout: float) -> list[str]:
            return [name for name, sealed in letters.items() if self.carry(sender, name, run, round, sealed)]

        return relay

    def close(self) -> None:
        for desk in self.desks.values():
            desk.close()


class SmallFederation:
    """Owners with their files below one folder."""

    def __init__(
        self,
        home: Path,
        counts: tuple[int, ...] = (60, 45, 80),
        dry_run: int | None = 7,
        owners: tuple[str, ...] = OWNERS,
    ) -> None:
        self.home, self.owners = home, owners
        self.table = home / "all.csv"
        self.counts = dict(zip(owners, counts, strict=True))
        if dry_run is None:
            records(self.table, self.counts)
        else:
            made_up_records(self.table, self.counts, dry_run)
        self.identities = {name: identity(name) for name in owners}
        self.coordinator = identity("study", COORDINATOR)
        self.invitation, _ = Invitation.signed(self.coordinator, "localhost:8002", SCHEMA.dumps())
        for name in owners:
            (home / name).mkdir()
            self.policy(name).touch()
            self.policy(name).chmod(0o644)
            self.policy(name).write_text(POLICY.format(name=name))
            split(self.table, name, home / name / "records.csv")
            self.owner(name).create(self.identities[name], self.invitation, self.settings(name, dry_run))

    def policy(self, name: str) -> Path:
        return self.home / name / "policy.toml"

    def owner(self, name: str) -> OwnerFolder:
        """An owner's state on what stands for its machine."""
        return OwnerFolder.of(name, self.home / name / "state")

    def pins(self) -> dict[str, Card]:
        """The cards that the coordinator trusts."""
        return {name: identity.card for name, identity in self.identities.items()}

    def confirmation(self, run: str, terms: Agreement) -> dict[str, Any]:
        """The cards of all owners of the terms, and what each signs when it joins."""
        keys = {name: self.identities[name] for name in terms.owners}
        signatures = {name: each.sign(TERMS, *terms_parts(run, terms.digest)) for name, each in keys.items()}
        cards = {name: each.card.dumps() for name, each in keys.items()}
        return {"run": run, "cards": cards, "signatures": signatures, "seals": {}}

    def ledger_path(self, name: str) -> Path:
        return self.home / name / "ledger.db"

    def ledger(self, name: str) -> SqliteLedger:
        return SqliteLedger.open(self.ledger_path(name), reading=True, folder=self.owner(name).registry.folder)

    def settings(self, name: str, dry_run: int | None) -> AgentSettings:
        return AgentSettings(
            address="localhost:8002",
            policy=str(self.policy(name)),
            ledger=str(self.ledger_path(name)),
            source=RecordSource.parse(str(self.home / name / "records.csv")).to_dict(),
            dry_run=dry_run,
            records=self.counts[name],
        )

    def allow(self, name: str, more: str = "", **changes: Any) -> None:
        """Another policy for an owner."""
        lines = [line for line in POLICY.format(name=name).splitlines() if line.split(" = ")[0] not in changes]
        lines += [f"{key} = {json.dumps(value)}" for key, value in changes.items()]
        self.policy(name).write_text("\n".join([*lines, more, ""]))

    def terms(self, text: str = SPEC, **changes: Any) -> Agreement:
        """What a coordinator drafts of what the owners say of themselves."""
        given = self.experiment(text, **changes)
        run, parties = given.run, given.federation
        counts = tuple(self.counts[name] for name in parties.owners)
        shape = SCHEMA.width + bool(run.intercept), len(SCHEMA.classes)
        identities = tuple(self.identities[name].card.fingerprint for name in parties.owners)
        known = parties.stragglers, parties.records_per_person, parties.owners, identities
        return Agreement(run, counts, *shape, *known, SCHEMA)

    def simulated(self, run: RunSpec | None = None, **changes: Any) -> Result:
        """The same run by the engine, with the seed of the dry runs."""
        columns = [dict(column) for column in json.loads(SCHEMA.features)["columns"]]
        given = self.experiment(**changes).changed(
            source=str(self.table), target="ill", owner="owner", test=0.0, seed=7, columns=columns
        )
        return train(given if run is None else replace(given, run=run))

    def steps(self, name: str, run: str = "study") -> list[str]:
        """What an owner has released in a run, in order."""
        entries = self.ledger(name).entries() if self.ledger_path(name).exists() else ()
        return [entry["step"] for entry in entries if entry["kind"] == "debit" and entry["run"] == run]

    def desks(self) -> dict[str, Dispatcher]:
        """Fresh processes, as it were."""
        nobody: Relay = lambda *_: ()  # noqa: E731
        return {name: Dispatcher(partial(Handler, self.owner(name)), nobody) for name in self.owners}

    def line(self, present: tuple[str, ...] | None = None) -> DirectLine:
        return DirectLine(self.desks(), present)

    def folder(self, text: str = SPEC, name: str = "study", **changes: Any) -> RunFolder:
        return RunFolder.create(self.home / "runs" / name, self.experiment(text, **changes), SCHEMA)

    def experiment(self, text: str = SPEC, **changes: Any) -> Experiment:
        return loads(text).changed(**changes)

    def simulation(self, seed: int = 7, text: str = SPEC, **changes: Any) -> Experiment:
        """The same run of the same records, as `train` takes it."""
        columns = [dict(column) for column in json.loads(SCHEMA.features)["columns"]]
        data = {"source": str(self.table), "target": "ill", "owner": "owner", "test": 0.0, "columns": columns}
        return self.experiment(text, **changes).changed(**data, seed=seed)

    def run(self, folder: RunFolder, line: DirectLine | None = None) -> dict[str, Any]:
        """One job; what the folder says afterwards."""
        Coordinator(folder.path.name, folder, line or self.line(), self.pins).run()
        return folder.status()
