"""A server and n agents: consensus ADMM, agents first (spec 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm.admm.consensus.base import Consensus
from dpadmm.admm.setting import Setting
from dpadmm.problems.shards import FloatArray


@dataclass(frozen=True)
class Star(Consensus):
    """Tilt = -dual, kappa = rho, centre = z; the server averages.

    The server's step is mean(x) - mean(y)/rho, but from y = 0 the duals always sum to zero (spec 3.1), so the mean of
    the releases is all of it and no dual is ever sent.
    """

    name = "star"
    about = "a server averages the releases; every agent keeps a dual"

    def dual(self, setting: Setting, dual: FloatArray, released: FloatArray, common: FloatArray) -> FloatArray:
        return dual - setting.rho * (released - common)

    def terms(
        self, setting: Setting, dual: FloatArray, common: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        return -dual, np.full((dual.shape[0], 1), setting.rho), common

    def combine(self, setting: Setting, common: FloatArray, releases: FloatArray, eta: FloatArray) -> FloatArray:
        return releases.mean(axis=1)
