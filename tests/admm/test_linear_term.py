"""What a random linear term costs, round by round, and how loud it must be: against the formulas, written out here."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest

from dpadmm.admm.perturbations import Objective, PenaltyNoise
from dpadmm.admm.perturbations.base import Task
from dpadmm.admm.perturbations.linear import TERMS, GaussianTerm, PureTerm
from dpadmm.admm.rho import GeometricRho
from dpadmm.admm.setting import Density, Multiplier, TotalBudget
from dpadmm.admm.solvers import Exact
from dpadmm.admm.solvers.base import as_it_is
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.accounting import best
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import GaussianDpEvent, GaussianObjectiveDpEvent, PureDpEvent, Relation
from dpadmm.privacy.mechanisms import GammaNorm, Gaussian
from dpadmm.problems.losses import SmoothedHinge
from dpadmm.problems.penalties import L2
from dpadmm.problems.problem import Problem
from dpadmm.release import perturb
from dpadmm.release.random_bits import SeededRandomness

PURE = "gamma-norm"
PROBLEM = Problem(penalty=L2(), strength=0.1)
COUNTS = [20, 50, 200]
KAPPAS = 0.3 * 1.2 ** np.arange(1, 5)[:, None] * np.array([1.0, 2.0, 4.0])  # four rounds, of three nodes
RELATIONS = pytest.mark.parametrize("relation", list(Relation), ids=str)


def ratio(k, i):
    """kappa = w c / lambda, by hand, in round k = 1.. and without extra curvature."""
    return 0.25 / COUNTS[i] / (0.1 + KAPPAS[k - 1, i])


def calibrated(perturbation, setting, request, kappas=KAPPAS):
    return perturbation.calibrate(setting, Exact(), request, kappas)


# -- the ratio and its event -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", TERMS)
def test_a_ratio_is_the_records_curvature_over_what_is_there_without_it(mechanism, terms):
    problem, extra = Problem(SmoothedHinge(0.5), L2(), 0.1), np.array([0.0, 0.5, 2.0])
    setting = terms(problem, COUNTS, rounds=4, norm_bound=2.0, unit_size=1)
    term = Objective(mechanism).term(setting, KAPPAS)
    expected = np.array(
        [
            [problem.loss.bend_bound * 4 / m / (0.1 + k + e) for k, m, e in zip(row, COUNTS, extra, strict=True)]
            for row in KAPPAS
        ]
    )
    np.testing.assert_allclose(term.ratios(extra), expected, rtol=1e-13)
    np.testing.assert_allclose(term.jacobian(extra), np.log(1 + expected), rtol=1e-13)


def test_a_gaussian_event_carries_the_ratio_in_three_digits_and_never_less(terms):
    """Also where the ratio has three digits to begin with, and the product of number and unit would round down."""
    term = Objective("gaussian").term(terms(PROBLEM, COUNTS), KAPPAS)
    rng = np.random.default_rng(0)
    plain = [float(f"{number}e{power}") for power in range(-9, 1) for number in range(100, 1000, 7)]
    beside = [math.nextafter(value, side) for value in plain for side in (0.0, math.inf)]
    for value in (*plain, *beside, *10.0 ** rng.uniform(-9, 1, 2000), 1.0, 10.0, 0.1, 1e-300):
        kappa = term.event(3.0, float(value)).events[0].kappa
        assert value <= kappa <= 1.01 * value
        assert float(f"{kappa:.2e}") == pytest.approx(kappa, rel=1e-12)
    shared = {term.event(3.0, ratio) for ratio in rng.uniform(0.01, 0.02, 3000).tolist()}
    assert len(shared) <= 101  # so agents of about one size share an event
    assert term.event(3.0, 0.0).events[0].kappa == 0.0
    assert term.event(3.0, 0.012345).events[0].kappa == pytest.approx(0.0124, rel=1e-12)


def test_the_events_of_both_mechanisms(terms):
    setting = terms(PROBLEM, COUNTS, unit_size=3)
    assert dict(TERMS) == {"gamma-norm": PureTerm, "gaussian": GaussianTerm}
    pure = Objective(PURE).term(setting, KAPPAS)
    assert pure.event(4.0, 0.2).epsilon == pytest.approx(1.01 / 4 + 3 * math.log(1.2), rel=1e-14)
    assert isinstance(pure.event(4.0, 0.2), PureDpEvent)
    assert pure.output(np.array([4.0])).noise_multiplier == pytest.approx([400.0])  # a hundredth of 1/4
    gaussian = Objective("gaussian").term(terms(PROBLEM, COUNTS), KAPPAS)
    linear, output = gaussian.event(4.0, 0.2).events
    assert linear == GaussianObjectiveDpEvent(4.0, linear.kappa, one_sided=True)
    assert linear.kappa == pytest.approx(0.2, rel=1e-15)
    assert output == GaussianDpEvent(gaussian.output(np.array([4.0])).noise_multiplier[0])
    assert output.noise_multiplier == pytest.approx(40.0)  # a hundredth of 1/16, in mu²


# -- a multiplier, a density, a budget ---------------------------------------------------------------------------------


@RELATIONS
def test_a_multiplier_is_that_of_the_first_round(relation, terms):
    setting = terms(PROBLEM, COUNTS, rounds=4, relation=relation)
    for perturbation, louder in ((Objective(PURE), 1.0), (PenaltyNoise(PURE), 1.2)):
        noise = calibrated(perturbation, setting, Multiplier(3.0))
        assert len(noise.course) == 4
        for k in range(1, 5):
            now = noise.at(k)
            np.testing.assert_allclose(now.mechanism.noise_multiplier, 3.0 * louder ** (k - 1), rtol=1e-12)
            np.testing.assert_array_equal(now.curvature, np.zeros(3))
            for i in range(3):
                expected = 1.01 / (3.0 * louder ** (k - 1)) + math.log(1 + ratio(k, i))
                assert now.events[i].epsilon == pytest.approx(expected, rel=1e-12)


@RELATIONS
def test_a_density_is_of_the_linear_term_or_of_what_moves_the_centre(relation, terms):
    setting = terms(PROBLEM, COUNTS, rounds=4, relation=relation)
    alphas = np.array([1.0, 2.0, 5.0])
    for perturbation, per_round in ((Objective(PURE), np.ones((4, 3))), (PenaltyNoise(PURE), KAPPAS)):
        noise = calibrated(perturbation, setting, Density(tuple(alphas)))
        for k in range(1, 5):
            scale = noise.at(k).mechanism.noise_multiplier * setting.gradient_sensitivity()
            np.testing.assert_allclose(scale, per_round[k - 1] / alphas, rtol=1e-12)


def test_all_rounds_alike_are_kept_once(terms):
    setting = terms(PROBLEM, COUNTS, rounds=4)
    for mechanism in TERMS:
        noise = calibrated(Objective(mechanism), setting, Multiplier(3.0), KAPPAS[:1])
        assert noise.course == ()
        assert noise.at(4) is noise.at(1) is noise
        grown = calibrated(Objective(mechanism), setting, Multiplier(3.0))
        assert grown.at(1).events == noise.events
        assert grown.at(4).events != noise.events
        part = grown.take([2, 0])
        assert [part.at(k).events for k in (1, 4)] == [(e[2], e[0]) for e in (grown.at(1).events, grown.at(4).events)]


@RELATIONS
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_pure_rounds_cost_the_same_each_and_noise_takes_what_determinants_leave(delta, relation, terms):
    setting, budget = terms(PROBLEM, COUNTS, rounds=4, relation=relation), Budget(2.0, delta)
    noise = calibrated(Objective(PURE), setting, TotalBudget((budget,)))
    each = {now.events[i].epsilon for now in noise.course for i in range(3)}
    assert max(each) - min(each) < 1e-9
    spent = best(Counter(now.events[0] for now in noise.course), delta, relation).epsilon
    assert 2.0 * (1 - 1e-8) < spent <= 2.0
    if delta == 0.0:
        assert max(each) == pytest.approx(0.5, rel=1e-9)
    for k, now in enumerate(noise.course):
        for i in range(3):
            jacobian = math.log(1 + 0.25 / COUNTS[i] / (0.1 + KAPPAS[k, i] + now.curvature[i]))
            density = (max(each) - jacobian) / 1.01
            assert now.mechanism.noise_multiplier[i] == pytest.approx(1 / density, rel=1e-9)
            assert now.output.noise_multiplier[i] == pytest.approx(100 / density, rel=1e-9)
    # As penalties grow determinants cost less, and the noise may cost more.
    assert (np.diff([now.mechanism.noise_multiplier for now in noise.course], axis=0) < 0).all()


@RELATIONS
def test_penalty_noise_spends_its_budget_in_falling_parts(relation, terms):
    setting, budgets = terms(PROBLEM, COUNTS, rounds=4, relation=relation), (Budget(0.5, 0.0), Budget(1.0, 1e-6)) * 2
    noise = calibrated(PenaltyNoise(PURE), setting, TotalBudget(budgets[:3]))
    for i, budget in enumerate(budgets[:3]):
        costs = [now.events[i].epsilon for now in noise.course]
        assert costs == sorted(costs, reverse=True)
        spent = best(Counter(now.events[i] for now in noise.course), budget.delta, relation).epsilon
        assert budget.epsilon * (1 - 2e-6) < spent <= budget.epsilon
        loud = [now.mechanism.noise_multiplier[i] for now in noise.course]
        np.testing.assert_allclose(np.array(loud) / loud[0], KAPPAS[:, i] / KAPPAS[0, i], rtol=1e-12)


@RELATIONS
def test_gaussian_rounds_spend_the_budget(relation, terms):
    setting, budget = terms(PROBLEM, COUNTS, rounds=4, relation=relation), Budget(2.0, 1e-6)
    for perturbation in (Objective("gaussian"), PenaltyNoise("gaussian")):
        noise = calibrated(perturbation, setting, TotalBudget((budget,)))
        for i in range(3):
            spent = best(Counter(now.events[i] for now in noise.course), 1e-6, relation).epsilon
            assert 2.0 * (1 - 1e-4) < spent <= 2.0
        loud = np.array([now.mechanism.noise_multiplier for now in noise.course])
        grown = KAPPAS / KAPPAS[0] if isinstance(perturbation, PenaltyNoise) else np.ones((4, 3))
        np.testing.assert_allclose(loud / loud[0], grown, rtol=1e-12)


def test_agents_of_one_size_and_budget_are_searched_for_once(terms, monkeypatch):
    asked = []
    search = GaussianTerm._smallest
    monkeypatch.setattr(GaussianTerm, "_smallest", lambda *given: asked.append(given) or search(*given))
    setting = terms(PROBLEM, [2, 50, 2, 2, 50, 2], rounds=2)
    budgets = (Budget(2.0, 1e-6),) * 5 + (Budget(1.0, 1e-6),)
    kappas = np.full((1, 6), 0.6)
    noise = calibrated(Objective("gaussian", extra_curvature=0.0), setting, TotalBudget(budgets), kappas)
    assert len(asked) == 3
    z = noise.mechanism.noise_multiplier
    assert z[0] == z[2] == z[3] < z[5]
    assert z[1] == z[4] < z[0]


# -- extra curvature ---------------------------------------------------------------------------------------------------


def test_extra_curvature_is_chosen_for_the_smallest_penalty(terms):
    """In the first round the determinants take half of a round's share; later they take less."""
    setting = terms(PROBLEM, [2, 3, 5000], rounds=4)
    noise = calibrated(Objective(PURE), setting, TotalBudget((Budget(0.1, 0.0),)))
    for i, count in enumerate((2, 3, 5000)):
        jacobian = [math.log(1 + 0.25 / count / (0.1 + KAPPAS[k, i] + noise.curvature[i])) for k in range(4)]
        if count < 10:
            assert noise.curvature[i] > 0.0
            assert jacobian[0] == pytest.approx(0.5 * 0.1 / 4, rel=1e-9)
        else:
            assert noise.curvature[i] == 0.0
            assert jacobian[0] < 0.5 * 0.1 / 4
    pairs = calibrated(
        Objective(PURE), terms(PROBLEM, [2, 3, 5000], rounds=4, unit_size=2), TotalBudget((Budget(0.1, 0.0),))
    )
    jacobian = 2 * math.log(1 + 0.125 / (0.1 + KAPPAS[0, 0] + pairs.curvature[0]))
    assert jacobian == pytest.approx(0.5 * 0.1 / 4, rel=1e-9)


