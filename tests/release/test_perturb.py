"""Integer noise of the right scale, for values of any kind, and nothing else that depends on them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from noise_checks import seeded

from dpadmm.errors import InputError
from dpadmm.privacy.mechanisms import GammaNorm, Gaussian, Laplace, Mechanism
from dpadmm.release import perturb
from dpadmm.release.noise import LARGEST_SCALE, SMALLEST_SCALE, discrete_gaussian, discrete_laplace
from dpadmm.release.perturb import SMOOTHING, add_noise, noise_scales, release_value, spacing

KINDS: list[type[Mechanism]] = [Gaussian, Laplace]
BOTH = pytest.mark.parametrize("kind", KINDS)
AWFUL = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 2.0**61, 1.0]


def made(kind: type[Mechanism], *multipliers: float) -> Mechanism:
    return kind(np.array(multipliers))


# Scales


def test_smoothing_is_that_of_eight_cells() -> None:
    assert SMOOTHING == 64.0


@given(multiplier=st.floats(1e-6, 1e6), sensitivity=st.floats(2.0**20, 2.0**31))
@settings(max_examples=500, deadline=None)
def test_the_scale_is_the_smallest_that_costs_no_more(multiplier: float, sensitivity: float) -> None:
    """s² >= (z Delta)² + 64, and t >= z Delta + 1/2, in exact arithmetic; one less would not do, but for 2^-40."""
    plain = Fraction(multiplier) * Fraction(sensitivity)
    if not SMALLEST_SCALE <= plain < LARGEST_SCALE - 2:
        return
    s = int(noise_scales(made(Gaussian, multiplier), sensitivity)[0])
    t = int(noise_scales(made(Laplace, multiplier), sensitivity)[0])
    more = 1 + Fraction(1, 2**40)
    assert s**2 >= plain**2 + 64 > Fraction((s - 1) ** 2) / more
    assert t >= plain + Fraction(1, 2) > Fraction(t - 1) / more


@pytest.mark.parametrize(
    ("multiplier", "sensitivity", "gaussian", "laplace"),
    [
        (1.0, 1024.0, 1025, 1025),
        (1.5, 1001.0, 1502, 1503),
        (2.0, 2.0**30, 2**31 + 1, 2**31 + 1),
        (1.0, 1031.2, 1032, 1032),
    ],
)
def test_some_scales(multiplier: float, sensitivity: float, gaussian: int, laplace: int) -> None:
    assert noise_scales(made(Gaussian, multiplier), sensitivity) == [gaussian]
    assert noise_scales(made(Laplace, multiplier), sensitivity) == [laplace]


@BOTH
@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_more_noise_is_never_less(kind: type[Mechanism], data: Any) -> None:
    multipliers = sorted(data.draw(st.lists(st.floats(0.01, 1e5), min_size=2, max_size=2)))
    sensitivities = sorted(data.draw(st.lists(st.floats(2.0**18, 2.0**31), min_size=2, max_size=2)))
    low, high = (
        int(noise_scales(made(kind, z), delta)[0]) for z, delta in zip(multipliers, sensitivities, strict=True)
    )
    assert low <= high


@BOTH
@pytest.mark.parametrize(
    ("multiplier", "sensitivity", "points"),
    [
        (1e-7, 2.0**30, "108"),
        (1.0, 1000.0, "1001|1000"),
        (1e9, 2.0**30, "1.0737"),
        (2.0**22, 2.0**30, "4.5036e"),
        (1e300, 1e300, "inf"),
        (1.0, 0.0, "9|1"),
        (1e-320, 1.0, "9|1"),
        (1.0, math.nan, "nan"),
        (1.0, math.inf, "inf"),
    ],
)
def test_noise_that_the_lattice_cannot_have_is_refused_by_public_numbers(
    kind: type[Mechanism], multiplier: float, sensitivity: float, points: str
) -> None:
    """A sensitivity that is zero or no number must not mean that there is no noise."""
    said = rf"noise multiplier {multiplier:g}: its noise would have ({points})\S* lattice points"
    with pytest.raises(InputError, match=said.replace("+", r"\+")):
        noise_scales(made(kind, multiplier), sensitivity)
    for counts in (np.zeros((1, 2), np.int64), np.full((1, 2), 2**60)):
        with pytest.raises(InputError, match=said.replace("+", r"\+")):
            add_noise(counts, made(kind, multiplier), sensitivity, seeded(1))


@BOTH
def test_the_ends_of_the_range(kind: type[Mechanism]) -> None:
    assert noise_scales(made(kind, 1.0), 1024.0)[0] >= SMALLEST_SCALE
    assert noise_scales(made(kind, 1.0), 2.0**52 - 10.0)[0] < LARGEST_SCALE
    first = 2.0**52 - (8.0 if kind is Gaussian else 5.0)  # whose scale is 2^52, which samplers do not have
    for sensitivity in (first, 2.0**52):
        with pytest.raises(InputError, match=r"4\.5036e\+15 lattice points"):
            noise_scales(made(kind, 1.0), sensitivity)
    assert noise_scales(made(kind, 1.0), first - 1.0) == [2**52 - 1]


@BOTH
@pytest.mark.parametrize("sensitivity", [2.0**30, 1.0, 0.0, math.nan, math.inf])
def test_only_a_multiplier_of_zero_is_no_noise(kind: type[Mechanism], sensitivity: float) -> None:
    assert noise_scales(made(kind, 0.0), sensitivity) == [0]
    counts = np.array([[3, -(2**62)]])
    np.testing.assert_array_equal(add_noise(counts, made(kind, 0.0), sensitivity, seeded(1)), counts)


def test_noise_without_a_discrete_form_is_refused() -> None:
    with pytest.raises(InputError, match="'gamma-norm' noise has no exact discrete form"):
        noise_scales(made(GammaNorm, 1.0), 2.0**30)


@BOTH
@pytest.mark.parametrize("multiplier", [math.nan, -1.0, math.inf])
def test_a_mechanism_has_no_other_multipliers(kind: type[Mechanism], multiplier: float) -> None:
    with pytest.raises(InputError, match="must be finite and >= 0"):
        made(kind, multiplier)


# Counts


@pytest.mark.parametrize(("kind", "draw"), [(Gaussian, discrete_gaussian), (Laplace, discrete_laplace)])
def test_noise_is_the_sampler_s_at_the_scale_of_each_agent(kind: type[Mechanism], draw: Any) -> None:
    mechanism, counts = made(kind, 1.0, 0.0, 2.5), np.arange(12).reshape(3, 4) - 2**61
    sensitivity = np.array([2.0**30, 2.0**29, 2.0**20])
    stream = seeded(5, rows=3)
    found = add_noise(counts, mechanism, sensitivity, stream)
    np.testing.assert_array_equal(found - counts, draw(noise_scales(mechanism, sensitivity), 4, stream))
    assert ((found - counts)[1] == 0).all()
    assert ((found - counts)[[0, 2]] != 0).all()


@BOTH
def test_noise_does_not_depend_on_what_it_is_added_to(kind: type[Mechanism]) -> None:
    mechanism, rng = made(kind, 1.0, 3.0), np.random.default_rng(0)
    one, other = (rng.integers(-(2**61), 2**61, (2, 50)) for _ in range(2))
    noisy = [add_noise(counts, mechanism, 2.0**30, seeded(7, rows=2)) for counts in (one, other)]
    np.testing.assert_array_equal(noisy[0] - one, noisy[1] - other)


# Values


@pytest.fixture
def silent_noise(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Values are put on their lattice, what is paid for is written down, and no noise is added."""
    calls: list[Any] = []

    def noted(counts: Any, mechanism: Any, sensitivity: Any, stream: Any) -> Any:
        calls.append((counts, np.array(sensitivity)))
        return counts

    monkeypatch.setattr(perturb, "add_noise", noted)
    return calls


