"""The owner's agent: what it refuses, what it repeats, and where it goes on after a restart."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dpadmm.admm.rounds import absorb, answer, begin, combine, opening
from dpadmm.errors import ConvergenceError, InputError, Refused
from dpadmm.owner.agent import Agent
from dpadmm.owner.policy import Policy
from dpadmm.owner.request import Request
from dpadmm.privacy.accounting import best
from dpadmm.privacy.events import GaussianDpEvent, LaplaceDpEvent, SelfComposedDpEvent
from dpadmm.privacy.ledger.memory import MemoryLedger
from dpadmm.privacy.ledger.registry import LedgerRegistry
from dpadmm.privacy.ledger.verify import verify
from dpadmm.privacy.mechanisms import Mechanism
from dpadmm.privacy.randomness import SeededRandomness, SystemRandomness
from dpadmm.privacy.relations import Relation
from dpadmm.problems.shards import gather

PRIVATE = ["dp-admm", "pvp", "dvp"]
LOCAL = ["obj-g", "obj-l", "out-g", "out-l"]  # several updates a round, the server first


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "patients.ledger"


@contextmanager
def refused(agent: Agent, reason: str) -> Iterator[None]:
    """What happens inside is refused for this reason; nothing is spent, nothing added to the chain, and it is noted."""
    before = (agent.ledger.spent(), agent.ledger.committed(), len([*agent.ledger.entries()]))
    noted = sum(times for _, times, _ in agent.ledger.refusals())
    with pytest.raises(Refused, match=reason):
        yield
    assert (agent.ledger.spent(), agent.ledger.committed(), len([*agent.ledger.entries()])) == before
    assert sum(times for _, times, _ in agent.ledger.refusals()) == noted + 1
    assert verify(agent.ledger) == []


def several(algorithm: str) -> dict[str, Any]:
    """Three updates a round, where an algorithm has them, and a penalty that grows."""
    return {"updates": 3, "rho_schedule": "growing:0.3:0.1:2"} if algorithm in LOCAL else {}


def play(sample: ModuleType, agent: Agent, terms: Any, rounds: range, run: str = "run") -> list[np.ndarray]:
    agent.join(run, terms)
    return [agent.answer(sample.request(terms, round, run)).value for round in rounds]


# -- joining -----------------------------------------------------------------------------------------------------------

UNACCEPTABLE = [
    ({"algorithms": ("pvp",)}, {}, "algorithm 'dp-admm' is not allowed"),
    ({}, {"algorithm": "admm", "epsilon": None, "delta": None}, "algorithm 'admm' is not allowed"),
    ({}, {"algorithm": "no-such"}, "algorithm 'no-such' is not allowed"),
    ({"losses": ("smoothed-hinge",)}, {}, "loss 'logistic' is not allowed"),
    ({"losses": ("logistic",)}, {"loss": "smoothed-hinge:0.5"}, "loss 'smoothed-hinge:0.5' is not allowed"),
    ({}, {"relation": "zero-out"}, "relation 'zero-out' is not"),
    ({"relation": "zero-out"}, {"relation": "zero-out"}, "relation 'zero-out' is not"),  # the ledger is by replace
    ({}, {"norm_bound": 1.5}, "norm bound 1.5 is above the 1 that is allowed"),
    ({}, {"norm_bound": 0.5}, "clipped to a larger norm"),
    ({}, {"norm_bound": -1.0}, "norm bound"),
    ({"smallest_count": 61}, {}, "fewer than the 61 records"),
    ({}, {"counts": (61, 50)}, "record counts in the terms are not those"),
    ({}, {"counts": (50, 60)}, "record counts in the terms are not those"),
    ({}, {"epsilon": 4.01}, "would come to epsilon 4.01 at delta 1e-06; its owner allows 4"),
    ({"delta": 1e-7}, {"epsilon": 3.99}, "would come to"),
    ({}, {"epsilon": None, "delta": None, "noise_multiplier": 0.0}, "would come to epsilon inf"),
    ({}, {"epsilon": 2.0, "paper_noise": True}, "would come to"),
    ({}, {"epsilon": None}, "the terms cannot be met"),
    ({}, {"rho": -0.1}, "the terms cannot be met"),
    ({}, {"rounds": 0}, "the terms cannot be met"),
    ({"delta": 1e-11}, {"epsilon": 1e-9, "delta": 1e-12}, "the terms cannot be met: noise multiplier .* too large"),
    ({}, {"evaluation_epsilon": 1e-10}, "the terms cannot be met: noise multiplier .* too large"),
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
        play(sample, agent, sample.agreement(**theirs), range(1, 2))
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


# -- several records of a person ---------------------------------------------------------------------------------------


def test_persons_with_several_records_must_be_grouped_and_few(sample: ModuleType, path: Path) -> None:
    terms = sample.agreement(records_per_person=3)
    three = [number // 3 for number in range(sample.RECORDS)]
    four = [number // 4 for number in range(sample.RECORDS)]
    with refused(agent := sample.agent(path, sample.policy(records_per_person=3), persons=four), "more than 3"):
        agent.join("run", terms)
    with refused(agent := sample.agent(path, sample.policy(), persons=three), "more than 1"):
        agent.join("run", terms)
    with refused(agent := sample.agent(path, sample.policy(records_per_person=3)), "not grouped"):
        agent.join("run", terms)
    with pytest.raises(InputError, match="59 persons for 60 records"):
        sample.agent(path, sample.policy(records_per_person=3), persons=three[1:])
    mixed = [None if person == 7 else f"person {person}" if person % 2 else person for person in three]
    sample.agent(path, sample.policy(records_per_person=3), persons=mixed).join("run", terms)


@pytest.mark.parametrize("algorithm", ["dp-admm", "pvp"])
def test_protecting_three_records_triples_the_noise_for_the_same_event(
    sample: ModuleType, path: Path, algorithm: str
) -> None:
    found = []
    for size in (1, 3):
        persons = [number // size for number in range(sample.RECORDS)]
        book = path.with_name(str(size))
        terms = sample.agreement(algorithm, records_per_person=size)
        agent = sample.agent(book, sample.policy(records_per_person=size), sample.Repeatable(), persons=persons)
        (value,) = play(sample, agent, terms, range(1, 2))
        plan = agent._joined["run"].plan
        scale = plan.noise[0].mechanism.scale(plan.setting.gradient_sensitivity(), 3)
        found.append((value, scale, agent.ledger.spent()))
    (one, scale, spent), (three, larger, same) = found
    assert spent == same
    np.testing.assert_allclose(larger, 3 * scale, rtol=1e-9)  # but for what sums may lose
    if algorithm == "pvp":  # noise on the answer: the answer is where 3 * one - three are apart
        plan = sample.agreement("pvp").plan().take(np.array([0]))
        random_bits = np.zeros((1, 3), np.uint64)
        exact, _ = answer(_silent(plan), begin(plan), sample.shards(), sample.inputs(1), 1, lambda *_: random_bits)
        np.testing.assert_allclose(three - exact.value, 3 * (one - exact.value), rtol=1e-6)


def _silent(plan: Any) -> Any:
    mute = tuple(
        replace(noise, mechanism=replace(noise.mechanism, noise_multiplier=np.zeros(1))) for noise in plan.noise
    )
    return replace(plan, noise=mute)


# -- answering ---------------------------------------------------------------------------------------------------------

GOOD = np.zeros((1, 3))
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
    ({"inputs": np.full((1, 3), 1e101)}, "finite and at most 1e.100"),
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
    ({"seen": "seal"}, "a seal is none"),
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
    play(sample, agent, terms, range(1, 4))
    with refused(agent, "round 4 is next, not 5"):
        agent.answer(sample.request(terms, 5))
    with refused(agent, "round 4 is next, not 6"):
        agent.answer(sample.request(terms, 6, missed_inputs={}))


def test_a_repeat_returns_the_same_bytes_at_no_cost_also_after_a_restart(sample: ModuleType, path: Path) -> None:
    agent, terms = sample.agent(path), sample.agreement()
    values = play(sample, agent, terms, range(1, 5))
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
    alone = play(sample, sample.agent(path, None, sample.Repeatable()), terms, range(1, 7))
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


# -- rounds that an owner missed --------------------------------------------------------------------------------------


def test_missed_rounds_are_taken_in_by_their_inputs_and_closed(sample: ModuleType, path: Path) -> None:
    terms = sample.agreement(stragglers="reuse", rho=0.3)
    agent = sample.agent(path, None, sample.Repeatable())
    (first,) = play(sample, agent, terms, range(1, 2))
    for missed in ({}, {3: sample.inputs(3)}, {1: GOOD, 2: GOOD, 3: GOOD}):
        with refused(agent, "round 2 is next: round 4 needs the inputs of all rounds in between"):
            agent.answer(sample.request(terms, 4, missed_inputs=missed))
    with refused(agent, "right before"):
        agent.answer(sample.request(terms, 4, missed_inputs={2: GOOD, 5: GOOD}))
    with refused(agent, "finite"):
        agent.answer(sample.request(terms, 4, missed_inputs={2: GOOD, 3: GOOD * np.nan}))
    missed = {3: sample.inputs(3), 2: sample.inputs(2)}  # in any order
    value = agent.answer(sample.request(terms, 4, missed_inputs=missed)).value
    # By hand: the dual takes in every broadcast with the last release.
    dual = np.zeros((1, 3))
    for round in (2, 3, 4):
        dual = dual - 0.3 * (first - sample.inputs(round))
    np.testing.assert_allclose(agent.state("run").dual, dual, rtol=1e-14)
    plan = terms.plan().take(np.array([0])).on_lattice()
    state = replace(agent.state("run"), released=first, memory=replace(agent.state("run").memory, point=first))

    def random_bits(purpose: str, count: int) -> Any:
        return sample.Repeatable().random_bits(np.zeros(1, int), np.zeros(1, int), 4, purpose, count)

    expected, _ = answer(plan, state, agent.shards, sample.inputs(4), 4, random_bits)
    np.testing.assert_array_equal(value, expected.value)
    assert sum(agent.ledger.spent().values()) == 2
    restarted = sample.agent(path, None, sample.Repeatable())
    restarted.join("run", terms)
    for asked in (agent, restarted):
        for round in (2, 3):
            with refused(asked, f"round {round} is closed; 5 is next"):
                asked.answer(sample.request(terms, round))
        again = asked.answer(sample.request(terms, 4, missed_inputs=missed))
        assert again.value.tobytes() == value.tobytes()
        # It was answered, however it caught up; but for what it was asked with, and nothing else.
        assert asked.answer(sample.request(terms, 4)).value.tobytes() == value.tobytes()
        with refused(asked, "answered for other inputs"):
            asked.answer(sample.request(terms, 4, inputs=sample.inputs(5)))
    restarted.answer(sample.request(terms, 5))
    agent.answer(sample.request(terms, 6))  # and the first process finds where the second has got to
    assert sum(agent.ledger.spent().values()) == 4


def test_how_far_a_run_is_includes_what_another_process_has_answered(sample: ModuleType, path: Path) -> None:
    terms = sample.agreement()
    first, second = (sample.agent(path) for _ in range(2))
    for agent in (first, second):
        agent.join("run", terms)
    for round in (1, 2):
        second.answer(sample.request(terms, round))
        assert first.rounds_answered("run") == second.rounds_answered("run") == round


def test_a_round_closed_by_another_process_stays_closed(sample: ModuleType, path: Path) -> None:
    terms = sample.agreement(stragglers="reuse")
    agents = [sample.agent(path) for _ in range(2)]
    for agent in agents:
        agent.join("run", terms)
    agents[0].answer(sample.request(terms, 3, missed_inputs={1: sample.inputs(1), 2: sample.inputs(2)}))
    with refused(agents[1], "round 2 is closed"):
        agents[1].answer(sample.request(terms, 2, missed_inputs={1: sample.inputs(1)}))


def test_an_owner_that_was_dropped_has_not_moved_its_dual_meanwhile(sample: ModuleType, path: Path) -> None:
    """It takes in the mean that its own release is part of, and none that was made without it."""
    terms = sample.agreement(stragglers="skip", rho=0.3)
    agent = sample.agent(path, None, sample.Repeatable())
    (first,) = play(sample, agent, terms, range(1, 2))
    with refused(agent, "round 2 is next: round 4 needs the inputs of all rounds in between"):
        agent.answer(sample.request(terms, 4, missed_inputs={3: sample.inputs(3)}))
    missed = {2: sample.inputs(2), 3: sample.inputs(3)}
    value = agent.answer(sample.request(terms, 4, missed_inputs=missed)).value
    dual = -0.3 * (first - sample.inputs(2))  # what round 1 came to is heard with round 2
    np.testing.assert_allclose(agent.state("run").dual, dual, rtol=1e-14)
    # And by the parts of a round: it answers with that dual, and with round 4's broadcast and noise.
    plan = terms.plan().take(np.array([0])).on_lattice()

    def random_bits(round: int) -> Any:
        zero = np.zeros(1, dtype=np.int64)
        return lambda purpose, count: sample.Repeatable().random_bits(zero, zero, round, purpose, count)

    release, state = answer(plan, begin(plan), agent.shards, sample.inputs(1), 1, random_bits(1))
    np.testing.assert_array_equal(release.value, first)
    state = absorb(plan, state, sample.inputs(2), 1)
    expected, state = answer(plan, state, agent.shards, sample.inputs(4), 4, random_bits(4))
    np.testing.assert_array_equal(value, expected.value)
    np.testing.assert_array_equal(agent.state("run").dual, state.dual)
    assert sum(agent.ledger.spent().values()) == 2
    restarted = sample.agent(path, None, sample.Repeatable())
    restarted.join("run", terms)
    for asked in (agent, restarted):
        for round in (2, 3):
            with refused(asked, f"round {round} is closed; 5 is next"):
                asked.answer(sample.request(terms, round))
        assert asked.answer(sample.request(terms, 4, missed_inputs=missed)).value.tobytes() == value.tobytes()
    after = restarted.answer(sample.request(terms, 5)).value
    state = absorb(plan, state, sample.inputs(5), 4)
    assert answer(plan, state, agent.shards, sample.inputs(5), 5, random_bits(5))[0].value.tobytes() == after.tobytes()
    assert sum(agent.ledger.spent().values()) == 3


def test_an_owner_that_was_dropped_from_the_start_begins_without_a_dual(sample: ModuleType, path: Path) -> None:
    terms = sample.agreement(stragglers="skip", rho=0.3)
    agent = sample.agent(path)
    agent.join("run", terms)
    agent.answer(sample.request(terms, 3, missed_inputs={1: GOOD, 2: 2.0 * GOOD}))
    np.testing.assert_array_equal(agent.state("run").dual, np.zeros((1, 3)))
    assert sum(agent.ledger.spent().values()) == 1


@pytest.mark.parametrize("away", [range(3, 6), range(1, 4)])
def test_duals_sum_to_zero_whoever_is_dropped_and_the_run_ends_where_all_records_would(
    sample: ModuleType, path: Path, away: range
) -> None:
    """Three owners with next to no noise, one of them away for three rounds. What a server with drops computes is the
    mean of who is there; that this is the step of ADMM is because duals sum to zero. (A dry_run: off the lattice.)"""
    noise = {"epsilon": 1e12, "delta": 1e-6, "rho": 0.5, "strength": 0.1}
    terms = sample.agreement("pvp", stragglers="skip", counts=(60, 60, 60), rounds=100, **noise)
    allowed, plan = sample.policy(epsilon=1e13), terms.plan()
    ledgers = [sample.ledger(path.with_name(str(i))) for i in range(3)]
    owners = [
        Agent(sample.shards(seed=i), allowed, ledger, SeededRandomness(1), members=(i,), dry_run=True)
        for i, ledger in enumerate(ledgers)
    ]
    for owner in owners:
        owner.join("run", terms)
    server, missed = opening(plan, 1), {}
    for round in range(1, 101):
        found = []
        for i, owner in enumerate(owners):
            if i == 1 and round in away:
                missed[round] = server.common
                continue
            given = missed if i == 1 else {}
            found.append(owner.answer(Request("run", terms.digest, round, server.common, dict(given))).value)
            given.clear()
        duals = np.concatenate([owner.state("run").dual for owner in owners])
        if round not in away:  # then all of them have heard the same broadcasts
            np.testing.assert_allclose(duals.sum(axis=0), 0.0, atol=1e-12)
        server = combine(plan, server, np.stack([np.concatenate(found)]), round)
    assert np.abs(duals).max() > 1e-3
    pooled = [sample.shards(seed=i) for i in range(3)]
    together = gather(
        np.concatenate([each.features for each in pooled]),
        np.concatenate([each.targets for each in pooled]),
        np.zeros(180, dtype=np.int64),
        norm_bound=1.0,
        names=["all"],
    )
    problem, weights = plan.setting.problem, np.array([1.0 / 180])
    slope = problem.loss.gradient(together, server.common, weights) + 0.1 * problem.penalty.gradient(server.common)
    assert np.linalg.norm(slope) < 1e-5
    assert np.linalg.norm(server.common) > 0.1


@pytest.mark.parametrize(
    ("algorithm", "stragglers"),
    [("dp-admm", "reuse"), ("dp-admm", "skip"), ("pvp", "reuse"), ("obj-g", "reuse"), ("ps-admm-full", "reuse")],
)
@pytest.mark.parametrize("last_used", [2, 0], ids=["one lost", "all lost"])
def test_answer_that_was_not_used_moves_no_dual(
    sample: ModuleType, path: Path, algorithm: str, stragglers: str, last_used: int
) -> None:
    """Three answers, of which others used those up to `last_used`; then it is asked for round 6."""
    terms = sample.agreement(algorithm, stragglers=stragglers, rho=0.3, rounds=8)
    agent = sample.agent(path, None, sample.Repeatable())
    values = [np.zeros((1, 3)), *play(sample, agent, terms, range(1, 4))]
    last = agent.state("run")
    missed = {round: sample.inputs(round) for round in (3, 4, 5)}
    for wrong in (3, 4, 7):
        with refused(agent, "cannot be the last whose release was used"):
            agent.answer(sample.request(terms, 6, missed_inputs=missed, last_used=wrong))
    with refused(agent, "needs the inputs of all rounds in between"):
        agent.answer(sample.request(terms, 6, missed_inputs={4: GOOD, 5: GOOD}, last_used=last_used))
    agent.answer(sample.request(terms, 6, missed_inputs=missed, last_used=last_used))
    in_use, consensus = values[last_used], terms.plan().algorithm.consensus
    if consensus.server_first:  # a dual moves by the broadcast that is answered; round 3 counts as not answered
        dual = last.dual + 0.3 * (values[3] - sample.inputs(3))
        for round in (3, 4, 5):
            dual = dual - 0.3 * (in_use - sample.inputs(round))
        dual = dual - 0.3 * (agent.state("run").released - sample.inputs(6))
    else:
        dual = last.dual
        for round in (4, 5, 6) if stragglers == "reuse" else ():
            dual = dual - 0.3 * (in_use - sample.inputs(round))
    np.testing.assert_allclose(agent.state("run").dual, dual, rtol=1e-12, atol=1e-14)
    assert sum(agent.ledger.spent().values()) == 4
    restarted = sample.agent(path, None, sample.Repeatable())
    restarted.join("run", terms)
    assert restarted.rounds_answered("run") == 6


def test_terms_that_wait_know_no_answer_that_was_not_used(sample: ModuleType, path: Path) -> None:
    terms = sample.agreement()
    agent = sample.agent(path)
    play(sample, agent, terms, range(1, 3))
    with refused(agent, "cannot be the last whose release was used"):
        agent.answer(sample.request(terms, 3, missed_inputs={2: sample.inputs(2)}, last_used=1))
    for odd in (-1, "1", 1.0, True, b"1"):
        with refused(agent, "must be the number of a round"):
            agent.answer(sample.request(terms, 3, last_used=odd))


# -- local updates, the server first -----------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", LOCAL)
def test_every_local_update_is_debited(sample: ModuleType, path: Path, algorithm: str) -> None:
    """A round is three events of the mechanism: in the ledger, after a restart, and in the total that was agreed."""
    terms = sample.agreement(algorithm, **several(algorithm))
    agent = sample.agent(path)
    agent.join("run", terms)
    plan = terms.plan()
    step = plan.noise[0].mechanism.events()[0]
    three = SelfComposedDpEvent(step, 3)
    assert agent.ledger.committed() == {three: 6}
    for round in range(1, 7):
        assert agent.answer(sample.request(terms, round)).events == (three,)
        reopened = sample.ledger(path)
        assert reopened.spent() == {three: round}
        spent = reopened.guarantee(1e-6)
        assert spent == plan.accounts(round).guarantee(0, 1e-6) == best({step: 3 * round}, 1e-6, Relation.REPLACE)
    assert spent.epsilon == pytest.approx(2.0, rel=1e-6)
    assert spent.epsilon <= 2.0
    assert verify(agent.ledger) == []


def test_a_budget_for_one_update_a_round_does_not_buy_five(sample: ModuleType, path: Path) -> None:
    """With the noise given, five updates cost more than one, and the owner's ledger knows."""
    noise = {"epsilon": None, "noise_multiplier": 5.0}
    sample.agent(path).join("one", sample.agreement("obj-g", **noise))
    agent = sample.agent(path.with_name("other"))
    with refused(agent, "would come to epsilon"):
        agent.join("five", sample.agreement("obj-g", **noise, updates=5))


