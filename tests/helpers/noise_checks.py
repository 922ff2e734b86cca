"""What tests of integer noise share: frequencies against probabilities, and streams whose words a test writes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.stats import chi2_contingency, chisquare, norm

from dpadmm.release.random_bits import SeededRandomness, Stream


def seeded(seed: int, rows: int = 1, run: int = 0) -> Stream:
    """The streams of agents 0 to rows - 1 of a simulation."""
    return SeededRandomness(seed).stream(np.full(rows, run), np.arange(rows), 1, "noise")


def mass_p_value(numbers: np.ndarray, weight, reach: int) -> float:
    """How plausible the numbers are where P(n) is proportional to weight(n); what is rare is one bin."""
    support = np.arange(-reach, reach + 1)
    mass = weight(support.astype(float))
    expected = mass / mass.sum() * numbers.size
    assert np.abs(numbers).max() <= reach
    counts = np.bincount(numbers.ravel() + reach, minlength=support.size)
    common = expected >= 10.0
    rare = expected[~common].sum()
    observed, wanted = counts[common], expected[common]
    if rare >= 5.0:
        observed, wanted = np.append(observed, counts[~common].sum()), np.append(wanted, rare)
    else:
        assert counts[~common].sum() <= 10 * (rare + 1.0)
    return float(chisquare(observed, wanted * (observed.sum() / wanted.sum())).pvalue)


def low_byte_p_value(numbers: np.ndarray) -> float:
    """How plausible it is that the lowest eight bits are uniform."""
    return float(chisquare(np.bincount((numbers.ravel() & 255), minlength=256)).pvalue)


def quantile_p_value(probabilities: np.ndarray) -> float:
    """How plausible it is that these are uniform between 0 and 1, in 1,000 bins."""
    return float(chisquare(np.histogram(probabilities, bins=1000, range=(0.0, 1.0))[0]).pvalue)


def two_sample_p_value(ours: np.ndarray, theirs: np.ndarray, scale: float) -> float:
    """How plausible it is that two samples have one distribution, in 60 bins of the same probability under a normal."""
    edges = np.r_[-np.inf, norm.ppf(np.linspace(0.0, 1.0, 61)[1:-1]) * scale, np.inf]
    table = np.array([np.histogram(sample, edges)[0] for sample in (ours, theirs)])
    return float(chi2_contingency(table).pvalue)


class WrittenStream:
    """A stream of one row whose words a test writes; words that it does not name follow from a seed."""

    rows = 1

    def __init__(self, written: dict[int, int], asked: list[int] | None = None) -> None:
        """Word i is `written[i]` where there is one; `asked` collects which single words were asked for."""
        self._written, self._asked, self._others = written, asked, seeded(77)

    def words(self, start: int, count: int) -> np.ndarray:
        found = self._others.words(start, count).copy()
        for place, word in self._written.items():
            if start <= place < start + count:
                found[0, place - start] = word
        if self._asked is not None and count == 1:
            self._asked.append(start)
        return found

    def take(self, rows: Iterable[int]) -> WrittenStream:
        assert list(rows) == [0]
        return self
