"""What is measured equals what one would compute by hand, and what was spent adds up over rounds and phases."""

import numpy as np
import pytest

from dpadmm.admm.algorithm import Algorithm, Phase
from dpadmm.admm.consensus import Star
from dpadmm.admm.perturbations import Gradient, Output
from dpadmm.admm.setting import Multiplier
from dpadmm.admm.solvers import Exact, Linearised
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.metrics import Observer
from dpadmm.engine.prepare import prepare
from dpadmm.engine.run import train
from dpadmm.privacy.events import GaussianDpEvent, PureDpEvent
from dpadmm.release.random_bits import SeededRandomness


def logistic(a, b, x):
    return float(np.mean(np.log1p(np.exp(-b * (a @ x)))))


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_metrics_are_what_the_spec_says(penalty, experiment):
    """Spec section 2, with Python loops; the augmented objective at the average that belongs to the theorem."""
    prepared = prepare(experiment(penalty=penalty, strength=0.05, repeats=2, rounds=4))
    cohort = Cohort.of(prepared.plan, prepared.shards, [0, 1], SeededRandomness(7))
    observer = Observer(cohort, prepared.test, prepared.delta)
    shards, test = prepared.shards, prepared.test
    records = [(shards.real_rows[i:j], shards.targets[i:j]) for i, j in zip(shards.starts, shards.stops, strict=True)]
    visited = [np.zeros((2, 5, 4))]
    broadcasts = []

    def punished(x):
        return 0.05 * (np.abs(x).sum() if penalty == "l1" else 0.5 * (x**2).sum())

    for state in rounds(cohort, SimulationState.of(cohort), InProcessExecutor()):
        local, common = cohort.by_run(state.agents.released), state.shared.model
        visited.append(local.copy())
        broadcasts.append(common.copy())
        measured = observer.measure(state)
        means = np.mean(visited[:-1] if penalty == "l1" else visited[1:], axis=0)
        mean_common = np.mean(broadcasts, axis=0)
        for run in range(2):
            z = common[run]
            loss = np.mean([logistic(a, b, z) for a, b in records])
            assert measured["train_loss"][run] == pytest.approx(loss, rel=1e-12)
            assert measured["objective"][run] == pytest.approx(loss + punished(z), rel=1e-12)
            assert measured["test_error"][run] == np.mean((test.real_rows @ z > 0) != test.targets)
            each = [logistic(a, b, local[run, i]) for i, (a, b) in enumerate(records)]
            assert measured["train_loss_local"][run] == pytest.approx(np.mean(each), rel=1e-12)
            wrong = [np.mean((test.real_rows @ local[run, i] > 0) != test.targets) for i in range(5)]
            assert measured["test_error_local"][run] == pytest.approx(np.mean(wrong), rel=1e-12)
            residual = np.sqrt(sum(np.sum((local[run, i] - z) ** 2) for i in range(5)))
            assert measured["residual"][run] == pytest.approx(residual, rel=1e-12)
            augmented = sum(
                logistic(a, b, means[run, i])
                + punished(means[run, i])
                + 0.1 * np.linalg.norm(means[run, i] - mean_common[run])
                for i, (a, b) in enumerate(records)
            )
            assert measured["augmented_objective"][run] == pytest.approx(augmented, rel=1e-12)
        np.testing.assert_allclose(state.shared.mean_model, mean_common, rtol=1e-12)


@pytest.mark.parametrize("weighting", ["owners", "records"])
@pytest.mark.parametrize("algorithm", ["dp-admm", "obj-g"])
def test_the_training_loss_weighs_as_the_problem_does(algorithm, weighting, experiment):
    """Ragged agents: the mean over all records, or the mean over owners of theirs; the objective is that of `optimum`.

    A sum of f_i over agents has the penalty once for each of them.
    """
    prepared = prepare(experiment(algorithm, weighting=weighting, split="dirichlet:0.3", strength=0.05, repeats=2))
    cohort = Cohort.of(prepared.plan, prepared.shards, [0, 1], SeededRandomness(7))
    observer, shards = Observer(cohort, prepared.test, prepared.delta), prepared.shards
    assert shards.counts.max() > 3 * shards.counts.min()
    *_, state = rounds(cohort, SimulationState.of(cohort), InProcessExecutor())
    measured = observer.measure(state)
    for run, z in enumerate(state.shared.model):
        per_record = np.log1p(np.exp(-shards.targets * (shards.real_rows @ z)))
        owners = np.mean([per_record[i:j].mean() for i, j in zip(shards.starts, shards.stops, strict=True)])
        loss, others = (owners, per_record.mean()) if weighting == "owners" else (per_record.mean(), owners)
        assert measured["train_loss"][run] == pytest.approx(loss, rel=1e-12)
        assert abs(loss - others) > 1e-5 * loss  # the two can be told apart
        whole = prepared.plan.setting.problem.objective(shards, np.tile(z, (5, 1)))
        assert measured["objective"][run] == pytest.approx(
            whole.mean() if weighting == "owners" else whole.sum(), rel=1e-12
        )


