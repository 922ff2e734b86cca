"""Rounds of exact ADMM against SciPy's L-BFGS agent by agent, to the same gradient tolerance, in one run; and what the
proved number of steps takes (`fixed_steps`) against Newton's method with its proof.

    python benchmarks/exact.py --json

Adult, 100 agents, d = 104, rho = 0.1, l2 penalty of 1e-6; both warm-started from the previous round. The recipes on a
graph have 20 nodes of 10 neighbours, and the penalty of their paper.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.prepare import Prepared, prepare
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec.declare import Experiment
from timing import arguments, at_its_best, seconds, show

TOLERANCE = 1e-8


def ours(prepared: Prepared) -> np.ndarray:
    cohort = Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(0))
    *_, last = rounds(cohort, SimulationState.of(cohort), InProcessExecutor())
    return last.shared.model[0]


def lbfgs(prepared: Prepared) -> np.ndarray:
    shards, setting = prepared.shards, prepared.plan.setting
    strength, rho = setting.problem.strength, setting.rho
    z = np.zeros(setting.dimension)
    x, y = np.zeros((shards.agents, z.size)), np.zeros((shards.agents, z.size))
    for _ in range(setting.rounds):
        for i in range(shards.agents):
            rows = shards.real_rows[shards.starts[i] : shards.stops[i]]
            signs = shards.targets[shards.starts[i] : shards.stops[i]]

            def objective(v, rows=rows, signs=signs, dual=y[i], z=z):
                margins = signs * (rows @ v)
                value = (
                    np.logaddexp(0.0, -margins).mean() + strength / 2 * v @ v - dual @ v + rho / 2 * (v - z) @ (v - z)
                )
                slope = rows.T @ (-signs / (1.0 + np.exp(margins))) / signs.size + strength * v - dual + rho * (v - z)
                return value, slope

            # L-BFGS-B stops by the largest entry; this entry bound implies the same length of the gradient.
            options = {"maxiter": 1000, "gtol": TOLERANCE / np.sqrt(z.size), "ftol": 0.0}
            x[i] = minimize(objective, x[i], jac=True, method="L-BFGS-B", options=options).x
        z = x.mean(axis=0)
        y -= rho * (x - z)
    return z


PROVED: dict[str, dict[str, Any]] = {
    "pvp": {},
    "dvp": {},
    "private-mr-admm": {"agents": 20, "topology": "random-regular:20:10"},
}


def proved(algorithm: str, rounds: int) -> dict[str, Any]:
    """How many times as long rounds of a recipe take where every answer takes the proved number of steps."""
    terms = PROVED[algorithm] | {"algorithm": algorithm, "rounds": rounds, "epsilon": 1.0, "delta": 1e-5}
    fast, slow = (prepare(Experiment().changed(**terms, fixed_steps=fixed)) for fixed in (False, True))
    ours(fast)
    newton, newton_seconds = seconds(lambda: ours(fast))
    steps, proved_seconds = seconds(lambda: ours(slow))
    return {
        "recipe": algorithm,
        "proved_ratio": proved_seconds / newton_seconds,
        "newton_seconds": newton_seconds,
        "proved_seconds": proved_seconds,
        "largest_difference_of_z": float(np.abs(newton - steps).max()),
    }


def main() -> None:
    given = arguments(__doc__ or "", rounds=100)
    prepared = prepare(Experiment().changed(algorithm="admm", tolerance=TOLERANCE, rounds=given.rounds))
    ours(prepared)
    z, mine = seconds(lambda: ours(prepared))
    short = prepare(Experiment().changed(algorithm="admm", rounds=max(1, given.rounds // 10)))
    reference, theirs = at_its_best(lambda: lbfgs(short), lambda: lbfgs(prepared))
    show(
        {
            "lbfgs_ratio": theirs / mine,
            "seconds": mine,
            "lbfgs_seconds": theirs,
            "rounds": given.rounds,
            "tolerance": TOLERANCE,
            "largest_difference_of_z": float(np.abs(z - reference).max()),
            "proved_steps": [proved(algorithm, max(2, given.rounds // 5)) for algorithm in PROVED],
        },
        given.json,
    )


if __name__ == "__main__":
    main()
