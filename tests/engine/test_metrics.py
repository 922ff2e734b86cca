"""What the papers plot, against loops over agents and records written here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpadmm.engine import metrics
from dpadmm.problems.losses import ClippedSquared, Logistic, Softmax
from dpadmm.problems.penalties import L1, L2
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import Shards, gather

SIZES = [5, 1, 9]
WIDTH = 3


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(15)


def records(rng: np.random.Generator, loss: Any = None, classes: int = 2) -> tuple[Shards, Any, Any]:
    """Shards of three agents, and the class of each of their rows."""
    owner = np.repeat(np.arange(3), SIZES)
    rows, labels = rng.normal(size=(15, WIDTH)), rng.integers(classes, size=15)
    shards = gather(rows, (loss or Logistic()).encode(labels, classes), owner, norm_bound=50.0)
    return shards, shards.real_rows, labels


def logistic_means(rows: Any, labels: Any, x: Any) -> list[float]:
    means, row = [], 0
    for agent, size in enumerate(SIZES):
        total = 0.0
        for _ in range(size):
            sign = 1.0 if labels[row] == 1 else -1.0
            total += math.log(1.0 + math.exp(-sign * float(rows[row] @ x[agent])))
            row += 1
        means.append(total / size)
    return means


def test_empirical_loss_is_the_mean_over_an_agents_records_without_the_penalty(rng: np.random.Generator) -> None:
    shards, rows, labels = records(rng)
    x = rng.normal(size=(3, WIDTH))
    problem = Problem(Logistic(), L2(), strength=10.0)
    assert metrics.empirical_loss(problem, shards, x) == pytest.approx(logistic_means(rows, labels, x), rel=1e-12)


def test_augmented_objective_adds_penalty_and_the_norm_not_its_square(rng: np.random.Generator) -> None:
    shards, rows, labels = records(rng)
    x, z = rng.normal(size=(3, WIDTH)), rng.normal(size=WIDTH)
    expected = []
    for agent, mean in enumerate(logistic_means(rows, labels, x)):
        penalty = 0.3 * sum(abs(number) for number in x[agent])
        distance = math.sqrt(sum((x[agent, j] - z[j]) ** 2 for j in range(WIDTH)))
        assert abs(distance - distance**2) > 0.1
        expected.append(mean + penalty + 0.7 * distance)
    problem = Problem(Logistic(), L1(), strength=0.3)
    common = np.tile(z, (3, 1))
    assert metrics.augmented_objective(problem, shards, x, common, 0.7) == pytest.approx(expected, rel=1e-12)
    assert metrics.augmented_objective(problem, shards, x, z, 0.7) == pytest.approx(expected, rel=1e-12)


def test_the_criterion_has_the_penalty_at_the_server_and_the_distance_to_it(rng: np.random.Generator) -> None:
    shards, rows, labels = records(rng)
    x, z = rng.normal(size=(3, WIDTH)), rng.normal(size=WIDTH)
    penalty = 0.3 * sum(abs(number) for number in z)
    expected = [
        mean + penalty + math.sqrt(sum((x[agent, j] - z[j]) ** 2 for j in range(WIDTH)))
        for agent, mean in enumerate(logistic_means(rows, labels, x))
    ]
    problem = Problem(Logistic(), L1(), strength=0.3)
    for common in (z, np.tile(z, (3, 1))):
        assert metrics.criterion(problem, shards, x, common) == pytest.approx(expected, rel=1e-12)


def test_consensus_residual_is_one_number_for_each_run(rng: np.random.Generator) -> None:
    x, z = rng.normal(size=(4, 6, WIDTH)), rng.normal(size=(4, WIDTH))
    expected = []
    for run in range(4):
        total = 0.0
        for agent in range(6):
            for j in range(WIDTH):
                total += (z[run, j] - x[run, agent, j]) ** 2
        expected.append(math.sqrt(total))
    assert metrics.consensus_residual(x, z) == pytest.approx(expected, rel=1e-12)


def test_consensus_residual_is_zero_when_all_agree() -> None:
    z = np.arange(6.0).reshape(2, 3)
    assert metrics.consensus_residual(np.repeat(z[:, None], 5, axis=1), z).tolist() == [0.0, 0.0]


def held_out(rng: np.random.Generator, targets: Any) -> Shards:
    """Test records: their targets are as in the data set, not encoded."""
    count = len(targets)
    return gather(rng.normal(size=(count, WIDTH)), targets, np.zeros(count, dtype=int), norm_bound=50.0)


def test_errors_of_a_binary_loss_are_the_share_of_wrong_signs(rng: np.random.Generator) -> None:
    test, models = held_out(rng, rng.integers(2, size=40)), rng.normal(size=(7, WIDTH))
    expected = []
    for model in models:
        wrong = 0
        for row, label in zip(test.real_rows, test.targets, strict=True):
            wrong += (1 if float(row @ model) > 0 else 0) != label
        expected.append(wrong / 40)
    assert metrics.test_errors(Logistic(), test, models).tolist() == expected
    assert 0.0 < min(expected) < max(expected) < 1.0


def test_errors_of_softmax_are_the_share_of_wrong_classes(rng: np.random.Generator) -> None:
    test, models = held_out(rng, rng.integers(4, size=40)), rng.normal(size=(7, WIDTH * 4))
    expected = []
    for model in models:
        wrong = 0
        for row, label in zip(test.real_rows, test.targets, strict=True):
            scores = [sum(row[j] * model[4 * j + k] for j in range(WIDTH)) for k in range(4)]
            wrong += scores.index(max(scores)) != label
        expected.append(wrong / 40)
    assert metrics.test_errors(Softmax(), test, models).tolist() == expected


def test_errors_of_a_regression_are_root_mean_squares_without_clipping(rng: np.random.Generator) -> None:
    test, models = held_out(rng, 10.0 * rng.normal(size=40)), rng.normal(size=(7, WIDTH))
    expected = [
        math.sqrt(sum((float(row @ model) - b) ** 2 for row, b in zip(test.real_rows, test.targets, strict=True)) / 40)
        for model in models
    ]
    assert metrics.test_errors(ClippedSquared(0.1), test, models) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("at_once", [1, 40 * 4 * 3, 40 * 4 * 6 + 1])
def test_errors_in_groups_equal_errors_at_once(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    test, models = held_out(rng, rng.integers(4, size=40)), rng.normal(size=(7, WIDTH * 4))
    together = metrics.test_errors(Softmax(), test, models)
    calls: list[int] = []
    original = Softmax.errors

    def counted(self: Softmax, features: Any, targets: Any, group: Any) -> Any:
        calls.append(len(group))
        return original(self, features, targets, group)

    monkeypatch.setattr(Softmax, "errors", counted)
    monkeypatch.setattr(metrics, "_SCORES_AT_ONCE", at_once)
    assert np.array_equal(metrics.test_errors(Softmax(), test, models), together)
    assert sum(calls) == 7
    assert max(calls) == max(1, at_once // (40 * 4))
