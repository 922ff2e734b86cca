"""Which terms an agent joins, and which it refuses."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from owners import in_files, play, refused

from dpadmm.errors import InputError, Refused
from dpadmm.owner.agent import Agent
from dpadmm.privacy.events import GaussianDpEvent

UNACCEPTABLE = [
    ({"algorithms": ("pvp",)}, {}, "algorithm 'dp-admm' is not allowed"),
    ({}, {"algorithm": "admm", "epsilon": None, "delta": None}, "algorithm 'admm' is not allowed"),
    ({}, {"algorithm": "no-such"}, "algorithm 'no-such' is not allowed"),
    ({"losses": ("smoothed-hinge",)}, {}, "loss 'logistic' is not allowed"),
    ({"losses": ("logistic",)}, {"loss": "smoothed-hinge:0.5"}, "loss 'smoothed-hinge:0.5' is not allowed"),
    ({}, {"relation": "zero-out"}, "relation 'zero-out' is not"),
    ({}, {"norm_bound": 1.5}, "norm bound 1.5 is above the 1 that is allowed"),
    ({}, {"norm_bound": 0.5}, "encoded for another norm bound"),
    ({"smallest_count": 61}, {}, "fewer than the 61 records"),
    ({}, {"counts": (61, 50)}, "record counts in the terms are not those"),
    ({}, {"counts": (50, 60)}, "record counts in the terms are not those"),
    ({}, {"epsilon": 4.01}, "would come to epsilon 4.01 at delta 1e-06; its owner allows 4"),
    ({"delta": 1e-7}, {"epsilon": 3.99}, "would come to"),
    ({}, {"epsilon": None, "delta": None, "noise_multiplier": 0.0}, "would come to epsilon inf"),
    ({}, {"epsilon": 2.0, "paper_noise": True}, "would come to"),
    ({}, {"epsilon": None}, "the terms cannot be met"),
    (
        {"delta": 1e-11},
        {"epsilon": 1e-9, "delta": 1e-12},
        "cannot be met: noise multiplier .* exact noise has between",
    ),
    ({"records_per_person": 3}, {}, "the terms protect 1 record"),
    ({"records_per_person": 3}, {"records_per_person": 3}, "not grouped by person"),
]


@pytest.mark.parametrize(("mine", "theirs", "reason"), UNACCEPTABLE)
def test_terms_that_the_policy_does_not_allow_are_refused(
    sample: ModuleType, path: Path, mine: dict[str, Any], theirs: dict[str, Any], reason: str
) -> None:
    agent = sample.agent(path, sample.policy(**mine))
    terms = sample.agreement(**theirs)
    with refused(agent, reason):
        agent.join("run", terms)
    with refused(agent, "was not joined"):
        agent.answer(sample.request(terms, 1))


def test_acceptable_terms_are_accepted_so_that_the_refusals_above_mean_something(
    sample: ModuleType, path: Path
) -> None:
    for number, theirs in enumerate([{}, {"algorithm": "pvp"}, {"algorithm": "dvp"}, {"loss": "smoothed-hinge:0.5"}]):
        agent = sample.agent(path.with_name(str(number)))
        play(agent, sample.agreement(**theirs), range(1, 2))
        assert sum(agent.ledger.spent().values()) == 1


def test_terms_of_another_shape_are_refused(sample: ModuleType, path: Path) -> None:
    agent = sample.agent(path)
    with refused(agent, "terms are for 4 columns; the records have 3"):
        agent.join("run", replace(sample.agreement(), width=4))
    with refused(agent, "none is number 0"):
        agent.join("run", replace(sample.agreement(), counts=()))
    second = Agent(sample.shards(), sample.policy(), sample.ledger(path), agent.randomness, members=(2,))
    with refused(second, "none is number 2"):
        second.join("run", sample.agreement())


@pytest.mark.parametrize("name", ["", "x" * 101, "two\nlines", "\ud800", None, 7, ["run"]])
def test_runs_have_decent_names(sample: ModuleType, path: Path, name: Any) -> None:
    agent = sample.agent(path)
    with refused(agent, "name"):
        agent.join(name, sample.agreement())
    with refused(agent, "name"):
        agent.finish(name)


def test_a_second_run_is_refused_when_the_budget_is_taken(sample: ModuleType, path: Path) -> None:
    agent = sample.agent(path, sample.policy(epsilon=2.5))
    agent.join("first", sample.agreement())
    with refused(agent, "would come to"):
        agent.join("second", sample.agreement())
    agent.answer(sample.request(sample.agreement(), 1, "first"))
    agent.finish("first")
    with refused(agent, "was not joined"):
        agent.answer(sample.request(sample.agreement(), 2, "first"))
    agent.join("second", sample.agreement())  # what the first did not use was given back
    with refused(agent, "finished"):
        agent.join("first", sample.agreement())


def test_joining_on_other_terms_under_the_same_name_is_refused(sample: ModuleType, path: Path) -> None:
    sample.agent(path).join("run", sample.agreement())
    agent = sample.agent(path)
    with refused(agent, "joined on other terms"):
        agent.join("run", sample.agreement(rho=0.2))
    agent.join("run", sample.agreement())


def test_the_name_of_a_lost_run_cannot_be_joined(sample: ModuleType, path: Path) -> None:
    agent = sample.agent(path)
    agent.ledger.record_lost({GaussianDpEvent(50.0): 1})
    (name,) = agent.ledger.runs()
    with refused(agent, "taken"):
        agent.join(name, sample.agreement())


def test_persons_with_several_records_must_be_grouped(sample: ModuleType, path: Path) -> None:
    terms = sample.agreement(records_per_person=3)
    three = [number // 3 for number in range(sample.RECORDS)]
    with refused(agent := sample.agent(path, sample.policy(records_per_person=3)), "not grouped"):
        agent.join("run", terms)
    with pytest.raises(InputError, match="59 persons for 60 records"):
        sample.agent(path, sample.policy(records_per_person=3), persons=three[1:])
    mixed = [None if person == 7 else f"person {person}" if person % 2 else person for person in three]
    sample.agent(path, sample.policy(records_per_person=3), persons=mixed).join("run", terms)


@pytest.mark.parametrize("stored", [False, True])
def test_a_person_with_too_many_records_takes_part_with_the_first_of_them(
    sample: ModuleType, tmp_path: Path, stored: bool
) -> None:
    """Version 0.1.0 refused to join, so that joining told of a person's records. Nobody's records count as zero."""
    terms = sample.agreement(records_per_person=3)
    persons: list[Any] = [number // 4 for number in range(sample.RECORDS - 10)] + [None, float("nan"), "", 0.5, []] * 2
    records = sample.shards() if not stored else in_files(tmp_path, sample.shards())
    agent = sample.agent(tmp_path / "ledger", sample.policy(records_per_person=3), None, records, persons=persons)
    agent.join("run", terms)
    usable = agent._joined["run"].shards
    (features,) = [np.array(features) for _, features, _ in usable.blocks()]
    expected = np.array([number % 4 < 3 for number in range(50)] + [False] * 10)
    np.testing.assert_array_equal(features.any(axis=1), expected)
    np.testing.assert_array_equal(features[expected], sample.shards().features[expected])
    assert np.isfinite(agent.answer(sample.request(terms, 1)).value).all()


def test_a_budget_for_one_update_a_round_does_not_buy_five(sample: ModuleType, path: Path) -> None:
    """With the noise given, five updates cost more than one, and the owner's ledger knows."""
    noise = {"epsilon": None, "noise_multiplier": 5.0}
    sample.agent(path).join("one", sample.agreement("obj-g", **noise))
    agent = sample.agent(path.with_name("other"))
    with refused(agent, "would come to epsilon"):
        agent.join("five", sample.agreement("obj-g", **noise, updates=5))


