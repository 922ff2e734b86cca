"""An attack that knows nothing of recipes, noise or records: it looks at the bytes that left, and learns.

It is weak where noise is what it should be, and strong where something leaves that should not: a bit of a number, a
number that two rounds have in common, a value without noise. The likelihood looks only for what a lemma speaks of.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpadmm._arrays import FloatArray, IntArray

BINS = 256  # of a feature: the values of a byte
_WIDTHS = 32  # of these for numbers, with as many transcripts in each
_SURE = 5.0  # standard errors by which a feature must tell the two data sets apart on transcripts of its own


def written(values: FloatArray, count: int) -> FloatArray:
    """The bytes of each row of `values`, as numbers from 0 to 255; rows are filled up to `count` numbers with zeros."""
    filled = np.zeros((len(values), count))
    filled[:, : values.shape[1]] = values
    return filled.view(np.uint8).astype(np.float64)


def learned(seen: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """A statistic from the bytes (2, transcripts, rounds, bytes) of both data sets; larger speaks for the second.

    Features count if they tell the data sets apart on the half of the transcripts that their tables were not made of.
    """
    half = seen.shape[1] // 2
    edges = _edges(np.concatenate(seen[:, :half]))
    made = [_features(side[:half], edges) for side in seen]
    counts = [_counts(features) for features in made]
    tables = np.log((counts[1] + 1.0) / (counts[0] + 1.0))
    columns = np.arange(tables.shape[0])
    first, second = (tables[columns, _features(side[half:], edges)] for side in seen)
    spread = np.sqrt((first.var(axis=0) + second.var(axis=0)) / max(1, len(first)))
    kept = np.flatnonzero(second.mean(axis=0) - first.mean(axis=0) > _SURE * spread)

    def score(side: FloatArray) -> FloatArray:
        return np.asarray(tables[kept, _features(side, edges)[:, kept]].sum(axis=1))

    return score


def _numbers(side: FloatArray) -> FloatArray:
    """Of each transcript: all numbers, and how far each is from those of the round before and from its neighbour."""
    values = np.ascontiguousarray(side.astype(np.uint8)).view(np.float64)
    with np.errstate(all="ignore"):
        changes = [np.diff(values, axis=1), np.diff(values, axis=2)]
        parts = [np.nan_to_num(part.reshape(len(side), -1)) for part in (values, *changes)]
    return np.concatenate(parts, axis=1)


def _edges(side: FloatArray) -> FloatArray:
    return np.quantile(_numbers(side), np.linspace(0.0, 1.0, _WIDTHS + 1)[1:-1], axis=0).T


def _features(side: FloatArray, edges: FloatArray) -> IntArray:
    """Each transcript's bytes, and which bins its numbers are in."""
    numbers = _numbers(side)
    binned = [np.searchsorted(edge, column) for edge, column in zip(edges, numbers.T, strict=True)]
    return np.concatenate((side.reshape(len(side), -1).astype(np.int64), np.stack(binned, axis=1)), axis=1)


def _counts(features: IntArray) -> FloatArray:
    """How often each feature has each value; (features, BINS)."""
    count = features.shape[1]
    places = features + BINS * np.arange(count)
    return np.bincount(places.ravel(), minlength=count * BINS).reshape(count, BINS).astype(np.float64)