@pytest.mark.parametrize("algorithm", LOCAL)
def test_every_local_update_has_noise_of_its_own_on_a_lattice(
    sample: ModuleType, path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    made: list[tuple[np.ndarray, np.ndarray, float]] = []
    plain = Mechanism.add

    def spy(self: Mechanism, value: Any, sensitivity: Any, random_bits: Any) -> Any:
        noisy = plain(self, value, sensitivity, random_bits)
        scale = float(self.scale(sensitivity, value.shape[1])[0])
        made.append((noisy, random_bits, 2.0 ** (math.floor(math.log2(scale)) - 32)))
        return noisy

    monkeypatch.setattr(Mechanism, "add", spy)
    # Words that repeat unless they are asked for by another name: the system's would always differ.
    agent = sample.agent(path, None, sample.Repeatable())
    terms = sample.agreement(algorithm, **several(algorithm))
    (value,) = play(sample, agent, terms, range(1, 2))
    assert len(made) == 3
    assert len({random_bits.tobytes() for _, random_bits, _ in made}) == 3
    for noisy, _, step in made:
        assert np.array_equal(noisy / step, np.rint(noisy / step))
    if algorithm.startswith("out"):  # what is sent is their mean, and the last is where the next round goes on
        np.testing.assert_allclose(value, np.mean([noisy for noisy, _, _ in made], axis=0), rtol=1e-14)
        np.testing.assert_array_equal(agent.state("run").memory.point, made[-1][0])


@pytest.mark.parametrize("algorithm", ["obj-g", "out-l"])
def test_missed_rounds_move_a_server_first_dual_by_the_last_release(
    sample: ModuleType, path: Path, algorithm: str
) -> None:
    """By hand: y <- y + rho^k (z^k - x), with the release that in_use for the round, and the penalty of that round."""
    terms = sample.agreement(algorithm, stragglers="reuse", **several(algorithm))
    plan = terms.plan()
    rho = {round: plan.rho(round) for round in range(1, 7)}
    assert rho[1] < rho[2] < rho[4] < rho[6]
    agent = sample.agent(path, None, sample.Repeatable())
    (first,) = play(sample, agent, terms, range(1, 2))
    dual = rho[1] * (sample.inputs(1) - first)
    np.testing.assert_allclose(agent.state("run").dual, dual, rtol=1e-14)
    missed = {2: sample.inputs(2), 3: sample.inputs(3)}
    value = agent.answer(sample.request(terms, 4, missed_inputs=missed)).value
    for round, release in ((2, first), (3, first), (4, value)):
        dual = dual + rho[round] * (sample.inputs(round) - release)
    np.testing.assert_allclose(agent.state("run").dual, dual, rtol=1e-13)
    assert np.abs(dual).max() > 0.1
    restarted = sample.agent(path, None, sample.Repeatable())
    restarted.join("run", terms)
    after = restarted.answer(sample.request(terms, 5)).value
    dual = dual + rho[5] * (sample.inputs(5) - after)
    np.testing.assert_allclose(restarted.state("run").dual, dual, rtol=1e-13)
    assert sum(restarted.ledger.spent().values()) == 3


def test_an_owner_that_missed_the_first_rounds_stands_by_where_it_began(sample: ModuleType, path: Path) -> None:
    terms = sample.agreement("obj-g", stragglers="reuse", set="simplex:0.6", **several("obj-g"))
    plan, first = terms.plan(), np.full((1, 3), 0.2)
    agent = sample.agent(path)
    agent.join("run", terms)
    missed = {1: np.ones((1, 3)), 2: sample.inputs(2)}
    value = agent.answer(sample.request(terms, 3, missed_inputs=missed)).value
    dual = (
        plan.rho(1) * (missed[1] - first) + plan.rho(2) * (missed[2] - first) + plan.rho(3) * (sample.inputs(3) - value)
    )
    np.testing.assert_allclose(agent.state("run").dual, dual, rtol=1e-12)


def test_a_server_that_reuses_stale_releases_keeps_the_duals_of_owners_that_miss_rounds(
    sample: ModuleType, path: Path
) -> None:
    """Two owners, one of which is away for two rounds: the mean of their duals is the server's all the while."""
    terms = sample.agreement("obj-g", stragglers="reuse", counts=(60, 60), **several("obj-g"))
    plan = terms.plan()
    owners = [
        Agent(
            sample.shards(seed=i),
            sample.policy(),
            sample.ledger(path.with_name(str(i))),
            SystemRandomness(),
            members=(i,),
        )
        for i in range(2)
    ]
    for owner in owners:
        owner.join("run", terms)
    server, last, missed = opening(plan, 1), begin(plan).released, {}
    for round in range(1, 7):
        for i, owner in enumerate(owners):
            if i == 1 and round in (3, 4):
                missed[round] = server.common
                continue
            given = missed if i == 1 else {}
            asked = Request("run", terms.digest, round, server.common, dict(given))
            last = np.concatenate([last[:i], owner.answer(asked).value, last[i + 1 :]])
            given.clear()
        server = combine(plan, server, last[None], round)
        if round not in (3, 4):
            duals = np.concatenate([owner.state("run").dual for owner in owners])
            np.testing.assert_allclose(server.dual[0], duals.mean(axis=0), rtol=1e-10, atol=1e-13)
    assert np.abs(server.dual).max() > 1e-4


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


# -- records in float32 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kept", "agreed"), [("float32", "float64"), ("float64", "float32")])
def test_terms_for_records_of_another_precision_are_refused(
    sample: ModuleType, path: Path, kept: str, agreed: str
) -> None:
    """What sums can lose is paid for by the terms, so they must be about the records there are."""
    agent = sample.agent(path, records=sample.shards(precision=kept))
    with refused(agent, f"the terms are for {agreed} records; these are kept in {kept}"):
        agent.join("run", sample.agreement("obj-g", precision=agreed))
    with refused(agent, "the terms cannot be met: unknown precision 'float16'"):
        agent.join("run", sample.agreement("obj-g", precision="float16"))
    terms = sample.agreement("obj-g", precision=kept)
    assert np.isfinite(play(sample, agent, terms, range(1, 4))).all()


def test_an_exact_solver_over_float32_records_is_refused_at_joining(sample: ModuleType, path: Path) -> None:
    agent = sample.agent(path, records=sample.shards(precision="float32"))
    with refused(agent, "solver 'exact' cannot reach its tolerance on float32"):
        agent.join("run", sample.agreement("pvp", precision="float32"))


@pytest.mark.parametrize("algorithm", ["dpsgd", "dp-admm", "obj-g", "out-l"])
def test_large_inputs_to_float32_records_get_numbers_or_a_refusal(
    sample: ModuleType, path: Path, algorithm: str
) -> None:
    agent = sample.agent(path, records=sample.shards(precision="float32"))
    terms = sample.agreement(algorithm, precision="float32")
    agent.join("run", terms)
    for round in (1, 2, 3):
        asked = sample.request(terms, round, inputs=np.array([[1e100, -1e100, 1e100]]))
        try:
            assert np.isfinite(agent.answer(asked).value).all()
        except Refused:
            return


def test_whether_a_release_is_a_number_does_not_depend_on_the_records(sample: ModuleType, path: Path) -> None:
    """Two neighbours in float32, one with a zero in a record where the model is huge: no epsilon covers that."""
    found = []
    for number, special in enumerate((0.5, 0.0)):
        plain = sample.shards(precision="float32")
        rows = np.where(plain.features == 0.0, 0.1, plain.features)
        rows[7] = [special, 0.1, 0.1]
        records = gather(rows, plain.targets, np.zeros(60, dtype=int), norm_bound=1.0, precision="float32")
        agent = sample.agent(path.with_name(str(number)), records=records)
        terms = sample.agreement("dpsgd", precision="float32")
        agent.join("run", terms)
        try:
            release = agent.answer(sample.request(terms, 1, inputs=np.array([[1e100, 0.0, 0.0]])))
            found.append(bool(np.isfinite(release.value).all()))
        except Refused:
            found.append(None)
    assert found[0] == found[1]


# -- restarting --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [*PRIVATE, *LOCAL])
def test_a_run_interrupted_anywhere_equals_the_uninterrupted_one(
    sample: ModuleType, path: Path, algorithm: str
) -> None:
    terms = sample.agreement(algorithm, rounds=5, evaluation_epsilon=0.2, **several(algorithm))
    double = sample.Repeatable(3)
    whole = play(sample, sample.agent(path, None, double), terms, range(1, 6))
    assert len({value.tobytes() for value in whole}) == 5
    for cut in range(1, 5):
        book = path.with_name(f"cut {cut}")
        values = play(sample, sample.agent(book, None, double), terms, range(1, cut + 1))
        values += play(sample, sample.agent(book, None, double), terms, range(cut + 1, 6))
        np.testing.assert_array_equal(values, whole)
    book = path.with_name("cut every round")
    values = []
    for round in range(1, 6):
        values += play(sample, sample.agent(book, None, double), terms, range(round, round + 1))
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
            sample,
            sample.agent(path.with_name(str(seed)), None, sample.Repeatable(seed)),
            sample.agreement(),
            range(1, 3),
        )
        for seed in (1, 2)
    )
    assert not np.any(np.array(one) == np.array(other))


