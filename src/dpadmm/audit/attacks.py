"""From the evidence of every round to a verdict: a statistic and a threshold, both fixed on transcripts of their own.

Three statistics compete. The *likelihood ratio* adds the rounds' log-ratios up: nothing beats it where the mechanism
does what it says. The *trained* one looks at the noise that the first data set would need, round by round, and fits a
normal distribution to it on each side, with whatever means, variances and correlations it finds: it is the one that
notices a round without noise, noise that is used twice, or noise whose size depends on the records. The *model-free*
one knows nothing, and looks at the bytes that left. Which of them is used, and where the line is drawn, is decided by
the bounds that they give on the training transcripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.audit.bounds import Bound, Measured, Mistakes
from dpadmm.audit.likelihood import BYTES, NOISE, RATIO
from dpadmm.audit.model_free import learned
from dpadmm.audit.scene import Scene
from dpadmm.audit.transcripts import Progress, RandomnessSource, SideBySide, transcripts
from dpadmm.privacy.randomness import derived

TRAINING = 1.0  # transcripts to fix an attack on, for each that it is tried on
FEWEST = 500
LINES = 100  # thresholds that are tried
SURE = 0.999  # confidence that it takes to leave the usual attack
RIDGE = 1e-10  # of a column's variance, so that a column without any can still be divided by it

Statistic = Callable[[FloatArray], FloatArray]
"""From evidence (transcripts, rounds, kinds) to one number each; larger speaks for the second data set."""


@dataclass(frozen=True, eq=False)
class Attack:
    """Says 'the second' where the statistic is above the threshold; its mistakes are to be judged by one bound."""

    name: str
    statistic: Statistic
    threshold: float
    bound: Bound

    def mistakes(self, evidence: FloatArray) -> Mistakes:
        """On (2, transcripts, ...) that it has not seen."""
        first, second = (self.statistic(side) for side in evidence)
        return Mistakes(
            np.array(np.count_nonzero(first > self.threshold)),
            first.size,
            np.array(np.count_nonzero(second <= self.threshold)),
            second.size,
        )

    def reaches(self, evidence: FloatArray, confidence: float, delta: float) -> float:
        """The lower bound on epsilon."""
        return float(self.bound(self.mistakes(evidence), confidence, delta))


def distinguish(
    run: Scene,
    bounds: Sequence[Bound],
    count: int,
    confidence: float,
    delta: float,
    seed: int,
    source: RandomnessSource = SideBySide,
    progress: Progress | None = None,
) -> Measured:
    """Fixes an attack on some transcripts and tries it on others, `count` of each data set."""
    training = max(FEWEST, int(TRAINING * count))
    attack = trained(transcripts(run, training, derived(seed, "training"), source), bounds, confidence, delta)
    trial = transcripts(run, count, derived(seed, "trial"), source, progress)
    mistakes = attack.mistakes(trial)
    return Measured(
        lower_bound=float(attack.bound(mistakes, confidence, delta)),
        transcripts=count,
        training=training,
        canaries=1,
        statistic=attack.name,
        false_positives=float(mistakes.false_positives / mistakes.negatives),
        false_negatives=float(mistakes.false_negatives / mistakes.positives),
        curve=_curve(*(attack.statistic(side) for side in trial)),
    )


def trained(evidence: FloatArray, bounds: Sequence[Bound], confidence: float, delta: float) -> Attack:
    """The attack to try, from these transcripts: the usual one, unless another surely proves more than that one shows.

    The best of many by luck is not the best on other transcripts.
    """
    part = evidence.shape[1] // 4
    seen, unseen = evidence[:, :part], evidence[:, part:]  # a fit looks better than it is where it was made
    statistics = {"likelihood ratio": _likelihood, "trained": _normal_fit(seen)}
    if seen.shape[-1] > BYTES:
        statistics["model-free"] = _by_bytes(seen)
    attacks = [
        attack
        for name, statistic in statistics.items()
        for bound in bounds
        for attack in _drawn(name, statistic, bound, unseen, confidence, delta)
    ]
    usual, rivals = attacks[0], attacks[1:]
    proved = [rival.reaches(unseen, SURE, delta) for rival in rivals]
    best = int(np.argmax(proved))
    return rivals[best] if proved[best] > usual.reaches(unseen, 0.5, delta) else usual


def _drawn(
    name: str, statistic: Statistic, bound: Bound, evidence: FloatArray, confidence: float, delta: float
) -> Iterator[Attack]:
    """Two attacks by one statistic: with the line where both kinds of mistakes are equally rare, and where the bound is
    best."""
    lines, mistakes = _by_line(*(statistic(side) for side in evidence))
    yield Attack(
        name, statistic, float(lines[np.argmin(np.abs(mistakes.false_positives - mistakes.false_negatives))]), bound
    )
    yield Attack(name, statistic, float(lines[np.argmax(bound(mistakes, confidence, delta))]), bound)


def _likelihood(side: FloatArray) -> FloatArray:
    return np.asarray(side[:, :, RATIO].sum(axis=1))


def _normal_fit(evidence: FloatArray) -> Statistic:
    """The log of the ratio of two normal densities, fitted to the noise that either side would need."""
    evidence = evidence[:, :, :, NOISE]
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
        rows = (side[:, told, NOISE] - centre) / scale
        logs = [
            -0.5 * ((((rows - mean) @ vectors) ** 2 / values).sum(axis=1) + np.log(values).sum())
            for mean, vectors, values in fits
        ]
        return logs[1] - logs[0]

    return statistic


def _by_bytes(evidence: FloatArray) -> Statistic:
    statistic = learned(evidence[..., BYTES:])
    return lambda side: statistic(side[..., BYTES:])


def _by_line(first: FloatArray, second: FloatArray) -> tuple[FloatArray, Mistakes]:
    """Thresholds, and the mistakes that each makes on these values of a statistic."""
    first, second = np.sort(first), np.sort(second)
    lines = _candidates(first, second)
    false_positives = first.size - np.searchsorted(first, lines, side="right")
    return lines, Mistakes(false_positives, first.size, np.searchsorted(second, lines, side="right"), second.size)


def _curve(first: FloatArray, second: FloatArray) -> tuple[tuple[float, float], ...]:
    _, mistakes = _by_line(first, second)
    rates = mistakes.false_positives / first.size, mistakes.false_negatives / second.size
    return tuple(sorted(zip(*(rate.tolist() for rate in rates), strict=True)))


def _candidates(first: FloatArray, second: FloatArray) -> FloatArray:
    """Evenly over all that was seen, and where fewest are on the wrong side."""
    seen = np.sort(np.concatenate((first, second)))
    between = 0.5 * (seen[1:] + seen[:-1])
    wrong: IntArray = first.size - np.searchsorted(first, between, side="right") + np.searchsorted(second, between)
    places = np.unique(np.linspace(0, between.size - 1, LINES).astype(np.int64))
    return np.append(between[places], between[np.argmin(wrong)])
