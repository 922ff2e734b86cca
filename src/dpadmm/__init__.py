"""Differentially private distributed learning and optimisation by ADMM.

    import dpadmm
    result = dpadmm.train(source="adult", agents=100, algorithm="dp-admm", rounds=100, epsilon=1.0, delta=1e-5)
    print(result.guarantee, result.test_error)

Names are loaded when they are first used, so that importing the package stays quick.
"""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

from dpadmm._version import __version__ as __version__

if _typing.TYPE_CHECKING:
    from dpadmm.datasets import open_folder, write_folder
    from dpadmm.engine.prepare import prepare
    from dpadmm.engine.result import Result
    from dpadmm.engine.run import train
    from dpadmm.errors import ConvergenceError, InputError, Refused
    from dpadmm.estimators import PrivateLinearSVC, PrivateLogisticRegression, PrivateQuantileRegressor, PrivateRidge
    from dpadmm.owner.agent import Agent
    from dpadmm.owner.agreement import Agreement
    from dpadmm.owner.policy import Policy
    from dpadmm.papers import ALGORITHMS
    from dpadmm.privacy.accounting import Account, Accounts, Guarantee
    from dpadmm.privacy.calibration import Budget
    from dpadmm.privacy.events import Relation
    from dpadmm.privacy.ledger.protocol import Ledger
    from dpadmm.problems.losses import LOSSES
    from dpadmm.problems.penalties import PENALTIES
    from dpadmm.problems.problem import Problem
    from dpadmm.problems.sets import SETS
    from dpadmm.problems.shards import Shards, gather
    from dpadmm.problems.stored_shards import StoredShards, gather_blocks
    from dpadmm.spec.declare import Experiment

_PUBLIC = {
    "dpadmm.datasets": ("open_folder", "write_folder"),
    "dpadmm.engine.prepare": ("prepare",),
    "dpadmm.engine.result": ("Result",),
    "dpadmm.engine.run": ("train",),
    "dpadmm.errors": ("ConvergenceError", "InputError", "Refused"),
    "dpadmm.estimators": (
        "PrivateLinearSVC",
        "PrivateLogisticRegression",
        "PrivateQuantileRegressor",
        "PrivateRidge",
    ),
    "dpadmm.owner.agent": ("Agent",),
    "dpadmm.owner.agreement": ("Agreement",),
    "dpadmm.owner.policy": ("Policy",),
    "dpadmm.papers": ("ALGORITHMS",),
    "dpadmm.privacy.accounting": ("Account", "Accounts", "Guarantee"),
    "dpadmm.privacy.calibration": ("Budget",),
    "dpadmm.privacy.ledger.protocol": ("Ledger",),
    "dpadmm.privacy.events": ("Relation",),
    "dpadmm.problems.losses": ("LOSSES",),
    "dpadmm.problems.penalties": ("PENALTIES",),
    "dpadmm.problems.problem": ("Problem",),
    "dpadmm.problems.sets": ("SETS",),
    "dpadmm.problems.shards": ("Shards", "gather"),
    "dpadmm.problems.stored_shards": ("StoredShards", "gather_blocks"),
    "dpadmm.spec.declare": ("Experiment",),
}
_HOMES = {name: module for module, names in _PUBLIC.items() for name in names}

# Written out, because tools that only read the source need it so; a test compares it with the table above.
__all__ = [
    "ALGORITHMS",
    "LOSSES",
    "PENALTIES",
    "SETS",
    "Account",
    "Accounts",
    "Agent",
    "Agreement",
    "Budget",
    "ConvergenceError",
    "Experiment",
    "Guarantee",
    "InputError",
    "Ledger",
    "Policy",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateQuantileRegressor",
    "PrivateRidge",
    "Problem",
    "Refused",
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
]  # one table for the list, the loader and `dir`


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpadmm' has no attribute {name!r}")
    return getattr(_importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