@pytest.mark.parametrize(("relation", "share"), [(Relation.REPLACE, 0.4), (Relation.ZERO_OUT, 0.9)], ids=str)
def test_a_gaussian_ratio_is_held_at_a_share_of_a_rounds_shift(relation, share, terms):
    """Up to there it costs next to nothing, and soon very much."""
    setting = terms(PROBLEM, [2, 3, 5000], rounds=4, relation=relation)
    request = TotalBudget((Budget(1.0, 1e-5),))
    chosen, none, much = (calibrated(Objective("gaussian", extra), setting, request) for extra in (None, 0.0, 100.0))
    allowed = share * 0.268051 / math.sqrt(4)  # mu(1, 1e-5), F1's anchor
    for i, count in enumerate((2, 3, 5000)):
        expected = max(0.0, 0.25 / count / allowed - 0.1 - KAPPAS[0, i])
        assert chosen.curvature[i] == pytest.approx(expected, abs=1e-4)
    assert chosen.curvature[0] > 0.5
    loud = {name: noise.mechanism.noise_multiplier for name, noise in zip("cnm", (chosen, none, much), strict=True)}
    assert (loud["m"] <= loud["c"]).all()
    assert (loud["c"] < 1.02 * loud["m"]).all()
    assert loud["n"][0] > 1.25 * loud["c"][0]


