"""The discrete Gaussian: exactly its probabilities, from the bits of its row alone. Seeds are fixed."""

from __future__ import annotations

import numba
import numpy as np
import opendp.prelude as opendp
import pytest
from noise_checks import (
    WrittenStream,
    low_byte_p_value,
    mass_p_value,
    quantile_p_value,
    seeded,
    two_sample_p_value,
)
from scipy.stats import norm

from dpadmm.errors import InputError
from dpadmm.release import noise
from dpadmm.release.noise import ERROR_BOUND, discrete_gaussian, discrete_laplace
from dpadmm.release.random_bits import SystemRandomness

SAMPLERS = [discrete_gaussian, discrete_laplace]
LAWS = [noise._GAUSSIAN, noise._LAPLACE]


def gaussian(scale, count, seed, window=noise.WINDOW):
    return noise._draw(noise._GAUSSIAN, np.array([scale]), count, seeded(seed), window)[0]


@pytest.fixture
def exact_attempts(monkeypatch):
    """Counts the attempts that are decided in exact arithmetic."""
    counted = []

    def counting(*given, attempt=noise._attempt):
        counted.append(given[1:3])
        return attempt(*given)

    monkeypatch.setattr(noise, "_attempt", counting)
    return counted


@pytest.mark.parametrize("scale", [1, 2, 3, 16])
def test_probability_mass(scale):
    numbers = gaussian(scale, 2_000_000, seed=scale)
    assert mass_p_value(numbers, lambda n: np.exp(-(n**2) / (2 * scale**2)), 10 * scale) > 1e-3


@pytest.mark.parametrize("scale", [1, 2, 3, 16])
def test_probability_mass_where_close_calls_are_common(scale, exact_attempts):
    numbers = gaussian(scale, 30_000, seed=100 + scale, window=2.0**-5)
    assert len(exact_attempts) > 1_000
    assert mass_p_value(numbers, lambda n: np.exp(-(n**2) / (2 * scale**2)), 10 * scale) > 1e-3


@pytest.mark.parametrize("scale", [2**10, 2**26 + 12345, 3 * 2**38 + 1, 2**52 - 1])
def test_large_scales_are_normal_down_to_the_last_bit(scale):
    numbers = discrete_gaussian(np.array([scale]), 1_000_000, seeded(scale % 997))
    assert low_byte_p_value(numbers) > 1e-3
    assert quantile_p_value(norm.cdf((numbers + np.random.default_rng(0).random(numbers.shape) - 0.5) / scale)) > 1e-3


def test_distribution_is_that_of_opendp():
    """OpenDP's bits are the system's, so a false alarm has to be next to impossible."""
    opendp.enable_features("contrib")
    integers = opendp.vector_domain(opendp.atom_domain(T=int))
    theirs = opendp.m.make_gaussian(integers, opendp.l2_distance(T=float), scale=1024.0)([0] * 40_000)
    ours = discrete_gaussian(np.array([1024]), 400_000, seeded(8))[0]
    assert two_sample_p_value(ours, np.array(theirs), 1024.0) > 1e-7
    assert two_sample_p_value(ours, np.array(theirs) * 1.06, 1024.0) < 1e-7, "the test must see 6 %"


# -- what both distributions have in common ----------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [1, 3, 1024, 2**30 + 1, 2**52 - 1])
def test_fast_decisions_are_the_exact_ones(law, scale, exact_attempts):
    """A window of 2 decides every attempt in exact arithmetic: the numbers are a function of the bits alone."""
    fast = noise._draw(law, np.array([scale]), 400, seeded(scale % 991))
    assert not exact_attempts
    np.testing.assert_array_equal(noise._draw(law, np.array([scale]), 400, seeded(scale % 991), 2.0), fast)
    assert len(exact_attempts) > 500


@pytest.mark.parametrize("draw", SAMPLERS)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("largest", "smallest"), [(2**17, 64), (4, 4), (1000, 6), (2**30, 2**20)])
def test_batches_requests_and_threads_change_nothing(draw, threads, largest, smallest, monkeypatch):
    scales = np.array([2**10, 0, 2**30 + 1, 2**52 - 1, 12345, 2**10, 2**20])
    # One by one, in requests of the default size.
    alone = [draw(scales[[row]], 150, seeded(5, rows=7).take(np.array([row])))[0] for row in range(7)]
    monkeypatch.setattr(noise, "_LARGEST_REQUEST", largest)
    monkeypatch.setattr(noise, "_SMALLEST_REQUEST", smallest)
    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    try:
        together = draw(scales, 150, seeded(5, rows=7))
    finally:
        numba.set_num_threads(before)
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(draw(scales, 60, seeded(5, rows=7)), together[:, :60])


@pytest.mark.parametrize("draw", SAMPLERS)
def test_rows_are_independent(draw):
    numbers = draw(np.full(200, 2**20), 5_000, seeded(6, rows=200))
    correlation = np.corrcoef(numbers)[np.triu_indices(200, 1)] * np.sqrt(5_000)
    assert np.abs(correlation).max() < 5.5
    assert correlation.std() == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("draw", SAMPLERS)
def test_no_noise_is_zeros(draw):
    numbers = draw(np.array([0, 2**12, 0]), 50, seeded(1, rows=3))
    assert not numbers[[0, 2]].any()
    assert np.count_nonzero(numbers[1]) > 40
    assert draw(np.zeros(2, dtype=np.int64), 3, seeded(1, rows=2)).tolist() == [[0] * 3] * 2
    assert draw(np.array([2**12]), 0, seeded(1)).shape == (1, 0)
    assert draw(np.zeros(0, dtype=np.int64), 4, seeded(1, rows=0)).shape == (0, 4)


