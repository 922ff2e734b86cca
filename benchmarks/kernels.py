"""The gradient of all agents for one round, against a NumPy loop over agents and against streaming the same bytes once.

    python benchmarks/kernels.py --json

Adult, 40,000 x 104, float64; dense and CSR; 1, 100 and 10,000 agents; ragged shards. `loop_ratio` (loop time / ours)
and `stream_ratio` (ours / streaming time) are those of 100 agents, dense.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, prange
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from dpadmm.datasets import load_adult
from dpadmm.engine.data import at_random, dirichlet
from dpadmm.privacy.randomness import generator
from dpadmm.problems.losses import Logistic
from dpadmm.problems.shards import Shards, gather
from timing import arguments, best, show

RECORDS = 40_000
LOSS = Logistic()


@njit(parallel=True, fastmath=True)
def _stream(numbers: Any, sums: Any) -> None:
    """Reads every number once, on as many threads as there are entries of `sums`: the machine's limit."""
    for part in prange(sums.size):
        total = 0.0
        for i in range(part * numbers.size // sums.size, (part + 1) * numbers.size // sums.size):
            total += numbers[i]
        sums[part] = total


def loop(shards: Shards, x: np.ndarray) -> np.ndarray:
    """What one writes first: NumPy (or SciPy's CSR), agent by agent."""
    out = np.empty_like(x)
    for i in range(shards.agents):
        own = slice(shards.starts[i], shards.stops[i])
        rows, signs = shards.features[own], shards.targets[own]
        out[i] = rows.T @ (-signs / (1.0 + np.exp(signs * (rows @ x[i])))) / signs.size
    return out


def case(features: Any, targets: np.ndarray, agents: int, ragged: bool, repeats: int) -> dict[str, Any]:
    rng = generator(0, "benchmark")
    deal = dirichlet(1.0) if ragged else at_random
    names = [str(i) for i in range(agents)]
    shards = gather(features, LOSS.encode(targets, 2), deal(targets, agents, rng), norm_bound=1.0, names=names)
    x, weights = rng.normal(size=(agents, shards.width)), 1.0 / shards.counts
    assert np.allclose(LOSS.gradient(shards, x, weights), loop(shards, x))
    bytes_read = np.ones(sum(part.nbytes for part in shards.storage) // 8)
    contenders: dict[str, Callable[[], Any]] = {
        "ours": lambda: LOSS.gradient(shards, x, weights),
        "stream": lambda: _stream(bytes_read, np.empty(2)),
        "loop": lambda: loop(shards, x),
    }
    by_threads = {}
    for threads in (1, 2):  # the loop at its better number of BLAS threads
        with threadpool_limits(threads, user_api="blas"):
            by_threads[threads] = best({"loop": contenders["loop"]}, 3)["loop"]
    with threadpool_limits(min(by_threads, key=lambda threads: by_threads[threads]), user_api="blas"):
        times = best(contenders, repeats)
    return {
        "layout": "csr" if shards.sparse else "dense",
        "agents": agents,
        "ragged": ragged,
        "records": len(targets),
        "milliseconds": times["ours"],
        "loop_milliseconds": times["loop"],
        "stream_milliseconds": times["stream"],
        "loop_ratio": times["loop"] / times["ours"],
        "stream_ratio": times["ours"] / times["stream"],
    }


def main() -> None:
    given = arguments(__doc__ or "", repeats=30)
    adult = load_adult()
    order = generator(0, "order").permutation(len(adult))[:RECORDS]
    dense, targets = adult.features[order], adult.targets[order]
    sparse = csr_array(dense)
    cases = [case(dense, targets, n, False, given.repeats) for n in (1, 100, 10_000)]
    cases.append(case(dense, targets, 100, True, given.repeats))
    cases += [case(sparse, targets, n, False, given.repeats) for n in (1, 100, 10_000)]
    half = case(dense[: RECORDS // 2], targets[: RECORDS // 2], 100, False, given.repeats)
    headline = cases[1]
    show(
        {
            "loop_ratio": headline["loop_ratio"],
            "stream_ratio": headline["stream_ratio"],
            "twice_the_records": headline["milliseconds"] / half["milliseconds"],
            "ten_thousand_agents_over_one": cases[2]["milliseconds"] / cases[0]["milliseconds"],
            "cases": cases,
        },
        given.json,
    )


if __name__ == "__main__":
    main()
