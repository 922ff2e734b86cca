"""An owner in miniature: records, a policy, terms, and noise that can be repeated although it does not say so.

Imported by the zygote of `test_torture` as a plain module, by the tests also through the fixture `sample`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpadmm.admm.solvers.base import Randomness
from dpadmm.errors import Refused
from dpadmm.owner.agent import Agent
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.owner.request import Request
from dpadmm.privacy.events import Relation
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify
from dpadmm.problems.array_files import ArrayBlocks
from dpadmm.problems.losses import Logistic
from dpadmm.problems.shards import Shards, gather
from dpadmm.problems.stored_shards import StoredShards, gather_blocks
from dpadmm.release.random_bits import SeededRandomness, Stream, SystemRandomness
from dpadmm.spec.declare import RunSpec

RECORDS, WIDTH, ROUNDS = 60, 3, 6
PRIVATE = ["dp-admm", "pvp", "dvp"]
LOCAL = ["obj-g", "obj-l", "out-g", "out-l"]  # several updates a round, the server first
GOOD = np.zeros((1, WIDTH))  # inputs in the right form


@dataclass(frozen=True)
class Repeatable:
    """A test double: an agent takes it for the system's randomness, a test can ask for the same bits again."""

    seed: int = 0
    simulated: bool = False

    def stream(self, runs: Any, agents: Any, round: int, purpose: str) -> Stream:
        return SeededRandomness(self.seed).stream(runs, agents, round, purpose)

    def bits(self, round: int) -> Callable[[str], Stream]:
        """Those of a round of the first agent."""
        return lambda purpose: self.stream(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), round, purpose)


def shards(records: int = RECORDS, width: int = WIDTH, seed: int = 0, bound: float = 1.0) -> Shards:
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(records, width))
    targets = np.where(features @ np.arange(1, width + 1) + draw.normal(size=records) > 0, 1.0, -1.0)
    owner = np.zeros(records, dtype=np.int64)
    return gather(features, targets, owner, norm_bound=bound, names=["owner"])


def in_files(folder: Path, records: Shards) -> StoredShards:
    """The same records, kept in files."""
    folder.mkdir(exist_ok=True)
    np.save(folder / "a.npy", records.real_rows)
    np.save(folder / "a.targets.npy", (records.targets > 0).astype(np.uint8))
    source = ArrayBlocks.of(folder / "a.npy", folder / "a.targets.npy", 2)
    return gather_blocks([source], partial(Logistic().encode, classes=2), norm_bound=1.0, names=["owner"])


def policy(**changes: Any) -> Policy:
    return replace(Policy(dataset="patients", epsilon=4.0, delta=1e-6, smallest_count=10), **changes)


def agreement(
    algorithm: str = "dp-admm",
    stragglers: str = "wait",
    records_per_person: int = 1,
    counts: Any = None,
    **changes: Any,
) -> Agreement:
    """Terms for two agents, the first of which is the owner."""
    terms: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6, "rounds": ROUNDS, "strength": 1e-3}
    run = RunSpec(algorithm=algorithm, **(terms | changes))
    return Agreement(run, counts or (RECORDS, 50), WIDTH, 2, stragglers, records_per_person)


def ledger(path: Path, fast: bool = True) -> SqliteLedger:
    """The owner's ledger, made or opened. `fast` does not wait for the disk, which only a power cut would notice."""
    made = (
        SqliteLedger.open(path) if path.exists() else SqliteLedger.create(path, "patients", "d" * 64, Relation.REPLACE)
    )
    if fast:
        made._connection.execute("PRAGMA synchronous = OFF")
    return made


def agent(
    path: Path,
    given: Policy | None = None,
    randomness: Randomness | None = None,
    records: Shards | None = None,
    persons: Sequence[Any] | None = None,
    fast: bool = True,
) -> Agent:
    """A fresh process's agent over the ledger at `path`."""
    return Agent(
        records or shards(),
        given or policy(),
        ledger(path, fast),
        randomness or SystemRandomness(),
        members=(0,),
        persons=persons,
    )


def inputs(round: int) -> np.ndarray:
    """What a coordinator broadcasts before a round; zeros before the first."""
    return np.random.default_rng(round).normal(size=(1, WIDTH)) * (round > 1)


def request(terms: Agreement, step: int | str, run: str = "run", **changes: Any) -> Request:
    given = inputs(step) if isinstance(step, int) else np.full((1, WIDTH), 0.5)
    return replace(Request(run, terms.digest, step, given), **changes)


def several(algorithm: str) -> dict[str, Any]:
    """Three updates a round, where an algorithm has them, and a penalty that grows."""
    return {"updates": 3, "rho_schedule": "growing:0.3:0.1:2"} if algorithm in LOCAL else {}


def play(agent: Agent, terms: Any, rounds: range, run: str = "run") -> list[np.ndarray]:
    """An agent joins a run and answers these rounds; the values of its releases."""
    agent.join(run, terms)
    return [agent.answer(request(terms, round, run)).value for round in rounds]


@contextmanager
def refused(agent: Agent, reason: str) -> Iterator[None]:
    """What happens inside is refused for this reason; nothing is spent, nothing added to the chain, and it is noted."""
    ledger: Any = agent.ledger
    before = (ledger.spent(), ledger.committed(), len([*ledger.entries()]))
    noted = sum(times for _, times, _ in ledger.refusals())
    with pytest.raises(Refused, match=reason):
        yield
    assert (ledger.spent(), ledger.committed(), len([*ledger.entries()])) == before
    assert sum(times for _, times, _ in ledger.refusals()) == noted + 1
    assert verify(ledger) == []
