"""The promise in words: exact, never more than is proved, and plain about what protects nobody."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpadmm.report.wording import LEFT_OUT, ONE_BY_ONE, SCALED, SIMULATED, UNKNOWN, Promise, guarantee, open_run


def promise(**changes: Any) -> Promise:
    given: dict[str, Any] = {
        "state": "finished", "round": 100, "rounds": 100, "epsilon": 1.0, "delta": 1e-5, "relation": "replace",
        "accountant": "exact", "simulated": False, "spent": 1.0, "noise": "gaussian noise on the gradient",
    }  # fmt: skip
    return Promise(**{**given, **changes})


def test_the_sentence_is_the_definition() -> None:
    said = guarantee(promise())
    assert said.accounted
    assert said.plain == (
        "Whatever anybody concludes from everything that every agent sent in all 100 rounds together is at most 2.72 "
        "times as likely as it would be if that record had been any other, plus a chance of 1 in 100,000; this holds "
        "for every single record of every agent."
    )
    assert said.notes == (ONE_BY_ONE, LEFT_OUT)
    assert said.exact == (
        "epsilon 1.000, delta 1e-05 in total; replace relation; exact Gaussian composition; unit: one record of the "
        "worst agent; gaussian noise on the gradient"
    )


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.1, 0.5, 1.0, math.log(10), 3.0, 7.0, 12.0, 19.9])
def test_factors_are_rounded_up(epsilon: float) -> None:
    text = guarantee(promise(epsilon=epsilon)).plain.partition("at most ")[2].partition(" times")[0]
    value = float(text.replace(",", ""))
    assert math.exp(epsilon) * (1 - 1e-11) <= value <= math.exp(epsilon) * 1.0101


@pytest.mark.parametrize(
    ("epsilon", "told"),
    [(1.0, "1.000"), (1.0 - 1e-9, "1.000"), (1.0001, "1.001"), (0.68411, "0.6842"), (12.341, "12.35"), (0.0, "0.000")],
)
def test_epsilons_are_rounded_up(epsilon: float, told: str) -> None:
    assert guarantee(promise(epsilon=epsilon)).exact.startswith(f"epsilon {told}, delta")
    running = promise(state="running", round=5, epsilon=50.0, spent=epsilon)
    assert f"; epsilon {told} up to round 5;" in guarantee(running).exact


def test_a_huge_factor_is_not_written_out() -> None:
    assert "at most e^251 times" in guarantee(promise(epsilon=250.5)).plain


@pytest.mark.parametrize(("delta", "chance"), [(1e-5, "100,000"), (3e-4, "3,333"), (1e-6, "1,000,000"), (0.07, "14")])
def test_chances_are_rounded_up(delta: float, chance: str) -> None:
    assert f"plus a chance of 1 in {chance};" in guarantee(promise(delta=delta)).plain


def test_without_a_delta_there_is_no_chance() -> None:
    assert "chance" not in guarantee(promise(delta=0.0, accountant="pure")).plain


def test_a_large_epsilon_is_called_one() -> None:
    assert "So large a factor promises little." in guarantee(promise(epsilon=5.1)).notes
    assert "So large a factor promises little." not in guarantee(promise(epsilon=5.0)).notes


def test_a_simulation_protects_nobody() -> None:
    said = guarantee(promise(simulated=True))
    assert said.simulated
    assert said.plain.startswith("With real noise, whatever anybody concludes from")
    assert said.notes[0] == SIMULATED
    assert said.exact.endswith("; seeded noise")
    real = guarantee(promise())
    assert not real.simulated
    assert SIMULATED not in real.notes


def test_relations_and_persons() -> None:
    assert "if that record had not counted (the number of records is public)" in (
        guarantee(promise(relation="zero-out")).plain
    )
    person = guarantee(promise(unit_size=4))
    assert "if that person's records had been any others" in person.plain
    assert "for every person at every agent, with all of up to 4 records." in person.plain
    assert ONE_BY_ONE not in person.notes
    assert "unit: one person, up to 4 records of the worst agent" in person.exact


def test_loads_of_a_bus() -> None:
    said = guarantee(promise(neighbours="both loads of one bus, by up to 0.01 per unit", holder="zone"))
    assert "if the truth differed in both loads of one bus, by up to 0.01 per unit," in said.plain
    assert "for every bus of every zone" in said.plain
    assert "record had been" not in said.plain


@pytest.mark.parametrize("state", ["running", "crashed", "interrupted"])
def test_a_run_that_is_not_over_says_what_was_spent_and_what_all_will_cost(state: Any) -> None:
    said = guarantee(promise(state=state, round=40, spent=0.5))
    assert "sent up to round 40 of 100 is at most 1.65 times as likely" in said.plain
    rest = (
        "When all rounds are over it is at most 2.72"
        if state == "running"
        else "sent after that, in all it is at most 2.72"
    )
    assert any(rest in note for note in said.notes)
    assert said.exact.startswith(
        "epsilon 1.000, delta 1e-05 in total for all 100 rounds; epsilon 0.5000 up to round 40;"
    )


def test_before_the_first_round_nothing_is_said_of_it() -> None:
    said = guarantee(promise(state="running", round=0, spent=None))
    assert "every agent is to send in all 100 rounds together is at most 2.72 times" in said.plain
    assert not any("When all rounds are over" in note for note in said.notes)
    assert "up to round" not in said.exact


def test_what_is_not_private_says_so_first() -> None:
    for said in (open_run(), guarantee(promise(epsilon=None)), UNKNOWN):
        assert not said.accounted
        assert "times as likely" not in said.plain
    assert open_run("owner").plain.startswith("This run promises no privacy: every owner sends")
    assert "infinite" in open_run().exact
    assert "infinite" in guarantee(promise(epsilon=None)).exact
    scaled = guarantee(promise(public_preprocessing=False))
    assert not scaled.accounted
    assert scaled.plain == SCALED
    assert scaled.notes[0].startswith("Of the rounds alone: Whatever anybody concludes")


def test_a_papers_claim_stands_beside_the_truth() -> None:
    assert "by its paper's formula 0.5000, which is false" in guarantee(promise(claimed=0.5)).exact
    assert "by its paper's formula 2.000, which is safe but wasteful" in guarantee(promise(claimed=2.0)).exact
