"""Noise is as large as its lemma says, and its event says as much; objective perturbation pays for its Jacobian."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dpadmm.admm.perturbations import PERTURBATIONS, Gradient, Objective, Output
from dpadmm.admm.perturbations.base import simulated as simulated_noise
from dpadmm.admm.setting import Multiplier, PaperNoise, TotalBudget
from dpadmm.admm.solvers import Exact, GradientAnswer, Linearised, Recycled, Sgd
from dpadmm.admm.solvers.base import Subproblem
from dpadmm.errors import InputError
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import GaussianDpEvent, NonPrivateDpEvent, NoOpDpEvent, PureDpEvent, Relation
from dpadmm.problems.losses import Logistic, SmoothedHinge, Softmax
from dpadmm.problems.penalties import L1, L2
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import gather

RELATIONS = pytest.mark.parametrize("relation", list(Relation), ids=str)
MARGIN_LOSSES = pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge(0.5)], ids=lambda loss: loss.name)
L2_PROBLEM = Problem(penalty=L2(), strength=0.1)
AGENTS = 2500


@pytest.fixture(scope="module")
def crowd(simulated):
    """Many agents with one or two records each: one round of them is many draws."""
    records = AGENTS + AGENTS // 2
    one = simulated(agents=1, records=records, width=4)
    owner = np.concatenate([np.arange(AGENTS), np.arange(AGENTS // 2)])
    return gather(one.real_rows, one.targets, owner, norm_bound=1.0, names=[str(i) for i in range(AGENTS)])


def flat(problem, shards, rho=0.1):
    """A round's subproblems at zero: centre 0, no tilt."""
    zeros = np.zeros((shards.agents, problem.loss.dimension(shards.width, 3)))
    kappa = np.full((shards.agents, 1), rho)
    return Subproblem(problem, shards, problem.weights(shards.counts), zeros, kappa, zeros)


def noise_of(perturbation, solver, setting, sub, task, multiplier=1.7, eta=0.5):
    """What was added to the answers: the release with this multiplier less the one without noise."""
    loud = perturbation.calibrate(setting, solver, Multiplier(multiplier))
    silent = perturbation.calibrate(setting, solver, Multiplier(0.0))
    noisy, _ = perturbation.release(task(setting, loud, solver, sub, eta))
    exact, _ = perturbation.release(task(setting, silent, solver, sub, eta))
    return noisy.value - exact.value


def per_coordinate(mechanism, dimension):
    """Standard deviation of a coordinate of noise of scale one; gamma-norm noise has E|x|² = d (d + 1)."""
    return math.sqrt(dimension + 1) if mechanism == "gamma-norm" else 1.0


