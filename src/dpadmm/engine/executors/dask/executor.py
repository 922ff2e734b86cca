"""The Dask engine: a cohort's agents as batches on the workers of a cluster, one batch per worker.

One task per agent would cost hundreds of milliseconds a round; one message per worker costs a few. After each round a
batch's release and its state come back. So the client always has what it takes to go on: if a worker is lost, its batch
and the state of the last finished round are sent to another one, and only the round in hand is done again.

This is one trusted pool of machines. Records and solver memory travel to its workers and back; it is no federation.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from typing import Any, Self

from distributed import CancelledError, Client, Future, KilledWorker

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.base import Release
from dpadmm.admm.rounds import AgentState
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import Reading
from dpadmm.engine.executors import batches
from dpadmm.engine.executors.dask.actor import BatchActor, Payload, Report, at_work
from dpadmm.errors import ClusterError
from dpadmm.owner.request import Request

TRIES = 5  # of one order, before the run is given up
GLANCE = 1.0  # seconds between two looks at whether a silent worker is still there
PATIENCE = 30.0  # seconds without any worker before the run is given up
IDLE = 10  # looks in a row at which no worker has anything in hand, while an answer is still out: it went astray

_LOST = (CancelledError, KilledWorker, OSError, RuntimeError)  # what Dask says when a worker, or its data, is gone


class DaskExecutor:
    """The agents of a cohort, on the workers that there are when it is placed.

    `connection` gives the client of a cluster on entering, and ends what it began on leaving (`cluster`).
    """

    def __init__(self, connection: AbstractContextManager[Client]) -> None:
        self._connection, self._ended = connection, ExitStack()
        self._round = 0
        self._futures: dict[int, Future] = {}  # the batches that are up, as Dask knows them
        self._actors: dict[int, Any] = {}  # as we speak to them

    def __enter__(self) -> Self:
        self._client = self._ended.enter_context(self._connection)
        return self

    def __exit__(self, *error: object) -> None:
        with self._ended:
            self._let_go()

    def place(self, cohort: Cohort, state: SimulationState) -> None:
        self._let_go()
        self._cohort, self._round = cohort, state.round
        workers = self._workers()
        self._rows = batches.split(cohort, len(workers))
        self._places = workers[: len(self._rows)]
        self._states = [batches.state_of(state.agents, rows) for rows in self._rows]

    def collect(self, request: Request) -> Release:
        # On a graph every agent hears something else, one row each; otherwise there is one row per run, for all.
        alone = self._cohort.plan.algorithm.consensus.decentralised
        orders = [replace(request, inputs=request.inputs[rows]) for rows in self._rows] if alone else None
        reports = self._ask(orders or [request] * len(self._rows))
        self._states = [report.state for report in reports if report.state is not None]
        if type(request.step) is int:
            self._round = request.step
        return batches.releases_together([r.release for r in reports if r.release is not None], self._rows)

    def agent_states(self) -> AgentState:
        return batches.states_together(self._states, self._rows)

    def read(self, readings: Sequence[Reading]) -> list[FloatArray]:
        reports = self._ask([batches.readings_of(readings, rows) for rows in self._rows])
        return [
            batches.together(parts, self._rows) for parts in zip(*(report.readings for report in reports), strict=True)
        ]

    def _let_go(self) -> None:
        """Workers drop the actors, and the records with them."""
        for part in list(self._futures):
            self._drop(part)

    def _ask(self, orders: Sequence[Any]) -> list[Report]:
        """Every batch's report on its order, however often workers are lost, within reason."""
        reports: dict[int, Report] = {}
        with self._client.as_current():
            for failures in range(TRIES):
                if failures:
                    time.sleep(0.05 * 4**failures)  # until Dask has noticed as well
                left = [part for part in range(len(orders)) if part not in reports]
                for part in left:
                    self._send(part)
                calls = {part: self._call(part, orders[part]) for part in left}  # all at once
                for part, call in calls.items():
                    report = None if call is None else self._patiently(call, self._futures[part])
                    if report is None:  # the worker is gone, and the batch with it
                        self._drop(part)
                    elif report.error is not None:
                        raise report.error
                    else:
                        reports[part] = report
                if len(reports) == len(orders):
                    return [reports[part] for part in range(len(orders))]
        part = next(part for part in range(len(orders)) if part not in reports)
        raise ClusterError(
            f"round {self._round + 1}: agents {self._agents(part)} were lost {TRIES} times in a row, each time with "
            f"their worker; see what ends the workers (memory, most likely), then go on with --resume."
        )

    def _send(self, part: int) -> None:
        """Puts a batch up, with the state of the last finished round, unless it is up already."""
        if part in self._futures:
            return
        workers = self._workers()
        if self._places[part] not in workers:
            self._places[part] = min(workers, key=self._places.count)
        payload = Payload(batches.batch(self._cohort, self._rows[part]), self._states[part], self._round)
        place = [self._places[part]]
        with suppress(*_LOST):
            # In a list, because a bare collection would be taken apart.
            [sent] = self._client.scatter([payload], workers=place, hash=False)
            self._futures[part] = self._client.submit(
                BatchActor, sent, actor=True, workers=place, allow_other_workers=True, pure=False
            )

    def _drop(self, part: int) -> None:
        """Told rather than left to happen: whatever still refers to an actor here would keep it there."""
        self._actors.pop(part, None)
        actor = self._futures.pop(part, None)
        if actor is not None:
            with suppress(*_LOST):
                self._client.cancel([actor], force=True)

    def _call(self, part: int, order: Any) -> Any:
        """The order on its way; None if the worker was lost before."""
        if part not in self._futures:
            return None
        if part not in self._actors:
            self._actors[part] = self._patiently(self._futures[part], self._futures[part])
        with suppress(*_LOST):
            return None if self._actors[part] is None else self._actors[part].work(order)
        return None

    def _patiently(self, wanted: Any, actor: Future) -> Any:
        """What was asked for, however long it takes, as long as Dask knows of no loss of the actor and somebody is at
        work; else None, and it is asked for again. A message can go astray around the loss of a worker."""
        alone, idle = 0.0, 0
        while True:
            try:
                return wanted.result(timeout=GLANCE)
            except TimeoutError:
                if actor.status not in ("pending", "finished"):
                    return None
                idle = 0 if self._busy() else idle + 1
                if idle >= IDLE and self._anybody():
                    return None
                alone = 0.0 if self._anybody() else alone + GLANCE
                if alone >= PATIENCE:
                    raise ClusterError(_nobody(self._round)) from None
            except _LOST:
                return None

    def _workers(self) -> list[str]:
        """Those that there are; one that was lost may be on its way back."""
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
            return sorted(self._client.nthreads())
        except OSError:  # a timeout is one
            raise ClusterError(_nobody(self._round)) from None

    def _anybody(self) -> bool:
        try:
            return bool(self._client.nthreads())
        except OSError:
            return False

    def _busy(self) -> bool:
        try:
            return any(self._client.run(at_work, on_error="return").values())  # an error is no idle worker either
        except _LOST:
            return False

    def _agents(self, part: int) -> str:
        names, rows = self._cohort.shards.names, self._rows[part]
        return f"{names[rows[0]]!r} to {names[rows[-1]]!r}"


def _nobody(round: int) -> str:
    return (
        f"round {round + 1}: the cluster has no workers left, or its scheduler no longer answers; start them again, "
        f"then go on with --resume."
    )
