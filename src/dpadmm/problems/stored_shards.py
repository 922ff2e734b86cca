"""Shards whose records stay in files: read in blocks, or picked by number, and never held all at once.

Every released sum is that of the same records in memory: it is a sum of integers. Sums in doubles, for metrics, agree
too, because blocks are whole chunks counted from an agent's first record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import BoolArray, FloatArray, IntArray
from dpadmm.errors import InputError
from dpadmm.privacy.events import digest
from dpadmm.problems.array_files import Blocks
from dpadmm.problems.rows import RowRules
from dpadmm.problems.shards import Shards
from dpadmm.release.sums import CHUNK

PARTS_AT_ONCE = 2**23  # numbers that a block's chunks may come to; fewer chunks are taken where each is a large matrix

Encode = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredShards(Shards):
    """Records over agents, each agent's in files of its own; an agent's rows are counted from its first record.

    There is no table: `features`, `targets` and `storage` are not here. Runs side by side share a reader, and each
    block is read once for all of them. What is picked is in memory, plain `Shards`.

    Args:
        starts: The first row of each agent, which is 0.
        stops: How many records each agent has.
        norm_bound: No row is longer.
        names: Of the agents.
        clipped: How many rows were over the bound; a fact about private data, so simulations only.
        sources: A reader for each agent.
        rules: How rows are checked and clipped.
        encode: Turns a reader's targets into those of the loss.
    """

    features: Any = field(init=False, repr=False)
    targets: Any = field(init=False, repr=False)
    sources: tuple[Blocks, ...]  # one per agent
    rules: RowRules
    encode: Encode  # targets as the kernels want them

    @property
    def width(self) -> int:
        return self.sources[0].width + self.rules.intercept

    @property
    def sparse(self) -> bool:
        return False

    def take(self, agents: Any) -> StoredShards:
        chosen = np.arange(self.agents)[agents]
        return replace(
            self,
            starts=self.starts[chosen],
            stops=self.stops[chosen],
            names=tuple(self.names[i] for i in chosen),
            sources=tuple(self.sources[i] for i in chosen),
        )

    def compact(self) -> StoredShards:
        """Itself: it names files, and another process that can read them reads its own agents' only.

        Returns:
            The same shards.
        """
        return self

    def pick(self, rows: IntArray, counts: IntArray) -> Shards:
        stops = np.cumsum(counts)
        features = np.zeros((rows.size, self.width), np.float32)
        targets = []
        for source, start, stop in zip(self.sources, stops - counts, stops, strict=True):
            numbers = rows[start:stop]
            found, raw = source.pick(numbers, np.empty((numbers.size, source.width)))
            targets.append(self.encode(raw))
            if numbers.size:
                features[start:stop], _, _ = self._rows(found, partial(_place, source.name, numbers))
        return Shards(
            features, np.concatenate(targets), stops - counts, stops, self.norm_bound, self.names, self.clipped
        )

    def blocks(self) -> Iterator[tuple[IntArray, Any, NDArray[Any]]]:
        for source, agents in self._sharing():
            for features, targets, _ in self._walk(source, self.block):
                yield agents, features, targets

    def digest(self) -> str:
        return digest(*(source.digest() for source in self.sources))

    def walk(
        self,
        kernel: Callable[..., None],
        given: tuple[Any, ...],
        x: NDArray[Any],
        shape: tuple[int, ...],
        add: Callable[[FloatArray, IntArray], None],
        chunk: int = CHUNK,
    ) -> None:
        point = np.ascontiguousarray(x)
        for source, agents in self._sharing():
            most = max(1, PARTS_AT_ONCE // (agents.size * prod(shape)))
            for features, targets, *_ in self._walk(source, min(self.block, chunk * most)):
                start = np.arange(0, len(targets), chunk)
                stop = np.minimum(start + chunk, len(targets))
                begin, end = np.tile(start, agents.size), np.tile(stop, agents.size)
                owner = np.repeat(agents, start.size)
                parts = np.empty((begin.size, *shape))
                kernel(*given, features, targets, begin, end, owner, point, parts)
                add(parts, owner)

    def check(self) -> int:
        """Reads every record once: an `InputError` for one that cannot be used, else how many are over the bound."""
        return sum(long for source, _ in self._sharing() for *_, long in self._walk(source, self.block))

    def _sharing(self) -> list[tuple[Blocks, IntArray]]:
        """Each reader, with the agents (of runs side by side) that it reads for."""
        found: dict[int, list[int]] = {}
        for agent, source in enumerate(self.sources):
            found.setdefault(id(source), []).append(agent)
        return [(self.sources[agents[0]], np.array(agents)) for agents in found.values()]

    def _walk(self, source: Blocks, rows: int) -> Iterator[tuple[NDArray[Any], NDArray[Any], int]]:
        """The records as they are used, `rows` at a time, and how many of a block were over the bound."""
        start = 0
        for found, raw in source.walk(rows):
            numbers = range(start, start + len(raw))
            features, long, _ = self._rows(found, partial(_place, source.name, numbers))
            start += len(raw)
            yield features, self.encode(raw), int(long.sum())

    def _rows(self, found: NDArray[Any], place: Callable[[int, int], str]) -> tuple[Any, BoolArray, BoolArray]:
        return self.rules.apply(found, None, place)


def gather_blocks(
    sources: Sequence[Blocks],
    encode: Encode,
    *,
    norm_bound: float,
    intercept: bool = False,
    names: Sequence[str] | None = None,
) -> StoredShards:
    """What `gather` is for records in memory: every record is read once and checked, so that none can surprise a run.

    Args:
        sources: A reader for each agent.
        encode: Turns a reader's targets into those of the loss.
        norm_bound: Public; longer rows are shortened to it.
        intercept: Whether a column of ones is appended after clipping.
        names: Of the agents; None: those of the readers.
        precision: `float64` or `float32`.

    Returns:
        Shards that hold no record.

    Raises:
        InputError: Readers and names do not go together, or a record cannot be used.
    """
    rules = RowRules(norm_bound, intercept)
    if not sources:
        raise InputError("no agent: name at least one reader of records.")
    for source in sources:
        if source.width != sources[0].width:
            raise InputError(
                f"{source.name} has {source.width} features and {sources[0].name} has {sources[0].width}: all agents' "
                f"records must have the same."
            )
    called = tuple(names) if names is not None else tuple(source.name for source in sources)
    if len(called) != len(sources):
        raise InputError(f"{len(called)} names for {len(sources)} readers: name each.")
    counts = np.array([source.count for source in sources], dtype=np.int64)
    shards = StoredShards(
        starts=np.zeros_like(counts),
        stops=counts,
        norm_bound=rules.row_bound,
        names=called,
        sources=tuple(sources),
        rules=rules,
        encode=encode,
    )
    return replace(shards, clipped=shards.check())


def _place(name: str, numbers: Sequence[int] | IntArray, row: int, column: int) -> str:
    return f"{name}: row {numbers[row] + 1}, column {column + 1}"
