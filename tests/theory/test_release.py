"""The release path's page: its lemmas computed, its tables against the library, and its files and functions named."""

from __future__ import annotations

import math
import re
from importlib import import_module
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from dpadmm.privacy.mechanisms import Gaussian, Laplace
from dpadmm.release.noise import SMALLEST_SCALE
from dpadmm.release.perturb import SMOOTHING, SPACING, noise_scales, release_value
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.release.sums import (
    ColumnMoments,
    MarginGradient,
    Products,
    RowsAndProducts,
    SeveralMargins,
    SoftmaxGradient,
)

SOURCES = Path(__file__).parents[2] / "src" / "dpadmm"
PAGE = (Path(__file__).parents[2] / "docs" / "theory" / "release.md").read_text(encoding="utf-8")
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)


# -- what is named -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", sorted(set(re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", PAGE))))
def test_a_file_that_the_page_names_exists(file):
    found = SOURCES / file
    assert found.is_dir() if file.endswith("/") else found.is_file()


def test_the_page_names_every_file_of_the_release_path():
    named = set(re.findall(r"`(?:[\w/]+/)?(\w+\.py)`", PAGE))
    files = {file.name for file in (SOURCES / "release").rglob("*.py") if file.name != "__init__.py"}
    assert files - named == set()


def test_the_table_of_what_is_trusted_counts_lines(table):
    rows = table("release.md", "What is trusted")
    assert len(rows) == 8
    for row in rows:
        files = [file for part in row["files"].split(", ") for file in _files(SOURCES / part)]
        lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
        assert lines == pytest.approx(int(row["lines"]), rel=0.1), row["part"]
        assert lines <= 1550 or row["part"] != "release path", "a reviewer reads the release path in an hour"


def _files(path):
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def test_every_query_of_the_library_is_in_the_table(table):
    names = {row["query"] for row in table("release.md", "3 Contribution and sum")}
    module = import_module("dpadmm.release.sums")
    own = {each.__name__ for each in module.Query.__subclasses__() if each.__module__ == module.__name__}
    assert own | {"mistakes"} == names


def test_bounds_of_queries_are_those_of_the_table():
    side, most, width, classes = 2**22, 2**20, 7, 3
    margin = MarginGradient(None, 0.3)
    several = SeveralMargins((margin, MarginGradient(None, 0.1)))
    softmax, products, moments = SoftmaxGradient(classes, 1.0), Products(), ColumnMoments(0.5)
    factor = round(0.5 / (2.0 / side))
    around, twelve = RowsAndProducts(0.5), round(12 * 0.5 / (2.0 / side))
    share = math.ceil(most / 3)  # of the loss whose slope bound is a third
    expected = {
        margin: (most * side, math.sqrt(width) * most * side, 2 * most * side),
        softmax: (2**42, math.sqrt(2 * width) * 2**42, 2**43),
        several: (
            side * math.hypot(most, share),
            math.sqrt(width) * side * (most + share),
            2 * side * math.hypot(most, share),
        ),
        products: (math.sqrt(145) * 4**22, math.sqrt(145 * 28) * 4**22, math.sqrt(290) * 4**22),
        moments: (
            math.hypot(factor * side, 4**22),
            math.sqrt(width) * factor * side + 4**22,
            math.sqrt(2 * factor**2 * (4**22 + factor**2 / 2) + 2 * (16**22 - factor**4 / 4)),
        ),
        around: (
            math.sqrt(twelve**2 * 4**22 + 145 * 16**22),
            math.sqrt(width) * twelve * side + math.sqrt(145 * 28) * 4**22,
            math.sqrt(2 * twelve**2 * (4**22 + twelve**2 / 290) + 290 * (16**22 - twelve**4 / 290**2)),
        ),
    }
    for query, (length, length1, apart) in expected.items():
        bounds = query.bounds(width, 2.0)
        for found, least in ((bounds.norm, length), (bounds.norm1, length1), (bounds.apart, apart)):
            assert least * (1 - 1e-12) <= found <= least * (1 + 1e-6) + 2, query
        moved = bounds.sensitivity(True, 2, 3)
        rounding = math.sqrt(bounds.dimension)
        assert moved == pytest.approx(3 * bounds.apart / 2**bounds.shift + rounding, rel=1e-11)
        assert bounds.sensitivity(False, 1) == pytest.approx(
            bounds.norm1 / 2**bounds.shift + bounds.dimension, rel=1e-11
        )


