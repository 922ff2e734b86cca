"""What every entry protects: totals are for the unit of the owner's policy, and old runs do not pass for more."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from ledgers import kinds
from owners import play, refused

from dpadmm.owner.spending import ledger_summary
from dpadmm.privacy import gaussian
from dpadmm.privacy.events import GaussianDpEvent, Relation
from dpadmm.privacy.units import Unit

TEN = Unit(10, Relation.REPLACE)


def _persons(sample: ModuleType) -> list[int]:
    return [number // 10 for number in range(sample.RECORDS)]


def _after_a_run_for_one_record(sample: ModuleType, path: Path) -> tuple[Any, float]:
    """An agent that begins to protect ten records of a person, and the mu that a run before that has for one."""
    first = sample.agent(path, sample.policy(epsilon=1.0))
    play(first, sample.agreement(epsilon=0.7), range(1, 7), "one")
    first.finish("one")
    mu = float(first.policy.cap.total(first.ledger.charges()).mu2) ** 0.5
    return sample.agent(path, sample.policy(epsilon=1.0, records_per_person=10), persons=_persons(sample)), mu


def test_a_run_for_one_record_counts_ten_times_for_ten(sample: ModuleType, path: Path) -> None:
    """Version 0.1.0 said epsilon 0.7 for ten records, where 9.08 is true, and admitted another run."""
    agent, mu = _after_a_run_for_one_record(sample, path)
    assert agent.ledger.runs()["one"].account.unit == Unit(1, Relation.REPLACE)
    spent = agent.ledger.amount(agent.policy.cap)
    assert spent == pytest.approx(gaussian.epsilon(10 * mu, 1e-6), rel=1e-9)
    assert spent > 9.0
    with refused(agent, "would come to epsilon 9"):
        agent.join("ten", sample.agreement(epsilon=0.1, records_per_person=10))
    assert kinds(agent.ledger).count("reserve") == 1


@pytest.mark.parametrize(
    ("terms", "least"),
    [
        ({"mechanism": "laplace", "delta": 0.0}, 6.9),
        ({"algorithm": "ps-admm", "batch": 0.25, "relation": "zero-out"}, 5.0),
    ],
)
def test_so_does_a_run_of_another_kind(sample: ModuleType, path: Path, terms: dict[str, Any], least: float) -> None:
    """The other instances: pure noise, for which version 0.1.0 said epsilon 0.7 where 7 is true; and mini-batches."""
    relation = terms.get("relation", "replace")
    rules = {"epsilon": 30.0, "algorithms": ("dp-admm", "ps-admm"), "relation": relation}
    first = sample.agent(path, sample.policy(**rules))
    play(first, sample.agreement(epsilon=0.7, **terms), range(1, 7), "one")
    assert first.ledger.amount(sample.policy(**rules | {"delta": terms.get("delta", 1e-6)}).cap) <= 0.7 * (1 + 1e-3)
    first.finish("one")
    rules |= {"records_per_person": 10, "delta": terms.get("delta", 1e-6)}
    agent = sample.agent(path, sample.policy(**rules), persons=_persons(sample))
    assert agent.ledger.amount(agent.policy.cap) >= least


def test_an_open_run_for_one_record_ends_when_ten_are_to_be_protected(sample: ModuleType, path: Path) -> None:
    first = sample.agent(path, sample.policy())
    play(first, sample.agreement(), range(1, 3), "one")
    first.policy = sample.policy(records_per_person=10)
    with refused(first, "the terms protect 1 record"):
        first.answer(sample.request(sample.agreement(), 3, "one"))


def test_what_an_owner_is_shown_is_for_the_policy_s_unit(sample: ModuleType, path: Path) -> None:
    agent, mu = _after_a_run_for_one_record(sample, path)
    shown = ledger_summary(agent.ledger, 1e-6, agent.policy)
    assert (shown["records_per_person"], shown["epsilon_left"]) == (10, 0.0)
    assert shown["epsilon_spent"] == pytest.approx(gaussian.epsilon(10 * mu, 1e-6), rel=1e-9)
    (run,) = shown["runs"]
    assert (run["records_per_person"], run["relation"]) == (1, "replace")
    assert run["epsilon"] == pytest.approx(gaussian.epsilon(10 * mu, 1e-6), rel=1e-9)


def test_a_run_for_ten_records_counts_once_for_one(sample: ModuleType, path: Path) -> None:
    agent = sample.agent(path, sample.policy(records_per_person=10), persons=_persons(sample))
    play(agent, sample.agreement(epsilon=1.0, records_per_person=10), range(1, 7), "ten")
    assert agent.ledger.runs()["ten"].account.unit == TEN
    assert agent.ledger.amount(agent.policy.cap) == pytest.approx(1.0, rel=1e-6)
    assert agent.ledger.amount(sample.policy().cap) == pytest.approx(1.0, rel=1e-6)


def test_a_policy_of_another_relation_counts_earlier_runs_by_theirs(sample: ModuleType, path: Path) -> None:
    """Replaced is blanked twice; blanked is one way of being replaced."""
    blanked = sample.agent(path, sample.policy(relation="zero-out"))
    play(blanked, sample.agreement(epsilon=1.0, relation="zero-out"), range(1, 7), "blanked")
    agent = sample.agent(path)
    mu = gaussian.mu(1.0, 1e-6)
    assert agent.ledger.amount(agent.policy.cap) == pytest.approx(gaussian.epsilon(2 * mu, 1e-6), rel=1e-6)
    assert agent.ledger.amount(blanked.policy.cap) == pytest.approx(1.0, rel=1e-6)
    play(agent, sample.agreement(epsilon=1.0), range(1, 7), "replaced")
    for cap, total in ((agent.policy.cap, np.sqrt(5) * mu), (blanked.policy.cap, np.sqrt(2) * mu)):
        assert agent.ledger.amount(cap) == pytest.approx(gaussian.epsilon(total, 1e-6), rel=1e-6)


def test_lost_releases_have_a_unit(sample: ModuleType, path: Path) -> None:
    agent = sample.agent(path, sample.policy(records_per_person=10), persons=_persons(sample))
    agent.ledger.record_lost({GaussianDpEvent(50.0): 1})
    assert agent.ledger.amount(agent.policy.cap) == pytest.approx(gaussian.epsilon(0.2, 1e-6), rel=1e-9)
    agent.ledger.record_lost({GaussianDpEvent(50.0): 21}, TEN)
    assert agent.ledger.amount(agent.policy.cap) == pytest.approx(gaussian.epsilon(0.22, 1e-6), rel=1e-3)
