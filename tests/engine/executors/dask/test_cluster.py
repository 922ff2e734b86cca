"""On Dask workers every recipe gives the numbers of one process, bit for bit, also when a worker is lost on the way."""

import gc
import os
import signal
import time
from contextlib import nullcontext

import numpy as np
import pytest

distributed = pytest.importorskip("distributed", reason="needs the extra 'cluster'")

from dpadmm import write_folder  # noqa: E402
from dpadmm.engine.cohort import Cohort, SimulationState  # noqa: E402
from dpadmm.engine.executors.dask import executor as module  # noqa: E402
from dpadmm.engine.executors.dask.actor import BatchActor  # noqa: E402
from dpadmm.engine.prepare import prepare  # noqa: E402
from dpadmm.engine.run import train  # noqa: E402
from dpadmm.errors import ClusterError, Refused  # noqa: E402
from dpadmm.papers import ALGORITHMS  # noqa: E402
from dpadmm.release.random_bits import SeededRandomness  # noqa: E402


@pytest.fixture
def client(cluster, dask):
    with distributed.Client(cluster, set_as_default=False) as found:
        yield found


@pytest.fixture
def compared(dask, same):
    """compared(spec): the spec on both engines; the local result."""

    def compare(spec, **options):
        local, there = train(spec), train(spec, engine=dask, **options)
        same(local, there)
        assert there.guarantee == local.guarantee
        assert there.estimated_error == local.estimated_error
        return local

    return compare


@pytest.mark.parametrize("algorithm", ["dp-admm", "ps-admm", "private-mr-admm"])  # a star, mini-batches, a graph
def test_recipe_is_the_same_on_workers(algorithm, experiment, compared):
    terms = {"rounds": 3, "repeats": 2, "measure_every": 2}
    if ALGORITHMS[algorithm].private and ALGORITHMS[algorithm].phases[0].solver.sampled:
        terms |= {"noise_multiplier": 1.0, "delta": 1e-5, "measure_every": 3}  # an account takes seconds
    compared(experiment(algorithm, **terms))


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "dp-admm", "split": "dirichlet:0.3", "evaluation_epsilon": 0.5},
        {"algorithm": "dp-admm", "agents": 1},  # fewer agents than workers
        {"algorithm": "pvp", "penalty": "l1", "source": "tiny-multiclass", "loss": "softmax"},
        {"algorithm": "obj-g", "set": "box:0.1,ball:0.3"},
        {"algorithm": "private-r-admm", "evaluation_epsilon": 0.5, "topology": "path:5"},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_every_kind_of_problem_is_the_same_on_workers(changes, experiment, compared):
    compared(experiment(repeats=2, rounds=3, **changes))


def test_runs_that_do_not_fit_side_by_side_run_one_after_another(experiment, compared, monkeypatch):
    monkeypatch.setattr("dpadmm.engine.run.NUMBERS_AT_ONCE", 1)
    assert compared(experiment("pvp", repeats=3, rounds=2)).models.shape[0] == 3


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("algorithm", ["dp-admm", "pvp", "private-r-admm"])
@pytest.mark.parametrize("first", ["local", "dask"])
def test_a_run_goes_on_with_the_other_engine(first, algorithm, experiment, same, dask, tmp_path):
    """Solver memory travels too: pvp goes on from its inverse Hessians. On a graph, it stops before a recycled round,
    which needs what the round before it has left."""
    every, kept = (3, 3) if algorithm == "private-r-admm" else (2, 4)
    spec = experiment(algorithm, repeats=2, rounds=7)
    engines = {"local": "local", "dask": dask}

    def stop(_, round, history):
        if round == 5:
            raise Interrupted

    with pytest.raises(Interrupted):
        train(spec, out=tmp_path / "run", checkpoint_every=every, progress=stop, engine=engines.pop(first))
    told = []
    (other,) = engines.values()
    resumed = train(
        spec, out=tmp_path / "run", resume=True, progress=lambda _, round, history: told.append(round), engine=other
    )
    assert told == list(range(kept + 1, 8))
    same(train(spec), resumed)


