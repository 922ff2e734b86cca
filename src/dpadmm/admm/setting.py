"""What everybody knows before round one: the terms, how much noise was asked for, and what it came to.

Nothing in it depends on the value of any record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm._ranges import COUNTS, DELTAS, ENTRIES, PLACES, RANGE, SIZES, SIZES_OR_ZERO, check_ranges, ranged
from dpadmm.admm.topology.graph import Topology
from dpadmm.errors import InputError
from dpadmm.privacy.calibration import Budget, classic_multiplier
from dpadmm.privacy.events import DpEvent, Relation
from dpadmm.privacy.mechanisms import Gaussian, Mechanism
from dpadmm.problems.penalties import NoPenalty
from dpadmm.problems.problem import Problem
from dpadmm.release.sums import Bounds, Query


@dataclass(frozen=True, eq=False)
class Setting:
    """The public terms of a run; per-agent arrays have one entry per agent of the batch."""

    problem: Problem
    counts: IntArray = field(metadata={RANGE: COUNTS})  # records per agent, public under both relations
    dimension: int = field(metadata={RANGE: COUNTS})
    norm_bound: float = field(metadata={RANGE: SIZES})
    relation: Relation
    rounds: int = field(metadata={RANGE: COUNTS})
    rho: float = ranged(SIZES, 0.1)  # ADMM's penalty, or what its schedule starts from
    radius: float = ranged(SIZES, 100.0)  # a public guess of |x*| (the papers' c_w); enters step sizes, never the proof
    unit_size: int = ranged(COUNTS, 1)  # records that are protected together: those of one person, at most
    width: int | None = ranged(COUNTS, None)  # columns of a record; None: as many as coefficients
    graph: Topology | None = None  # who talks to whom, where there is no server
    start: FloatArray | None = ranged(ENTRIES, None)  # (D,) a public model that all agents begin at; None: zeros
    louder: FloatArray | None = ranged(
        SIZES, None, axes=2
    )  # (times or 1, n) noise of each time a phase comes, while it is calibrated
    members: IntArray = ranged(PLACES, None)  # positions among all agents; None: these are all of them

    def __post_init__(self) -> None:
        if self.members is None:
            object.__setattr__(self, "members", np.arange(self.counts.size))
        check_ranges(self, "setting")
        if not isinstance(self.relation, Relation):  # the name of one would count as the other
            raise InputError(f"setting: relation = {self.relation!r} must be a Relation; Relation.parse reads names.")
        if self.start is not None and self.start.size != self.dimension:
            raise InputError(f"setting: a start of {self.start.size} numbers for models of {self.dimension}.")
        if self.members.size != self.counts.size:
            raise InputError(f"setting: {self.members.size} members for {self.counts.size} counts; one for each agent.")

    @property
    def agents(self) -> int:
        return self.counts.size

    @property
    def degrees(self) -> FloatArray:
        """How many neighbours each agent has on the graph."""
        assert self.graph is not None
        return self.graph.degrees[self.members].astype(np.float64)

    def of_all_nodes(self) -> Setting:
        """The same terms for every node of the graph, as far as rules look at places alone: counts are not theirs."""
        assert self.graph is not None
        nodes = self.graph.nodes
        return replace(self, counts=np.ones(nodes, dtype=np.int64), members=np.arange(nodes), louder=None)

    @property
    def weights(self) -> FloatArray:
        """The weight of one record in its agent's objective."""
        return self.problem.weights(self.counts)

    @property
    def columns(self) -> int:
        """How many numbers a row has."""
        return self.width or self.dimension

    @cached_property
    def query(self) -> Query:
        """The sum over records that gradients are made of."""
        return self.problem.loss.query(self.dimension // self.columns)

    @cached_property
    def bounds(self) -> Bounds:
        """What is enforced of every record's contribution to that sum."""
        return self.query.bounds(self.columns, self.norm_bound)

    def sensitivity(self, norm: int = 2) -> float:
        """How far one unit (a record, or a person's records) can move that sum, in units of its lattice."""
        return self.bounds.sensitivity(self.relation is Relation.REPLACE, norm, self.unit_size)

    def gradient_sensitivity(self, norm: int = 2) -> FloatArray:
        """How far one unit can move an agent's gradient, in this norm; the sum's numbers may be of different worth."""
        worth = float(np.max(self.query.units(self.columns, self.norm_bound)))
        return self.weights * (worth * self.sensitivity(norm))

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
            self,
            counts=self.counts[agents],
            problem=self.problem.take(agents),
            louder=None if self.louder is None else self.louder[:, agents],
            members=self.members[agents],
        )