def test_the_weights_of_products_are_longer_than_the_packing_s():
    """12 and 17 beside 1 and sqrt(2): 17² / 2 is the larger, and at most 145."""
    assert 12**2 <= 17**2 / 2 <= 145
    rng = np.random.default_rng(0)
    for row in rng.standard_normal((200, 5)):
        pairs = np.outer(row, row)[np.triu_indices(5)]
        weights = np.where(np.equal(*np.triu_indices(5)), 12, 17)
        assert np.linalg.norm(weights * pairs) <= math.sqrt(144.5) * row @ row * (1 + 1e-12)


def test_rounding_moves_two_numbers_apart_by_less_than_one_unit_more():
    rng = np.random.default_rng(0)
    for dimension in (1, 2, 10, 100):
        worst = 0.0
        for turn in range(2000):
            apart = rng.standard_normal(dimension)
            apart *= 2.6 / np.linalg.norm(apart)
            if turn % 2:
                apart = np.full(dimension, 2.6 / math.sqrt(dimension))
            point = np.floor(10.0 * rng.random(dimension)) + 0.5 - rng.random(dimension) * apart * 0.999
            moved = np.floor(point + apart + 0.5) - np.floor(point + 0.5)
            worst = max(worst, np.linalg.norm(moved))
            assert np.linalg.norm(moved) <= 2.6 + math.sqrt(dimension)
            assert np.abs(moved).sum() <= np.abs(apart).sum() + dimension
        assert worst >= 3.0


# -- lemma 1 -----------------------------------------------------------------------------------------------------------


def sum_of_weights(scale, y):
    """Theta: the sum over integers n of exp(-(n - y)² / (2 s²)); what is left out is below 1e-44."""
    middle, reach = int(mpmath.nint(y)), int(15 * scale) + 1
    return mpmath.fsum(mpmath.exp(-((n - y) ** 2) / (2 * scale**2)) for n in range(middle - reach, middle + reach + 1))


@pytest.mark.parametrize(("scale", "width"), [("1.12", "0.5"), ("2", "0.7"), ("3", "1"), ("16", "1.2")])
def test_a_discrete_gaussian_is_a_rounded_gaussian_up_to_a_tiny_factor(scale, width):
    """Where the width of the rounding is small enough for the factor to be seen."""
    with mpmath.workdps(25):
        s, w = mpmath.mpf(scale), mpmath.mpf(width)
        r, worst = mpmath.sqrt(s * s - w * w), mpmath.mpf(0)
        bound = 4 * mpmath.exp(-2 * mpmath.pi**2 * w * w)
        for z in (0, 1, int(s), 3 * int(s)):

            def joint(y, z=z):
                return mpmath.npdf(y, 0, r) * mpmath.exp(-((z - y) ** 2) / (2 * w * w)) / sum_of_weights(w, y)

            centre, deviation = z * r * r / (s * s), r * w / s
            points = mpmath.linspace(centre - 12 * deviation, centre + 12 * deviation, 13)
            rounded = mpmath.quad(joint, points)
            discrete = mpmath.exp(-mpmath.mpf(z * z) / (2 * s * s)) / sum_of_weights(s, 0)
            worst = max(worst, abs(mpmath.log(rounded / discrete)))
        assert 0 < worst <= bound
        assert (worst > bound / 100) == (width == "0.5")  # there it is needed; averaging over y helps wider roundings