def test_where_determinants_alone_break_the_budget_they_are_named(terms):
    """Of pure noise; those of Gaussian noise fade with it."""
    setting, request = terms(PROBLEM, [2, 2, 2], rounds=4), TotalBudget((Budget(0.3, 1e-6),))
    with pytest.raises(InputError, match=r"the Jacobian alone costs .* before any noise; the budget allows"):
        calibrated(Objective(PURE, extra_curvature=0.0), setting, request)
    with pytest.raises(InputError, match=r"the determinants alone cost .* in 4 rounds, and the budget is 0\.3\. Leave"):
        calibrated(PenaltyNoise(PURE, extra_curvature=0.0), setting, request)
    for perturbation in (Objective("gaussian", 0.0), PenaltyNoise("gaussian", 0.0)):
        noise = calibrated(perturbation, setting, request)
        spent = best(Counter(now.events[0] for now in noise.course), 1e-6, Relation.REPLACE).epsilon
        assert 0.3 * (1 - 1e-4) < spent <= 0.3


def test_gaussian_noise_needs_a_delta(terms):
    for perturbation in (Objective("gaussian"), PenaltyNoise("gaussian")):
        with pytest.raises(InputError, match=r"cannot meet delta = 0 \(epsilon 2\).* Laplace noise such as 'obj-l'"):
            calibrated(perturbation, terms(PROBLEM, COUNTS, rounds=4), TotalBudget((Budget(2.0, 0.0),)))