def exact_norm(numbers: list[Fraction], norm: int) -> float:
    """Rounded up."""
    if norm == 1:
        total = sum(map(abs, numbers), Fraction(0))
        found = float(total)
        return found if Fraction(found) >= total else math.nextafter(found, math.inf)
    squares = sum((number**2 for number in numbers), Fraction(0))
    if squares < Fraction(1, 10**280):  # where floats have fewer digits
        return 0.0
    found = math.sqrt(float(squares))
    while Fraction(found) ** 2 < squares:
        found = math.nextafter(found, math.inf)
    return found


@BOTH
@given(data=st.data())
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_neighbours_are_never_farther_apart_on_the_lattice_than_is_paid_for(
    kind: type[Mechanism], silent_noise: list[Any], data: Any
) -> None:
    dimension = data.draw(st.integers(1, 6))
    size = 10.0 ** data.draw(st.integers(-12, 12))
    numbers = st.floats(-1.0, 1.0).map(lambda number: number * size)
    one = np.array([data.draw(st.lists(numbers, min_size=dimension, max_size=dimension))])
    move = data.draw(st.lists(numbers, min_size=dimension, max_size=dimension))
    other = one + np.array([move]) * 10.0 ** data.draw(st.integers(-12, 0))
    mechanism = made(kind, data.draw(st.sampled_from([0.05, 1.0, 30.0, 1e4])))
    apart = exact_norm(
        [Fraction(a) - Fraction(b) for a, b in zip(*one.tolist(), *other.tolist(), strict=True)], kind.norm
    )
    if apart < 1e-200:
        return
    silent_noise.clear()
    for value in (one, other):
        release_value(value, mechanism, np.array([apart]), seeded(1))
    (points, paid), (others, paid_too) = silent_noise
    assert paid == paid_too
    steps = [int(a) - int(b) for a, b in zip(points[0], others[0], strict=True)]
    if kind.norm == 1:
        assert sum(map(abs, steps)) <= Fraction(float(paid[0]))
    else:
        assert sum(step**2 for step in steps) <= Fraction(float(paid[0])) ** 2


