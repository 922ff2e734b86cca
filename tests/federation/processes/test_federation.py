"""Real processes on loopback with mutual TLS: what they come to is what a simulation comes to, bit for bit; what a
coordinator may not ask is refused; nothing private is written down anywhere, and nothing foreign runs at an owner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import psutil
import pytest

from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.output.model import Model
from dpadmm.engine.prepare import prepare
from dpadmm.engine.run import train
from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.privacy.ledger.verify import verify
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec.toml import dumps

RING = {"algorithm": "private-r-admm", "topology": "ring:3"}

# A coordinator that asks, in every round, for what it was not promised.
EVIL = """
import os

if os.environ.get("DPADMM_EVIL"):
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
            "other inputs": {**good, "step": standing.round + 1, "inputs": to_bytes(standing.shared.server.common + 1)},
            "an evaluation": {**good, "step": "evaluation"},
            "another run": {**good, "run": "other", "step": 1},
        }
        for what, call in asked.items():
            for name, reply in self._owners.call("answer_step", {name: call for name in agreement.owners}).items():
                self.folder.note(f"EVIL {what}: {name}: {reply}")
        return found

    target.Coordinator._collect = evil
"""
# What an agent's process has imported, where somebody asks by SIGUSR1.
LOOK = """
import os

if os.environ.get("DPADMM_LOOK"):
    import json, signal, sys

    def look(*_):
        with open(os.environ["DPADMM_LOOK"], "w") as file:
            json.dump(sorted({name.split(".")[0] for name in sys.modules}), file)

    signal.signal(signal.SIGUSR1, look)
"""


@pytest.fixture(scope="module")
def place(process_federation: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A town in which one of Ahorn's patients can be recognised, and a password is in everybody's environment."""
    home = tmp_path_factory.mktemp("town")
    (home / "code").mkdir()
    (home / "code" / "sitecustomize.py").write_text(EVIL + LOOK)
    paths = [str(home / "code"), *filter(None, [os.environ.get("PYTHONPATH")])]
    surroundings = {
        "DPADMM_DATABASE_PASSWORD": "planted-password-4711",
        "PYTHONPATH": os.pathsep.join(paths),
        "DPADMM_LOOK": str(home / "modules.json"),
    }
    made = process_federation.ProcessFederation(home, environment=surroundings)
    first = (home / "ahorn" / "records.csv").read_text().splitlines()[1]
    made.age = first.split(",", 1)[0]  # of one of Ahorn's patients, with as many digits as nobody else's
    assert len(made.age) > 12
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
    assert place.present() == set(place.owners)


def test_an_agent_listens_nowhere_starts_nothing_and_has_imported_no_flare(
    process_federation: ModuleType, place: Any
) -> None:
    """In the middle of its life, after runs: rows 1 and 3 of what took over 0.1.0 have nothing to address."""
    for name in place.owners:
        agent = psutil.Process(place.processes[name].pid)
        assert agent.children(recursive=True) == []
        kinds = {(each.status, each.raddr.port if each.raddr else 0) for each in agent.net_connections("all")
                 if each.status != psutil.CONN_NONE}  # fmt: skip
        assert kinds == {(psutil.CONN_ESTABLISHED, place.federation.port)}
        found = place.small_federation.home / "modules.json"
        found.unlink(missing_ok=True)
        agent.send_signal(signal.SIGUSR1)
        process_federation.until(lambda path=found: path.exists() and path.read_text().endswith("]"))
        modules = json.loads(found.read_text())
        assert "grpc" in modules
        assert "nvflare" not in modules


def test_a_coordinator_that_asks_for_more_gets_nothing_more(process_federation: ModuleType, place: Any) -> None:
    place.kill("coordinator")
    place.start("coordinator", {"DPADMM_EVIL": "yes"})
    process_federation.until(lambda: place.present() == set(place.owners))
    folder = place.prepare("evil")
    found = place.run(folder)
    assert found["state"] == "finished", found
    said = [line for line in (folder.path / "events.txt").read_text().splitlines() if "EVIL" in line]
    assert len(said) == 6 * 6 * 3  # demands, rounds, owners
    assert all("'refused'" in line for line in said), [line for line in said if "'refused'" not in line][:3]
    assert released(place, "evil") == dict.fromkeys(place.owners, 6)
    assert np.array_equal(Model.load(folder.path).coefficients, simulated(place))
    for name in place.owners:
        events = place.small_federation.owner(name).events(10**6)
        reasons = {event.get("reason") for event in events if event["kind"] == "refused"}
        assert any("other terms" in str(reason) for reason in reasons)
        assert any("other inputs" in str(reason) for reason in reasons)
        assert any("no such step" in str(reason) for reason in reasons)


