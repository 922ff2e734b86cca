"""What every agent solves each round, exactly or roughly,

minimise over x in W :   f_i(x) + <tilt_i, x> + (kappa_i / 2) |x - centre_i|²

and what a solver must say of itself so that a privacy lemma can be made of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.admm.setting import Setting
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import ConvexSet
from dpadmm.problems.shards import Shards
from dpadmm.release.random_bits import Stream
from dpadmm.release.sums import Query, Total


@dataclass(frozen=True, eq=False)
class Subproblem:
    """The subproblems of a batch of agents; one row of every array per agent."""

    problem: Problem
    shards: Shards
    weights: FloatArray  # (n,)
    tilt: FloatArray  # (n, D)
    kappa: FloatArray  # (n, 1)
    centre: FloatArray  # (n, D)

    @property
    def smoothness(self) -> FloatArray | None:
        """L of everything but the penalty, from public bounds; (n, 1), None where the loss has kinks."""
        bend = self.problem.loss.curvature_bound(self.shards.norm_bound)
        return None if bend is None else (self.weights * self.shards.counts * bend)[:, None] + self.kappa

    def value(self, x: FloatArray) -> FloatArray:
        """The objective of each agent; (n,)."""
        problem, apart = self.problem, x - self.centre
        data = problem.loss.values(self.shards, x, self.weights) + problem.strength * problem.penalty.value(x)
        return data + (self.tilt * x + self.kappa / 2.0 * apart * apart).sum(axis=1)

    def loss_gradient(self, x: FloatArray) -> FloatArray:
        """The part that touches records, in doubles: for minimisers. First-order steps take `total`."""
        return self.problem.loss.gradient(self.shards, x, self.weights)

    @property
    def query(self) -> Query:
        """What a record contributes to gradients as they are released."""
        return self.problem.loss.query(self.tilt.shape[1] // self.shards.width)

    def total(self, x: FloatArray) -> Total:
        """The sums of gradients over the agents' records as they are released: integers, without weights."""
        return self.query.total(self.shards, x)

    def penalty_gradient(self, x: FloatArray) -> FloatArray:
        return self.problem.strength * self.problem.penalty.gradient(x)

    def smooth_gradient(self, x: FloatArray) -> FloatArray:
        """Gradient of everything but the penalty."""
        return self.loss_gradient(x) + self.tilt + self.kappa * (x - self.centre)

    def gradient(self, x: FloatArray) -> FloatArray:
        """Gradient of the whole objective, for penalties that have one."""
        return self.completed(self.loss_gradient(x), x)

    def completed(self, loss_gradient: FloatArray, x: FloatArray) -> FloatArray:
        """The same, from the part that touches records."""
        return loss_gradient + self.tilt + self.kappa * (x - self.centre) + self.penalty_gradient(x)

    def hessian(self, x: FloatArray) -> FloatArray:
        curvature = self.kappa + self.problem.strength * self.problem.penalty.curvatures(x)
        hessian = self.problem.loss.hessian(self.shards, x, self.weights)
        return hessian + curvature[:, :, None] * np.eye(x.shape[1])

    def tilted(self, extra: FloatArray) -> Subproblem:
        """With one more linear term."""
        return replace(self, tilt=self.tilt + extra)

    def stiffened(self, curvature: FloatArray) -> Subproblem:
        """With (curvature/2)|x|² added, folded into the quadratic term that is there."""
        kappa = self.kappa + curvature[:, None]
        # The quotient first: it is 1 for an agent without extra curvature, whose problem must not change by a bit.
        return replace(self, kappa=kappa, centre=self.centre * (self.kappa / kappa))

    def rounded(self, width: float) -> Subproblem:
        """With the kinks of loss and penalty rounded over a half-width."""
        return replace(self, problem=self.problem.rounded(width))

    def slack(self, x: FloatArray) -> FloatArray:
        """How far the gradient of a rounded problem is from a subgradient of the one with kinks; (n,)."""
        data = self.problem.loss.slack(self.shards, x, self.weights)
        return data + self.problem.strength * self.problem.penalty.slack(x)

    def take(self, agents: Any) -> Subproblem:
        """The subproblems of these agents."""
        return replace(
            self,
            problem=self.problem.take(agents),
            shards=self.shards.take(agents),
            weights=self.weights[agents],
            tilt=self.tilt[agents],
            kappa=self.kappa[agents],
            centre=self.centre[agents],
        )


Oracle = Callable[[FloatArray], FloatArray]
"""The gradient of the loss at a point; exact, or with noise on it."""

RandomBits = Callable[[str], Stream]
"""Random bits for this batch of agents and this round, by purpose: what noise and mini-batches are drawn with."""


class Randomness(Protocol):
    """Where random bits come from; row b belongs to agent `agents[b]` in repetition `runs[b]`."""

    @property
    def simulated(self) -> bool:
        """True if the bits can be repeated, so that noise made of them protects nobody."""

    def stream(self, runs: IntArray, agents: IntArray, round: int, purpose: str) -> Stream:
        """The streams of a batch. Whatever is drawn twice in a round has two purposes."""


