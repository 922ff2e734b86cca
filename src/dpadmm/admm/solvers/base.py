"""How a subproblem is solved, and what a solver must say of itself so that a privacy lemma can be made of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from dpadmm.admm.setting import Setting
from dpadmm.admm.subproblem import Subproblem
from dpadmm.problems.shards import FloatArray

Oracle = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Memory:
    """What a solver carries from round to round. `private` never leaves the agent."""

    point: FloatArray
    private: Mapping[str, FloatArray] = field(default_factory=dict)


class Solver(ABC):
    """Solves the subproblems of a batch of agents.

    A solver that is `first_order` reaches the records through the oracle it is given and through nothing else: with a
    noisy oracle all it computes is post-processing. Any other solver sees the records themselves, and only a
    perturbation of its output or of its objective makes its answer a release.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    first_order: ClassVar[bool]
    tolerance: float = 0.0  # the answer's gradient is no longer than this; privacy lemmas pay for it

    def check(self, setting: Setting) -> None:
        """Raises an `InputError` that says what this solver needs and the problem lacks."""

    def start(self, agents: int, dimension: int) -> Memory:
        """Where round one begins: zeros, independent of data."""
        return Memory(np.zeros((agents, dimension)))

    @abstractmethod
    def solve(
        self, subproblem: Subproblem, oracle: Oracle, memory: Memory, eta: FloatArray
    ) -> tuple[FloatArray, Memory]:
        """The answers, and what to remember. `oracle` gives the gradient of the loss, `eta` is (n, 1)."""

    @abstractmethod
    def gain(self, setting: Setting, kappa: FloatArray, eta: FloatArray) -> FloatArray:
        """How far an answer moves at most per unit of change in its agent's gradient; (n,)."""

    def released(self, memory: Memory, value: FloatArray) -> Memory:
        """What to remember once `value` has been released in place of the answer."""
        return replace(memory, point=value)
