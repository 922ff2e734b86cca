"""ADMM's penalty: never falling, and a number that the server and every agent compute alike."""

import itertools
import math

import numpy as np
import pytest

from dpadmm._registry import build
from dpadmm.admm.rho import RHO_SCHEDULES, BalancedRho, ConstantRho, GeometricRho, GrowingRho
from dpadmm.admm.setting import Multiplier, NoiseLevel, PaperNoise, TotalBudget
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget, classic_multiplier
from dpadmm.problems.losses import Logistic, Softmax
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import Ball, Box, Each, Range, Simplex, Whole

COUNTS = [10, 20, 70]
RULES = {
    **{name: rule() for name, rule in RHO_SCHEDULES.items()},
    "growing:0.3:0.1:2": GrowingRho(0.3, 0.1, 2.0),
    "growing:1e-3:0:1": GrowingRho(1e-3, 0.0, 1.0),
    "balanced:7": BalancedRho(7.0),
    "constant:0.2": ConstantRho(0.2),
    "geometric:1.3:0.5:20": GeometricRho(1.3, 0.5, 20.0),
    "geometric:1": GeometricRho(1.0),
}
REQUESTS = {
    "each its own budget": TotalBudget(tuple(Budget(epsilon, 1e-5) for epsilon in (0.3, 1.0, 5.0))),
    "one budget": TotalBudget((Budget(1.0, 1e-5),)),
    "the papers'": PaperNoise(Budget(0.1, 1e-6)),
    "a multiplier": Multiplier(2.0),
    "no noise": Multiplier(0.0),
}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
every_request = pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
ROUNDS = [*range(1, 60), 113, 114, 115, 2000, 9_999, 10_000, 10_001, 10**6, 10**9]


def planned(rule, setting, request=REQUESTS["each its own budget"], name="obj-g"):
    return ALGORITHMS[name].tuned(rho=rule).plan(setting, request)


def value(rule, setting, epsilon=1.0, slope=1.0, round=1):
    return rule.value(setting, NoiseLevel(np.zeros(3), epsilon=epsilon, slope=slope), round)


# -- what every rule must keep -----------------------------------------------------------------------------------------


@every_request
@every_rule
def test_a_penalty_is_positive_and_finite_and_never_falls(rule, request_, terms):
    plan = planned(rule, terms(Problem(domain=Box(0.5)), COUNTS, rho=0.7), request_)
    values = [plan.rho(k) for k in ROUNDS]
    assert all(type(v) is float and 0.0 < v < math.inf for v in values)
    assert all(after >= before for before, after in itertools.pairwise(values))


@pytest.mark.parametrize("records", [None, 100], ids=["owners", "records"])
@pytest.mark.parametrize("name", ["obj-g", "obj-l", "out-g"])
@every_request
@every_rule
def test_every_agent_alone_has_the_penalty_of_all(rule, request_, name, records, terms):
    """The server combines with it, so an agent that computed another would be out of step; its step may differ."""
    plan = planned(rule, terms(Problem(domain=Box(0.5), records=records), COUNTS, rho=0.7), request_, name)
    for agents in ([0], [1], [2], [2, 0], [1, 1, 0]):
        part = plan.take(agents)
        assert [part.rho(k) for k in ROUNDS] == [plan.rho(k) for k in ROUNDS]
    if request_ is REQUESTS["each its own budget"]:  # which means something only where the agents differ
        assert len(set(plan.level.sigma)) == len(set(plan.noise[0].mechanism.noise_multiplier)) == 3


def test_with_a_set_for_each_agent_all_have_one_penalty(terms):
    """That of the widest set; an agent alone must not take its own."""
    sets = Each((Ball(1.0), Ball(2.0), Box(0.1)))
    plan = planned(BalancedRho(), terms(Problem(domain=sets), COUNTS), Multiplier(1.0))
    assert plan.rho(1) == pytest.approx(2 * 1.0 / 4.0, rel=1e-12)
    assert [plan.take([agent]).rho(1) for agent in range(3)] == [plan.rho(1)] * 3