@pytest.fixture
def spied(monkeypatch):
    """What batches were sent and asked: ("sent", part, finished rounds) and ("asked", part, step)."""
    told = []
    send, call = module.DaskExecutor._send, module.DaskExecutor._call

    def sending(self, part):
        if part not in self._futures:
            told.append(("sent", part, self._round))
        send(self, part)

    def calling(self, part, order):
        if hasattr(order, "step"):
            told.append(("asked", part, order.step))
        return call(self, part, order)

    monkeypatch.setattr(module.DaskExecutor, "_send", sending)
    monkeypatch.setattr(module.DaskExecutor, "_call", calling)
    return told


def check_one_round_was_done_again(told, round, rounds=8):
    sent = [entry[1:] for entry in told if entry[0] == "sent"]
    assert sorted(sent[:2]) == [(0, 0), (1, 0)]
    ((lost, finished), *more) = sent[2:]
    assert finished == round - 1  # where it was lost, not the beginning
    assert all(entry == (lost, finished) for entry in more)  # tries of the same
    asked = [entry[1:] for entry in told if entry[0] == "asked"]
    expected = {(part, step): 1 for part in (0, 1) for step in range(1, rounds + 1)}
    expected[lost, round] = 1 + len(sent[2:])
    assert {entry: asked.count(entry) for entry in asked} == expected


def kill_one(client):
    os.kill(sorted(client.run(os.getpid).items())[0][1], signal.SIGKILL)


@pytest.mark.parametrize("algorithm", ["dp-admm", "pvp", "private-mr-admm"])
def test_a_worker_lost_between_rounds_costs_one_round(algorithm, experiment, same, client, dask, spied, monkeypatch):
    spec = experiment(algorithm, repeats=2, rounds=8, measure_every=8)
    state = module.DaskExecutor.agent_states

    def killing(self):
        if self._round == 5:
            kill_one(client)
        return state(self)

    monkeypatch.setattr(module.DaskExecutor, "agent_states", killing)
    there = train(spec, engine=dask)
    same(train(spec), there)
    check_one_round_was_done_again(spied, round=6)


def _fall_at(step, dask_worker):
    """Makes this worker end itself in the middle of a round."""
    work = BatchActor.work

    def fatal(self, order):
        if getattr(order, "step", None) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return work(self, order)

    BatchActor.work = fatal


def test_a_worker_lost_in_the_middle_of_a_round_costs_that_round(experiment, same, client, dask, spied):
    spec = experiment("dvp", rounds=8, measure_every=8)
    client.run(_fall_at, 4, workers=sorted(client.nthreads())[:1])
    same(train(spec), train(spec, engine=dask))
    check_one_round_was_done_again(spied, round=4)


def test_a_worker_lost_while_being_measured_is_replaced(experiment, same, client, dask, spied, monkeypatch):
    """Reading records is no round: the batch is sent again as it stands, and nothing is answered twice."""
    spec = experiment(rounds=4, measure_every=4)
    look = module.DaskExecutor.read

    def killing(self, readings):
        kill_one(client)
        return look(self, readings)

    monkeypatch.setattr(module.DaskExecutor, "read", killing)
    same(train(spec), train(spec, engine=dask))
    assert [entry for entry in spied if entry[0] == "sent"][2:][0][2] == 4
    asked = [entry for entry in spied if entry[0] == "asked"]
    assert len(asked) == len(set(asked)) == 8


def test_workers_that_are_lost_again_and_again_end_the_run_clearly(experiment, dask, monkeypatch):
    monkeypatch.setattr(module, "TRIES", 2)
    monkeypatch.setattr(module.DaskExecutor, "_call", lambda self, part, order: None)
    with pytest.raises(
        ClusterError, match=r"round 1: agents 'agent 0' to 'agent 2' were lost 2 times in a row.*--resume"
    ):
        train(experiment(), engine=dask)


def test_what_an_agent_raises_is_raised_as_it_is(experiment, client, dask, spied):
    """Trying again would not help, so it is not tried."""
    loud = {"epsilon": None, "noise_multiplier": 1e9, "delta": 1e-5}
    with pytest.raises(Refused, match="rounding may change a gradient"):
        train(experiment("dvp", rounds=2, **loud), engine=dask)
    assert [entry for entry in spied if entry[0] == "asked"] == [("asked", 0, 1), ("asked", 1, 1)]


