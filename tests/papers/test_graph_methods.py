"""Methods on graphs (theory section 6) against loops over nodes: their steps, where they end, and who hears whom."""

from dataclasses import replace

import numpy as np
import pytest
from graph_walks import (
    GRAPHS,
    GROWTHS,
    ON_GRAPHS,
    PROBLEM,
    SCALES,
    SIZES,
    every_graph,
    neighbours,
    objective,
    random_bits,
    somewhere,
    theta,
    walk,
)
from scipy.optimize import minimize

from dpadmm.admm.consensus import Neighbours
from dpadmm.admm.rho import ConstantRho, GeometricRho
from dpadmm.admm.rounds import absorb, begin, first_state, next_server, solve_and_perturb
from dpadmm.admm.setting import Multiplier
from dpadmm.admm.topology.graph import parse_topology
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.papers import ALGORITHMS
from dpadmm.problems.reference import optimum
from dpadmm.problems.sets import Each, Range
from dpadmm.release.random_bits import SeededRandomness


def by_hand(shards, graph, cycles, thetas, dual_thetas, x, gamma=None):
    """6.1 and 6.2, or with a gamma 6.4: what is released in each round, from x(0)."""
    near, q = neighbours(graph), np.zeros_like(x)
    released = [x]
    for k in range(1, cycles + 1):
        after = np.empty_like(x)
        for i in range(graph.nodes):

            def augmented(point, i=i, x=x, k=k):
                t = thetas(i, k)
                value, slope = objective(shards, i, point)
                value, slope = value + 2 * q[i] @ point, slope + 2 * q[i]
                for j in near[i]:
                    apart = point - (x[i] + x[j]) / 2
                    value, slope = value + t * apart @ apart, slope + 2 * t * apart
                return value, slope

            found = minimize(augmented, x[i], jac=True, method="BFGS", options={"gtol": 1e-9})
            after[i] = found.x
        released.append(after)
        for i in range(graph.nodes):
            for j in near[i]:
                q[i] += dual_thetas(i, k) / 2 * (after[i] - after[j])
        x = after
        if gamma is not None:
            again = np.empty_like(x)
            for i in range(graph.nodes):
                t = thetas(i, k)
                pull = objective(shards, i, x[i])[1] + 2 * q[i] + t * sum(x[i] - x[j] for j in near[i])
                again[i] = x[i] - pull / (2 * t * len(near[i]) + gamma)
            x = again
            released.append(x)
    return released


METHODS = {
    "decentralised-admm": (ConstantRho(), None, None),
    "m-admm": (GeometricRho(GROWTHS, SCALES), ConstantRho(), None),
    "r-admm": (ConstantRho(), None, 0.013),
    "mr-admm": (GeometricRho(GROWTHS, SCALES), None, 0.013),
}


@pytest.mark.parametrize("graph", ["path:5", "erdos-renyi:5:0.5"])
@pytest.mark.parametrize("name", METHODS)
def test_the_methods_are_those_of_the_text(name, graph, shards, setting):
    rule, dual, gamma = METHODS[name]
    rounds = 4 if gamma is None else 6
    recipe = ALGORITHMS[name].tuned(rho=rule, **({} if gamma is None else {"damping": gamma}))
    assert recipe.dual_rho == dual
    released, _, _ = walk(recipe.plan(setting(graph, rounds=rounds), Multiplier(0.0)), shards, somewhere())
    expected = by_hand(
        shards,
        parse_topology(graph),
        rounds if gamma is None else rounds // 2,
        lambda i, k: theta(rule, 0.06, i, k),
        lambda i, k: 0.06 if dual else theta(rule, 0.06, i, k),
        somewhere(),
        gamma,
    )
    for k, (mine, theirs) in enumerate(zip(released, expected, strict=True)):
        np.testing.assert_allclose(mine, theirs, atol=1e-6, err_msg=f"round {k}")
    assert np.abs(released[-1] - released[-2]).max() > 1e-3


def test_the_papers_own_numbers_are_the_defaults():
    """Theta 1 and gamma 0.5 for records that weigh 1750/B; here they weigh 1/B."""
    for recipe in ON_GRAPHS.values():
        if recipe.paper.startswith("Huang"):
            continue  # 000 on graphs, whose numbers are ours
        assert recipe.base_rho == pytest.approx(1 / 1750, rel=1e-15)
        assert recipe.weighting == "owners"
        assert [p.solver.damping for p in recipe.phases[1:]] == pytest.approx([0.5 / 1750] * len(recipe.phases[1:]))
    for name in ("m-admm", "m-admm-penalty", "mr-admm", "private-mr-admm", "pvp-mr-admm"):
        assert ON_GRAPHS[name].rho == GeometricRho(1.04)
    for name in ("decentralised-admm", "pvp-graph", "dvp-graph", "r-admm", "private-r-admm"):
        assert ON_GRAPHS[name].rho == ConstantRho()
    assert {name for name, recipe in ON_GRAPHS.items() if recipe.dual_rho} == {"m-admm", "m-admm-penalty"}
    assert {name for name, recipe in ON_GRAPHS.items() if len(recipe.phases) == 2} == {
        *("r-admm", "mr-admm", "private-r-admm", "private-mr-admm", "pvp-r-admm", "pvp-mr-admm")
    }