# -- around a server as well -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", TERMS)
def test_a_growing_penalty_around_a_server_is_paid_for_round_by_round(mechanism, terms):
    setting = terms(PROBLEM, COUNTS, rounds=3, rho=0.2)
    plan = ALGORITHMS["dvp"].tuned(mechanism=mechanism, rho=GeometricRho(1.5)).plan(setting, Multiplier(2.0))
    for k in (1, 2, 3):
        for i, count in enumerate(COUNTS):
            expected = 0.25 / count / (0.1 + 0.2 * 1.5**k)
            event = plan.events(k)[i]
            if mechanism == "gamma-norm":
                assert event.epsilon == pytest.approx(1.01 / 2 + math.log(1 + expected), rel=1e-12)
            else:
                assert expected * (1 - 1e-12) <= event.events[0].kappa <= 1.01 * expected


@pytest.mark.parametrize("name", ["dvp", "dvp-graph", "private-r-admm"])
def test_a_plan_of_a_billion_equal_rounds_is_made_at_once(name, terms):
    """Rounds are a number in others' terms: an owner must not make a list of them before it can refuse."""
    setting = terms(PROBLEM, COUNTS, rounds=10**9)
    plan = ALGORITHMS[name].tuned(mechanism=PURE).plan(setting, Multiplier(1e9))
    assert plan.noise[0].course == ()
    odd = 10**9 if len(plan.algorithm.phases) == 1 else 5 * 10**8
    assert plan.accounts().guarantee(0, 0.0).epsilon == pytest.approx(odd * plan.events(1)[0].epsilon, rel=1e-12)


