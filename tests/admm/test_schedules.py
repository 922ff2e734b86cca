"""Each step size is its formula of theory 3.4 and 4.1, and the numeric forms of section 8 come out."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.admm.schedules import (
    SCHEDULES,
    Constant,
    Constant3,
    Constant4,
    Fixed,
    Free53,
    InverseRoot,
    RyuKim,
    Theorem,
    Theorem3,
    Theorem4,
    Theorem53,
    Theorem54,
    Theorem55,
)
from dpadmm.admm.setting import Multiplier, NoiseLevel, PaperNoise, TotalBudget
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget, classic_multiplier
from dpadmm.privacy.gaussian import mu
from dpadmm.problems.losses import SmoothedHinge, Softmax
from dpadmm.problems.penalties import L1, L2, ElasticNet
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import Ball, Box, Each, Range, Whole

SIGMA = np.array([0.3, 0.0, 2.0])
LEVEL = NoiseLevel(SIGMA, epsilon=0.2)
SILENT = NoiseLevel(np.zeros(3), epsilon=math.inf)
COUNTS = [10, 20, 40]
KINK = Problem(penalty=L1(), strength=0.02)
SMOOTH = Problem(penalty=L2(), strength=0.02)


@pytest.mark.parametrize("k", [1, 7, 100])
def test_theorem_3(k, terms):
    setting = terms(KINK, COUNTS, dimension=5, radius=4.0)
    X = (1.0 + 0.02 * math.sqrt(5)) ** 2 + 5 * SIGMA**2
    np.testing.assert_allclose(Theorem3().eta(setting, LEVEL, k), 4.0 / np.sqrt(2 * k * X), rtol=1e-13)


@pytest.mark.parametrize("k", [1, 7, 100])
def test_theorem_4(k, terms):
    setting = terms(SMOOTH, COUNTS, dimension=5, radius=4.0)
    expected = 1 / (0.25 + 0.02 + math.sqrt(2 * k * 5) * SIGMA / 4.0)
    np.testing.assert_allclose(Theorem4().eta(setting, LEVEL, k), expected, rtol=1e-13)


@pytest.mark.parametrize("k", [1, 64])
def test_constant_steps_know_the_number_of_rounds(k, terms):
    setting = terms(KINK, COUNTS, dimension=5, radius=4.0, rounds=64)
    X = (1.0 + 0.02 * math.sqrt(5)) ** 2 + 5 * SIGMA**2
    np.testing.assert_allclose(Constant3().eta(setting, LEVEL, k), 4.0 / np.sqrt(64 * X), rtol=1e-13)
    setting = terms(SMOOTH, COUNTS, dimension=5, radius=4.0, rounds=64)
    expected = 1 / (0.25 + 0.02 + math.sqrt(64 * 5) * SIGMA / 4.0)
    np.testing.assert_allclose(Constant4().eta(setting, LEVEL, k), expected, rtol=1e-13)


def test_constants_of_other_losses_and_bounds_enter(terms):
    """G and the Hessian bound of softmax and smoothed hinge with rows up to 3; an l2 slope up to the radius."""
    setting = terms(Problem(Softmax(), L2(), 0.1), COUNTS, dimension=6, radius=5.0, norm_bound=3.0)
    X = (math.sqrt(2) * 3 + 0.1 * 5.0) ** 2 + 6 * SIGMA**2
    np.testing.assert_allclose(Theorem3().eta(setting, LEVEL, 2), 5.0 / np.sqrt(4 * X), rtol=1e-13)
    np.testing.assert_allclose(setting.smoothness, 9 / 2 + 0.1, rtol=1e-14)
    setting = terms(Problem(SmoothedHinge(0.25), L2(), 0.1), COUNTS, norm_bound=2.0)
    np.testing.assert_allclose(setting.smoothness, 0.75 / 0.25 * 4 + 0.1, rtol=1e-14)
    setting = terms(Problem(penalty=ElasticNet(0.25), strength=0.4), COUNTS, dimension=9, radius=2.0)
    X = (1.0 + 0.4 * (0.25 * 3 + 0.75 * 2.0)) ** 2 + 9 * SIGMA**2
    np.testing.assert_allclose(Theorem3().eta(setting, LEVEL, 1), 2.0 / np.sqrt(2 * X), rtol=1e-13)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-3), (0.2, 1e-6)])
@pytest.mark.parametrize("k", [1, 50])
def test_the_paper_s_numbers_for_l2(k, epsilon, delta, terms):
    m = 400
    setting = terms(Problem(penalty=L2(), strength=1e-6), [m] * 3, dimension=104, radius=89.0, rounds=100)
    plan = ALGORITHMS["dp-admm"].plan(setting, PaperNoise(Budget(epsilon, delta)))
    noise = 2 * math.sqrt(416 * k * math.log(1.25 / delta)) / (89 * m * epsilon)
    np.testing.assert_allclose(plan.eta(k), 1 / (0.25 + 1e-6 + noise), rtol=1e-8)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-3), (0.2, 1e-6)])
@pytest.mark.parametrize("k", [1, 50])
def test_the_paper_s_numbers_for_l1(k, epsilon, delta, terms):
    m = 400
    setting = terms(Problem(penalty=L1(), strength=1e-6), [m] * 3, dimension=104, radius=23.0, rounds=100)
    plan = ALGORITHMS["dp-admm"].plan(setting, PaperNoise(Budget(epsilon, delta)))
    slope = 2 * k * (1 + 1e-6 * math.sqrt(104)) ** 2
    noise = 1664 * k * math.log(1.25 / delta) / (m * epsilon) ** 2
    np.testing.assert_allclose(plan.eta(k), 23 * (slope + noise) ** -0.5, rtol=1e-8)


def test_theorem_and_constant_choose_by_the_kink(terms):
    kink, smooth = (terms(p, COUNTS, rounds=30, radius=3.0) for p in (KINK, SMOOTH))
    for chosen, with_kink, without in ((Theorem(), Theorem3(), Theorem4()), (Constant(), Constant3(), Constant4())):
        np.testing.assert_array_equal(chosen.eta(kink, LEVEL, 3), with_kink.eta(kink, LEVEL, 3))
        np.testing.assert_array_equal(chosen.eta(smooth, LEVEL, 3), without.eta(smooth, LEVEL, 3))
    unused = terms(Problem(penalty=L1(), strength=0.0), COUNTS)
    np.testing.assert_array_equal(Theorem().eta(unused, LEVEL, 3), Theorem4().eta(unused, LEVEL, 3))


@pytest.mark.parametrize("rule", [Theorem4(), Constant4()], ids=lambda rule: rule.name)
def test_the_smooth_rules_refuse_kinks_by_their_own_name(rule, terms):
    with pytest.raises(InputError, match=rf"schedule '{rule.name}'.*'l1'.*kink"):
        rule.check(terms(KINK, COUNTS))
    rule.check(terms(SMOOTH, COUNTS))


@pytest.mark.parametrize("rule", [Theorem4(), Constant4(), Theorem(), Constant()], ids=lambda rule: rule.name)
def test_without_noise_the_smooth_step_is_one_over_the_smoothness(rule, terms):
    setting = terms(SMOOTH, COUNTS)
    for k in (1, 9):
        np.testing.assert_array_equal(rule.eta(setting, SILENT, k), np.full(3, 1 / (0.25 + 0.02)))


def test_inverse_root_and_fixed(terms):
    setting = terms(KINK, COUNTS)
    np.testing.assert_array_equal(InverseRoot().eta(setting, LEVEL, 16), np.full(3, 0.25))
    np.testing.assert_array_equal(InverseRoot(8.0).eta(setting, LEVEL, 16), np.full(3, 2.0))
    np.testing.assert_array_equal(Fixed(0.3).eta(setting, LEVEL, 16), np.full(3, 0.3))


@pytest.mark.parametrize("make", [InverseRoot, Fixed])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_step_must_be_a_positive_number(make, value):
    with pytest.raises(InputError, match=rf"schedule '{make.name}': \w+ = {value!r} must be"):
        make(value)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_gives_a_positive_step_to_each_agent(name, terms):
    rule = SCHEDULES[name]()
    assert rule.name == name
    assert rule.about
    setting = terms(replace(SMOOTH, domain=Box(2.0)), COUNTS)
    rule.check(setting)
    steps = [rule.eta(setting, LEVEL, k) for k in (1, 2, 10)]
    assert all(step.shape == (3,) and (step > 0).all() for step in steps)
    assert all((after <= before).all() for before, after in itertools.pairwise(steps))


# -- Ryu & Kim ---------------------------------------------------------------------------------------------------------

BOUNDED = replace(SMOOTH, domain=Box(0.3))
KINKED = replace(KINK, domain=Box(0.3))
DIAMETER = 2 * 0.3 * math.sqrt(5)
ONE_STEP = NoiseLevel(SIGMA, epsilon=0.2, diameter=DIAMETER)
FOUR_STEPS = replace(ONE_STEP, steps=4)


@pytest.mark.parametrize("k", [1, 7, 100])
def test_theorem_5_3(k, terms):
    """1/eta = L + sqrt(k)/epsilon, the same epsilon at every agent."""
    setting = terms(BOUNDED, COUNTS, dimension=5)
    expected = 1 / (0.25 + 0.02 + math.sqrt(k) / 0.2)
    np.testing.assert_allclose(Theorem53().eta(setting, LEVEL, k), np.full(3, expected), rtol=1e-14)


@pytest.mark.parametrize("k", [1, 7, 100])
def test_free_5_3_takes_the_theta_with_the_smallest_bound_of_each_agent(k, terms):
    """Spec 4.1: theta = U / (sigma sqrt(2 D E))."""
    setting = terms(BOUNDED, COUNTS, dimension=5)
    for level, updates in ((ONE_STEP, 1), (FOUR_STEPS, 4)):
        expected = 1 / (0.25 + 0.02 + math.sqrt(k) * SIGMA * math.sqrt(2 * 5 * updates) / DIAMETER)
        np.testing.assert_allclose(Free53().eta(setting, level, k), expected, rtol=1e-14)


def test_no_other_theta_has_a_smaller_bound(terms):
    """theta D sigma² + U² / (2 E theta), the part of theory 4.1's bound that theta moves."""
    setting = terms(BOUNDED, COUNTS, dimension=5)
    slowed = 1 / Free53().eta(setting, FOUR_STEPS, 1) - 0.27

    def bound(theta, sigma):
        return theta * 5 * sigma**2 + DIAMETER**2 / (2 * 4 * theta)

    for agent in (0, 2):
        best, sigma = 1 / slowed[agent], SIGMA[agent]
        assert all(bound(best, sigma) < bound(best * factor, sigma) for factor in (0.5, 0.9, 1.1, 2.0))