def test_sums_of_weights_are_as_poisson_s_formula_says():
    with mpmath.workdps(40):
        for width in (mpmath.mpf("0.5"), mpmath.mpf(1)):
            x = mpmath.exp(-2 * mpmath.pi**2 * width**2)
            for y in (mpmath.mpf(0), mpmath.mpf("0.3"), mpmath.mpf("0.5")):
                found = sum_of_weights(width, y) / (width * mpmath.sqrt(2 * mpmath.pi)) - 1
                series = 2 * mpmath.fsum(x ** (k * k) * mpmath.cos(2 * mpmath.pi * k * y) for k in range(1, 9))
                assert abs(found - series) < mpmath.mpf(10) ** -30
                assert abs(found) <= 2 * x / (1 - x**3) * (1 + mpmath.mpf(10) ** -25)
            eta = 2 * x / (1 - x**3)
            assert -mpmath.log(1 - eta) + x / 10 <= 4 * x


def test_the_factor_at_the_width_that_is_used_is_what_the_page_says():
    assert SMOOTHING == 8.0**2
    tau = 4 * mpmath.exp(-2 * mpmath.pi**2 * SMOOTHING)
    assert mpmath.nstr(tau, 2) == "9.0e-549"
    assert "9.0e-549" in PAGE
    assert tau * 10**12 < mpmath.mpf(10) ** -535
    assert SMALLEST_SCALE**2 >= SMOOTHING + 1
    assert 2 * mpmath.exp(-(mpmath.mpf(320) ** 2) / 128) < mpmath.mpf(10) ** -347


def masses(scale, farthest):
    numbers = np.arange(-farthest, farthest + 1)
    weights = np.exp(-(numbers.astype(np.float64) ** 2) / (2.0 * scale**2))
    return weights / weights.sum()


def told_apart(one, other, epsilon):
    """The smallest delta, both ways."""
    factor = math.exp(epsilon)
    return max(np.maximum(one - factor * other, 0.0).sum(), np.maximum(other - factor * one, 0.0).sum())


def of_gaussians(mu, epsilon):
    return norm.cdf(-epsilon / mu + mu / 2.0) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2.0)


@pytest.mark.parametrize(("scale", "moved"), [(16, 8), (16, 16), (16, 48), (20, 7), (32, 96)])
def test_discrete_gaussians_are_told_apart_no_better_than_gaussians_of_a_smaller_variance(scale, moved):
    mass = masses(scale, 2000)
    for epsilon in EPSILONS:
        found = told_apart(mass, np.roll(mass, moved), epsilon)
        assert found <= of_gaussians(moved / math.sqrt(scale**2 - 64), epsilon) + 1e-15


@pytest.mark.parametrize("moved", [(5, 12), (1, 1), (16, 7)])
def test_nor_are_vectors_of_them(moved):
    mass = masses(16, 250)
    one, other = (np.outer(np.roll(mass, a), np.roll(mass, b)) for a, b in ((0, 0), moved))
    for epsilon in EPSILONS[:5]:
        found = told_apart(one, other, epsilon)
        assert found <= of_gaussians(math.hypot(*moved) / math.sqrt(16**2 - 64), epsilon) + 1e-15


def test_a_gaussian_of_the_full_variance_would_claim_too_much():
    """The mass at zero is that of the density, which is smaller elsewhere in the cell."""
    mass = masses(16, 2000)
    assert told_apart(mass, np.roll(mass, 1), 0.0) > of_gaussians(1 / 16, 0.0) * (1 + 1e-4)


# -- lemma 2 -----------------------------------------------------------------------------------------------------------


def of_discrete_laplace(scale, moved, epsilon):
    """delta of a vector that is moved by so many units in each coordinate: losses are whole multiples of 1 / t."""
    kept, losses = math.exp(-1.0 / scale), np.ones(1)
    for units in moved:
        one = np.zeros(2 * units + 1)
        steps = np.arange(1, units)
        one[2 * units - 2 * steps] = kept**steps * (1.0 - kept) / (1.0 + kept)
        one[2 * units] += 1.0 / (1.0 + kept)
        one[0] += kept**units / (1.0 + kept)
        losses = np.convolve(losses, one)
    loss = np.arange(-sum(moved), sum(moved) + 1) / scale
    return float((losses * np.maximum(-np.expm1(epsilon - loss), 0.0)).sum())


def of_laplace(shift, epsilon):
    return max(0.0, -math.expm1((epsilon - shift) / 2.0))