@dataclass(frozen=True)
class TotalBudget:
    """The normal request: what the whole run may cost, for all agents alike or for each."""

    budgets: tuple[Budget, ...]

    @property
    def delta(self) -> float:
        return min(budget.delta for budget in self.budgets)

    def of_each(self, agents: int) -> Sequence[Budget]:
        if len(self.budgets) not in (1, agents):
            raise InputError(f"{len(self.budgets)} budgets for {agents} agents: give one, or one for each.")
        return self.budgets * agents if len(self.budgets) == 1 else self.budgets


@dataclass(frozen=True)
class PaperNoise:
    """The papers' request, for reproductions: (epsilon, delta) of every single step, or in 002 of the whole run."""

    per_step: Budget

    @property
    def delta(self) -> float:
        return self.per_step.delta


@dataclass(frozen=True)
class Density:
    """003's request: noise of density exp(-alpha |.|), alpha for all agents alike or for each; the total follows."""

    alphas: tuple[float, ...] = ranged(SIZES)
    delta: float = ranged(DELTAS, 1e-6)  # as in a multiplier

    def __post_init__(self) -> None:
        check_ranges(self, "density")

    def of_each(self, agents: int) -> FloatArray:
        if len(self.alphas) not in (1, agents):
            raise InputError(f"{len(self.alphas)} alphas for {agents} agents: give one, or one for each.")
        return np.broadcast_to(np.asarray(self.alphas, dtype=np.float64), (agents,))


@dataclass(frozen=True)
class Multiplier:
    """Noise in units of the sensitivity; 0 makes a private recipe its own twin, and the account says non-private."""

    value: float = ranged(SIZES_OR_ZERO)
    delta: float = ranged(DELTAS, 1e-6)  # for rules that count a step's epsilon as the papers do; it enters no proof

    def __post_init__(self) -> None:
        check_ranges(self, "noise multiplier")


NoiseRequest = TotalBudget | PaperNoise | Density | Multiplier


@dataclass(frozen=True, eq=False)
class NoiseLevel:
    """How loud the noise is, for the rules that set steps and penalties. A twin keeps it and adds none."""

    sigma: FloatArray  # (n,) standard deviation of a coordinate, as the gradient sees it
    epsilon: float  # of one step at the most cautious agent, as the papers count it; infinite without noise
    slope: float = 1.0  # no agent's gradient is longer, as far as records go
    diameter: float = np.inf  # of the largest agent's set
    steps: int = 1  # in a round
    spread: FloatArray | None = None  # (n,) of gradients of mini-batches, in the mean square; None: whole gradients
    together: float = -1.0  # of a coordinate of the mean of all agents' gradients; negative: as sigma has it

    def __post_init__(self) -> None:
        if self.together < 0.0:
            object.__setattr__(self, "together", math.sqrt(float((self.sigma**2).sum())) / max(1, self.sigma.size))

    def take(self, agents: Any) -> NoiseLevel:
        """The rows of these agents; the rest is the same for all, because all must use the same penalties."""
        return replace(self, sigma=self.sigma[agents], spread=None if self.spread is None else self.spread[agents])


def step_epsilon(mechanism: Mechanism, delta: float) -> float:
    """What the papers would call the epsilon of one step: classic for Gaussian noise, else the pure one."""
    loudest = float(mechanism.noise_multiplier.max(initial=0.0))
    if loudest == 0.0:
        return np.inf
    return (classic_multiplier(1.0, delta) if isinstance(mechanism, Gaussian) else 1.0) / loudest


@dataclass(frozen=True, eq=False)
class Noise:
    """A resolved request: what one phase draws each round, and what that costs every agent. One row per agent."""

    mechanism: Mechanism
    events: tuple[DpEvent, ...]
    output: Mechanism | None = None  # objective perturbation's cover for an inexact minimiser
    curvature: FloatArray | None = None  # objective perturbation's extra quadratic term
    anchor: Mechanism | None = None  # of the whole gradient that mini-batches correct, where it has noise of its own
    course: tuple[Noise, ...] = ()  # one for each time the phase comes, where they differ; all else is of the first

    def at(self, time: int) -> Noise:
        """What is drawn when the phase comes for the k-th time, k = 1, 2, ..."""
        return self.course[time - 1] if self.course else self

    def take(self, agents: Any) -> Noise:
        """The rows of these agents."""
        return replace(
            self,
            mechanism=self.mechanism.take(agents),
            events=tuple(self.events[i] for i in agents),
            output=None if self.output is None else self.output.take(agents),
            curvature=None if self.curvature is None else self.curvature[agents],
            anchor=None if self.anchor is None else self.anchor.take(agents),
            course=tuple(noise.take(agents) for noise in self.course),
        )