@RELATIONS
@pytest.mark.parametrize("mechanism", ["gaussian", "gamma-norm"])
@pytest.mark.parametrize("problem", [L2_PROBLEM, Problem(penalty=L1(), strength=0.1)], ids=["l2", "l1"])
def test_output_noise_is_the_multiplier_times_the_lemma(problem, mechanism, relation, crowd, terms, task):
    """Spec 3.2: (s w + 2 tau) / (rho + mu_r), with a tolerance large enough to be seen."""
    solver, setting = Exact(0.05), terms(problem, crowd, relation=relation)
    noise = noise_of(Output(mechanism), solver, setting, flat(problem, crowd), task)
    s = 2.0 if relation is Relation.REPLACE else 1.0
    lemma = (s / crowd.counts + 2 * 0.05) / (0.1 + problem.strong_convexity)
    claimed = Output(mechanism).sensitivity(setting, solver, np.full(AGENTS, 0.1), np.full(AGENTS, 0.5))
    np.testing.assert_allclose(claimed, lemma, rtol=1e-6)
    assert (claimed >= lemma).all()  # rounding errs on the safe side
    expected = 1.7 * lemma * per_coordinate(mechanism, 4)
    unit = noise / expected[:, None]
    assert unit.std() == pytest.approx(1.0, abs=0.03)
    assert unit[: AGENTS // 2].std() == pytest.approx(1.0, abs=0.04)  # those with two records have half the weight
    assert abs(unit.mean()) < 0.04


@RELATIONS
@pytest.mark.parametrize("mechanism", ["gaussian", "gamma-norm"])
def test_gradient_noise_is_the_multiplier_times_the_lemma(mechanism, relation, crowd, terms, task):
    setting = terms(L2_PROBLEM, crowd, relation=relation)
    noise = noise_of(Gradient(mechanism), GradientAnswer(), setting, flat(L2_PROBLEM, crowd), task)
    lemma = (2.0 if relation is Relation.REPLACE else 1.0) / crowd.counts
    unit = noise / (1.7 * lemma * per_coordinate(mechanism, 4))[:, None]
    assert unit.std() == pytest.approx(1.0, abs=0.03)
    assert unit[: AGENTS // 2].std() == pytest.approx(1.0, abs=0.04)
    if mechanism == "gaussian":
        assert stats.kstest(unit.ravel(), stats.norm.cdf).pvalue > 0.0001
    else:
        length = np.linalg.norm(noise, axis=1) / (1.7 * lemma)
        assert stats.kstest(length, stats.gamma(4).cdf).pvalue > 0.01  # F13


@pytest.mark.parametrize("mechanism", ["gaussian", "gamma-norm"])
def test_step_sizes_are_tuned_to_the_standard_deviation_the_noise_has(mechanism, crowd, terms, task):
    setting = terms(L2_PROBLEM, crowd)
    perturbation = Gradient(mechanism)
    sigma = perturbation.gradient_noise(setting, perturbation.calibrate(setting, Linearised(), Multiplier(1.7)))
    noise = noise_of(perturbation, GradientAnswer(), setting, flat(L2_PROBLEM, crowd), task)
    assert (noise / sigma[:, None]).std() == pytest.approx(1.0, abs=0.03)


def test_softmax_noise_covers_the_whole_matrix(simulated, terms, task):
    shards = simulated(Softmax(), agents=40, records=900)
    problem = Problem(Softmax())
    setting = terms(problem, shards)
    noise = noise_of(Gradient(), GradientAnswer(), setting, flat(problem, shards), task)
    lemma = 2 * math.sqrt(2) / shards.counts
    assert (noise / lemma[:, None] / 1.7).std() == pytest.approx(1.0, abs=0.13)
    assert noise.shape == (40, 9)


def test_gradient_noise_is_the_paper_s_output_noise(crowd, terms, task):
    """F4: sigma_{i,k} (rho + 1/eta) is constant, and gradient noise zeta moves the answer by -zeta / (rho + 1/eta)."""
    setting, sub = terms(L2_PROBLEM, crowd), flat(L2_PROBLEM, crowd)
    for eta in (0.1, 0.5, 3.0):
        sigma = 1.3 * Output().sensitivity(setting, Linearised(), np.full(AGENTS, 0.1), np.full(AGENTS, eta))
        np.testing.assert_allclose(sigma * (0.1 + 1 / eta), 1.3 * 2.0 / crowd.counts, rtol=1e-6)
        for perturbation in (Gradient(), Output()):
            unit = noise_of(perturbation, Linearised(), setting, sub, task, 1.3, eta) / sigma[:, None]
            assert stats.kstest(unit.ravel(), stats.norm.cdf).pvalue > 0.0001
            assert unit.std() == pytest.approx(1.0, abs=0.03)


def test_linearised_goes_on_from_what_was_released(simulated, subproblem, terms, task):
    setting = terms(L2_PROBLEM, simulated())
    sub = subproblem(L2_PROBLEM, simulated())
    for perturbation in (Gradient(), Output()):
        noise = perturbation.calibrate(setting, Linearised(), Multiplier(1.0))
        release, memory = perturbation.release(task(setting, noise, Linearised(), sub))
        np.testing.assert_array_equal(memory.point, release.value)
        exact = Exact(1e-8)
    release, memory = Output().release(task(setting, noise, exact, sub))
    assert (memory.point != release.value).all()  # the private minimiser stays inside


@pytest.mark.parametrize("kind", [Output, Gradient])
def test_additive_events_name_the_multiplier(kind, terms):
    setting = terms(L2_PROBLEM, [5, 6])
    assert kind("gaussian").calibrate(setting, Linearised(), Multiplier(2.5)).events == (GaussianDpEvent(2.5),) * 2
    assert kind("gamma-norm").calibrate(setting, Linearised(), Multiplier(2.5)).events == (PureDpEvent(0.4),) * 2
    paper = kind("gaussian").calibrate(setting, Linearised(), PaperNoise(Budget(0.1, 1e-5)))
    assert paper.events[0].noise_multiplier == pytest.approx(math.sqrt(2 * math.log(1.25e5)) / 0.1, rel=1e-14)
    paper = kind("gamma-norm").calibrate(setting, Linearised(), PaperNoise(Budget(0.1, 1e-5)))
    assert paper.events[0].epsilon == pytest.approx(0.1, rel=1e-14)


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_without_noise_the_event_says_non_private(name, terms):
    perturbation = PERTURBATIONS[name]()
    solver = {"gradient": Linearised(), "sampled-gradient": Sgd(), "free": Recycled()}.get(name, Exact())
    noise = perturbation.calibrate(terms(L2_PROBLEM, [5, 6]), solver, Multiplier(0.0))
    nothing = NoOpDpEvent() if name == "free" else NonPrivateDpEvent()  # where there is nothing to hide
    assert noise.events == (nothing,) * 2
    assert perturbation.private == (name != "none")


# Objective perturbation.


def jacobian_by_hand(weight, bend, base, extra=0.0):
    return math.log(1 + weight * bend / (base + extra))


@RELATIONS
@MARGIN_LOSSES
def test_objective_event_is_density_and_jacobian_and_output_noise(loss, relation, terms):
    problem = Problem(loss, L2(), 0.1)
    setting = terms(problem, [5, 50], relation=relation, rho=0.3)
    perturbation = Objective("gamma-norm", extra_curvature=0.2)
    noise = perturbation.calibrate(setting, Exact(), Multiplier(4.0))
    s = 2.0 if relation is Relation.REPLACE else 1.0
    for agent, count in enumerate((5, 50)):
        weight = 1 / count
        alpha = 1 / (4.0 * weight * s)  # noise of density exp(-alpha |.|)
        density = alpha * weight * s
        jacobian = jacobian_by_hand(weight, loss.bend_bound, 0.3 + 0.1, 0.2)
        output = 1 / noise.output.noise_multiplier[agent]
        assert output == pytest.approx(0.01 * density)
        assert noise.events[agent].epsilon == pytest.approx(density + jacobian + output, rel=1e-12)
        assert isinstance(noise.events[agent], PureDpEvent)


@pytest.mark.parametrize("budget", [Budget(1.0, 0.0), Budget(30.0, 0.0), Budget(1.0, 1e-5)], ids=str)
def test_a_round_of_objective_perturbation_costs_what_the_budget_allows(budget, terms):
    """What is left after the Jacobian goes to the linear term, and a hundredth of that to the output."""
    setting = terms(L2_PROBLEM, [5, 50], rounds=20)
    noise = Objective("gamma-norm").calibrate(setting, Exact(), TotalBudget((budget,)))
    per_round = {event.epsilon for event in noise.events}
    assert max(per_round) - min(per_round) < 1e-12
    epsilon = max(per_round)
    if budget.delta == 0:
        assert epsilon == pytest.approx(budget.epsilon / 20, rel=1e-9)
    for agent, count in enumerate((5, 50)):
        jacobian = jacobian_by_hand(1 / count, 0.25, 0.2, noise.curvature[agent])
        density = (epsilon - jacobian) / 1.01
        assert noise.mechanism.noise_multiplier[agent] == pytest.approx(1 / density, rel=1e-9)
        assert noise.output.noise_multiplier[agent] == pytest.approx(1 / (0.01 * density), rel=1e-9)


def test_extra_curvature_holds_the_jacobian_at_half_and_is_not_added_for_nothing(terms):
    setting = terms(L2_PROBLEM, [5, 5000], rounds=20)
    noise = Objective("gamma-norm").calibrate(setting, Exact(), TotalBudget((Budget(1.0, 0.0),)))
    assert noise.curvature[0] > 0.0
    assert noise.curvature[1] == 0.0
    jacobian = Objective("gamma-norm").term(setting, np.full((1, 2), setting.rho)).jacobian(noise.curvature)[0]
    assert jacobian[0] == pytest.approx(0.5 / 20, rel=1e-9)
    assert jacobian[1] == pytest.approx(jacobian_by_hand(1 / 5000, 0.25, 0.2), rel=1e-12)
    assert jacobian[1] < 0.5 / 20


def test_without_extra_curvature_the_jacobian_alone_breaks_the_budget(terms):
    """500 agents of 80 records, 100 rounds: 3.08 before any noise."""
    setting = terms(Problem(), np.full(500, 80), rounds=100)
    plain = Objective("gamma-norm", extra_curvature=0.0)
    jacobian = plain.term(setting, np.full((1, 500), setting.rho)).jacobian(np.zeros(500))
    assert 100 * jacobian[0, 0] == pytest.approx(3.08, abs=0.005)
    with pytest.raises(InputError, match=r"the Jacobian alone costs .* 3\.08 in all, before any noise"):
        plain.calibrate(setting, Exact(), TotalBudget((Budget(1.0, 0.0),)))
    plain.calibrate(setting, Exact(), TotalBudget((Budget(4.0, 0.0),)))
    chosen = Objective("gamma-norm").calibrate(setting, Exact(), TotalBudget((Budget(1.0, 0.0),)))
    assert 100 * chosen.events[0].epsilon == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "stiff"), [(0.5, False), (0.01, True)])
