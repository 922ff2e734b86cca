"""Records split over agents.

All records lie in one table, sorted by agent; an agent is a range of rows. Selecting agents, or repeating them for
independent runs, makes new ranges over the same table and copies no record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from dpadmm.errors import InputError, unknown
from dpadmm.problems.kernels.batch import add_chunks

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

PRECISIONS = ("float64", "float32")
LARGEST_FLOAT32 = 1e15  # of a coefficient: products with rows, and sums of them, stay finite

# Records per chunk: large enough to amortise a chunk's own vector, small enough to feed every thread and stay in cache.
CHUNK = 512


@dataclass(frozen=True, eq=False)
class Shards:
    """Records over agents: row `r` of the table belongs to agent `i` if `starts[i] <= r < stops[i]`."""

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

    @property
    def precision(self) -> str:
        return str(self.features.dtype)

    @property
    def storage(self) -> tuple[NDArray[Any], ...]:
        """The arrays a kernel reads the rows from."""
        if isinstance(self.features, np.ndarray):
            return (self.features,)
        return self.features.data, self.features.indices, self.features.indptr

    def take(self, agents: Any) -> Shards:
        """These agents, in this order (an agent may be named twice), over the same records."""
        return replace(
            self,
            starts=self.starts[agents],
            stops=self.stops[agents],
            names=tuple(np.asarray(self.names, dtype=object)[agents]),
        )

    def tile(self, runs: int) -> Shards:
        """The agents of `runs` independent runs, one run after the other."""
        return self if runs == 1 else self.take(np.tile(np.arange(self.agents), runs))

    def pick(self, rows: IntArray, counts: IntArray) -> Shards:
        """Some records of each agent, copied: `rows` numbers them within their agent, the agents' one after another,
        and `counts` says how many each agent has. An agent may have none."""
        stops = np.cumsum(counts)
        table = rows + np.repeat(self.starts, counts)
        return replace(
            self, features=self.features[table], targets=self.targets[table], starts=stops - counts, stops=stops
        )

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
        """
        start, stop, agent, first = self.chunks
        parts = np.empty((start.size, *shape))
        precision = self.storage[0].dtype
        # In float32 a stranger's model could overflow, and whether a record then makes it NaN would show the record.
        point = x if precision == np.float64 else np.clip(x, -LARGEST_FLOAT32, LARGEST_FLOAT32)
        point = np.ascontiguousarray(point, dtype=precision)
        kernel(loss, *self.storage, self.targets, start, stop, agent, weights, point, parts)
        if start.size == self.agents and np.array_equal(agent, np.arange(self.agents)):
            return parts
        out = np.empty((self.agents, *shape))
        add_chunks(parts, first, out)
        return out


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

    `owner` holds agent numbers 0..n-1 (with `names` for people) or owner names, which are numbered in sorted order.
    With an intercept a column of ones is appended after clipping, and the bound becomes sqrt(bound² + 1). Rows are
    clipped in the precision they are kept in, so that the bound holds for the numbers that are used.
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    table = _finite(features, precision)
    if not (np.isfinite(norm_bound) and norm_bound > 0):
        raise InputError(
            f"norm bound {norm_bound!r}: must be a positive number; it is public and every row is clipped to it."
        )
    if not table.shape[0] == len(targets) == len(owner):
        raise InputError(
            f"{table.shape[0]} rows of features, {len(targets)} targets and {len(owner)} owners: must be equally many."
        )
    table, clipped = clip_rows(table, norm_bound)
    if intercept:
        table = _with_ones(table)
        norm_bound = float(np.hypot(norm_bound, 1.0))
    if names is None:
        found, agent = np.unique(np.asarray(owner), return_inverse=True)
        names = [str(name) for name in found]
    else:
        agent = np.asarray(owner, dtype=np.int64)
        if agent.min() < 0 or agent.max() >= len(names):
            row = int(np.argmax((agent < 0) | (agent >= len(names))))
            raise InputError(f"owner {agent[row]} in row {row} is not one of the agents 0..{len(names) - 1}.")
    counts = np.bincount(agent, minlength=len(names))
    if (counts == 0).any():
        empty = names[int(np.argmin(counts))]
        raise InputError(f"agent {empty!r} has no records; use fewer agents or another split.")
    order = np.argsort(agent, kind="stable")
    stops = np.cumsum(counts)
    return Shards(
        features=np.ascontiguousarray(table[order]) if isinstance(table, np.ndarray) else csr_array(table[order]),
        targets=np.ascontiguousarray(targets[order]),
        starts=stops - counts,
        stops=stops,
        norm_bound=norm_bound,
        names=tuple(names),
        clipped=clipped,
    )


def clip_rows(table: FloatArray | csr_array, bound: float) -> tuple[Any, int]:
    """Scales every row that is longer than `bound` down to it; also says how many there were.

    Norms are taken in float64. A row of float32 is scaled to a little less, so that rounding does not lift it again.
    """
    if isinstance(table, np.ndarray):
        norms = np.sqrt(np.einsum("ij,ij->i", table, table, dtype=np.float64))
    else:
        wide = table.astype(np.float64, copy=False)
        norms = np.sqrt(np.asarray((wide * wide).sum(axis=1)).ravel())
    long = norms > bound
    if not long.any():
        return table, 0
    below = 1.0 if table.dtype == np.float64 else 1.0 - 2.0**-22
    factors = np.where(long, below * bound / np.maximum(norms, bound), 1.0).astype(table.dtype)
    scaled = table * factors[:, None] if isinstance(table, np.ndarray) else csr_array(table.multiply(factors[:, None]))
    return scaled, int(long.sum())


def _finite(features: Any, precision: str) -> Any:
    table: Any = np.asarray(features) if not issparse(features) else csr_array(features)  # type: ignore[call-overload]
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] == 0:
        raise InputError(f"features of shape {table.shape}: a table with at least one row and one column is needed.")
    if table.dtype != np.float32:
        table = table.astype(np.float64, copy=False)
    numbers = table if isinstance(table, np.ndarray) else table.data
    fits = np.abs(numbers) <= np.finfo(precision).max
    if not fits.all():
        if isinstance(table, np.ndarray):
            row, column = np.argwhere(~fits)[0]
        else:
            row, column = (axis[np.argmin(fits)] for axis in table.tocoo().coords)
        raise InputError(
            f"features: row {row}, column {column} is not a finite number in {precision}; remove or fill such rows "
            f"first."
        )
    return table.astype(precision, copy=False)


def _with_ones(table: Any) -> Any:
    ones = np.ones((table.shape[0], 1), dtype=table.dtype)
    if isinstance(table, np.ndarray):
        return np.hstack([table, ones])
    from scipy.sparse import hstack

    return csr_array(hstack([table, csr_array(ones)]))
