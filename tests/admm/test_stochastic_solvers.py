"""Several gradient steps a round: mini-batches are fair, means are the paper's, and the server applies the penalty."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from dpadmm.admm.consensus import PenalisedStar, Server
from dpadmm.admm.rounds import absorb, begin, first_state, next_server, solve_and_perturb
from dpadmm.admm.sampling import SAMPLINGS, SMALLEST_RATE, odds_of
from dpadmm.admm.schedules import Averaged, Fixed, Stable
from dpadmm.admm.setting import Multiplier, NoiseLevel, Setting
from dpadmm.admm.solvers import GradientSteps, Sgd, Svrg
from dpadmm.admm.solvers.base import Subproblem
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses import Logistic, SmoothedHinge, Softmax
from dpadmm.problems.penalties import L1, L2, ElasticNet
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import Ball, Box
from dpadmm.problems.shards import gather
from dpadmm.release.random_bits import SeededRandomness

ROWS = 20_000
RHO = 0.1


def keyed(rows, seed=0, round=1):
    names = np.arange(rows)
    runs = np.zeros_like(names)
    return lambda purpose: SeededRandomness(seed).stream(runs, names, round, purpose)


def equal(simulated, agents=3, records=8, loss=None):
    """Agents with equally many records."""
    one = simulated(loss, agents=1, records=agents * records)
    owner = np.repeat(np.arange(agents), records)
    return gather(one.real_rows, one.targets, owner, norm_bound=1.0, names=[str(i) for i in range(agents)])


@pytest.fixture
def many(simulated):
    """One agent's twelve records, held by many rows: one oracle call of them is many draws."""
    return equal(simulated, 1, 12).take(np.zeros(ROWS, dtype=np.int64))


def flat(problem, shards):
    zeros = np.zeros((shards.agents, problem.loss.dimension(shards.width, 3)))
    weights = problem.weights(shards.counts)
    return Subproblem(problem, shards, weights, zeros, np.full((shards.agents, 1), RHO), zeros)


def solve(solver, sub, eta, start=None, seed=0):
    start = np.zeros(sub.tilt.shape) if start is None else start
    steps = np.full((len(start), 1), eta)
    return solver.solve(sub, gradients(solver, sub, keyed(len(start), seed)), solver.start(start), steps)


def gradients(solver, sub, random_bits):
    """What the solver is told of gradients, without noise."""
    setting = Setting(sub.problem, sub.shards.counts, sub.tilt.shape[1], 1.0, Relation.ZERO_OUT, 1, width=3)
    sums = solver.sums(setting, sub, random_bits)
    return lambda point: sums(point).value


# -- gradients of mini-batches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [Sgd, Svrg])
@pytest.mark.parametrize("average", ["plain", "over-relaxed"])
@pytest.mark.parametrize("loss", [Logistic(), Softmax()], ids=["logistic", "softmax"])
def test_a_batch_of_all_records_is_the_whole_gradient(solver, average, loss, simulated, subproblem):
    shards = equal(simulated, loss=loss)
    sub = subproblem(Problem(loss, L2(), 0.05), shards)
    whole, memory = solve(GradientSteps(updates=6, average=average), sub, 0.4)
    drawn, kept = solve(solver(updates=6, average=average, batch=8), sub, 0.4)
    np.testing.assert_allclose(drawn, whole, atol=3e-9)  # rounded on another lattice
    np.testing.assert_array_equal(kept.point, drawn)  # the next round goes on from the mean
    np.testing.assert_array_equal(memory.point, whole)
    less, _ = solve(solver(updates=6, average=average, batch=4), sub, 0.4)
    assert np.abs(less - whole).max() > 1e-3


def by_hand(shards, point):
    """Each record's gradient of the logistic loss, from its formula; (records, D)."""
    a, b = shards.real_rows[: shards.counts[0]], shards.targets[: shards.counts[0]]
    return -a * (b / (1 + np.exp(b * (a @ point))))[:, None]


