"""Small tables with known answers, fits over them that take milliseconds, and a package of somebody's own parts."""

from typing import Any

import numpy as np
import pytest
from own_parts import somebody  # noqa: F401

BOUND = 4.0
CLASSES = ["no", "yes"]
NOISELESS = 1e9  # an epsilon at which the noise is far below what is compared


@pytest.fixture
def rows() -> np.ndarray:
    """300 records of 3 features, none longer than the bound."""
    drawn = np.random.default_rng(0).normal(size=(300, 3)) * [1.0, 2.0, 0.5]
    return drawn * np.minimum(1.0, BOUND / np.linalg.norm(drawn, axis=1))[:, None]


@pytest.fixture
def margins(rows: np.ndarray) -> np.ndarray:
    return rows @ np.array([1.0, -1.0, 2.0])


@pytest.fixture
def labels(margins: np.ndarray) -> np.ndarray:
    """Two classes, "no" and "yes", which overlap."""
    noise = np.random.default_rng(1).logistic(size=margins.size)
    return np.where(margins + noise > 0, "yes", "no")


@pytest.fixture
def numbers(margins: np.ndarray) -> np.ndarray:
    """Targets, about ten times the margins."""
    return 10.0 * margins + 3.0 * np.random.default_rng(2).normal(size=margins.size)


@pytest.fixture
def exact_numbers() -> dict[str, Any]:
    """Parameters of a regression that finds the optimum: exact solves, hardly any noise, seeded."""
    return {
        "epsilon": NOISELESS,
        "algorithm": "pvp",
        "rounds": 400,
        "norm_bound": BOUND,
        "random_state": 0,
    }


@pytest.fixture
def exact(exact_numbers: dict[str, Any]) -> dict[str, Any]:
    """The same of a classifier of `labels`."""
    return exact_numbers | {"classes": CLASSES}


@pytest.fixture
def quick_numbers() -> dict[str, Any]:
    """Parameters of a regression that is over at once; a bound on targets has to be given besides."""
    return {"algorithm": "dp-admm", "rounds": 5, "norm_bound": BOUND, "random_state": 0}


@pytest.fixture
def quick(quick_numbers: dict[str, Any]) -> dict[str, Any]:
    """The same of a classifier of `labels`, which leaks nothing."""
    return quick_numbers | {"classes": CLASSES}
