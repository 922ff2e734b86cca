"""Ryu & Kim's recipes: what theory 4.1 and formulas F6 and F7 say of them, and claims B3, B4 and C2."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.admm.consensus import Server
from dpadmm.admm.perturbations import base
from dpadmm.admm.rho import ConstantRho, GrowingRho
from dpadmm.admm.rounds import AgentState, absorb, begin, first_state, next_server, solve_and_perturb
from dpadmm.admm.schedules import Fixed, Free53, Theorem53, Theorem54, Theorem55
from dpadmm.admm.setting import Multiplier, PaperNoise, TotalBudget
from dpadmm.admm.solvers.base import Memory, Subproblem
from dpadmm.errors import ConvergenceError, InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.claims import Claim
from dpadmm.problems.losses import ClippedSquared, Logistic, Softmax
from dpadmm.problems.losses.unrounded import lattice_sum
from dpadmm.problems.penalties import L1, L2
from dpadmm.problems.problem import Problem
from dpadmm.problems.reference import optimum
from dpadmm.problems.sets import Affine, Ball, Box, Each, Intersection, Polyhedron, Range, Simplex, Whole
from dpadmm.problems.shards import gather
from dpadmm.release.perturb import add_noise
from dpadmm.release.random_bits import SeededRandomness

OBJECTIVE = ("obj-g", "obj-l")
RECIPES = ("obj-g", "obj-l", "out-g", "out-l")
CLOSED = {
    "whole": Whole(),
    "box": Box(0.1),
    "range": Range(np.array([-0.2, 0.0, -0.01]), np.array([0.1, np.inf, 0.02])),
    "ball": Ball(0.2),
    "simplex": Simplex(0.5),
    "affine": Affine(np.array([[1.0, 2.0, 0.0]]), np.array([0.1])),
}
CONIC = {
    "polyhedron": Polyhedron(np.array([[1.0, 1.0, 1.0], [-1.0, 0.5, 0.0]]), np.array([0.1, 0.05])),
    "intersection": Intersection((Ball(0.2), Simplex(0.15))),
    "each": Each((Box(0.1), Ball(0.2), Polyhedron(np.array([[1.0, 1.0, 1.0]]), np.array([0.1])))),
}
SETS = CLOSED | CONIC
AT_ONCE = Fixed(0.5)


def random_bits(round, agents, seed=0):
    """The streams of these agents; output noise is drawn from those of gradient noise."""
    names, runs = np.asarray(agents), np.zeros(len(agents), dtype=np.int64)
    return lambda purpose: SeededRandomness(seed).stream(runs, names, round, purpose.replace("output", "gradient"))


@pytest.fixture
def gradient_noise_as_output_noise(monkeypatch):
    """install(setting): output noise becomes minus that which the gradient would have had, over 1/eta + rho."""

    def install(setting, eta=0.5):
        units = (setting.weights * setting.bounds.coarse)[:, None]

        def add(value, mechanism, moved, stream):
            nothing, sensitivity = np.zeros(value.shape, dtype=np.int64), setting.sensitivity(mechanism.norm)
            noise = add_noise(nothing, mechanism, sensitivity, stream) * units
            # It is as large as the output's sensitivity says, which the lattice adds a little to.
            np.testing.assert_allclose(moved * (1 / eta + setting.rho), setting.gradient_sensitivity(mechanism.norm))
            return value - noise / (1 / eta + setting.rho)

        monkeypatch.setattr(base, "release_value", add)

    return install


def steps(plan, shards, rounds, seed=0):
    """(state, server) before and after each round, with the release in between."""
    agents = range(plan.setting.agents)
    state, server = begin(plan), first_state(plan, 1).server
    for k in range(1, rounds + 1):
        rows = np.repeat(server.common, plan.setting.agents, axis=0)
        state = absorb(plan, state, rows, k - 1)
        release, after = solve_and_perturb(plan, state, shards, rows, k, random_bits(k, agents, seed))
        following = next_server(plan, server, release.value[None], k)
        yield state, server, release.value, after, following
        state, server = after, following


# -- F6: where the noise enters ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", CLOSED)
def test_objective_noise_is_output_noise_on_the_free_step_then_projected(
    name, mechanism, simulated, terms, gradient_noise_as_output_noise
):
    """F6: below 1e-12, with the noise of the output minus that of the gradient over 1/eta + rho."""
    shards = simulated()
    inside = terms(Problem(Logistic(), L2(), 0.05, CLOSED[name]), shards)
    free = terms(Problem(Logistic(), L2(), 0.05), shards)
    tuned = {"schedule": AT_ONCE, "rho": ConstantRho(), "mechanism": mechanism}
    objective = ALGORITHMS["obj-g"].tuned(**tuned).plan(inside, Multiplier(1.5))
    output = ALGORITHMS["out-g"].tuned(**tuned).plan(free, Multiplier(1.5))
    gradient_noise_as_output_noise(free)
    moved = 0.0
    for k, (state, server, value, _, _) in enumerate(steps(objective, shards, 4), start=1):
        rows = np.repeat(server.common, 3, axis=0)
        noisy, _ = solve_and_perturb(output, state, shards, rows, k, random_bits(k, range(3)))
        projected = CLOSED[name].project(noisy.value)
        assert np.abs(projected - value).max() < 1e-12
        moved = max(moved, np.abs(noisy.value - value).max())
    assert (moved > 0.01) == (name != "whole")  # elsewhere the projection had something to do


@pytest.mark.parametrize("updates", [1, 3])
def test_on_the_whole_space_the_two_are_one_algorithm(updates, simulated, terms, gradient_noise_as_output_noise):
    """Remark 3.1: over all rounds, with several local updates."""
    shards = simulated()
    setting = terms(Problem(Logistic(), L2(), 0.05), shards)
    gradient_noise_as_output_noise(setting)
    runs = {}
    for name in ("obj-g", "out-g"):
        recipe = ALGORITHMS[name].tuned(schedule=AT_ONCE, rho=ConstantRho(), updates=updates)
        runs[name] = [value for _, _, value, _, _ in steps(recipe.plan(setting, Multiplier(0.8)), shards, 5)]
    np.testing.assert_allclose(runs["obj-g"], runs["out-g"], rtol=0, atol=1e-12)


# -- the algorithm itself ------------------------------------------------------------------------------------------


def test_local_updates_by_hand(simulated, terms):
    """Spec 4.1: E steps, their mean is sent, the last one is carried over; duals and z as written there."""
    shards, rho, eta, bound = simulated(), 0.7, 0.5, 0.2
    problem = Problem(Logistic(), L2(), 0.05, Box(bound))
    recipe = ALGORITHMS["local-updates"].tuned(updates=3, schedule=Fixed(eta), rho=ConstantRho())
    plan = recipe.plan(terms(problem, shards, rho=rho), Multiplier(0.0))
    x, y, u = np.zeros((3, 3, 3))
    apart, edge = 0.0, False
    for _, server, value, after, following in steps(plan, shards, 6):
        z = (x - y / rho).mean(axis=0)
        np.testing.assert_allclose(server.common[0], z, atol=1e-14)
        taken = []
        for _ in range(3):
            g = lattice_sum(problem.loss.query(), shards, u) / shards.counts[:, None] + 0.05 * u
            u = np.clip((u / eta + rho * z + y - g) / (1 / eta + rho), -bound, bound)
            taken.append(u)
        x = np.mean(taken, axis=0)
        y = y + rho * (z - x)
        np.testing.assert_allclose(value, x, atol=1e-14)
        np.testing.assert_allclose(after.memory.point, u, atol=1e-14)
        np.testing.assert_allclose(after.dual, y, atol=1e-14)
        np.testing.assert_allclose(following.dual[0], y.mean(axis=0), atol=1e-14)
        apart, edge = max(apart, np.abs(u - x).max()), edge or (np.abs(u) == bound).any()
    assert apart > 0.01  # carrying over and resetting are not the same
    assert edge


@pytest.mark.parametrize("name", [*RECIPES, "local-updates"])
def test_both_sides_keep_the_same_duals_and_nobody_sends_them(name, simulated, terms):
    shards = simulated()
    request = Multiplier(1.0 if ALGORITHMS[name].private else 0.0)
    plan = ALGORITHMS[name].tuned(rho=GrowingRho(0.3, 0.1, 2)).plan(terms(Problem(), shards), request)
    before = np.zeros(3)
    for k, (_, _, value, after, following) in enumerate(steps(plan, shards, 6), start=1):
        rho, mean = plan.rho(k), value.mean(axis=0)
        np.testing.assert_allclose(following.dual[0], after.dual.mean(axis=0), atol=1e-12)
        # From y = 0 the mean dual is rho times how far the mean moved, and z is the mean with a step of momentum.
        np.testing.assert_allclose(following.dual[0], rho * (before - mean), atol=1e-12)
        np.testing.assert_allclose(following.common[0], mean + rho / plan.rho(k + 1) * (mean - before), atol=1e-12)
        assert np.abs(after.dual).max() > 1e-3
        before = mean
    assert plan.rho(1) < plan.rho(4)


def test_a_missed_round_moves_the_dual_by_the_last_release(simulated, terms):
    """What the server does with a stale release, the agent does when it comes back."""
    shards = simulated()
    plan = ALGORITHMS["obj-g"].tuned(rho=ConstantRho()).plan(terms(Problem(), shards), Multiplier(1.0))
    state, server = begin(plan), first_state(plan, 1).server
    release, state = solve_and_perturb(
        plan, state, shards, np.repeat(server.common, 3, axis=0), 1, random_bits(1, range(3))
    )
    server = next_server(plan, server, release.value[None], 1)
    missed = np.repeat(server.common, 3, axis=0)
    server = next_server(plan, server, release.value[None], 2)  # nobody answered round 2
    state = absorb(plan, state, missed, 1, absent=True)
    state = absorb(plan, state, np.repeat(server.common, 3, axis=0), 2)
    np.testing.assert_allclose(server.dual[0], state.dual.mean(axis=0), atol=1e-14)


@pytest.mark.parametrize("name", OBJECTIVE)
@pytest.mark.parametrize("kind", SETS)
def test_every_release_of_objective_perturbation_is_feasible(name, kind, simulated, terms):
    shards = simulated()
    setting = terms(Problem(Logistic(), L2(), 0.05, SETS[kind]), shards)
    plan = ALGORITHMS[name].tuned(updates=2).plan(setting, Multiplier(3.0))
    for _, _, value, after, _ in steps(plan, shards, 4):
        assert SETS[kind].contains(value, 1e-9).all()
        assert SETS[kind].contains(after.memory.point, 1e-9).all()


def test_output_perturbation_leaves_the_set_and_says_so(simulated, terms):
    shards = simulated()
    plan = ALGORITHMS["out-g"].plan(terms(Problem(domain=Box(0.01)), shards), Multiplier(3.0))
    assert not all(Box(0.01).contains(value).all() for _, _, value, _, _ in steps(plan, shards, 3))
    assert "leave" in ALGORITHMS["out-g"].about


@pytest.mark.parametrize("kind", ["whole", *CONIC, "ball"])
def test_without_noise_the_constrained_optimum_is_reached(kind, simulated, terms, played):
    shards = simulated(sizes=(20, 30, 25))
    problem = Problem(Logistic(), L2(), 0.05, SETS[kind])
    recipe = ALGORITHMS["local-updates"].tuned(rho=ConstantRho(), updates=2)
    state = played(recipe.plan(terms(problem, shards, rounds=400, rho=0.5), Multiplier(0.0)), shards)[-1]
    best = optimum(problem, shards, 3)
    np.testing.assert_allclose(state.shared.model[0], best, atol=2e-5)
    if kind != "whole":
        assert np.linalg.norm(optimum(replace(problem, domain=Whole()), shards, 3) - best) > 0.1


# -- F7: convergence -----------------------------------------------------------------------------------------------


def test_the_printed_bound_is_violated_and_the_corrected_one_holds():
    """F7, claims C2: P = 50, f = (x - 1)²/2 on [-1, 1] from -1, rho 10, eta 1, no noise."""
    P, rho = 50, 10.0
    shards = gather(np.ones((P, 1)), np.ones(P), np.arange(P), norm_bound=1.0)
    problem = Problem(ClippedSquared(4.0), domain=Box(1.0))  # no slope is longer than 2
    recipe = ALGORITHMS["local-updates"].tuned(schedule=Fixed(1.0), rho=ConstantRho())
    from dpadmm.admm.setting import Setting
    from dpadmm.privacy.events import Relation

    setting = Setting(problem, shards.counts, 1, 1.0, Relation.REPLACE, rounds=20, rho=rho)
    plan = recipe.plan(setting, Multiplier(0.0))
    first = np.full((P, 1), -1.0)
    state, server = AgentState(first, np.zeros((P, 1)), Memory(first)), Server(np.full((1, 1), -1.0), np.zeros((1, 1)))
    taken, U, L, left = [], 2.0, 1.0, {}
    for k in range(1, 21):
        release, state = solve_and_perturb(
            plan, state, shards, np.repeat(server.common, P, axis=0), k, random_bits(k, range(P))
        )
        server = next_server(plan, server, release.value[None], k)
        taken.append(release.value)
        left[k] = float(problem.objective(shards, np.mean(taken, axis=0)).sum())
        printed = U**2 * (rho + L) / (2 * k)
        assert left[k] <= P * printed
        if k in (1, 5, 20):
            assert left[k] > printed
    assert left[1] == pytest.approx(82.645, abs=5e-4)
    assert left[5] == pytest.approx(57.5, abs=0.05)
    assert left[20] == pytest.approx(18.1, abs=0.05)


RUNS = 60
SIZES = (20, 20, 20)


def constrained(terms, simulated, schedule, rounds, updates, penalty, strength, bound=0.5, noise=1.0):
    problem = Problem(Logistic(), penalty, strength, Box(bound))
    shards = simulated(sizes=SIZES)
    recipe = ALGORITHMS["obj-g"].tuned(schedule=schedule, rho=ConstantRho(), updates=updates)
    plan = recipe.plan(terms(problem, shards, rounds=rounds, rho=0.3), Multiplier(noise))
    return problem, shards, plan


def excess(problem, shards, x, z, gamma, runs=RUNS):
    """F(x) - F* + gamma |A z - x| of each run; F sums over the agents."""
    best = optimum(problem, shards, 3)
    at_best = problem.objective(shards, np.tile(best, (3, 1))).sum()
    values = problem.objective(shards.tile(runs), x).reshape(runs, 3).sum(axis=1)
    apart = np.linalg.norm((x.reshape(runs, 3, 3) - z[:, None]).reshape(runs, -1), axis=1)
    return values - at_best + gamma * apart


def holds(left, bound):
    assert left.mean() + 3 * left.std() / math.sqrt(RUNS) <= bound
    assert left.mean() > bound / 1000


@pytest.mark.parametrize("schedule", [Theorem53(), Free53(), Free53(0.7)], ids=["epsilon", "best", "0.7"])
@pytest.mark.parametrize(("rounds", "updates"), [(10, 1), (60, 1), (20, 4)])
def test_theorem_5_3_corrected(schedule, rounds, updates, simulated, terms, played):
    problem, shards, plan = constrained(terms, simulated, schedule, rounds, updates, L2(), 0.02)
    state = played(plan, shards, runs=range(RUNS))[-1]
    P, D, U, L = 3, 3, 2 * 0.5 * math.sqrt(3), 0.25 + 0.02
    sigma = 2 / 20 * 1.0  # from the lemma, not from the plan
    if isinstance(schedule, Theorem53):
        theta = plan.level.epsilon
    else:
        theta = schedule.theta or U / (sigma * math.sqrt(2 * D * updates))
    for k in (1, rounds):
        np.testing.assert_allclose(1 / plan.eta(k), L + math.sqrt(k) / theta, rtol=1e-6)
    for gamma in (0.0, 0.5):
        bound = (theta * D * P * sigma**2 + P * U**2 / (2 * updates * theta)) / math.sqrt(rounds)
        bound += (P * U**2 * (0.3 + L / updates) + gamma**2 / 0.3) / (2 * rounds)
        holds(excess(problem, shards, state.mean_local, state.shared.mean_model, gamma), bound)


@pytest.mark.parametrize("rounds", [10, 60])
def test_theorem_5_4_corrected(rounds, simulated, terms, played):
    problem, shards, plan = constrained(terms, simulated, Theorem54(), rounds, 1, L1(), 0.02)
    state = played(plan, shards, runs=range(RUNS))[-1]
    P, D, U, U_1 = 3, 3, 2 * 0.5 * math.sqrt(3), 1.0 + 0.02 * math.sqrt(3)
    for gamma in (0.0, 0.5):
        bound = (D * P * 0.1**2 + P * U_1**2 + P * U**2 / 2) / math.sqrt(rounds)
        bound += (P * U**2 * 0.3 + gamma**2 / 0.3 + 2 * gamma * math.sqrt(P) * U) / (2 * rounds)
        holds(excess(problem, shards, state.mean_local_before, state.shared.mean_model, gamma), bound)


@pytest.mark.parametrize("rounds", [10, 60])
def test_theorem_5_5_corrected(rounds, simulated, terms, played):
    """Averages with weights 2t/(T(T+1)), and gamma at least as long as all duals were."""
    alpha = 0.4
    problem, shards, plan = constrained(terms, simulated, Theorem55(), rounds, 1, L2(), alpha)
    states = played(plan, shards, runs=range(RUNS))
    weights = 2 * np.arange(1, rounds + 1) / (rounds * (rounds + 1))
    x = sum(w * s.agents.released for w, s in zip(weights[1:], states, strict=False))  # u^{1,1} is 0
    z = sum(w * s.shared.model for w, s in zip(weights[1:], states, strict=False))  # as is the first broadcast
    np.testing.assert_allclose(states[-1].shared.mean_model, z, rtol=1e-9, atol=1e-12)  # what a run hands out
    np.testing.assert_allclose(states[-1].mean_local_before, x, rtol=1e-9, atol=1e-12)
    P, D, U, U_1 = 3, 3, 2 * 0.5 * math.sqrt(3), 1.0 + alpha * 0.5 * math.sqrt(3)
    gamma = max(np.linalg.norm(s.agents.dual.reshape(RUNS, -1), axis=1).max() for s in states)
    bound = 2 * math.sqrt(P) * U * gamma + P * U**2 * 0.3 + 4 * gamma**2 / 0.3 + alpha * P * U**2 / 2
    bound = (bound + 2 * P * (U_1**2 + D * 0.1**2) / alpha) / (rounds + 1)
    holds(excess(problem, shards, x, z, gamma), bound)


# -- accounting ----------------------------------------------------------------------------------------------------


def test_the_true_guarantee_of_the_papers_setting(simulated, terms):
    """F3: per step (1, 1e-6), T = 5000, E = 10: about 1090 in all; the paper's formula says 222."""
    shards = simulated()
    plan = (
        ALGORITHMS["obj-g"].tuned(updates=10).plan(terms(Problem(), shards, rounds=5000), PaperNoise(Budget(1.0, 1e-6)))
    )
    spent = plan.accounts().worst(1e-6)
    assert spent.epsilon == pytest.approx(1090, abs=1)
    assert spent.accountant == "exact"
    assert Claim("001", 1.0, 1e-6, 50_000).total == pytest.approx(221.8, abs=0.1)
    assert plan.level.epsilon == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(
    ("rounds", "delta", "accountant"), [(3, 1e-6, "pure"), (3000, 1e-6, "zcdp"), (3000, 0.0, "pure")]
)
def test_laplace_is_composed_by_whichever_is_smaller(rounds, delta, accountant, simulated, terms):
    shards = simulated()
    plan = ALGORITHMS["obj-l"].plan(terms(Problem(), shards, rounds=rounds), TotalBudget((Budget(1.0, delta),)))
    spent = plan.accounts().worst(delta)
    assert spent.accountant == accountant
    assert 0.999 < spent.epsilon <= 1.0
    multiplier = plan.noise[0].mechanism.noise_multiplier[0]
    assert (multiplier < rounds * 0.999) == (accountant == "zcdp")