@pytest.mark.parametrize("scale", [1024, 1500])
@pytest.mark.parametrize("moved", [(1,), (2,), (700,), (2048,), (1, 1), (30, 1), (300, 200, 100), (1,) * 50])
def test_discrete_laplace_numbers_are_told_apart_no_better_than_laplace_numbers_of_half_a_unit_less(scale, moved):
    units = sum(moved)
    for epsilon in np.linspace(0.0, units / scale, 9):
        found = of_discrete_laplace(scale, moved, epsilon)
        assert found <= of_laplace(units / (scale - SPACING), epsilon) * (1 + 1e-12) + 1e-16


def test_losses_of_discrete_laplace_numbers_are_those_of_their_masses():
    scale, moved = 40, 17
    numbers = np.arange(-3000, 3001)
    mass = np.exp(-np.abs(numbers) / scale)
    mass /= mass.sum()
    for epsilon in EPSILONS[:3]:
        found = told_apart(mass, np.roll(mass, moved), epsilon)
        assert found == pytest.approx(of_discrete_laplace(scale, (moved,), epsilon), rel=1e-9, abs=1e-15)


def test_a_laplace_number_of_the_same_scale_would_claim_too_much():
    assert of_discrete_laplace(1024, (1,), 0.0) > of_laplace(1 / 1024, 0.0) * (1 + 1e-4)


def test_the_steps_of_the_proof_of_lemma_2():
    """0.26 h² covers the factor at h up to 2^-10, and half a unit of the scale gives h² / 2."""
    with mpmath.workdps(40):
        for h in (mpmath.mpf(2) ** -10, mpmath.mpf(2) ** -20, mpmath.mpf(2) ** -52):
            assert -mpmath.log(1 - (mpmath.exp(h / 2) - 1) ** 2) <= mpmath.mpf("0.26") * h**2
            for d in (1, 5, 10**9):
                assert d / (1 / h - mpmath.mpf("0.5")) - d * h >= h**2 / 2
    rng = np.random.default_rng(0)
    for c in rng.uniform(0.01, 5.0, 50):
        for a in rng.uniform(math.exp(-c) / 2, 0.5, 20):
            steps = np.linspace(0.0, c, 20_001)
            smallest = (1.0 - np.exp(-steps) + np.exp(c - 2.0 * steps) * a).min()
            assert smallest == pytest.approx(1.0 - math.exp(-c) / (4.0 * a), abs=1e-7)


def test_scales_are_those_of_the_lemmas():
    for z, moved in ((0.7, 1e5), (3.0, 12345.0)):
        assert noise_scales(Gaussian(np.array([z])), moved) == math.ceil(math.sqrt((z * moved) ** 2 + 64) + 1e-9)
        assert noise_scales(Laplace(np.array([z])), moved) == math.ceil(z * moved + 0.5 + 1e-9)


# -- claims E1 ---------------------------------------------------------------------------------------------------------


def test_an_event_that_gives_plain_sums_away_tells_nothing_of_a_release():
    """{|y| < 1/16 and y not a multiple of 2^-53}, for the neighbours 0 and 1 and the classic (1, 1e-5) noise."""
    draws, sigma = 500_000, 4.84
    rng = np.random.default_rng(5)

    def likely(noisy):
        scaled = noisy * 2.0**53
        return float(np.mean((np.abs(noisy) < 1 / 16) & (scaled != np.rint(scaled))))

    assert likely(rng.normal(0.0, sigma, draws)) == pytest.approx(0.0098, rel=0.06)
    assert likely(rng.laplace(0.0, 1.0, draws)) == pytest.approx(0.058, rel=0.06)
    assert likely(rng.normal(1.0, sigma, draws)) == likely(rng.laplace(1.0, 1.0, draws)) == 0.0
    stream = SeededRandomness(0).stream(np.zeros(1, dtype=np.int64), np.arange(1), 1, "test")
    for mechanism in (Gaussian(np.array([sigma])), Laplace(np.array([1.0]))):
        for value in (0.0, 1.0):
            noisy = release_value(np.full((1, draws // 10), value), mechanism, np.ones(1), stream)
            assert likely(noisy) == 0.0
            assert np.mean(np.abs(noisy - value) < 1 / 16) > 0.005