# -- where they end ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [GRAPHS[name] for name in ("ring", "path", "complete", "random")])
@pytest.mark.parametrize("name", METHODS)
def test_without_noise_all_nodes_reach_the_pooled_optimum(name, graph, shards, setting, played):
    recipe = ALGORITHMS[name].tuned(**({"damping": 0.005} if len(ALGORITHMS[name].phases) == 2 else {}))
    if name in ("m-admm", "mr-admm"):
        recipe = recipe.tuned(rho=GeometricRho(1.01, 1.0, 3.0))
    state = played(recipe.plan(setting(graph, rounds=200), Multiplier(0.0)), shards)[-1]
    best = optimum(PROBLEM, shards, 3, 1e-11)
    assert np.linalg.norm(best) > 1.0
    np.testing.assert_allclose(state.agents.released, np.tile(best, (5, 1)), atol=1e-6)
    np.testing.assert_allclose(state.shared.model, best[None], atol=1e-6)


def weighted_optimum(shards, weights):
    """Where the weighted sum of the nodes' gradients is zero."""

    def total(x):
        parts = [objective(shards, i, x) for i in range(5)]
        return sum(w * v for w, (v, _) in zip(weights, parts, strict=True)), sum(
            w * g for w, (_, g) in zip(weights, parts, strict=True)
        )

    return minimize(total, np.zeros(3), jac=True, method="BFGS", options={"gtol": 1e-9}).x


@pytest.mark.parametrize("growth", [1.0, 1.01], ids=["constant", "growing"])
@pytest.mark.parametrize("name", ["decentralised-admm", "mr-admm"])
def test_own_penalties_in_the_dual_step_shift_where_the_nodes_agree(name, growth, shards, setting, played):
    """003 overlooks it: sum of q_i / theta_i stays zero instead of the sum of q_i, so grad f_i is weighed by 1/theta_i.
    A common dual step has no such bias."""
    scales = (1.0, 2.0, 0.5, 1.5, 0.7)
    recipe = ALGORITHMS[name].tuned(rho=GeometricRho(growth, scales))
    terms = setting("complete:5", rounds=250, rho=0.03)
    pooled, shifted = weighted_optimum(shards, np.ones(5)), weighted_optimum(shards, 1 / np.array(scales))
    np.testing.assert_allclose(pooled, optimum(PROBLEM, shards, 3, 1e-11), atol=1e-7)
    assert np.linalg.norm(pooled - shifted) > 0.05
    own = played(recipe.plan(terms, Multiplier(0.0)), shards)[-1].agents.released
    np.testing.assert_allclose(own, np.tile(shifted, (5, 1)), atol=1e-5)
    common = recipe.tuned(dual_rho=ConstantRho(0.02)).plan(terms, Multiplier(0.0))
    np.testing.assert_allclose(played(common, shards)[-1].agents.released, np.tile(pooled, (5, 1)), atol=1e-5)


@every_graph
def test_with_equal_dual_steps_the_duals_sum_to_zero_at_all_times(graph, shards, setting):
    """F4's analogue; noise changes nothing in it."""
    private, each = ALGORITHMS["private-mr-admm"], GeometricRho(1.02, SCALES)
    for recipe in (private, private.tuned(rho=each, dual_rho=GeometricRho(1.1))):
        _, q, _ = walk(recipe.plan(setting(graph, rounds=6), Multiplier(2.0)), shards, somewhere())
        assert np.abs(q[-1]).max() > 0.1
        assert max(np.abs(dual.sum(axis=0)).max() for dual in q) < 1e-13
    _, q, _ = walk(private.tuned(rho=each).plan(setting(graph, rounds=6), Multiplier(2.0)), shards)
    weighed = [(dual / np.array(SCALES)[:, None]).sum(axis=0) for dual in q]
    assert max(np.abs(sums).max() for sums in weighed) < 1e-13
    assert np.abs(q[-1].sum(axis=0)).max() > 1e-3


# -- the opening broadcast ---------------------------------------------------------------------------------------------


