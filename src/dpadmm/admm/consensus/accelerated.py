"""Gradient descent with Nesterov's momentum and a mean of its steps. Both are the server's, and made of releases.

A linearised ADMM step at the broadcast z is x_i = z - eta' (g_i - y_i), and duals that begin at zero sum to zero for
ever; so the mean of the releases is z - eta' mean(g_i), and gradients are all that agents need to release.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._fields import option
from dpadmm._ranges import PublicRange, check_ranges
from dpadmm.admm.consensus.base import Server
from dpadmm.admm.consensus.descent import Descent
from dpadmm.admm.rho import Rho
from dpadmm.admm.setting import Setting


@dataclass(frozen=True)
class Accelerated(Descent):
    """w <- Π_W[ z - (1 - momentum) eta (mean of the released gradients + strength R'(z)) ], and agents are asked at
    z = w + momentum (w - w before). The model is the mean of all w so far, the k-th of them counted k times.

    With (1 - momentum) in it, eta is how far all that a gradient sets in motion goes, whatever the momentum.
    """

    momentum: float = option(
        0.8,
        help="Nesterov's momentum at the server of dp-accelerated.",
        panel="Algorithm",
        within=PublicRange(0.0, 1.0 - 1e-6),
    )

    name = "accelerated"
    about = "as descent, with Nesterov's momentum and a mean in which later steps count more; no duals"

    def __post_init__(self) -> None:
        check_ranges(self, f"consensus {self.name!r}")

    def opening(self, setting: Setting, first: FloatArray, runs: int) -> Server:
        begun = super().opening(setting, first, runs)
        return Server(begun.common, np.zeros_like(begun.dual), begun.common, begun.common)

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
        assert server.point is not None
        assert server.mean is not None
        step = (1.0 - self.momentum) * eta
        stepped = super().combine(setting, server, releases, round=round, eta=step, rho=rho, next_rho=next_rho)
        point = stepped.common
        ahead = point + self.momentum * (point - server.point)
        return Server(ahead, server.dual, point, server.mean + 2.0 / (round + 1) * (point - server.mean))

    def model(self, server: Server, releases: FloatArray) -> FloatArray:
        assert server.mean is not None
        return server.mean
