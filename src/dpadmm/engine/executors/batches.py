"""A cohort in parts: some agents with all their runs, their own records and their own rows of the plan.

Nothing in a round depends on who shares a batch, so the parts together give the numbers of the whole, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.admm.perturbations.base import Release
from dpadmm.admm.rounds import AgentState
from dpadmm.engine.cohort import Batch, Cohort
from dpadmm.engine.executor import Reading


def split(cohort: Cohort, parts: int) -> list[IntArray]:
    """The cohort's rows of each part: neighbouring agents, in all runs, run after run; no part is empty."""
    runs = cohort.agents.size // cohort.size
    ranges = np.array_split(np.arange(cohort.size), min(parts, cohort.size))
    return [(np.arange(runs)[:, None] * cohort.size + agents).ravel() for agents in ranges]


def batch(cohort: Cohort, rows: IntArray) -> Batch:
    """The batch of these rows, with the records of their agents and of nobody else."""
    return Batch(
        plan=cohort.rows.take(rows),
        shards=cohort.shards.take(rows).compact(),
        runs=cohort.runs[rows],
        agents=cohort.agents[rows],
        randomness=cohort.randomness,
    )


def state_of(state: AgentState, rows: IntArray) -> AgentState:
    """The state of these rows."""
    return AgentState.from_arrays({name: values[rows] for name, values in state.to_arrays().items()})


def readings_of(readings: Sequence[Reading], rows: IntArray) -> list[Reading]:
    """What is to be read of these rows."""
    return [(metric, tuple(a[rows] if isinstance(a, np.ndarray) else a for a in given)) for metric, given in readings]


def together(parts: Sequence[FloatArray], rows: Sequence[IntArray]) -> FloatArray:
    """The parts' rows, each where it belongs."""
    whole = np.empty((sum(len(part) for part in parts), *parts[0].shape[1:]), dtype=parts[0].dtype)
    for part, places in zip(parts, rows, strict=True):
        whole[places] = part
    return whole


def states_together(parts: Sequence[AgentState], rows: Sequence[IntArray]) -> AgentState:
    """The whole cohort's state. All parts keep the same arrays, because what a solver keeps is no matter of records."""
    arrays = [part.to_arrays() for part in parts]
    if any(entry.keys() != arrays[0].keys() for entry in arrays):
        raise RuntimeError("batches of one cohort keep different things; that is a bug of their solver.")
    return AgentState.from_arrays({name: together([entry[name] for entry in arrays], rows) for name in arrays[0]})


def releases_together(parts: Sequence[Release], rows: Sequence[IntArray]) -> Release:
    """The whole cohort's release."""
    events: list[Any] = [None] * sum(len(part.events) for part in parts)
    for part, places in zip(parts, rows, strict=True):
        for place, event in zip(places.tolist(), part.events, strict=True):
            events[place] = event
    return Release(together([part.value for part in parts], rows), tuple(events))