@pytest.mark.parametrize("updates", [1, 3])
def test_a_server_first_run_is_averaged_over_what_was_answered(updates, experiment):
    """Theorem 5.3's z is the mean of the broadcasts that agents answered, and x that of what they sent."""
    prepared = prepare(experiment("obj-g", updates=updates, rounds=6))
    cohort = Cohort.of(prepared.plan, prepared.shards, [0, 3], SeededRandomness(1))
    state = SimulationState.of(cohort)
    local, answered = [], []
    for reached in rounds(cohort, state, InProcessExecutor()):
        answered.append(state.shared.model)
        local.append(reached.agents.released)
        state = reached
        np.testing.assert_allclose(state.shared.mean_model, np.mean(answered, axis=0), rtol=1e-13, atol=1e-16)
        np.testing.assert_allclose(state.mean_local, np.mean(local, axis=0), rtol=1e-13, atol=1e-16)
    assert (np.abs(state.shared.model - state.shared.mean_model) > 1e-6).all()


@pytest.mark.parametrize("algorithm", ["obj-g", "obj-l", "out-g", "out-l"])
def test_epsilon_of_local_updates_grows_round_by_round_to_the_total(algorithm, experiment):
    result = train(experiment(algorithm, updates=3))
    spent = result.history["epsilon"][:, 0]
    assert (np.diff(spent) > 0).all()
    assert spent[-1] == result.guarantee.epsilon == pytest.approx(2.0, rel=1e-6)
    assert result.plan.accounts(4).tally(0) == {result.plan.events(1)[0]: 4}


def test_averages_of_exact_admm_with_a_kink_are_of_what_was_released(experiment):
    """The solver goes on from its last answer; it must not write over it before it has been averaged."""
    prepared = prepare(experiment("admm", penalty="l1", strength=0.05, rounds=4))
    cohort = Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(7))
    visited = [np.zeros((5, 4))]
    for state in rounds(cohort, SimulationState.of(cohort), InProcessExecutor()):
        np.testing.assert_allclose(state.mean_local_before, np.mean(visited, axis=0), rtol=1e-12, atol=1e-15)
        visited.append(state.agents.released.copy())


@pytest.mark.parametrize("algorithm", ["dpsgd", "gradient-descent"])
def test_where_gradients_are_released_there_are_no_local_models_to_measure(algorithm, experiment):
    history = train(experiment(algorithm)).history
    assert not {"train_loss_local", "residual", "test_error_local", "augmented_objective"} & set(history.metrics)
    assert {"train_loss", "objective", "test_error"} <= set(history.metrics)


@pytest.mark.parametrize("algorithm", ["dp-admm", "pvp", "dvp", "dpsgd"])
def test_epsilon_grows_round_by_round_to_the_total(algorithm, experiment):
    result = train(experiment(algorithm, repeats=2))
    spent = result.history["epsilon"]
    assert (np.diff(spent, axis=0) > 0).all()
    assert (spent[0] > 0).all()
    assert (spent[-1] == result.guarantee.epsilon).all()
    assert (spent[:, 0] == spent[:, 1]).all()


def test_without_records_held_out_there_is_no_test_error(experiment):
    result = train(experiment(test=0.0))
    assert "test_error" not in result.history
    assert result.test_error is None


@pytest.mark.parametrize("done", [1, 2, 5, 6, 7, 9])
@pytest.mark.parametrize("cycle", [1, 2, 3])
def test_phases_are_counted_as_often_as_they_were_played(cycle, done, experiment):
    """Each phase has an event of its own; the tally is that of going through the rounds one by one."""
    phases = (
        Phase(Exact(), Output("gaussian")),
        Phase(Linearised(), Gradient("gamma-norm")),
        Phase(Exact(), Output("gamma-norm")),
    )[:cycle]
    prepared = prepare(experiment())
    plan = Algorithm("mine", "", "", Star(), phases).plan(prepared.plan.setting, Multiplier(4.0))
    if cycle == 3:  # told apart from the second phase
        third = Output("gamma-norm").calibrate(plan.setting, Exact(), Multiplier(5.0))
        plan = Algorithm("mine", "", "", Star(), phases).plan(plan.setting, Multiplier(4.0))
        plan = type(plan)(plan.algorithm, plan.setting, (*plan.noise[:2], third), plan.level, plan.request)
    events = [GaussianDpEvent(4.0), PureDpEvent(0.25), PureDpEvent(0.2)]
    expected = {}
    for k in range(done):
        event = events[k % cycle]
        expected[event] = expected.get(event, 0) + 1
    accounts = plan.accounts(done)
    assert accounts.agents == 5
    assert all(accounts.tally(agent) == expected for agent in range(5))


def test_nothing_played_costs_nothing(experiment):
    prepared = prepare(experiment())
    cohort = Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(0))
    assert cohort.plan.accounts(0).worst(1e-5).epsilon == 0.0
