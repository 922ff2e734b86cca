"""What was measured, round by round: one number per metric, round and run."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm.problems.shards import FloatArray


@dataclass
class History:
    """Rows are rounds, columns are runs; `metrics[name]` is a list with one (runs,) array per measured round."""

    rounds: list[int] = field(default_factory=list)
    metrics: dict[str, list[FloatArray]] = field(default_factory=dict)

    def add(self, round: int, measured: Mapping[str, FloatArray]) -> None:
        self.rounds.append(round)
        for name, values in measured.items():
            self.metrics.setdefault(name, []).append(np.asarray(values, dtype=np.float64))

    def __getitem__(self, name: str) -> FloatArray:
        """One metric as an array (rounds, runs)."""
        return np.stack(self.metrics[name])

    def __contains__(self, name: str) -> bool:
        return name in self.metrics

    def last(self, name: str) -> FloatArray:
        """The metric at the end, one number per run."""
        return self.metrics[name][-1]

    def beside(self, other: History) -> History:
        """This history with the runs of another one, over the same rounds."""
        merged = History(list(self.rounds))
        for name in self.metrics:
            merged.metrics[name] = [
                np.concatenate(pair) for pair in zip(self.metrics[name], other.metrics[name], strict=True)
            ]
        return merged

    def write(self, path: Path) -> None:
        """As CSV: run, round, then a column per metric. Numbers are written so that they read back exactly."""
        names = list(self.metrics)
        with path.open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["run", "round", *names])
            for run in range(self.metrics[names[0]][0].size if names else 0):
                for row, round in enumerate(self.rounds):
                    table.writerow([run, round, *(repr(float(self.metrics[name][row][run])) for name in names)])

    def to_arrays(self) -> dict[str, Any]:
        return {"rounds": np.array(self.rounds, dtype=np.int64), **{name: self[name] for name in self.metrics}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> History:
        metrics = {name: list(values) for name, values in arrays.items() if name != "rounds"}
        return cls([int(k) for k in arrays["rounds"]], metrics)
