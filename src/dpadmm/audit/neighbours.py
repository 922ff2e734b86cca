"""Two records that are as far apart as a loss allows: the worst that a neighbour can do to a gradient.

They are looked for among a few rows at the norm bound and all kinds of targets, by the loss's own gradient at zero, so
a new loss has its canary without anybody writing one. Where the loss is linear around there, as the check loss with far
targets and the smoothed hinge are, the two gradients stay that far apart.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import FloatArray
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses.base import Loss
from dpadmm.problems.shards import Shards, gather

OVER = 8.0  # rows are handed in so many times longer than the bound: that they are clipped is audited as well
FAR = 1e6  # a target that no model comes near
CLASSES = {"binary": 2, "multiclass": 3, "regression": 0}

Record = tuple[FloatArray, Any]
"""A row, and a target as data sets have it."""


def worst_pair(
    loss: Loss, relation: Relation, norm: int, width: int, bound: float, one_axis: bool = False
) -> tuple[Record, Record]:
    """The canary, and what stands in its place in the neighbouring data set; on request, both along the first axis."""
    targets = range(CLASSES[loss.task]) if CLASSES[loss.task] else (-FAR, FAR)
    rows = _along_one_axis(width) if one_axis else _directions(width)
    known = [(row * bound, target) for row, target in itertools.product(rows, targets)]
    slopes = _gradients(loss, known, width, bound)
    if relation is Relation.ZERO_OUT:
        return known[int(_lengths(slopes, norm).argmax())], blank(known[0], width)
    apart = _lengths(slopes[:, None, :] - slopes[None, :, :], norm)
    one, other = np.unravel_index(int(apart.argmax()), apart.shape)
    return known[int(one)], known[int(other)]


def blank(record: Record, width: int) -> Record:
    """A record that weighs nothing: a row of zeros, whose gradient is zero for every loss."""
    return np.zeros(width), record[1]


def sheet(loss: Loss, owners: list[list[Record]], bound: float) -> Shards:
    """Records as an agent gets them, raw and too long: checked, clipped and encoded on the way."""
    records = [record for owned in owners for record in owned]
    owner = np.repeat(np.arange(len(owners)), [len(owned) for owned in owners])
    rows = np.stack([OVER * row for row, _ in records])
    targets = loss.encode(np.array([target for _, target in records]), CLASSES[loss.task])
    names = [f"agent {i}" for i in range(len(owners))]
    return gather(rows, targets, owner, norm_bound=bound, names=names)


def _directions(width: int) -> list[FloatArray]:
    """Along the first axis both ways, along the second, and the diagonal, which is longest in the 1-norm."""
    axes = np.eye(width)
    diagonal = np.ones(width) / np.sqrt(width)
    return [axes[0], -axes[0], *axes[1:2], diagonal, -diagonal]


def _along_one_axis(width: int) -> list[FloatArray]:
    axis = np.eye(width)[0]
    return [axis, -axis, 0.0 * axis]


def _gradients(loss: Loss, records: list[Record], width: int, bound: float) -> FloatArray:
    """Of each record, at zero."""
    shards = sheet(loss, [[record] for record in records], bound)
    zeros = np.zeros((len(records), loss.dimension(width, CLASSES[loss.task])))
    return loss.gradient(shards, zeros, np.ones(len(records)))


def _lengths(vectors: FloatArray, norm: int) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(vectors, ord=norm, axis=-1))
