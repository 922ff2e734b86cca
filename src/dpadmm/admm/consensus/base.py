"""Where a subproblem's tilt, kappa and centre come from, and what happens with the answers.

Consensus sees releases and public values only: duals are computed from releases, never from private answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.rho import Rho
from dpadmm.admm.setting import Setting


@dataclass(frozen=True, eq=False)
class Server:
    """What the server holds, one row per run: all of it made of releases.

    Without a server it is what the nodes have heard, one row per run and node.
    """

    common: FloatArray  # what was broadcast last
    dual: FloatArray  # the mean of the agents' duals, which nobody sends
    point: FloatArray | None = None  # where it stands, if what it broadcasts looks ahead of that
    mean: FloatArray | None = None  # over the points so far, if that is what a run comes to

    def to_arrays(self) -> dict[str, FloatArray]:
        """As named arrays, for a checkpoint."""
        return {name: values for name, values in vars(self).items() if values is not None}


class Consensus(ABC):
    """One round's exchange. `common` is what an agent heard last, one row per agent of the batch."""

    name: ClassVar[str]
    about: ClassVar[str]
    releases_models: ClassVar[bool] = True  # False where releases are gradients
    penalises: ClassVar[bool] = False  # the penalty is the server's business, and no agent's
    server_first: ClassVar[bool] = False  # duals move by the broadcast that was answered, not by the one that follows
    decentralised: ClassVar[bool] = False  # True without a server: every agent hears its neighbours, and has a penalty
    can_skip: ClassVar[bool] = False  # True if the mean of some agents' releases can stand for that of all

    def check(self, setting: Setting) -> None:
        """Raises an `InputError` where the agents cannot talk to each other like this."""

    def kappa(self, setting: Setting, rho: Rho) -> FloatArray:
        """The curvature that the subproblem of each agent gets from the penalty; (n,)."""
        return np.full(setting.agents, rho, dtype=np.float64)

    @abstractmethod
    def dual(
        self, setting: Setting, rho: Rho, dual: FloatArray, released: FloatArray, common: FloatArray
    ) -> FloatArray:
        """An agent's dual after a round, from its release and the broadcast that moves it."""

    @abstractmethod
    def terms(
        self, setting: Setting, rho: Rho, dual: FloatArray, released: FloatArray, common: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Tilt (n, D), kappa (n, 1) and centre (n, D) of the subproblem; `released` is each agent's last release."""

    @abstractmethod
    def combine(
        self,
        setting: Setting,
        server: Server,
        releases: FloatArray,
        *,
        round: int,
        eta: FloatArray,
        rho: Rho,
        next_rho: Rho,
    ) -> Server:
        """What follows a round, from the releases (runs, agents, D) in agent order."""

    def opening(self, setting: Setting, first: FloatArray, runs: int) -> Server:
        """What is heard before round one, from where the agents begin (n, D): their mean."""
        mean = first.mean(axis=0)
        return Server(np.tile(mean, (runs, 1)), np.zeros((runs, mean.size)))

    def model(self, server: Server, releases: FloatArray) -> FloatArray:
        """What a run has come to, (runs, D): the last broadcast."""
        return server.common
