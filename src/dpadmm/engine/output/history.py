"""What was measured, round by round: one number per metric, round and run, and on a graph per node as well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._files import atomic_write, csv_text

_NODES = "nodes."


@dataclass
class History:
    """Rows are rounds, columns are runs; `metrics[name]` is a list with one (runs,) array per measured round.

    `nodes[name]` is the same with one number for every node: (runs, nodes) arrays.
    """

    rounds: list[int] = field(default_factory=list)
    metrics: dict[str, list[FloatArray]] = field(default_factory=dict)
    nodes: dict[str, list[FloatArray]] = field(default_factory=dict)

    def add(
        self, round: int, measured: Mapping[str, FloatArray], of_nodes: Mapping[str, FloatArray] | None = None
    ) -> None:
        self.rounds.append(round)
        for kept, found in ((self.metrics, measured), (self.nodes, of_nodes or {})):
            for name, values in found.items():
                kept.setdefault(name, []).append(np.asarray(values, dtype=np.float64))

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
        both = ((merged.metrics, self.metrics, other.metrics), (merged.nodes, self.nodes, other.nodes))
        for kept, mine, theirs in both:
            for name in mine:
                kept[name] = [np.concatenate(pair) for pair in zip(mine[name], theirs[name], strict=True)]
        return merged

    @property
    def header(self) -> list[str]:
        return ["run", "round", *self.metrics]

    def rows(self, first: int = 0, since: int = 0) -> Iterator[list[str]]:
        """What was measured, from row `since` on, in that order; runs are numbered from `first`. Numbers are written so
        that they read back exactly."""
        columns = [self.metrics[name] for name in self.metrics]
        for row in range(since, len(self.rounds)):
            for run in range(columns[0][row].size if columns else 0):
                yield [str(first + run), str(self.rounds[row]), *(repr(float(values[row][run])) for values in columns)]

    @property
    def node_header(self) -> list[str]:
        return ["run", "round", "node", *self.nodes]

    def node_rows(self, first: int = 0, since: int = 0) -> Iterator[list[str]]:
        """The same of every node."""
        columns = [self.nodes[name] for name in self.nodes]
        for row in range(since, len(self.rounds)):
            for run, node in np.ndindex(columns[0][row].shape):
                values = (repr(float(each[row][run, node])) for each in columns)
                yield [str(first + run), str(self.rounds[row]), str(node), *values]

    def write(self, path: Path) -> None:
        """As CSV: run, round, then a column per metric; run by run."""
        _write(path, self.header, self.rows())

    def write_nodes(self, path: Path) -> None:
        """As CSV: run, round, node, then a column per metric of nodes."""
        _write(path, self.node_header, self.node_rows())

    def to_arrays(self) -> dict[str, Any]:
        nodes = {f"{_NODES}{name}": np.stack(values) for name, values in self.nodes.items()}
        metrics = {name: self[name] for name in self.metrics}
        return {"rounds": np.array(self.rounds, dtype=np.int64), **metrics, **nodes}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> History:
        found = cls([int(k) for k in arrays["rounds"]])
        for name, values in arrays.items():
            if name.startswith(_NODES):
                found.nodes[name.removeprefix(_NODES)] = list(values)
            elif name != "rounds":
                found.metrics[name] = list(values)
        return found


def _write(path: Path, header: list[str], rows: Iterable[list[str]]) -> None:
    """Run by run; whole at once, since somebody may be watching."""
    atomic_write(path, csv_text([header, *sorted(rows, key=lambda row: int(row[0]))]))
