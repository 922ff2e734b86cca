"""Where a subproblem's tilt, kappa and centre come from, and what happens with the answers.

Consensus sees releases and public values only: duals are computed from releases, never from private answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from dpadmm.admm.setting import Setting
from dpadmm.problems.shards import FloatArray


@dataclass(frozen=True, eq=False)
class Server:
    """What the server holds, one row per run: all of it made of releases."""

    common: FloatArray  # what was broadcast last
    dual: FloatArray  # the mean of the agents' duals, which nobody sends


class Consensus(ABC):
    """One round's exchange. `common` is what was broadcast last, one row per agent of the batch."""

    name: ClassVar[str]
    about: ClassVar[str]
    releases_models: ClassVar[bool] = True  # False where releases are gradients
    penalises: ClassVar[bool] = False  # the penalty is the server's business, and no agent's
    server_first: ClassVar[bool] = False  # duals move by the broadcast that was answered, not by the one that follows

    @abstractmethod
    def dual(self, rho: float, dual: FloatArray, released: FloatArray, common: FloatArray) -> FloatArray:
        """An agent's dual after a round, from its release and the broadcast that moves it."""

    @abstractmethod
    def terms(self, rho: float, dual: FloatArray, common: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Tilt (n, D), kappa (n, 1) and centre (n, D) of the subproblem."""

    @abstractmethod
    def combine(
        self, setting: Setting, server: Server, releases: FloatArray, *, eta: FloatArray, rho: float, next_rho: float
    ) -> Server:
        """The server after a round, from the releases (runs, agents, D) in agent order."""