# -- the policy --------------------------------------------------------------------------------------------------------


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
        ('dataset = "p"\nepsilon = 0\ndelta = 0', "epsilon must be positive"),
        ('dataset = "p"\nepsilon = 1\ndelta = 1', "delta must be in"),
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
    (value,) = play(sample, agent, terms, range(1, 2))
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
    play(sample, agent, terms, range(1, 2), "early")
    agent.policy = loose
    play(sample, agent, terms, range(1, 7), "late")
    assert agent.ledger.guarantee(1e-6).epsilon > 2.05
    restarted = sample.agent(path, loose)
    restarted.join("early", terms)
    for asked in (agent, restarted):
        with refused(asked, "its owner allows 2.05"):
            asked.answer(sample.request(terms, 2, "early"))
    play(sample, restarted, terms, range(1, 7), "later still")


# -- randomness --------------------------------------------------------------------------------------------------------


def test_seeded_noise_is_for_simulations_and_simulations_are_for_seeded_noise(sample: ModuleType, path: Path) -> None:
    with pytest.raises(InputError, match="seeded noise protects nobody"):
        sample.agent(path, randomness=SeededRandomness(1))
    book = sample.ledger(path)
    with pytest.raises(InputError, match="real releases need one"):
        Agent(sample.shards(), None, book, sample.agent(path).randomness)
    with pytest.raises(InputError, match="plans are for simulations"):
        sample.agent(path).simulate("run", sample.agreement().plan(), None, 0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="2 members for 1 shards"):
        Agent(sample.shards(), sample.policy(), book, sample.agent(path).randomness, members=(0, 1))