@pytest.mark.parametrize("theta", [0.01, 0.7, 30.0])
@pytest.mark.parametrize("k", [1, 7, 100])
def test_free_5_3_with_a_given_theta(k, theta, terms):
    """It needs no noise to tune it, and no bounded set."""
    for problem in (BOUNDED, SMOOTH):
        setting = terms(problem, COUNTS, dimension=5)
        Free53(theta).check(setting)
        expected = np.full(3, 1 / (0.27 + math.sqrt(k) / theta))
        for level in (ONE_STEP, FOUR_STEPS, SILENT):
            np.testing.assert_allclose(Free53(theta).eta(setting, level, k), expected, rtol=1e-14)


@pytest.mark.parametrize("rule", [Theorem53(), Free53(), RyuKim()], ids=lambda rule: rule.name)
def test_without_noise_ryu_and_kims_smooth_step_is_exactly_one_over_the_smoothness(rule, terms):
    """F12: the limit of theorem 5.3's step as epsilon grows. No warning of a division by zero either."""
    setting = terms(BOUNDED, COUNTS)
    silent = replace(SILENT, diameter=DIAMETER)
    for k in (1, 9, 5000):
        np.testing.assert_array_equal(rule.eta(setting, silent, k), np.full(3, 1 / (0.25 + 0.02)))


