"""A round of obj-g on MNIST, 10 agents, E = 1, float32, against its two matrix products and against a plain script.

    python benchmarks/federated.py --json

`products_ratio` is our round over the two products of every agent (scores, and gradient from residuals) alone, in
float32 at the better number of BLAS threads. `script_ratio` is the script's round over ours. The script is a plain
re-implementation, for this comparison, of what the authors of the algorithm published in NumPy: probabilities row by
row, the sensitivity record by record, noise coefficient by coefficient, in float64. Its losses are left out, as ours
are. Records are MNIST's where DPADMM_DATA names a folder with it, else as many random ones.

Then 1,000 agents: how a round's time and the process's memory follow the number of records.
"""

from __future__ import annotations

import resource
import time
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from dpadmm._threads import one_thread_pool
from dpadmm.datasets import Dataset
from dpadmm.datasets.registry import load
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.errors import InputError
from dpadmm.privacy.randomness import generator
from dpadmm.problems.losses import Softmax
from dpadmm.problems.shards import Shards, gather
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec import resolve
from dpadmm.spec.declare import RunSpec
from timing import arguments, best, show

AGENTS, CLASSES, WIDTH, BOUND = 10, 10, 784, 10.0
RUN = {"algorithm": "obj-g", "loss": "softmax", "penalty": "none", "strength": 0.0, "set": "box:0.1", "delta": 1e-6}


def records() -> Dataset:
    try:
        return load("mnist")
    except InputError:
        rng = generator(0, "benchmark")
        features = rng.random((60_000, WIDTH), dtype=np.float32)
        names = tuple(f"pixel {j}" for j in range(WIDTH))
        labels = tuple(str(k) for k in range(CLASSES))
        return Dataset("random", features, rng.integers(CLASSES, size=60_000), labels, names)


def shards_of(data: Dataset, agents: int, per_agent: int) -> Shards:
    owner = np.arange(agents * per_agent) % agents
    names = [str(i) for i in range(agents)]
    targets = Softmax().encode(data.targets[: owner.size], CLASSES)
    rows = data.features[: owner.size]
    return gather(rows, targets, owner, norm_bound=BOUND, names=names)


def cohort_of(shards: Shards, rounds: int) -> Cohort:
    run = RunSpec(rounds=rounds, epsilon=1.0, norm_bound=BOUND, **RUN)
    return Cohort.of(resolve.plan(run, shards.counts, shards.width, CLASSES), shards, [0], SeededRandomness(0))


def play(cohort: Cohort) -> np.ndarray:
    *_, last = rounds(cohort, SimulationState.of(cohort), InProcessExecutor())
    return last.shared.model


def products(shards: Shards, x: np.ndarray) -> None:
    for i in range(shards.agents):
        rows = shards.features[shards.starts[i] : shards.stops[i]]
        rows.T @ (rows @ x[i])


def script(shards: Shards, noise: float, rho: float, eta: float) -> np.ndarray:
    """One round, written the way one does who does not time it."""
    rng = np.random.RandomState(10)
    total = shards.features.shape[0]
    w, z = np.zeros((WIDTH, CLASSES)), np.zeros((shards.agents, WIDTH, CLASSES))
    dual = np.zeros_like(z)
    w = (z - dual / rho).mean(axis=0)
    for p in range(shards.agents):
        own = slice(shards.starts[p], shards.stops[p])
        rows, labels = shards.features[own], np.eye(CLASSES)[shards.targets[own]]
        chances = np.array([row / np.sum(row) for row in np.exp(rows @ z[p])])
        residuals = np.clip(chances, 1e-9, 1.0) - labels
        gradient = rows.T @ residuals / total
        largest = 0.0
        for i in range(len(rows)):
            largest = max(largest, np.sum(np.absolute(np.outer(rows[i], residuals[i]) / total)))
        xi = np.zeros((WIDTH, CLASSES))
        for j in range(WIDTH):
            for k in range(CLASSES):
                xi[j, k] = rng.normal(0.0, noise * largest)
        z[p] = np.clip((z[p] / eta + rho * w + dual[p] - gradient - xi) / (1.0 / eta + rho), -0.1, 0.1)
        dual[p] += rho * (w - z[p])
    return z


def many_agents(data: Dataset, per_agent: int, repeats: int) -> tuple[float, float]:
    """Milliseconds of a round of 1,000 agents, and the process's memory so far in GB."""
    cohort = cohort_of(shards_of(data, 1000, per_agent), 3)
    with one_thread_pool():
        milliseconds = best({"round": lambda: play(cohort)}, repeats)["round"] / 3
    return milliseconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    given = arguments(__doc__ or "", rounds=10, repeats=5)
    data = records()
    shards = shards_of(data, AGENTS, 6000)
    cohort = cohort_of(shards, given.rounds)
    x = generator(0, "model").standard_normal((AGENTS, WIDTH, CLASSES)).astype(np.float32)
    by_threads = {}
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            by_threads[threads] = best({"products": lambda: products(shards, x)}, 3)["products"]
    better = min(by_threads, key=lambda threads: by_threads[threads])

    def bare() -> None:
        with threadpool_limits(better, user_api="blas"):
            products(shards, x)

    times = best({"round": lambda: play(cohort), "products": bare}, given.repeats)
    ours = times["round"] / given.rounds
    wide = replace(shards, features=shards.features.astype(np.float64))
    began = time.perf_counter()
    script(wide, 42.0, 42.0, 0.1)
    theirs = (time.perf_counter() - began) * 1e3
    few, some = many_agents(data, 30, 2), many_agents(data, 60, 2)
    show(
        {
            "data": data.name,
            "products_ratio": ours / times["products"],
            "script_ratio": theirs / ours,
            "round_milliseconds": ours,
            "products_milliseconds": times["products"],
            "products_threads": better,
            "script_milliseconds": theirs,
            "thousand_agents_30_records_milliseconds": few[0],
            "thousand_agents_60_records_milliseconds": some[0],
            "thousand_agents_gigabytes": some[1],
        },
        given.json,
    )


if __name__ == "__main__":
    main()
