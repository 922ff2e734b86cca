"""Nesterov's momentum and a weighted mean at the server: against a plain loop, and what of it costs nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.admm.consensus import Accelerated, Descent, Server
from dpadmm.admm.rounds import absorb, begin, first_state, next_server, solve_and_perturb
from dpadmm.admm.schedules import Fixed, Horizon
from dpadmm.admm.setting import Multiplier, NoiseLevel, TotalBudget
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.problems.penalties import L1, L2
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import Ball, Box

SMOOTH = Problem(penalty=L2(), strength=0.05)


def played(plan, shards, drawing, rounds):
    """(releases, server) after each round, driven by hand."""
    state, server = begin(plan), first_state(plan, 1).server
    agents = plan.setting.agents
    for k in range(1, rounds + 1):
        release, during = solve_and_perturb(
            plan, state, shards, np.repeat(server.common, agents, axis=0), k, drawing(agents)
        )
        server = next_server(plan, server, release.value[None], k)
        state = absorb(plan, during, np.repeat(server.common, agents, axis=0), k)
        yield release.value, server


def logistic_gradients(shards, z):
    """Of each agent at z, by NumPy."""
    found = []
    for start, stop in zip(shards.starts, shards.stops, strict=True):
        rows, signs = shards.real_rows[start:stop], shards.targets[start:stop]
        found.append(-(rows.T @ (signs / (1.0 + np.exp(signs * (rows @ z))))) / (stop - start))
    return np.array(found)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("penalty", [L1(), L2()], ids=["l1", "l2"])
def test_it_is_nesterov_s_method_with_a_weighted_mean(momentum, penalty, simulated, terms, drawing):
    shards, strength, eta = simulated(), 0.05, 3.0
    setting = terms(Problem(penalty=penalty, strength=strength), shards)
    recipe = ALGORITHMS["accelerated"].tuned(momentum=momentum, schedule=Fixed(eta))
    w = ahead = np.zeros(3)
    points = []
    for released, server in played(recipe.plan(setting, Multiplier(0.0)), shards, drawing, 12):
        gradients = logistic_gradients(shards, ahead)
        np.testing.assert_allclose(released, gradients, atol=2e-6)  # slopes are whole numbers
        slope = gradients.mean(axis=0) + strength * (np.sign(ahead) if penalty.name == "l1" else ahead)
        before, w = w, ahead - (1.0 - momentum) * eta * slope
        ahead = w + momentum * (w - before)
        points.append(w)
        weights = np.arange(1, len(points) + 1)
        np.testing.assert_allclose(server.point[0], w, atol=1e-5)
        np.testing.assert_allclose(server.common[0], ahead, atol=1e-5)
        np.testing.assert_allclose(server.mean[0], weights @ np.array(points) / weights.sum(), atol=1e-5)
        np.testing.assert_array_equal(server.dual, 0.0)
    assert np.abs(w).max() > 0.1


def test_the_model_is_the_mean_in_which_the_kth_point_counts_k_times(terms):
    consensus, setting = Accelerated(0.7), terms(SMOOTH, [4, 5])
    rng = np.random.default_rng(0)
    server, points = consensus.opening(setting, np.zeros((2, 3)), 2), []
    for k in range(1, 30):
        releases = rng.normal(size=(2, 2, 3))
        server = consensus.combine(setting, server, releases, round=k, eta=np.full(2, 0.4), rho=0.1, next_rho=0.1)
        points.append(server.point)
        weights = np.arange(1, k + 1)[:, None, None]
        expected = (weights * np.array(points)).sum(axis=0) / weights.sum()
        np.testing.assert_allclose(consensus.model(server, releases), expected, atol=1e-13)
    assert np.abs(server.common - server.mean).max() > 1e-2


def test_without_momentum_its_points_are_those_of_descent(simulated, terms, drawing):
    shards = simulated()
    setting = terms(SMOOTH, shards)
    mine = ALGORITHMS["accelerated"].tuned(momentum=0.0, schedule=Fixed(0.8)).plan(setting, Multiplier(0.0))
    plain = ALGORITHMS["gradient-descent"].tuned(schedule=Fixed(0.8)).plan(setting, Multiplier(0.0))
    pairs = zip(played(mine, shards, drawing, 8), played(plain, shards, drawing, 8), strict=True)
    for (released, server), (expected, descent) in pairs:
        np.testing.assert_array_equal(released, expected)
        np.testing.assert_array_equal(server.common, descent.common)
        np.testing.assert_array_equal(server.point, descent.common)
    assert Descent().model(descent, expected) is descent.common


@pytest.mark.parametrize("domain", [Box(0.05), Ball(0.08)], ids=["box", "ball"])
@pytest.mark.parametrize("multiplier", [0.0, 3.0])
def test_the_model_stays_in_the_set_although_agents_are_asked_outside_of_it(
    domain, multiplier, simulated, terms, drawing
):
    shards = simulated()
    setting = terms(Problem(domain=domain), shards)
    recipe = ALGORITHMS["dp-accelerated"].tuned(momentum=0.9, schedule=Fixed(5.0))
    outside = 0
    for _, server in played(recipe.plan(setting, Multiplier(multiplier)), shards, drawing, 15):
        for inside in (server.mean, server.point):
            np.testing.assert_allclose(domain.project(inside), inside, atol=1e-15)
        outside += not np.allclose(domain.project(server.common), server.common, atol=1e-12)
    assert outside > 0 or multiplier == 0.0


def test_eta_is_how_far_all_goes_that_one_gradient_sets_in_motion(terms):
    """A single gradient, and silence after it: in the end the point has moved by eta, whatever the momentum."""
    setting, eta = terms(Problem(), [4, 5], dimension=2), np.full(2, 0.3)
    pull = np.tile([1.0, -2.0], (1, 2, 1))
    for momentum in (0.0, 0.5, 0.8, 0.95):
        consensus = Accelerated(momentum)
        server = consensus.opening(setting, np.zeros((2, 2)), 1)
        for k in range(1, 1000):
            given = pull if k == 1 else np.zeros_like(pull)
            server = consensus.combine(setting, server, given, round=k, eta=eta, rho=0.1, next_rho=0.1)
        np.testing.assert_allclose(server.point[0], [-0.3, 0.6], rtol=1e-12)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, 1.5, math.nan, math.inf])
def test_a_momentum_out_of_range_is_refused(momentum):
    with pytest.raises(InputError, match=rf"momentum = {momentum!r} must be a number from 0 to 0.999999"):
        Accelerated(momentum)
    with pytest.raises(InputError, match="momentum"):
        ALGORITHMS["dp-accelerated"].tuned(momentum=momentum)


@pytest.mark.parametrize("name", ["dp-admm", "dpsgd", "pvp", "pvp-graph"])
def test_other_recipes_have_no_momentum(name):
    with pytest.raises(InputError, match="momentum"):
        ALGORITHMS[name].tuned(momentum=0.5)


def test_it_opens_where_the_agents_begin(terms):
    first = np.random.default_rng(1).normal(size=(2, 3))
    server = Accelerated().opening(terms(SMOOTH, [4, 5]), first, 3)
    for held in (server.common, server.point, server.mean):
        np.testing.assert_array_equal(held, np.tile(first.mean(axis=0), (3, 1)))
    assert set(server.to_arrays()) == {"common", "dual", "point", "mean"}
    assert set(Server(server.common, server.dual).to_arrays()) == {"common", "dual"}


def test_it_reaches_the_optimum_that_descent_reaches_and_sooner(simulated, terms, drawing):
    shards = simulated()
    setting = terms(Problem(penalty=L2(), strength=1e-3), shards)
    far = ALGORITHMS["accelerated"].tuned(schedule=Fixed(20.0), momentum=0.8).plan(setting, Multiplier(0.0))
    slow = ALGORITHMS["gradient-descent"].tuned(schedule=Fixed(4.0)).plan(setting, Multiplier(0.0))
    best = list(played(slow, shards, drawing, 6000))[-1][1].common
    near, nearer = (list(played(plan, shards, drawing, 150))[-1][1] for plan in (slow, far))
    assert np.linalg.norm(nearer.point - best) < 0.2 * np.linalg.norm(near.common - best)
    np.testing.assert_allclose(nearer.point, best, atol=0.05)


# -- the step for the whole horizon ------------------------------------------------------------------------------------

COUNTS = [10, 20, 40]
SIGMA = np.array([0.3, 0.0, 2.0])
LEVEL = NoiseLevel(SIGMA, epsilon=0.2)


@pytest.mark.parametrize("k", [1, 7, 100])
@pytest.mark.parametrize("travel", [0.05, 0.5])
def test_the_horizon_is_its_formula(k, travel, terms):
    setting = terms(SMOOTH, COUNTS, dimension=12, width=4, rounds=25, norm_bound=2.0)
    sigma = math.sqrt(0.09 + 4.0) / 3  # of the mean of the three
    expected = travel * math.sqrt(4 / 25) / (2.0 * sigma)
    found = Horizon(travel, 100.0).eta(setting, LEVEL, k)
    np.testing.assert_allclose(found, np.full(3, expected), rtol=1e-13)


def test_the_horizon_counts_columns_where_it_knows_them_and_coefficients_otherwise(terms):
    wide, known = terms(SMOOTH, COUNTS, dimension=16), terms(SMOOTH, COUNTS, dimension=16, width=4)
    rule = Horizon(0.5, 100.0)
    np.testing.assert_allclose(rule.eta(wide, LEVEL, 1), 2.0 * rule.eta(known, LEVEL, 1), rtol=1e-13)


def test_no_step_is_longer_than_the_longest(terms):
    setting = terms(SMOOTH, COUNTS)
    uncapped = Horizon(0.5, 1e6).eta(setting, LEVEL, 1)[0]
    np.testing.assert_array_equal(Horizon(0.5, 0.5 * uncapped).eta(setting, LEVEL, 1), np.full(3, 0.5 * uncapped))
    np.testing.assert_allclose(Horizon(0.5, 2.0 * uncapped).eta(setting, LEVEL, 1), np.full(3, uncapped), rtol=1e-14)
    for sigma in (0.0, 1e-300, 1e-12):
        quiet = NoiseLevel(np.full(3, sigma), epsilon=math.inf)
        np.testing.assert_array_equal(Horizon(0.5, 7.0).eta(setting, quiet, 3), np.full(3, 7.0))


def test_rows_in_other_units_lead_to_the_same_scores(terms):
    """Rows R times as long have gradients and noise R times as large: coefficients go 1/R as far, by a step 1/R²."""
    rule = Horizon(0.5, 1e9)
    one = rule.eta(terms(SMOOTH, COUNTS), LEVEL, 1)
    other = rule.eta(terms(SMOOTH, COUNTS, norm_bound=7.0), NoiseLevel(7.0 * SIGMA, epsilon=0.2), 1)
    np.testing.assert_allclose(other, one / 49.0, rtol=1e-13)


def test_noise_of_all_rounds_leads_as_far_as_the_travel_says(terms):
    """K steps along noise alone: every coefficient is travel sqrt(width) / R away, in the mean square."""
    setting, level = terms(SMOOTH, COUNTS, dimension=4, width=4, rounds=64, norm_bound=2.0), LEVEL
    eta = Horizon(0.5, 1e9).eta(setting, level, 1)[0]
    sigma = math.sqrt(float((SIGMA**2).sum())) / 3
    assert math.sqrt(64) * eta * sigma == pytest.approx(0.5 * math.sqrt(4) / 2.0, rel=1e-13)


def test_a_plan_steps_by_its_own_noise_and_its_twin_may_keep_the_step(simulated, terms, drawing):
    """F12: noise that is not added changes the step of nobody who keeps the level it was tuned to."""
    shards = simulated()
    setting, recipe = terms(SMOOTH, shards), ALGORITHMS["dp-accelerated"]
    loud = recipe.plan(setting, TotalBudget((Budget(0.1, 1e-5),)))
    sigma = math.sqrt(float((loud.level.sigma**2).sum())) / 4
    np.testing.assert_allclose(loud.eta(3), 0.5 * math.sqrt(3 / 10) / sigma, rtol=1e-12)
    twin = ALGORITHMS[recipe.twin]
    np.testing.assert_array_equal(twin.plan(setting, Multiplier(0.0)).eta(3), np.full(4, 4.0))
    silent = replace(loud, noise=recipe.plan(setting, Multiplier(0.0)).noise)
    kept = replace(loud, algorithm=twin, noise=twin.plan(setting, Multiplier(0.0)).noise)
    np.testing.assert_array_equal(kept.eta(3), loud.eta(3))
    for (_, mine), (_, theirs) in zip(
        played(silent, shards, drawing, 5), played(kept, shards, drawing, 5), strict=True
    ):
        np.testing.assert_array_equal(mine.mean, theirs.mean)


@pytest.mark.parametrize("name", ["dp-accelerated", "dp-admm"])
def test_a_step_does_not_depend_on_the_company(name, terms):
    """An owner alone, all agents, and the agents of two runs side by side: whoever asks is told the same step."""
    recipe = ALGORITHMS[name].tuned(schedule=Horizon(0.5, 1e6))
    plan = recipe.plan(terms(SMOOTH, COUNTS), TotalBudget((Budget(0.1, 1e-5),)))
    np.testing.assert_array_equal([plan.take([agent]).eta(3)[0] for agent in range(3)], plan.eta(3))
    np.testing.assert_array_equal(plan.take(np.tile(np.arange(3), 2)).eta(3), np.tile(plan.eta(3), 2))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_numbers_of_the_horizon_must_be_positive(bad):
    for numbers in ((bad,), (0.5, bad)):
        with pytest.raises(InputError, match=rf"schedule 'horizon': \w+ = {bad!r} must be"):
            Horizon(*numbers)