@pytest.mark.parametrize(("domain", "dimension"), [(Range(0.3, 0.3), 3), (Simplex(), 1)], ids=["range", "simplex"])
def test_over_a_single_point_balance_is_at_the_cap(domain, dimension, terms):
    setting = terms(Problem(domain=domain), COUNTS, dimension=dimension)
    assert planned(BalancedRho(), setting, Multiplier(1.0)).rho(1) == 1e9


def test_balance_ends_at_a_thousand_million_too(terms):
    tiny = terms(Problem(domain=Box(1e-9)), COUNTS)
    assert [planned(BalancedRho(scale), tiny, Multiplier(1.0)).rho(1) for scale in (1e3, 1e9)] == [1e9] * 2


def test_a_scale_that_makes_the_penalty_vanish_is_refused_with_it(terms):
    with pytest.raises(InputError, match=r"round 1: rho = .* must be a number from 1e-09 to 1e\+09"):
        planned(BalancedRho(1e-9), terms(Problem(domain=Box(1e9)), COUNTS), Multiplier(1.0))


@pytest.mark.parametrize(("rho", "fits"), [(9e-10, False), (1e-9, True), (1e9, True), (2e9, False)])
def test_a_constant_penalty_has_the_same_limits(rho, fits, terms):
    if fits:
        assert planned(ConstantRho(), terms(Problem(), COUNTS, rho=rho)).rho(7) == rho
    else:
        with pytest.raises(InputError, match=f"rho = {rho!r} must be".replace("+", r"\+")):
            terms(Problem(), COUNTS, rho=rho)


def test_the_registry_says_what_its_rules_are():
    for name, rule in RHO_SCHEDULES.items():
        assert rule.name == name
        assert rule.about


# -- constant ----------------------------------------------------------------------------------------------------------


def test_constant_is_the_rho_of_the_run(terms):
    setting = terms(Problem(), COUNTS, rho=0.37)
    assert {value(ConstantRho(), setting, round=k) for k in ROUNDS} == {0.37}


# -- growing: (E.1) ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "expected"), [(0.05, 102.0), (0.1, 52.0), (0.5, 12.0), (1.0, 7.0)])
def test_the_papers_penalty_for_mnist(epsilon, expected, terms):
    """Spec 4.2: c_1 = 2, c_2 = 5, T_c = 10,000, so that it is constant over the paper's 5,000 rounds."""
    plan = ALGORITHMS["obj-g"].plan(terms(Problem(), COUNTS), PaperNoise(Budget(epsilon, 1e-6)))
    assert [plan.rho(k) for k in (1, 5000, 9999)] == pytest.approx([expected] * 3, rel=1e-14)
    assert plan.rho(10_000) == pytest.approx(expected + 0.4, rel=1e-14)
    assert plan.rho(29_999) == pytest.approx(expected + 2 * 0.44, rel=1e-14)


@pytest.mark.parametrize(("epsilon", "noise"), [(0.05, 1.0), (0.1, 0.5), (0.5, 0.1), (1.0, 0.05)])
def test_the_papers_penalty_for_femnist(epsilon, noise, terms):
    """Spec 4.2: 0.005, 0.05 and 2,000."""
    rule = build("rho schedule", RHO_SCHEDULES, "growing:0.005:0.05:2000")
    for name in ("obj-g", "obj-l"):
        plan = planned(rule, terms(Problem(), COUNTS), PaperNoise(Budget(epsilon, 1e-6)), name)
        found = [plan.rho(k) for k in (1, 1999, 2000, 3999, 4000, 5000)]
        grown = [0.005, 0.005, 0.006, 0.006, 0.0072, 0.0072]
        assert found == pytest.approx([part + noise for part in grown], rel=1e-12)


@pytest.mark.parametrize("round", [113, 114, 500, 10**6, 10**12])
def test_growth_ends_at_a_thousand_million(round, terms):
    grown = value(GrowingRho(1.0, 0.0, 1.0), terms(Problem(), COUNTS), round=round)
    assert grown == (pytest.approx(1.2**113) if round == 113 else 1e9)
    assert 1.2**113 < 1e9 < 1.2**114


