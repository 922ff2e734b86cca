"""Solvers. Adding one: a file, and a line here."""

from __future__ import annotations

from dpadmm.admm.solvers.base import Memory, Solver
from dpadmm.admm.solvers.exact import Exact
from dpadmm.admm.solvers.gradient import GradientAnswer
from dpadmm.admm.solvers.linearised import Linearised, LocalUpdates
from dpadmm.admm.solvers.recycled import Recycled
from dpadmm.admm.solvers.stochastic import GradientSteps, Sgd, Svrg

SOLVERS: dict[str, type[Solver]] = {
    "exact": Exact,
    "linearised": Linearised,
    "local-updates": LocalUpdates,
    "gradient": GradientAnswer,
    "gradient-steps": GradientSteps,
    "sgd": Sgd,
    "svrg": Svrg,
    "recycled": Recycled,
}
"""How an agent can solve its part, by name."""

__all__ = [
    "SOLVERS",
    "Exact",
    "GradientAnswer",
    "GradientSteps",
    "Linearised",
    "LocalUpdates",
    "Memory",
    "Recycled",
    "Sgd",
    "Solver",
    "Svrg",
]
