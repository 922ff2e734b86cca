"""Which requests an agent answers, which it refuses, and that a refusal tells nothing about the records."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from owners import GOOD, play, refused

from dpadmm.errors import Refused
from dpadmm.owner.agent import Agent
from dpadmm.owner.request import Request
from dpadmm.privacy.ledger.verify import verify
from dpadmm.problems.shards import gather

NONSENSE = [
    ({"digest": "0" * 64}, "other terms"),
    ({"digest": None}, "other terms"),
    ({"digest": np.array(["a", "b"])}, "other terms"),
    ({"run": "another"}, "was not joined"),
    ({"run": None}, "not a request"),
    ({"step": 2}, "round 1 is next, not 2"),
    ({"step": 0}, "no such step"),
    ({"step": -1}, "no such step"),
    ({"step": 7}, "no such step"),
    ({"step": True}, "no such step"),
    ({"step": 1.0}, "no such step"),
    ({"step": np.int64(1)}, "no such step"),
    ({"step": "1"}, "no such step"),
    ({"step": "setup"}, "no such step"),
    ({"step": None}, "no such step"),
    ({"step": "evaluation"}, "no evaluation"),
    ({"inputs": np.full((1, 3), np.nan)}, "finite"),
    ({"inputs": np.array([[0.0, 0.0, np.inf]])}, "finite"),
    ({"inputs": np.array([[0.0, -np.inf, 0.0]])}, "finite"),
    ({"inputs": np.full((1, 3), 1.1e9)}, "finite and at most 1e.09"),
    ({"inputs": np.zeros(3)}, "shape"),
    ({"inputs": np.zeros((2, 3))}, "shape"),
    ({"inputs": np.zeros((1, 4))}, "shape"),
    ({"inputs": np.zeros((1, 3), dtype=np.float32)}, "float64"),
    ({"inputs": np.zeros((1, 3), dtype=np.int64)}, "float64"),
    ({"inputs": np.zeros((1, 3), dtype=">f8")}, "float64"),
    ({"inputs": np.zeros((1, 3), dtype=object)}, "float64"),
    ({"inputs": [[0.0, 0.0, 0.0]]}, "float64"),
    ({"inputs": None}, "float64"),
    ({"inputs": np.ma.masked_array(GOOD)}, "float64"),
    ({"missed_inputs": {0: GOOD}}, "needs the inputs of all rounds in between"),
    ({"step": 2, "missed_inputs": {1: GOOD}}, "do not allow an owner to miss rounds"),
    ({"missed_inputs": {"0": GOOD}}, "right before this one"),
    ({"missed_inputs": None}, "inputs by round"),
    ({"missed_inputs": [GOOD]}, "inputs by round"),
    ({"seen": "seal"}, "malformed seal"),
]


@pytest.mark.parametrize(("changes", "reason"), NONSENSE)
def test_requests_that_make_no_sense_are_refused(
    sample: ModuleType, path: Path, changes: dict[str, Any], reason: str
) -> None:
    agent = sample.agent(path)
    terms = sample.agreement()
    agent.join("run", terms)
    with refused(agent, reason):
        agent.answer(replace(sample.request(terms, 1), **changes))
    agent.answer(sample.request(terms, 1))  # the run is none the worse for it
    assert sum(agent.ledger.spent().values()) == 1


def test_what_is_no_request_at_all_is_refused(sample: ModuleType, path: Path) -> None:
    agent = sample.agent(path)
    for nonsense in (None, {}, "request", 3):
        with refused(agent, "not a request"):
            agent.answer(nonsense)
        with refused(agent, "agreed terms"):
            agent.join("run", nonsense)


def test_rounds_come_in_order(sample: ModuleType, path: Path) -> None:
    agent, terms = sample.agent(path), sample.agreement()
    play(agent, terms, range(1, 4))
    with refused(agent, "round 4 is next, not 5"):
        agent.answer(sample.request(terms, 5))
    with refused(agent, "round 4 is next, not 6"):
        agent.answer(sample.request(terms, 6, missed_inputs={}))


@pytest.mark.parametrize("algorithm", ["dpsgd", "dp-admm", "obj-g", "out-l"])
def test_large_inputs_get_numbers_or_a_refusal(sample: ModuleType, path: Path, algorithm: str) -> None:
    agent, terms = sample.agent(path), sample.agreement(algorithm)
    agent.join("run", terms)
    for round in (1, 2, 3):
        asked = sample.request(terms, round, inputs=np.array([[1e9, -1e9, 1e9]]))
        try:
            assert np.isfinite(agent.answer(asked).value).all()
        except Refused:
            return


def test_whether_a_release_is_a_number_does_not_depend_on_the_records(sample: ModuleType, path: Path) -> None:
    """Two neighbours, one with a zero in a record where the model is huge: no epsilon covers that."""
    found = []
    for number, special in enumerate((0.5, 0.0)):
        plain = sample.shards()
        rows = np.where(plain.real_rows == 0.0, 0.1, plain.real_rows)
        rows[7] = [special, 0.1, 0.1]
        records = gather(rows, plain.targets, np.zeros(60, dtype=int), norm_bound=1.0)
        agent = sample.agent(path.with_name(str(number)), records=records)
        terms = sample.agreement("dpsgd")
        agent.join("run", terms)
        try:
            release = agent.answer(sample.request(terms, 1, inputs=np.array([[1e9, 0.0, 0.0]])))
            found.append(bool(np.isfinite(release.value).all()))
        except Refused:
            found.append(None)
    assert found[0] == found[1]


@pytest.mark.parametrize("trouble", ["disk full", "read-only"])
def test_a_ledger_that_cannot_be_written_releases_nothing(sample: ModuleType, path: Path, trouble: str) -> None:
    agent, terms = sample.agent(path), sample.agreement("pvp", rounds=60)
    values = play(agent, terms, range(1, 3))
    connection = agent.ledger._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if trouble == "disk full":  # the last pages still take a few rounds
        connection.execute(f"PRAGMA max_page_count = {pages}")
        reason = ""
        while not reason:
            reason = _outcome(agent, sample.request(terms, len(values) + 1)).replace("answered", "")
            values += [] if reason else [agent.answer(sample.request(terms, len(values) + 1)).value]
        assert "cannot be written (database or disk is full); nothing was released" in reason
    else:
        connection.execute("PRAGMA query_only = 1")
        with pytest.raises(Refused, match=r"cannot be written \(attempt to write a readonly database\); nothing"):
            agent.answer(sample.request(terms, 3))
    again = sample.ledger(path)
    assert sum(again.spent().values()) == len(values) < 60
    assert verify(again) == []
    assert again.find("run", str(len(values) + 1)) is None
    assert agent.answer(sample.request(terms, 1)).value.tobytes() == values[0].tobytes()
    connection.execute("PRAGMA query_only = 0")
    connection.execute("PRAGMA max_page_count = 100000")
    agent.answer(sample.request(terms, len(values) + 1))  # and when there is room again, it goes on
    assert sum(sample.ledger(path).spent().values()) == len(values) + 1


def test_a_seal_of_the_same_ledger_is_fine(sample: ModuleType, path: Path) -> None:
    agent, terms = sample.agent(path), sample.agreement()
    agent.join("run", terms)
    seal = None
    for round in range(1, 4):
        seal = agent.answer(sample.request(terms, round, seen=seal)).seal
    assert not agent.ledger.locked
    assert seal is not None
    with refused(agent, "not one of this ledger's"):
        agent.answer(sample.request(terms, 4, seen=replace(seal, head="0" * 64)))
    agent.answer(sample.request(terms, 4, seen=seal))


@pytest.mark.parametrize(("algorithm", "penalty"), [("pvp", "l2"), ("pvp", "l1"), ("dvp", "l2")])
def test_whether_a_step_is_refused_does_not_depend_on_the_records(
    sample: ModuleType, path: Path, algorithm: str, penalty: str
) -> None:
    """Large inputs, at which rounding could exceed the tolerance that is paid for: refused for all owners alike.

    A refusal is free, so it must be a function of what the asker knows anyway.
    """
    terms = sample.agreement(algorithm, penalty=penalty)
    agents = []
    for seed in range(6):
        agent = sample.agent(path.with_name(str(seed)), None, sample.Repeatable(seed), records=sample.shards(seed=seed))
        agent.join("run", terms)
        agents.append(agent)
    outcomes = set()
    for size in 10.0 ** np.arange(8.5, 2, -0.5):
        given = np.random.default_rng(1).normal(size=(1, 3)) * size
        found = {_outcome(agent, sample.request(terms, 1, inputs=given)) for agent in agents}
        assert len(found) == 1
        outcomes |= found
        if "answered" in found:
            break
    assert "answered" in outcomes
    assert all("rounding may change a gradient" in each for each in outcomes - {"answered"})
    assert len(outcomes) > 1
    assert size > 1e4  # nothing that an honest run would send


def _outcome(agent: Agent, request: Request) -> str:
    try:
        agent.answer(request)
    except Refused as refused:
        return str(refused)
    return "answered"
