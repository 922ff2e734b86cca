"""Bases: orthonormal at every size, rough as their second derivatives say, and by name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.datasets.curves import BASES, BSpline, Cosine, Fourier, Legendre, parse
from dpadmm.errors import InputError

kinds = st.sampled_from(sorted(BASES))
T = np.array([0.0, 0.1, 0.5, 0.77, 1.0])


def make(name, size):
    return BASES[name](max(size, BASES[name].smallest))


def quadrature(pieces):
    """The midpoint rule, refined: written without the library's."""
    fine = 200 * pieces
    return (np.arange(fine) + 0.5) / fine


@settings(max_examples=60, deadline=None)
@given(kinds, st.integers(1, 200))
def test_orthonormal(name, size):
    basis = make(name, size)
    np.testing.assert_allclose(basis.gram(), np.eye(basis.size), atol=1e-10)


@pytest.mark.parametrize("name", BASES)
def test_orthonormal_by_another_quadrature(name):
    basis = make(name, 7)
    values = basis.values(quadrature(20))
    np.testing.assert_allclose(values.T @ values / len(values), np.eye(7), atol=1e-4)


@pytest.mark.parametrize("size", [4, 5, 8, 11])
@pytest.mark.parametrize("name", BASES)
def test_roughness_is_that_of_finite_differences(name, size):
    basis = make(name, size)
    step = 1e-4
    middle = quadrature(size)
    t = middle[(middle > step) & (middle < 1 - step)]
    assert len(t) == len(middle)
    bends = (basis.values(t + step) - 2 * basis.values(t) + basis.values(t - step)) / step**2
    expected = bends.T @ bends / len(t)
    np.testing.assert_allclose(basis.roughness(), expected, atol=2e-4 * np.abs(expected).max())


def test_values_by_hand():
    root = np.sqrt(2)
    expected = [np.ones(5), root * np.cos(np.pi * T), root * np.cos(2 * np.pi * T)]
    np.testing.assert_allclose(Cosine(3).values(T), np.transpose(expected), atol=1e-14)
    waves = [np.ones(5), *(root * f(2 * np.pi * k * T) for k in (1, 2) for f in (np.sin, np.cos))]
    np.testing.assert_allclose(Fourier(5).values(T), np.transpose(waves), atol=1e-14)
    np.testing.assert_allclose(Fourier(4).values(T), np.transpose(waves[:4]), atol=1e-14)
    powers = [np.ones(5), np.sqrt(3) * (2 * T - 1), np.sqrt(5) * (6 * T**2 - 6 * T + 1)]
    np.testing.assert_allclose(Legendre(3).values(T), np.transpose(powers), atol=1e-14)


@pytest.mark.parametrize("size", [4, 9])
def test_splines_span_cubics_and_each_keeps_a_place_of_its_own(size):
    basis = BSpline(size)
    cubics = T[:, None] ** np.arange(4)
    t = np.linspace(0, 1, 50)
    weights = np.linalg.lstsq(basis.values(t), t[:, None] ** np.arange(4))[0]
    np.testing.assert_allclose(basis.values(T) @ weights, cubics, atol=1e-10)
    peaks = np.argmax(np.abs(BSpline(12).values(np.linspace(0, 1, 400))), axis=0)
    assert (np.diff(peaks) > 0).all()


def test_splines_have_kinks_in_the_third_derivative_at_equal_steps_only():
    """Seven functions have knots at quarters: between these a cubic fits, across them it does not."""
    for low, high, fits in ((0.25, 0.5, True), (0.5, 0.75, True), (0.3, 0.6, False)):
        t = np.linspace(low, high, 30)
        values = BSpline(7).values(t)
        cubics = (t[:, None] - low) ** np.arange(4)
        rest = values - cubics @ np.linalg.lstsq(cubics, values)[0]
        assert (np.abs(rest).max() < 1e-10) == fits


@pytest.mark.parametrize("name", BASES)
def test_names(name):
    basis = parse(f"{name}:12")
    assert basis == BASES[name](12)
    assert basis.text == f"{name}:12"
    assert basis.feature_names[::11] == (f"{name} 1", f"{name} 12")
    assert parse(basis) is basis
    assert basis.about
    assert BASES[name](np.int64(12)).text == basis.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cosin:10", "unknown basis 'cosin'; did you mean 'cosine'"),
        ("cosine", "how many functions"),
        ("cosine:", "how many functions"),
        ("cosine:ten", "how many functions"),
        ("cosine:2.5", "whole number"),
        ("cosine:10:3", "how many functions"),
        ("cosine:0", "whole number from 1 to 200"),
        ("fourier:-3", "whole number from 1 to 200"),
        ("legendre:201", "whole number from 1 to 200"),
        ("bspline:3", "whole number from 4 to 200"),
    ],
)
def test_what_is_no_basis(text, message):
    with pytest.raises(InputError, match=message):
        parse(text)


@pytest.mark.parametrize("size", [2.5, 10.0, "10", None])
def test_sizes_that_are_not_whole(size):
    with pytest.raises(InputError, match="whole number"):
        Cosine(size)


@pytest.mark.parametrize("t", [[-0.01], [1.01], [np.nan], [[0.5]], 0.5])
@pytest.mark.parametrize("name", BASES)
def test_only_times_between_0_and_1(name, t):
    with pytest.raises(InputError, match=r"in \[0, 1\]"):
        make(name, 5).values(t)