def test_an_agents_refusal_is_no_lost_worker(experiment, dask, monkeypatch):
    monkeypatch.setattr("dpadmm.engine.loop.RUN", "another run")
    with pytest.raises(Refused, match="was not joined"):
        train(experiment(), engine=dask)


def _held(dask_worker):
    return len(dask_worker.state.actors), len(dask_worker.data)


def test_when_runs_end_their_records_are_gone(experiment, client, dask, monkeypatch):
    monkeypatch.setattr("dpadmm.engine.run.NUMBERS_AT_ONCE", 1)  # three runs, one after another
    spec, inside = experiment(repeats=3), []
    gc.disable()  # it must not take chance
    try:
        train(spec, engine=dask, progress=lambda *_: inside.append(set(client.run(_held).values())))
    finally:
        gc.enable()
    assert inside[11] == inside[-1] == {(1, 0)}  # one batch at each worker, and nothing beside it, in the last run too
    with pytest.raises(Interrupted):
        train(spec, engine=dask, progress=_interrupt)
    for _ in range(100):
        left = set(client.run(_held).values())
        if left == {(0, 0)}:
            break
        time.sleep(0.05)
    assert left == {(0, 0)}


def _interrupt(*_):
    raise Interrupted


def _threads(problem, shards, x):
    """Not a loss, but how many threads there are where losses are computed: Numba's, and BLAS's at most."""
    import numba
    from threadpoolctl import threadpool_info

    blas = max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
    return np.full(len(x), 100.0 * numba.get_num_threads() + blas)


def test_a_worker_computes_with_the_threads_it_was_given(experiment, client, dask):
    prepared = prepare(experiment())
    cohort = Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(1))
    with module.DaskExecutor(nullcontext(client)) as executor:
        executor.place(cohort, SimulationState.of(cohort))
        (found,) = executor.read([(_threads, (np.zeros((5, 1)),))])
    np.testing.assert_array_equal(found, np.full(5, 101.0))


def test_records_in_files_are_read_at_the_workers(experiment, compared, tmp_path, monkeypatch):
    """Whatever folder a worker was started in: paths are sent whole."""
    draw = np.random.default_rng(0)

    def blocks(count):
        features = draw.uniform(-0.5, 0.5, (count, 3))
        yield features, (features[:, 0] > 0).astype(int)

    owners = [(name, blocks(20 + 7 * number)) for number, name in enumerate("abc")]
    write_folder(tmp_path / "clinics", owners, classes=["well", "ill"])
    monkeypatch.chdir(tmp_path)
    local = compared(experiment("dp-admm", source="clinics", test=None, rounds=3, repeats=2))
    assert local.models.shape == (2, 3)


def test_no_record_is_read_here(experiment, same, dask, monkeypatch):
    """Neither for a round, nor for the history, nor for an evaluation."""
    spec = experiment(rounds=2, evaluation_epsilon=0.5)
    local = train(spec)
    monkeypatch.setattr("dpadmm.engine.metrics.read_records", None)
    monkeypatch.setattr("dpadmm.engine.executor.InProcessExecutor.place", None)
    there = train(spec, engine=dask)
    same(local, there)
    assert there.estimated_error == local.estimated_error


def test_an_answer_that_went_astray_is_asked_for_again(experiment, same, dask, spied, monkeypatch):
    """Around a loss Dask may forget a call that nobody works on; the batch is then sent again as it stood."""
    monkeypatch.setattr(module, "GLANCE", 0.1)
    monkeypatch.setattr(module, "IDLE", 3)
    spec, call, lost = experiment(rounds=4, measure_every=4), module.DaskExecutor._call, []

    class Astray:
        def result(self, timeout):
            time.sleep(timeout)
            raise TimeoutError

    def forgetting(self, part, order):
        if getattr(order, "step", None) == 3 and part == 1 and not lost:
            lost.append(part)
            return Astray()
        return call(self, part, order)

    monkeypatch.setattr(module.DaskExecutor, "_call", forgetting)
    same(train(spec), train(spec, engine=dask))
    assert lost == [1]
    assert [entry for entry in spied if entry[0] == "sent"][2:] == [("sent", 1, 2)]
