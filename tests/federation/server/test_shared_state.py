"""A simulation and a coordinator advance one state by one function, and write it to one kind of file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpadmm.admm.rounds import advance, first_state
from dpadmm.admm.state import State
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.output.checkpoint import load, save
from dpadmm.engine.output.history import History
from dpadmm.engine.prepare import Prepared, prepare
from dpadmm.errors import InputError
from dpadmm.federation.server.state import CoordinatorState
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec.declare import Experiment

RECIPES: dict[str, dict[str, Any]] = {
    "dp-admm": {},  # a star, agents first
    "obj-g": {"updates": 2},  # the server first
    "ps-admm": {"relation": "zero-out", "epsilon": None, "noise_multiplier": 1.0},  # the penalty at the server
    "dp-accelerated": {},  # a server that looks ahead
    "dpsgd": {},  # releases are gradients
    "private-r-admm": {"topology": "ring:5"},  # a graph
}
EVERY_RECIPE = pytest.mark.parametrize("algorithm", RECIPES)


def prepared_for(algorithm: str) -> Prepared:
    terms = {"epsilon": 2.0, "delta": 1e-5, "source": "synthetic", "agents": 5, "rounds": 4, "test": None}
    return prepare(Experiment().changed(algorithm=algorithm, **{**terms, **RECIPES[algorithm]}))


def cohort_of(prepared: Prepared, *runs: int) -> Cohort:
    return Cohort.of(prepared.plan, prepared.shards, runs, SeededRandomness(7))


def simulated(cohort: Cohort) -> list[SimulationState]:
    return list(rounds(cohort, SimulationState.of(cohort), InProcessExecutor()))


def coordinated(prepared: Prepared, states: list[SimulationState]) -> list[CoordinatorState]:
    """What a coordinator makes of the releases of a simulation, which come in no particular order."""
    found = [CoordinatorState.of(prepared.plan)]
    for state in states:
        there = {agent: (state.agents.released[agent : agent + 1], None, b"") for agent in (3, 0, 4, 1, 2)}
        found.append(found[-1].after_round(prepared.plan, "wait", there))
    return found[1:]


def shared_only(shared: State, arrays: Mapping[str, Any]) -> State:
    return shared


def same(one: State, other: State) -> None:
    mine, theirs = one.to_arrays(), other.to_arrays()
    assert mine.keys() == theirs.keys()
    for name, values in mine.items():
        assert (values.shape, values.dtype) == (theirs[name].shape, theirs[name].dtype), name
        assert values.tobytes() == theirs[name].tobytes(), name


@EVERY_RECIPE
def test_a_coordinator_comes_to_the_state_of_the_simulation_bit_for_bit(algorithm: str) -> None:
    prepared = prepared_for(algorithm)
    cohort = cohort_of(prepared, 0)
    same(SimulationState.of(cohort).shared, CoordinatorState.of(prepared.plan).shared)
    states = simulated(cohort)
    assert np.abs(states[-1].shared.model).max() > 1e-6
    for mine, theirs in zip(states, coordinated(prepared, states), strict=True):
        same(mine.shared, theirs.shared)


@EVERY_RECIPE
def test_runs_advance_side_by_side_as_they_do_alone(algorithm: str) -> None:
    prepared = prepared_for(algorithm)
    plan, states = prepared.plan, simulated(cohort_of(prepared, 0, 3))
    together, alone = first_state(plan, 2), [first_state(plan, 1), first_state(plan, 1)]
    for state in states:
        together = advance(plan, together, state.shared.released)
        alone = [advance(plan, each, state.shared.released[[run]]) for run, each in enumerate(alone)]
        same(together, state.shared)
    for run, each in enumerate(alone):
        assert together.model[run].tobytes() == each.model[0].tobytes()
        assert together.mean_model[run].tobytes() == each.mean_model[0].tobytes()


@pytest.mark.parametrize("algorithm", ["dp-admm", "dp-accelerated", "ps-admm"])
def test_absent_owners_are_reused_or_skipped(algorithm: str) -> None:
    """Reuse is the round of all with the last release in place; skip is the round of those that answered."""
    prepared = prepared_for(algorithm)
    plan, (first, second, *_) = prepared.plan, simulated(cohort_of(prepared, 0))
    there = [0, 2, 3]
    stood_in = second.shared.released.copy()
    stood_in[:, [1, 4]] = first.shared.released[:, [1, 4]]
    reused = advance(plan, first.shared, second.shared.released[:, there], there)
    same(reused, advance(plan, first.shared, stood_in))
    skipped = advance(plan, first.shared, second.shared.released[:, there], there, skip_absent=True)
    assert skipped.released.tobytes() == stood_in.tobytes()  # it is still known what they said last
    assert (skipped.model != reused.model).any()
    alike = advance(plan, first.shared, second.shared.released[:, there])  # as if there were no others
    assert skipped.model.tobytes() == alike.model.tobytes()
    assert skipped.mean_model.tobytes() == alike.mean_model.tobytes()
    found = {agent: (second.agents.released[agent : agent + 1], None, b"") for agent in there}
    before = CoordinatorState.of(plan).after_round(
        plan, "wait", {agent: (first.agents.released[agent : agent + 1], None, b"") for agent in range(5)}
    )
    same(before.after_round(plan, "reuse", found).shared, reused)
    same(before.after_round(plan, "skip", found).shared, skipped)
    assert first.shared.round == 1  # states are values


@EVERY_RECIPE
def test_both_write_one_kind_of_file(algorithm: str, tmp_path: Path) -> None:
    prepared = prepared_for(algorithm)
    states = simulated(cohort_of(prepared, 0))
    mine, theirs = states[-1], coordinated(prepared, states)[-1]
    history = History()
    history.add(4, {"epsilon": np.array([0.5])})
    one, other = tmp_path / "simulation.npz", tmp_path / "coordinator.npz"
    save(one, "digest", mine, history)
    save(other, "digest", theirs, history, durable=False)
    for path in (one, other):
        shared, kept = load(path, "digest", shared_only)
        same(shared, mine.shared)
        assert kept.rounds == [4]
        assert kept["epsilon"].tobytes() == history["epsilon"].tobytes()
    again, _ = load(one, "digest", SimulationState.from_arrays)
    for name, values in mine.agents.to_arrays().items():
        assert again.agents.to_arrays()[name].tobytes() == values.tobytes(), name
    assert again.mean_local_before.tobytes() == mine.mean_local_before.tobytes()
    assert load(other, "digest", CoordinatorState.from_arrays)[0].last_answered.tolist() == [4] * 5


def test_a_file_of_the_other_kind_is_refused_for_what_it_lacks(tmp_path: Path) -> None:
    prepared = prepared_for("dp-admm")
    states = simulated(cohort_of(prepared, 0))
    path = tmp_path / "checkpoint.npz"
    save(path, "digest", states[-1], History())
    with pytest.raises(InputError, match=r"checkpoint.npz' lacks 'notes'; start the run again"):
        load(path, "digest", CoordinatorState.from_arrays)
    save(path, "digest", coordinated(prepared, states)[-1], History())
    with pytest.raises(InputError, match=r"checkpoint.npz' lacks 'dual'; start the run again"):
        load(path, "digest", SimulationState.from_arrays)


def test_a_file_of_an_older_kind_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    path.write_bytes(b'[["notes","<U2",[]]]\n{}')
    with pytest.raises(InputError, match=r"checkpoint.npz' cannot be read \(.*\); start the run again"):
        load(path, "digest", shared_only)
