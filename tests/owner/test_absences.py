"""Rounds that an owner missed: what it needs to go on, how its dual moves, and what it pays."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from owners import GOOD, play, refused, several

from dpadmm.admm.rounds import absorb, begin, first_state, next_server, solve_and_perturb
from dpadmm.owner.agent import Agent
from dpadmm.owner.request import Request
from dpadmm.problems.shards import gather
from dpadmm.release.random_bits import SeededRandomness, SystemRandomness


def test_missed_rounds_are_taken_in_by_their_inputs_and_closed(sample: ModuleType, path: Path) -> None:
    terms = sample.agreement(stragglers="reuse", rho=0.3)
    agent = sample.agent(path, None, sample.Repeatable())
    (first,) = play(agent, terms, range(1, 2))
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
    plan = terms.plan().take(np.array([0]))
    state = replace(agent.state("run"), released=first, memory=replace(agent.state("run").memory, point=first))
    expected, _ = solve_and_perturb(plan, state, agent.shards, sample.inputs(4), 4, sample.Repeatable().bits(4))
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
    (first,) = play(agent, terms, range(1, 2))
    with refused(agent, "round 2 is next: round 4 needs the inputs of all rounds in between"):
        agent.answer(sample.request(terms, 4, missed_inputs={3: sample.inputs(3)}))
    missed = {2: sample.inputs(2), 3: sample.inputs(3)}
    value = agent.answer(sample.request(terms, 4, missed_inputs=missed)).value
    dual = -0.3 * (first - sample.inputs(2))  # what round 1 came to is heard with round 2
    np.testing.assert_allclose(agent.state("run").dual, dual, rtol=1e-14)
    # And by the parts of a round: it answers with that dual, and with round 4's broadcast and noise.
    plan = terms.plan().take(np.array([0]))
    random_bits = sample.Repeatable().bits
    release, state = solve_and_perturb(plan, begin(plan), agent.shards, sample.inputs(1), 1, random_bits(1))
    np.testing.assert_array_equal(release.value, first)
    state = absorb(plan, state, sample.inputs(2), 1)
    expected, state = solve_and_perturb(plan, state, agent.shards, sample.inputs(4), 4, random_bits(4))
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
    assert (
        solve_and_perturb(plan, state, agent.shards, sample.inputs(5), 5, random_bits(5))[0].value.tobytes()
        == after.tobytes()
    )
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
    mean of who is there; that this is the step of ADMM is because duals sum to zero. (A dry run.)"""
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
    server, missed = first_state(plan, 1).server, {}
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
        server = next_server(plan, server, np.stack([np.concatenate(found)]), round)
    assert np.abs(duals).max() > 1e-3
    pooled = [sample.shards(seed=i) for i in range(3)]
    together = gather(
        np.concatenate([each.real_rows for each in pooled]),
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
    values = [np.zeros((1, 3)), *play(agent, terms, range(1, 4))]
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
    play(agent, terms, range(1, 3))
    with refused(agent, "cannot be the last whose release was used"):
        agent.answer(sample.request(terms, 3, missed_inputs={2: sample.inputs(2)}, last_used=1))
    for odd in (-1, "1", 1.0, True, b"1"):
        with refused(agent, "must be the number of a round"):
            agent.answer(sample.request(terms, 3, last_used=odd))


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
    (first,) = play(agent, terms, range(1, 2))
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
    server, last, missed = first_state(plan, 1).server, begin(plan).released, {}
    for round in range(1, 7):
        for i, owner in enumerate(owners):
            if i == 1 and round in (3, 4):
                missed[round] = server.common
                continue
            given = missed if i == 1 else {}
            asked = Request("run", terms.digest, round, server.common, dict(given))
            last = np.concatenate([last[:i], owner.answer(asked).value, last[i + 1 :]])
            given.clear()
        server = next_server(plan, server, last[None], round)
        if round not in (3, 4):
            duals = np.concatenate([owner.state("run").dual for owner in owners])
            np.testing.assert_allclose(server.dual[0], duals.mean(axis=0), rtol=1e-10, atol=1e-13)
    assert np.abs(server.dual).max() > 1e-4