@pytest.mark.parametrize("epsilon", [5e-9, 1e-12, 1e-300, 5e-324])
def test_loud_noise_cannot_lift_it_higher(epsilon, terms):
    assert value(GrowingRho(), terms(Problem(), COUNTS), epsilon=epsilon) == 1e9


def test_without_noise_the_base_is_left(terms):
    setting = terms(Problem(), COUNTS)
    assert value(GrowingRho(), setting, epsilon=math.inf) == 2.0
    assert planned(GrowingRho(0.3, 100.0, 3.0), setting, Multiplier(0.0)).rho(3) == pytest.approx(0.36, rel=1e-15)
    assert ALGORITHMS["local-updates"].plan(setting, Multiplier(0.0)).rho(1) == 2.0


def test_the_most_cautious_agent_says_how_loud_the_noise_is(terms):
    plan = planned(GrowingRho(2.0, 5.0), terms(Problem(), COUNTS))
    loudest = plan.noise[0].mechanism.noise_multiplier.max()
    assert loudest > 10 * plan.noise[0].mechanism.noise_multiplier.min()
    assert plan.rho(1) == pytest.approx(2.0 + 5.0 * loudest / classic_multiplier(1.0, 1e-5), rel=1e-12)


# -- balanced ----------------------------------------------------------------------------------------------------------

DIAMETERS = {
    "box": (Box(0.1), 2 * 0.1 * math.sqrt(5)),
    "ball": (Ball(3.0), 6.0),
    "simplex": (Simplex(0.5), 0.5 * math.sqrt(2)),
    "range": (Range([0.0, 0.0, 0.0, 0.0, -1.0], [1.0, 2.0, 0.0, 0.0, 1.0]), 3.0),
    "whole": (Whole(), 2 * 40.0),
    "half-space": (Range(0.0, math.inf), 2 * 40.0),
}


@pytest.mark.parametrize(("domain", "diameter"), DIAMETERS.values(), ids=DIAMETERS)
def test_balanced_is_twice_the_longest_gradient_over_the_diameter(domain, diameter, terms):
    """An unbounded set counts as a ball of the public radius, here 40."""
    plain = terms(Problem(Logistic(), domain=domain), COUNTS, dimension=5, radius=40.0)
    assert planned(BalancedRho(), plain).rho(1) == pytest.approx(2 * 1.0 / diameter, rel=1e-12)
    assert planned(BalancedRho(0.25), plain).rho(9) == pytest.approx(0.5 / diameter, rel=1e-12)
    # Rows up to 3 and softmax: gradients up to 3 sqrt(2).
    wide = terms(Problem(Softmax(), domain=domain), COUNTS, dimension=5, radius=40.0, norm_bound=3.0)
    assert planned(BalancedRho(), wide).rho(1) == pytest.approx(2 * 3 * math.sqrt(2) / diameter, rel=1e-12)


def test_balanced_where_all_records_count_alike_is_the_largest_agents(terms):
    """70 of 100 records of weight 1/100: its gradient is no longer than 0.7, and nobody's is."""
    setting = terms(Problem(domain=Ball(3.0), records=100), COUNTS)
    assert planned(BalancedRho(), setting).rho(1) == pytest.approx(2 * 0.7 / 6.0, rel=1e-12)
    assert planned(BalancedRho(), setting).take([0]).rho(1) == pytest.approx(2 * 0.7 / 6.0, rel=1e-12)


# -- wrong values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "numbers",
    [
        *[(wrong,) for wrong in (0.0, -1.0, math.nan, math.inf)],
        *[(2.0, wrong) for wrong in (-1e-9, math.nan, math.inf)],
        *[(2.0, 5.0, wrong) for wrong in (0.0, 0.99, -3.0, math.nan, math.inf)],
    ],
)
def test_growing_refuses_numbers_that_would_let_it_fall_or_vanish(numbers):
    with pytest.raises(InputError, match=rf"'growing'.*{numbers[-1]!r}"):
        GrowingRho(*numbers)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_balanced_refuses_a_scale_that_is_no_positive_number(scale):
    with pytest.raises(InputError, match=rf"'balanced': scale = {scale!r} must be"):
        BalancedRho(scale)


# -- geometric ---------------------------------------------------------------------------------------------------------