@pytest.mark.parametrize("updates", [10**9, 2**62])
def test_terms_with_absurdly_many_updates_are_refused(sample: ModuleType, path: Path, updates: int) -> None:
    """An update takes a fraction of a millisecond at least, and an answer all of them."""
    agent = sample.agent(path)
    with refused(agent, "updates"):
        agent.join("run", sample.agreement("obj-g", updates=updates))


@pytest.mark.parametrize("field", ["intercept", "paper_noise", "non_crossing"])
def test_terms_with_a_truth_value_of_numpy_are_refused(sample: ModuleType, path: Path, field: str) -> None:
    """Its type is called bool too, but it cannot be written as JSON, and so such terms have no digest."""
    agent = sample.agent(path)
    with refused(agent, f"{field} = np.True_ must be true or false"):
        agent.join("run", sample.agreement(**{field: np.True_}))


def test_numbers_of_numpy_are_as_good_as_others(sample: ModuleType, path: Path) -> None:
    """`np.float64(1.0) in (None, ())` has no answer, and no tuple an element number `np.float64(1.0)`."""
    agent, terms = sample.agent(path), sample.agreement(epsilon=2.0, rho=1.0)
    odd = sample.agreement(epsilon=np.float64(2.0), rho=np.float64(1.0))
    assert odd.digest == terms.digest
    agent.join("run", odd)
    agent.answer(sample.request(terms, 1))
    agent.finish("run")
    many = sample.agreement(rounds=np.float64(6.0))
    agent.join("another", many)  # for six rounds, which has another digest
    with refused(agent, "terms"):
        agent.answer(sample.request(many, 1, run="another"))


@pytest.mark.filterwarnings("ignore:overflow encountered")  # of a number that is about to be refused
@pytest.mark.parametrize(
    "changes",
    [
        {"rho_schedule": "balanced", "set": "range:0.3:0.3"},
        {"rho_schedule": "balanced:1e308", "set": "box:1e-20"},
        {"schedule": "free-5.3", "set": "range:0.3:0.3"},
        {"schedule": "free-5.3:1e-320", "set": "box:1"},
    ],
    ids=lambda changes: " ".join(changes.values()),
)
def test_terms_that_make_no_numbers_are_refused_or_answered_with_numbers(
    sample: ModuleType, path: Path, changes: dict[str, Any]
) -> None:
    agent, terms = sample.agent(path), sample.agreement("obj-g", **changes)
    try:
        agent.join("run", terms)
    except Refused:
        return
    for round in (1, 2):
        assert np.isfinite(agent.answer(sample.request(terms, round)).value).all()