@pytest.mark.parametrize("name", ["private-mr-admm", "m-admm-penalty"])
def test_rounds_that_differ_are_planned_one_by_one_and_not_a_billion_of_them(name, terms):
    with pytest.raises(
        InputError, match=r"of 3 agents with penalties or noise that change are too many to plan .* constant ones"
    ):
        ALGORITHMS[name].plan(terms(PROBLEM, COUNTS, rounds=10**9), Multiplier(1e9))
    course = ALGORITHMS[name].plan(terms(PROBLEM, COUNTS, rounds=100), Multiplier(1e9)).noise[0].course
    assert len(course) == (100 if name == "m-admm-penalty" else 50)


# -- the noise that is drawn -------------------------------------------------------------------------------------------

MULTIPLIERS = np.array([3.0, 0.7, 1e-6, 1e6])
SENSITIVITIES = np.array([0.005, 0.1, 3.0, 2e-9])


def drawn(dimension=2000, seed=0, multipliers=MULTIPLIERS):
    stream = SeededRandomness(seed).stream(np.zeros(4, dtype=int), np.arange(4), 1, "objective")
    return GaussianTerm.drawn(Gaussian(multipliers), SENSITIVITIES, dimension, stream)


def test_a_gaussian_linear_term_is_made_of_whole_cells_of_a_power_of_two():
    noise, scale = drawn(), MULTIPLIERS * SENSITIVITIES
    cells = GaussianTerm._cells(Gaussian(MULTIPLIERS), SENSITIVITIES)
    assert (np.frexp(cells)[0] == 0.5).all()
    assert ((scale / cells >= 2.0**45) & (scale / cells < 2.0**46)).all()
    counts = noise / cells[:, None]
    np.testing.assert_array_equal(counts, np.rint(counts))
    assert np.abs(counts).max() < 2.0**53
    assert (counts % 2 != 0).any()  # the cell is no coarser than it says


def test_a_gaussian_linear_term_has_the_scale_that_is_paid_for_and_the_lemmas_margin(monkeypatch):
    """The account's Gaussian has the variance of the discrete one, less that of a rounding: 64 cells."""
    asked = []
    draw = perturb.discrete_gaussian
    monkeypatch.setattr(perturb, "discrete_gaussian", lambda scales, *rest: asked.append(scales) or draw(scales, *rest))
    noise, scale = drawn(), MULTIPLIERS * SENSITIVITIES
    cells = GaussianTerm._cells(Gaussian(MULTIPLIERS), SENSITIVITIES)
    for s, whole, cell in zip(asked[0].tolist(), scale.tolist(), cells.tolist(), strict=True):
        paid = Fraction(whole) / Fraction(cell)
        assert s * s - 64 >= paid * paid
        assert s <= paid * (1 + Fraction(1, 2**40))
    np.testing.assert_allclose(noise.std(axis=1), scale, rtol=0.08)  # 5 standard errors
    assert kstest(noise[0] / scale[0], "norm").pvalue > 1e-4


def test_without_noise_the_linear_term_is_zero():
    """And in the same batch it is not: so a private recipe without noise is its own twin."""
    noise = drawn(multipliers=np.array([3.0, 0.0, 0.0, 1e6]))
    np.testing.assert_array_equal(np.abs(noise).sum(axis=1) == 0.0, [False, True, True, False])


