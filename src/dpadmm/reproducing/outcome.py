"""What one run of a target comes to: metrics by round over the repeats, and what it cost in truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray


@dataclass(frozen=True)
class Track:
    """One metric over the measured rounds: the mean of the repeats, and how far they lie apart."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]

    @classmethod
    def of(cls, values: FloatArray) -> Track:
        """From an array (rounds, runs)."""
        spread = values.std(axis=1, ddof=1) if values.shape[1] > 1 else np.zeros(len(values))
        columns = (values.mean(axis=1), spread, values.min(axis=1), values.max(axis=1))
        return cls(*(tuple(map(float, column)) for column in columns))

    @property
    def end(self) -> float:
        return self.mean[-1]


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

    def value(self, metric: str, when: str = "end") -> float:
        """The metric at the end, its mean over the rounds, or its largest rise from one measured round to the next."""
        track = self.tracks[metric]
        if when == "jump":
            return float(np.diff(track.mean).max(initial=0.0))
        return track.end if when == "end" else float(np.mean(track.mean))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Outcome:
        tracks = {
            name: Track(**{key: tuple(each) for key, each in kept.items()}) for name, kept in given["tracks"].items()
        }
        return cls(**{**given, "rounds": tuple(given["rounds"]), "tracks": tracks})


def kept(outcome: Outcome, metrics: Sequence[str]) -> Outcome:
    """With the metrics that are asked for only."""
    tracks = {name: track for name, track in outcome.tracks.items() if name in metrics}
    return Outcome(**{**vars(outcome), "tracks": tracks})
