"""A cohort in any parts is the cohort, bit for bit; and a part holds its own agents' records and nobody else's."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpadmm.admm.solvers import exact
from dpadmm.engine.cohort import RUN, Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor, read_records
from dpadmm.engine.executors import batches
from dpadmm.engine.loop import evaluate, rounds
from dpadmm.engine.metrics import Observer
from dpadmm.engine.prepare import prepare
from dpadmm.owner.request import EVALUATION
from dpadmm.papers import ALGORITHMS
from dpadmm.problems.shards import gather
from dpadmm.release.random_bits import SeededRandomness


class Parted:
    """An executor of batches, all in this process."""

    def __init__(self, parts):
        self.parts = parts

    def place(self, cohort, state):
        self.rows = batches.split(cohort, self.parts)
        self.batches = [pickle.loads(pickle.dumps(batches.batch(cohort, rows))) for rows in self.rows]
        standing = [batches.state_of(state.agents, rows) for rows in self.rows]
        pairs = zip(self.batches, standing, strict=True)
        self.agents = [batch.agent(there, state.round) for batch, there in pairs]

    def collect(self, request):
        alone = self.batches[0].plan.algorithm.consensus.decentralised  # then every agent hears something else
        orders = [replace(request, inputs=request.inputs[rows]) if alone else request for rows in self.rows]
        answers = [agent.answer(order) for agent, order in zip(self.agents, orders, strict=True)]
        return batches.releases_together(answers, self.rows)

    def agent_states(self):
        return batches.states_together([agent.state(RUN) for agent in self.agents], self.rows)

    def read(self, readings):
        found = [
            read_records(batch.plan.setting.problem, batch.shards, batches.readings_of(readings, rows))
            for batch, rows in zip(self.batches, self.rows, strict=True)
        ]
        return [batches.together(parts, self.rows) for parts in zip(*found, strict=True)]


def prepared_for(experiment, algorithm, **changes):
    """The recipe over a few ragged agents; what it costs is not asked."""
    terms = {"rounds": 3, "split": "dirichlet:0.7", **changes}
    if ALGORITHMS[algorithm].private and "evaluation_epsilon" not in changes:
        terms |= {"noise_multiplier": 1.0, "delta": 1e-5}
        if ALGORITHMS[algorithm].phases[0].solver.sampled:  # an account for every size of agent takes seconds each
            terms["split"] = "random"
    return prepare(experiment(algorithm, **terms))


def played(prepared, parts=None, runs=(0, 3)):
    """States, metrics and, where there is one, the evaluation; in parts, or whole."""
    cohort = Cohort.of(prepared.plan, prepared.shards, runs, SeededRandomness(7))
    executor = InProcessExecutor() if parts is None else Parted(parts)
    observer = Observer(cohort, prepared.test, None, executor)
    states = list(rounds(cohort, SimulationState.of(cohort), executor))
    measured = [observer.measure(state) | observer.of_nodes(state) for state in states]
    estimate = None if prepared.plan.evaluation is None else evaluate(cohort, states[-1], executor)
    return states, measured, estimate


def check_same(one, other):
    for mine, theirs in zip(one[0], other[0], strict=True):
        arrays = (mine.agents.to_arrays(), theirs.agents.to_arrays())
        assert arrays[0].keys() == arrays[1].keys()
        for name in arrays[0]:
            np.testing.assert_array_equal(arrays[0][name], arrays[1][name], err_msg=name)
        np.testing.assert_array_equal(mine.shared.model, theirs.shared.model)
        np.testing.assert_array_equal(mine.shared.server.common, theirs.shared.server.common)
        np.testing.assert_array_equal(mine.shared.mean_model, theirs.shared.mean_model)
    for mine, theirs in zip(one[1], other[1], strict=True):
        assert list(mine) == list(theirs)
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    np.testing.assert_array_equal(one[2], other[2])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_any_parts_of_a_recipe_are_the_whole(algorithm, experiment):
    prepared = prepared_for(experiment, algorithm, rounds=2)
    whole = played(prepared)
    for parts in (1, 2, 5, 9):  # nine workers for five agents
        check_same(whole, played(prepared, parts))


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "pvp", "penalty": "l1"},
        {"algorithm": "dp-admm", "source": "tiny-multiclass", "loss": "softmax", "intercept": True},
        {"algorithm": "obj-g", "weighting": "records", "updates": 3},
        {"algorithm": "dp-admm", "set": "box:0.1,ball:0.3", "evaluation_epsilon": 0.5},
        {"algorithm": "admm", "source": "tiny-regression", "loss": "squared"},
        {"algorithm": "private-mr-admm", "evaluation_epsilon": 0.5},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_any_parts_of_a_problem_are_the_whole(changes, experiment):
    prepared = prepared_for(experiment, **changes)
    whole = played(prepared)
    for parts in (2, 3):
        check_same(whole, played(prepared, parts))


@pytest.mark.parametrize("limit", [15, 16])  # numbers of one Hessian, 4 x 4
def test_a_part_solves_by_the_method_that_the_whole_would(limit, experiment, monkeypatch):
    """Newton's method and proximal steps give different bits, so how many agents there are may not decide it."""
    monkeypatch.setattr(exact, "HESSIAN_NUMBERS", limit)
    prepared = prepared_for(experiment, "admm", rounds=2)
    whole = played(prepared)
    assert ("inverse" in whole[0][-1].agents.memory.private) == (limit == 16)
    for parts in (2, 3, 5):
        check_same(whole, played(prepared, parts))


