"""The long tests of a federation, `make federation-test`: kills, absences, thirty owners, a slow and lossy network."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dpadmm.engine.output.model import Model
from dpadmm.engine.run import train
from dpadmm.privacy.ledger.verify import verify

pytestmark = pytest.mark.skipif("DPADMM_FEDERATION" not in os.environ, reason="takes minutes: make federation-test")

RING = {"algorithm": "private-r-admm", "topology": "ring:3"}


def released(town: Any, name: str, run: str) -> int:
    """How many releases of a run an owner's ledger has; 0 before there is one."""
    if not town.small_federation.ledger_path(name).exists():
        return 0
    ledger = town.small_federation.ledger(name)
    try:
        known = ledger.runs().get(run)
        return 0 if known is None else sum(known.spent.values())
    finally:
        ledger.close()


def checked_steps(town: Any, name: str, run: str) -> list[int]:
    """The rounds that an owner has paid for; its ledger must be in order."""
    ledger = town.small_federation.ledger(name)
    assert verify(ledger) == []
    ledger.close()
    return sorted(map(int, town.small_federation.steps(name, run)))


def equals_simulation(town: Any, folder: Any, **changes: Any) -> bool:
    undisturbed = train(town.small_federation.simulation(**changes)).models[0]
    return bool(np.array_equal(Model.load(folder.path).coefficients, undisturbed))


class Killer(threading.Thread):
    """Kills parties when Ahorn has released so many rounds, and starts them again a moment later."""

    def __init__(self, town: Any, run: str, kills: list[tuple[int, str]], rest: float = 1.0) -> None:
        super().__init__(daemon=True)
        self.town, self.name_of_run, self.kills, self.rest = town, run, kills, rest
        self.done: list[tuple[int, str]] = []

    def run(self) -> None:
        for round, who in self.kills:
            while released(self.town, "ahorn", self.name_of_run) < round:
                time.sleep(0.01)
            self.town.kill(who)
            time.sleep(self.rest)
            self.town.start(who)
            self.done.append((round, who))


@pytest.mark.parametrize("changes", [{}, {"algorithm": "pvp"}, RING], ids=["dp-admm", "pvp", "ring"])
def test_owners_and_coordinator_killed_twice_each_in_one_run(
    process_federation: ModuleType, tmp_path: Path, changes: dict[str, Any]
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    draw = random.Random(seed)
    when = sorted(draw.sample(range(2, 29), 4))
    owners = [draw.choice(("ahorn", "birke", "eiche")) for _ in range(2)]
    parties = draw.sample([*owners, "coordinator", "coordinator"], 4)
    with process_federation.ProcessFederation(tmp_path) as town:
        folder = town.prepare("torture", **changes, rounds=30, timeout=5.0)
        killer = Killer(town, "torture", list(zip(when, parties, strict=True)))
        killer.start()
        status = town.run(folder, limit=150.0)
        killer.join(60.0)
    assert status["state"] == "finished", (seed, status)
    assert len(killer.done) == 4, (seed, killer.done)
    for name in town.owners:
        assert checked_steps(town, name, "torture") == list(range(1, 31))  # each round once
    assert equals_simulation(town, folder, **changes, rounds=30), seed


@pytest.mark.parametrize("stragglers", ["reuse", "skip"])
def test_a_run_goes_on_without_an_owner_and_takes_it_in_again(
    process_federation: ModuleType, tmp_path: Path, stragglers: str
) -> None:
    rounds = 1500  # a fast machine has done hundreds before a process that was killed is back
    with process_federation.ProcessFederation(tmp_path) as town:
        folder = town.prepare("absent", rounds=rounds, timeout=2.0, stragglers=stragglers)
        Killer(town, "absent", [(20, "birke")], rest=0.5).start()
        status = town.run(folder, limit=400.0)
    assert status["state"] == "finished"
    missed = json.loads((folder.path / "result.json").read_text())["missed_rounds"]
    assert list(missed) == ["birke"]
    assert 20 <= missed["birke"][0] <= 60
    assert len(missed["birke"]) < rounds - 40, "it was not taken in again"
    for name in town.owners:
        steps = checked_steps(town, name, "absent")
        sent = {k for k in range(1, rounds + 1) if k not in missed.get(name, ())}
        assert len(steps) == len(set(steps))
        assert sent <= set(steps)
        # A crash can lose an answer, never a debit: the round in which it was killed may be paid for and not sent.
        assert set(steps) - sent <= set(missed.get(name, [])[:1])
    table = (folder.path / "history.csv").read_text().splitlines()
    column = table[0].split(",").index("absent")
    assert sum(float(line.split(",")[column]) for line in table[1:]) == len(missed["birke"])


def test_thirty_owners_as_processes_finish_a_hundred_rounds(process_federation: ModuleType, tmp_path: Path) -> None:
    names = tuple(f"owner-{number:02}" for number in range(30))
    with process_federation.ProcessFederation(tmp_path, owners=names, counts=(50,) * 30) as town:
        process_federation.until(lambda: town.present() == set(names), 300.0)
        folder = town.prepare("thirty", rounds=100, owners=list(names), timeout=120.0)
        began = time.monotonic()
        status = town.run(folder, limit=300.0)
        print(f"thirty owners, 100 rounds: {time.monotonic() - began:.1f} s")
    assert status["state"] == "finished", status
    assert {released(town, name, "thirty") for name in names} == {100}
    assert equals_simulation(town, folder, rounds=100)


def test_the_demonstration_takes_less_than_two_minutes() -> None:
    """Its owners make their own keys, and PostgreSQL is behind one of them."""
    script = Path(__file__).parents[3] / "demos" / "federation.py"
    began = time.monotonic()
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - began < 120.0
    for name in ("companies", "self-employed", "state"):
        assert f"{name}: epsilon 1 of 2" in done.stdout
    if "no PostgreSQL here" in done.stdout:
        pytest.skip("the demonstration did without PostgreSQL, which is not here")
    assert "only-for-this-demo" not in done.stdout + done.stderr


# -- a network between hosts -------------------------------------------------------------------------------------------


@pytest.fixture
def two_hosts(network: ModuleType) -> Iterator[tuple[str, str]]:
    """100 ms apart, with 5 % of all packets lost."""
    try:
        with network.two_hosts(delay=0.1, loss=0.05) as names:
            yield names
    except network.Unavailable as reason:
        pytest.skip(str(reason))


def test_a_slow_and_lossy_network(
    process_federation: ModuleType, network: ModuleType, tmp_path: Path, two_hosts: tuple[str, str]
) -> None:
    coordinator, owners = two_hosts
    town = process_federation.ProcessFederation(tmp_path, host=network.ADDRESSES[0])
    town.networks = {"coordinator": coordinator, **dict.fromkeys(town.owners, owners)}
    with town:
        folder = town.prepare("far", rounds=20, timeout=60.0)
        status = town.run(folder, limit=200.0)
    assert status["state"] == "finished", status
    assert equals_simulation(town, folder, rounds=20)
    assert json.loads((folder.path / "result.json").read_text())["seconds"] > 20 * 0.2  # there and back
