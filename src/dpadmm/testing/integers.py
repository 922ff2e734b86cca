"""The sum that is released: of integers, so that it is the same however it is computed, and close to the gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numba
import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._threads import one_thread_pool
from dpadmm.problems.losses.unrounded import lattice_sum
from dpadmm.problems.shards import Shards
from dpadmm.release.sums import Query, Total
from dpadmm.testing.batches import SIZES, kind, singles
from dpadmm.testing.contract import ContractError
from dpadmm.testing.problems import SmallProblem

# Of the longest contribution, for each record: a slope is rounded to 20 binary digits, and scores have 24.
ROUNDED = 4e-5
WORD = 2**26  # of `Total`


def integers(total: Total) -> Any:
    """A total as Python integers, which never overflow."""
    return total.high.astype(object) * WORD + total.low.astype(object)


def check_integers(problem: SmallProblem, rng: np.random.Generator, sizes: list[int] = SIZES) -> None:
    """All of this file, over dense and sparse rows."""
    seed = int(rng.integers(2**31))
    with one_thread_pool():
        dense, sparse = (problem.ragged(np.random.default_rng(seed), sizes, sparse=each) for each in (False, True))
        x = problem.models(rng, len(sizes))
        for shards in (dense, sparse):
            check_equal(problem, shards, x, rng)
            check_gradient(problem, shards, x)
        check_storage(problem, dense, sparse, x)


def check_equal(problem: SmallProblem, shards: Shards, x: FloatArray, rng: np.random.Generator) -> None:
    """Groups, orders of records and agents, chunks and threads change no integer."""
    query = problem.query
    found = integers(query.total(shards, x))
    owner = np.repeat(np.arange(shards.agents), shards.counts)
    each = integers(query.total(singles(shards), x[owner]))
    sums = np.stack([each[owner == agent].sum(axis=0) for agent in range(shards.agents)])
    _same(problem, shards, "the records one by one", sums, found)
    mixed = _shuffled(shards, rng)
    _same(problem, shards, "the records in another order", integers(query.total(mixed, x)), found)
    order = rng.permutation(np.tile(np.arange(shards.agents), 2))
    several = integers(query.total(shards.take(order), x[order]))
    _same(problem, shards, "the agents in another order, each twice", several, found[order])
    for chunk in (1, 7, 97):
        smaller = integers(query.total(_chunked(shards, chunk), x))
        _same(problem, shards, f"chunks of {chunk} records", smaller, found)
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        threads = integers(query.total(shards, x))
    finally:
        numba.set_num_threads(before)
    _same(problem, shards, f"one thread instead of {before}", threads, found)


def _shuffled(shards: Shards, rng: np.random.Generator) -> Shards:
    """Each agent's records in another order."""
    pairs = zip(shards.starts, shards.stops, strict=True)
    order = np.concatenate([start + rng.permutation(stop - start) for start, stop in pairs])
    return replace(shards, features=shards.features[order], targets=shards.targets[order])


def _chunked(shards: Shards, size: int) -> Shards:
    """The same records, walked over in chunks of at most so many records."""

    class Chunked(Shards):
        def chunks(self, wanted: int = size) -> Any:
            return super().chunks(min(size, wanted))

    given = {name: getattr(shards, name) for name in Shards.__dataclass_fields__}
    return Chunked(**given)


def _same(problem: SmallProblem, shards: Shards, how: str, one: Any, other: Any) -> None:
    if not np.array_equal(one, other):
        raise ContractError(
            problem.part,
            "the released sum is the same however it is computed",
            f"query over {kind(shards)}: {how} give other integers, by up to {np.abs(one - other).max():,} units.",
            "A record's integers may depend on the record and on the model alone, and must be added up exactly.",
        )


def check_gradient(problem: SmallProblem, shards: Shards, x: FloatArray) -> None:
    """`gradient` is what is released, but for the rounding of slopes and of the sum."""
    query = problem.query
    exact, found = lattice_sum(query, shards, x), problem.loss.gradient(shards, x, np.ones(shards.agents))
    room = _room(problem, query, shards.counts)
    off = np.linalg.norm(found - exact, axis=1)
    if not (off <= room).all():
        agent = int(np.argmax(off - room))
        raise ContractError(
            problem.part,
            "gradient is close to the released sum",
            f"over {kind(shards)}, agent {agent} ({shards.counts[agent]} records) has a gradient that is "
            f"{off[agent]:.6g} from the sum of its query, and rounding explains {room[agent]:.3g}.",
            "Let gradient and query sum the same thing: metrics and minimisers use one, releases the other.",
        )


def check_storage(problem: SmallProblem, dense: Shards, sparse: Shards, x: FloatArray) -> None:
    """Dense and sparse rows give the same integers, but for slopes that are rounded another way."""
    query = problem.query
    one, other = (lattice_sum(query, shards, x) for shards in (dense, sparse))
    off, room = np.linalg.norm(one - other, axis=1), _room(problem, query, dense.counts)
    if not (off <= room).all():
        raise ContractError(
            problem.part,
            "the released sum over sparse rows is that over dense rows",
            f"they differ by {off.max():.6g}, and rounding explains {room[int(np.argmax(off - room))]:.3g}.",
            "Correct one of the query's loops.",
        )


def _room(problem: SmallProblem, query: Query, counts: Any) -> FloatArray:
    bounds = query.bounds(problem.width, problem.bound)
    each = ROUNDED * bounds.norm * bounds.worth
    return np.asarray(each * counts + 2.0 * np.sqrt(bounds.dimension) * bounds.coarse)