def test_the_published_rule_of_dual_variable_perturbation(epsilon, stiff, terms):
    """Spec 3.3: alpha_hat = alpha - 2 ln(1 + kappa), or half of alpha with Phi = c w / (e^(alpha/4) - 1) - lambda."""
    setting = terms(L2_PROBLEM, [50], rho=0.3)
    noise = Objective("gamma-norm").calibrate(setting, Exact(), PaperNoise(Budget(epsilon, 0.0)))
    kappa = 0.25 / 50 / 0.4
    left = epsilon - 2 * math.log(1 + kappa)
    assert (left <= 0) == stiff
    phi = 0.25 / 50 / (math.exp(epsilon / 4) - 1) - 0.4 if stiff else 0.0
    density = epsilon / 2 if stiff else left
    assert noise.curvature[0] == pytest.approx(phi, rel=1e-12)
    assert noise.mechanism.noise_multiplier[0] == pytest.approx(1 / density, rel=1e-12)
    # Twice the density exponent zeta_z = alpha_hat / 2, and the true cost is below what they claim but for our output.
    true = density + jacobian_by_hand(1 / 50, 0.25, 0.4, phi) + 0.01 * density
    assert noise.events[0].epsilon == pytest.approx(true, rel=1e-12)
    assert true < epsilon + 0.01 * density


