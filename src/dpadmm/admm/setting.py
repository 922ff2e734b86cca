"""What everybody knows before round one. Nothing in it depends on the value of any record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.admm.topology.graph import Topology
from dpadmm.errors import InputError, unknown
from dpadmm.privacy.relations import Relation
from dpadmm.problems.penalties import NoPenalty
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import PRECISIONS

# Norms of clipped rows and single products are rounded: a few units of the last place, widened by far more. What
# whole sums can lose is counted apart (`Loss.summation_error`).
ROUNDING = 1.0 + 1e-9


@dataclass(frozen=True, eq=False)
class Setting:
    """The public terms of a run; per-agent arrays have one entry per agent of the batch."""

    problem: Problem
    counts: IntArray  # records per agent, public under both relations
    dimension: int
    norm_bound: float
    relation: Relation
    rounds: int
    rho: float = 0.1  # ADMM's penalty, or what its schedule starts from
    radius: float = 100.0  # a public guess of |x*| (the papers' c_w); enters step sizes, never the privacy proof
    unit_size: int = 1  # records that are protected together: those of one person, at most
    width: int | None = None  # columns of a record; None: as many as coefficients
    precision: str = "float64"  # of the records and of sums over them
    graph: Topology | None = None  # who talks to whom, where there is no server
    members: IntArray = None  # type: ignore[assignment]  # positions among all agents; None: these are all of them

    def __post_init__(self) -> None:
        if self.members is None:
            object.__setattr__(self, "members", np.arange(self.counts.size))
        if self.rounds < 1:
            raise InputError(f"rounds {self.rounds}: at least one round is needed.")
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        if self.precision == "float32" and not self.norm_bound <= 1e6:
            raise InputError(f"norm bound {self.norm_bound:g}: records in float32 need one of at most 1e6.")
        if self.unit_size < 1:
            raise InputError(f"records per person {self.unit_size}: at least one.")
        for name, value in (("rho", self.rho), ("radius", self.radius), ("norm bound", self.norm_bound)):
            if not (np.isfinite(value) and value > 0):
                raise InputError(f"{name} {value!r}: must be a positive number.")

    @property
    def agents(self) -> int:
        return self.counts.size

    @property
    def degrees(self) -> FloatArray:
        """How many neighbours each agent has on the graph."""
        assert self.graph is not None
        return self.graph.degrees[self.members].astype(np.float64)

    @property
    def weights(self) -> FloatArray:
        """The weight of one record in its agent's objective."""
        return self.problem.weights(self.counts)

    def row_bound(self, norm: int) -> float:
        """How long a row can be in this norm; the enforced bound is Euclidean."""
        return self.norm_bound * (np.sqrt(self.width or self.dimension) if norm == 1 else 1.0)

    def gradient_sensitivity(self, norm: int = 2) -> FloatArray:
        """How far one unit (a record, or a person's records) can move an agent's gradient, in this norm.

        Two neighbours' sums are rounded apart by at most twice what a sum can lose; that is added.
        """
        loss, bound = self.problem.loss, self.row_bound(norm)
        unit = self.unit_size * loss.sensitivity(bound, self.relation, norm) * ROUNDING
        lost = 2.0 * self.counts * loss.gradient_bound(bound, norm) * loss.summation_error(self.counts, self.precision)
        return self.weights * (unit + lost)

    @property
    def gradient_bound(self) -> FloatArray:
        """c_1: how long the data part of an agent's gradient can be."""
        return self.weights * self.counts * self.problem.loss.gradient_bound(self.norm_bound)

    @property
    def smoothness(self) -> FloatArray | None:
        """L_f of each agent's objective, from public bounds; None where it has a kink."""
        bend = self.problem.loss.curvature_bound(self.norm_bound)
        if bend is None or not self.problem.smooth:
            return None
        return self.weights * self.counts * bend + self.problem.strength * (self.problem.penalty.curvature or 0.0)

    def without_penalty(self) -> Setting:
        """The same terms with the losses alone."""
        return replace(self, problem=replace(self.problem, penalty=NoPenalty(), strength=0.0))

    def take(self, agents: Any) -> Setting:
        """The same terms for these agents only."""
        return replace(
            self, counts=self.counts[agents], problem=self.problem.take(agents), members=self.members[agents]
        )