def test_an_agent_without_noise_has_its_own_step_among_others(terms):
    steps = Free53().eta(terms(BOUNDED, COUNTS), ONE_STEP, 4)
    assert steps[1] == 1 / (0.25 + 0.02)
    assert (steps[[0, 2]] < steps[1]).all()


@pytest.mark.parametrize("k", [1, 4, 100])
def test_theorem_5_4(k, terms):
    for problem in (BOUNDED, KINKED):
        setting = terms(problem, COUNTS)
        Theorem54().check(setting)
        np.testing.assert_array_equal(Theorem54().eta(setting, LEVEL, k), np.full(3, 1 / math.sqrt(k)))


@pytest.mark.parametrize(("penalty", "alpha"), [(L2(), 0.4), (ElasticNet(0.25), 0.4 * 0.75)], ids=["l2", "elastic-net"])
@pytest.mark.parametrize("k", [1, 4, 100])
def test_theorem_5_5(k, penalty, alpha, terms):
    setting = terms(Problem(penalty=penalty, strength=0.4, domain=Box()), COUNTS)
    Theorem55().check(setting)
    np.testing.assert_allclose(Theorem55().eta(setting, LEVEL, k), np.full(3, 2 / (alpha * (k + 2))), rtol=1e-14)


@pytest.mark.parametrize("problem", [Problem(domain=Box()), KINKED], ids=["none", "l1"])
def test_theorem_5_5_refuses_what_is_not_strongly_convex_and_says_what_to_use(problem, terms):
    with pytest.raises(InputError, match=r"'theorem-5.5' needs a strongly convex objective; .*'l2'.*'theorem-5.3'"):
        Theorem55().check(terms(problem, COUNTS))


