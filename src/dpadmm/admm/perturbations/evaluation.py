"""One estimate of a public model's error on an owner's own records: a one-off release, paid for like a round."""

from __future__ import annotations

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.base import RandomBits, Release
from dpadmm.admm.setting import Setting
from dpadmm.privacy.mechanisms import Mechanism
from dpadmm.problems.shards import Shards


def release_error(
    setting: Setting, mechanism: Mechanism, shards: Shards, models: FloatArray, random_bits: RandomBits
) -> Release:
    """The share of records that each agent's row of `models` gets wrong, with noise; (n, 1).

    Formal guarantee. Changing or zeroing one record moves a share by at most 1/m, a person's k records by k/m, in any
    norm of one dimension. One event of the mechanism.
    """
    share = setting.problem.loss.mistakes(shards, models) / setting.counts
    count = mechanism.words_needed(1)
    value = mechanism.add(share[:, None], setting.unit_size / setting.counts, random_bits("evaluation", count))
    return Release(value, mechanism.events())
