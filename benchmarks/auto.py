"""What `algorithm = "auto"` promises, asked beside measured: errors at total budgets (zero-out, delta 1e-5), seconds.

    python benchmarks/auto.py --only adult,speed
    python benchmarks/auto.py --only diffprivlib --diffprivlib /path/to/another/venv/bin/python
    python benchmarks/auto.py --only never-worse --cache found.json

adult: 40,000 records, 5,222 held out; the mean of 10 runs. diffprivlib: one agent against its `LogisticRegression` and
against central objective perturbation with an exact solver (`dvp` of one agent and one round), on the same rows. Both
get the best of a grid by its error on the held-out records, for which nothing is paid; auto gets one run of the rule.
diffprivlib is run by another Python, because it wants an older scikit-learn; its epsilon has no delta.
never-worse: auto against every private recipe with its defaults at the same total budget. All of them run three times,
and the best three as often as auto. Exact solvers are slow on digits: there they run once, for `--limit` seconds.
speed: fits and imports, best of 5; the first fit of a process also waits for compiled code to be loaded.

With `--cache`, errors are kept in a file by everything that was asked for, and found there the next time. It knows
nothing of the code: begin a new one after a change.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm.engine.compare import Cell, ComparedRun, arrange
from dpadmm.engine.run import prepare, run_prepared
from dpadmm.errors import ConvergenceError, InputError
from dpadmm.estimators import PrivateLogisticRegression
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.randomness import generator
from dpadmm.spec.declare import Experiment
from timing import best, seconds

DELTA, END = 1e-5, 1_000_000_000
BASE = Experiment().changed(delta=DELTA, relation="zero-out", measure_every=END)
ADULT = {(100, 1.0): 0.178, (5, 1.0): 0.166, (1, 1.0): None, (1, 0.1): None}  # agents, epsilon: error asked for
CENTRAL, WITHIN = {("adult", 1.0): 0.164, ("adult", 0.1): 0.186}, 0.005
STRENGTHS, PENALTIES = (1e-6, 3e-6, 1e-5, 1e-4, 1e-3, 1e-2), (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
SOURCES = ("adult", "breast-cancer", "digits", "synthetic", "synthetic-multiclass")
AGENTS, EPSILONS = (5, 50), (0.5, 1.0)
FIRST, LAST, CLOSE = 3, 50, 0.01

PEER = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from diffprivlib.models import LogisticRegression
given = np.load(sys.argv[1])
for C in given["penalties"]:
    for intercept in (True, False):
        errors = []
        for seed in range(int(given["repeats"])):
            model = LogisticRegression(epsilon=float(given["epsilon"]), data_norm=float(given["bound"]), C=float(C),
                                       fit_intercept=intercept, random_state=seed, max_iter=1000)
            errors.append(float(np.mean(model.fit(given["x"], given["y"]).predict(given["tx"]) != given["ty"])))
        print(json.dumps([f"C {C:g}, {'with' if intercept else 'no'} intercept", errors]), flush=True)
"""


@dataclass(frozen=True)
class Found:
    """A mean of errors, and how far off it may be."""

    mean: float
    error: float | None
    repeats: int

    @classmethod
    def of(cls, errors: Any) -> Found:
        values = np.asarray(errors, dtype=float)
        error = float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else None
        return cls(float(values.mean()), error, values.size)

    def __str__(self) -> str:
        return f"{self.mean:.4f}" + (" (one run)" if self.error is None else f" ± {self.error:.4f}")


class Cache:
    """What was found before, by what was asked."""

    def __init__(self, path: str | None) -> None:
        self.path = None if path is None else Path(path)
        self.kept: dict[str, Any] = json.loads(self.path.read_text()) if self.path and self.path.exists() else {}

    def get(self, name: str, asked: str, find: Callable[[], Any]) -> Any:
        key = f"{name} {hashlib.sha256(asked.encode()).hexdigest()[:16]}"
        if key not in self.kept:
            self.kept[key] = find()
            if self.path is not None:
                written = self.path.with_suffix(".new")
                written.write_text(json.dumps(self.kept))
                written.replace(self.path)
        return self.kept[key]


class TooLong(Exception):
    pass


@contextmanager
def limited(limit: float | None) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TooLong

    if limit is None:
        yield
        return
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def errors(cache: Cache, **terms: Any) -> Found:
    """Of runs; what auto came to is part of what was asked."""
    prepared = prepare(BASE.changed(**terms))

    def find() -> list[float]:
        return [float(error) for error in run_prepared(prepared).history.last("test_error")]

    return Found.of(
        cache.get("{algorithm} {source} {agents} {epsilon}".format(**terms), prepared.experiment.dumps(), find)
    )


