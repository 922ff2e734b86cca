"""Differentially private distributed learning and optimisation by ADMM.

    import dpadmm
    result = dpadmm.train(source="adult", agents=100, algorithm="dp-admm", rounds=100, epsilon=1.0, delta=1e-5)
    print(result.guarantee, result.test_error)

Names are loaded when they are first used, so that importing the package stays quick.
"""

from __future__ import annotations

import importlib as _importlib
import importlib.metadata as _metadata
import typing as _typing

if _typing.TYPE_CHECKING:
    from dpadmm.datasets import open_folder as open_folder
    from dpadmm.datasets import write_folder as write_folder
    from dpadmm.engine.prepare import prepare as prepare
    from dpadmm.engine.result import Result as Result
    from dpadmm.engine.run import train as train
    from dpadmm.errors import ConvergenceError as ConvergenceError
    from dpadmm.errors import InputError as InputError
    from dpadmm.errors import Refused as Refused
    from dpadmm.estimators import PrivateLinearSVC as PrivateLinearSVC
    from dpadmm.estimators import PrivateLogisticRegression as PrivateLogisticRegression
    from dpadmm.estimators import PrivateQuantileRegressor as PrivateQuantileRegressor
    from dpadmm.estimators import PrivateRidge as PrivateRidge
    from dpadmm.owner.agent import Agent as Agent
    from dpadmm.owner.agreement import Agreement as Agreement
    from dpadmm.owner.policy import Policy as Policy
    from dpadmm.papers import ALGORITHMS as ALGORITHMS
    from dpadmm.privacy.accounting import Account as Account
    from dpadmm.privacy.accounting import Accounts as Accounts
    from dpadmm.privacy.accounting import Guarantee as Guarantee
    from dpadmm.privacy.calibration import Budget as Budget
    from dpadmm.privacy.ledger.protocol import Ledger as Ledger
    from dpadmm.privacy.relations import Relation as Relation
    from dpadmm.problems.losses import LOSSES as LOSSES
    from dpadmm.problems.penalties import PENALTIES as PENALTIES
    from dpadmm.problems.problem import Problem as Problem
    from dpadmm.problems.sets import SETS as SETS
    from dpadmm.problems.shards import Shards as Shards
    from dpadmm.problems.shards import gather as gather
    from dpadmm.problems.stored_shards import StoredShards as StoredShards
    from dpadmm.problems.stored_shards import gather_blocks as gather_blocks
    from dpadmm.spec.declare import Experiment as Experiment

__version__ = _metadata.version("dpadmm")

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
    "dpadmm.privacy.relations": ("Relation",),
    "dpadmm.problems.losses": ("LOSSES",),
    "dpadmm.problems.penalties": ("PENALTIES",),
    "dpadmm.problems.problem": ("Problem",),
    "dpadmm.problems.sets": ("SETS",),
    "dpadmm.problems.shards": ("Shards", "gather"),
    "dpadmm.problems.stored_shards": ("StoredShards", "gather_blocks"),
    "dpadmm.spec.declare": ("Experiment",),
}
_HOMES = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted(_HOMES)  # one table for the list, the loader and `dir`


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpadmm' has no attribute {name!r}")
    return getattr(_importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
