"""Simulated problems: in the unit ball, repeatable, and learnable back to their truth."""

import numpy as np
import pytest

from dpadmm.datasets import ground_truth, simulate
from dpadmm.errors import InputError


@pytest.mark.parametrize("kind", ["classification", "multiclass", "regression"])
@pytest.mark.parametrize("features", [1, 7])
def test_in_the_unit_ball_and_repeatable(kind, features):
    first, again, other = (simulate(kind, 500, features, seed) for seed in (3, 3, 4))
    assert first.features.shape == (500, features)
    assert np.linalg.norm(first.features, axis=1).max() <= 1.0 + 1e-15
    np.testing.assert_array_equal(first.features, again.features)
    np.testing.assert_array_equal(first.targets, again.targets)
    assert not np.array_equal(first.features, other.features)


def test_regression_recovers_its_truth():
    dataset = simulate("regression", 20_000, 5, seed=1)
    fitted = np.linalg.lstsq(dataset.features, dataset.targets)[0]
    np.testing.assert_allclose(fitted, ground_truth("regression", 5, 1), atol=0.02)


def test_labels_follow_their_probabilities():
    dataset = simulate("classification", 100_000, 4, seed=2)
    scores = dataset.features @ ground_truth("classification", 4, 2)
    probabilities = 1.0 / (1.0 + np.exp(-scores))
    assert abs(np.mean(dataset.targets - probabilities)) < 0.01
    assert abs(np.mean((dataset.targets - probabilities) * scores)) < 0.03


def test_classes_follow_their_probabilities():
    dataset = simulate("multiclass", 100_000, 4, seed=2, classes=4)
    odds = np.exp(dataset.features @ ground_truth("multiclass", 4, 2, classes=4))
    probabilities = odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.bincount(dataset.targets) / 1e5, probabilities.mean(axis=0), atol=0.01)
    assert dataset.classes == ("0", "1", "2", "3")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"kind": "regresion"}, "did you mean 'regression'"),
        ({"records": 0}, "records=0"),
        ({"features": 0}, "features=0"),
        ({"kind": "multiclass", "classes": 1}, "classes=1"),
    ],
)
def test_what_cannot_be_simulated(asked, words):
    with pytest.raises(InputError, match=words):
        simulate(**asked)
