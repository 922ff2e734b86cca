"""One estimate of a public model's error on an owner's own records: a one-off release, paid for like a round."""

from __future__ import annotations

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.base import RandomBits, Release
from dpadmm.admm.setting import Setting
from dpadmm.privacy.mechanisms import Mechanism
from dpadmm.problems.shards import Shards
from dpadmm.release.perturb import add_noise
from dpadmm.release.sums import COARSE_BITS


def release_error(
    setting: Setting, mechanism: Mechanism, shards: Shards, models: FloatArray, random_bits: RandomBits
) -> Release:
    """The share of records that each agent's row of `models` gets wrong, with noise; (n, 1).

    Formal guarantee. Changing or zeroing one record moves the count of mistakes by at most 1, a person's k records
    by k, in any norm of one dimension; a mistake is 2^30 units of the lattice. One event of the mechanism.
    """
    wrong = setting.problem.loss.mistakes(shards, models)
    noisy = add_noise(
        wrong[:, None] << COARSE_BITS, mechanism, setting.unit_size << COARSE_BITS, random_bits("evaluation")
    )
    return Release(np.ldexp(noisy, -COARSE_BITS) / setting.counts[:, None], mechanism.events())