@BOTH
@pytest.mark.parametrize("dimension", [1, 9])
def test_rounding_can_move_every_number_apart_and_is_paid_for(
    kind: type[Mechanism], dimension: int, silent_noise: list[Any]
) -> None:
    mechanism, sensitivity = made(kind, 1.0), np.array([1e-12])
    cell = float(spacing(mechanism, sensitivity, dimension)[0])
    for value in (0.5 * cell, 0.5 * cell * (1.0 + 2.0**-50)):
        release_value(np.full((1, dimension), value), mechanism, sensitivity, seeded(1))
    (points, paid), (others, _) = silent_noise
    assert (np.abs(points - others) == 1).all()
    rounding = dimension if kind.norm == 1 else math.sqrt(dimension)
    assert paid[0] == 1e-12 / cell + rounding


@BOTH
@pytest.mark.parametrize("dimension", [1, 100, 10**6])
@pytest.mark.parametrize("multiplier", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("sensitivity", [1e-200, 1e-9, 1.0, 3.3, 1e200])
def test_a_lattice_is_a_power_of_two_and_small_beside_the_noise(
    kind: type[Mechanism], dimension: int, multiplier: float, sensitivity: float
) -> None:
    mechanism = made(kind, multiplier)
    cell = float(spacing(mechanism, np.array([sensitivity]), dimension)[0])
    assert math.frexp(cell)[0] == 0.5
    assert multiplier * sensitivity / cell >= 2.0**30
    rounding = dimension if kind.norm == 1 else math.sqrt(dimension)
    if dimension < 10**6:
        scale = int(noise_scales(mechanism, sensitivity / cell + rounding)[0])
        assert scale * cell <= 1.04 * multiplier * sensitivity


@BOTH
@pytest.mark.parametrize("number", AWFUL, ids=str)
def test_a_value_of_any_kind_comes_back_as_a_number_with_noise(kind: type[Mechanism], number: float) -> None:
    mechanism, sensitivity = made(kind, 1.0), np.array([1.0])
    value = np.array([[number, 0.25]])
    found = [release_value(value, mechanism, sensitivity, seeded(seed))[0] for seed in (1, 2)]
    assert np.isfinite(found).all()
    calm = release_value(np.array([[0.0, 0.25]]), mechanism, sensitivity, seeded(1))[0]
    assert calm[1] == found[0][1]  # what is beside it does not matter
    assert found[0][0] != found[1][0] or abs(number) > 2.0**53
    cell = float(spacing(mechanism, sensitivity, 2)[0])
    if not abs(number) < 2.0**60 * cell:
        far = 0.0 if math.isnan(number) else math.copysign(2.0**61, number) * cell
        assert found[0][0] == pytest.approx(far + calm[0], rel=1e-12)


@BOTH
@given(value=st.floats(), other=st.floats())
@settings(max_examples=300, deadline=None)
def test_cutting_brings_no_two_numbers_farther_apart(kind: type[Mechanism], value: float, other: float) -> None:
    if math.isnan(value) or math.isnan(other):
        return
    mechanism, sensitivity = made(kind, 1.0), np.array([1.0])
    cell = float(spacing(mechanism, sensitivity, 1)[0])
    one, two = (release_value(np.array([[each]]), mechanism, sensitivity, seeded(3))[0, 0] for each in (value, other))
    assert (
        abs(Fraction(one) - Fraction(two))
        <= abs(Fraction(min(max(value, -1e300), 1e300)) - Fraction(min(max(other, -1e300), 1e300)))
        * (1 + Fraction(1, 2**40))
        + Fraction(cell) * 1024
    )


@BOTH
def test_without_noise_a_value_comes_back_bit_for_bit(kind: type[Mechanism]) -> None:
    value = np.array([AWFUL, AWFUL[::-1]])
    found = release_value(value, made(kind, 0.0, 0.0), np.array([1.0, math.nan]), seeded(1, rows=2))
    assert found.tobytes() == value.tobytes()
    mixed = release_value(value, made(kind, 0.0, 1.0), np.array([1.0, 1.0]), seeded(1, rows=2))
    assert mixed[0].tobytes() == value[0].tobytes()
    assert (mixed[1] != value[1]).all()


@BOTH
def test_a_row_is_released_alike_in_any_batch(kind: type[Mechanism]) -> None:
    rng = np.random.default_rng(2)
    value, multipliers, sensitivity = (
        rng.normal(size=(4, 3)),
        np.array([1.0, 0.0, 2.0, 0.3]),
        np.array([1.0, 2, 3, 1e-9]),
    )
    together = release_value(value, kind(multipliers), sensitivity, seeded(8, rows=4))
    for row in range(4):
        some = np.array([row])
        alone = release_value(value[some], kind(multipliers[some]), sensitivity[some], seeded(8, rows=4).take(some))
        np.testing.assert_array_equal(alone[0], together[row])


@BOTH
@pytest.mark.parametrize("sensitivity", [0.0, math.nan, math.inf])
def test_a_value_whose_sensitivity_is_no_number_is_not_released(kind: type[Mechanism], sensitivity: float) -> None:
    """Zero is fine: what does not depend on records costs rounding alone, and that has too few points for noise."""
    with np.errstate(invalid="ignore"), pytest.raises(InputError, match="lattice points"):
        release_value(np.ones((1, 2)), made(kind, 1.0), np.array([sensitivity]), seeded(1))
