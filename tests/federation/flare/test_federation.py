"""Real processes on loopback with mutual TLS: what they come to is what a simulation comes to, bit for bit; what a
coordinator may not ask is refused; and nothing private is written down anywhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.output.model import Model
from dpadmm.engine.prepare import prepare
from dpadmm.engine.run import train
from dpadmm.federation.flare.submit import connected
from dpadmm.privacy.ledger.verify import verify
from dpadmm.release.random_bits import SeededRandomness

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of gRPC and protobuf, in this process

MARK = 61.80339887498949  # an age that nobody else has
RING = {"algorithm": "private-r-admm", "topology": "ring:3"}

# A coordinator's server that asks, in every round, for what it was not promised.
EVIL = """
import dpadmm.federation.server.coordinator as target
from dpadmm.federation.messages import to_bytes

honest = target.Coordinator._collect

def evil(self, agreement, plan, standing):
    found = honest(self, agreement, plan, standing)
    good = {"run": self.name, "digest": agreement.digest, "inputs": to_bytes(standing.shared.server.common)}
    good |= {"missed_inputs": {}, "last_used": None}
    asked = {
        "other digest": {**good, "digest": "0" * 64, "step": standing.round + 1},
        "one more round": {**good, "step": plan.setting.rounds + 1},
        "a later round": {**good, "step": standing.round + 3},
        "other inputs": {**good, "step": standing.round + 1, "inputs": to_bytes(standing.shared.server.common + 1.0)},
        "an evaluation": {**good, "step": "evaluation"},
        "another run": {**good, "run": "other", "step": 1},
    }
    for what, call in asked.items():
        for name, reply in self._owners.call("answer_step", {name: call for name in agreement.owners}).items():
            self.folder.note(f"EVIL {what}: {name}: {reply}")
    return found

target.Coordinator._collect = evil
"""


@pytest.fixture(scope="module")
def place(flare_federation: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A town in which one of Ahorn's patients can be recognised, and a password is in everybody's environment."""
    home = tmp_path_factory.mktemp("town")
    made = flare_federation.FlareFederation(home, environment={"DPADMM_DATABASE_PASSWORD": "planted-password-4711"})
    records = home / "ahorn" / "records.csv"
    lines = records.read_text().splitlines()
    age = lines[1].split(",", 1)[0]
    for path in (records, made.small_federation.table):
        text = path.read_text()
        assert age in text
        path.write_text(text.replace(age, repr(MARK), 1))
    with made:
        yield made


def simulated(place: Any, **changes: Any) -> np.ndarray:
    return train(place.small_federation.simulation(**changes)).models[0]


def released(place: Any, run: str) -> dict[str, int]:
    """How many releases each owner's ledger has for a run; every ledger must be in order."""
    found = {}
    for name in place.owners:
        ledger = place.small_federation.ledger(name)
        assert verify(ledger) == []
        found[name] = sum(ledger.runs()[run].spent.values())
        ledger.close()
    return found


def test_a_star_of_processes_equals_the_simulation(place: Any) -> None:
    folder = place.prepare("star", algorithm="pvp", rounds=12)
    assert place.run(folder)["state"] == "finished"
    model = Model.load(folder.path)
    assert np.array_equal(model.coefficients, simulated(place, algorithm="pvp", rounds=12))
    assert released(place, "star") == dict.fromkeys(place.owners, 12)
    result = json.loads((folder.path / "result.json").read_text())
    assert result["simulated"] is True
    assert "dry_run" in result["warnings"][0]
    labels, _ = model.predict(place.small_federation.table)
    assert set(labels) <= {"no", "yes"}
    assert len((folder.path / "history.csv").read_text().splitlines()) == 13


def test_a_ring_of_processes_equals_the_simulation(place: Any) -> None:
    folder = place.prepare("ring", **RING)
    assert place.run(folder)["state"] == "finished"
    assert np.array_equal(Model.load(folder.path).coefficients, simulated(place, **RING))
    assert released(place, "ring") == dict.fromkeys(place.owners, 6)