@dataclass(frozen=True, eq=False)
class Sum:
    """A sum over records on the lattice that noise is added on.

    counts: (n, D) integers.
    units: What one of them is worth, for each agent and, where numbers differ, for each number.
    finer: (n,) units of this lattice to one of the lattice of whole gradients, which sensitivities are stated in.
    """

    counts: IntArray
    units: FloatArray
    finer: FloatArray | float = 1.0

    @property
    def value(self) -> FloatArray:
        """The sum without noise."""
        return self.counts * self.units


Sums = Callable[[FloatArray], Sum]
"""The sum over records at a point."""

Emit = Callable[[FloatArray], FloatArray]
"""What becomes of a step's result before anything else is done with it: itself, or itself with noise on it."""


def whole_units(setting: Setting, subproblem: Subproblem) -> FloatArray:
    """What one unit of the lattice of whole gradients is worth to each agent; (n, 1) or (n, D)."""
    units = np.atleast_1d(setting.query.units(setting.columns, setting.norm_bound))
    return np.asarray(subproblem.weights[:, None] * units)


def lengths(vectors: FloatArray) -> FloatArray:
    """(n,)"""
    return np.linalg.norm(vectors, axis=1)


def slope_lengths(subproblem: Subproblem, point: FloatArray) -> FloatArray:
    """How long a gradient of loss and penalty can be at a public point, noise aside; (n,)."""
    shards, loss = subproblem.shards, subproblem.problem.loss
    bound = subproblem.weights * shards.counts * loss.gradient_bound(shards.row_bound)
    return bound + lengths(subproblem.penalty_gradient(point))


def projection(domain: ConvexSet, emit: Emit) -> Callable[[FloatArray], FloatArray]:
    """How a step's result comes into the set: a point that has no noise yet by a projection that is proved, or by none,
    since the noise that follows pays for that; one that has noise always."""
    return domain.project_always if emit is as_it_is else domain.project


def as_it_is(value: FloatArray) -> FloatArray:
    return value


@dataclass(frozen=True, eq=False)
class Trail:
    """What the last round has left in public: the release, and the gradient there that it gives away."""

    released: FloatArray
    slope: FloatArray


@dataclass(frozen=True, eq=False)
class Memory:
    """What a solver carries from round to round.

    point: Where a first-order step starts: public. Of a solver that is not first-order it is what was released.
    private: Never leaves the agent, and reaches no first-order solver.
    """

    point: FloatArray
    private: Mapping[str, FloatArray] = field(default_factory=dict)
    trail: Trail | None = None  # laid for a solver that reads no records, and for no other


class Solver(ABC):
    """Solves the subproblems of a batch of agents.

    A solver that is `first_order` reaches the records through the oracle it is given and through nothing else: with a
    noisy oracle all it computes is post-processing. Any other solver sees the records themselves, and only a
    perturbation of its output or of its objective makes its answer a release. Every solver asks its oracle, and passes
    its results through `emit`, at most `steps` times a round; that is how often a round is paid for.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    first_order: ClassVar[bool]
    reads_records: ClassVar[bool] = True  # False where the answer is made of what was released before
    sampled: ClassVar[bool] = False  # True where a gradient is made of some of the records, drawn by chance
    tolerance: float = 0.0  # the answer's gradient is no longer than this; privacy lemmas pay for it

    @property
    def steps(self) -> int:
        return 1

    def check(self, setting: Setting) -> None:
        """Raises an `InputError` that says what this solver needs and the problem lacks."""

    def check_step(self, setting: Setting, kappa: FloatArray, eta: FloatArray) -> None:
        """Raises an `InputError` where a step of this size (n,) does not converge."""

    def sums(self, setting: Setting, subproblem: Subproblem, random_bits: RandomBits) -> Sums:
        """How this solver looks at the records: by sums over all of them, unless it says otherwise."""
        units = whole_units(setting, subproblem)

        def at(point: FloatArray) -> Sum:
            return Sum(subproblem.total(point).rounded(setting.bounds.shift), units)

        return at

    def size(self, subproblem: Subproblem, point: FloatArray, eta: FloatArray) -> FloatArray:
        """Of the numbers that a step from a public point adds up, in the units of its result; (n,). What rounding them
        can do to a result is a small multiple of it."""
        return np.full(len(point), np.inf)

    def spread(self, setting: Setting) -> FloatArray:
        """A bound on how far, in the mean square, its gradients are from the whole ones; (n,)."""
        return np.zeros(setting.agents)

    def start(self, point: FloatArray) -> Memory:
        """Where round one begins: a public point of the set."""
        return Memory(point)

    @abstractmethod
    def solve(
        self, subproblem: Subproblem, oracle: Oracle, memory: Memory, eta: FloatArray, emit: Emit = as_it_is
    ) -> tuple[FloatArray, Memory]:
        """The answers, made of what `emit` gave back, and what to remember; `eta` is (n, 1)."""

    @abstractmethod
    def gain(self, setting: Setting, kappa: FloatArray, eta: FloatArray) -> FloatArray:
        """How far an answer moves at most per unit of change in its agent's gradient; (n,)."""
