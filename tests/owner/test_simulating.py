"""Simulations and dry runs: agents with seeded noise compute what agents with real noise do."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from owners import LOCAL, PRIVATE, play, refused, several

from dpadmm.admm.rounds import absorb, begin, solve_and_perturb
from dpadmm.errors import InputError, Refused
from dpadmm.owner.agent import Agent
from dpadmm.owner.request import Request
from dpadmm.privacy.events import Relation
from dpadmm.privacy.ledger.memory import MemoryLedger
from dpadmm.privacy.ledger.registry import LedgerRegistry
from dpadmm.problems.shards import gather
from dpadmm.release.random_bits import SeededRandomness


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
    """What it computes is what a simulation with its seed does, by its place among the agents."""
    registry, terms = LedgerRegistry(tmp_path / "shelf"), sample.agreement("pvp", counts=(50, 60))
    agent = Agent.open(sample.shards(), sample.policy(), path, member=1, registry=registry, dry_run=5)
    assert agent.randomness == SeededRandomness(5)
    assert agent.ledger.dataset == "dry run of patients"
    found = play(agent, terms, range(1, 5))
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
    with pytest.raises(InputError, match="these records have a ledger"):
        Agent.open(sample.shards(), sample.policy(), rehearsed, registry=registry, dry_run=0)
    Agent.open(sample.shards(seed=1), sample.policy(), rehearsed, registry=registry, dry_run=0)
    with pytest.raises(InputError, match="is for data set 'patients', not 'dry run of patients'"):
        Agent.open(sample.shards(seed=1), sample.policy(), path, registry=registry, dry_run=0)
    with pytest.raises(InputError, match="is for data set 'dry run of patients', not 'patients'"):
        Agent.open(sample.shards(), sample.policy(), rehearsed, registry=registry)
    # Not even under a name that is made to fit.
    with pytest.raises(InputError, match="a data set of the same content has its ledger"):
        Agent.open(sample.shards(), sample.policy(dataset="dry run of patients"), rehearsed, registry=registry)
    assert not Agent.open(sample.shards(), sample.policy(), path, registry=registry).randomness.simulated


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

        def random_bits(purpose: str, round: int = round) -> Any:
            return SeededRandomness(2).stream(runs, members, round, purpose)

        state = absorb(rows, state, np.repeat(common, 3, axis=0), round - 1)
        expected, state = solve_and_perturb(rows, state, records, np.repeat(common, 3, axis=0), round, random_bits)
        found = agent.answer(Request("batch", "batch", round, common))
        assert found.value.tobytes() == expected.value.tobytes()
        assert found.events == expected.events
        assert agent.state("batch").dual.tobytes() == state.dual.tobytes()
        assert agent.state("batch").memory.point.tobytes() == state.memory.point.tobytes()
    assert agent.ledger.accounts.tally(0) == {expected.events[0]: 4}


@pytest.mark.parametrize("algorithm", [*PRIVATE, *LOCAL])
def test_an_owner_computes_what_a_simulation_does(sample: ModuleType, path: Path, algorithm: str) -> None:
    terms = sample.agreement(algorithm, **several(algorithm))
    real = play(sample.agent(path, None, sample.Repeatable(5)), terms, range(1, 5))
    plan = terms.plan().take(np.array([0]))
    twin = Agent(sample.shards(), None, MemoryLedger(1, Relation.REPLACE), SeededRandomness(5))
    twin.simulate("run", plan, begin(plan), 0)
    for round in range(1, 5):
        value = twin.answer(Request("run", "run", round, sample.inputs(round))).value
        np.testing.assert_array_equal(value, real[round - 1])


def test_inputs_beyond_a_solvers_reach_are_refused_by_public_numbers(sample: ModuleType) -> None:
    """Whatever the records are, in the same words."""
    plan = sample.agreement("pvp").plan().take(np.array([0]))
    reasons = []
    for seed in (0, 1):
        agent = Agent(sample.shards(seed=seed), None, MemoryLedger(1, Relation.REPLACE), SeededRandomness(0))
        agent.simulate("run", plan, begin(plan), 0)
        with pytest.raises(Refused, match="rounding may change a gradient") as caught:
            agent.answer(Request("run", "run", 1, np.full((1, 3), 1e9)))
        reasons.append(str(caught.value))
    assert reasons[0] == reasons[1]