def test_a_rehearsal_has_seeded_noise_a_policy_and_a_ledger_of_its_own(
    sample: ModuleType, path: Path, tmp_path: Path
) -> None:
    """What it computes is what a simulation with its seed does, off the lattice and by its place among the agents."""
    registry, terms = LedgerRegistry(tmp_path / "shelf"), sample.agreement("pvp", counts=(50, 60))
    agent = Agent.open(sample.shards(), sample.policy(), path, member=1, registry=registry, dry_run=5)
    assert agent.randomness == SeededRandomness(5)
    assert agent.ledger.dataset == "dry run of patients"
    found = play(sample, agent, terms, range(1, 5))
    assert sum(agent.ledger.spent().values()) == 4
    with refused(agent, "would come to"):
        agent.join("another", sample.agreement("pvp", counts=(50, 60), epsilon=3.9))
    plan = terms.plan().take(np.array([1]))
    twin = Agent(sample.shards(), None, MemoryLedger(1, Relation.REPLACE), SeededRandomness(5), members=(1,))
    twin.simulate("run", plan, begin(plan), 0)
    for round, value in enumerate(found, start=1):
        expected = twin.answer(Request("run", "run", round, sample.inputs(round))).value
        assert value.tobytes() == expected.tobytes()
    again = Agent.open(sample.shards(), sample.policy(), path, member=1, registry=registry, dry_run=5)
    again.join("run", terms)
    assert again.rounds_answered("run") == 4
    assert again.repeat("run", 2).value.tobytes() == found[1].tobytes()
    for round in (0, 5, 7, "2", True, None):
        with refused(again, "no such release"):
            again.repeat("run", round)  # type: ignore[arg-type]
    with refused(again, "no such release"):
        again.repeat("another", 1)
    with refused(again, "was not joined"):
        again.rounds_answered("another")


