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
from dpadmm.problems.shards import Admit, Shards, only
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
        admit: Makes sure of that, for a run's loss, and then no record can be wrong: one that cannot be used is zero.
            None: a record that cannot be used is an error.
        usable: Which records of the one agent count, after that; None: all.
    """

    features: Any = field(init=False, repr=False)
    targets: Any = field(init=False, repr=False)
    sources: tuple[Blocks, ...]  # one per agent
    rules: RowRules
    encode: Encode  # targets as the kernels want them
    admit: Admit | None = None
    usable: BoolArray | None = None

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
            if numbers.size:
                features[start:stop], own, _, _ = self._encoded(source, found, raw, numbers)
            else:
                own = self.encode(raw) if self.admit is None else self.admit(self.encode(raw))[0]
            targets.append(own)
        return Shards(
            features, np.concatenate(targets), stops - counts, stops, self.norm_bound, self.names, self.clipped
        )

    def blocks(self) -> Iterator[tuple[IntArray, Any, NDArray[Any]]]:
        for source, agents in self._sharing():
            for features, targets, _ in self._walk(source, self.block):
                yield agents, features, targets

    def enforced(self, admit: Admit, usable: BoolArray | None = None) -> StoredShards:
        """As of records in memory, block by block when they are read.

        Args:
            admit: The targets in the type of the run's loss, and which are valid.
            usable: Which records count at all, for one agent; None: all.

        Returns:
            Shards that read the same files.
        """
        lenient = {id(source): source.lenient() for source in self.sources}
        sources = tuple(lenient[id(source)] for source in self.sources)
        return replace(self, sources=sources, admit=admit, usable=usable)

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
        """Runs a kernel over all chunks, reading each block once for all agents that share it.

        Args:
            kernel: A compiled loop over chunks.
            given: What it is given before the records.
            x: A row for every agent.
            shape: Of a chunk's sum.
            add: Called with the sums of some chunks, and whose each chunk is.
            chunk: Records of a chunk, at most.
        """
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

    def check(self) -> tuple[int, int]:
        """Reads every record once: an `InputError` for one that cannot be used, unless that is allowed.

        Returns:
            How many are over the bound, and how many count as zero.
        """
        found = [counts for source, _ in self._sharing() for *_, counts in self._walk(source, self.block)]
        return sum(long for long, _ in found), sum(lost for _, lost in found)

    def _sharing(self) -> list[tuple[Blocks, IntArray]]:
        """Each reader, with the agents (of runs side by side) that it reads for."""
        found: dict[int, list[int]] = {}
        for agent, source in enumerate(self.sources):
            found.setdefault(id(source), []).append(agent)
        return [(self.sources[agents[0]], np.array(agents)) for agents in found.values()]

    def _walk(self, source: Blocks, rows: int) -> Iterator[tuple[NDArray[Any], NDArray[Any], tuple[int, int]]]:
        """The records as they are used, `rows` at a time; of each block how many were over the bound and how many are
        zero because they cannot be used."""
        start = 0
        for found, raw in source.walk(rows):
            numbers = range(start, start + len(raw))
            features, targets, long, lost = self._encoded(source, found, raw, numbers)
            start += len(raw)
            yield features, targets, (int(long.sum()), int(lost.sum()))

    def _encoded(
        self, source: Blocks, found: NDArray[Any], raw: NDArray[Any], numbers: Sequence[int] | IntArray
    ) -> tuple[Any, NDArray[Any], BoolArray, BoolArray]:
        """Rows and targets of the records of these numbers, which were over the bound, and which cannot be used."""
        if self.admit is None:
            rows, long, lost = self.rules.apply(found, None, partial(_place, source.name, numbers))
            return rows, self.encode(raw), long, lost
        encoded, known = _encode_all(self.encode, raw)
        if self.usable is not None:
            known = known & self.usable[np.asarray(numbers)]
        targets, good = self.admit(only(encoded, known))
        rows, long, lost = self.rules.apply(found, good)
        return rows, targets, long, lost


def _encode_all(encode: Encode, raw: NDArray[Any]) -> tuple[NDArray[Any], BoolArray]:
    """The targets of a reader that gives NaN or -1 for what is none, and which can be encoded."""
    known = np.isfinite(raw) if raw.dtype.kind == "f" else raw >= 0
    filled = np.where(known, raw, 0)
    try:
        return encode(filled), known
    except InputError:  # shards made for another kind of target: one by one
        usual, alone = encode(np.zeros(1, raw.dtype)), [_encode_one(encode, filled[[k]]) for k in range(len(raw))]
    targets = np.concatenate([usual if each is None else each for each in alone])
    return targets, known & np.array([each is not None for each in alone], dtype=np.bool_)


def _encode_one(encode: Encode, target: NDArray[Any]) -> NDArray[Any] | None:
    try:
        return encode(target)
    except InputError:
        return None


def gather_blocks(
    sources: Sequence[Blocks],
    encode: Encode,
    *,
    norm_bound: float,
    intercept: bool = False,
    names: Sequence[str] | None = None,
    admit: Admit | None = None,
) -> StoredShards:
    """What `gather` is for records in memory: every record is read once and checked, so that none can surprise a run.

    Args:
        sources: A reader for each agent.
        encode: Turns a reader's targets into those of the loss.
        norm_bound: Public; longer rows are shortened to it.
        intercept: Whether a column of ones is appended after clipping.
        names: Of the agents; None: those of the readers.
        admit: `Loss.admit` for the run's classes, for real owners: a record that cannot be used counts as zero. None:
            it is an error.

    Returns:
        Shards that hold no record.

    Raises:
        InputError: Readers and names do not go together, or a record cannot be used where that is an error.
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
    if admit is not None:
        shards = shards.enforced(admit)
    long, lost = shards.check()
    return replace(shards, clipped=long, unusable=lost)


def _place(name: str, numbers: Sequence[int] | IntArray, row: int, column: int) -> str:
    return f"{name}: row {numbers[row] + 1}, column {column + 1}"
