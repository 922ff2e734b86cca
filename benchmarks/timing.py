"""How the benchmarks time: all contenders in turn, several times, the best of each; so all meet the same machine."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from threadpoolctl import threadpool_limits


def best(contenders: dict[str, Callable[[], Any]], repeats: int = 30) -> dict[str, float]:
    """Milliseconds of each contender: the best of `repeats`, taken in turn after one unmeasured call of each."""
    for run in contenders.values():
        run()
    fastest = dict.fromkeys(contenders, float("inf"))
    for _ in range(repeats):
        for name, run in contenders.items():
            began = time.perf_counter()
            run()
            fastest[name] = min(fastest[name], (time.perf_counter() - began) * 1e3)
    return fastest


def seconds(run: Callable[[], Any]) -> tuple[Any, float]:
    """What one call answers, and how long it takes."""
    began = time.perf_counter()
    answer = run()
    return answer, time.perf_counter() - began


def at_its_best(short: Callable[[], Any], whole: Callable[[], Any]) -> tuple[Any, float]:
    """The whole run of a peer that uses BLAS, with the number of threads at which the short run is faster."""
    taken = {}
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            taken[threads] = seconds(short)[1]
    with threadpool_limits(min(taken, key=lambda threads: taken[threads]), user_api="blas"):
        return seconds(whole)


def arguments(description: str, **numbers: int) -> argparse.Namespace:
    """`--json` and whole-number options with their defaults."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    return parser.parse_args()


def show(result: dict[str, Any], as_json: bool) -> None:
    """One JSON object, or one line per entry (a list of cases: one line per case)."""
    if as_json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        if isinstance(value, list):
            for case in value:
                print("  " + "  ".join(f"{key} {_text(entry)}" for key, entry in case.items()))
        else:
            print(f"{name}: {_text(value)}")


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
