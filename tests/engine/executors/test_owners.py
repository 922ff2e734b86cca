"""Owners with agents of their own: the releases of a simulation, up to their noise, and nothing else."""

import numpy as np
import pytest

from dpadmm.engine.cohort import RUN, Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.executors.owners import OwnerExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.metrics import empirical_loss
from dpadmm.engine.prepare import prepare
from dpadmm.errors import InputError
from dpadmm.owner.request import Request
from dpadmm.release import perturb
from dpadmm.release.random_bits import SeededRandomness, SystemRandomness


def place(owners, prepared):
    """The owners join."""
    together = Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(0))
    owners.place(together, SimulationState.of(together))


@pytest.fixture
def silent(monkeypatch):
    """No noise is drawn, neither by seed nor by the system; what is drawn else is the same."""
    for law in ("discrete_gaussian", "discrete_laplace"):
        monkeypatch.setattr(
            perturb, law, lambda scales, dimension, stream: np.zeros((len(scales), dimension), dtype=np.int64)
        )


@pytest.fixture
def cohort(experiment):
    """cohort(algorithm, **changes): what was prepared, its cohort, and its owners."""

    def make(algorithm="dp-admm", **changes):
        prepared = prepare(experiment(algorithm, test=0.0, **changes))
        together = Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(0))
        return prepared, together, OwnerExecutor(prepared.experiment.run, 2)

    return make


@pytest.mark.parametrize("algorithm", ["dp-admm", "dpsgd", "pvp", "obj-g", "private-r-admm", "pvp-graph"])
def test_without_noise_owners_answer_as_a_simulation_does(algorithm, cohort, silent):
    _, together, owners = cohort(algorithm)
    simulated = list(rounds(together, SimulationState.of(together), InProcessExecutor()))
    answered = list(rounds(together, SimulationState.of(together), owners))
    assert len(answered) == 12
    for one, other in zip(simulated, answered, strict=True):
        np.testing.assert_array_equal(other.agents.released, one.agents.released)
        np.testing.assert_array_equal(other.agents.dual, one.agents.dual)
        np.testing.assert_array_equal(other.shared.model, one.shared.model)
    assert np.abs(answered[-1].shared.model).max() > 1e-3


def test_their_noise_is_as_loud_as_the_plan_says(cohort):
    """A gradient's release is the gradient plus noise: the same request to fresh owners spreads by the noise alone."""
    prepared, together, _ = cohort("dpsgd", agents=2)
    first = []
    for _ in range(60):
        owners = OwnerExecutor(prepared.experiment.run, 2)
        first.append(next(rounds(together, SimulationState.of(together), owners)).agents.released)
    noise = prepared.plan.noise[0].mechanism.noise_multiplier * prepared.plan.setting.gradient_sensitivity()
    np.testing.assert_allclose(np.std(first, axis=(0, 2)), noise, rtol=0.25)


def test_no_seeded_bits_are_asked_for(cohort, monkeypatch):
    _, together, owners = cohort("ps-admm")  # which draws mini-batches as well
    monkeypatch.setattr(SeededRandomness, "stream", lambda *_: pytest.fail("seeded bits were asked for"))
    drawn, stream = [], SystemRandomness.stream
    monkeypatch.setattr(
        SystemRandomness, "stream", lambda self, *names: drawn.append(names[1:3]) or stream(self, *names)
    )
    assert len(list(rounds(together, SimulationState.of(together), owners))) == 12
    assert {int(member) for members, _ in drawn for member in members} == {0, 1, 2, 3, 4}
    assert {round for _, round in drawn} == set(range(1, 13))


@pytest.mark.parametrize("algorithm", ["dp-admm", "obj-g", "out-l", "private-r-admm"])
def test_their_books_say_what_the_plan_says(algorithm, cohort):
    prepared, together, owners = cohort(algorithm)
    for state in rounds(together, SimulationState.of(together), owners):
        if state.round == 3:
            early = [together.plan.accounts(3).guarantee(agent, 1e-5) for agent in range(5)]
            assert owners.spent(1e-5) == early
    planned = [together.plan.accounts().guarantee(agent, 1e-5) for agent in range(5)]
    assert owners.spent(1e-5) == planned
    assert all(found.epsilon <= 2.0 for found in planned)
    assert prepared.plan.accounts().worst(1e-5).epsilon == max(found.epsilon for found in planned)


def test_owners_have_budgets_of_their_own(cohort):
    _, together, owners = cohort("dp-admm", epsilon=None, delta=None, agents=3, epsilons=[0.5, 1.0, 2.0], deltas=[1e-5])
    list(rounds(together, SimulationState.of(together), owners))
    assert [found.epsilon for found in owners.spent(1e-5)] == pytest.approx([0.5, 1.0, 2.0], rel=1e-6)


def test_nothing_is_measured_on_their_records(cohort):
    _, _, owners = cohort()
    with pytest.raises(InputError, match="losses on records are for simulations"):
        owners.read([(empirical_loss, (np.zeros((5, 4)),))])


def test_an_owner_who_cannot_take_part_is_named(experiment):
    prepared = prepare(experiment("fdp-admm", loss="quantile", test=0.0))
    run = prepared.experiment.changed(algorithm="pvp").run
    with pytest.raises(InputError, match="owner 'agent 0' does not take part: the terms cannot be met"):
        place(OwnerExecutor(run, 0), prepared)


@pytest.mark.parametrize("change", [{"algorithm": "admm", "epsilon": None}, {"epsilon": None, "noise_multiplier": 3.0}])
def test_without_a_budget_no_owner_takes_part(experiment, change):
    prepared = prepare(experiment(**{"algorithm": "dp-admm", "delta": 1e-5} | change, test=0.0))
    with pytest.raises(InputError, match="within a total budget"):
        place(OwnerExecutor(prepared.experiment.run, 2), prepared)


def test_when_let_go_they_answer_no_more(cohort):
    _, together, owners = cohort()
    with owners:
        owners.place(together, SimulationState.of(together))
    request = Request(RUN, RUN, 1, np.zeros((1, 4)))
    with pytest.raises(InputError, match=r"owner 'agent 0' cannot answer step 1: .*was not joined"):
        owners.collect(request)
    with owners:  # another cohort may follow
        assert len(list(rounds(together, SimulationState.of(together), owners))) == 12


def test_owners_take_part_from_the_first_round_on(cohort):
    _, together, owners = cohort()
    later = next(rounds(together, SimulationState.of(together), InProcessExecutor()))
    with pytest.raises(InputError, match="from round 1 on, and not from round 2"):
        owners.place(together, later)