def test_objective_release_minimises_the_tilted_and_stiffened_objective(simulated, subproblem, terms, task):
    """With the output's whisper taken away, the release solves the problem with the noise it drew."""
    shards = simulated()
    setting = terms(L2_PROBLEM, shards)
    sub = replace(subproblem(L2_PROBLEM, shards), kappa=np.full((4, 1), 0.1))
    perturbation = Objective("gamma-norm", extra_curvature=0.7)
    noise = perturbation.calibrate(setting, Exact(1e-11), Multiplier(2.0))
    work = task(setting, noise, Exact(1e-11), sub)
    release, memory = perturbation.release(work)
    zeta = simulated_noise(
        np.zeros((4, 3)), noise.mechanism, setting.gradient_sensitivity(), work.random_bits("objective")
    )
    found = memory.private["start"]
    slope = sub.gradient(found) + 0.7 * found + zeta
    assert np.abs(zeta).min() > 1e-3
    np.testing.assert_allclose(slope, 0.0, atol=2e-8)  # the scale carries the rounding margin
    # The whisper: sensitivity 2 tau / lambda, multiplier 100 times the linear term's.
    offset = np.linalg.norm(release.value - found, axis=1)
    unit = offset / (200.0 * 2e-11 / (0.1 + 0.1 + 0.7))
    assert (unit > 0.05).all()
    assert (unit < 15).all()


def line(rows, labels, points):
    """One agent's 1-D records, asked at many points: one row of the batch per point."""
    shards = gather(np.asarray(rows)[:, None], np.asarray(labels), np.zeros(len(rows)), norm_bound=1.0)
    return shards.take(np.zeros(len(points), dtype=np.int64))


def log_density(problem, rows, labels, points, alpha, rho, offset):
    """ln of the density of the released minimiser at the points: |d zeta / d x| times the density of zeta."""
    shards = line(rows, labels, points)
    ones = np.ones((len(points), 1))
    sub = Subproblem(problem, shards, problem.weights(shards.counts), offset * ones, rho * ones, 0 * ones)
    x = points[:, None]
    zeta = -sub.gradient(x)[:, 0]
    return math.log(alpha / 2) - alpha * np.abs(zeta) + np.log(sub.hessian(x)[:, 0, 0])