def test_what_covers_the_minimiser_covers_the_linear_terms_rounding(terms, simulated, subproblem, task):
    """2 (tolerance + 320 cells sqrt(D)) / lambda: and the second part is next to nothing beside the noise itself."""
    shards = simulated()
    setting, sub = terms(PROBLEM, shards), subproblem(PROBLEM, shards)
    noise = Objective("gaussian").calibrate(setting, Exact(), Multiplier(3.0), np.full((1, 4), 0.4))
    scale, seen = 3.0 * setting.gradient_sensitivity(), []
    blur = GaussianTerm.blur(noise.mechanism, setting.gradient_sensitivity(), 3)
    assert ((320 * math.sqrt(3) * 2.0**-46 * scale <= blur) & (blur <= 320 * math.sqrt(3) * 2.0**-45 * scale)).all()
    assert (blur < 1e-10 * scale).all()
    for tolerance in (1e-6, 1e-8):
        work = task(setting, noise, Exact(tolerance), sub)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Task, "noisy", lambda self, mechanism, offset, purpose: seen.append(offset) or as_it_is)
            Objective("gaussian").release(work)
        expected = 2 * (tolerance + blur) / (sub.kappa[:, 0] + 0.1)
        assert (seen[-1] >= expected * (1 - 1e-12)).all()
        # What is more than that keeps the answer on the output noise's lattice.
        assert (seen[-1] <= np.maximum(expected * (1 + 1e-12), 1e-8)).all()
    assert (seen[0] > 10 * seen[1]).all()


def test_an_answer_is_never_cut_by_the_lattice_of_its_output_noise(terms, simulated, subproblem, task):
    """With next to no noise, at a tiny tolerance, and far from zero."""
    shards = simulated()
    setting, sub = terms(PROBLEM, shards), subproblem(PROBLEM, shards, spread=1e3)
    noise = Objective("gaussian").calibrate(setting, Exact(), Multiplier(1e-9), np.full((1, 4), 0.4))
    released, _ = Objective("gaussian").release(task(setting, noise, Exact(1e-8), sub))
    plain, _ = Exact(1e-8).solve(sub, sub.loss_gradient, Exact().start(np.zeros_like(sub.tilt)), None)
    assert np.abs(plain).max() > 100.0
    np.testing.assert_allclose(released.value, plain, rtol=1e-6, atol=1e-6 * np.abs(plain).max())


def test_what_is_refused_for_rounding_does_not_depend_on_the_noise_that_is_drawn(terms, simulated, subproblem, task):
    shards = simulated()
    setting, sub = terms(PROBLEM, shards), subproblem(PROBLEM, shards)
    noise = Objective("gaussian").calibrate(setting, Exact(), Multiplier(1e9), np.full((1, 4), 0.4))

    def nothing_drawn(purpose):
        raise AssertionError("random bits were asked for")

    with pytest.raises(InputError, match="less noise, which keep models short"):
        Objective("gaussian").release(task(setting, noise, Exact(), sub, random_bits=nothing_drawn))


def test_no_coordinate_exceeds_the_bound_that_refusals_go_by():
    noise = drawn(dimension=50_000)
    longest = GaussianTerm.longest(Gaussian(MULTIPLIERS), SENSITIVITIES, 50_000)
    np.testing.assert_allclose(longest, 40 * math.sqrt(50_000) * MULTIPLIERS * SENSITIVITIES)
    assert (np.linalg.norm(noise, axis=1) < longest / 30).all()


def test_gamma_norm_noise_is_drawn_in_floating_point_and_promises_nothing_of_its_digits():
    stream = SeededRandomness(0).stream(np.zeros(4, dtype=int), np.arange(4), 1, "objective")
    noise = PureTerm.drawn(GammaNorm(MULTIPLIERS), SENSITIVITIES, 50, stream)
    length = np.linalg.norm(noise, axis=1) / (MULTIPLIERS * SENSITIVITIES)
    assert ((length > 20) & (length < 90)).all()  # Gamma(50): 50 +- 7
    assert (PureTerm.blur(GammaNorm(MULTIPLIERS), SENSITIVITIES, 50) == 0.0).all()
