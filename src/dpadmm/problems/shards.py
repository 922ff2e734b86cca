"""Records split over agents.

All records lie in one table, sorted by agent; an agent is a range of rows. Selecting agents, or repeating them for
independent runs, makes new ranges over the same table and copies no record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.errors import InputError
from dpadmm.privacy.events import digest
from dpadmm.problems.kernels.batch import add_chunks
from dpadmm.problems.rows import PRECISIONS as PRECISIONS
from dpadmm.problems.rows import RowRules

LARGEST_FLOAT32 = 1e15  # of a coefficient: products with rows, and sums of them, stay finite

# Records per chunk: large enough to amortise a chunk's own vector, small enough to feed every thread and stay in cache.
CHUNK = 512

# Bytes of records that are walked over together: enough that waking the threads costs little, even on a busy machine.
BLOCK_BYTES = 2**25


@dataclass(frozen=True, eq=False)
class Shards:
    """Records over agents: row `r` of the table belongs to agent `i` if `starts[i] <= r < stops[i]`.

    Args:
        features: The table, float64 or float32, dense or sparse.
        targets: One per row, as the loss wants them.
        starts: The first row of each agent.
        stops: The row after the last of each agent.
        norm_bound: No row is longer.
        names: Of the agents.
        clipped: How many rows were over the bound; a fact about private data, so simulations only.
    """

    features: NDArray[Any] | csr_array  # float64 or float32
    targets: NDArray[Any]
    starts: IntArray
    stops: IntArray
    norm_bound: float
    names: tuple[str, ...]
    clipped: int = 0  # rows over the bound; a fact about private data, so simulations only

    @property
    def agents(self) -> int:
        return self.starts.size

    @property
    def counts(self) -> IntArray:
        """Records of each agent; public under both neighbouring relations."""
        return self.stops - self.starts

    @property
    def width(self) -> int:
        return int(self.features.shape[1])

    @property
    def sparse(self) -> bool:
        return not isinstance(self.features, np.ndarray)

    @cached_property
    def precision(self) -> str:
        return str(self.features.dtype)

    @property
    def storage(self) -> tuple[NDArray[Any], ...]:
        """The arrays a kernel reads the rows from."""
        if isinstance(self.features, np.ndarray):
            return (self.features,)
        return self.features.data, self.features.indices, self.features.indptr

    def take(self, agents: Any) -> Shards:
        """These agents, in this order (an agent may be named twice), over the same records.

        Args:
            agents: Their positions.

        Returns:
            Shards that share the table.
        """
        return replace(
            self,
            starts=self.starts[agents],
            stops=self.stops[agents],
            names=tuple(np.asarray(self.names, dtype=object)[agents]),
        )

    def tile(self, runs: int) -> Shards:
        """The agents of `runs` independent runs, one run after the other.

        Args:
            runs: How many.

        Returns:
            Shards that share the table.
        """
        return self if runs == 1 else self.take(np.tile(np.arange(self.agents), runs))

    def pick(self, rows: IntArray, counts: IntArray) -> Shards:
        """Some records of each agent, copied.

        Args:
            rows: Their numbers within their agent, the agents' one after another.
            counts: How many each agent has; an agent may have none.

        Returns:
            Shards with a table of their own.
        """
        stops = np.cumsum(counts)
        table = rows + np.repeat(self.starts, counts)
        return replace(
            self, features=self.features[table], targets=self.targets[table], starts=stops - counts, stops=stops
        )

    def compact(self) -> Shards:
        """The same agents over a table of their own rows alone: what goes to another process carries nobody else's.

        Returns:
            Shards with a table of their own.
        """
        ranges, place = np.unique(np.stack([self.starts, self.stops]), axis=1, return_inverse=True)
        counts = ranges[1] - ranges[0]
        stops = np.cumsum(counts)
        rows = np.arange(counts.sum()) + np.repeat(ranges[0] - (stops - counts), counts)
        return replace(
            self,
            features=self.features[rows],
            targets=self.targets[rows],
            starts=(stops - counts)[place.ravel()],
            stops=stops[place.ravel()],
        )

    @property
    def block(self) -> int:
        """Records of a block: whole chunks, enough of them for several threads."""
        return CHUNK * max(4, BLOCK_BYTES // (CHUNK * self.width * np.dtype(self.precision).itemsize))

    def blocks(self) -> Iterator[tuple[IntArray, Any, NDArray[Any]]]:
        """All records, each agent's in order: the agents (rows) whose they are, features and targets of a block.

        A block is good until the next one is asked for.

        Yields:
            Agents, features and targets.
        """
        for agent, (start, stop) in enumerate(zip(self.starts, self.stops, strict=True)):
            for low in range(start, stop, self.block):
                rows = slice(low, min(low + self.block, stop))
                yield np.array([agent]), self.features[rows], self.targets[rows]

    def digest(self) -> str:
        """Names these records: other records have another digest.

        Returns:
            A hexadecimal digest.
        """
        return digest(*(part.tobytes() for part in (*self.storage, self.targets)))

    @cached_property
    def chunks(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Start, stop and agent of every chunk, and each agent's first chunk (one more entry closes the last)."""
        per_agent = -(-self.counts // CHUNK)
        first = np.concatenate(([0], np.cumsum(per_agent)))
        agent = np.repeat(np.arange(self.agents), per_agent)
        start = self.starts[agent] + CHUNK * (np.arange(agent.size) - first[agent])
        return start, np.minimum(start + CHUNK, self.stops[agent]), agent, first

    def reduce(
        self,
        kernel: Callable[..., None],
        loss: Any,
        weights: FloatArray,
        x: FloatArray,
        shape: tuple[int, ...],
    ) -> FloatArray:
        """Runs a kernel over all chunks and adds each agent's chunks in order: one array of `shape` per agent.

        Records may be kept in float32; what is summed over them is float64 all the same.

        Args:
            kernel: A compiled function over chunks of records.
            loss: The tag, or what else the kernel takes first.
            weights: One per agent.
            x: A model for each agent, as rows.
            shape: Of one agent's sum.

        Returns:
            The sums, (agents, *shape).
        """
        start, stop, agent, first = self.chunks
        parts = np.empty((start.size, *shape))
        kernel(loss, *self.storage, self.targets, start, stop, agent, weights, self.point(x), parts)
        if start.size == self.agents and np.array_equal(agent, np.arange(self.agents)):
            return parts
        out = np.empty((self.agents, *shape))
        add_chunks(parts, first, out)
        return out

    def point(self, x: FloatArray) -> NDArray[Any]:
        """A model as the kernels want it: in the precision of the records.

        Args:
            x: Models, as rows.

        Returns:
            The same numbers; in float32 very large ones are cut.
        """
        # In float32 a stranger's model could overflow, and whether a record then makes it NaN would show the record.
        point = x if self.precision == "float64" else np.clip(x, -LARGEST_FLOAT32, LARGEST_FLOAT32)
        return np.ascontiguousarray(point, dtype=self.precision)


def gather(
    features: Any,
    targets: NDArray[Any],
    owner: NDArray[Any],
    *,
    norm_bound: float,
    intercept: bool = False,
    names: Sequence[str] | None = None,
    precision: str = "float64",
) -> Shards:
    """Shards from records and the owner of each: checked, clipped to the public norm bound, sorted by agent.

    Rows are clipped in the precision they are kept in, so that the bound holds for the numbers that are used.

    Args:
        features: Rows, dense or sparse.
        targets: One per row, as the loss wants them.
        owner: Of each row: a name, or a number 0..n-1 where there are `names`. Names are numbered in sorted order.
        norm_bound: Public; longer rows are shortened to it.
        intercept: Whether a column of ones is appended after clipping; the bound becomes sqrt(bound² + 1).
        names: Of the agents, for people.
        precision: `float64` or `float32`.

    Returns:
        The records over agents.

    Raises:
        InputError: Rows, targets and owners do not go together, a number is not finite, or an agent has no records.
    """
    rules = RowRules(norm_bound, intercept, precision)
    table, clipped = rules.apply(features)
    if not table.shape[0] == len(targets) == len(owner):
        raise InputError(
            f"{table.shape[0]} rows of features, {len(targets)} targets and {len(owner)} owners: must be equally many."
        )
    if names is None:
        found, agent = np.unique(np.asarray(owner), return_inverse=True)
        names = [str(name) for name in found]
    else:
        agent = np.asarray(owner, dtype=np.int64)
        if agent.min() < 0 or agent.max() >= len(names):
            row = int(np.argmax((agent < 0) | (agent >= len(names))))
            raise InputError(f"owner {agent[row]} in row {row} is not one of the agents 0..{len(names) - 1}.")
    counts = np.bincount(agent, minlength=len(names))
    refuse_empty(counts, names)
    order = np.argsort(agent, kind="stable")
    stops = np.cumsum(counts)
    return Shards(
        features=np.ascontiguousarray(table[order]) if isinstance(table, np.ndarray) else csr_array(table[order]),
        targets=np.ascontiguousarray(targets[order]),
        starts=stops - counts,
        stops=stops,
        norm_bound=rules.row_bound,
        names=tuple(names),
        clipped=clipped,
    )


def refuse_empty(counts: IntArray, names: Sequence[str]) -> None:
    """Raises an `InputError` that names an agent without records."""
    if (counts == 0).any():
        empty = names[int(np.argmin(counts))]
        raise InputError(f"agent {empty!r} has no records; use fewer agents or another split.")
