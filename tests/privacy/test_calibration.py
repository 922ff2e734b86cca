"""What is calibrated is within the budget when accounted for, and not by much."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.errors import InputError
from dpadmm.privacy.accounting import best
from dpadmm.privacy.calibration import (
    Budget,
    classic_multiplier,
    gaussian_multiplier,
    noise_multipliers,
    smallest,
)
from dpadmm.privacy.events import GaussianDpEvent, Relation
from dpadmm.privacy.mechanisms import MECHANISMS

REPLACE = Relation.REPLACE


def test_numbers_of_the_audit() -> None:
    assert round(gaussian_multiplier(Budget(1.0, 1e-5), 100), 2) == 37.31
    assert round(gaussian_multiplier(Budget(20.0, 1e-5), 100), 2) == 2.90
    ratio = classic_multiplier(1.0, 1e-3) / gaussian_multiplier(Budget(1.0, 1e-3), 1)
    assert round(ratio, 2) == 1.47
    assert round(best({GaussianDpEvent(2.40): 100}, 1e-5, REPLACE).epsilon, 1) == 25.8


@given(
    epsilon=st.floats(1e-4, 100.0),
    log_delta=st.floats(-40.0, -1.0),
    releases=st.integers(1, 100_000),
)
def test_gaussian_round_trip(epsilon: float, log_delta: float, releases: int) -> None:
    budget = Budget(epsilon, math.exp(log_delta))
    z = gaussian_multiplier(budget, releases)
    assert best({GaussianDpEvent(z): releases}, budget.delta, REPLACE).epsilon <= epsilon
    assert best({GaussianDpEvent(z * (1 - 1e-6)): releases}, budget.delta, REPLACE).epsilon > epsilon


@pytest.mark.parametrize("name", ["laplace", "gamma-norm"])
@settings(max_examples=25, deadline=None)
@given(epsilon=st.floats(0.01, 20.0), delta=st.sampled_from([0.0, 1e-9, 1e-3]), releases=st.integers(1, 2000))
def test_pure_round_trip(name: str, epsilon: float, delta: float, releases: int) -> None:
    (z,) = noise_multipliers([Budget(epsilon, delta)], releases, name)
    event = MECHANISMS[name].event
    assert best({event(z): releases}, delta, REPLACE).epsilon <= epsilon
    assert best({event(z * (1 - 1e-6)): releases}, delta, REPLACE).epsilon > epsilon
    if delta == 0.0:
        assert z == pytest.approx(releases / epsilon, rel=1e-9)


@pytest.mark.parametrize("name", MECHANISMS)
def test_per_agent_budgets(name: str) -> None:
    loose, tight = Budget(2.0, 1e-5), Budget(0.5, 1e-6)
    found = noise_multipliers([loose, tight, loose], 50, name)
    assert found[0] == found[2] < found[1]
    for budget, z in zip([loose, tight], found, strict=False):
        (alone,) = noise_multipliers([budget], 50, name)
        assert alone == z
        cost = best({MECHANISMS[name].event(float(z)): 50}, budget.delta, REPLACE).epsilon
        assert budget.epsilon * (1 - 1e-6) < cost <= budget.epsilon


def test_smallest_finds_the_edge_from_the_safe_side() -> None:
    found = smallest(lambda noise: 3.0 / noise, 0.7)
    assert 3.0 / found <= 0.7
    assert found == pytest.approx(3.0 / 0.7, rel=1e-9)
    steps = smallest(lambda noise: float(np.ceil(10.0 / noise)), 2.0)
    assert steps == pytest.approx(5.0, rel=1e-9)
    assert steps >= 5.0
    assert smallest(lambda noise: 0.0, 1.0, low=0.5) == 0.5
    with pytest.raises(InputError, match="no noise level up to 10"):
        smallest(lambda noise: 1.0 / noise, 0.01, high=10.0)


@pytest.mark.parametrize(
    ("epsilon", "delta", "names"),
    [
        (0.0, 0.1, "epsilon.*0.0"),
        (-1.0, 0.1, "-1.0"),
        (math.inf, 0.1, "inf"),
        (math.nan, 0.1, "nan"),
        (1.0, 1.0, "delta.*1.0"),
        (1.0, -0.1, "-0.1"),
        (1.0, math.nan, "delta.*nan"),
    ],
)
def test_impossible_budgets_are_refused_by_value(epsilon: float, delta: float, names: str) -> None:
    with pytest.raises(InputError, match=names):
        Budget(epsilon, delta)


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(InputError, match="delta = 0"):
        gaussian_multiplier(Budget(1.0, 0.0), 1)
    with pytest.raises(InputError, match="at least one release"):
        gaussian_multiplier(Budget(1.0, 1e-5), 0)
    with pytest.raises(InputError, match="at least one release"):
        noise_multipliers([Budget(1.0, 1e-5)], 0, "laplace")
    with pytest.raises(InputError, match="did you mean 'gaussian'"):
        noise_multipliers([Budget(1.0, 1e-5)], 1, "gausian")
    with pytest.raises(InputError, match="classic"):
        classic_multiplier(1.0, 0.0)