def adult(cache: Cache, asked: argparse.Namespace) -> None:
    print(f"\nAdult, mean of {asked.repeats} runs\n{'':24}{'asked':>8}  {'auto':18}  {'dp-admm':18}")
    for (agents, epsilon), least in ADULT.items():
        terms = {"source": "adult", "agents": agents, "epsilon": epsilon, "repeats": asked.repeats}
        auto, plain = errors(cache, algorithm="auto", **terms), errors(cache, algorithm="dp-admm", **terms)
        text = f"{agents} agent{'s' if agents > 1 else ''}, epsilon {epsilon:g}"
        told = "" if least is None else "ok" if auto.mean <= least else "MISSED"
        print(f"{text:24}{'' if least is None else least:>8}  {auto!s:18}  {plain!s:18}  {told}", flush=True)


def diffprivlib(cache: Cache, asked: argparse.Namespace) -> None:
    print(f"\none agent, mean of {asked.repeats} runs; the others at the best of their grids")
    if asked.diffprivlib is None:
        print("diffprivlib itself is left out: name a Python that has it, --diffprivlib PATH")
    for source in ("adult", "breast-cancer"):
        for epsilon in (1.0, 0.1):
            terms = {"source": source, "agents": 1, "epsilon": epsilon, "repeats": asked.repeats}
            auto = errors(cache, algorithm="auto", **terms)
            print(f"{source}, epsilon {epsilon:g}:\n  {'auto':22}{auto}")
            if asked.diffprivlib is not None:
                told(auto, "diffprivlib", peer(cache, asked, source, epsilon), 0.0)
            for mechanism in ("gaussian", "gamma-norm"):
                known = CENTRAL.get((source, epsilon)) if mechanism == "gaussian" else None
                told(auto, f"dvp {mechanism}", central(cache, mechanism, **terms), WITHIN, known)


def told(auto: Found, name: str, found: dict[str, Found], within: float, known: float | None = None) -> None:
    text = min(found, key=lambda each: found[each].mean)
    gap = auto.mean - found[text].mean
    verdict = f"auto {gap:+.4f}, asked <= {within:+g}: {'ok' if gap <= within else 'MISSED'}"
    before = "" if known is None else f"; known {known:g}"
    print(f"  {name:22}{found[text]} ({text}{before})   {verdict}", flush=True)


def central(cache: Cache, mechanism: str, **terms: Any) -> dict[str, Found]:
    """Objective perturbation of all records at once, by strength of the penalty, and with extra curvature or without
    (then the penalty alone may be too weak for the budget, or for the solver, and is left out)."""
    exact = {"algorithm": "dvp", "rounds": 1, "rho": 1e-6, "mechanism": mechanism}
    found = {}
    for strength in STRENGTHS:
        for extra, text in ((None, ""), (0.0, ", nothing extra")):
            with suppress(InputError, ConvergenceError):
                grid = {"strength": strength, "extra_curvature": extra}
                found[f"strength {strength:g}{text}"] = errors(cache, **grid, **exact, **terms)
    return found


def peer(cache: Cache, asked: argparse.Namespace, source: str, epsilon: float) -> dict[str, Found]:
    """diffprivlib on the rows that auto sees: cut to the same public length, which is its `data_norm`."""
    prepared = prepare(BASE.changed(source=source, agents=1, epsilon=epsilon))
    rows, test, bound = prepared.shards, prepared.test, prepared.plan.setting.norm_bound
    assert test is not None
    given = {"x": rows.features, "y": rows.targets > 0, "tx": test.features, "ty": test.targets > 0}
    grid = {"bound": bound * (1.0 + 1e-9), "epsilon": epsilon, "penalties": PENALTIES, "repeats": asked.repeats}

    def find() -> list[list[Any]]:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/rows.npz"
            np.savez(path, **given, **grid)
            run = subprocess.run([asked.diffprivlib, "-c", PEER, path], capture_output=True, text=True, check=False)
            if run.returncode:
                raise SystemExit(f"diffprivlib failed:\n{run.stderr}")
        return [json.loads(line) for line in run.stdout.splitlines()]

    found = cache.get(f"diffprivlib {source} {epsilon}", str(sorted(grid.items())), find)
    return {text: Found.of(values) for text, values in found}


def never_worse(cache: Cache, asked: argparse.Namespace) -> None:
    print("\nauto against the best private recipe at its defaults")
    print(f"{'':46}{'auto':18}  {'best recipe':38}{'difference':>20}")
    lost = []
    for source in asked.source.split(","):
        for agents in AGENTS:
            for epsilon in EPSILONS:
                line, fine = cell(cache, asked, source, agents, epsilon)
                lost += [] if fine else [line]
                print(line, flush=True)
    print("auto loses nowhere" if not lost else "auto loses:\n" + "\n".join(lost))


