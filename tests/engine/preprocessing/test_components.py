"""Principal components of noisy second moments: how many a rule takes, which, and what noise alone would look like."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpadmm.engine.preprocessing.components import Rule, components
from dpadmm.errors import InputError

SPECTRUM = np.array([5.0, 2.0, 1.0, 0.5, 0.25, -0.1])


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2)


def matrix(spectrum: Any, rng: np.random.Generator) -> NDArray[Any]:
    """Symmetric, with these eigenvalues and random directions."""
    vectors = np.linalg.qr(rng.normal(size=(len(spectrum), len(spectrum))))[0]
    return np.asarray(vectors * np.asarray(spectrum) @ vectors.T)


def symmetric_noise(rng: np.random.Generator, width: int, deviation: float) -> NDArray[Any]:
    """Off the diagonal with this deviation, on it with sqrt(2) times that."""
    square = rng.normal(scale=deviation / math.sqrt(2.0), size=(width, width))
    return np.asarray(square + square.T)


# Rules


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("5", Rule(count=5)),
        ("1", Rule(count=1)),
        ("noise", Rule()),
        ("share:0.95", Rule(share=0.95)),
        ("share:1", Rule(share=1.0)),
    ],
)
def test_a_rule_is_read(text: str, rule: Rule) -> None:
    assert Rule.parse(text) == rule


@pytest.mark.parametrize(
    "text",
    ["", "0", "-3", "2.5", "five", "noise:2", "share", "share:", "share:0", "share:1.1", "share:nan", "share:x", "1e2"],
)
def test_what_is_no_rule_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(InputError, match=r"must be a whole number such as 5, 'noise', or 'share:0\.95'"):
        Rule.parse(text)


@pytest.mark.parametrize(
    ("text", "noise", "taken"),
    [
        ("3", 0.0, 3),
        ("6", 100.0, 6),  # asked for is asked for, whatever the noise
        ("noise", 0.0, 5),  # all that stand out, and a negative one does not
        ("noise", 0.4, 4),
        ("noise", 1.0, 2),  # of the size of the noise is not out of it
        ("noise", 100.0, 1),  # at least one
        ("share:0.5", 0.0, 1),  # 5 of 8.75
        ("share:0.58", 0.0, 2),
        ("share:0.8", 0.0, 2),  # 7 of 8.75, exactly
        ("share:0.81", 0.0, 3),
        ("share:1", 0.0, 5),
        ("share:1", 0.4, 4),
        ("share:0.83", 0.4, 3),  # 7 of the 8.5 that stand out are not enough
        ("share:0.82", 0.4, 2),
        ("share:0.5", 100.0, 1),
    ],
)
def test_a_rule_takes_so_many(text: str, noise: float, taken: int) -> None:
    assert Rule.parse(text).taken(SPECTRUM, noise) == taken


def test_more_components_than_columns_are_refused() -> None:
    Rule.parse("6").check(6)
    with pytest.raises(InputError, match="7 components of rows with 6 columns: there are no more than 6; use a larger"):
        Rule.parse("7").check(6)
    with pytest.raises(InputError, match="7 components of rows with 6 columns"):
        components(np.eye(6), 0.0, Rule(count=7))
    Rule.parse("noise").check(1)


# Directions


@pytest.mark.parametrize("count", [1, 3, 6])
def test_they_are_the_leading_eigenvectors(rng: np.random.Generator, count: int) -> None:
    moments = matrix(SPECTRUM, rng)
    found = components(moments, 0.0, Rule(count=count))
    assert found.rotation.shape == (6, count)
    np.testing.assert_allclose(found.spectrum, SPECTRUM, atol=1e-13)
    np.testing.assert_allclose(found.rotation.T @ found.rotation, np.eye(count), atol=1e-13)
    np.testing.assert_allclose(moments @ found.rotation, found.rotation * SPECTRUM[:count], atol=1e-13)


def test_of_an_eigenvector_and_its_opposite_the_one_with_its_largest_entry_above_zero_is_taken(
    rng: np.random.Generator,
) -> None:
    for _ in range(20):
        rotation = components(matrix(SPECTRUM, rng), 0.0, Rule(count=6)).rotation
        largest = np.abs(rotation).argmax(axis=0)
        assert (rotation[largest, np.arange(6)] > 0.0).all()
    moments = np.diag([1.0, 3.0, 2.0])
    np.testing.assert_array_equal(components(moments, 0.0, Rule(count=2)).rotation, [[0, 0], [1, 0], [0, 1]])


# Noise


@pytest.mark.parametrize("width", [20, 60])
def test_noise_alone_has_eigenvalues_up_to_the_threshold_and_near_it(rng: np.random.Generator, width: int) -> None:
    """Wigner's law: 2 s sqrt(p), from below, with a spread of order p^(-1/6) s."""
    deviation, largest = 0.3, []
    for _ in range(20):
        found = components(symmetric_noise(rng, width, deviation), deviation, Rule())
        assert found.noise == pytest.approx(2.0 * deviation * math.sqrt(width))
        largest.append(found.spectrum[0])
        assert found.rotation.shape[1] <= 3  # one at least, and rarely another
    assert np.mean(largest) == pytest.approx(found.noise, rel=0.12)
    assert np.max(largest) < found.noise + 3.0 * deviation * width ** (-1 / 6)


def test_what_stands_out_of_the_noise_is_found_in_it(rng: np.random.Generator) -> None:
    """Three directions of ten times the noise's size, in fifty columns."""
    width, deviation = 50, 0.1
    threshold = 2.0 * deviation * math.sqrt(width)
    directions = np.linalg.qr(rng.normal(size=(width, 3)))[0]
    moments = directions * (10.0 * threshold * np.array([3.0, 2.0, 1.0])) @ directions.T
    found = components(moments + symmetric_noise(rng, width, deviation), deviation, Rule())
    assert found.rotation.shape[1] == 3
    assert np.linalg.svd(directions.T @ found.rotation)[1].min() > 0.98
    assert components(moments, 0.0, Rule(share=0.8)).rotation.shape[1] == 2