def test_a_run_goes_on_after_submit_and_the_coordinator_were_killed(
    process_federation: ModuleType, place: Any, tmp_path: Path
) -> None:
    rounds = 800  # so that both are killed in the middle of it
    spec = tmp_path / "killed.toml"
    spec.write_text(dumps(place.small_federation.experiment(rounds=rounds, timeout=30.0)))
    words = [*process_federation.COMMAND, "submit", str(spec), "--federation", str(place.federation.folder), "--quiet"]
    submitting = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = RunFolder(place.federation.runs / "killed")

    def round() -> int:
        known = (folder.path / "status.json").exists()
        return (folder.status().get("round") or 0) if known else 0

    process_federation.until(lambda: round() >= 20)
    submitting.kill()
    assert submitting.wait() == -signal.SIGKILL
    then = round()
    process_federation.until(lambda: round() > then)
    place.kill("coordinator")
    assert round() < rounds
    place.start("coordinator")
    assert place.run(folder)["state"] == "finished"
    assert np.array_equal(Model.load(folder.path).coefficients, simulated(place, rounds=rounds))
    assert released(place, "killed") == dict.fromkeys(place.owners, rounds)


def test_an_owner_whose_card_is_removed_is_cut_off_and_one_that_is_added_again_is_back(
    process_federation: ModuleType, place: Any
) -> None:
    card = place.federation.remove("eiche")
    process_federation.until(lambda: place.present() == {"ahorn", "birke"}, 10.0)
    place.federation.add(card)
    process_federation.until(lambda: place.present() == set(place.owners))


def test_nothing_private_is_written_down_but_in_ledgers(place: Any) -> None:
    """All logs, run folders and the coordinator's keys; after all the runs above."""
    home = place.small_federation.home
    keys = [path.read_bytes() for path in (home / "ahorn" / "state").rglob("keys.json")]
    assert len(keys) == 1
    ledger = place.small_federation.ledger("ahorn")
    key = ledger.record.key()
    secrets = {
        "a record, as text": place.age.encode(),
        "a record, as a number": np.float64(place.age).tobytes(),
        "a record, encoded": np.float64(float(place.age) / 100.0).tobytes(),
        "a password": b"planted-password-4711",
        "the ledger's key": key.hex().encode(),
        "the ledger's key, as bytes": key,
    } | {f"an iterate without noise, {i}": value.tobytes() for i, value in enumerate(first_iterates(place))}
    for number, private in enumerate(_private_parts(json.loads(keys[0]))):
        secrets[f"a private key, {number}"] = private.encode()
    ledger.close()
    looked = 0
    roots = (place.federation.folder, *(home / name / "state" / "agents" for name in place.owners))
    for path in (*(path for root in roots for path in sorted(root.rglob("*"))), *home.glob("*.log")):
        if not path.is_file() or path.name == "keys.json":
            continue
        content = path.read_bytes()
        looked += 1
        for what, secret in secrets.items():
            assert secret not in content, f"{what} is in {path}"
    assert looked > 30


def _private_parts(keys: Any) -> list[str]:
    """Lines of private keys, as they would show in any file that held one."""
    texts = [value for name, value in keys.items() if name != "card" and isinstance(value, str)]
    return [line for text in texts for line in text.splitlines() if len(line) > 20 and "-----" not in line]


def first_iterates(place: Any) -> np.ndarray:
    """What Ahorn's solver found in round one of the star, before its noise."""
    given = place.small_federation.simulation()
    terms = replace(given.run, algorithm="admm", rounds=1, epsilon=None, delta=None)
    prepared = prepare(replace(given, run=terms))
    cohort = Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(7))
    (state,) = rounds(cohort, SimulationState.of(cohort), InProcessExecutor())
    return state.agents.released[0]


def test_no_key_of_an_owner_is_below_the_coordinators_folder(place: Any) -> None:
    found = [path for path in place.federation.folder.rglob("*") if path.is_file()]
    holding = [
        path.relative_to(place.federation.folder).as_posix() for path in found if b"PRIVATE" in path.read_bytes()
    ]
    assert holding in ([], ["keys/keys.json"])
