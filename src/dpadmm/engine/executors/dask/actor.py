"""The worker's side of the Dask engine: a batch that stays where it is, and does what it is asked.

A `BatchActor` is an actor in Dask's sense: one object in one worker's memory, asked directly and not through the
scheduler, whose messages wait for each other. It ends when the run lets it go or its client is gone, and the records
with it.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
import numpy as np
from distributed import get_worker
from scipy.sparse import csr_array

from dpadmm._arrays import FloatArray
from dpadmm._threads import one_thread_pool
from dpadmm._version import __version__
from dpadmm.admm.perturbations.base import Release
from dpadmm.admm.rounds import AgentState
from dpadmm.engine.cohort import RUN, Batch
from dpadmm.engine.executor import Reading, read_records
from dpadmm.owner.agent import Agent
from dpadmm.owner.request import Request
from dpadmm.problems.shards import Shards

_NUMBA: Any = numba.config
_THREADS: int = _NUMBA.NUMBA_NUM_THREADS  # the most that this process can have


@dataclass(frozen=True, eq=False)
class Payload:
    """A batch, and where it stands."""

    batch: Batch
    state: AgentState
    round: int


@dataclass(frozen=True, eq=False)
class Report:
    """What came of an order: a release and where the agents then stand, readings, or the error that was raised."""

    release: Release | None = None
    state: AgentState | None = None
    readings: Sequence[FloatArray] = ()
    error: Exception | None = None


_orders = 0  # in hand at this worker


def at_work() -> bool:
    """Whether this worker has an order in hand: asked of it where an answer is long in coming."""
    return _orders > 0


class BatchActor:
    """A batch at work. Errors are reported and not raised: what is raised is the cluster's, and may be tried again."""

    def __init__(self, payload: Payload) -> None:
        self._payload: Payload | None = payload
        self._agent: Agent | None = None

    def work(self, order: Request | Sequence[Reading]) -> Report:
        """Carries out an order; a worker has one thread for this, so one at a time."""
        global _orders
        _orders += 1
        try:
            if self._payload is not None:
                self._take_in(self._payload)
                self._payload = None
            # As many threads as the worker was given, so that workers on one machine share its cores; BLAS has none.
            numba.set_num_threads(min(get_worker().state.nthreads, _THREADS))
            with one_thread_pool():
                return self._done(order)
        except Exception as error:
            return Report(error=error)
        finally:
            _orders -= 1

    def _take_in(self, payload: Payload) -> None:
        state = AgentState.from_arrays({name: _writable(values) for name, values in payload.state.to_arrays().items()})
        self._batch = replace(payload.batch, shards=_own(payload.batch.shards))
        self._agent = self._batch.agent(state, payload.round)

    def _done(self, order: Request | Sequence[Reading]) -> Report:
        assert self._agent is not None
        if isinstance(order, Request):
            release = self._agent.answer(order)
            return Report(release, self._agent.state(RUN))
        problem, shards = self._batch.plan.setting.problem, self._batch.shards
        return Report(readings=read_records(problem, shards, _writable(order)))


def _own(shards: Shards) -> Shards:
    arrays = {entry.name: getattr(shards, entry.name) for entry in fields(shards) if entry.init}
    owned = {name: _writable(values) for name, values in arrays.items() if isinstance(values, np.ndarray)}
    features = arrays.get("features")
    if isinstance(features, csr_array):
        parts = tuple(_writable(part) for part in (features.data, features.indices, features.indptr))
        owned["features"] = csr_array(parts, shape=features.shape)
    return replace(shards, **owned)


def _writable(given: Any) -> Any:
    """What came by message may be read-only, and compiled loops would be compiled anew for such arrays."""
    if isinstance(given, np.ndarray):
        return np.require(given, requirements=["A", "W"])
    return type(given)(map(_writable, given)) if isinstance(given, list | tuple) else given


@cache
def facts() -> dict[str, str]:
    """What must be the same everywhere for the numbers to be the same."""
    home, sources = Path(__file__).parents[3], hashlib.sha256()
    for path in sorted(home.rglob("*.py")):
        sources.update(path.relative_to(home).as_posix().encode() + path.read_bytes())
    packages = ("numpy", "scipy", "numba", "dask", "distributed")
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "dpadmm": __version__,
        **{name: version(name) for name in packages},
        "sources of dpadmm": sources.hexdigest()[:12],
    }
