"""What every penalty of the registry must keep: convexity, subgradients, proximal maps and constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from dpadmm.errors import InputError
from dpadmm.problems.naming import build
from dpadmm.problems.penalties import L1, PENALTIES, ElasticNet, Penalty

WIDTH = 6


@pytest.fixture(scope="module", params=[*PENALTIES, "elastic-net:0", "elastic-net:0.2", "elastic-net:1"])
def penalty(request: pytest.FixtureRequest) -> Penalty:
    """Every penalty as it comes, and some with other parameters."""
    return build("penalty", PENALTIES, request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def points(rng: np.random.Generator, count: int) -> Any:
    """Models of every size, a third of their coefficients exactly zero."""
    x = rng.normal(size=(count, WIDTH)) * 10.0 ** rng.uniform(-2.0, 2.0, (count, 1))
    return x * (rng.random(x.shape) < 0.67)


def excess(penalty: Penalty, x: Any, y: Any) -> Any:
    """How far R(y) lies above the plane through x."""
    return penalty.value(y) - penalty.value(x) - (penalty.gradient(x) * (y - x)).sum(axis=1)


def test_value_is_convex_along_segments(penalty: Penalty, rng: np.random.Generator) -> None:
    x, y, share = points(rng, 2000), points(rng, 2000), rng.random(2000)
    between = penalty.value(share[:, None] * x + (1.0 - share[:, None]) * y)
    chord = share * penalty.value(x) + (1.0 - share) * penalty.value(y)
    assert (between <= chord + 1e-12 * (1.0 + np.abs(chord))).all()


def test_value_is_zero_at_zero_and_nowhere_negative(penalty: Penalty, rng: np.random.Generator) -> None:
    assert penalty.value(np.zeros((3, WIDTH))).tolist() == [0.0, 0.0, 0.0]
    assert (penalty.value(points(rng, 500)) >= 0.0).all()


def test_gradient_is_a_subgradient_also_at_kinks(penalty: Penalty, rng: np.random.Generator) -> None:
    x, y = points(rng, 5000), points(rng, 5000)
    assert (excess(penalty, x, y) >= -1e-9 * (1.0 + np.abs(penalty.value(y)))).all()


def test_gradient_is_zero_where_a_coefficient_is_zero(penalty: Penalty, rng: np.random.Generator) -> None:
    x = points(rng, 100)
    assert (x == 0.0).any()
    assert (penalty.gradient(x)[x == 0.0] == 0.0).all()


def test_gradient_is_the_derivative_of_the_value_away_from_kinks(penalty: Penalty, rng: np.random.Generator) -> None:
    x = rng.uniform(0.1, 3.0, (50, WIDTH)) * rng.choice([-1.0, 1.0], (50, WIDTH))
    moves = 1e-5 * np.eye(WIDTH)
    numeric = (penalty.value(x[:, None] + moves) - penalty.value(x[:, None] - moves)) / 2e-5
    np.testing.assert_allclose(penalty.gradient(x), numeric, atol=1e-8)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(start=st.floats(-5.0, 5.0), step=st.floats(1e-3, 20.0))
def test_prox_is_what_a_numeric_minimiser_finds(penalty: Penalty, start: float, step: float) -> None:
    found = minimize_scalar(
        lambda u: step * penalty.value(np.array([[u]]))[0] + 0.5 * (u - start) ** 2,
        bounds=(-6.0, 6.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert penalty.prox(np.array([[start]]), step)[0, 0] == pytest.approx(found.x, abs=1e-6)


def test_prox_takes_every_coefficient_for_itself_and_a_step_for_each_row(
    penalty: Penalty, rng: np.random.Generator
) -> None:
    x, steps = points(rng, 20), rng.uniform(0.1, 3.0, (20, 1))
    alone = [[penalty.prox(np.array([[x[i, j]]]), steps[i, 0])[0, 0] for j in range(WIDTH)] for i in range(20)]
    np.testing.assert_array_equal(penalty.prox(x, steps), alone)


def test_no_subgradient_in_a_ball_exceeds_the_bound_and_one_reaches_it(
    penalty: Penalty, rng: np.random.Generator
) -> None:
    for radius in (0.1, 1.0, 7.0):
        bound = penalty.gradient_bound(WIDTH, radius)
        x = points(rng, 3000)
        x *= radius * rng.random((3000, 1)) / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)
        corners = np.sign(rng.normal(size=(50, WIDTH))) * radius / np.sqrt(WIDTH)
        longest = np.linalg.norm(penalty.gradient(np.vstack([x, corners])), axis=1).max()
        assert 0.99 * bound <= longest <= bound * (1.0 + 1e-12)


def test_curvature_is_the_gradients_steepest_rise_or_none_where_it_jumps(
    penalty: Penalty, rng: np.random.Generator
) -> None:
    x = points(rng, 3000)
    y = np.vstack([points(rng, 1500), -1e-6 * np.sign(x[1500:])])
    x[1500:] = -y[1500:]
    x, y = (side[np.linalg.norm(x - y, axis=1) > 0] for side in (x, y))
    rises = np.linalg.norm(penalty.gradient(x) - penalty.gradient(y), axis=1) / np.linalg.norm(x - y, axis=1)
    if penalty.curvature is None:
        assert rises.max() > 1e3
    else:
        assert 0.99 * penalty.curvature <= rises.max() <= penalty.curvature * (1.0 + 1e-9)


def test_strong_convexity_holds_everywhere_and_is_tight(penalty: Penalty, rng: np.random.Generator) -> None:
    mu = penalty.strong_convexity
    x, y = points(rng, 3000), points(rng, 3000)
    y[1500:] = x[1500:] * rng.uniform(0.5, 2.0, (1500, 1))  # the same signs: no kink in between
    apart = 0.5 * ((y - x) ** 2).sum(axis=1)
    far = apart > 1e-3
    assert (excess(penalty, x, y) >= mu * apart - 1e-9 * (1.0 + penalty.value(y))).all()
    assert (excess(penalty, x, y)[far] / apart[far]).min() <= mu + 1e-6


def test_l1_and_l2_are_what_their_names_say() -> None:
    x = np.array([[3.0, -4.0, 0.0]])
    assert build("penalty", PENALTIES, "l1").value(x)[0] == 7.0
    assert build("penalty", PENALTIES, "l2").value(x)[0] == 12.5
    assert build("penalty", PENALTIES, "elastic-net:0.25").value(x)[0] == 0.25 * 7.0 + 0.75 * 12.5
    assert build("penalty", PENALTIES, "none").value(x)[0] == 0.0
    assert isinstance(L1(), ElasticNet)


@pytest.mark.parametrize("text", ["l1:0.01", "l2:0.01", "none:1"])
def test_a_penalty_without_parameters_refuses_a_number_that_could_be_meant_as_its_strength(text: str) -> None:
    with pytest.raises(InputError, match="does not take 1 number"):
        build("penalty", PENALTIES, text)


@pytest.mark.parametrize("text", ["elastic-net:-0.1", "elastic-net:1.5", "elastic-net:nan"])
def test_a_ratio_outside_zero_to_one_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"ratio .* must lie in \[0, 1\]"):
        build("penalty", PENALTIES, text)
