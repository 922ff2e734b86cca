"""Rounds on a graph: exact local solves against SciPy's L-BFGS node by node, and ten thousand nodes against their
gradients alone, each pair in one run.

    python benchmarks/graphs.py --json

First: Adult, 20 nodes (erdos-renyi:20:0.3), the paper's penalties, the same tolerance, both warm-started. Second:
10,000 nodes of 100 records, d = 20, random 4-regular.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import minimize

from dpadmm._threads import one_thread_pool
from dpadmm.admm.topology.graph import parse_topology
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.prepare import Prepared, prepare
from dpadmm.problems.shards import Shards, gather
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec import resolve
from dpadmm.spec.declare import Experiment, RunSpec
from timing import arguments, at_its_best, seconds, show

TOLERANCE = 1e-8
C = 1750.0


def ours(prepared: Prepared) -> np.ndarray:
    cohort = Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(0))
    *_, last = rounds(cohort, SimulationState.of(cohort), InProcessExecutor())
    return last.agents.released


def lbfgs(prepared: Prepared) -> np.ndarray:
    """The same rounds, written down plainly: a loop over nodes, a solver of SciPy's."""
    shards, setting = prepared.shards, prepared.plan.setting
    assert setting.graph is not None
    strength, theta = setting.problem.strength, setting.rho
    near = [setting.graph.neighbours(i) for i in range(shards.agents)]
    x = np.zeros((shards.agents, setting.dimension))
    q = np.zeros_like(x)
    for _ in range(setting.rounds):
        before = x.copy()
        for i in range(shards.agents):
            rows = shards.features[shards.starts[i] : shards.stops[i]]
            signs = shards.targets[shards.starts[i] : shards.stops[i]]
            centre, kappa = 0.5 * (before[i] + before[near[i]].mean(axis=0)), 2 * theta * near[i].size

            def objective(v, rows=rows, signs=signs, tilt=2 * q[i], kappa=kappa, centre=centre):
                margins, off = signs * (rows @ v), v - centre
                value = np.logaddexp(0.0, -margins).mean() + strength / 2 * v @ v + tilt @ v + kappa / 2 * off @ off
                slope = rows.T @ (-signs / (1.0 + np.exp(margins))) / signs.size + strength * v + tilt + kappa * off
                return value, slope

            # L-BFGS-B stops by the largest entry; this entry bound implies the same length of the gradient.
            options = {"maxiter": 2000, "maxfun": 4000, "gtol": TOLERANCE / np.sqrt(x.shape[1]), "ftol": 0.0}
            x[i] = minimize(objective, before[i], jac=True, method="L-BFGS-B", options=options).x
        for i in range(shards.agents):
            q[i] += theta / 2 * (len(near[i]) * x[i] - x[near[i]].sum(axis=0))
    return x


def exact(count: int) -> dict[str, float]:
    def prepared(rounds: int) -> Prepared:
        spec = Experiment().changed(
            algorithm="decentralised-admm", topology="erdos-renyi:20:0.3", tolerance=TOLERANCE, rounds=rounds,
            strength=0.22 / (20 * C),
        )  # fmt: skip
        return prepare(spec)

    whole, short = prepared(count), prepared(max(1, count // 10))
    ours(short)
    mine, taken = seconds(lambda: ours(whole))
    reference, theirs = at_its_best(lambda: lbfgs(short), lambda: lbfgs(whole))
    return {
        "lbfgs_ratio": theirs / taken,
        "seconds": taken,
        "lbfgs_seconds": theirs,
        "largest_difference": float(np.abs(mine - reference).max()),
    }


def many(nodes: int, records: int = 100, width: int = 20) -> Shards:
    draw = np.random.default_rng(0)
    features = draw.normal(size=(nodes * records, width))
    signs = np.where(features @ draw.normal(size=width) + draw.normal(size=len(features)) > 0, 1.0, -1.0)
    names = [f"node {i}" for i in range(nodes)]
    return gather(features, signs, np.repeat(np.arange(nodes), records), norm_bound=1.0, names=names)


def large(nodes: int, count: int, algorithm: str, shards: Shards) -> dict[str, float]:
    """A round beside the gradients of all nodes, measured in turns of one and the other."""
    topology = f"random-regular:{nodes}:4"
    parse_topology(topology)
    asked = {"epsilon": 8.0} if algorithm.startswith("private") else {}
    run = RunSpec(algorithm=algorithm, topology=topology, rounds=count, strength=1e-4, **asked)
    plan = resolve.plan(run, shards.counts, shards.width, 2)
    cohort = Cohort.of(plan, shards, [0], SeededRandomness(0))
    loss, weights = plan.setting.problem.loss, plan.setting.weights
    spent, gradients = [], []
    for warm in (True, False):
        state, going = SimulationState.of(cohort), None
        going = rounds(cohort, state, InProcessExecutor())
        for _ in range(count):
            began = time.perf_counter()
            state = next(going)
            between = time.perf_counter()
            with one_thread_pool():
                loss.gradient(shards, state.agents.released, weights)
            ended = time.perf_counter()
            if not warm:
                spent.append(between - began)
                gradients.append(ended - between)
    return {
        "algorithm": algorithm,
        "gradients_ratio": float(np.mean(spent) / np.mean(gradients)),
        "round_ms": 1e3 * float(np.mean(spent)),
        "gradients_ms": 1e3 * float(np.mean(gradients)),
    }


def main() -> None:
    given = arguments(__doc__ or "", rounds=50, nodes=10_000)
    shards = many(given.nodes)
    cases = [
        large(given.nodes, 20, algorithm, shards) for algorithm in ("decentralised-admm", "mr-admm", "private-mr-admm")
    ]
    show({**exact(given.rounds), f"{given.nodes} nodes": cases}, given.json)


if __name__ == "__main__":
    main()