@pytest.mark.parametrize("name", RECIPES)
def test_every_local_update_is_paid_for(name, simulated, terms):
    shards = simulated()
    one, five = (
        ALGORITHMS[name]
        .tuned(updates=updates)
        .plan(terms(Problem(), shards, rounds=20), TotalBudget((Budget(1.0, 1e-5),)))
        for updates in (1, 5)
    )
    ratio = five.noise[0].mechanism.noise_multiplier / one.noise[0].mechanism.noise_multiplier
    assert (ratio > 2.2).all()  # sqrt(5) for Gaussian noise, up to 5 for Laplace
    assert five.level.steps == 5


def test_the_noise_of_a_step_is_its_sensitivity_in_its_norm(simulated, terms):
    """claims B4: s/(1/eta + rho) in the 2-norm; in the 1-norm the same over intervals, elsewhere sqrt(D) of it."""
    shards = simulated(Softmax(), sizes=(10, 10), width=4)
    box, ball = (terms(Problem(Softmax(), domain=domain), shards, dimension=12, width=4) for domain in (Box(), Ball()))
    phase = ALGORITHMS["out-l"].phases[0]
    kappa, eta = np.full(2, 0.5), np.full(2, 0.25)
    euclidean, manhattan = 2 * math.sqrt(2) / 10, 2 * 2 * math.sqrt(4) / 10
    given = {
        (1, "box"): phase.perturbation.sensitivity(box, phase.solver, kappa, eta, 1),
        (2, "box"): phase.perturbation.sensitivity(box, phase.solver, kappa, eta, 2),
        (1, "ball"): phase.perturbation.sensitivity(ball, phase.solver, kappa, eta, 1),
    }
    np.testing.assert_allclose(given[1, "box"], manhattan / 4.5, rtol=5e-6)
    np.testing.assert_allclose(given[2, "box"], euclidean / 4.5, rtol=5e-6)
    np.testing.assert_allclose(given[1, "ball"], math.sqrt(12) * euclidean / 4.5, rtol=5e-6)
    wide = replace(phase.perturbation, unit_gain=True)
    np.testing.assert_allclose(wide.sensitivity(box, phase.solver, kappa, eta, 2), euclidean, rtol=5e-6)
    np.testing.assert_allclose(  # but never less than the step moves
        wide.sensitivity(box, phase.solver, np.full(2, 0.1), np.full(2, 10.0), 2), euclidean / 0.2, rtol=5e-6
    )


