"""Kill -9 at any moment, and races for the last of a budget; with real ledger files and full synchronous writes.

30 kills and 20 races here; 300 and 200 with DPADMM_TORTURE=1 (`make torture`).
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ledgers import amount

from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify

TORTURE = os.environ.get("DPADMM_TORTURE") == "1"
KILLS = 300 if TORTURE else 30
RACES = 200 if TORTURE else 20
ROUNDS = 40


class Zygote:
    """The warm process (see zygote.py), from outside."""

    def __init__(self) -> None:
        environment = os.environ | {"NUMBA_THREADING_LAYER": "workqueue", "NUMBA_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self._read() == "warm"

    def start(self, name: str, *children: list[Any]) -> list[int]:
        """Forks children; their process numbers."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name, *children]) + "\n")
        self._process.stdin.flush()
        return list(json.loads(self._read()))

    def end(self) -> list[int]:
        """Waits for them; 0 for a good end, -9 for a kill."""
        return [os.waitstatus_to_exitcode(status) for status in json.loads(self._read())]

    def run(self, name: str, *children: list[Any]) -> list[int]:
        self.start(name, *children)
        return self.end()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=30)

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.close()


def sent(out: Path) -> dict[int, str]:
    """What left, by round; the same round must never have left in two versions."""
    found: dict[int, str] = {}
    for line in out.read_text().splitlines() if out.exists() else []:
        number, mark = line.split()
        assert found.setdefault(int(number), mark) == mark, f"round {number} left twice, differently"
    return found


def check(path: Path, out: Path) -> tuple[int, int]:
    """After a crash: the chain holds and nothing left that is not counted. How many were spent, and how many left."""
    if not path.exists():
        assert not sent(out)
        return 0, 0
    ledger = SqliteLedger.open(path)
    assert verify(ledger) == []
    assert not ledger.locked
    spent, left = sum(ledger.spent().values()), len(sent(out))
    assert left <= spent <= left + 1  # one may have been written down and not sent, as the order demands
    ledger.close()
    return spent, left


def test_kill_at_any_moment(zygote: Zygote, tmp_path: Path) -> None:
    """Restarted until the run ends, again and again, until enough processes were killed."""
    choose = random.Random(os.urandom(8).hex())
    kills, runs, ahead = 0, 0, 0
    while kills < KILLS:
        path, out = tmp_path / f"{runs}.ledger", tmp_path / f"{runs}.sent"
        algorithm = ("dp-admm", "pvp")[runs % 2]
        before: dict[int, str] = {}
        while True:
            (number,) = zygote.start("play", [str(path), str(out), algorithm, ROUNDS])
            if kills < KILLS:  # else let the last one come to its end
                time.sleep(choose.uniform(0.0, 0.4))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            (code,) = zygote.end()
            assert code in (0, -signal.SIGKILL)
            spent, left = check(path, out)
            ahead += spent > left
            now = sent(out)
            assert now.items() >= before.items()
            before = now
            if code == 0:
                break
            kills += 1
        assert (spent, sorted(before)) == (ROUNDS, list(range(1, ROUNDS + 1)))
        assert not path.with_name(f"{path.name}-journal").exists()
        ledger = SqliteLedger.open(path)
        ledger.finish("run")
        assert verify(ledger) == []
        ledger.close()
        runs += 1
    print(f"{kills} kills in {runs} runs; {ahead} times a release was written and not yet sent")


@pytest.mark.parametrize("algorithm", ["dp-admm", "pvp"])
def test_a_crash_before_every_single_statement(zygote: Zygote, tmp_path: Path, algorithm: str) -> None:
    """Round k crashes before the k-th statement of its answer; then it is asked again."""
    path, out = tmp_path / "patients.ledger", tmp_path / "sent"
    codes, spents = [], []
    for round in range(1, 41):
        (code,) = zygote.run("play", [str(path), str(out), algorithm, 40, round, round, round])
        spent, left = check(path, out)
        codes.append(code)
        spents.append(spent - round + 1)
        assert left == round - (code != 0)
        (again,) = zygote.run("play", [str(path), str(out), algorithm, 40, 0, round, round])
        assert again == 0
        assert check(path, out) == (round, round)
    crashes = codes.index(0)
    assert codes == [7] * crashes + [0] * (40 - crashes)
    assert crashes >= 10  # lock, find, position, balance, budget, entry, release, state, commit: all were met
    # Never counted before the commit; the crash after it is the case that a restart must answer from the ledger.
    assert spents == sorted(spents)
    assert spents[0] == 0
    assert spents[-1] == 1


@pytest.mark.parametrize("kind", ["join", "step"])
def test_two_processes_race_for_the_last_of_a_budget(
    sample: ModuleType, zygote: Zygote, tmp_path: Path, kind: str
) -> None:
    winners = []
    for number in range(RACES):
        path, out = tmp_path / f"{number}.ledger", tmp_path / f"{number}.won"
        sample.ledger(path).close()
        assert zygote.run(kind, [str(path), str(out), "first"], [str(path), str(out), "second"]) == [0, 0]
        won = out.read_text().split()
        assert len(won) == 1
        winners += won
        ledger = SqliteLedger.open(path)
        assert verify(ledger) == []
        assert amount(ledger, held=True) <= 2.5
        runs = ledger.runs()
        if kind == "join":
            assert list(runs) == won
        else:
            assert len(runs) == 2
            assert [name for name, run in runs.items() if run.spent] == won
        ledger.close()
    if TORTURE:
        assert len(set(winners)) == 2  # it was a race


def test_two_processes_race_to_make_a_ledger(zygote: Zygote, tmp_path: Path) -> None:
    for number in range(RACES):
        path, out = tmp_path / f"{number}.ledger", tmp_path / f"{number}.won"
        assert zygote.run("create", [str(path), str(out), "first"], [str(path), str(out), "second"]) == [0, 0]
        won = out.read_text().split()
        assert len(won) == 1
        assert list(SqliteLedger.open(path).runs()) == won  # the loser did not remove what the winner had made
    assert not [found for found in tmp_path.iterdir() if found.name.startswith(".")]


def test_two_processes_answering_the_same_steps_give_the_same_bytes(
    sample: ModuleType, zygote: Zygote, tmp_path: Path
) -> None:
    for number in range(20 if TORTURE else 3):
        path = tmp_path / f"{number}.ledger"
        sample.ledger(path).close()
        outs = [tmp_path / f"{number}.{side}" for side in "ab"]
        assert zygote.run("together", *([str(path), str(out), 20] for out in outs)) == [0, 0]
        assert sent(outs[0]) == sent(outs[1])
        assert sorted(sent(outs[0])) == list(range(1, 21))
        ledger = SqliteLedger.open(path)
        assert sum(ledger.spent().values()) == 20
        assert verify(ledger) == []