def test_geometric_starts_from_rho_and_stops_at_its_bound(terms):
    setting = terms(Problem(), COUNTS, rho=0.7)
    rule = GeometricRho(1.3, 0.5, 20.0)
    for k in range(1, 40):
        assert value(rule, setting, round=k) == pytest.approx(0.7 * min(0.5 * 1.3**k, 20.0), rel=1e-12)
    assert value(rule, setting, round=10**9) == 0.7 * 20.0
    assert value(GeometricRho(), setting, round=3) == pytest.approx(0.7 * 1.04**3, rel=1e-13)
    assert value(GeometricRho(1.0, 2.0), setting, round=500) == pytest.approx(1.4, rel=1e-15)
    assert value(GeometricRho(bound=1e9), setting, round=10**9) == pytest.approx(0.7e9)  # without overflow
    assert value(ConstantRho(0.2), setting, round=7) == 0.2
    assert value(ConstantRho(), setting, round=7) == 0.7


def test_geometric_lists_give_every_node_its_own(terms):
    """003's Fig. 1b; and whoever computes for some of the nodes takes their numbers."""
    setting, growth, scale = terms(Problem(), COUNTS, rho=0.5), (1.01, 1.0, 1.5), (1.0, 3.0, 0.8)
    rule = GeometricRho(growth, scale, 4.0)
    for k in (1, 2, 7, 100):
        expected = [0.5 * min(s * g**k, 4.0) for g, s in zip(growth, scale, strict=True)]
        np.testing.assert_allclose(value(rule, setting, round=k), expected, rtol=1e-12)
        np.testing.assert_allclose(value(rule, setting.take([2, 0]), round=k), [expected[2], expected[0]], rtol=1e-12)
        mixed = value(GeometricRho(1.2, scale, 9.0), setting.take([1]), round=k)
        np.testing.assert_allclose(mixed, [0.5 * min(3.0 * 1.2**k, 9.0)], rtol=1e-12)
    plan = ALGORITHMS["mr-admm"].tuned(rho=rule).plan(setting, Multiplier(0.0))
    for k in range(1, 7):
        np.testing.assert_array_equal(
            plan.rho(k), value(rule, setting, round=(k + 1) // 2)
        )  # a cycle's two rounds alike
        for i in range(3):
            np.testing.assert_array_equal(plan.take([i]).rho(k), plan.rho(k)[[i]])


@pytest.mark.parametrize(
    "wrong",
    [
        {"growth": 0.99},
        {"growth": 2.01},
        {"growth": math.nan},
        {"growth": (1.01, 0.5)},
        {"growth": (1.01, math.nan)},
        {"scale": 0.0},
        {"scale": -1.0},
        {"scale": math.inf},
        {"scale": math.nan},
        {"scale": (1.0, 0.0)},
        {"scale": (1.0, 3.0), "bound": 2.0},
        {"bound": 0.5},
        {"bound": math.inf},
        {"bound": math.nan},
    ],
    ids=str,
)
def test_geometric_refuses_what_would_fall_vanish_or_run_away(wrong):
    with pytest.raises(InputError, match=r"'geometric': \w+ = .* must be (a number from|at most the bound)"):
        GeometricRho(**wrong)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("growing:2:5:10000:1", "'growing' does not take 4 number"),
        ("constant:3:4", "'constant' does not take 2 number"),
        ("constant:0", "'constant': fixed = 0.0 must be"),
        ("constant:nan", "'constant': fixed = nan must be"),
        ("constant:inf", "'constant': fixed = inf must be"),
        ("growing:fast", "must be a number"),
        ("balancd", "unknown rho schedule 'balancd'; did you mean 'balanced'?"),
        ("growing:-2", "'growing': base = -2.0 must be"),
        ("geometric:1.04:1:100:2", "'geometric' does not take 4 number"),
        ("geometric:1.04,", "must be a number"),
        ("geometric:1.04,fast", "must be a number"),
        ("geometric:0.9,1", "'geometric': growth = 0.9 must be a number from 1 to 2"),
    ],
)
def test_a_rule_that_cannot_be_built_is_refused(text, said):
    with pytest.raises(InputError, match=said):
        build("rho schedule", RHO_SCHEDULES, text)
