"""The loop over rounds, which exists once, and who does the agents' work in it: this process, or others.

An `Executor` has all agents of a cohort, wherever they are. It collects their releases as one `Agent` of the whole
cohort would answer, says where the agents stand, and reads records where they lie: losses without noise are asked of
it, so that no record travels to whoever measures. What agents compute does not depend on it. By name (`open_executor`):

    local                   this process (the default)
    dask                    Dask workers on this machine, one for each core; dask:4 for four
    dask:tcp://HOST:8786    the workers of that scheduler
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol, Self

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._threads import one_thread_pool
from dpadmm.admm.perturbations.base import Release
from dpadmm.admm.rounds import AgentState, advance
from dpadmm.engine.cohort import RUN, Cohort, SimulationState
from dpadmm.errors import InputError
from dpadmm.owner.request import EVALUATION, Request
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import Shards


@dataclass(frozen=True, eq=False)
class Broadcast:
    """What all agents of a run have in common, one row per run: it is written out where it is read."""

    common: FloatArray

    def rows(self, count: int) -> FloatArray:
        return np.repeat(self.common, count // len(self.common), axis=0)


Reading = tuple[Callable[..., FloatArray], tuple[Any, ...]]
"""A metric of (problem, shards, ...), one number per agent, and what else it needs; arrays have one row per agent."""


def read_records(problem: Problem, shards: Shards, readings: Sequence[Reading]) -> list[FloatArray]:
    """What the metrics say of these agents."""
    count = shards.agents
    return [
        metric(problem, shards, *(a.rows(count) if isinstance(a, Broadcast) else a for a in arguments))
        for metric, arguments in readings
    ]


class Executor(Protocol):
    """Where agents work. Entering it starts what they work on, once for all cohorts; leaving it ends that."""

    def __enter__(self) -> Self:
        """Gets ready, so that what follows is the run and nothing else."""

    def __exit__(self, *error: object) -> None:
        """Lets the agents go, with all that is theirs, and ends what was started."""

    def place(self, cohort: Cohort, state: SimulationState) -> None:
        """Takes in a cohort's agents, standing where `state` says; those of a cohort before are let go."""

    def collect(self, request: Request) -> Release:
        """All agents' answers, one row and one event each; afterwards the agents stand a round further."""

    def agent_states(self) -> AgentState:
        """Where the agents stand."""

    def read(self, readings: Sequence[Reading]) -> list[FloatArray]:
        """Metrics that need records: for simulations only."""


class InProcessExecutor:
    """All agents as one, here; there is nothing to start."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """There is nothing to end."""

    def place(self, cohort: Cohort, state: SimulationState) -> None:
        self._agent = cohort.whole.agent(state.agents, state.round)
        self._problem, self._shards = cohort.plan.setting.problem, cohort.shards

    def collect(self, request: Request) -> Release:
        return self._agent.answer(request)

    def agent_states(self) -> AgentState:
        return self._agent.state(RUN)

    def read(self, readings: Sequence[Reading]) -> list[FloatArray]:
        return read_records(self._problem, self._shards, readings)


ENGINES = ("local", "dask", "dask:4", "dask:tcp://HOST:8786")
SCHEMES = ("tcp://", "tls://")


def open_executor(name: str) -> Executor:
    """The executor of this name, which is checked now; workers start, and a scheduler must answer, on entering it.

    Args:
        name: `local`, `dask`, `dask:4` or `dask:tcp://HOST:8786`.

    Returns:
        An executor to enter (`with open_executor("dask:4") as executor`); it takes one cohort after another.

    Raises:
        InputError: There is none of this name, or the packages that it needs are missing.
    """
    kind, _, where = name.partition(":")
    if kind not in ("local", "dask") or (kind == "local" and where):
        raise InputError(f"unknown engine {name!r}; there are: {', '.join(ENGINES)}.")
    if kind == "local":
        return InProcessExecutor()
    _check(name, where)
    from dpadmm.engine.executors.dask.cluster import own_workers, workers_of
    from dpadmm.engine.executors.dask.executor import DaskExecutor

    remote = where.startswith(SCHEMES)
    return DaskExecutor(workers_of(where) if remote else own_workers(int(where) if where else None))


def _check(name: str, where: str) -> None:
    for package in ("dask", "distributed"):
        if find_spec(package) is None:
            raise InputError(
                f"engine {name!r} needs the package {package!r}, which comes with an extra: "
                "pip install 'dpadmm[cluster]'."
            )
    if where.startswith(SCHEMES):
        host, _, port = where.partition("://")[2].rpartition(":")
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise InputError(f"engine {name!r}: {where!r} is no address; a scheduler's is like tcp://HOST:8786.")
    elif (where or name.endswith(":")) and not (where.isascii() and where.isdigit() and 0 < int(where) <= 1000):
        raise InputError(
            f"engine {name!r}: after 'dask:' comes a number of workers on this machine (1 to 1000), or a scheduler's "
            "address such as tcp://HOST:8786."
        )


def rounds(cohort: Cohort, state: SimulationState, executor: Executor) -> Iterator[SimulationState]:
    """The states after each remaining round, by agents that the executor takes in and keeps."""
    with one_thread_pool():
        executor.place(cohort, state)
        for _ in range(state.round, cohort.plan.setting.rounds):
            state = _after_round(cohort, executor, state)
            yield state


def _after_round(cohort: Cohort, executor: Executor, state: SimulationState) -> SimulationState:
    """One round: the agents answer what they heard last, and their releases are combined to what they hear next."""
    round = state.round + 1
    release = executor.collect(Request(RUN, RUN, round, state.shared.server.common))
    return SimulationState(
        shared=advance(cohort.plan, state.shared, cohort.by_run(release.value)),
        agents=executor.agent_states(),
        mean_local=_mean(state.mean_local, release.value, round),
        mean_local_before=_mean(state.mean_local_before, state.agents.released, round),
    )


def evaluate(cohort: Cohort, state: SimulationState, executor: Executor) -> FloatArray:
    """The owners' private estimates of the error of the last model on their own records; (runs, agents).

    The executor has the cohort's agents already, as it has after `rounds`.
    """
    alone = cohort.plan.algorithm.consensus.decentralised  # then every node has a model of its own
    model = state.agents.released if alone else state.shared.model
    release = executor.collect(Request(RUN, RUN, EVALUATION, model))
    return cohort.by_run(release.value)[:, :, 0]


def _mean(before: FloatArray, value: FloatArray, count: int) -> FloatArray:
    return before + (value - before) / count
