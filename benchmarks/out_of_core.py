"""Records on disk: a full gradient, a mini-batch's gradient, and what the machine could do at best, in one run.

    python benchmarks/out_of_core.py --json
    python benchmarks/out_of_core.py --agents 2 --records 100000 --repeats 3     # small

10 agents with 1,000,000 x 100 float32 each, as a folder of arrays (4 GB, written once into --folder, or into a
temporary one that is deleted). Cold: after the system was told to forget the files; warm: after a full pass over them.
`round_ratio` is one outer round of `ps-admm-full` (so many whole gradients) over one of `ps-admm` with 1 % mini-batches
(one whole gradient, then as many steps on a batch each), `sgd_round_ratio` the same for `ps-admm-sgd` (mini-batches
only); warm. Peak memory is that of the process, with mapped pages.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, prange

from dpadmm.datasets import open_folder, write_folder
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds as steps
from dpadmm.engine.prepare import prepare
from dpadmm.privacy.randomness import generator
from dpadmm.problems.losses import Logistic
from dpadmm.problems.shards import Shards
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec.declare import Experiment
from timing import show

LOSS = Logistic()
RATE = 0.01
BLOCK = 2**16


def write(folder: Path, agents: int, records: int, width: int) -> None:
    """The folder, unless it is there; some rows in a thousand are over the norm bound of 1."""
    if (folder / "dataset.json").exists():
        return

    def blocks(agent: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        truth = generator(0, "truth").normal(size=width).astype(np.float32)
        for first in range(0, records, BLOCK):
            draw = generator(0, f"records {agent} {first}")
            rows = draw.standard_normal((min(BLOCK, records - first), width), dtype=np.float32)
            rows *= np.float32(0.8 / np.sqrt(width))
            yield rows, (rows @ truth > 0.0).astype(np.int64)

    owners = ((f"owner-{agent:02d}", blocks(agent)) for agent in range(agents))
    write_folder(folder, owners, classes=["no", "yes"], precision="float32")
    for file in folder.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())


def forget(folder: Path) -> None:
    """Drops the files from the page cache."""
    for file in folder.iterdir():
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(folder: Path) -> None:
    """Every byte once, in order: what a full pass cannot beat while it reads."""
    space = memoryview(bytearray(2**23))
    for file in sorted(folder.iterdir()):
        with file.open("rb", buffering=0) as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            while opened.readinto(space):
                pass


@njit(parallel=True, fastmath=True)
def _sum(numbers: Any, sums: Any) -> None:
    for part in prange(sums.size):
        total = np.float32(0.0)
        for i in range(part * numbers.size // sums.size, (part + 1) * numbers.size // sums.size):
            total += numbers[i]
        sums[part] = total


def bandwidth() -> float:
    """Bytes a second of a sum over 256 MB in memory, on all threads."""
    numbers, sums = np.ones(2**26, dtype=np.float32), np.empty(64, dtype=np.float32)
    _sum(numbers, sums)
    return numbers.nbytes / min(_seconds(lambda: _sum(numbers, sums)) for _ in range(5))


def draw(shards: Shards, step: int) -> tuple[np.ndarray, np.ndarray]:
    """A Poisson batch of every agent."""
    rng = generator(step, "batch")
    rows = [np.flatnonzero(rng.random(count) < RATE) for count in shards.counts]
    return np.concatenate(rows), np.array([own.size for own in rows])


def measure(folder: Path, algorithm: str, updates: int, **changes: Any) -> float:
    """Seconds of one round of a recipe over the folder, without metrics; opening it is not counted."""
    given = {
        "source": str(folder), "algorithm": algorithm, "rounds": 1, "updates": updates,
        "relation": "zero-out", "noise_multiplier": 100.0, "delta": 1e-6,
    }  # fmt: skip
    prepared = prepare(Experiment().changed(**(given | changes)))
    cohort = Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(0))
    return _seconds(lambda: [None for _ in steps(cohort, SimulationState.of(cohort), InProcessExecutor())])


def recipes(folder: Path, updates: int) -> dict[str, float]:
    """Seconds of a round of each, after one short round that compiles what there is to compile."""
    kinds: dict[str, dict[str, Any]] = {"ps-admm-full": {}, "ps-admm": {"batch": RATE}, "ps-admm-sgd": {"batch": RATE}}
    for algorithm, changes in kinds.items():
        measure(folder, algorithm, 2, **changes)
    return {algorithm: measure(folder, algorithm, updates, **changes) for algorithm, changes in kinds.items()}


def _seconds(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _spread(seconds: list[float]) -> dict[str, float]:
    return {"least": min(seconds), "median": float(np.median(seconds)), "most": max(seconds)}


def parts(folder: Path, repeats: int) -> dict[str, Any]:
    """Seconds of each part, taken in turn, cold and warm."""
    data = open_folder(folder)
    began = time.perf_counter()
    shards = data.shards(partial(LOSS.encode, classes=2), norm_bound=1.0)
    checking = time.perf_counter() - began
    x = generator(0, "model").normal(size=(shards.agents, shards.width))
    drawn = [draw(shards, step) for step in range(2 * repeats + 1)]

    def gradient(these: Shards) -> None:
        LOSS.gradient(these, x, 1.0 / shards.counts)

    def batch(step: int) -> Shards:
        return shards.pick(*drawn[step])

    gradient(batch(2 * repeats))  # compiled from here on
    full, picked = partial(gradient, shards), batch(0)
    found: dict[str, list[float]] = {}
    for temperature in ("cold", "warm"):
        contenders: dict[str, Callable[[int], Any]] = {
            "read": lambda step: read(folder),
            "full_gradient": lambda step: full(),
            "batch_pick_and_gradient": lambda step: gradient(batch(step)),
        }
        if temperature == "warm":
            forget(folder)  # a cache that was filled row by row is slower to map than one that a pass has filled
            full()
            contenders |= {"batch_pick": batch, "batch_gradient": lambda step: gradient(picked)}
        for repeat in range(repeats):
            for name, run in contenders.items():
                if temperature == "cold":
                    forget(folder)
                step = repeat + (repeats if temperature == "warm" else 0)
                found.setdefault(f"{name}_{temperature}", []).append(_seconds(partial(run, step)))
    return {
        "opening_and_checking": checking,
        "clipped_rows": shards.clipped,
        **{name: _spread(times) for name, times in found.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--folder", type=Path, help="where the records are, or are to be written; default: temporary")
    for name, default in (("agents", 10), ("records", 1_000_000), ("width", 100), ("repeats", 5), ("updates", 50)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    given = parser.parse_args()
    where = nullcontext(given.folder) if given.folder else tempfile.TemporaryDirectory(prefix="dpadmm-")
    with where as name:
        folder = Path(name) / "records"
        write(folder, given.agents, given.records, given.width)
        size = sum(file.stat().st_size for file in folder.iterdir())
        writing = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        times = parts(folder, given.repeats)
        rounds = recipes(folder, given.updates)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    full = times["full_gradient_warm"]["median"]
    memory = bandwidth()
    show(
        {
            "round_ratio": rounds["ps-admm-full"] / rounds["ps-admm"],
            "sgd_round_ratio": rounds["ps-admm-full"] / rounds["ps-admm-sgd"],
            **{f"{name.replace('-', '_')}_round_seconds": seconds for name, seconds in rounds.items()},
            "peak_gigabytes": peak / 1e9,
            "peak_gigabytes_after_writing": writing / 1e9,
            "gigabytes": size / 1e9,
            "memory_gigabytes_a_second": memory / 1e9,
            "full_over_read_warm": full / times["read_warm"]["median"],
            "full_over_read_cold": times["full_gradient_cold"]["median"] / times["read_cold"]["median"],
            "full_over_memory_limit": full / (size / memory),
            **times,
        },
        given.json,
    )


if __name__ == "__main__":
    main()
