"""The owner's policy: how it is read, and what a change does to runs that have begun."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ledgers import amount
from owners import play, refused

from dpadmm.errors import InputError
from dpadmm.owner.agent import Agent
from dpadmm.owner.policy import Policy


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('dataset = "p"\nepsilon = 1\ndelta = 1e-6\nepsilom = 2', "unknown key in .*; did you mean 'epsilon'?"),
        ('dataset = "p"\nepsilon = 1', "lacks delta"),
        ("", "lacks dataset, epsilon, delta"),
        ('dataset = "p"\nepsilon = "1"\ndelta = 0', r"epsilon = '1' must be a .*number"),
        ('dataset = "p"\nepsilon = true\ndelta = 0', "epsilon = True must be a .*number"),
        ('dataset = "p"\nepsilon = nan\ndelta = 0', "epsilon"),
        ('dataset = "p"\nepsilon = inf\ndelta = 0', "epsilon"),
        ('dataset = "p"\nepsilon = 0\ndelta = 0', "epsilon = 0.0 must be a number from"),
        ('dataset = "p"\nepsilon = 1\ndelta = 1', "delta = 1.0 must be 0 or a number from"),
        ("dataset = 3\nepsilon = 1\ndelta = 0", "dataset = 3 must be a text"),
        ('dataset = "p"\nepsilon = 1\ndelta = 0\nreserve = 1', "reserve = 1 must be true or false"),
        ('dataset = "p"\nepsilon = 1\ndelta = 0\nsmallest_count = 1.5', "smallest_count = 1.5 must be a whole number"),
        ('dataset = "p"\nepsilon = 1\ndelta = 0\nsmallest_count = 0', "at least 1"),
        ('dataset = "p"\nepsilon = 1\ndelta = 0\nrecords_per_person = 0', "at least 1"),
        ('dataset = "p"\nepsilon = 1\ndelta = 0\nnorm_bound = -1', "norm_bound"),
        ('dataset = "p"\nepsilon = 1\ndelta = 0\nnorm_bound = inf', "norm_bound"),
        ('dataset = "p"\nepsilon = 1\ndelta = 0\nalgorithms = "pvp"', "algorithms = 'pvp' must be a list"),
        ('dataset = "p"\nepsilon = 1\ndelta = 0\nalgorithms = ["dp-adm"]', "did you mean 'dp-admm'?"),
        ('dataset = "p"\nepsilon = 1\ndelta = 0\nalgorithms = ["admm"]', "'admm' is not private"),
        ('dataset = "p"\nepsilon = 1\ndelta = 0\nlosses = ["logistc"]', "did you mean 'logistic'?"),
        ('dataset = "p"\nepsilon = 1\ndelta = 0\nrelation = "replaced"', "did you mean 'replace'?"),
        ("dataset = ", "is not TOML"),
    ],
)
def test_a_wrong_policy_is_refused_with_what_is_wrong(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=reason):
        Policy.read(file)


def test_a_policy_is_read_as_written(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(
        'dataset = "patients"\nepsilon = 4\ndelta = 1e-6\nalgorithms = ["pvp"]\nlosses = ["logistic"]\n'
        'smallest_count = 100\nreserve = false\nrecords_per_person = 2\nnorm_bound = 2\nrelation = "zero-out"\n'
    )
    assert Policy.read(file) == Policy("patients", 4.0, 1e-6, "zero-out", 2.0, ("pvp",), ("logistic",), 100, False, 2)
    with pytest.raises(InputError, match="cannot be read"):
        Policy.read(tmp_path / "none.toml")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not TOML"):
        Policy.read(file)


STRICTER = [
    ({"epsilon": 0.5}, "would come to"),
    ({"delta": 0.0}, "would come to"),
    ({"algorithms": ("pvp",)}, "algorithm"),
    ({"losses": ("smoothed-hinge",)}, "loss"),
    ({"norm_bound": 0.5}, "norm bound"),
    ({"smallest_count": 100}, "fewer"),
    ({"records_per_person": 2}, "protect 1 record"),
    ({"dataset": "others"}, "another data set"),
    ({"relation": "zero-out"}, "another data set or relation"),
]


@pytest.mark.parametrize(("change", "reason"), STRICTER)
def test_a_policy_made_stricter_during_a_run_applies_at_once(
    sample: ModuleType, path: Path, change: dict[str, Any], reason: str
) -> None:
    agent, terms = sample.agent(path), sample.agreement()
    (value,) = play(agent, terms, range(1, 2))
    agent.policy = sample.policy(**change)
    with refused(agent, reason):
        agent.answer(sample.request(terms, 2))
    assert agent.answer(sample.request(terms, 1)).value.tobytes() == value.tobytes()  # what has left has left
    restarted = sample.agent(path, sample.policy(**change))
    if "would come to" in reason:  # the run is joined again, as far as the budget goes
        restarted.join("run", terms)
        with refused(restarted, reason):
            restarted.answer(sample.request(terms, 2))
    else:
        with refused(restarted, reason):
            restarted.join("run", terms)
    agent.policy = sample.policy()
    agent.answer(sample.request(terms, 2))


def test_a_policy_made_looser_during_a_run_applies_to_the_next_one_only(sample: ModuleType, path: Path) -> None:
    """Also across restarts: what was in force at joining is in the ledger."""
    tight, loose = sample.policy(epsilon=2.05, reserve=False), sample.policy(epsilon=20.0, reserve=False)
    terms = sample.agreement()
    agent = sample.agent(path, tight)
    play(agent, terms, range(1, 2), "early")
    agent.policy = loose
    play(agent, terms, range(1, 7), "late")
    assert amount(agent.ledger) > 2.05
    restarted = sample.agent(path, loose)
    restarted.join("early", terms)
    for asked in (agent, restarted):
        with refused(asked, "its owner allows 2.05"):
            asked.answer(sample.request(terms, 2, "early"))
    play(restarted, terms, range(1, 7), "later still")


def test_an_agent_with_a_policy_answers_for_one_owner(sample: ModuleType, path: Path) -> None:
    two = sample.shards().tile(2)
    with pytest.raises(InputError, match="one owner"):
        Agent(two, sample.policy(), sample.ledger(path), sample.agent(path).randomness, members=(0, 1))
