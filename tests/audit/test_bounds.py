"""Lower bounds at the formula level, against scipy, simulation and brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import beta, binom

from dpadmm.audit.bounds import (
    BOUNDS,
    METHODS,
    ONE_RUN,
    Mistakes,
    chance,
    clopper_pearson,
    gaussian_pair,
    gaussian_sum,
    guessed,
    mu_of_pair,
    mu_of_sum,
    upper,
)
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian


def mistakes(false_positives, false_negatives, trials):
    return Mistakes(np.array(false_positives), trials, np.array(false_negatives), trials)


@pytest.mark.parametrize(("count", "trials"), [(0, 10), (3, 100), (99, 100), (100, 100), (4467, 10_000)])
def test_the_upper_end_is_clopper_and_pearson_s(count, trials):
    expected = 1.0 if count == trials else beta.ppf(0.975, count + 1, trials - count)
    assert upper(count, trials, 0.95) == pytest.approx(expected, rel=1e-12)
    if count < trials:  # by its definition
        assert binom.cdf(count, trials, float(upper(count, trials, 0.95))) == pytest.approx(0.025, rel=1e-9)


def test_each_rate_is_bounded_by_its_own_transcripts():
    rates = Mistakes(np.array(1), 10, np.array(3), 1000).at_most(0.95)
    assert rates == (upper(1, 10, 0.95), upper(3, 1000, 0.95))


def test_every_method_has_a_bound_or_is_the_one_run():
    assert set(METHODS) == {*BOUNDS, ONE_RUN}


def test_the_usual_bound_is_the_sharpest_in_the_middle():
    usual, *others = (float(bound(mistakes(300, 300, 1000), 0.95, 1e-5)) for bound in BOUNDS["gdp"])
    assert others
    assert usual > max(others)


def test_epsilon_by_both_directions():
    one_way = clopper_pearson(mistakes(10, 900, 1000), 0.95, 1e-3)
    other_way = clopper_pearson(mistakes(900, 10, 1000), 0.95, 1e-3)
    low, high = upper(10, 1000, 0.95), upper(900, 1000, 0.95)
    assert one_way == other_way == pytest.approx(np.log((1 - high - 1e-3) / low), rel=1e-12)


@pytest.mark.parametrize("bound", [clopper_pearson, gaussian_pair, gaussian_sum])
@pytest.mark.parametrize("rates", [(500, 500), (1000, 1000), (0, 1000), (1000, 0), (700, 600)])
def test_a_coin_tells_nothing(bound, rates):
    assert bound(mistakes(*rates, 1000), 0.95, 1e-5) == 0.0


@pytest.mark.parametrize("bound", [clopper_pearson, gaussian_pair, gaussian_sum])
@given(st.integers(0, 400), st.integers(0, 400), st.floats(0.5, 0.999))
@settings(max_examples=60, deadline=None)
def test_fewer_mistakes_prove_no_less_and_more_confidence_no_more(bound, one, other, confidence):
    at = float(bound(mistakes(one, other, 400), confidence, 1e-4))
    assert 0.0 <= at < np.inf
    if one:
        assert bound(mistakes(one - 1, other, 400), confidence, 1e-4) >= at
    assert bound(mistakes(one, other, 400), min(0.9999, confidence + 0.01), 1e-4) <= at


def test_theory_s_figures_for_ten_thousand_transcripts():
    """At epsilon 1, 2, 4 and delta 1e-5, at the middle: two intervals 0.80, 0.89, 0.94 of the claim; one, more."""
    for epsilon, two, one in ((1.0, 0.80, 0.86), (2.0, 0.89, 0.92), (4.0, 0.94, 0.95)):
        rate = round(10_000 * float(ndtr(-gaussian.mu(epsilon, 1e-5) / 2.0)))
        seen = mistakes(rate, rate, 10_000)
        assert gaussian_pair(seen, 0.95, 1e-5) / epsilon == pytest.approx(two, abs=0.01)
        assert gaussian_sum(seen, 0.95, 1e-5) / epsilon == pytest.approx(one, abs=0.01)
        assert clopper_pearson(seen, 0.95, 1e-5) / epsilon < 0.51


@pytest.mark.parametrize("mu", [0.1, 0.5, 2.0, 4.0])
@pytest.mark.parametrize("line", [-1.0, 0.0, 0.7])
@pytest.mark.parametrize("lower", [mu_of_pair, mu_of_sum])
def test_what_holds_is_refuted_no_more_often_than_it_may_be(mu, line, lower):
    """Many audits of N(0, 1) against N(mu, 1), with a line off the middle."""
    draw, trials, audits = np.random.default_rng(3), 300, 4000
    threshold = mu / 2.0 + line
    seen = mistakes(
        draw.binomial(trials, ndtr(-threshold), audits), draw.binomial(trials, ndtr(threshold - mu), audits), trials
    )
    assert np.mean(lower(seen, 0.9) > mu) <= 0.1 + 3.0 * np.sqrt(0.09 / audits)


@given(st.floats(1e-6, 1.0), st.floats(1e-6, 1.0), st.integers(1, 25))
@settings(max_examples=200, deadline=None)
def test_two_kinds_of_coins_have_thinner_tails_than_one(one, other, trials):
    """Hoeffding's theorem, as mu_of_sum uses it: below the mean by at least one."""
    sums = np.convolve(binom.pmf(np.arange(trials + 1), trials, one), binom.pmf(np.arange(trials + 1), trials, other))
    mean = trials * (one + other)
    below = np.arange(2 * trials + 1) <= mean - 1.0
    together = binom.cdf(np.arange(2 * trials + 1), 2 * trials, (one + other) / 2.0)
    assert np.all(np.cumsum(sums)[below] <= together[below] + 1e-12)


