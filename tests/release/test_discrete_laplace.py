"""The discrete Laplace distribution: exactly its probabilities. What it shares with the Gaussian is tested there."""

from __future__ import annotations

import numpy as np
import opendp.prelude as opendp
import pytest
from noise_checks import low_byte_p_value, mass_p_value, quantile_p_value, seeded, two_sample_p_value
from scipy.stats import laplace

from dpadmm.release import noise
from dpadmm.release.noise import discrete_laplace


def drawn(scale, count, seed, window=noise.WINDOW):
    return noise._draw(noise._LAPLACE, np.array([scale]), count, seeded(seed), window)[0]


@pytest.mark.parametrize("scale", [1, 2, 5])
def test_probability_mass(scale):
    numbers = drawn(scale, 2_000_000, seed=scale)
    assert mass_p_value(numbers, lambda n: np.exp(-np.abs(n) / scale), 40 * scale) > 1e-3


@pytest.mark.parametrize("scale", [1, 2, 5])
def test_probability_mass_where_close_calls_are_common(scale):
    numbers = drawn(scale, 30_000, seed=100 + scale, window=2.0**-5)
    assert mass_p_value(numbers, lambda n: np.exp(-np.abs(n) / scale), 40 * scale) > 1e-3
    np.testing.assert_array_equal(numbers, drawn(scale, 30_000, seed=100 + scale))


@pytest.mark.parametrize("scale", [2**10, 2**26 + 12345, 2**52 - 1])
def test_large_scales_are_laplace_down_to_the_last_bit(scale):
    numbers = discrete_laplace(np.array([scale]), 1_000_000, seeded(scale % 997))
    assert low_byte_p_value(numbers) > 1e-3
    assert (
        quantile_p_value(laplace.cdf((numbers + np.random.default_rng(0).random(numbers.shape) - 0.5) / scale)) > 1e-3
    )


def test_distribution_is_that_of_opendp():
    """OpenDP's bits are the system's, so a false alarm has to be next to impossible."""
    opendp.enable_features("contrib")
    integers = opendp.vector_domain(opendp.atom_domain(T=int))
    theirs = opendp.m.make_laplace(integers, opendp.l1_distance(T=int), scale=1024.0)([0] * 40_000)
    ours = discrete_laplace(np.array([1024]), 400_000, seeded(8))[0]
    assert two_sample_p_value(ours, np.array(theirs), 1448.0) > 1e-7
    assert two_sample_p_value(ours, np.array(theirs) * 1.1, 1448.0) < 1e-7, "the test must see 10 %"


def test_numbers_of_seeded_noise_do_not_change():
    assert discrete_laplace(np.array([2**30 + 1, 2**12]), 10, seeded(3, rows=2)).tolist() == PINNED


PINNED = [
    [
        774816818,
        -921164785,
        -40834839,
        2046335122,
        -857631176,
        234943896,
        -1011854647,
        -2338707644,
        846457328,
        444268027,
    ],
    [-4455, 5588, 2551, -69, -1212, -9954, -1451, -9808, 3258, -9015],
]
