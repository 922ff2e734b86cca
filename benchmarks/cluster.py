"""A round of dp-admm on Adult, 100 agents, on Dask workers of this machine: beside one process, and one task per agent.

    python benchmarks/cluster.py --json

`process_ratio` is a round on the workers over a round in this process, which has all cores; on one machine it can only
say what the messages cost. `tasks_ratio` is a round of one task per agent, the obvious way, over ours: each is sent an
agent's state and the broadcast, and its records lie at a worker already. All give the same numbers, bit for bit.
Times are of whole runs, without measurements and without starting the workers.
"""

from __future__ import annotations

from contextlib import nullcontext

import numba
import numpy as np
from distributed import Client

from dpadmm.admm.rounds import AgentState, next_server
from dpadmm.engine.cohort import RUN, Batch, Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.executors.batches import batch, state_of
from dpadmm.engine.executors.dask.cluster import own_workers
from dpadmm.engine.executors.dask.executor import DaskExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.prepare import prepare
from dpadmm.owner.request import Request
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec.declare import Experiment
from timing import arguments, best, show

AGENTS = 100


def cohort_of(count: int) -> Cohort:
    spec = Experiment().changed(source="adult", agents=AGENTS, rounds=count, epsilon=1.0, delta=1e-5)
    prepared = prepare(spec)
    return Cohort.of(prepared.plan, prepared.shards, [0], SeededRandomness(0))


def here(cohort: Cohort) -> SimulationState:
    *_, last = rounds(cohort, SimulationState.of(cohort), InProcessExecutor())
    return last


def there(cohort: Cohort, client: Client) -> SimulationState:
    with DaskExecutor(nullcontext(client)) as executor:
        *_, last = rounds(cohort, SimulationState.of(cohort), executor)
    return last


def one(batch: Batch, state: AgentState, round: int, common: np.ndarray) -> tuple[np.ndarray, AgentState]:
    """One agent's round, as a task of one thread."""
    numba.set_num_threads(1)
    agent = batch.agent(state, round - 1)
    return agent.answer(Request(RUN, RUN, round, common)).value, agent.state(RUN)


def by_tasks(cohort: Cohort, client: Client, count: int) -> np.ndarray:
    """Some rounds of one task per agent; the last broadcast."""
    parts = [np.array([row]) for row in range(AGENTS)]
    held = client.scatter([batch(cohort, rows) for rows in parts], hash=False)
    first = SimulationState.of(cohort)
    states, server = [state_of(first.agents, rows) for rows in parts], first.shared.server
    for round in range(1, count + 1):
        tasks = [
            client.submit(one, agent, state, round, server.common, pure=False)
            for agent, state in zip(held, states, strict=True)
        ]
        found = client.gather(tasks)
        states = [state for _, state in found]
        server = next_server(cohort.plan, server, np.concatenate([value for value, _ in found])[None], round)
    return server.common


def main() -> None:
    given = arguments(__doc__ or "", rounds=200, repeats=3, tasks=5)
    cohort, few = cohort_of(given.rounds), cohort_of(given.tasks)
    with own_workers() as client:
        assert np.array_equal(here(cohort).shared.model, there(cohort, client).shared.model)
        assert np.array_equal(here(few).shared.model, by_tasks(few, client, given.tasks))
        contenders = {
            "here": lambda: here(cohort),
            "there": lambda: there(cohort, client),
            "tasks": lambda: by_tasks(few, client, given.tasks),
        }
        times = best(contenders, given.repeats)
    process, ours, tasks = times["here"] / given.rounds, times["there"] / given.rounds, times["tasks"] / given.tasks
    show(
        {
            "process_ratio": ours / process,
            "tasks_ratio": tasks / ours,
            "round_milliseconds": ours,
            "process_milliseconds": process,
            "tasks_milliseconds": tasks,
        },
        given.json,
    )


if __name__ == "__main__":
    main()