def test_sums_need_as_many_of_either():
    with pytest.raises(ValueError, match="as many"):
        mu_of_sum(Mistakes(np.array(1), 10, np.array(1), 11), 0.95)


class TestOneRun:
    def test_pure_epsilon_is_a_binomial_tail(self):
        success = 1.0 / (1.0 + np.exp(-1.5))
        assert chance(100, 40, 36, 1.5, 0.0) == pytest.approx(binom.sf(35, 40, success), rel=1e-12)

    @pytest.mark.parametrize("right", [12, 17])  # below and above the mean
    def test_delta_by_brute_force(self, right):
        """max over i of P[right > W >= right - i] / i, written out."""
        success = 1.0 / (1.0 + np.exp(-0.5))
        steps = [sum(binom.pmf(right - j, 20, success) for j in range(1, i + 1)) / i for i in range(1, right + 1)]
        expected = binom.sf(right - 1, 20, success) + 2.0 * 1e-3 * 50 * max(steps)
        assert chance(50, 20, right, 0.5, 1e-3) == pytest.approx(expected, rel=1e-12)

    @given(st.integers(1, 60), st.data())
    @settings(max_examples=60, deadline=None)
    def test_the_bound_is_where_the_chance_meets_the_error(self, guesses, data):
        right = data.draw(st.integers(0, guesses))
        found = guessed(100, guesses, right, 0.95, 1e-6)
        if found == 0.0:
            assert chance(100, guesses, right, 1e-6, 1e-6) > 0.05 - 1e-6
        else:
            assert chance(100, guesses, right, found, 1e-6) <= 0.05 + 1e-15
            assert chance(100, guesses, right, found + 1e-6, 1e-6) > 0.05

    def test_all_right_of_many(self):
        assert guessed(1000, 1000, 1000, 0.95, 0.0) == pytest.approx(-np.log(0.05 ** (-1 / 1000) - 1.0), rel=1e-6)

    def test_more_right_than_guessed(self):
        with pytest.raises(InputError, match="ascending"):
            chance(10, 5, 6, 1.0, 0.0)

    def test_randomised_response_is_refuted_no_more_often_than_it_may_be(self):
        draw, success = np.random.default_rng(0), 1.0 / (1.0 + np.exp(-1.0))
        counts, times = np.unique(draw.binomial(200, success, 2000), return_counts=True)
        refuted = sum(
            often for count, often in zip(counts, times, strict=True) if guessed(200, 200, int(count), 0.95, 0.0) > 1.0
        )
        assert 0 < refuted <= 2000 * 0.05 + 3.0 * np.sqrt(2000 * 0.05)