def test_ryu_kim_chooses_by_the_kink_on_any_set(terms):
    for domain in (Whole(), Box(0.3), Range(0.0, math.inf)):
        smooth, kink = (terms(replace(p, domain=domain), COUNTS) for p in (SMOOTH, KINK))
        for k in (1, 9):
            np.testing.assert_array_equal(RyuKim().eta(smooth, LEVEL, k), Theorem53().eta(smooth, LEVEL, k))
            np.testing.assert_array_equal(RyuKim().eta(kink, LEVEL, k), Theorem54().eta(kink, LEVEL, k))
        assert (RyuKim().eta(smooth, LEVEL, 1) != RyuKim().eta(kink, LEVEL, 1)).all()
        for setting in (smooth, kink):
            RyuKim().check(setting)
            plan = ALGORITHMS["obj-g"].plan(setting, Multiplier(1.0))
            np.testing.assert_array_equal(plan.eta(3), RyuKim().eta(setting, plan.level, 3))


@pytest.mark.parametrize("rule", [Theorem53(), Free53(), Free53(0.7)], ids=["epsilon", "best", "0.7"])
def test_theorem_5_3_refuses_kinks_and_says_what_to_use(rule, terms):
    with pytest.raises(InputError, match=rf"schedule '{rule.name}'.*'l1' has a kink. Use 'theorem-5.4'"):
        rule.check(terms(KINKED, COUNTS))
    rule.check(terms(BOUNDED, COUNTS))


@pytest.mark.parametrize("rule", [Theorem53(), Free53(), Theorem54(), Theorem55()], ids=lambda rule: rule.name)
def test_the_theorems_need_a_bounded_set_and_say_what_to_use(rule, terms):
    with pytest.raises(InputError, match=rf"'{rule.name}' needs a bounded set, 'whole' is not; .*box:1.*'ryu-kim'"):
        rule.check(terms(SMOOTH, COUNTS))
    rule.check(terms(BOUNDED, COUNTS))


@pytest.mark.parametrize("theta", [0.0, -1.0, math.inf, math.nan])
def test_a_theta_must_be_a_positive_number(theta):
    with pytest.raises(InputError, match=rf"schedule 'free-5.3': theta = {theta!r} must be"):
        Free53(theta)


def test_where_all_records_count_alike_every_agent_has_a_smoothness_of_its_own(terms):
    setting = terms(Problem(penalty=L2(), strength=0.02, domain=Box(0.3), records=70), COUNTS)
    expected = 1 / (0.25 * np.array(COUNTS) / 70 + 0.02 + math.sqrt(9) / 0.2)
    np.testing.assert_allclose(Theorem53().eta(setting, LEVEL, 9), expected, rtol=1e-14)
    np.testing.assert_array_equal(Theorem53().eta(setting.take([2]), LEVEL.take([2]), 9), expected[2:])


def test_with_a_set_for_each_agent_a_step_does_not_depend_on_the_company(terms):
    """All use the widest set's diameter."""
    setting = terms(replace(SMOOTH, domain=Each((Ball(1.0), Ball(2.0), Box(0.1)))), COUNTS)
    plan = ALGORITHMS["obj-g"].tuned(schedule=Free53(), updates=2).plan(setting, Multiplier(1.5))
    np.testing.assert_array_equal([plan.take([agent]).eta(3)[0] for agent in range(3)], plan.eta(3))
    slowed = math.sqrt(3) * plan.level.sigma * math.sqrt(2 * 3 * 2) / 4.0
    np.testing.assert_allclose(plan.eta(3), 1 / (0.27 + slowed), rtol=1e-14)


@pytest.mark.parametrize("rule", [Theorem53(), Free53(), Theorem54(), Theorem55()], ids=lambda rule: rule.name)
def test_the_theorems_say_nothing_of_a_single_point(rule, terms):
    with pytest.raises(InputError, match=rf"'{rule.name}' needs a bounded set, 'range' is a single point; .*'ryu-kim'"):
        rule.check(terms(replace(SMOOTH, domain=Range(0.3, 0.3)), COUNTS))


