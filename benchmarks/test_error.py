"""Whether test errors are what they were: every private recipe, this version beside another one, on Adult.

    python benchmarks/test_error.py --before ENVIRONMENT_OR_CHECKOUT

ENVIRONMENT is a virtual environment in which another version is installed; a checkout is run with this interpreter.
Both versions train with the same terms (100 agents, 50 rounds, epsilon 1, delta 1e-5, zero-out) and 20 seeds. Printed
are means of the test error with their standard errors; lower is better. A difference of more than two standard errors
of the difference is marked. Recipes that need other data, or cannot keep a total budget, are left out, with the reason.
Recipes whose usual noise was of gamma-norm in 0.1.0 have Gaussian noise in both. DPADMM_DATA names the folder of data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

GAUSSIAN = ("dvp", "dvp-graph", "m-admm-penalty", "private-r-admm", "private-mr-admm")


def names() -> list[str]:
    """Private recipes that can keep a total budget."""
    from dpadmm import ALGORITHMS

    return [name for name, recipe in ALGORITHMS.items() if recipe.private and not recipe.as_printed]


def errors(algorithm: str, agents: int, repeats: int, rounds: int) -> list[float]:
    """The test error after the last round, for every seed."""
    import dpadmm

    decentralised = dpadmm.ALGORITHMS[algorithm].consensus.decentralised
    result = dpadmm.train(
        source="adult", algorithm=algorithm, loss="logistic", epsilon=1.0, delta=1e-5, relation="zero-out",
        rounds=rounds, repeats=repeats, measure_every=rounds,
        **({"topology": f"ring:{agents}"} if decentralised else {"agents": agents}),
        **({"mechanism": "gaussian"} if algorithm in GAUSSIAN else {}),
    )  # fmt: skip
    return [float(error) for error in result.history.last("test_error")]


def worker(agents: int, repeats: int, rounds: int) -> None:
    """Answers each line, the name of a recipe, with errors, or the reason why there are none."""
    for line in sys.stdin:
        began = time.perf_counter()
        try:
            found: dict[str, object] = {"errors": errors(line.strip(), agents, repeats, rounds)}
        except Exception as reason:
            found = {"left_out": " ".join(str(reason).split())}
        print(json.dumps(found | {"seconds": time.perf_counter() - began}), flush=True)


def start(place: Path | None, given: argparse.Namespace) -> subprocess.Popen[str]:
    """A worker of this version, or of the one at `place`."""
    python, environment = sys.executable, dict(os.environ)
    if place is not None and (place / "bin" / "python").exists():
        python = str(place / "bin" / "python")
        environment.pop("PYTHONPATH", None)
    elif place is not None:
        environment["PYTHONPATH"] = str(place / "src")
    numbers = [str(number) for number in (given.agents, given.repeats, given.rounds)]
    return subprocess.Popen(
        [python, __file__, "--worker", *numbers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=environment,
    )  # fmt: skip


def ask(process: subprocess.Popen[str], name: str) -> dict[str, object]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{name}\n")
    process.stdin.flush()
    found: dict[str, object] = json.loads(process.stdout.readline())
    return found


def told(found: dict[str, object]) -> tuple[str, float, float]:
    """The mean with its standard error as a text, and both as numbers."""
    values = np.asarray(found["errors"], dtype=float)
    mean, error = float(values.mean()), float(values.std(ddof=1)) / values.size**0.5
    return f"{mean:.4f} ± {error:.4f}", mean, error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="virtual environment or checkout of another version")
    parser.add_argument("--agents", type=int, default=100, help="default 100")
    parser.add_argument("--repeats", type=int, default=20, help="seeds; default 20")
    parser.add_argument("--rounds", type=int, default=50, help="default 50")
    parser.add_argument("--recipes", help="some, separated by commas; default all private ones")
    parser.add_argument("--worker", type=int, nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(*given.worker)
        return
    new, old = start(None, given), start(given.before, given) if given.before else None
    print(f"{'test error':<24}{'now':>18}{'before':>18}{'difference':>21}{'s':>8}{'before':>8}", flush=True)
    for name in given.recipes.split(",") if given.recipes else names():
        found = [ask(process, name) for process in (new, old) if process is not None]
        missing = [str(each["left_out"]) for each in found if "left_out" in each]
        if missing:
            print(f"{name:<24}left out: {missing[0][:120]}", flush=True)
            continue
        row = f"{name:<24}" + "".join(f"{told(each)[0]:>18}" for each in found)
        if len(found) == 2:
            (_, mean, error), (_, mean_before, error_before) = map(told, found)
            spread = float(np.hypot(error, error_before))
            far = "" if abs(mean - mean_before) <= 2.0 * spread else " *"
            row += f"{f'{mean - mean_before:+.4f} ± {spread:.4f}{far}':>21}"
        print(row + "".join(f"{each['seconds']:8.1f}" for each in found), flush=True)


if __name__ == "__main__":
    main()
