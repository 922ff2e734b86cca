"""Where a subproblem's tilt, kappa and centre come from, and what happens with the answers.

Consensus sees releases and public values only: duals are computed from releases, never from private answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from dpadmm.admm.setting import Setting
from dpadmm.problems.shards import FloatArray


class Consensus(ABC):
    """One round's exchange. `common` is what was broadcast last, one row per agent of the batch."""

    name: ClassVar[str]
    about: ClassVar[str]
    releases_models: ClassVar[bool] = True  # False where releases are gradients

    @abstractmethod
    def dual(self, setting: Setting, dual: FloatArray, released: FloatArray, common: FloatArray) -> FloatArray:
        """An agent's dual once it knows what its release was combined to."""

    @abstractmethod
    def terms(
        self, setting: Setting, dual: FloatArray, common: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Tilt (n, D), kappa (n, 1) and centre (n, D) of the subproblem."""

    @abstractmethod
    def combine(self, setting: Setting, common: FloatArray, releases: FloatArray, eta: FloatArray) -> FloatArray:
        """The next broadcast (runs, D), from the last one and the releases (runs, agents, D), in agent order."""
