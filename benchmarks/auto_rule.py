"""The constants of `algorithm = "auto"` on simulated records: one choice at a time around the rule, and what it costs.

    python benchmarks/auto_rule.py [--size 2] [--records 1000] [--only classes]

Three families of records: plain ones, ones whose columns have uneven scales, offsets and correlations, and one-hot
ones; two classes, or numbers. One agent, zero-out, at five levels of noise nu = sqrt(columns) / (mu * records).

Shown is by how much the mean test error changes when one constant is another, with the standard error of that change:
both runs have the same records and the same seed. Errors are shares of records in percent; of numbers, the RMSE in
percent of the targets' deviation, of which nothing counts as more than three. `--size` is how many problems there are
of each family and width.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from dpadmm.datasets import Dataset
from dpadmm.engine.prepare import prepare
from dpadmm.engine.run import run_prepared
from dpadmm.privacy import gaussian
from dpadmm.privacy.randomness import generator
from dpadmm.problems.losses.capped import CAP
from dpadmm.spec import auto
from dpadmm.spec.declare import Experiment

FAMILIES, WIDTHS = ("plain", "scales", "onehot"), (15, 40)
LEVELS = (0.003, 0.01, 0.03, 0.1, 0.3)
DELTA, WORST = 1e-5, 3.0
BASE = Experiment().changed(algorithm="auto", agents=1, delta=DELTA, relation="zero-out", measure_every=10_000)


@dataclass(frozen=True)
class Choice:
    """One constant: what the rule takes, and what else is tried. A value is a change of the rule, or of the spec."""

    name: str
    taken: str
    tried: tuple[Any, ...]
    rule: Callable[[Any], Any] = field(default=lambda value: nullcontext())
    spec: Callable[[Any], dict[str, Any]] = field(default=lambda value: {})


def choices(kind: str) -> tuple[Choice, ...]:
    name, loss, cap, caps = "CLASSES", "capped-logistic", CAP, (0.15, 0.2, 0.4, 0.5)
    if kind == "numbers":
        name, loss, cap, caps = "NUMBERS", "squared", 0.1, (0.03, 0.05, 0.2, 0.4)
    ours = getattr(auto, name)

    def kinds(**changes: float) -> Any:
        return patch.object(auto, name, replace(ours, **changes))

    shares = f"0.1 (0.2 from nu {auto.QUIET:g}, none from {ours.loudest:g})"
    return (
        Choice("travel", f"{ours.travel:g}", tuple(f * ours.travel for f in (0.4, 0.7, 1.5, 3.0)),
               rule=lambda value: kinds(travel=value)),
        Choice("momentum", f"{auto.MOMENTUM:g}", (0.0, 0.5, 0.9), spec=lambda value: {"momentum": value}),
        Choice("rounds", f"{auto.ROUNDS}", (25, 50, 200), spec=lambda value: {"rounds": value}),
        Choice("cap", f"{cap:g}", caps, spec=lambda value: {"loss": f"{loss}:{value}"}),
        Choice("share", shares, (0.05, 0.1, 0.2, 0.35), spec=lambda value: {"standardise": value}),
        Choice("share", shares, ("none",), rule=lambda value: kinds(loudest=0.0)),
    )  # fmt: skip


def features(family: str, columns: int, records: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which half are no longer than 1, where they are cut, and what targets depend on."""
    z = rng.standard_normal((records, columns))
    if family == "plain":
        x = z
    elif family == "scales":
        z = z @ (np.eye(columns) + 0.6 * rng.standard_normal((columns, columns)) / math.sqrt(columns))
        z /= z.std(axis=0)
        scales = np.arange(1, columns + 1) ** -0.7
        x = scales * (2.0 * rng.uniform(0.3, 1.0, columns) + 0.7 * z)
    else:
        parts: list[np.ndarray] = []
        while (left := columns - sum(part.shape[1] for part in parts)) > 1:
            size = min(left, int(rng.integers(2, 16)))
            chances = np.arange(1, size + 1) ** -1.2
            parts.append(np.eye(size)[rng.choice(size, records, p=chances / chances.sum())])
        if left:
            parts.append(rng.random((records, left)))
        x = np.hstack(parts)
        z = np.clip((x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 0.02), -4.0, 4.0)
    lengths = np.linalg.norm(x, axis=1)
    return x / np.maximum(lengths, np.median(lengths))[:, None], z


