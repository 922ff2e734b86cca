"""What exact sums and exact noise cost: this version beside another one, each in an environment of its own.

    python benchmarks/release_path.py --before ENVIRONMENT_OR_CHECKOUT

ENVIRONMENT is a virtual environment in which another version is installed; a checkout is run with this interpreter.
Both versions compute the same sums over the same simulated records, turn by turn, and the best time of each counts.
Ratios below 1 mean that this version is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse import random as random_sparse

TURNS = 5
CASES = (
    "dense 40,000 x 104",
    "dense 400,000 x 104",
    "softmax 60,000 x 784 x 10",
    "sparse 40,000 x 104",
    "curves 20,000 x 10",
)


def records(case: str) -> tuple[Any, np.ndarray, int]:
    """Features, class numbers and how many classes."""
    rng = np.random.default_rng(0)
    if case.startswith("softmax"):
        x = rng.random((60_000, 784), dtype=np.float32) * (rng.random((60_000, 784), dtype=np.float32) < 0.19)
        return x / np.linalg.norm(x, axis=1, keepdims=True), rng.integers(0, 10, 60_000), 10
    if case.startswith("sparse"):
        table = csr_array(random_sparse(40_000, 104, density=0.13, format="csr", random_state=1))
        return table / 4.0, rng.integers(0, 2, 40_000), 2
    count, width = {"dense 40,000 x 104": (40_000, 104), "dense 400,000 x 104": (400_000, 104)}.get(case, (20_000, 10))
    x = rng.normal(size=(count, width))
    return x / np.linalg.norm(x, axis=1, keepdims=True), rng.integers(0, 2, count), 2


def work(case: str) -> tuple[Callable[[], Any], int]:
    """One sum of gradients over all records, in whichever version is installed, and the bytes that the rows take."""
    from dpadmm.problems.losses import LOSSES
    from dpadmm.problems.shards import gather

    features, classes, count = records(case)
    loss = LOSSES["softmax" if count > 2 else "smoothed-quantile" if case.startswith("curves") else "logistic"]()
    targets = loss.encode(classes.astype(np.float64) if loss.task == "regression" else classes, count)
    given = {"precision": "float32"} if count > 2 and not hasattr(loss, "query") else {}  # the faster of the old ones
    shards = gather(features, targets, np.zeros(len(classes), dtype=np.int64), norm_bound=1.0, names=["all"], **given)
    x = np.random.default_rng(1).normal(size=(1, loss.dimension(shards.width, count)))
    weights = 1.0 / shards.counts
    size = sum(part.nbytes for part in shards.storage)
    if hasattr(loss, "query"):
        query = loss.query(count)
        from dpadmm.problems.losses.unrounded import lattice_sum

        return lambda: weights[:, None] * lattice_sum(query, shards, x), size
    return lambda: loss.gradient(shards, x, weights), size


def worker() -> None:
    """Answers each line, the name of a case, with its best time in seconds and the size of its rows."""
    known: dict[str, tuple[Callable[[], Any], int]] = {}
    for line in sys.stdin:
        case = line.strip()
        if case not in known:
            known[case] = work(case)
            known[case][0]()
        run, size = known[case]
        best = float("inf")
        for _ in range(10):
            start = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - start)
        print(json.dumps([best, size]), flush=True)


def start(place: Path | None) -> subprocess.Popen[str]:
    """A worker of this version, or of the one at `place`."""
    python, environment = sys.executable, dict(os.environ)
    if place is not None and (place / "bin" / "python").exists():
        python = str(place / "bin" / "python")
        environment.pop("PYTHONPATH", None)
    elif place is not None:
        environment["PYTHONPATH"] = str(place / "src")
    return subprocess.Popen(
        [python, __file__, "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def ask(process: subprocess.Popen[str], case: str) -> tuple[float, int]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{case}\n")
    process.stdin.flush()
    best, size = json.loads(process.stdout.readline())
    return best, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="virtual environment or checkout of another version")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker()
        return
    new, old = start(None), start(given.before) if given.before else None
    print(f"{'one sum of gradients':<28}{'ms':>9}{'before':>9}{'ratio':>8}{'MB':>8}{'before':>8}")
    for case in CASES:
        best, before, sizes = float("inf"), float("inf"), [0, 0]
        for _ in range(TURNS):
            found, sizes[0] = ask(new, case)
            best = min(best, found)
            if old is not None:
                found, sizes[1] = ask(old, case)
                before = min(before, found)
        row = f"{case:<28}{best * 1e3:9.3f}"
        print(
            row + (f"{before * 1e3:9.3f}{best / before:8.2f}{sizes[0] / 1e6:8.1f}{sizes[1] / 1e6:8.1f}" if old else "")
        )


if __name__ == "__main__":
    main()
