"""The loop: batches of runs, running means, one thread pool, nothing private in what leaves."""

import contextlib
import gc

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dpadmm._threads import one_thread_pool
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.prepare import prepare
from dpadmm.engine.run import train
from dpadmm.release.random_bits import SeededRandomness


@pytest.fixture
def two_threads():
    with threadpool_limits(limits=2, user_api="blas"):
        yield


def step(cohort, state):
    """The state one round on."""
    return next(rounds(cohort, state, InProcessExecutor()))


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_one_thread_pool_restores_what_was(two_threads):
    before = blas_threads()
    assert max(before) == 2
    with one_thread_pool():
        assert set(blas_threads()) == {1}
    assert blas_threads() == before
    with pytest.raises(RuntimeError), one_thread_pool():
        raise RuntimeError
    assert blas_threads() == before


def test_a_run_restores_the_threads_it_found(two_threads, experiment):
    inside = []
    before = blas_threads()
    train(experiment("pvp", rounds=2), progress=lambda *_: inside.append(max(blas_threads())))
    assert inside == [1, 1]
    assert blas_threads() == before

    def stop(*_):
        raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        train(experiment("pvp", rounds=2), progress=stop)
    gc.collect()
    assert blas_threads() == before


def test_running_means_are_over_the_rounds_they_name(experiment):
    prepared = prepare(experiment(rounds=6))
    cohort = Cohort.of(prepared.plan, prepared.shards, [0, 3], SeededRandomness(1))
    local, common = [np.zeros((10, 4))], []
    for state in rounds(cohort, SimulationState.of(cohort), InProcessExecutor()):
        local.append(state.agents.released)
        common.append(state.shared.model)
        np.testing.assert_allclose(state.mean_local, np.mean(local[1:], axis=0), rtol=1e-13, atol=1e-16)
        np.testing.assert_allclose(state.mean_local_before, np.mean(local[:-1], axis=0), rtol=1e-13, atol=1e-16)
        np.testing.assert_allclose(state.shared.mean_model, np.mean(common, axis=0), rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("algorithm", ["dp-admm", "pvp", "dvp", "admm"])
@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_a_step_leaves_its_state_as_it_was(algorithm, penalty, experiment):
    """States are values: playing on from one twice gives the same, so a checkpoint may be taken at any time."""
    if (algorithm, penalty) == ("dvp", "l1"):
        penalty = "none"
    prepared = prepare(experiment(algorithm, penalty=penalty, strength=0.05))
    cohort = Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(1))
    state = step(cohort, step(cohort, SimulationState.of(cohort)))
    released, dual = state.agents.released.copy(), state.agents.dual.copy()
    first, again = step(cohort, state), step(cohort, state)
    np.testing.assert_array_equal(state.agents.released, released)
    np.testing.assert_array_equal(state.agents.dual, dual)
    np.testing.assert_array_equal(first.shared.model, again.shared.model)
    np.testing.assert_array_equal(first.agents.memory.point, again.agents.memory.point)


def test_rows_of_a_cohort_are_agents_run_after_run(experiment):
    prepared = prepare(experiment())
    cohort = Cohort.of(prepared.plan, prepared.shards, [4, 2], SeededRandomness(1))
    np.testing.assert_array_equal(cohort.runs, [4] * 5 + [2] * 5)
    np.testing.assert_array_equal(cohort.agents, [*range(5), *range(5)])
    assert cohort.size == 5
    assert cohort.rows.setting.agents == cohort.shards.agents == 10
    rows = np.arange(20.0).reshape(10, 2)
    np.testing.assert_array_equal(cohort.by_run(rows)[1], rows[5:])
    np.testing.assert_array_equal(cohort.to_rows(np.array([[1.0], [2.0]])).ravel(), [1.0] * 5 + [2.0] * 5)
    # Run 2 is the same in any company.
    alone = Cohort.of(prepared.plan, prepared.shards, [2], SeededRandomness(1))
    np.testing.assert_array_equal(
        step(cohort, SimulationState.of(cohort)).shared.model[1:], step(alone, SimulationState.of(alone)).shared.model
    )


def test_what_leaves_the_engine_holds_no_solver_memory(experiment):
    prepared = prepare(experiment("pvp", rounds=2))
    cohort = Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(1))
    state = step(cohort, SimulationState.of(cohort))
    assert state.agents.memory.private
    # Only the shared state leaves, and all of it is a function of releases.
    memory = {values.tobytes() for values in state.agents.memory.private.values()}
    assert not memory & {values.tobytes() for values in state.shared.to_arrays().values()}
    assert set(vars(state.shared)) == {"round", "server", "model", "mean_model", "released"}
