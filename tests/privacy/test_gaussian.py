"""Exact Gaussian composition against high-precision arithmetic and the numbers of the specification."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpadmm.privacy import gaussian
from dpadmm.privacy.calibration import classic_multiplier
from dpadmm.privacy.zcdp import zcdp_epsilon

LOG_DELTAS = [-1e-6, -0.01, -0.5, -1.0, -2.0, -5.0, -20.0, -100.0, -300.0, -690.0]


def reference(epsilon: float, mu: float) -> mpmath.mpf:
    with mpmath.workdps(120):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)

        def upper(t: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(t / mpmath.sqrt(2)) / 2

        return upper(e / m - m / 2) - mpmath.exp(e) * upper(e / m + m / 2)


@pytest.mark.parametrize("mu", np.logspace(-6, 4, 31).tolist())
def test_delta_is_accurate_and_its_inverses_are_safe_and_tight(mu: float) -> None:
    accuracy = 1e-12 if mu <= 100.0 else 2e-11
    for log_delta in LOG_DELTAS:
        delta = math.exp(log_delta)
        epsilon = gaussian.epsilon(mu, delta)
        true = reference(epsilon, mu)
        with mpmath.workdps(60):
            assert abs(mpmath.expm1(gaussian.log_delta(epsilon, mu) - mpmath.log(true))) < accuracy
        assert true <= delta
        if epsilon > 0.0:
            assert reference(epsilon * (1.0 - 1e-7), mu) > delta * (1.0 - 1e-8)
            back = gaussian.mu(epsilon, delta)
            assert back == pytest.approx(mu, rel=1e-6)
            assert reference(epsilon, back) <= delta


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"),
    [(1, 1e-5, 0.268051), (2, 1e-5, 0.501552), (8, 1e-5, 1.666031), (0.5, 1e-3, 0.2169)],
)
def test_anchors_f1(epsilon: float, delta: float, mu: float) -> None:
    digits = 6 if mu != 0.2169 else 4
    assert round(gaussian.mu(epsilon, delta), digits) == mu


@pytest.mark.parametrize(
    ("steps", "epsilon", "delta", "total"),
    [
        (100, 0.1, 1e-3, "0.6339"),
        (50000, 1.0, 1e-6, "1090"),
        (100, 0.1, 1e-6, "0.7837"),
        (100, 0.2, 1e-6, "1.657"),
    ],
)
def test_per_step_epsilons_of_the_papers_f3(steps: int, epsilon: float, delta: float, total: str) -> None:
    mu = math.sqrt(steps) / classic_multiplier(epsilon, delta)
    assert f"{gaussian.epsilon(mu, delta):.4g}" == total


@given(mu=st.floats(1e-4, 50.0), delta=st.floats(1e-12, 0.05))
def test_exact_is_below_renyi_is_below_mironov_f2(mu: float, delta: float) -> None:
    a = 0.5 * mu * mu
    exact, renyi = gaussian.epsilon(mu, delta), zcdp_epsilon(a, delta)
    assert exact <= renyi * (1.0 + 1e-9)
    assert renyi <= a + 2.0 * math.sqrt(a * math.log(1.0 / delta)) * (1.0 + 1e-9)


def test_ends_of_the_range() -> None:
    assert gaussian.epsilon(0.0, 1e-5) == 0.0
    assert gaussian.epsilon(math.inf, 1e-5) == math.inf
    assert gaussian.epsilon(1.0, 0.0) == math.inf
    assert gaussian.epsilon(1.0, 0.5) == 0.0  # delta(0) = 2 Phi(1/2) - 1 = 0.383
    assert gaussian.epsilon(1.0, 0.38) > 0.0
    assert gaussian.mu(1.0, 0.0) == 0.0
    assert gaussian.mu(0.0, 0.3829249225480262) == pytest.approx(1.0, rel=1e-9)
    assert gaussian.delta(1.0, 0.0) == 0.0
    assert gaussian.delta(1.0, math.inf) == 1.0
    assert gaussian.delta(1.0, 1e-300) == 0.0
