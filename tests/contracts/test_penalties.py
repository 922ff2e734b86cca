"""What every penalty must keep: gradients, proximal maps and constants; and convexity where it is claimed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm._registry import build
from dpadmm.errors import InputError
from dpadmm.problems.penalties import L1, PENALTIES, ElasticNet, Mcp, Penalty, RoundedElasticNet, Scad

WIDTH = 6


OTHERS = [
    "elastic-net:0",
    "elastic-net:0.2",
    "elastic-net:1",
    "mcp:0.7",
    "mcp:20",
    "scad:0.3:0.5",
    "scad:2:9",
    "scad:0:3",
]
ROUNDED = {f"{kind}, rounded by {width}": (kind, width) for kind in ("l1", "elastic-net:0.2") for width in (0.5, 1e-3)}


def made(name: str) -> Penalty:
    if name not in ROUNDED:
        return build("penalty", PENALTIES, name)
    kind, width = ROUNDED[name]
    return build("penalty", PENALTIES, kind).rounded(width)


@pytest.fixture(scope="module", params=[*PENALTIES, *OTHERS, *ROUNDED])
def penalty(request: pytest.FixtureRequest) -> Penalty:
    """Every penalty as it comes, some with other parameters, and some with their kinks rounded."""
    return made(request.param)


@pytest.fixture(scope="module", params=[name for name in [*PENALTIES, *OTHERS, *ROUNDED] if made(name).convex])
def convex(request: pytest.FixtureRequest) -> Penalty:
    """Those of them that are convex."""
    return made(request.param)


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


def corners(penalty: Penalty) -> list[float]:
    """Sizes at which some derivative jumps."""
    return [0.0, *(getattr(penalty, name) for name in ("knee", "reach", "width") if hasattr(penalty, name))]


def smooth_points(penalty: Penalty, rng: np.random.Generator, count: int) -> Any:
    """Models of all sizes and around every corner, but no closer than a thousandth of the smallest."""
    sizes = np.array(corners(penalty))
    scale = min([1.0, *sizes[sizes > 0.0]])
    x = rng.choice([scale, *sizes], (count, WIDTH)) * rng.uniform(0.1, 3.0, (count, WIDTH))
    for size in sizes:
        x = np.where(np.abs(x - size) < 1e-3 * scale, size + 2e-3 * scale, x)
    return x * rng.choice([-1.0, 1.0], x.shape), 1e-4 * scale


def test_value_is_convex_along_segments_if_the_penalty_says_so(penalty: Penalty, rng: np.random.Generator) -> None:
    x, y, share = points(rng, 2000), points(rng, 2000), rng.random(2000)
    share[::2] = 0.5
    between = penalty.value(share[:, None] * x + (1.0 - share[:, None]) * y)
    chord = share * penalty.value(x) + (1.0 - share) * penalty.value(y)
    assert (between <= chord + 1e-12 * (1.0 + np.abs(chord))).all() == penalty.convex
    if not penalty.convex:
        assert (between > chord + 1e-3).any()


def test_value_is_zero_at_zero_and_grows_with_every_size(penalty: Penalty, rng: np.random.Generator) -> None:
    above = penalty.ratio * 0.375 * WIDTH * penalty.width if isinstance(penalty, RoundedElasticNet) else 0.0
    np.testing.assert_allclose(penalty.value(np.zeros((3, WIDTH))), above, rtol=1e-15)
    x = points(rng, 500)
    assert (penalty.value(x) >= penalty.value(x * rng.random(x.shape)) - 1e-15).all()
    np.testing.assert_array_equal(penalty.value(x), penalty.value(-x))
    assert penalty.value(x[0]).shape == ()
    assert penalty.value(x.reshape(5, 100, WIDTH)).shape == (5, 100)


def test_gradient_is_a_subgradient_also_at_kinks(convex: Penalty, rng: np.random.Generator) -> None:
    x, y = points(rng, 5000), points(rng, 5000)
    assert (excess(convex, x, y) >= -1e-9 * (1.0 + np.abs(convex.value(y)))).all()


def test_gradient_is_zero_where_a_coefficient_is_zero(penalty: Penalty, rng: np.random.Generator) -> None:
    x = points(rng, 100)
    assert (x == 0.0).any()
    assert (penalty.gradient(x)[x == 0.0] == 0.0).all()


def test_gradient_is_the_derivative_of_the_value_away_from_kinks(penalty: Penalty, rng: np.random.Generator) -> None:
    x, move = smooth_points(penalty, rng, 50)
    moves = move * np.eye(WIDTH)
    numeric = (penalty.value(x[:, None] + moves) - penalty.value(x[:, None] - moves)) / (2.0 * move)
    np.testing.assert_allclose(penalty.gradient(x), numeric, atol=1e-7)
    np.testing.assert_array_equal(penalty.gradient(-x), -penalty.gradient(x))


def test_curvatures_are_the_derivative_of_the_gradient_away_from_kinks(
    penalty: Penalty, rng: np.random.Generator
) -> None:
    x, move = smooth_points(penalty, rng, 50)
    numeric = (penalty.gradient(x + move) - penalty.gradient(x - move)) / (2.0 * move)
    np.testing.assert_allclose(penalty.curvatures(x), numeric, rtol=1e-6, atol=1e-8)
    x = points(rng, 100)
    assert penalty.curvatures(x).shape == x.shape
    assert (penalty.curvatures(x) >= 0.0).all() == penalty.convex
    if penalty.curvature is not None:
        assert penalty.curvatures(x).max() <= penalty.curvature


@settings(derandomize=True, max_examples=100, deadline=None)
@given(start=st.floats(-30.0, 30.0), step=st.floats(1e-3, 50.0))
def test_no_point_of_a_fine_grid_beats_the_prox(penalty: Penalty, start: float, step: float) -> None:
    """Of all sizes and around every corner; so it is the global minimiser also where there are local ones."""

    def cost(u: Any) -> Any:
        return step * penalty.value(u[:, None]) + 0.5 * (u - start) ** 2

    found = penalty.prox(np.array([[start]]), step)[0]
    sizes = [*corners(penalty), abs(start), abs(start) - step, abs(found[0])]
    near = np.outer(sizes, 1.0 + np.linspace(-0.01, 0.01, 201)).ravel()
    grid = np.concatenate([np.linspace(-40.0, 40.0, 20_001), near, -near, 10.0 ** np.linspace(-9.0, 1.0, 500)])
    assert cost(found)[0] <= cost(grid).min() + 4e-16 * step + 1e-15 * start**2
    assert abs(found[0]) <= abs(start)
    assert found[0] * start >= 0.0


def test_prox_solves_the_condition_of_optimality(penalty: Penalty, rng: np.random.Generator) -> None:
    x, steps = 3.0 * points(rng, 2000), 10.0 ** rng.uniform(-3.0, 2.0, (2000, 1))
    u = penalty.prox(x, steps)
    kink = (u == 0.0) & (penalty.curvature is None)
    left = np.abs(x - u - steps * penalty.gradient(u))
    assert (left <= 1e-13 * (np.abs(x) + steps))[~kink].all()
    if penalty.convex:  # else zero may win from farther away
        assert (np.abs(x) <= steps * penalty.gradient(np.full(1, 1e-300)))[kink].all()


def test_prox_is_firmly_non_expansive(convex: Penalty, rng: np.random.Generator) -> None:
    x, y, step = points(rng, 2000), points(rng, 2000), 10.0 ** rng.uniform(-2.0, 2.0, (2000, 1))
    gap, moved = x - y, convex.prox(x, step) - convex.prox(y, step)
    assert ((moved * moved).sum(axis=1) <= (gap * moved).sum(axis=1) * (1.0 + 1e-12) + 1e-12).all()


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
        ends = np.sign(rng.normal(size=(50, WIDTH))) * radius / np.sqrt(WIDTH)
        longest = np.linalg.norm(penalty.gradient(np.vstack([x, ends, 1e-6 * ends])), axis=1).max()
        assert longest <= bound * (1.0 + 1e-12)
        assert longest >= 0.9999 * bound or (isinstance(penalty, RoundedElasticNet) and penalty.width > 0.1 * radius)


def test_curvature_is_the_gradients_steepest_rise_or_none_where_it_jumps(
    penalty: Penalty, rng: np.random.Generator
) -> None:
    x = points(rng, 3000)
    y = np.vstack([points(rng, 1500), -1e-6 * np.sign(x[1500:])])  # on both sides of zero
    x[1500:] = -y[1500:]
    x, y = (side[np.linalg.norm(x - y, axis=1) > 0] for side in (x, y))
    rises = np.linalg.norm(penalty.gradient(x) - penalty.gradient(y), axis=1) / np.linalg.norm(x - y, axis=1)
    if penalty.curvature is None:
        assert rises.max() > 1e3
    else:
        assert 0.99 * penalty.curvature <= rises.max() <= penalty.curvature * (1.0 + 1e-9)


def test_strong_convexity_holds_everywhere_and_is_tight(convex: Penalty, rng: np.random.Generator) -> None:
    mu = convex.strong_convexity
    x, y = points(rng, 3000), points(rng, 3000)
    y[1500:] = x[1500:] * rng.uniform(0.5, 2.0, (1500, 1))  # the same signs: no kink in between
    apart = 0.5 * ((y - x) ** 2).sum(axis=1)
    far = apart > 1e-3
    assert (excess(convex, x, y) >= mu * apart - 1e-9 * (1.0 + convex.value(y))).all()
    assert (excess(convex, x, y)[far] / apart[far]).min() <= mu + 1e-6


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
    with pytest.raises(InputError, match=r"ratio = .* must be a number from 0 to 1"):
        build("penalty", PENALTIES, text)


def test_those_that_are_not_convex_claim_no_strong_convexity(penalty: Penalty) -> None:
    assert penalty.convex or penalty.strong_convexity == 0.0
    assert penalty.convex == (not isinstance(penalty, Mcp | Scad))


WIDTHS = (1.0, 0.1, 1e-3, 1e-9)


@pytest.mark.parametrize("width", WIDTHS)
def test_rounded_is_never_below_nor_far_above_and_equal_beyond_the_width(
    convex: Penalty, width: float, rng: np.random.Generator
) -> None:
    soft = convex.rounded(width)
    x = np.vstack([points(rng, 1000), width * rng.uniform(-1.5, 1.5, (1000, WIDTH))])
    above = soft.value(x) - convex.value(x)
    if convex.curvature is not None:
        assert soft is convex
        return
    assert isinstance(soft, RoundedElasticNet)
    assert soft.rounded(5.0) is soft
    rough = 1e-15 * (1.0 + convex.value(x))
    assert (above >= -rough).all()
    assert (above <= soft.ratio * 0.375 * width * WIDTH + rough).all()
    assert soft.value(np.zeros(1)) == pytest.approx(soft.ratio * 0.375 * width, rel=1e-12)
    beyond = np.where(np.abs(x) < width, width, x)
    for what in ("value", "gradient"):
        np.testing.assert_allclose(getattr(soft, what)(beyond), getattr(convex, what)(beyond), rtol=1e-14)
    np.testing.assert_array_equal(soft.curvatures(beyond), convex.curvatures(beyond))
    assert soft.strong_convexity == convex.strong_convexity
    assert soft.curvature == pytest.approx(soft.ratio * 1.5 / width + 1.0 - soft.ratio)


@pytest.mark.parametrize("width", WIDTHS)
def test_rounded_is_twice_continuously_differentiable(convex: Penalty, width: float, rng: np.random.Generator) -> None:
    """The second derivative changes by no more than its slope allows: it has no jump, at zero or at the width."""
    soft = convex.rounded(width)
    width = getattr(soft, "width", width)
    x = width * np.concatenate([np.linspace(-1.2, 1.2, 10_001), rng.uniform(-3.0, 3.0, 3000)])
    x = np.sort(np.concatenate([x, [-width, width, 0.0]]))[:, None]
    assert soft.curvature is not None
    steepest = 2.0 * soft.curvature / width  # 3 ratio/h² times the ratio is its slope
    assert (np.abs(np.diff(soft.curvatures(x)[:, 0])) <= steepest * np.diff(x[:, 0]) + 1e-12 * soft.curvature).all()
    rise = np.diff(soft.gradient(x)[:, 0])
    assert (rise <= soft.curvature * np.diff(x[:, 0]) * (1.0 + 1e-9) + 1e-15).all()
    assert (rise >= soft.strong_convexity * np.diff(x[:, 0]) - 1e-15).all()


def test_the_slack_of_a_rounded_penalty_is_what_its_gradient_misses(rng: np.random.Generator) -> None:
    """R(y) >= R(x) + <gradient of the rounded one at x, y - x> + strong convexity - slack(x), with equality at zero."""
    for ratio, width in ((1.0, 0.5), (0.3, 2.0), (0.5, 1e-6)):
        soft, sharp = RoundedElasticNet(ratio, width), ElasticNet(ratio)
        x = np.vstack([points(rng, 1000), width * rng.uniform(-1.5, 1.5, (1000, WIDTH))])
        slope, slack = soft.gradient(x) - (1.0 - ratio) * x, soft.slack(x)
        missed = (ratio * np.abs(x) - slope * x).sum(axis=1)
        assert (np.abs(slack - missed) <= 1e-12 * slack + 1e-14 * (1.0 + (x * x).sum(axis=1))).all()
        assert (slack >= 0.0).all()
        np.testing.assert_array_equal(slack > 0.0, ((np.abs(x) < width) & (x != 0.0)).any(axis=1))
        assert (soft.slack(np.where(np.abs(x) < width, width, x)) == 0.0).all()
        assert (slack <= ratio * soft.width * WIDTH * 0.27).all()
        for y in (points(rng, 2000), np.zeros_like(x), width * rng.uniform(-1.0, 1.0, x.shape)):
            plane = sharp.value(x) + (soft.gradient(x) * (y - x)).sum(axis=1)
            apart = 0.5 * soft.strong_convexity * ((y - x) ** 2).sum(axis=1)
            missed = sharp.value(y) - plane - apart + slack
            assert (missed >= -1e-11 * (1.0 + sharp.value(x) + sharp.value(y))).all()
            assert y.any() or np.abs(missed).max() <= 1e-11 * sharp.value(x).max()
    # Next to the width nothing cancels.
    edge = np.array([[1.0 - 1e-9]])
    assert RoundedElasticNet(1.0, 1.0).slack(edge)[0] == pytest.approx(1.5e-18, rel=1e-6, abs=0.0)


def test_those_that_are_not_convex_cannot_be_rounded() -> None:
    for name in ("mcp", "scad"):
        with pytest.raises(InputError, match=f"'{name}' is not convex, and an exact solver needs a convex penalty"):
            PENALTIES[name]().rounded(0.1)


def test_mcp_and_scad_are_those_of_the_papers() -> None:
    """Zhang's and Fan & Li's formulas, with lambda and gamma, or a."""
    x, weight = np.linspace(-9.0, 9.0, 721)[:, None], 0.6
    size = np.abs(x[:, 0])
    for gamma in (1.5, 3.0):
        zhang = np.where(size <= gamma * weight, weight * size - size**2 / (2 * gamma), gamma * weight**2 / 2)
        np.testing.assert_allclose(weight * Mcp(gamma * weight).value(x), zhang, atol=1e-14)
    a = 3.7
    middle = (2 * a * weight * size - size**2 - weight**2) / (2 * (a - 1))
    fan = np.where(size <= weight, weight * size, np.where(size <= a * weight, middle, weight**2 * (a + 1) / 2))
    np.testing.assert_allclose(weight * Scad(weight, a * weight).value(x), fan, atol=1e-14)
    np.testing.assert_array_equal(Mcp(3.0).value(x), Scad(0.0, 3.0).value(x))
    assert (Mcp(), Scad()) == (Mcp(3.0), Scad(1.0, 3.7))


def test_prox_of_mcp_and_scad_are_the_thresholds_of_the_papers() -> None:
    x = np.linspace(-6.0, 6.0, 481)[:, None]
    size, sign = np.abs(x), np.sign(x)
    firm = np.where(size <= 1.0, 0.0, np.where(size <= 3.0, sign * (size - 1.0) * 1.5, x))
    np.testing.assert_allclose(Mcp(3.0).prox(x, 1.0), firm, atol=1e-14)
    middle = (2.7 * x - sign * 3.7) / 1.7
    scad = np.where(size <= 2.0, sign * np.maximum(size - 1.0, 0.0), np.where(size <= 3.7, middle, x))
    np.testing.assert_allclose(Scad(1.0, 3.7).prox(x, 1.0), scad, atol=1e-14)
    # A step beyond the reach makes it a hard threshold; at a tie, zero.
    edge = np.array([[2.0, np.nextafter(2.0, 3.0), -2.0, -2.1]])
    assert Mcp(1.0).prox(edge, 4.0).tolist() == [[0.0, edge[0, 1], 0.0, -2.1]]
    assert Mcp(2.0).prox(np.array([[2.0]]), 2.0).tolist() == [[0.0]]
    # SCAD ties at (knee + reach + step)/2, between |x| - step and |x|.
    assert Scad(1.0, 2.0).prox(np.array([[2.25, 2.26, -2.25]]), 1.5).tolist() == [[0.75, 2.26, -0.75]]
    assert Scad(1.0, 2.0).prox(np.array([[6.0, 6.01]]), 12.0).tolist() == [[0.0, 6.01]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mcp:0", "'mcp': reach = 0.0 must be a number from 1e-09"),
        ("mcp:-1", "reach = -1.0 must be"),
        ("mcp:inf", "reach = inf must be"),
        ("mcp:nan", "reach = nan must be"),
        ("mcp:1:2", "does not take 2 number"),
        ("scad:1:1", "'scad': knee = 1.0 must be below the reach, 1.0"),
        ("scad:-1:1", "knee = -1.0 must be"),
        ("scad:nan:1", "knee = nan must be"),
        ("scad:4", "knee = 4.0 must be below the reach, 3.7"),
        ("scad:1:inf", "reach = inf must be"),
    ],
)
def test_a_reach_or_knee_that_makes_no_sense_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build("penalty", PENALTIES, text)


@pytest.mark.parametrize("width", [0.0, -1.0, float("nan"), float("inf")])
def test_a_width_that_is_not_positive_is_refused(width: float) -> None:
    with pytest.raises(InputError, match=f"width = {width} must be a number from 1e-12"):
        L1().rounded(width)
    with pytest.raises(InputError, match=r"ratio = 1.5 must be a number from 0 to 1"):
        RoundedElasticNet(1.5, 1.0)
