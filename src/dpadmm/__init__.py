"""Differentially private distributed learning and optimisation by ADMM.

    import dpadmm
    result = dpadmm.train(source="adult", agents=100, algorithm="dp-admm", rounds=100, epsilon=1.0, delta=1e-5)
    print(result.guarantee, result.test_error)

Names are loaded when they are first used, so that importing the package stays quick.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpadmm.datasets import open_folder, write_folder
    from dpadmm.engine.prepare import prepare
    from dpadmm.engine.result import Result
    from dpadmm.engine.run import train
    from dpadmm.errors import ConvergenceError, InputError
    from dpadmm.estimators import (
        PrivateLinearSVC,
        PrivateLogisticRegression,
        PrivateQuantileRegressor,
        PrivateRidge,
    )
    from dpadmm.papers import ALGORITHMS
    from dpadmm.privacy.accounting import Account, Accounts, Guarantee
    from dpadmm.privacy.calibration import Budget
    from dpadmm.privacy.relations import Relation
    from dpadmm.problems.losses import LOSSES
    from dpadmm.problems.penalties import PENALTIES
    from dpadmm.problems.problem import Problem
    from dpadmm.problems.sets import SETS
    from dpadmm.problems.shards import Shards, gather
    from dpadmm.problems.stored_shards import StoredShards, gather_blocks
    from dpadmm.spec.declare import Experiment

__version__ = version("dpadmm")

_HOMES = {
    "ALGORITHMS": "dpadmm.papers",
    "LOSSES": "dpadmm.problems.losses",
    "PENALTIES": "dpadmm.problems.penalties",
    "SETS": "dpadmm.problems.sets",
    "Account": "dpadmm.privacy.accounting",
    "Accounts": "dpadmm.privacy.accounting",
    "Budget": "dpadmm.privacy.calibration",
    "ConvergenceError": "dpadmm.errors",
    "Experiment": "dpadmm.spec.declare",
    "Guarantee": "dpadmm.privacy.accounting",
    "InputError": "dpadmm.errors",
    "PrivateLinearSVC": "dpadmm.estimators",
    "PrivateLogisticRegression": "dpadmm.estimators",
    "PrivateQuantileRegressor": "dpadmm.estimators",
    "PrivateRidge": "dpadmm.estimators",
    "Problem": "dpadmm.problems.problem",
    "Relation": "dpadmm.privacy.relations",
    "Result": "dpadmm.engine.result",
    "Shards": "dpadmm.problems.shards",
    "StoredShards": "dpadmm.problems.stored_shards",
    "gather": "dpadmm.problems.shards",
    "gather_blocks": "dpadmm.problems.stored_shards",
    "open_folder": "dpadmm.datasets",
    "prepare": "dpadmm.engine.prepare",
    "train": "dpadmm.engine.run",
    "write_folder": "dpadmm.datasets",
}

__all__ = [
    "ALGORITHMS",
    "LOSSES",
    "PENALTIES",
    "SETS",
    "Account",
    "Accounts",
    "Budget",
    "ConvergenceError",
    "Experiment",
    "Guarantee",
    "InputError",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateQuantileRegressor",
    "PrivateRidge",
    "Problem",
    "Relation",
    "Result",
    "Shards",
    "StoredShards",
    "gather",
    "gather_blocks",
    "open_folder",
    "prepare",
    "train",
    "write_folder",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpadmm' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
