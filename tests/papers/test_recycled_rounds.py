"""Recycled rounds (theory section 6.4): even rounds follow from releases alone and read no record."""

import math
from dataclasses import replace

import numpy as np
import pytest
from graph_walks import (
    PENALTIES,
    PROBLEM,
    every_graph,
    every_penalty,
    neighbours,
    objective,
    random_bits,
    somewhere,
    theta,
    walk,
)

from dpadmm.admm.perturbations import Free
from dpadmm.admm.rho import ConstantRho
from dpadmm.admm.rounds import AgentState, absorb, begin, solve_and_perturb
from dpadmm.admm.setting import Multiplier
from dpadmm.admm.solvers import Exact, Recycled
from dpadmm.admm.solvers.exact import START
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.problems.problem import Problem
from dpadmm.problems.reference import optimum
from dpadmm.problems.sets import Box

NOISES = {"none": None, "gamma-norm": "gamma-norm", "gaussian": "gaussian"}


def recipe_for(noise, rule, damping=0.013):
    recipe = ALGORITHMS["mr-admm" if noise is None else "private-mr-admm"].tuned(rho=rule, damping=damping)
    return recipe if noise is None else recipe.tuned(mechanism=noise)


@every_graph
@every_penalty
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_an_even_step_is_the_closed_form_of_what_was_released(noise, rule, graph, shards, setting):
    recipe, terms = recipe_for(noise, rule), setting(graph, rounds=6)
    plan = recipe.plan(terms, Multiplier(1.5 if noise else 0.0))
    x, _, _ = walk(plan, shards, somewhere())
    for k in range(1, 4):
        for i, near in enumerate(neighbours(terms.graph)):
            t = theta(rule, 0.06, i, k)
            step = x[2 * k - 1][i].copy()
            for j in near:
                around = 2 * x[2 * k - 1][j] - x[2 * k - 2][i] - x[2 * k - 2][j]
                step += t / (2 * t * len(near) + 0.013) * around
            np.testing.assert_allclose(x[2 * k][i], step, atol=1e-10)
            assert np.abs(x[2 * k][i] - x[2 * k - 1][i]).max() > 1e-4


@every_graph
@every_penalty
def test_without_noise_an_even_step_is_a_gradient_step_on_the_records(rule, graph, shards, setting):
    """(10): x - [grad f + 2q + theta sum (x_i - x_j)] / (2 theta V + gamma), with q that moved after the odd round."""
    terms = setting(graph, rounds=6)
    x, q, _ = walk(recipe_for(None, rule).plan(terms, Multiplier(0.0)), shards, somewhere())
    for k in range(1, 4):
        for i, near in enumerate(neighbours(terms.graph)):
            t, here = theta(rule, 0.06, i, k), x[2 * k - 1][i]
            pull = objective(shards, i, here)[1] + 2 * q[2 * k - 1][i]
            for j in near:
                pull = pull + t * (here - x[2 * k - 1][j])
            np.testing.assert_allclose(x[2 * k][i], here - pull / (2 * t * len(near) + 0.013), atol=1e-8)


def test_with_another_dual_step_the_even_step_is_the_gradient_step_with_those_duals(shards, setting):
    recipe = recipe_for(None, PENALTIES["of each node"]).tuned(dual_rho=ConstantRho(0.02))
    terms = setting("random-regular:5:2", rounds=6)
    x, q, _ = walk(recipe.plan(terms, Multiplier(0.0)), shards, somewhere())
    for k in range(1, 4):
        for i, near in enumerate(neighbours(terms.graph)):
            t, here = theta(PENALTIES["of each node"], 0.06, i, k), x[2 * k - 1][i]
            apart = sum(here - x[2 * k - 1][j] for j in near)
            np.testing.assert_allclose(q[2 * k - 1][i], q[2 * k - 2][i] + 0.01 * apart, atol=1e-14)
            pull = objective(shards, i, here)[1] + 2 * q[2 * k - 1][i] + t * apart
            np.testing.assert_allclose(x[2 * k][i], here - pull / (2 * t * len(near) + 0.013), atol=1e-8)


def test_duals_rest_in_even_rounds(shards, setting):
    _, q, _ = walk(recipe_for(None, ConstantRho()).plan(setting(rounds=7), Multiplier(0.0)), shards, somewhere())
    for k in range(1, 4):
        np.testing.assert_array_equal(q[2 * k], q[2 * k - 1])
        assert np.abs(q[2 * k + 1] - q[2 * k]).max() > 1e-4


def test_without_damping_or_movement_nothing_moves(shards, setting):
    """At the optimum with its duals a cycle ends where it began, whatever the damping."""
    terms = setting("complete:5", rounds=2)
    best = optimum(PROBLEM, shards, 3, 1e-12)
    slopes = np.stack([objective(shards, i, best)[1] for i in range(5)])
    for damping in (0.0, 0.5):
        plan = ALGORITHMS["r-admm"].tuned(damping=damping).plan(terms, Multiplier(0.0))
        state = replace(begin(plan), released=np.tile(best, (5, 1)), dual=-slopes / 2)
        heard = np.tile(best, (5, 1))
        for k in (1, 2):
            release, state = solve_and_perturb(plan, state, shards, heard, k, random_bits(k))
            np.testing.assert_allclose(release.value, heard, atol=1e-8)


# -- what the recycled gradient tells ----------------------------------------------------------------------------------


