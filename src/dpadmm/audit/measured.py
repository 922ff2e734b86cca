"""What an attack came to."""

from __future__ import annotations

from dataclasses import dataclass


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
