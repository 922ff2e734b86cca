"""Penalties of edges (theory 6.4): nodes with penalties of their own agree on the pooled optimum after all."""

import numpy as np
import pytest
from graph_walks import (
    GROWTHS,
    PROBLEM,
    SCALES,
    every_graph,
    neighbours,
    objective,
    random_bits,
    somewhere,
    theta,
    walk,
)
from scipy.optimize import minimize

from dpadmm.admm.rho import ConstantRho, GeometricRho, RhoSchedule, SequenceRho
from dpadmm.admm.rounds import absorb, begin, first_state, solve_and_perturb
from dpadmm.admm.setting import Multiplier
from dpadmm.admm.topology.graph import parse_topology
from dpadmm.engine.result import convergence_condition
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.problems.reference import optimum

UNEQUAL = (1.0, 2.0, 0.5, 1.5, 0.7)
EACH = GeometricRho(GROWTHS, SCALES)


def by_edge(name, **changes):
    return ALGORITHMS[name].tuned(edge_penalties=True, **changes)


@pytest.mark.parametrize("graph", ["path:5", "erdos-renyi:5:0.5"])
@pytest.mark.parametrize("name", ["decentralised-admm", "mr-admm"])
def test_the_rounds_are_those_of_the_text(name, graph, shards, setting):
    """With theta_ij = (theta_i + theta_j)/2 wherever node i speaks of neighbour j, by loops over nodes."""
    terms = setting(graph, rounds=4)
    recycled = len(ALGORITHMS[name].phases) == 2
    recipe = by_edge(name, rho=EACH, **({"damping": 0.013} if recycled else {}))
    released, q, _ = walk(recipe.plan(terms, Multiplier(0.0)), shards, somewhere())
    near = neighbours(parse_topology(graph))

    def of_edge(i, j, k):
        return (theta(EACH, 0.06, i, k) + theta(EACH, 0.06, j, k)) / 2

    for round in range(1, 5):
        cycle = (round + 1) // 2 if recycled else round
        before, heard_in = released[round - 1], max(cycle - 1, 1)
        for i in range(5):
            now = {j: of_edge(i, j, cycle) for j in near[i]}
            if recycled and round % 2 == 0:
                pull = objective(shards, i, before[i])[1] + 2 * q[round - 1][i]
                pull = pull + sum(now[j] * (before[i] - before[j]) for j in near[i])
                step = before[i] - pull / (2 * sum(now.values()) + 0.013)
                np.testing.assert_allclose(released[round][i], step, atol=1e-6)
                continue
            # What was heard is a mean with the weights of the round it was released in; before round one, all alike.
            then = {j: of_edge(i, j, heard_in) if round > 1 else 1.0 for j in near[i]}
            middle = sum(then[j] * before[j] for j in near[i]) / sum(then.values())

            def augmented(x, i=i, now=now, middle=middle, before=before, dual=q[round - 1][i]):
                value, slope = objective(shards, i, x)
                apart, weight = x - (before[i] + middle) / 2, sum(now.values())
                return value + 2 * dual @ x + weight * apart @ apart, slope + 2 * dual + 2 * weight * apart

            found = minimize(augmented, before[i], jac=True, method="BFGS", options={"gtol": 1e-9})
            np.testing.assert_allclose(released[round][i], found.x, atol=1e-6)
            moved = sum(now[j] / 2 * (released[round][i] - released[round][j]) for j in near[i])
            np.testing.assert_allclose(q[round][i], q[round - 1][i] + moved, atol=1e-12)


@pytest.mark.parametrize("growth", [1.0, 1.01], ids=["constant", "growing"])
@pytest.mark.parametrize("name", ["decentralised-admm", "mr-admm", "r-admm"])
@pytest.mark.parametrize("graph", ["complete:5", "path:5", "ring:5"])
def test_unequal_penalties_end_at_the_pooled_optimum(graph, name, growth, shards, setting, played):
    rule = GeometricRho(growth, UNEQUAL, 5.0)
    terms = setting(graph, rounds=400, rho=0.03)
    pooled = optimum(PROBLEM, shards, 3, 1e-11)
    state = played(by_edge(name, rho=rule).plan(terms, Multiplier(0.0)), shards)[-1]
    np.testing.assert_allclose(state.agents.released, np.tile(pooled, (5, 1)), atol=1e-5)
    own = played(ALGORITHMS[name].tuned(rho=rule).plan(terms, Multiplier(0.0)), shards)[-1]
    assert np.linalg.norm(own.agents.released - pooled, axis=1).min() > 0.03