def test_all_owners_are_seen_to_be_connected(place: Any) -> None:
    assert set(connected(place.federation) or ()) == set(place.owners)


def test_a_coordinator_that_asks_for_more_gets_nothing_more(place: Any, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(EVIL)
    place.kill("server")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    place.start("server", {"PYTHONPATH": os.pathsep.join(paths)})
    folder = place.prepare("evil")
    found = place.run(folder)
    assert found["state"] == "finished", found
    said = [line for line in (folder.path / "events.txt").read_text().splitlines() if "EVIL" in line]
    assert len(said) == 6 * 6 * 3  # demands, rounds, owners
    later = [line for line in said if "one more round" not in line and "a later round" not in line]
    assert all("'refused'" in line for line in said), [line for line in said if "'refused'" not in line][:3]
    assert len(later) == 4 * 6 * 3
    assert released(place, "evil") == dict.fromkeys(place.owners, 6)
    assert np.array_equal(Model.load(folder.path).coefficients, simulated(place))
    for name in place.owners:
        reasons = {event.get("reason") for event in place.site(name).events(10**6) if event["kind"] == "refused"}
        assert any("other terms" in str(reason) for reason in reasons)
        assert any("other inputs" in str(reason) for reason in reasons)
        assert any("no such step" in str(reason) for reason in reasons)


def test_terms_that_wait_for_the_owners_word_cost_nothing_and_release_nothing(place: Any) -> None:
    policy = place.small_federation.policy("birke")
    before = policy.read_text()
    policy.write_text(before + 'approval = "hand"\n')
    folder = place.prepare("patient")
    seen: list[str] = []

    def watch(status: dict[str, Any]) -> None:
        seen.append(status["state"])
        if status["state"] == "waiting" and "patient" not in place.small_federation.ledger("birke").runs():
            (digest, told) = next(iter(place.site("birke").waiting().items()))
            assert told["run"] == "patient"
            assert "epsilon" in told["sentence"]
            place.site("birke").decide(digest[:10], yes=True)

    try:
        assert place.run(folder, watch=watch)["state"] == "finished"
    finally:
        policy.write_text(before)
    assert "waiting" in seen
    assert released(place, "patient") == dict.fromkeys(place.owners, 6)


def test_nothing_private_is_written_down_but_in_ledgers(place: Any) -> None:
    """All logs, jobs, run folders and kits; after all the runs above."""
    key = (place.kit("ahorn") / "startup" / "client.key").read_bytes().splitlines()[3]
    ledger = place.small_federation.ledger("ahorn")
    secrets = {
        "a record, as text": repr(MARK).encode(),
        "a record, as a number": np.float64(MARK).tobytes(),
        "a record, encoded": np.float64(MARK / 100.0).tobytes(),
        "a password": b"planted-password-4711",
        "the ledger's key": ledger.meta["key"].encode(),
        "the ledger's key, as bytes": bytes.fromhex(ledger.meta["key"]),
        "a private key": key,
    } | {f"an iterate without noise, {i}": value.tobytes() for i, value in enumerate(first_iterates(place))}
    ledger.close()
    looked = 0
    for root in (place.federation.folder, *(place.small_federation.home / name / "agent" for name in place.owners)):
        for path in sorted(root.rglob("*")):
            if not path.is_file() or path.suffix == ".key":
                continue
            content = path.read_bytes()
            looked += 1
            for what, secret in secrets.items():
                assert secret not in content, f"{what} is in {path}"
    assert looked > 50


def first_iterates(place: Any) -> np.ndarray:
    """What Ahorn's solver found in round one of the star, before its noise."""
    given = place.small_federation.simulation()
    terms = replace(given.run, algorithm="admm", rounds=1, epsilon=None, delta=None)
    prepared = prepare(replace(given, run=terms))
    cohort = Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(7))
    (state,) = rounds(cohort, SimulationState.of(cohort), InProcessExecutor())
    return state.agents.released[0]