def test_a_projection_that_is_not_exact_is_paid_for(simulated, terms):
    shards = simulated()
    phase = ALGORITHMS["out-g"].phases[0]
    exact, solved = (terms(Problem(domain=d), shards) for d in (Ball(0.2), CONIC["polyhedron"]))
    still = np.zeros((3, 3))

    def moved(setting):
        given = Subproblem(setting.problem, shards, setting.weights, tilt=still, kappa=np.ones((3, 1)), centre=still)
        return phase.perturbation.moved(setting, phase.solver, given, still, np.full((3, 1), 0.5), 2)

    np.testing.assert_allclose(moved(solved) - moved(exact), 2 * CONIC["polyhedron"].tolerance, rtol=1e-6)
    assert CONIC["polyhedron"].tolerance > 0


# -- errors before anything is released ----------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [Theorem53(), Free53(), Theorem54(), Theorem55()], ids=lambda rule: rule.name)
def test_the_theorems_refuse_unbounded_sets(schedule, simulated, terms):
    shards = simulated()
    setting = terms(Problem(penalty=L2(), strength=0.1, domain=Range(0.0, np.inf)), shards)
    with pytest.raises(InputError, match="bounded set, 'range' is not"):
        ALGORITHMS["obj-g"].tuned(schedule=schedule).plan(setting, Multiplier(1.0))


