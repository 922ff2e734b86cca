"""Differences between runs, with their standard errors.

Run r of every curve has the same records, split and random bits, so differences are formed repeat by repeat: what the
repeats have in common cancels. A run that no seed changes, and a metric that is a formula, are exact. Results of 0.1.0
kept no single repeats; their errors are added up as if repeats were independent, which makes them larger as a rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.reproducing.outcome import FORMULAS, Outcome

ERRORS = 2.0  # a difference of fewer standard errors cannot be told from chance


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error, which is infinite where a single run cannot tell it."""

    mean: float
    error: float

    def below(self, bound: float = 0.0) -> int:
        """1 if it is below the bound by two errors, -1 if above it by two errors (or at it without error), 0 else."""
        gap = self.mean - bound
        if gap < 0.0 and -gap >= ERRORS * self.error:
            return 1
        return -1 if gap >= ERRORS * self.error else 0

    def within(self, width: float) -> int:
        """1 if its size is at most the width even two errors farther out, -1 if it is larger even two errors nearer."""
        size, room = abs(self.mean), ERRORS * self.error
        return 1 if size + room <= width else -1 if size - room > width else 0


def combination(weights: Sequence[float], outcomes: Sequence[Outcome], metric: str, when: str) -> Estimate:
    """The weighted sum of a metric over runs."""
    mean = math.fsum(w * o.value(metric, when) for w, o in zip(weights, outcomes, strict=True))
    inexact = [(w, o) for w, o in zip(weights, outcomes, strict=True) if not _is_exact(o, metric)]
    if not inexact:
        return Estimate(mean, 0.0)
    singles = [_singles(o, metric, when) for _, o in inexact]
    if 1 in [len(each) or o.repeats for (_, o), each in zip(inexact, singles, strict=True)]:
        return Estimate(mean, math.inf)
    if len({len(each) for each in singles}) == 1 and len(singles[0]):
        paired = np.sum([w * each for (w, _), each in zip(inexact, singles, strict=True)], axis=0)
        return Estimate(mean, float(paired.std(ddof=1)) / math.sqrt(len(paired)))
    return Estimate(mean, math.sqrt(math.fsum((w * _error(o, metric, when)) ** 2 for w, o in inexact)))


def trend(outcomes: Sequence[Outcome], metric: str, when: str) -> Estimate:
    """The slope over all points in their order: of the line that fits them best, one step apart."""
    places = np.arange(len(outcomes)) - (len(outcomes) - 1) / 2.0
    return combination(list(places / np.sum(places**2)), outcomes, metric, when)


def _is_exact(outcome: Outcome, metric: str) -> bool:
    return metric in FORMULAS or (not outcome.random and metric != "seconds")


def _singles(outcome: Outcome, metric: str, when: str) -> FloatArray:
    return np.array(outcome.tracks[metric].repeats.get(when, ()))


def _error(outcome: Outcome, metric: str, when: str) -> float:
    """Of one run's mean by itself."""
    single = _singles(outcome, metric, when)
    if len(single) > 1:
        return float(single.std(ddof=1)) / math.sqrt(len(single))
    if when == "jump":
        return math.inf
    deviation = outcome.tracks[metric].deviation  # a mean over rounds deviates by at most the mean of their deviations
    return (deviation[-1] if when == "end" else float(np.mean(deviation))) / math.sqrt(outcome.repeats)