def test_rows_of_a_part_are_its_agents_in_all_runs(experiment):
    prepared = prepared_for(experiment, "dp-admm")
    cohort = Cohort.of(prepared.plan, prepared.shards, [4, 2], SeededRandomness(1))
    rows = batches.split(cohort, 2)
    assert [part.tolist() for part in rows] == [[0, 1, 2, 5, 6, 7], [3, 4, 8, 9]]
    part = batches.batch(cohort, rows[1])
    assert part.runs.tolist() == [4, 4, 2, 2]
    assert part.agents.tolist() == [3, 4, 3, 4]
    np.testing.assert_array_equal(part.shards.counts, prepared.shards.counts[[3, 4, 3, 4]])
    # Runs side by side share their records.
    assert part.shards.features.shape[0] == prepared.shards.counts[3:].sum()


def test_every_release_keeps_its_event(experiment):
    """Agents with different events, in parts that are not in the order of rows."""
    prepared = prepared_for(experiment, "dp-admm", relation="zero-out")
    cohort = Cohort.of(prepared.plan, prepared.shards, [0, 1], SeededRandomness(1))
    rows = batches.split(cohort, 3)
    parts = [
        batches.Release(np.array(part, dtype=float)[:, None], tuple(f"event {row}" for row in part)) for part in rows
    ]
    whole = batches.releases_together(parts, rows)
    np.testing.assert_array_equal(whole.value[:, 0], np.arange(10.0))
    assert whole.events == tuple(f"event {row}" for row in range(10))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_part_that_travels_holds_nobody_elses_records(sparse):
    numbers = np.random.default_rng(0).uniform(0.1, 0.2, (40, 3))
    owner = np.arange(40) % 4
    table = csr_array(numbers) if sparse else numbers
    labels = np.where(numbers[:, 0] > 0.15, 1.0, -1.0)
    shards = gather(table, labels, owner, norm_bound=1.0, names=list("abcd"))
    part = shards.take([1, 3, 1]).compact()
    packed = pickle.dumps(part)
    rows = shards.features.toarray() if sparse else shards.features  # sorted by agent
    for row, who in zip(rows, np.sort(owner), strict=True):
        for number in row:
            assert (number.tobytes() in packed) == (who in (1, 3))
    assert part.names == ("b", "d", "b")
    assert part.targets.size == 20
    for agent, theirs in enumerate((1, 3, 1)):
        own = part.features[part.starts[agent] : part.stops[agent]]
        np.testing.assert_array_equal(own.toarray() if sparse else own, rows[10 * theirs : 10 * theirs + 10])
        real = part.cell * (own.toarray() if sparse else own)
        np.testing.assert_allclose(real, numbers[owner == theirs], rtol=0.0, atol=part.cell)
        np.testing.assert_array_equal(part.targets[part.starts[agent] : part.stops[agent]], labels[owner == theirs])


def test_parts_that_keep_different_things_are_a_bug(experiment):
    prepared = prepared_for(experiment, "admm", rounds=1)
    cohort = Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(1))
    (state,) = rounds(cohort, SimulationState.of(cohort), InProcessExecutor())
    rows = batches.split(cohort, 2)
    parts = [batches.state_of(state.agents, rows[0]), batches.state_of(SimulationState.of(cohort).agents, rows[1])]
    with pytest.raises(RuntimeError, match="keep different things"):
        batches.states_together(parts, rows)


def test_an_evaluation_is_not_a_round(experiment):
    assert EVALUATION == "evaluation"
    prepared = prepared_for(experiment, "dp-admm", evaluation_epsilon=0.5)
    assert played(prepared)[2].shape == (2, 5)