def test_a_ledger_is_for_rehearsals_or_for_releases_and_never_for_both(
    sample: ModuleType, path: Path, tmp_path: Path
) -> None:
    registry, rehearsed = LedgerRegistry(tmp_path / "shelf"), path.with_name("rehearsed")
    Agent.open(sample.shards(), sample.policy(), path, registry=registry)
    Agent.open(sample.shards(), sample.policy(), rehearsed, registry=registry, dry_run=0)
    with pytest.raises(InputError, match="is for data set 'patients', not 'dry run of patients'"):
        Agent.open(sample.shards(), sample.policy(), path, registry=registry, dry_run=0)
    with pytest.raises(InputError, match="is for data set 'dry run of patients', not 'patients'"):
        Agent.open(sample.shards(), sample.policy(), rehearsed, registry=registry)
    # Not even under a name that is made to fit.
    with pytest.raises(InputError, match=r"is for records \(by digest\)"):
        Agent.open(sample.shards(), sample.policy(dataset="dry run of patients"), rehearsed, registry=registry)
    assert not Agent.open(sample.shards(), sample.policy(), path, registry=registry).randomness.simulated


def test_an_agent_with_a_policy_answers_for_one_owner(sample: ModuleType, path: Path) -> None:
    two = sample.shards().tile(2)
    with pytest.raises(InputError, match="one owner"):
        Agent(two, sample.policy(), sample.ledger(path), sample.agent(path).randomness, members=(0, 1))


