"""Tiny data sets by name, and experiments over them that take milliseconds: fixtures for the tests of several rooms."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpadmm.datasets import simulate
from dpadmm.datasets.registry import DATASETS, NamedDataset
from dpadmm.engine.result import Result
from dpadmm.papers import ALGORITHMS
from dpadmm.problems.losses import LOSSES, STATISTICS
from dpadmm.spec.declare import Experiment

POISSON = {"ps-admm", "ps-admm-anchor", "ps-admm-sgd"}  # accounted for under zero-out only


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data sets "tiny" (two classes), "tiny-multiclass" and "tiny-regression": 200 records of 4 features."""
    for name, kind in (
        ("tiny", "classification"),
        ("tiny-multiclass", "multiclass"),
        ("tiny-regression", "regression"),
    ):
        source = NamedDataset(lambda seed=0, kind=kind: simulate(kind, 200, 4, seed), "for tests")
        monkeypatch.setitem(DATASETS, name, source)


@pytest.fixture
def experiment() -> Callable[..., Experiment]:
    """experiment(algorithm, **changes): five agents, twelve rounds, a budget where one is needed."""

    def make(algorithm: str = "dp-admm", **changes: Any) -> Experiment:
        terms: dict[str, Any] = {"source": "tiny", "agents": 5, "rounds": 12, "strength": 1e-3, "test": 0.25, "seed": 7}
        recipe = ALGORITHMS.get(algorithm, ALGORITHMS["dp-admm"])
        if (LOSSES | STATISTICS)[recipe.base_loss].task == "regression":
            terms["source"] = "tiny-regression"
        if recipe.private and "noise_multiplier" not in changes:
            terms |= {"epsilon": 2.0, "delta": 1e-5}
        if recipe.consensus.decentralised:
            terms["topology"] = "erdos-renyi:5:0.5"
        if algorithm in POISSON:
            terms["relation"] = "zero-out"
        return Experiment().changed(algorithm=algorithm, **(terms | changes))

    return make


@pytest.fixture
def same() -> Callable[[Result, Result], None]:
    """same(a, b): two results hold the same numbers, bit for bit."""

    def check(one: Result, other: Result) -> None:
        np.testing.assert_array_equal(one.models, other.models)
        np.testing.assert_array_equal(one.mean_models, other.mean_models)
        assert one.history.rounds == other.history.rounds
        assert list(one.history.metrics) == list(other.history.metrics)
        for name in one.history.metrics:
            np.testing.assert_array_equal(one.history[name], other.history[name], err_msg=name)
        assert list(one.history.nodes) == list(other.history.nodes)
        for name, rows in one.history.nodes.items():
            assert len(rows) == len(other.history.rounds)
            np.testing.assert_array_equal(rows, other.history.nodes[name], err_msg=name)

    return check