def test_theorem_5_5_needs_strong_convexity(simulated, terms):
    setting = terms(Problem(domain=Box()), simulated())
    with pytest.raises(InputError, match="strongly convex"):
        ALGORITHMS["obj-g"].tuned(schedule=Theorem55()).plan(setting, Multiplier(1.0))


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        (Intersection((Box(0.1), Affine(np.array([[1.0, 1.0, 1.0]]), np.array([5.0])))), "empty"),
        (Each((Ball(1.0), Affine(np.eye(3), np.full(3, 3.0)), Whole())), "no point in common"),
        (Ball(1.0, np.zeros(4)), "4"),
    ],
    ids=["empty", "apart", "dimension"],
)
def test_a_set_that_cannot_be_is_refused_before_round_one(domain, message, simulated, terms):
    with pytest.raises(InputError, match=message):
        ALGORITHMS["obj-g"].plan(terms(Problem(domain=domain), simulated()), Multiplier(1.0))


def test_where_no_projection_is_proved_a_point_of_the_set_is_released(simulated, terms):
    """Whether a projection of a noisy point succeeds tells of the noise, so a step has a result for every point."""
    shards = simulated()
    plan = ALGORITHMS["obj-g"].plan(terms(Problem(domain=CONIC["polyhedron"]), shards), Multiplier(1.0))
    state, common = begin(plan), np.repeat(first_state(plan, 1).server.common, 3, axis=0)
    before, huge = state.memory.point.copy(), Memory(np.full((3, 3), 1e200))
    with pytest.warns(RuntimeWarning, match="A point inside the set is taken instead"):
        release, _ = solve_and_perturb(plan, replace(state, memory=huge), shards, common, 1, random_bits(1, range(3)))
    assert CONIC["polyhedron"].contains(release.value).all()
    np.testing.assert_array_equal(state.memory.point, before)


def test_noise_after_a_projection_that_is_not_proved_is_no_release(simulated, terms):
    """In its place a point of the set was taken, which one record could decide: epsilon 31 for a printed 1."""
    shards = simulated()
    plan = ALGORITHMS["out-g"].plan(terms(Problem(domain=CONIC["polyhedron"]), shards), Multiplier(1.0))
    state, common = begin(plan), np.repeat(first_state(plan, 1).server.common, 3, axis=0)
    huge = replace(state, memory=Memory(np.full((3, 3), 1e200)))
    with pytest.raises(ConvergenceError, match="a point to project is beyond"):
        solve_and_perturb(plan, huge, shards, common, 1, random_bits(1, range(3)))


def test_objective_perturbation_of_an_exact_solver_needs_a_rho_that_does_not_follow_its_noise(simulated, terms):
    with pytest.raises(InputError, match="'objective' needs a rho that is known before its noise, and 'growing'"):
        ALGORITHMS["dvp"].tuned(rho=GrowingRho()).plan(terms(Problem(), simulated()), Multiplier(1.0))
