"""From the evidence of every round to a verdict: a statistic and a threshold, both fixed on transcripts of their own.

Two statistics compete. The *likelihood ratio* adds the rounds' evidence up: nothing beats it where the mechanism does
what it says. The *trained* one fits a normal distribution to the evidence of each side, with whatever means, variances
and correlations between rounds it finds: it is the one that notices a round without noise, noise that is used twice, or
noise whose size depends on the records. Which of them is used, and where the line is drawn, is decided by the bounds
that they give on the training transcripts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpadmm.audit.bounds import Bound, Mistakes
from dpadmm.audit.measured import Measured
from dpadmm.audit.scene import Scene
from dpadmm.audit.transcripts import Progress, SideBySide, Source, transcripts
from dpadmm.privacy.randomness import derived
from dpadmm.problems.shards import FloatArray, IntArray

TRAINING = 0.25  # transcripts to fix an attack on, for each that it is tried on
FEWEST = 500
LINES = 400  # thresholds that are tried
RIDGE = 1e-10  # of a column's variance, so that a column without any can still be divided by it

Statistic = Callable[[FloatArray], FloatArray]
"""From evidence (transcripts, rounds) to one number each; larger speaks for the second data set."""


@dataclass(frozen=True, eq=False)
class Attack:
    """Says 'the second' where the statistic is above the threshold."""

    name: str
    statistic: Statistic
    threshold: float

    def mistakes(self, evidence: FloatArray) -> Mistakes:
        """On (2, transcripts, rounds) that it has not seen."""
        first, second = (self.statistic(side) for side in evidence)
        return Mistakes(
            np.array(np.count_nonzero(first > self.threshold)),
            first.size,
            np.array(np.count_nonzero(second <= self.threshold)),
            second.size,
        )


def distinguish(
    run: Scene,
    bound: Bound,
    count: int,
    confidence: float,
    delta: float,
    seed: int,
    source: Source = SideBySide,
    progress: Progress | None = None,
) -> Measured:
    """Fixes an attack on some transcripts and tries it on others, `count` of each data set."""
    training = max(FEWEST, int(TRAINING * count))
    algorithm = run.plan.algorithm
    informative = [not algorithm.recycles(round) for round in range(1, run.plan.setting.rounds + 1)]
    seen = transcripts(run, training, derived(seed, "training"), source)
    attack = trained(seen, informative, bound, confidence, delta)
    mistakes = attack.mistakes(transcripts(run, count, derived(seed, "trial"), source, progress))
    return Measured(
        lower_bound=float(bound(mistakes, confidence, delta)),
        transcripts=count,
        training=training,
        canaries=1,
        statistic=attack.name,
        false_positives=float(mistakes.false_positives / mistakes.negatives),
        false_negatives=float(mistakes.false_negatives / mistakes.positives),
    )


def trained(evidence: FloatArray, informative: list[bool], bound: Bound, confidence: float, delta: float) -> Attack:
    """The attack to try, from these transcripts; `informative` are the rounds that read records."""
    half = evidence.shape[1] // 2
    seen, unseen = evidence[:, :half], evidence[:, half:]  # a fit looks better than it is where it was made
    usual = _drawn("likelihood ratio", _sum(informative), unseen, bound, confidence, delta)
    rival = _drawn("trained", _normal_fit(seen), unseen, bound, confidence, delta)
    return _surely_better(rival, usual, unseen, bound, confidence, delta)


def _drawn(
    name: str, statistic: Statistic, evidence: FloatArray, bound: Bound, confidence: float, delta: float
) -> Attack:
    """An attack by this statistic, its line where both kinds of mistakes are equally rare, or where the bound is best
    if that is surely better."""
    first, second = (np.sort(statistic(side)) for side in evidence)
    lines = _candidates(first, second)
    mistakes = Mistakes(
        first.size - np.searchsorted(first, lines, side="right"),
        first.size,
        np.searchsorted(second, lines, side="right"),
        second.size,
    )
    balanced = int(np.argmin(np.abs(mistakes.false_positives - mistakes.false_negatives)))
    best = int(np.argmax(bound(mistakes, confidence, delta)))
    rival, usual = (Attack(name, statistic, float(lines[place])) for place in (best, balanced))
    return _surely_better(rival, usual, evidence, bound, confidence, delta)


def _surely_better(
    rival: Attack, usual: Attack, evidence: FloatArray, bound: Bound, confidence: float, delta: float
) -> Attack:
    """The usual attack, unless what the rival proves here is more than the usual one shows: the best of many by luck
    is not the best on other transcripts."""
    proved = bound(rival.mistakes(evidence), confidence, delta)
    shown = bound(usual.mistakes(evidence), 0.5, delta)
    return rival if proved > shown else usual


def _sum(informative: list[bool]) -> Statistic:
    return lambda side: np.asarray(side[:, informative].sum(axis=1))


def _normal_fit(evidence: FloatArray) -> Statistic:
    """The log of the ratio of two normal densities, fitted to either side."""
    everything = evidence.reshape(-1, evidence.shape[2])
    spread = everything.std(axis=0)
    told = spread > 0.0  # a round that never says anything says nothing
    centre, scale = everything[:, told].mean(axis=0), spread[told]
    fits = []
    for side in evidence:
        rows = (side[:, told] - centre) / scale
        covariance = np.atleast_2d(np.cov(rows, rowvar=False)) if told.any() else np.zeros((0, 0))
        values, vectors = np.linalg.eigh(covariance)
        fits.append((rows.mean(axis=0), vectors, np.maximum(values, 0.0) + RIDGE))

    def statistic(side: FloatArray) -> FloatArray:
        rows = (side[:, told] - centre) / scale
        logs = [
            -0.5 * ((((rows - mean) @ vectors) ** 2 / values).sum(axis=1) + np.log(values).sum())
            for mean, vectors, values in fits
        ]
        return logs[1] - logs[0]

    return statistic


def _candidates(first: FloatArray, second: FloatArray) -> FloatArray:
    """Evenly over all that was seen, and where fewest are on the wrong side."""
    seen = np.sort(np.concatenate((first, second)))
    between = 0.5 * (seen[1:] + seen[:-1])
    wrong: IntArray = first.size - np.searchsorted(first, between, side="right") + np.searchsorted(second, between)
    places = np.unique(np.linspace(0, between.size - 1, LINES).astype(np.int64))
    return np.append(between[places], between[np.argmin(wrong)])