@RELATIONS
@MARGIN_LOSSES
def test_in_one_dimension_no_output_tells_neighbours_further_apart_than_the_event(loss, relation, terms):
    """F9's pure part: the exact density ratio stays within 2 w alpha + ln(1 + kappa), w alpha + ln(1 + kappa)."""
    problem = Problem(loss)
    rho, weight = 0.1, 1 / 3
    setting = terms(problem, [3], dimension=1, rho=rho, relation=relation)
    noise = Objective("gamma-norm", extra_curvature=0.0).calibrate(setting, Exact(), Multiplier(2.0))
    scale = (noise.mechanism.noise_multiplier * setting.gradient_sensitivity())[0]
    alpha = 1 / scale
    s = 2 if relation is Relation.REPLACE else 1
    limit = s * weight * alpha + math.log(1 + weight * loss.bend_bound / rho)
    assert noise.events[0].epsilon >= limit
    points = np.linspace(-150.0, 150.0, 6001)
    rest = np.array([0.4, -0.9])
    labels = np.array([1.0, -1.0])
    # Records of full slope both ways; a record of zeros has a constant loss: it is the blanked one.
    choices = [(1.0, 1.0), (1.0, -1.0), (0.5, 1.0), (0.3, -1.0), (0.0, 1.0)]
    worst = 0.0
    for offset in (0.0, 1.0, -4.0):
        logs = {
            record: log_density(
                problem, [*rest, record[0]], [*labels, record[1]], points, alpha=alpha, rho=rho, offset=offset
            )
            for record in choices
        }
        for record in choices:
            others = choices if relation is Relation.REPLACE else [(0.0, 1.0)]
            for other in others:
                gap = np.abs(logs[record] - logs[other]).max()
                assert gap <= limit
                worst = max(worst, gap)
    assert worst > 0.45 * limit  # in one dimension two logistic slopes differ by w, not 2 w
    total = np.exp(logs[1.0, 1.0])
    area = np.sum((total[1:] + total[:-1]) / 2 * np.diff(points))
    assert area == pytest.approx(1.0, abs=0.02)  # a density: nothing was lost in the change of variables


def test_in_one_dimension_releases_follow_that_density(terms, task):
    """The release is the minimiser with the noise of that density, not something near it."""
    draws = 4000
    rows, labels = np.array([0.4, -0.9, 1.0]), np.array([1.0, -1.0, 1.0])
    problem = Problem()
    shards = line(rows, labels, np.zeros(draws))
    setting = terms(problem, shards)
    perturbation = Objective("gamma-norm", extra_curvature=0.0)
    noise = perturbation.calibrate(setting, Exact(), Multiplier(2.0))
    release, _ = perturbation.release(task(setting, noise, Exact(), flat(problem, shards)))
    slope = flat(problem, shards).gradient(release.value)[:, 0]
    scale = 2.0 * 2 / 3
    # x falls as the noise rises: P(x <= t) = P(zeta >= -slope(t)).
    assert stats.kstest(stats.laplace(scale=scale).sf(-slope), stats.uniform.cdf).pvalue > 0.01


@MARGIN_LOSSES
def test_determinants_of_neighbouring_hessians_differ_by_at_most_one_plus_kappa(loss, terms):
    rng = np.random.default_rng(2)
    problem = Problem(loss, L2(), 0.05)
    pairs, records, d = 400, 4, 3
    rows = rng.standard_normal((pairs, records, d))
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    labels = rng.choice([-1.0, 1.0], (pairs, records))
    other_rows, other_labels = rows.copy(), labels.copy()
    other_rows[:, -1], other_labels[:, -1] = -rows[:, 0], -labels[:, 0]
    other_rows[: pairs // 2, -1] = 0.0  # blanked
    x = rng.standard_normal((pairs, d)) * rng.choice([0.1, 1.0, 10.0], (pairs, 1))

    def log_det(features, targets):
        owner = np.repeat(np.arange(pairs), records)
        shards = gather(
            features.reshape(-1, d), targets.ravel(), owner, norm_bound=1.0, names=[str(i) for i in range(pairs)]
        )
        return np.linalg.slogdet(flat(problem, shards, rho=0.02).hessian(x))[1]

    gap = np.abs(log_det(rows, labels) - log_det(other_rows, other_labels))
    limit = Objective("gamma-norm").term(terms(problem, [records]), np.full((1, 1), 0.02)).jacobian(np.zeros(1))[0, 0]
    assert limit == pytest.approx(jacobian_by_hand(1 / records, loss.bend_bound, 0.07))
    assert gap.max() <= limit
    assert gap.max() > 0.2 * limit


def test_the_sensitivity_is_the_paper_s_and_what_the_lattice_adds_is_little(terms):
    """2^30 units of the lattice and sqrt(D) for rounding: at most one part in a million more, and never less."""
    for norm, exact in ((2, 2.0), (1, 2.0 * math.sqrt(3))):
        (found,) = terms(L2_PROBLEM, [7], width=3).gradient_sensitivity(norm)
        assert exact / 7 < found < exact / 7 * (1 + 1e-6)