def estimates(solver, many, anchor, point, seed=0):
    """Estimates at `point` by many rows, in a round that began at the anchor."""
    oracle = gradients(solver, flat(Problem(), many), keyed(ROWS, seed))
    if isinstance(solver, Svrg):
        whole = oracle(np.tile(anchor, (ROWS, 1)))
        np.testing.assert_allclose(whole[0], by_hand(many, anchor).mean(axis=0), atol=2e-6)
        assert np.ptp(whole, axis=0).max() == 0.0
    return oracle(np.tile(point, (ROWS, 1)))


ANCHOR, POINT = np.array([0.5, -1.0, 0.3]), np.array([-1.0, 2.0, 0.7])
SOLVERS = {
    "sgd": Sgd(batch=3),
    "sgd by a share": Sgd(batch=0.25),
    "svrg": Svrg(batch=3),
    "svrg by a share": Svrg(batch=0.25),
    "one record": Svrg(batch=1, sampling="uniform"),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_an_estimate_is_right_in_the_mean_and_spreads_as_independent_draws_do(name, many):
    solver = SOLVERS[name]
    found = estimates(solver, many, ANCHOR, POINT)
    each = by_hand(many, POINT) - (by_hand(many, ANCHOR) if isinstance(solver, Svrg) else 0.0)
    whole = by_hand(many, POINT).mean(axis=0)
    rate = 1 / 4
    variance = each.var(axis=0) if name == "one record" else (1 - rate) / rate * (each**2).sum(axis=0) / 12**2
    assert (np.abs(found.mean(axis=0) - whole) < 4.5 * np.sqrt(variance / ROWS)).all()
    np.testing.assert_allclose(found.var(axis=0), variance, rtol=0.05)


@pytest.mark.parametrize("solver", [Sgd(batch=0.25), Svrg(batch=3)], ids=["sgd", "svrg"])
def test_an_estimate_is_scaled_by_the_mean_size_of_a_batch_whatever_its_own(solver, many):
    """(1 / (q m)) times the sum over who was drawn, plus the anchor; an empty draw is zero, or the anchor alone."""
    random_bits = keyed(ROWS, 3)
    draws = SAMPLINGS["poisson"](random_bits("batch.2"), np.full(ROWS, 12), odds_of(np.full(ROWS, 0.25)))
    oracle = gradients(solver, flat(Problem(), many), random_bits)
    first = oracle(np.tile(ANCHOR, (ROWS, 1)))
    second = oracle(np.tile(POINT, (ROWS, 1)))
    here, there = by_hand(many, POINT), by_hand(many, ANCHOR)
    sizes = set()
    for row, drawn in list(enumerate(np.split(draws[0], np.cumsum(draws[1])[:-1])))[:300]:
        sizes.add(drawn.size)
        if isinstance(solver, Svrg):
            expected = there.mean(axis=0) + (here - there)[drawn].sum(axis=0) / 3
        else:
            expected = here[drawn].sum(axis=0) / 3
        np.testing.assert_allclose(second[row], expected, atol=1e-5)
    assert {0, 1, 3, 5} <= sizes
    assert np.abs(first - second).max() > 0.1


def test_the_spread_that_steps_are_told_bounds_that_of_the_estimates(many, terms):
    solver = Sgd(batch=0.25)
    setting = terms(Problem(), many)
    found = estimates(solver, many, ANCHOR, POINT)
    seen = math.sqrt(((found - by_hand(many, POINT).mean(axis=0)) ** 2).sum(axis=1).mean())
    bound = solver.spread(setting)
    np.testing.assert_allclose(bound, math.sqrt(0.75 / 0.25 / 12), rtol=1e-12)
    assert 0.3 * bound[0] < seen < bound[0]
    np.testing.assert_array_equal(Svrg(batch=3).spread(setting), 0.0)
    np.testing.assert_array_equal(Sgd(batch=12).spread(setting), 0.0)


@pytest.mark.parametrize("solver", [Svrg(batch=3), Svrg(batch=1, sampling="uniform")], ids=["poisson", "uniform"])
def test_variance_vanishes_at_the_anchor(solver, many):
    deviations = []
    for distance in (1.0, 0.1, 0.01):
        found = estimates(solver, many, ANCHOR, ANCHOR + distance * (POINT - ANCHOR))
        deviations.append(found.std(axis=0).max())
    assert deviations[1] == pytest.approx(deviations[0] / 10, rel=0.5)
    assert deviations[2] == pytest.approx(deviations[1] / 10, rel=0.1)
    at_it = estimates(solver, many, ANCHOR, ANCHOR)
    assert np.ptp(at_it, axis=0).max() == 0.0


@pytest.mark.parametrize("solver", [Sgd(updates=5, batch=2), Svrg(updates=5, batch=2)], ids=["sgd", "svrg"])
def test_every_step_draws_anew(solver, simulated, monkeypatch):
    asked, honest = [], SAMPLINGS["poisson"]

    def listening(stream, counts, odds):
        drawn = honest(stream, counts, odds)
        asked.append((stream.words(0, 1).tobytes(), b"".join(part.tobytes() for part in drawn)))
        return drawn

    monkeypatch.setitem(SAMPLINGS, "poisson", listening)
    solve(solver, flat(Problem(), equal(simulated, 3, 40)), 0.3)
    streams, drawn = (set(part) for part in zip(*asked, strict=True))
    assert len(asked) == (4 if isinstance(solver, Svrg) else 5)  # at the anchor there is nothing to correct
    assert len(streams) == len(drawn) == len(asked)


def test_rates_are_a_share_of_each_agent_s_records_or_a_number_of_them():
    counts = np.array([10, 20, 1000])
    np.testing.assert_allclose(Sgd(batch=0.05).rates(counts), [0.05] * 3, rtol=1e-3)
    np.testing.assert_allclose(Svrg(batch=10).rates(counts), [1.0, 0.5, 0.01], rtol=1e-3)
    np.testing.assert_array_equal(Svrg(batch=10).rates(counts)[:2], [1.0, 0.5])


def test_a_rate_that_coins_cannot_meet_is_refused(terms):
    with pytest.raises(InputError, match="coins are not so fine"):
        Sgd(batch=1.0).check(terms(Problem(), [int(1.01 / SMALLEST_RATE)]))
    with pytest.raises(InputError, match=r"batch = .* must be a number from"):  # a share that is smaller still
        Sgd(batch=SMALLEST_RATE / 1.01)
    Sgd(batch=1).check(terms(Problem(), [int(1 / SMALLEST_RATE)]))


# -- the paper's loop --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("average", ["plain", "over-relaxed"])
def test_rounds_are_those_of_the_paper_written_out(average, simulated, terms, monkeypatch):
    """Spec 5.1 in plain NumPy, lambda = -y and g(z) = n R |z|²/2, with the same records drawn."""
    n, K, S, eta, strength, M = 3, 4, 5, 0.3, 0.2, 7
    shards = equal(simulated, n, M)
    rng = np.random.default_rng(0)
    drawn = rng.integers(M, size=(K, S, n))
    order = iter([drawn[k, s] for k in range(K) for s in range(1, S)])
    monkeypatch.setitem(SAMPLINGS, "uniform", lambda *_: (next(order), np.ones(n, dtype=np.int64)))
    recipe = ALGORITHMS["scas-admm-paper"].tuned(updates=S, average=average, schedule=Fixed(eta))
    plan = recipe.plan(terms(Problem(penalty=L2(), strength=strength), shards, rounds=K, rho=RHO), Multiplier(0.0))

    def slope(i, m, v):
        row = shards.starts[i] + m
        a, b = shards.real_rows[row], shards.targets[row]
        return -b * a / (1 + np.exp(b * (a @ v)))

    v_L = 0.25 + RHO
    zeta, xi = 2 * eta - 4 * eta / (1 - 2 * eta * v_L), 4 * eta / (1 - 2 * eta * v_L)
    x, lam, z = np.zeros((n, 3)), np.zeros((n, 3)), np.zeros(3)
    state, server = begin(plan), first_state(plan, 1).server
    for k in range(K):
        after = np.empty_like(x)
        for i in range(n):
            anchor = v = x[i]
            u = np.mean([slope(i, m, anchor) for m in range(M)], axis=0)
            total = np.zeros(3)
            for s in range(S):
                m = drawn[k, s, i]
                g = slope(i, m, v) - slope(i, m, anchor) + u + lam[i] + RHO * (v - z)
                before, v = v, v - eta * g
                total += (zeta * before + xi * v) / (2 * eta) if average == "over-relaxed" else v
            after[i] = total / S
        x = after
        z = (RHO * x + lam).sum(axis=0) / (n * RHO + n * strength)
        lam = lam + RHO * (x - z)
        release, state = solve_and_perturb(plan, state, shards, np.repeat(server.common, n, axis=0), k + 1, keyed(n))
        server = next_server(plan, server, release.value[None], k + 1)
        state = absorb(plan, state, np.repeat(server.common, n, axis=0), k + 1)
        np.testing.assert_allclose(release.value, x, atol=1e-5)
        np.testing.assert_allclose(server.common[0], z, atol=1e-5)
        np.testing.assert_allclose(state.dual, -lam, atol=1e-5)
    assert np.abs(lam).max() > 1e-2
    assert next(order, None) is None


@pytest.mark.parametrize("eta", [1e-6, 0.01, 0.3, 1.2, 1.4])
def test_the_paper_s_weights_are_no_mean(eta):
    """F11: zeta < 0 for every step that is allowed, and zeta + xi = 2 eta; noise is stretched at least twofold."""
    v_L = 0.25 + RHO
    zeta, xi = 2 * eta - 4 * eta / (1 - 2 * eta * v_L), 4 * eta / (1 - 2 * eta * v_L)
    assert zeta < 0
    assert zeta + xi == pytest.approx(2 * eta, rel=1e-9)
    shards = gather(np.eye(3), np.ones(3), np.zeros(3), norm_bound=1.0)
    sub = flat(Problem(), shards)
    point = np.array([[1.0, -2.0, 0.5]])
    whole = Svrg(updates=1, batch=1, sampling="uniform", average="over-relaxed")
    stretched, _ = solve(whole, sub, eta, point)
    plain, _ = solve(replace(whole, average="plain"), sub, eta, point)
    np.testing.assert_allclose(stretched, (zeta * point + xi * plain) / (2 * eta), rtol=1e-9)
    factor = (stretched - point) / (plain - point)
    assert (factor >= 2.0 - 1e-6).all()


# -- keeping close -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", [Box(0.3), Ball(0.35)], ids=["box", "ball"])
@pytest.mark.parametrize("reach", [0.05, 0.2])
def test_reach_keeps_every_point_near_the_anchor_and_inside_the_set(domain, reach, simulated, subproblem):
    sub = subproblem(Problem(domain=domain), equal(simulated, 5, 20), spread=3.0)
    start = domain.project(np.random.default_rng(1).standard_normal((5, 3)))
    farthest = {}
    for limit in (reach, None):
        solver = Svrg(updates=30, batch=4, reach=limit)
        honest, asked = gradients(solver, sub, keyed(5)), []

        def listening(point, honest=honest, asked=asked):
            asked.append(point)
            return honest(point)

        found, memory = solver.solve(sub, listening, solver.start(start), np.full((5, 1), 0.8))
        for point in (*asked, found, memory.point):
            assert domain.contains(point, 1e-12).all()
        farthest[limit] = max(np.linalg.norm(point - start, axis=1).max() for point in asked)
    assert farthest[reach] == pytest.approx(reach, rel=1e-12)
    assert farthest[None] > 1.2 * reach


def test_the_plain_mean_stays_in_the_set(simulated, subproblem):
    sub = subproblem(Problem(domain=Box(0.05)), equal(simulated, 5, 20), spread=3.0)
    for solver in (GradientSteps(), Sgd(), Svrg()):
        found, _ = solve(solver, sub, 0.8)
        assert np.abs(found).max() <= 0.05 * (1 + 1e-15)
        assert np.abs(found).max() > 0.04


# -- steps -------------------------------------------------------------------------------------------------------------


def test_stable_steps_are_a_share_of_the_largest(terms):
    setting = terms(Problem(Softmax()), [5, 9], rho=0.3)
    np.testing.assert_allclose(Stable().eta(setting, None, 3), 1 / (4 * (0.5 + 0.3)), rtol=1e-14)
    np.testing.assert_allclose(Stable(1.0).eta(setting, None, 1), 1 / 0.8, rtol=1e-14)


def test_averaged_steps_balance_distance_against_noise(terms):
    """1/eta = L + rho + sqrt(K S (D sigma² + spread²)) / c_w."""
    setting = terms(Problem(), [5, 9], rho=0.3, rounds=7, radius=2.0)
    sigma, spread = np.array([0.1, 0.4]), np.array([0.2, 0.5])
    level = NoiseLevel(sigma, 1.0, steps=4, spread=spread)
    expected = 0.25 + 0.3 + np.sqrt(28 * (3 * sigma**2 + spread**2)) / 2.0
    np.testing.assert_allclose(Averaged().eta(setting, level, 1), 1 / expected, rtol=1e-14)
    np.testing.assert_allclose(Averaged().eta(setting, level, 7), 1 / expected, rtol=1e-14)
    whole = replace(level, spread=None)
    np.testing.assert_allclose(
        Averaged().eta(setting, whole, 1), 1 / (0.55 + np.sqrt(28 * 3) * sigma / 2.0), rtol=1e-14
    )
    kink = replace(setting, problem=Problem(SmoothedHinge(0.5), L1(), 0.1))
    assert kink.smoothness is None
    expected = 0.3 + np.sqrt(28 * (3 * sigma**2 + 1.0)) / 2.0
    np.testing.assert_allclose(Averaged().eta(kink, whole, 1), 1 / expected, rtol=1e-14)


def test_a_plan_tells_its_steps_of_noise_and_mini_batches(terms):
    for name, spreads in (("sgd-admm", True), ("scas-admm", False), ("gradient-admm", False)):
        recipe = ALGORITHMS[name].tuned(updates=4)
        setting = terms(Problem(penalty=L2(), strength=0.1), [5, 80])
        plan = recipe.plan(setting, Multiplier(0.0))
        assert plan.level.steps == 4
        assert (plan.eta(1) < 1 / (0.25 + 0.1)).all() == spreads
        if not spreads:
            np.testing.assert_allclose(plan.eta(1), 1 / (0.25 + 0.1), rtol=1e-14)


# -- the penalty at the server -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [L1(), L2(), ElasticNet(0.3)], ids=["l1", "l2", "elastic-net"])
def test_the_server_minimises_the_penalty_and_the_distance_to_releases(penalty, terms):
    """Spec 5.1 step 2: argmin n strength R(z) + sum <y_i, z> + (rho/2) |x_i - z|², one coordinate at a time."""
    n, rho, strength = 4, 0.37, 0.25
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((2, n, 5))
    setting = terms(Problem(penalty=penalty, strength=strength), [5, 6, 7, 8], dimension=5, rho=rho)
    server = Server(np.zeros((1, 5)), y.mean(axis=0)[None])
    found = PenalisedStar().combine(setting, server, x[None], round=1, eta=np.ones(n), rho=rho, next_rho=99.0)

    def objective(value, j):
        penalised = np.zeros((1, 5))
        penalised[0, j] = value
        reach = rho / 2 * ((x[:, j] - value) ** 2).sum()
        return n * strength * float(penalty.value(penalised)[0]) + (y[:, j] * value).sum() + reach

    for j in range(5):
        best = minimize_scalar(objective, bracket=(-3.0, 3.0), args=(j,), options={"xtol": 1e-12})
        assert found.common[0, j] == pytest.approx(best.x, abs=1e-7)
    np.testing.assert_allclose(found.dual[0], (y - rho * (x - found.common)).mean(axis=0), atol=1e-14)
    assert np.abs(found.common).max() > 0.1