@pytest.mark.parametrize("draw", SAMPLERS)
@pytest.mark.parametrize("scale", [1, 2**10 - 1, 2**52, 2**62, -(2**20)])
def test_scales_out_of_range_are_refused(draw, scale):
    with pytest.raises(
        InputError, match=rf"a noise scale of {scale} cells is out of range: 0, or from 2\^10 to below 2\^52"
    ):
        draw(np.array([2**10, scale]), 3, seeded(1, rows=2))


@pytest.mark.parametrize("scales", [np.full(2, 2.0**20), np.full(3, 2**20), np.full((2, 1), 2**20)])
def test_scales_must_be_one_integer_a_row(scales):
    with pytest.raises(InputError, match="for 2 rows: give one 64-bit integer per row"):
        discrete_gaussian(scales, 3, seeded(1, rows=2))


@pytest.mark.parametrize("draw", SAMPLERS)
def test_the_systems_noise_is_fresh(draw):
    zeros = np.zeros(2, dtype=np.int64)
    source = SystemRandomness()
    numbers = [draw(np.full(2, 2**50), 1_000, source.stream(zeros, zeros, 1, "gradient")) for _ in range(2)]
    assert np.unique(numbers).size == 4_000


def test_minus_zero_is_refused():
    """Otherwise zero would be twice as frequent as it should be. The first attempt below is minus zero, by its bits."""
    zero, small = 0, 1 << 11
    plus = noise._draw(noise._GAUSSIAN, np.array([1024]), 1, WrittenStream({0: zero, 1: 2**64 - 2, 2: small}))
    assert plus.tolist() == [[0]]
    asked = {0: zero, 1: 2**64 - 1, 2: small, 3: 7, 4: 2**64 - 1, 5: small}
    assert noise._draw(noise._GAUSSIAN, np.array([1024]), 1, WrittenStream(asked)).tolist() == [[-7]]


@pytest.mark.parametrize(("following", "number"), [(0, 512), (2**64 - 1, 33)])
def test_undecided_acceptance_reads_further_bits_of_its_word(following, number):
    """The acceptance of 512 of 1024 at level 0 agrees with its uniform variable in all 53 bits."""
    prefix = noise.exponential(1, 8, 117)[0] >> 64
    attempt = {0: 512, 1: 2**64 - 2, 2: prefix << 11, 3: 33, 4: 2**64 - 2, 5: 0}
    assert number_and_further_words({**attempt, 2 + 2**48: following}) == (number, [2 + 2**48])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("level", range(1, 8))
def test_undecided_level_reads_further_bits_of_its_word(law, level):
    """The chance of this level agrees with the uniform variable in all 53 bits; the 64 following ones decide."""
    prefix, following = divmod(law.tail(level, 117)[0], 2**64)
    attempt = {0: 5, 1: prefix << 11, 2: 0}
    number, asked = number_and_further_words({**attempt, 1 + 2**48: following - 2**20}, law)
    assert (number, set(asked)) == (level * 1024 + 5, {1 + 2**48})
    number, asked = number_and_further_words({**attempt, 1 + 2**48: following + 2**20}, law)
    assert (number, set(asked)) == (level * 1024 - 1024 + 5, {1 + 2**48})


@pytest.mark.parametrize(("law", "level"), [(noise._GAUSSIAN, 8), (noise._LAPLACE, 38)])
def test_levels_beyond_the_table_are_reached(law, level):
    """U = 2^-55 lies between the chances of levels 8 and 9, or 38 and 39."""
    number, asked = number_and_further_words({0: 5, 1: 0, 2: 0, 1 + 2**48: 2**62}, law)
    assert (number, set(asked)) == (level * 1024 + 5, {1 + 2**48})


def test_numbers_beyond_64_bits_wrap_around():
    """No seed reaches such a level, so this one is certain."""
    law = noise._LAPLACE._replace(tail=lambda level, bits: (2**bits, 2**bits) if level <= 3000 else (0, 0))
    stream = WrittenStream({0: 5, 1: 1, 2: 0})
    number = -(3000 * 2**51 + 5)
    assert number < -(2**62)
    assert noise._attempt(law, 2**51, 0, stream) == number
    number = -(3000 * 2**52 + 5)
    assert noise._attempt(law, 2**52, 0, stream) == number + 2**64


def number_and_further_words(written, law=noise._GAUSSIAN):
    asked = []
    numbers = noise._draw(law, np.array([1024]), 1, WrittenStream(written, asked))
    return int(numbers[0, 0]), asked


def test_window_covers_all_that_is_not_known():
    """The error of both sides and the bits beyond a prefix; not so wide that exact decisions cost time."""
    assert 100 * (ERROR_BOUND + 2.0**-53) < noise.WINDOW == 2.0**-40


def test_numbers_of_seeded_noise_do_not_change():
    scales = np.array([2**30 + 1, 2**12])
    assert discrete_gaussian(scales, 10, seeded(3, rows=2)).tolist() == PINNED


PINNED = [
    [
        774816818,
        -921164785,
        -40834839,
        2046335122,
        -857631176,
        -746400845,
        234943896,
        -1011854647,
        -2338707644,
        846457328,
    ],
    [-4455, 5588, -3512, 2551, -69, -1212, -5858, -1451, -9808, -705],
]
