"""Each step size is its formula of spec 3.4, and the numeric forms of section 8 come out."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.admm.noise import Level, PaperNoise
from dpadmm.admm.schedules import (
    SCHEDULES,
    Constant,
    Constant3,
    Constant4,
    Fixed,
    InverseRoot,
    Theorem,
    Theorem3,
    Theorem4,
)
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.problems.losses import SmoothedHinge, Softmax
from dpadmm.problems.penalties import L1, L2, ElasticNet
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import Box

SIGMA = np.array([0.3, 0.0, 2.0])
LEVEL = Level(SIGMA, epsilon=0.2)
SILENT = Level(np.zeros(3), epsilon=math.inf)
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
    with pytest.raises(InputError, match=rf"schedule '{make.name}': {value!r}"):
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