@every_penalty
def test_the_recycled_gradient_is_made_of_releases_and_public_numbers(rule, shards, setting):
    """Recomputed from what an eavesdropper has: releases, duals that follow from them, and terms."""
    recipe = recipe_for("gamma-norm", rule).tuned(tolerance=1e-3, extra_curvature=0.02)
    terms = setting("star:5", rounds=6)
    x, q, states = walk(recipe.plan(terms, Multiplier(1.0)), shards, somewhere())
    near = neighbours(terms.graph)
    for k in range(1, 7):
        if k % 2 == 0:
            assert states[k].slope is None
            continue
        for i in range(5):
            t = theta(rule, 0.06, i, (k + 1) // 2)
            there = 2 * q[k - 1][i] + 2 * t * sum(x[k][i] - (x[k - 1][i] + x[k - 1][j]) / 2 for j in near[i])
            np.testing.assert_allclose(states[k].slope[i], -there, atol=1e-14)
    assert states[1].memory.trail is None
    assert states[2].memory.trail is None


def test_an_inexact_minimiser_gives_its_residual_away_to_nobody(shards, setting):
    """Of a solver that stops at 1e-3: the recycled gradient is off by the residual, which is private."""
    recipe = ALGORITHMS["r-admm"].tuned(tolerance=1e-3)
    _, _, states = walk(recipe.plan(setting(rounds=1), Multiplier(0.0)), shards, somewhere())
    released, slope = states[1].released, states[1].slope
    own = np.stack([objective(shards, i, released[i])[1] for i in range(5)])
    residual = np.linalg.norm(slope - own, axis=1)
    assert (residual <= 1e-3 * (1 + 1e-9)).all()
    assert residual.max() > 1e-6


def test_a_noisy_release_is_recycled_not_the_minimiser_behind_it(shards, setting):
    """Noise on the output covers the tolerance: the slope belongs to the value with it."""
    recipe = ALGORITHMS["private-r-admm"].tuned(tolerance=1e-3)
    terms = setting("ring:5", rounds=2, rho=0.06)
    plan = recipe.plan(terms, Multiplier(1.0))
    first = somewhere()
    heard = plan.algorithm.consensus.opening(terms, first, 1).common
    release, state = solve_and_perturb(plan, replace(begin(plan), released=first), shards, heard, 1, random_bits(1))
    found = state.memory.private[START]
    assert (np.abs(release.value - found).max(axis=1) > 1e-4).all()
    np.testing.assert_array_equal(state.released, release.value)
    np.testing.assert_allclose(state.slope, -0.24 * (release.value - (first + heard) / 2), atol=1e-14)
    assert (np.abs(state.slope + 0.24 * (found - (first + heard) / 2)).max(axis=1) > 1e-5).all()
    # The free round gives the same whatever the solver remembers.
    state = absorb(plan, state, heard, 1)
    forgotten = replace(state, memory=replace(state.memory, point=state.memory.point + 1.0, private={}))
    values = [solve_and_perturb(plan, s, shards, heard, 2, random_bits(2))[0].value for s in (state, forgotten)]
    np.testing.assert_array_equal(*values)


def test_a_state_with_a_slope_can_be_stored(shards, setting):
    _, _, states = walk(recipe_for("gamma-norm", ConstantRho()).plan(setting(rounds=2), Multiplier(1.0)), shards)
    for state, has in ((states[1], True), (states[2], False)):
        arrays = state.to_arrays()
        assert ("slope" in arrays) == has
        back = AgentState.from_arrays(arrays)
        assert (back.slope is not None) == has
        if has:
            np.testing.assert_array_equal(back.slope, state.slope)
        np.testing.assert_array_equal(back.memory.point, state.memory.point)
        assert set(back.memory.private) == set(state.memory.private)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_free_round_is_for_solvers_that_read_no_records(setting):
    with pytest.raises(InputError, match="'free' is for steps that read no records, and solver 'exact' reads them"):
        Free().check(setting(), Exact())
    Free().check(setting(), Recycled())
    recipe = ALGORITHMS["r-admm"]
    leaky = replace(recipe, phases=(recipe.phases[0], replace(recipe.phases[1], solver=Exact())))
    with pytest.raises(InputError, match="'free' is for steps that read no records"):
        leaky.plan(setting(), Multiplier(0.0))


def test_a_recycled_round_has_no_formula_for_a_set(setting):
    terms = replace(setting(), problem=replace(PROBLEM, domain=Box(1.0)))
    for name in ("r-admm", "mr-admm"):
        with pytest.raises(InputError, match="solver 'recycled' has no formula for the set 'box'; use 'whole'"):
            ALGORITHMS[name].plan(terms, Multiplier(0.0))
    for name in ("private-r-admm", "private-mr-admm"):
        with pytest.raises(InputError, match="no lemma for the set 'box'"):
            ALGORITHMS[name].plan(terms, Multiplier(1.0))


@pytest.mark.parametrize("damping", [-0.1, math.nan, math.inf])
def test_damping_is_not_negative(damping):
    with pytest.raises(InputError, match=r"'recycled': damping = .* must be"):
        ALGORITHMS["r-admm"].tuned(damping=damping)
    assert ALGORITHMS["r-admm"].tuned(damping=0.0).phases[1].solver == Recycled(0.0)


def test_a_recycled_phase_must_follow_an_exact_one(simulated, terms):
    exact, recycled = ALGORITHMS["r-admm"].phases
    linear = ALGORITHMS["linearised-admm"].phases[0]
    for phases in ((recycled, exact), (exact, recycled, recycled), (linear, recycled)):
        with pytest.raises(InputError, match=r"solver 'recycled' goes by the answer of an exact minimiser"):
            replace(ALGORITHMS["r-admm"], phases=phases).check(terms(Problem(), simulated()))
    ALGORITHMS["r-admm"].check(terms(Problem(), simulated()))
