"""Lower bounds on epsilon from how often an attack is wrong, each at a stated confidence.

An attack looks at a transcript and says which of two neighbouring data sets it came from. Of `N` transcripts of the
first it calls some wrong (false positives), of `M` of the second others (false negatives). Whatever the attack, a
mechanism that keeps its promise makes both rare together impossible:

* (epsilon, delta): 1 - FNR <= e^epsilon FPR + delta, and the same with the two swapped. Both rates are bounded by
  Clopper & Pearson's exact intervals; the upper ends of both hold together with the stated confidence.
* mu-GDP: FNR >= Phi(Phi^-1(1 - FPR) - mu) (Dong, Roth & Su 2022), hence FPR + FNR >= 2 Phi(-mu/2). It is much sharper,
  and says nothing of a mechanism that is not claimed to be Gaussian (Nasr et al. 2023). Where only the sum of the rates
  is used, all mistakes are counted together: their number is a sum of independent coins of two kinds, and has thinner
  tails than a binomial of the same mean (Hoeffding 1956, theorem 4), so one exact interval bounds it. Two, which the
  first formula needs, are wider by half; they see what lies far from the middle.
* many records put in or left out by coins in one run: how many coins can be guessed (Steinke, Nasr & Jagielski 2023).

The attack must not have seen these transcripts before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri
from scipy.stats import binom

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian


@dataclass(frozen=True, eq=False)
class Mistakes:
    """How often attacks were wrong: of `negatives` transcripts of the first data set and `positives` of the second."""

    false_positives: IntArray
    negatives: int
    false_negatives: IntArray
    positives: int

    def at_most(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """What both rates are at most, together with this confidence."""
        return (
            upper(self.false_positives, self.negatives, confidence),
            upper(self.false_negatives, self.positives, confidence),
        )


def upper(count: IntArray | int, trials: int, confidence: float) -> FloatArray:
    """The upper end of Clopper & Pearson's interval: half of the error allowed is above it."""
    error = (1.0 - confidence) / 2.0
    count = np.asarray(count, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        bound = betaincinv(count + 1.0, np.maximum(trials - count, 1e-300), 1.0 - error)
    return np.where(count >= trials, 1.0, bound)


def clopper_pearson(mistakes: Mistakes, confidence: float, delta: float) -> FloatArray:
    """No smaller epsilon allows so few mistakes, at this delta."""
    false_positive, false_negative = mistakes.at_most(confidence)
    with np.errstate(divide="ignore"):
        one = np.log(np.maximum(1.0 - false_negative - delta, 0.0)) - np.log(false_positive)
        other = np.log(np.maximum(1.0 - false_positive - delta, 0.0)) - np.log(false_negative)
    return np.maximum(0.0, np.maximum(one, other))


def mu_of_pair(mistakes: Mistakes, confidence: float) -> FloatArray:
    """No mu-GDP mechanism with a smaller mu allows these two kinds of mistakes."""
    false_positive, false_negative = mistakes.at_most(confidence)
    with np.errstate(invalid="ignore"):
        found = -ndtri(false_positive) - ndtri(false_negative)
    return np.maximum(0.0, np.nan_to_num(found, nan=0.0, neginf=0.0))  # of a rate that may be one, nothing follows


def mu_of_sum(mistakes: Mistakes, confidence: float) -> FloatArray:
    """No mu-GDP mechanism with a smaller mu allows so few mistakes in all."""
    if mistakes.negatives != mistakes.positives:
        raise ValueError("mistakes are counted together: there must be as many transcripts of either data set.")
    together = mistakes.false_positives + mistakes.false_negatives
    return np.maximum(0.0, -2.0 * ndtri(upper(together, 2 * mistakes.positives, confidence)))


def gaussian_sum(mistakes: Mistakes, confidence: float, delta: float) -> FloatArray:
    """The epsilon of the smallest mu that allows so few mistakes in all."""
    return _epsilons(mu_of_sum(mistakes, confidence), delta)


def gaussian_pair(mistakes: Mistakes, confidence: float, delta: float) -> FloatArray:
    """The epsilon of the smallest mu that allows these two kinds of mistakes."""
    return _epsilons(mu_of_pair(mistakes, confidence), delta)


def _epsilons(mus: FloatArray, delta: float) -> FloatArray:
    return np.array([gaussian.epsilon(float(mu), delta) for mu in mus.ravel()]).reshape(mus.shape)


Bound = Callable[[Mistakes, float, float], FloatArray]
GAUSSIAN, EXACT, ONE_RUN = "gdp", "clopper-pearson", "one-run"
METHODS: dict[str, str] = {
    GAUSSIAN: "fits mu-GDP to the mistakes: sharpest, for claims of Gaussian releases only",
    EXACT: "bounds the mistakes by exact intervals: for any claim",
    ONE_RUN: "one run with many canaries, each put in by a coin: for any claim, and for large models",
}
"""By name, with what they are."""
BOUNDS: dict[str, tuple[Bound, ...]] = {GAUSSIAN: (gaussian_sum, gaussian_pair), EXACT: (clopper_pearson,)}
"""What a method can be carried out by, the usual one first; which is used must be fixed beforehand."""


def chance(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """How likely so many right guesses are, at most, if the claim holds (Steinke et al. 2023, theorem 5.2).

    Under pure epsilon the number of right guesses is dominated by Binomial(guesses, e^epsilon / (1 + e^epsilon)).
    What delta allows on top is at most 2 delta canaries times the largest mean of its probabilities just below `right`.
    """
    if not 0 <= right <= guesses <= canaries:
        raise InputError(f"{right} right of {guesses} guesses on {canaries} canaries: must be in ascending order.")
    success = 1.0 / (1.0 + math.exp(-epsilon))
    above = float(binom.sf(right - 1, guesses, success))
    if right == 0:
        return 1.0
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, success))
    slope = float((below / np.arange(1, right + 1)).max())
    return min(1.0, above + 2.0 * delta * canaries * slope)


def guessed(canaries: int, guesses: int, right: int, confidence: float, delta: float) -> float:
    """The largest epsilon that so many right guesses refute; 0 if they refute none."""
    error = 1.0 - confidence
    if chance(canaries, guesses, right, 0.0, delta) > error:
        return 0.0
    low, high = 0.0, 1.0
    while chance(canaries, guesses, right, high, delta) <= error:
        low, high = high, 2.0 * high
        if high > 1e3:
            return low
    for _ in range(40):
        middle = 0.5 * (low + high)
        refuted = chance(canaries, guesses, right, middle, delta) <= error
        low, high = (middle, high) if refuted else (low, middle)
    return low


@dataclass(frozen=True)
class Measured:
    """A lower bound on epsilon, and how it was found."""

    lower_bound: float
    transcripts: int  # of each of the two data sets, beside those that the attack was fixed on
    training: int  # those
    canaries: int  # records in question at the same time
    statistic: str
    false_positives: float  # rates that were seen: of guesses for the second data set that were wrong,
    false_negatives: float  # and of those for the first
    curve: tuple[tuple[float, float], ...] = ()  # the two rates, by where the line is drawn: to look at
