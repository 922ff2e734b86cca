"""A public start other than zero, and DP-ADMM's private step on graphs (000)."""

import json
from dataclasses import replace

import numpy as np
import pytest
from graph_walks import GRAPHS, PROBLEM, neighbours, objective, walk

import dpadmm
from dpadmm import Experiment
from dpadmm.admm.perturbations import Gradient
from dpadmm.admm.rounds import begin, first_state
from dpadmm.admm.schedules import Fixed
from dpadmm.admm.setting import Multiplier
from dpadmm.engine.prepare import prepare
from dpadmm.errors import InputError
from dpadmm.owner.agreement import Agreement
from dpadmm.papers import ALGORITHMS
from dpadmm.problems.reference import optimum
from dpadmm.problems.sets import Box
from dpadmm.spec.declare import RunSpec
from dpadmm.spec.resolve import plan
from dpadmm.spec.toml import dumps, loads

START = np.array([0.7, -0.4, 0.2])
TRAINED = (
    "admm",
    "dp-admm",
    "linearised-admm",
    "gradient-descent",
    "accelerated",
    "local-updates",
    "r-admm",
    "dp-admm-graph",
)


@pytest.mark.parametrize("graph", ["path:5", "erdos-renyi:5:0.5"])
def test_a_linearised_step_on_a_graph_is_that_of_the_text(graph, shards, setting):
    """x <- [x/eta + kappa centre - 2q - grad f]/(1/eta + kappa), by loops over nodes; duals as in 6.1."""
    terms = setting(graph, rounds=5, start=START)
    planned = ALGORITHMS["linearised-admm-graph"].tuned(schedule=Fixed(0.8)).plan(terms, Multiplier(0.0))
    x, q, _ = walk(planned, shards)
    np.testing.assert_array_equal(x[0], np.tile(START, (5, 1)))
    for k in range(1, 6):
        for i, near in enumerate(neighbours(terms.graph)):
            kappa = 2 * 0.06 * len(near)
            centre = sum((x[k - 1][i] + x[k - 1][j]) / 2 for j in near) / len(near)
            pull = x[k - 1][i] / 0.8 + kappa * centre - 2 * q[k - 1][i] - objective(shards, i, x[k - 1][i])[1]
            np.testing.assert_allclose(x[k][i], pull / (1 / 0.8 + kappa), atol=1e-6)
            moved = 0.03 * sum(x[k][i] - x[k][j] for j in near)
            np.testing.assert_allclose(q[k][i], q[k - 1][i] + moved, atol=1e-12)


@pytest.mark.parametrize("graph", [GRAPHS[name] for name in ("ring", "path", "complete", "random")])
def test_without_noise_it_reaches_the_pooled_optimum_on_graphs(graph, shards, setting, played):
    recipe = ALGORITHMS["linearised-admm-graph"].tuned(schedule=Fixed(2.0))
    state = played(recipe.plan(setting(graph, rounds=700), Multiplier(0.0)), shards)[-1]
    best = optimum(PROBLEM, shards, 3, 1e-11)
    np.testing.assert_allclose(state.agents.released, np.tile(best, (5, 1)), atol=1e-5)


def test_the_private_step_on_a_graph_has_the_lemma_of_the_star(setting):
    recipe = ALGORITHMS["dp-admm-graph"]
    assert isinstance(recipe.phases[0].perturbation, Gradient)
    plans = [ALGORITHMS[name].plan(setting(), Multiplier(2.0)) for name in ("dp-admm-graph", "dp-admm")]
    assert plans[0].events(1) == plans[1].events(1)


@pytest.mark.parametrize("name", TRAINED)
def test_all_begin_at_the_start_and_end_where_they_do_from_zero(name, shards, setting, played):
    recipe = ALGORITHMS[name]
    if not recipe.private:
        recipe = recipe.tuned(schedule=Fixed(1.5))
    ends = []
    for start in (None, START):
        planned = recipe.plan(setting(rounds=400, start=start), Multiplier(0.0))
        state = first_state(planned, 2)
        expected = np.zeros(3) if start is None else START
        np.testing.assert_array_equal(begin(planned).released, np.tile(expected, (5, 1)))
        np.testing.assert_allclose(state.model, np.tile(expected, (2, 1)), atol=1e-15)
        rounds = played(planned, shards)
        ends.append(rounds[-1].shared.model[0])
        if start is not None:
            early = played(recipe.plan(setting(rounds=1), Multiplier(0.0)), shards)[-1].agents.released
            assert np.abs(rounds[0].agents.released - early).max() > 1e-3
    if not recipe.private:
        np.testing.assert_allclose(ends[0], ends[1], atol=1e-2)


def test_in_a_set_the_nearest_point_is_taken(shards, setting):
    terms = replace(setting("ring:5", start=START), problem=replace(PROBLEM, domain=Box(0.5)))
    planned = ALGORITHMS["dp-admm"].plan(terms, Multiplier(1.0))
    np.testing.assert_allclose(begin(planned).released, np.tile([0.5, -0.4, 0.2], (5, 1)), atol=1e-15)


def test_a_start_costs_nothing_and_is_in_the_terms():
    given = {"source": "synthetic", "algorithm": "dp-admm", "rounds": 3, "epsilon": 1.0, "delta": 1e-5, "agents": 4}
    plans = [prepare(Experiment().changed(**given, start=start)).plan for start in ((), (0.3,))]
    assert plans[0].tallies() == plans[1].tallies()
    np.testing.assert_array_equal(plans[1].setting.start, np.full(plans[1].setting.dimension, 0.3))
    width = plans[0].setting.dimension
    terms = [Agreement(RunSpec("dp-admm", rounds=3, epsilon=1.0, delta=1e-5, start=start), (9, 8), 3, 2)
             for start in ((), (0.1, 0.2, -0.3), (0.1, 0.2, 0.3))]  # fmt: skip
    assert len({each.digest for each in terms}) == 3
    np.testing.assert_array_equal(terms[1].plan().setting.start, [0.1, 0.2, -0.3])
    spec = Experiment().changed(**given, start=[0.1] * width)
    assert loads(dumps(spec)) == spec
    found = dpadmm.train(**given, start=np.linspace(-0.1, 0.1, width))
    assert found.experiment.run.start == tuple(np.linspace(-0.1, 0.1, width).tolist())
    assert json.loads(json.dumps(found.summary()))["epsilon"] == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"start": (1.0, 2.0)}, r"start: 2 numbers, and models have \d+ coefficients"),
        ({"start": (1e10,)}, "start = 10000000000.0 must be"),
        ({"start": (1.0,), "standardise": 0.1}, "a start is in the coordinates that rows come in"),
    ],
    ids=str,
)
def test_starts_that_mean_nothing_are_refused(changes, said):
    given = {"source": "synthetic", "algorithm": "dp-admm", "rounds": 1, "epsilon": 1.0, "delta": 1e-5, "agents": 4}
    with pytest.raises(InputError, match=said):
        prepare(Experiment().changed(**(given | changes)))
    with pytest.raises(InputError, match="'second-moment' is a statistic"):
        plan(RunSpec("components", start=(1.0,), penalty="none", strength=0.0), np.array([5, 6]), 3, 0)
