"""Restarts, several processes over one ledger, and restored backups: a run goes on as if nothing had happened."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from ledgers import put_back, snapshot
from owners import LOCAL, PRIVATE, play, refused, several

from dpadmm.errors import InputError, Refused
from dpadmm.owner.agent import Agent
from dpadmm.privacy.ledger.registry import LedgerRegistry
from dpadmm.privacy.ledger.verify import verify


@pytest.mark.parametrize("algorithm", [*PRIVATE, *LOCAL])
def test_a_run_interrupted_anywhere_equals_the_uninterrupted_one(
    sample: ModuleType, path: Path, algorithm: str
) -> None:
    terms = sample.agreement(algorithm, rounds=5, evaluation_epsilon=0.2, **several(algorithm))
    double = sample.Repeatable(3)
    whole = play(sample.agent(path, None, double), terms, range(1, 6))
    assert len({value.tobytes() for value in whole}) == 5
    for cut in range(1, 5):
        book = path.with_name(f"cut {cut}")
        values = play(sample.agent(book, None, double), terms, range(1, cut + 1))
        values += play(sample.agent(book, None, double), terms, range(cut + 1, 6))
        np.testing.assert_array_equal(values, whole)
    book = path.with_name("cut every round")
    values = []
    for round in range(1, 6):
        values += play(sample.agent(book, None, double), terms, range(round, round + 1))
        sample.agent(book, None, double).join("run", terms)
        if round == 2:  # an evaluation in between changes nothing
            asked = sample.agent(book, None, double)
            asked.join("run", terms)
            asked.answer(sample.request(terms, "evaluation"))
    np.testing.assert_array_equal(values, whole)


def test_another_noise_gives_another_run(sample: ModuleType, path: Path) -> None:
    """So the test above would notice a noise that ignores its words."""
    one, other = (
        play(
            sample.agent(path.with_name(str(seed)), None, sample.Repeatable(seed)),
            sample.agreement(),
            range(1, 3),
        )
        for seed in (1, 2)
    )
    assert not np.any(np.array(one) == np.array(other))


def test_a_repeat_returns_the_same_bytes_at_no_cost_also_after_a_restart(sample: ModuleType, path: Path) -> None:
    agent, terms = sample.agent(path), sample.agreement()
    values = play(agent, terms, range(1, 5))
    spent, entries = agent.ledger.spent(), len([*agent.ledger.entries()])
    assert sum(spent.values()) == 4
    restarted = sample.agent(path)
    restarted.join("run", terms)
    for asked in (agent, restarted):
        for round in (1, 4, 2, 3, 4):
            again = asked.answer(sample.request(terms, round))
            assert again.value.tobytes() == values[round - 1].tobytes()
            assert again.seal == agent.ledger.find("run", str(round)).seal
    assert (agent.ledger.spent(), len([*agent.ledger.entries()])) == (spent, entries)
    with refused(restarted, "answered for other inputs"):
        restarted.answer(sample.request(terms, 2, inputs=sample.inputs(2) + 1e-12))
    with refused(agent, "answered for other inputs"):
        agent.answer(sample.request(terms, 4, inputs=-sample.inputs(4)))


def test_two_agents_over_one_ledger_take_turns(sample: ModuleType, path: Path) -> None:
    """Each finds where the other has got to; the result is that of one agent alone."""
    terms = sample.agreement("pvp")
    alone = play(sample.agent(path, None, sample.Repeatable()), terms, range(1, 7))
    pair = [sample.agent(path.with_name("shared"), None, sample.Repeatable()) for _ in range(2)]
    for agent in pair:
        agent.join("run", terms)
    for round in range(1, 7):
        value = pair[round % 2].answer(sample.request(terms, round)).value
        np.testing.assert_array_equal(value, alone[round - 1])
    assert sum(pair[0].ledger.spent().values()) == 6


def test_a_step_another_process_takes_in_the_middle_of_an_answer_is_its_release(
    sample: ModuleType, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second looks for the step, the first commits it, the second looks where the run is."""
    terms = sample.agreement("pvp")
    first, second = (sample.agent(path) for _ in range(2))
    first.join("run", terms)
    second.join("run", terms)
    for moment in ("find", "position", "commit"):
        round = {"find": 1, "position": 2, "commit": 3}[moment]
        asked = sample.request(terms, round)
        theirs: list[bytes] = []
        plain = getattr(second.ledger, moment)

        def late(*given: Any, plain: Any = plain, asked: Any = asked, theirs: Any = theirs) -> Any:
            before = plain(*given) if plain.__name__ != "commit" else None
            if not theirs:
                theirs.append(first.answer(asked).value.tobytes())
            return plain(*given) if before is None and plain.__name__ == "commit" else before

        monkeypatch.setattr(second.ledger, moment, late)
        mine = second.answer(asked).value.tobytes()
        monkeypatch.undo()
        assert [mine] == theirs
    assert sum(first.ledger.spent().values()) == 3
    second.answer(sample.request(terms, 4))
    assert verify(first.ledger) == []


def test_how_far_a_run_is_includes_what_another_process_has_answered(sample: ModuleType, path: Path) -> None:
    terms = sample.agreement()
    first, second = (sample.agent(path) for _ in range(2))
    for agent in (first, second):
        agent.join("run", terms)
    for round in (1, 2):
        second.answer(sample.request(terms, round))
        assert first.rounds_answered("run") == second.rounds_answered("run") == round


def test_open_makes_the_ledger_of_these_records(sample: ModuleType, path: Path, tmp_path: Path) -> None:
    registry = LedgerRegistry(tmp_path / "shelf")
    agent = Agent.open(sample.shards(), sample.policy(), path, registry=registry)
    play(agent, sample.agreement(), range(1, 3))
    again = Agent.open(sample.shards(), sample.policy(), path, registry=registry)
    assert again.ledger.spent() == agent.ledger.spent()
    assert not again.randomness.simulated
    with pytest.raises(InputError, match="records"):
        Agent.open(sample.shards(seed=1), sample.policy(), path, registry=registry)
    with pytest.raises(InputError, match="same name"):
        Agent.open(sample.shards(), sample.policy(), tmp_path / "second.ledger", registry=registry)
    with pytest.raises(InputError, match="same content"):
        Agent.open(sample.shards(), sample.policy(dataset="renamed"), tmp_path / "third.ledger", registry=registry)


def test_a_restored_ledger_refuses_once_it_is_shown_a_later_seal(sample: ModuleType, path: Path) -> None:
    agent, terms = sample.agent(path), sample.agreement()
    play(agent, terms, range(1, 3))
    backup = snapshot(agent.ledger)
    late = agent.answer(sample.request(terms, 3))
    put_back(agent.ledger, backup, log=True)
    restored = sample.agent(path)
    restored.join("run", terms)
    with pytest.raises(Refused, match="old backup"):
        restored.answer(sample.request(terms, 3, seen=late.seal))
    with pytest.raises(Refused, match="locked"):
        restored.answer(sample.request(terms, 3))
    assert sum(restored.ledger.spent().values()) == 2
    restored.ledger.record_lost({late.events[0]: 1})
    restored.answer(sample.request(terms, 3))
    assert sum(restored.ledger.spent().values()) == 4
    assert verify(restored.ledger) == []
