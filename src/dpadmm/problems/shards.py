"""Records split over agents, as integer rows.

All records lie in one table, sorted by agent; an agent is a range of rows. Selecting agents, or repeating them for
independent runs, makes new ranges over the same table and copies no record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpadmm._arrays import BoolArray, FloatArray, IntArray
from dpadmm.errors import InputError
from dpadmm.privacy.events import digest
from dpadmm.problems.kernels.batch import add_in_order
from dpadmm.problems.rows import RowRules, used
from dpadmm.release import rows
from dpadmm.release.sums import CHUNK

# Targets of any origin become those of a loss, and which of them were.
Admit = Callable[[NDArray[Any]], tuple[NDArray[Any], BoolArray]]

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

    features: NDArray[Any] | csr_array  # integers as float32; one of them is worth `cell`
    targets: NDArray[Any]
    starts: IntArray
    stops: IntArray
    norm_bound: float
    names: tuple[str, ...]
    clipped: int = 0  # rows over the bound; a fact about private data, so simulations only
    unusable: int = 0  # records that could not be encoded and count as zero; a fact for their owner only

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

    @property
    def row_bound(self) -> float:
        """How long a row can be, with the intercept's one."""
        return self.norm_bound

    @property
    def cell(self) -> float:
        """What one unit of a row is worth."""
        return rows.cell(self.norm_bound)

    @property
    def storage(self) -> tuple[NDArray[Any], ...]:
        """The arrays a kernel reads the rows from."""
        if isinstance(self.features, np.ndarray):
            return (self.features,)
        return self.features.data, self.features.indices, self.features.indptr

    @cached_property
    def real_rows(self) -> Any:
        """The rows in the units of the records, in doubles: for what is not released."""
        return self.features.astype(np.float64) * self.cell

    def encoded(self, features: Any, rules: RowRules, row_bound: float) -> Shards:
        """The same records with other rows, made of these by a public map, one row at a time.

        Args:
            features: The new rows, in their own units.
            rules: How they become integers.
            row_bound: That of the rules, but for rounding.

        Returns:
            Shards over the new rows. A record that could not be used stays zero.
        """
        table, _, _ = rules.apply(features, used(self.features))
        return replace(self, features=table, norm_bound=row_bound)

    def unbounded(self, features: FloatArray) -> Shards:
        """The same records with rows that obey no bound: to predict for, never to be released.

        Args:
            features: The new rows, in their own units.

        Returns:
            Shards over the new rows.
        """
        return replace(self, features=features / self.cell)

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

    def each(self, first: int, last: int) -> Shards:
        """Some records, each as an agent of its own.

        Args:
            first: Their first one, counted over all agents in their order.
            last: The one after the last.

        Returns:
            Shards that share the table.
        """
        ends = np.cumsum(self.counts)
        numbers = np.arange(first, last)
        owner = np.searchsorted(ends, numbers, side="right")
        place = self.starts[owner] + numbers - (ends - self.counts)[owner]
        return replace(self.take(owner), starts=place, stops=place + 1)

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
        return CHUNK * max(4, BLOCK_BYTES // (CHUNK * self.width * 4))

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

    def enforced(self, admit: Admit, usable: BoolArray | None = None) -> Shards:
        """These records as a run may use them, whatever they were made with.

        Args:
            admit: The targets in the type of the run's loss, and which are valid (`Loss.admit`).
            usable: Which records count at all, one for each; None: all.

        Returns:
            Shards over the same table where nothing is wrong with it. Otherwise a row that is no row of integers within
            the bound is zero, and so is that of a target that is not valid, or of a record that does not count; the
            target of both is one that is valid, the same for all.

        Guarantee:
            What a query adds up obeys the bounds that its lemma needs, record by record.
        """
        own = self.compact() if self.agents == 1 and self.counts[0] < len(self.targets) else self
        numbers = own.features if own.features.dtype == np.float32 else own.features.astype(np.float32)
        table, lost = rows.enforce(numbers)
        targets, good = admit(own.targets if usable is None else only(own.targets, usable))
        if not good.all():
            table = _without(table, ~good)
        gone = int(np.count_nonzero(used(own.features) & ~used(table))) if lost or not good.all() else 0
        if table is self.features and targets is self.targets:
            return self
        return replace(own, features=table, targets=targets, unusable=own.unusable + gone)

    def digest(self) -> str:
        """Names these records: other records have another digest.

        Returns:
            A hexadecimal digest.
        """
        return digest(*(part.tobytes() for part in (*self.storage, self.targets)))

    def chunks(self, size: int = CHUNK) -> tuple[IntArray, IntArray, IntArray]:
        """The records in chunks, each of one agent.

        Args:
            size: Records of a chunk, at most.

        Returns:
            The first row of every chunk, the row after its last, and its agent.
        """
        known = self._chunks.get(size)
        if known is None:
            per_agent = -(-self.counts // size)
            first = np.cumsum(per_agent) - per_agent
            agent = np.repeat(np.arange(self.agents), per_agent)
            start = self.starts[agent] + size * (np.arange(agent.size) - first[agent])
            known = self._chunks[size] = start, np.minimum(start + size, self.stops[agent]), agent
        return known

    @cached_property
    def _chunks(self) -> dict[int, tuple[IntArray, IntArray, IntArray]]:
        return {}

    def walk(
        self,
        kernel: Callable[..., None],
        given: tuple[Any, ...],
        x: NDArray[Any],
        shape: tuple[int, ...],
        add: Callable[[FloatArray, IntArray], None],
        chunk: int = CHUNK,
    ) -> None:
        """Runs a kernel over all chunks, and hands its sums on.

        Args:
            kernel: A compiled loop over chunks.
            given: What it is given before the records.
            x: A row for every agent.
            shape: Of a chunk's sum.
            add: Called with the sums of some chunks, and whose each chunk is.
            chunk: Records of a chunk, at most.
        """
        start, stop, agent = self.chunks(chunk)
        parts = np.empty((start.size, *shape))
        kernel(*given, *self.storage, self.targets, start, stop, agent, np.ascontiguousarray(x), parts)
        add(parts, agent)

    def reduce(
        self, kernel: Callable[..., None], given: tuple[Any, ...], x: NDArray[Any], shape: tuple[int, ...]
    ) -> FloatArray:
        """The sums of a kernel over each agent's records, in doubles, chunk by chunk.

        Args:
            kernel: A compiled loop over chunks.
            given: What it is given before the records.
            x: A row for every agent.
            shape: Of a sum.

        Returns:
            One array of that shape for every agent.
        """
        out = np.zeros((self.agents, *shape))

        def to_agents(parts: FloatArray, agent: IntArray) -> None:
            add_in_order(parts.reshape(len(parts), prod(shape)), agent, out.reshape(self.agents, prod(shape)))

        self.walk(kernel, given, x, shape, to_agents)
        return out


def gather(
    features: Any,
    targets: NDArray[Any],
    owner: NDArray[Any],
    *,
    norm_bound: float,
    intercept: bool = False,
    names: Sequence[str] | None = None,
    usable: BoolArray | None = None,
) -> Shards:
    """Shards from records and the owner of each: integer rows within the public norm bound, sorted by agent.

    Args:
        features: The records, dense or CSR.
        targets: The target of each, as the loss encodes it.
        owner: Agent numbers 0..n-1 (with `names` for people), or owner names, which are numbered in sorted order.
        norm_bound: Length that every row is scaled down to.
        intercept: Whether a column of ones is appended after that; the bound becomes sqrt(bound² + 1).
        names: The agents' names.
        usable: Which records count; the others, and rows that are not finite, become zero. None: a number that is not
            finite is an error.

    Returns:
        The shards. A row's bits depend on its record and on the public numbers alone.

    Raises:
        InputError: Numbers of rows, targets and owners differ, an agent has no records, or a number is not finite
            where `usable` is None.
    """
    rules = RowRules(norm_bound, intercept)
    table, long, lost = rules.apply(features, usable)
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
    stops = np.cumsum(counts)
    if (np.diff(agent) < 0).any():
        order = np.argsort(agent, kind="stable")
        table, targets = table[order], targets[order]
    return Shards(
        features=np.ascontiguousarray(table) if isinstance(table, np.ndarray) else csr_array(table),
        targets=np.ascontiguousarray(targets),
        starts=stops - counts,
        stops=stops,
        norm_bound=rules.row_bound,
        names=tuple(names),
        clipped=int(long.sum()),
        unusable=int(lost.sum()),
    )


def only(targets: NDArray[Any], usable: BoolArray) -> NDArray[Any]:
    """The targets of the records that count, and for the others one that no loss knows: a row of zeros adds nothing to
    a gradient, but whether its target is the class of such a row would add to a count of mistakes."""
    return targets if usable.all() else np.where(usable, targets, np.nan)


def _without(table: Any, bad: BoolArray) -> Any:
    """A copy of the table in which these rows are zero."""
    copy = table.copy()
    if isinstance(copy, np.ndarray):
        copy[bad] = 0.0
    else:
        copy.data[np.repeat(bad, np.diff(copy.indptr))] = 0.0
    return copy


def refuse_empty(counts: IntArray, names: Sequence[str]) -> None:
    """Raises an `InputError` that names an agent without records."""
    if (counts == 0).any():
        empty = names[int(np.argmin(counts))]
        raise InputError(f"agent {empty!r} has no records; use fewer agents or another split.")
