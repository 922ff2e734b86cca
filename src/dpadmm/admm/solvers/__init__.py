"""Solvers. Adding one: a file, and a line here."""

from __future__ import annotations

from dpadmm.admm.solvers.base import Memory, Solver
from dpadmm.admm.solvers.exact import Exact
from dpadmm.admm.solvers.gradient import GradientAnswer
from dpadmm.admm.solvers.linearised import Linearised, LocalUpdates

SOLVERS: dict[str, type[Solver]] = {
    "exact": Exact,
    "linearised": Linearised,
    "local-updates": LocalUpdates,
    "gradient": GradientAnswer,
}

__all__ = ["SOLVERS", "Exact", "GradientAnswer", "Linearised", "LocalUpdates", "Memory", "Solver"]