@every_graph
@pytest.mark.parametrize("name", ["private-mr-admm", "pvp-mr-admm", "pvp-graph"])
def test_duals_sum_to_zero_at_all_times_whatever_the_noise(name, graph, shards, setting):
    plan = by_edge(name, rho=EACH).plan(setting(graph, rounds=6), Multiplier(2.0))
    _, q, _ = walk(plan, shards, somewhere())
    assert np.abs(q[-1]).max() > 0.1
    assert max(np.abs(dual.sum(axis=0)).max() for dual in q) < 1e-12


@pytest.mark.parametrize("name", ["decentralised-admm", "mr-admm"])
def test_with_one_penalty_for_all_nothing_changes(name, shards, setting, played):
    terms = setting("erdos-renyi:5:0.5", rounds=4)
    plans = [recipe.plan(terms, Multiplier(0.0)) for recipe in (ALGORITHMS[name], by_edge(name))]
    released = [played(plan, shards)[-1].agents.released for plan in plans]
    np.testing.assert_array_equal(*released)
    each = [recipe.tuned(rho=SequenceRho(5, (0.06,) * 5)).plan(terms, Multiplier(0.0)) for recipe in
            (ALGORITHMS[name], by_edge(name))]  # fmt: skip
    np.testing.assert_allclose(*(played(plan, shards)[-1].agents.released for plan in each), atol=1e-9)


@pytest.mark.parametrize("name", ["private-mr-admm", "pvp-mr-admm"])
def test_a_node_alone_answers_as_it_does_among_all(name, shards, setting):
    terms = setting("star:5", rounds=4)
    plan = by_edge(name, rho=EACH).plan(terms, Multiplier(1.5))
    released, duals, _ = walk(plan, shards)
    for i in (4, 0, 2):
        mine = plan.take([i])
        state, heard = begin(mine), first_state(plan, 1).server.common[[i]]
        for k in range(1, 5):
            if k > 1:
                heard = plan.algorithm.consensus.heard(terms, released[k - 1], plan.rho(k - 1))[[i]]
                state = absorb(mine, state, heard, k - 1)
            np.testing.assert_array_equal(state.dual[0], duals[k - 1][i])
            release, state = solve_and_perturb(mine, state, shards.take([i]), heard, k, random_bits(k, [i]))
            np.testing.assert_array_equal(release.value[0], released[k][i])
            assert release.events == (plan.events(k)[i],)


def test_determinants_are_paid_for_by_the_penalties_of_the_edges(setting):
    """kappa_i = w c / (strength + 2 sum of theta_ij), in the events of private-mr-admm."""
    terms = setting("path:5", rounds=2)
    plan = by_edge("private-mr-admm", rho=EACH).plan(terms, Multiplier(3.0))
    near = neighbours(terms.graph)
    for i in range(5):
        total = sum((theta(EACH, 0.06, i, 1) + theta(EACH, 0.06, j, 1)) / 2 for j in near[i])
        ratio = 0.25 / terms.counts[i] / (0.05 + 2 * total)
        charged = plan.events(1)[i].events[0].kappa
        assert ratio <= charged <= ratio * 1.011


class Own(RhoSchedule):
    """A penalty that follows a node's records."""

    name = "own"
    about = "by count"

    def value(self, setting, level, round):
        return setting.rho * np.sqrt(setting.counts)


def test_what_edge_penalties_do_not_go_with_is_refused(setting):
    with pytest.raises(InputError, match="the dual step has a penalty of its own"):
        by_edge("m-admm").plan(setting(), Multiplier(0.0))
    with pytest.raises(InputError, match="the dual step has a penalty of its own"):
        by_edge("mr-admm", dual_rho=ConstantRho(0.1)).plan(setting(), Multiplier(0.0))
    with pytest.raises(InputError, match="rule 'own' may look at a node's own facts"):
        by_edge("mr-admm", rho=Own()).plan(setting(), Multiplier(0.0))
    with pytest.raises(InputError, match="has no edge penalties to set"):
        ALGORITHMS["dp-admm"].tuned(edge_penalties=True)


def test_theorem_iv_1_says_nothing_of_them(setting):
    terms = setting("ring:5")
    assert convergence_condition(by_edge("mr-admm", rho=EACH).plan(terms, Multiplier(0.0))) is None
    assert convergence_condition(by_edge("mr-admm").plan(terms, Multiplier(0.0))) is not None