@pytest.mark.parametrize(("rule", "step"), [(Free53(1e-9), 9.99999), (InverseRoot(2e-9), None)])
def test_a_step_so_small_or_large_that_a_solver_could_not_use_it_is_refused(rule, step, terms):
    """Of the first round, or of the last."""
    setting = terms(BOUNDED, COUNTS, rounds=100)
    said = "round 100: step = 2e-10" if step is None else f"round 1: step = {step:g}\\d*e-10 must be a number from"
    with pytest.raises(InputError, match=said):
        ALGORITHMS["obj-g"].tuned(schedule=rule).plan(setting, Multiplier(1.0))


# -- how loud the noise is, as steps and penalties are told ------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("name", ["obj-g", "obj-l", "out-g", "out-l", "dp-admm"])
@pytest.mark.parametrize("updates", [1, 3])
def test_under_paper_noise_the_epsilon_of_a_step_is_the_one_asked_for(name, epsilon, updates, terms):
    recipe = ALGORITHMS[name] if name == "dp-admm" else ALGORITHMS[name].tuned(updates=updates)
    plan = recipe.plan(terms(SMOOTH, COUNTS), PaperNoise(Budget(epsilon, 1e-6)))
    assert plan.level.epsilon == pytest.approx(epsilon, rel=4e-16)


@pytest.mark.parametrize("updates", [1, 5])
def test_under_a_total_budget_the_epsilon_of_a_step_is_that_of_the_noise_it_came_to(updates, terms):
    budget = TotalBudget((Budget(1.5, 1e-5),))
    gaussian = ALGORITHMS["obj-g"].tuned(updates=updates).plan(terms(SMOOTH, COUNTS), budget)
    z = gaussian.noise[0].mechanism.noise_multiplier[0]
    assert z == pytest.approx(math.sqrt(10 * updates) / mu(1.5, 1e-5), rel=1e-9)
    assert gaussian.level.epsilon == pytest.approx(classic_multiplier(1.0, 1e-5) / z, rel=1e-14)
    laplace = ALGORITHMS["obj-l"].tuned(updates=updates).plan(terms(SMOOTH, COUNTS), budget)
    z = laplace.noise[0].mechanism.noise_multiplier[0]
    assert laplace.level.epsilon == pytest.approx(1 / z, rel=1e-14)
    assert gaussian.level.steps == laplace.level.steps == updates


def test_of_several_budgets_the_smallest_epsilon_and_delta_count(terms):
    """Of the loudest agent, at the smallest delta: what depends on it must be one number for all."""
    budgets = TotalBudget((Budget(1.0, 1e-4), Budget(0.5, 1e-5), Budget(3.0, 1e-7)))
    plan = ALGORITHMS["obj-g"].plan(terms(SMOOTH, COUNTS), budgets)
    loudest = plan.noise[0].mechanism.noise_multiplier[1]
    assert loudest == plan.noise[0].mechanism.noise_multiplier.max()
    assert plan.level.epsilon == pytest.approx(classic_multiplier(1.0, 1e-7) / loudest, rel=1e-14)
    assert plan.take([2]).level.epsilon == plan.level.epsilon


def test_a_multiplier_brings_its_delta(terms):
    for delta in (1e-6, 1e-3):
        plan = ALGORITHMS["obj-g"].plan(terms(SMOOTH, COUNTS), Multiplier(2.0, delta))
        assert plan.level.epsilon == pytest.approx(classic_multiplier(1.0, delta) / 2.0, rel=1e-14)
    assert ALGORITHMS["obj-g"].plan(terms(SMOOTH, COUNTS), Multiplier(0.0)).level.epsilon == math.inf


def test_the_standard_deviation_is_that_of_the_mechanism_in_its_norm(terms):
    """Laplace noise of scale b has deviation b sqrt(2), and its sensitivity is in the 1-norm."""
    setting = terms(SMOOTH, COUNTS, dimension=9)
    gaussian, laplace = (ALGORITHMS[name].plan(setting, Multiplier(2.0)).level.sigma for name in ("obj-g", "obj-l"))
    np.testing.assert_allclose(gaussian, 2.0 * 2 / np.array(COUNTS), rtol=1e-8)
    np.testing.assert_allclose(laplace, 2.0 * math.sqrt(2) * 2 * math.sqrt(9) / np.array(COUNTS), rtol=1e-8)