def cell(cache: Cache, asked: argparse.Namespace, source: str, agents: int, epsilon: float) -> tuple[str, bool]:
    often = asked.repeats if source == "adult" else LAST
    where = {"source": source, "agents": (agents,), "epsilons": (epsilon,), "delta": DELTA}
    screened, late = {}, []
    for job in arrange(**where, repeats=FIRST).jobs:
        if job.epsilon is not None and job.algorithm != "auto":
            once = source == "digits" and not ALGORITHMS[job.algorithm].phases[0].solver.first_order
            found = of_job(cache, job, asked.limit if once else None)
            screened |= {} if found is None else {job.algorithm: found}
            late += [job.algorithm] if once and found is None else []
    ranked = sorted(screened, key=lambda name: screened[name].mean)
    chosen = [name for name in ranked if screened[name].repeats > 1][:3]
    final = {name: found for name, found in screened.items() if found.repeats == 1}
    for job in arrange(**where, repeats=often, algorithms=["auto", *chosen]).jobs:
        if job.algorithm in ("auto", *chosen) and job.epsilon is not None:
            found = of_job(cache, job)
            assert found is not None
            final[job.algorithm] = found
    auto = final.pop("auto")
    name = min(final, key=lambda each: final[each].mean)
    other, gap = final[name], auto.mean - final[name].mean
    own = auto.error or 0.0
    error = math.hypot(own, own * math.sqrt(auto.repeats) if other.error is None else other.error)  # one run: as auto's
    fine = gap <= CLOSE or gap <= 2.0 * error
    text = f"{source}, {agents} agents, epsilon {epsilon:g}"
    rest = f" (left out, over {asked.limit:g} s: {', '.join(late)})" if late else ""
    line = f"{text:46}{auto!s:18}  {f'{name} {other}':38}{gap:+11.4f} ± {error:.4f}  {'ok' if fine else 'LOST'}{rest}"
    return line, fine


def of_job(cache: Cache, job: ComparedRun, limit: float | None = None) -> Found | None:
    """None: it cannot run, or not in time. With a limit it runs once."""
    experiment = job.experiment if limit is None else job.experiment.changed(repeats=1)
    asked = experiment if job.algorithm != "auto" else prepare(experiment).experiment

    def find() -> dict[str, Any]:
        began = time.perf_counter()
        try:
            with limited(limit):
                found, _ = ComparedRun(job.algorithm, job.agents, job.epsilon, experiment).done()
        except TooLong:
            return {"left_out": f"longer than {limit:g} s"}
        taken = round(time.perf_counter() - began, 1)
        if isinstance(found, Cell):
            return {"found": [found.mean, found.standard_error, found.repeats], "seconds": taken}
        return {"left_out": found.reason, "seconds": taken}

    name = f"{job.algorithm} {experiment.data.source} {job.agents} {job.epsilon}"
    kept = cache.get(name, f"{limit or ''} {asked.dumps()}", find)
    return Found(*kept["found"]) if "found" in kept else None


def speed(cache: Cache, asked: argparse.Namespace) -> None:
    rng = generator(0, "benchmark")
    x = rng.standard_normal((40_000, 104)) * (3.0 / math.sqrt(104))
    y = x @ rng.standard_normal(104) + rng.standard_normal(40_000) > 0.0
    models = {
        "seeded": PrivateLogisticRegression(norm_bound=3.2, classes=[False, True], random_state=0),
        "secure": PrivateLogisticRegression(norm_bound=3.2, classes=[False, True]),
    }
    _, first = seconds(lambda: models["seeded"].fit(x, y))
    print("\nseconds, best of 5")
    row("the first fit of a process", None, first)
    fits = best({name: lambda model=model: model.fit(x, y) for name, model in models.items()}, 5)  # type: ignore[misc]
    for name, milliseconds in fits.items():
        row(f"fit, 40,000 x 104, {name}", 2.0, milliseconds / 1e3)
    most = {"dpadmm": 1.5, "dpadmm.estimators": 1.5, "sklearn.linear_model": None}
    turns = [{name: importing(name) for name in most} for _ in range(6)][1:]
    for name, asked_for in most.items():
        row(f"import {name}", asked_for, min(turn[name] for turn in turns))


def importing(name: str) -> float:
    """Seconds of an import in a process of its own."""
    code = f"import time; began = time.perf_counter(); import {name}; print(time.perf_counter() - began)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def row(name: str, most: float | None, taken: float) -> None:
    told = "" if most is None else f"  asked < {most:g}: {'ok' if taken < most else 'MISSED'}"
    print(f"{name:34}{taken:7.2f}{told}", flush=True)


SECTIONS = {"adult": adult, "diffprivlib": diffprivlib, "never-worse": never_worse, "speed": speed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    parser.add_argument("--diffprivlib", help="a Python that can import diffprivlib")
    parser.add_argument("--cache", help="a file to keep errors in")
    parser.add_argument("--repeats", type=int, default=10, help="default 10")
    parser.add_argument("--source", default=",".join(SOURCES), help="data sets of never-worse, separated by commas")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of an exact solver on digits (300)")
    asked = parser.parse_args()
    for name in asked.only.split(","):
        if name not in SECTIONS:
            raise SystemExit(f"--only {name}: of {', '.join(SECTIONS)}.")
        SECTIONS[name](Cache(asked.cache), asked)


if __name__ == "__main__":
    main()