def simulated(kind: str, family: str, columns: int, records: int, seed: int) -> Dataset:
    rng = generator(seed, f"{kind} {family} {columns}")
    x, z = features(family, columns, 2 * records, rng)
    score = z @ (rng.standard_normal(columns) * (rng.random(columns) < 0.5))
    score /= max(float(score.std()), 1e-9)
    classes, offset = None, float(rng.integers(-1, 2))
    if kind == "classes":
        classes = ("no", "yes")
        targets = (rng.random(2 * records) < 1.0 / (1.0 + np.exp(-4.0 * score - 1.6 * offset))).astype(np.int64)
    else:
        targets = np.clip(0.25 * (score + 0.5 * rng.standard_normal(2 * records) + offset), -1.0, 1.0)
    names = tuple(map(str, range(columns)))
    held_out = Dataset(family, x[records:], targets[records:], classes, names)
    return Dataset(family, x[:records], targets[:records], classes, names, held_out=held_out)


def error(data: Dataset, nu: float, seed: int, **terms: Any) -> float:
    mu = math.sqrt(data.features.shape[1] + 1) / (nu * len(data))
    experiment = BASE.changed(epsilon=gaussian.epsilon(mu, DELTA), seed=seed, **terms)
    found = run_prepared(prepare(experiment, dataset=data)).test_error
    assert found is not None
    assert data.held_out is not None
    return found if data.classes else min(found / float(data.held_out.targets.std()), WORST)


def errors(problems: list[tuple[int, Dataset]], **terms: Any) -> np.ndarray:
    """(problems, levels), in percent."""
    return 100.0 * np.array([[error(data, nu, seed, **terms) for nu in LEVELS] for seed, data in problems])


def told(changes: np.ndarray) -> str:
    return f"{changes.mean():+7.2f} ±{changes.std(ddof=1) / math.sqrt(changes.size):5.2f}"


def study(kind: str, size: int, records: int) -> Iterator[tuple[str, str, str, np.ndarray]]:
    """Prints the table of a kind; gives the name of each constant, what is taken, a value tried, and its changes."""
    grid = [(seed, family, columns) for seed in range(size) for family in FAMILIES for columns in WIDTHS]
    problems = [(seed, simulated(kind, family, columns, records, seed)) for seed, family, columns in grid]
    ours = errors(problems)
    print(f"\n{kind}, {len(problems)} problems of {records} records, as many held out; nu")
    print(f"{'':16}" + "".join(f"{nu:>15g}" for nu in LEVELS) + f"{'all':>15}")
    print(f"{'the rule':16}" + "".join(f"{mean:15.2f}" for mean in (*ours.mean(axis=0), ours.mean())))
    for choice in choices(kind):
        for value in choice.tried:
            with choice.rule(value):
                changes = errors(problems, **choice.spec(value)) - ours
            label = value if isinstance(value, str) else f"{value:g}"
            cells = [told(column) for column in changes.T]
            print(f"{choice.name + ' ' + label:16}  " + "  ".join([*cells, told(changes.mean(axis=1))]), flush=True)
            yield choice.name, choice.taken, label, changes


def summary(kind: str, found: list[tuple[str, str, str, np.ndarray]]) -> list[str]:
    """A line for each constant: the best value over all levels, which may be the one that is taken."""
    lines = []
    for name in dict.fromkeys(row[0] for row in found):
        taken, tried = next(row[1] for row in found if row[0] == name), [row for row in found if row[0] == name]
        best = min(tried, key=lambda row: float(row[3].mean()))
        beaten = best[3].mean() < 0.0
        change = told(best[3].mean(axis=1)).strip()
        said = f"best {best[2]}, for {change}" if beaten else f"best the same; next {best[2]}, for {change}"
        lines.append(f"{kind:8} {name:9} taken {taken:48} {said}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--only", choices=("classes", "numbers"))
    asked = parser.parse_args()
    lines = []
    for kind in (asked.only,) if asked.only else ("classes", "numbers"):
        lines += summary(kind, list(study(kind, asked.size, asked.records)))
    print("\nchange of the mean error over all levels, in percent, that the best value would bring:")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
