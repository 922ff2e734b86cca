"""What the agent's boundary costs: a simulated round through `Agent.answer`, against the same round without it.

    python benchmarks/boundary.py --json

Adult, 100 agents, d = 104, DP-ADMM; no metrics. `overhead` is the share of a round that the boundary adds.
"""

from __future__ import annotations

import numpy as np

from dpadmm._threads import one_thread_pool
from dpadmm.admm.rounds import absorb, next_server, solve_and_perturb
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.prepare import prepare
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec.declare import Experiment
from timing import arguments, best, show


def bare(cohort: Cohort) -> np.ndarray:
    """The same rounds as functions of state: no requests, no checks, no ledger."""
    plan, begun = cohort.plan, SimulationState.of(cohort)
    agents, server = begun.agents, begun.shared.server
    for k in range(1, plan.setting.rounds + 1):

        def random_bits(purpose, count, k=k):
            return cohort.randomness.random_bits(cohort.runs, cohort.agents, k, purpose, count)

        common = server.common
        agents = absorb(cohort.rows, agents, cohort.to_rows(common), k - 1)
        release, agents = solve_and_perturb(cohort.rows, agents, cohort.shards, cohort.to_rows(common), k, random_bits)
        server = next_server(plan, server, cohort.by_run(release.value), k)
    return server.common


def bounded(cohort: Cohort) -> np.ndarray:
    *_, last = rounds(cohort, SimulationState.of(cohort), InProcessExecutor())
    return last.shared.model


def main() -> None:
    given = arguments(__doc__ or "", rounds=100, repeats=10)
    experiment = Experiment().changed(algorithm="dp-admm", epsilon=1.0, delta=1e-5, rounds=given.rounds)
    prepared = prepare(experiment)
    cohort = Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(0))
    with one_thread_pool():
        assert np.array_equal(bare(cohort), bounded(cohort))
        times = best({"bare": lambda: bare(cohort), "agent": lambda: bounded(cohort)}, given.repeats)
    show(
        {
            "overhead": times["agent"] / times["bare"] - 1.0,
            "round_milliseconds": times["agent"] / given.rounds,
            "bare_round_milliseconds": times["bare"] / given.rounds,
        },
        given.json,
    )


if __name__ == "__main__":
    main()
