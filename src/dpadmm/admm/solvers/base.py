"""How a subproblem is solved, and what a solver must say of itself so that a privacy lemma can be made of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dpadmm._arrays import FloatArray, WordArray
from dpadmm.admm.setting import Setting
from dpadmm.admm.subproblem import Subproblem

Oracle = Callable[[FloatArray], FloatArray]
"""The gradient of the loss at a point; exact, or with noise on it."""

RandomBits = Callable[[str, int], WordArray]
"""Words for this batch of agents and this round, by purpose and count: what noise and mini-batches are drawn with."""

Emit = Callable[[FloatArray], FloatArray]
"""What becomes of a step's result before anything else is done with it: itself, or itself with noise on it."""


def as_it_is(value: FloatArray) -> FloatArray:
    return value


@dataclass(frozen=True, eq=False)
class Trail:
    """What the last round has left in public: the release, and the gradient there that it gives away."""

    released: FloatArray
    slope: FloatArray


@dataclass(frozen=True, eq=False)
class Memory:
    """What a solver carries from round to round. `private` never leaves the agent."""

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

    def gradients(self, subproblem: Subproblem, random_bits: RandomBits, on_anchor: Emit = as_it_is) -> Oracle:
        """How this solver looks at the records: by whole gradients, unless it says otherwise. What it keeps of them
        from step to step goes through `on_anchor` first."""
        return subproblem.loss_gradient

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
