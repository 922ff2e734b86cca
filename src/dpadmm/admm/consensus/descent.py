"""A server and n agents without duals: distributed gradient descent (theory 3.5), which releases gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.consensus.base import Consensus, Server
from dpadmm.admm.rho import Rho
from dpadmm.admm.setting import Setting


@dataclass(frozen=True)
class Descent(Consensus):
    """z <- Π_W[ z - eta (mean of the released gradients + strength R'(z)) ]; eta is the learning rate."""

    name = "descent"
    about = "a server steps along the mean of the released gradients; no duals"
    releases_models = False
    can_skip = True

    def kappa(self, setting: Setting, rho: Rho) -> FloatArray:
        return np.zeros(setting.agents)

    def dual(
        self, setting: Setting, rho: Rho, dual: FloatArray, released: FloatArray, common: FloatArray
    ) -> FloatArray:
        return dual

    def terms(
        self, setting: Setting, rho: Rho, dual: FloatArray, released: FloatArray, common: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        return np.zeros_like(common), self.kappa(setting, rho)[:, None], common

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
        problem = setting.problem
        slope = releases.mean(axis=1) + problem.strength * problem.penalty.gradient(server.common)
        return replace(server, common=problem.domain.shared().project(server.common - eta.mean() * slope))
