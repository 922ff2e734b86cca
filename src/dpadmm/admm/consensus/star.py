"""A server and n agents: consensus ADMM, agents first (theory 3.1) or server first (theory 4.1), or
the penalty at the server (theory 5.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpadmm._arrays import FloatArray
from dpadmm.admm.consensus.base import Consensus, Server
from dpadmm.admm.rho import Rho
from dpadmm.admm.setting import Setting


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
