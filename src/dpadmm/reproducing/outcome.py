"""What one run of a target comes to: metrics by round over the repeats, and what it cost in truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.reproducing.target import WHEN

FORMULAS = (
    "noise_magnitude",
    "noise_variance",
    "printed_epsilon",
    "epsilon",
)  # metrics that are computed, not measured


@dataclass(frozen=True)
class Track:
    """One metric over the measured rounds: the mean of the repeats, and how far they lie apart."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]
    repeats: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By `WHEN`: the value of each repeat. Empty in results of 0.1.0, which did not keep them."""

    @classmethod
    def of(cls, values: FloatArray) -> Track:
        """From an array (rounds, runs)."""
        spread = values.std(axis=1, ddof=1) if values.shape[1] > 1 else np.zeros(len(values))
        columns = (values.mean(axis=1), spread, values.min(axis=1), values.max(axis=1))
        mean, deviation, least, most = (tuple(map(float, column)) for column in columns)
        return cls(mean, deviation, least, most, {when: tuple(map(float, _each(values, when))) for when in WHEN})

    @property
    def end(self) -> float:
        return self.mean[-1]


def _each(values: FloatArray, when: str) -> FloatArray:
    """Of every run: the value at the end, the mean over rounds, or the largest rise from one round to the next."""
    if when == "jump":
        return np.diff(values, axis=0).max(axis=0, initial=0.0)
    return values[-1] if when == "end" else values.mean(axis=0)


@dataclass(frozen=True)
class Outcome:
    rounds: tuple[int, ...]
    tracks: Mapping[str, Track]
    repeats: int
    epsilon: float | None  # the true total; None without privacy, or infinite
    private: bool
    delta: float | None
    relation: str
    claimed: float | None  # what the paper would say of the same noise
    seconds: float
    random: bool = True  # whether another seed gives other numbers: noise, or mini-batches

    def value(self, metric: str, when: str = "end") -> float:
        """The mean of the repeats: at the end, over the rounds, or of the largest rise of each."""
        track = self.tracks[metric]
        if track.repeats:
            return float(np.mean(track.repeats[when]))
        return float(_each(np.array(track.mean)[:, None], when)[0])

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Outcome:
        tracks = {name: _track(kept) for name, kept in given["tracks"].items()}
        return cls(**{**given, "rounds": tuple(given["rounds"]), "tracks": tracks})


def _track(given: Mapping[str, Any]) -> Track:
    mean, deviation, least, most = (tuple(given[name]) for name in ("mean", "deviation", "least", "most"))
    return Track(mean, deviation, least, most, {when: tuple(each) for when, each in given["repeats"].items()})


def kept(outcome: Outcome, metrics: Sequence[str]) -> Outcome:
    """With the metrics that are asked for only."""
    tracks = {name: track for name, track in outcome.tracks.items() if name in metrics}
    return Outcome(**{**vars(outcome), "tracks": tracks})