@every_graph
def test_where_nodes_begin_is_broadcast_before_the_first_round(graph, shards, setting):
    terms = setting(graph)
    near = neighbours(terms.graph)
    rows = somewhere()
    heard = Neighbours().opening(terms, rows, 3).common.reshape(3, 5, 3)
    for i in range(5):
        mean = sum(rows[j] for j in near[i]) / len(near[i])
        np.testing.assert_allclose(heard[:, i], np.tile(mean, (3, 1)), atol=1e-15)
    away = Each(tuple(Range(0.1 * i + 0.2, 0.1 * i + 0.9) for i in range(5)))
    plan = ALGORITHMS["decentralised-admm"].plan(replace(terms, problem=replace(PROBLEM, domain=away)), Multiplier(0.0))
    first = begin(plan).released
    np.testing.assert_allclose(first, np.tile(0.2 + 0.1 * np.arange(5)[:, None], (1, 3)), atol=1e-15)
    cohort = Cohort.of(plan, shards, [0, 1], SeededRandomness(0))
    for heard in (first_state(plan, 2).server.common, SimulationState.of(cohort).shared.server.common):
        for i in range(5):
            mean = 0.2 + 0.1 * sum(near[i]) / len(near[i])
            np.testing.assert_allclose(heard.reshape(2, 5, 3)[:, i], mean, atol=1e-15)


def test_the_first_round_hears_it(shards, setting, played):
    """In a set away from zero the first answers are those of the text from where the nodes begin."""
    away = Range(0.3, 0.9)
    terms = replace(setting("path:5", rounds=1), problem=replace(PROBLEM, domain=away))
    plan = ALGORITHMS["decentralised-admm"].plan(terms, Multiplier(0.0))
    released = played(plan, shards)[0].agents.released
    for i, near in enumerate(neighbours(terms.graph)):

        def augmented(x, i=i, near=near):
            value, slope = objective(shards, i, x)
            apart = x - 0.3
            return value + 0.06 * len(near) * apart @ apart, slope + 2 * 0.06 * len(near) * apart

        exactly = {"ftol": 1e-15, "gtol": 1e-10}
        found = minimize(
            augmented, np.full(3, 0.5), jac=True, method="L-BFGS-B", bounds=[(0.3, 0.9)] * 3, options=exactly
        )
        np.testing.assert_allclose(released[i], found.x, atol=1e-6)


# -- who hears whom ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["decentralised-admm", "private-mr-admm", "m-admm-penalty"])
def test_a_node_hears_its_neighbours_and_nobody_else(name, shards, setting):
    """Bit for bit: what node 0 answers in round k depends on a release of node 1 and on no other of the path."""
    plan = ALGORITHMS[name].plan(setting("path:5", rounds=3), Multiplier(1.0 if ON_GRAPHS[name].private else 0.0))
    released, _, states = walk(plan, shards, somewhere())

    def next_answer(k, values, held=shards):
        """From other releases or records; what the solver remembers of its records is forgotten."""
        heard = next_server(plan, None, values[None], k).common
        state = absorb(plan, replace(states[k], memory=replace(states[k].memory, private={})), heard, k)
        return solve_and_perturb(plan, state, held, heard, k + 1, random_bits(k + 1))[0].value

    for k in (1, 2):
        before = next_answer(k, released[k])
        for j, moves in ((1, True), (2, False), (3, False), (4, False)):
            values = released[k].copy()
            values[j] += 1.0
            after = next_answer(k, values)
            assert (after[0] != before[0]).any() == moves
        other = replace(shards, targets=np.where(np.arange(sum(SIZES)) < SIZES[0], shards.targets, -shards.targets))
        np.testing.assert_array_equal(next_answer(k, released[k], other)[0], before[0])
        if plan.algorithm.recycles(k + 1):  # and there not even on its own records
            mine = replace(shards, targets=-shards.targets)
            np.testing.assert_array_equal(next_answer(k, released[k], mine), before)
        else:
            assert (next_answer(k, released[k], other)[1:] != before[1:]).all()


@pytest.mark.parametrize("name", ["private-mr-admm", "m-admm-penalty", "pvp-graph"])
def test_a_node_alone_answers_as_it_does_among_all(name, shards, setting, played):
    """Bit for bit, where nodes differ in penalties and in their number of neighbours; and so do runs side by side."""
    rule, terms = GeometricRho(GROWTHS, SCALES), setting("star:5", rounds=4)
    plan = ALGORITHMS[name].tuned(rho=rule).plan(terms, Multiplier(1.5))
    released, duals, _ = walk(plan, shards, somewhere())
    for i in (4, 0, 2):
        mine, state = plan.take([i]), replace(begin(plan.take([i])), released=somewhere()[[i]])
        for k in range(1, 5):
            heard = terms.graph.means(released[k - 1])[[i]]
            if k > 1:
                state = absorb(mine, state, heard, k - 1)
            np.testing.assert_array_equal(state.dual[0], duals[k - 1][i])
            release, state = solve_and_perturb(mine, state, shards.take([i]), heard, k, random_bits(k, [i]))
            np.testing.assert_array_equal(release.value[0], released[k][i])
            assert release.events == (plan.events(k)[i],)
    together = played(plan, shards, runs=(3, 7))[-1].agents.released
    np.testing.assert_array_equal(together[:5], played(plan, shards, runs=(3,))[-1].agents.released)
    np.testing.assert_array_equal(together[5:], played(plan, shards, runs=(7,))[-1].agents.released)
