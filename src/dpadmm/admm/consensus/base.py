"""Where a subproblem's tilt, kappa and centre come from, and what happens with the answers.

Consensus sees releases and public values only: duals are computed from releases, never from private answers. Here too:
a server and n agents, that is consensus ADMM, agents first (theory 3.1) or server first (theory 4.1), or the penalty at
the server (theory 5.1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
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

    @property
    def by_edge(self) -> bool:
        """Whether penalties are those of edges, so that an agent needs all nodes' numbers: rho is then of all nodes."""
        return False

    def heard(self, setting: Setting, releases: FloatArray, rho: Rho) -> FloatArray:
        """Without a server: what every node hears after a round, from all releases (..., nodes, D)."""
        raise NotImplementedError(f"consensus {self.name!r} has a server.")

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


@dataclass(frozen=True)
class Star(Consensus):
    """Tilt = -dual, kappa = rho, centre = z; the server averages.

    The server's step is mean(x) - mean(y)/rho, but from y = 0 the duals always sum to zero (theory 3.1), so the mean of
    the releases is all of it and no dual is ever sent.
    """

    name = "star"
    about = "a server averages the releases; every agent keeps a dual"
    can_skip = True  # who is away keeps its dual, and so they still sum to zero

    def dual(
        self, setting: Setting, rho: Rho, dual: FloatArray, released: FloatArray, common: FloatArray
    ) -> FloatArray:
        return dual - rho * (released - common)

    def terms(
        self, setting: Setting, rho: Rho, dual: FloatArray, released: FloatArray, common: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        return -dual, self.kappa(setting, rho)[:, None], common

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
        return replace(server, common=releases.mean(axis=1))


@dataclass(frozen=True)
class ServerFirst(Star):
    """The server moves first in a round: z = mean(x - y/rho), then x, then y <- y + rho (z - x) on both sides.

    Here the duals do not sum to zero. The server needs their mean only, and computes it like the agents do theirs, from
    releases and broadcasts.
    """

    name = "server-first"
    about = "as the star, but the server moves first and keeps the mean of the duals, which is never sent"
    server_first = True
    can_skip = False  # the server's mean of all duals would have to know who moved

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
        mean = releases.mean(axis=1)
        dual = self.dual(setting, rho, server.dual, mean, server.common)
        return Server(mean - dual / next_rho, dual)


@dataclass(frozen=True)
class PenalisedStar(Star):
    """Agents see their losses alone; the server applies the penalty, by its prox (theory 5.1 step 2).

    z = argmin n strength R(z) + sum of <y_i, z> + (rho/2)|x_i - z|², that is the prox of mean(x - y/rho). The duals do
    not sum to zero; the server needs their mean only, and computes it like the agents do theirs.
    """

    name = "penalised-star"
    about = "as the star, but the penalty is applied by the server, through its prox"
    penalises = True
    can_skip = False  # as above

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
        problem, mean = setting.problem, releases.mean(axis=1)
        common = problem.penalty.prox(mean - server.dual / rho, problem.strength / rho)
        return Server(common, self.dual(setting, rho, server.dual, mean, common))