def test_real_releases_are_never_alike(sample: ModuleType, path: Path) -> None:
    """Same records, same terms, same requests: the noise differs everywhere."""
    terms = sample.agreement("pvp", evaluation_epsilon=0.2)
    values = []
    for number in range(4):
        agent = sample.agent(path.with_name(str(number)))
        values.append(np.concatenate(play(sample, agent, terms, range(1, 4))).ravel())
        values[-1] = np.append(values[-1], agent.answer(sample.request(terms, "evaluation")).value)
    for column in np.array(values).T:
        assert np.unique(column).size == 4


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_real_releases_are_on_a_lattice(
    sample: ModuleType, path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    made: list[tuple[np.ndarray, float]] = []
    plain = Mechanism.add

    def spy(self: Mechanism, value: Any, sensitivity: Any, random_bits: Any) -> Any:
        noisy = plain(self, value, sensitivity, random_bits)
        scale = float(self.scale(sensitivity, value.shape[1])[0])
        made.append((noisy, 2.0 ** (math.floor(math.log2(scale)) - 32)))
        return noisy

    monkeypatch.setattr(Mechanism, "add", spy)
    terms = sample.agreement(algorithm, evaluation_epsilon=0.2)
    agent = sample.agent(path)
    values = play(sample, agent, terms, range(1, 4))
    values.append(agent.answer(sample.request(terms, "evaluation")).value)
    assert len(made) == len(values) == 4
    for (noisy, step), value in zip(made, values, strict=True):
        assert np.array_equal(noisy / step, np.rint(noisy / step))
        if algorithm != "dp-admm" or value.size == 1:  # its release is a step along the noisy gradient
            np.testing.assert_array_equal(noisy, value)


# -- evaluation --------------------------------------------------------------------------------------------------------


def test_an_evaluation_is_a_release_like_any_other(sample: ModuleType, path: Path) -> None:
    terms = sample.agreement(evaluation_epsilon=0.5)
    agent = sample.agent(path)
    values = play(sample, agent, terms, range(1, 3))
    model = np.array([[0.5, -0.5, 0.5]])
    scores = agent.shards.features @ model[0]
    share = float(np.mean(np.sign(scores) != agent.shards.targets))
    asked = sample.request(terms, "evaluation", inputs=model)
    release = agent.answer(asked)
    assert release.value.shape == (1, 1)
    scale = (1 / 60) / 0.5
    assert abs(release.value[0, 0] - share) < 25 * scale  # beyond it with probability e^-25
    assert release.value[0, 0] != share
    assert release.events == (LaplaceDpEvent(2.0),)
    gaussian = agent._joined["run"].plan.events(1)[0]
    assert agent.ledger.spent() == {gaussian: 2, LaplaceDpEvent(2.0): 1}
    total = agent.ledger.guarantee(1e-6, held=True)
    assert total == best({gaussian: 6, LaplaceDpEvent(2.0): 1}, 1e-6, Relation.REPLACE)
    assert total.accountant == "pure+gaussian"
    assert total.epsilon == pytest.approx(2.0, rel=1e-9)  # the agreed epsilon covers both
    spent = agent.ledger.spent()
    restarted = sample.agent(path)
    restarted.join("run", terms)
    for again in (agent, restarted):
        assert again.answer(asked).value.tobytes() == release.value.tobytes()
        with refused(again, "answered for other inputs"):
            again.answer(replace(asked, inputs=model + 1.0))
        with refused(again, "missed rounds"):
            again.answer(replace(asked, missed_inputs={1: model}))
    assert agent.ledger.spent() == spent
    assert restarted.answer(sample.request(terms, 2)).value.tobytes() == values[1].tobytes()
    restarted.answer(sample.request(terms, 3))


def test_an_evaluations_noise_has_the_agreed_scale(sample: ModuleType, path: Path) -> None:
    """Many owners of the same records: the spread of their answers is that of Laplace noise of scale 1/(m epsilon)."""
    terms = sample.agreement(evaluation_epsilon=0.5)
    values = []
    for number in range(100):
        agent = sample.agent(path.with_name(str(number)))
        agent.join("run", terms)
        values.append(float(agent.answer(sample.request(terms, "evaluation")).value[0, 0]))
    assert np.std(values) == pytest.approx(math.sqrt(2) / (60 * 0.5), rel=0.35)


# -- the same code in simulations --------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [*PRIVATE, "dpsgd", "admm", *LOCAL])
def test_a_batch_through_an_agent_equals_the_functions_it_calls(sample: ModuleType, algorithm: str) -> None:
    one = sample.shards(120)
    shards = gather(one.features, one.targets, np.arange(120) % 3, norm_bound=1.0)
    private = {} if algorithm != "admm" else {"epsilon": None, "delta": None}
    plan = sample.agreement(algorithm, counts=(40, 40, 40), **private, **several(algorithm)).plan()
    members, runs = np.tile(np.arange(3), 2), np.repeat([4, 9], 3)
    rows, records = plan.take(members), shards.tile(2)
    agent = Agent(records, None, MemoryLedger(6, Relation.REPLACE), SeededRandomness(2), members=members, runs=runs)
    agent.simulate("batch", rows, begin(rows), 0)
    state = begin(rows)
    for round in range(1, 5):
        common = np.random.default_rng(round).normal(size=(2, 3))

        def random_bits(purpose: str, count: int, round: int = round) -> Any:
            return SeededRandomness(2).random_bits(runs, members, round, purpose, count)

        state = absorb(rows, state, np.repeat(common, 3, axis=0), round - 1)
        expected, state = answer(rows, state, records, np.repeat(common, 3, axis=0), round, random_bits)
        found = agent.answer(Request("batch", "batch", round, common))
        assert found.value.tobytes() == expected.value.tobytes()
        assert found.events == expected.events
        assert agent.state("batch").dual.tobytes() == state.dual.tobytes()
        assert agent.state("batch").memory.point.tobytes() == state.memory.point.tobytes()
    assert agent.ledger.accounts.tally(0) == {expected.events[0]: 4}


@pytest.mark.parametrize("algorithm", [*PRIVATE, *LOCAL])
def test_an_owner_computes_what_a_simulation_on_the_lattice_does(
    sample: ModuleType, path: Path, algorithm: str
) -> None:
    terms = sample.agreement(algorithm, **several(algorithm))
    real = play(sample, sample.agent(path, None, sample.Repeatable(5)), terms, range(1, 5))
    plan = terms.plan().take(np.array([0])).on_lattice()
    twin = Agent(sample.shards(), None, MemoryLedger(1, Relation.REPLACE), SeededRandomness(5))
    twin.simulate("run", plan, begin(plan), 0)
    for round in range(1, 5):
        value = twin.answer(Request("run", "run", round, sample.inputs(round))).value
        np.testing.assert_array_equal(value, real[round - 1])


# -- the ledger under it -----------------------------------------------------------------------------------------------


def test_open_makes_the_ledger_of_these_records(sample: ModuleType, path: Path, tmp_path: Path) -> None:
    registry = LedgerRegistry(tmp_path / "shelf")
    agent = Agent.open(sample.shards(), sample.policy(), path, registry=registry)
    play(sample, agent, sample.agreement(), range(1, 3))
    again = Agent.open(sample.shards(), sample.policy(), path, registry=registry)
    assert again.ledger.spent() == agent.ledger.spent()
    assert not again.randomness.simulated
    with pytest.raises(InputError, match="records"):
        Agent.open(sample.shards(seed=1), sample.policy(), path, registry=registry)
    with pytest.raises(InputError, match="same name"):
        Agent.open(sample.shards(), sample.policy(), tmp_path / "second.ledger", registry=registry)
    with pytest.raises(InputError, match="same content"):
        Agent.open(sample.shards(), sample.policy(dataset="renamed"), tmp_path / "third.ledger", registry=registry)


@pytest.mark.parametrize("trouble", ["disk full", "read-only"])
def test_a_ledger_that_cannot_be_written_releases_nothing(sample: ModuleType, path: Path, trouble: str) -> None:
    agent, terms = sample.agent(path), sample.agreement("pvp", rounds=60)
    values = play(sample, agent, terms, range(1, 3))
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


def test_a_restored_ledger_refuses_once_it_is_shown_a_later_seal(sample: ModuleType, path: Path) -> None:
    agent, terms = sample.agent(path), sample.agreement()
    play(sample, agent, terms, range(1, 3))
    backup = path.read_bytes()
    late = agent.answer(sample.request(terms, 3))
    agent.ledger.close()
    path.write_bytes(backup)
    restored = sample.agent(path)
    restored.join("run", terms)
    with pytest.raises(Refused, match="old backup"):
        restored.answer(sample.request(terms, 3, seen=late.seal))
    with pytest.raises(Refused, match="locked"):
        restored.answer(sample.request(terms, 3))
    assert sum(restored.ledger.spent().values()) == 2
    restored.ledger.confirm()
    restored.ledger.record_lost({late.events[0]: 1})
    restored.answer(sample.request(terms, 3))
    assert sum(restored.ledger.spent().values()) == 4
    assert verify(restored.ledger) == []


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


def test_a_refusal_says_nothing_about_the_records(
    sample: ModuleType, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solver that gives up knows the length of a private gradient; whoever asked must not."""
    agent, terms = sample.agent(path), sample.agreement("pvp")
    agent.join("run", terms)

    def give_up(*_: object) -> None:
        raise ConvergenceError("Newton stopped at a gradient of 1.2345e-03")

    monkeypatch.setattr("dpadmm.owner.agent.answer", give_up)
    with refused(agent, "did not reach its tolerance"):
        agent.answer(sample.request(terms, 1))
    assert not any("1.2345" in reason for reason, _, _ in agent.ledger.refusals())


@pytest.mark.parametrize(("algorithm", "penalty"), [("pvp", "l2"), ("pvp", "l1"), ("dvp", "l2")])
def test_whether_a_step_is_refused_does_not_depend_on_the_records(
    sample: ModuleType, path: Path, algorithm: str, penalty: str
) -> None:
    """Large inputs, at which some owners' solvers would reach their tolerance and others' would not: refused for all.

    A refusal is free, so it must be a function of what the asker knows anyway.
    """
    terms = sample.agreement(algorithm, penalty=penalty)
    agents = []
    for seed in range(6):
        agent = sample.agent(path.with_name(str(seed)), None, sample.Repeatable(seed), records=sample.shards(seed=seed))
        agent.join("run", terms)
        agents.append(agent)
    outcomes = set()
    for size in 10.0 ** np.arange(12, 2, -0.5):
        given = np.random.default_rng(1).normal(size=(1, 3)) * size
        found = {_outcome(agent, sample.request(terms, 1, inputs=given)) for agent in agents}
        assert len(found) == 1
        outcomes |= found
        if "answered" in found:
            break
    assert outcomes == {"the inputs are too large for the solver to reach its tolerance.", "answered"}
    assert size > 1e4  # nothing that an honest run would send


def _outcome(agent: Agent, request: Request) -> str:
    try:
        agent.answer(request)
    except Refused as refused:
        return str(refused)
    return "answered"


def test_a_simulation_sees_why_its_solver_gave_up(sample: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = sample.agreement("pvp").plan().take(np.array([0]))
    agent = Agent(sample.shards(), None, MemoryLedger(1, Relation.REPLACE), SeededRandomness(0))
    agent.simulate("run", plan, begin(plan), 0)
    with pytest.raises(ConvergenceError, match="gradient of"):
        agent.answer(Request("run", "run", 1, np.full((1, 3), 1e12)))
