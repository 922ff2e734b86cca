"""Thousands of transcripts, simulated as one batch through the agents' own code.

A transcript is what an attacker sees of a run: all releases of the victim and all broadcasts. What is kept of it is the
evidence of every round (`likelihood`), and the bytes of the release (`model_free`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.admm.solvers.base import Randomness
from dpadmm.audit.likelihood import evidence
from dpadmm.audit.model_free import written
from dpadmm.audit.observed import Message, messages
from dpadmm.audit.scene import Scene
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.privacy.randomness import derived
from dpadmm.problems.shards import Shards
from dpadmm.release.random_bits import SeededRandomness, Stream

TOGETHER = 20_000  # transcripts of one batch

RandomnessSource = Callable[[int, int], Randomness]
"""Where noise comes from, by a seed and the number of agents in a run."""

Progress = Callable[[int, int], None]
"""Told how many transcripts of how many are done."""


@dataclass(frozen=True)
class SideBySide:
    """Seeded random bits for very many runs: their agents lie side by side in one stream; one call serves all."""

    seed: int
    agents: int
    simulated: ClassVar[bool] = True

    def stream(self, runs: IntArray, agents: IntArray, round: int, purpose: str) -> Stream:
        return SeededRandomness(self.seed).stream(np.zeros_like(runs), runs * self.agents + agents, round, purpose)


def transcripts(
    scene: Scene, each: int, seed: int, source: RandomnessSource = SideBySide, progress: Progress | None = None
) -> FloatArray:
    """The evidence of every round, (2, each, rounds, kinds): of transcripts of the first data set and of the second."""
    parts, done = [], 0
    while done < each:
        count = min(TOGETHER // 2, each - done)
        parts.append(_batch(scene, count, derived(seed, f"transcripts from {done}"), source))
        done += count
        if progress is not None:
            progress(2 * done, 2 * each)
    return np.concatenate(parts, axis=1)


def heard(
    scene: Scene, each: int, seed: int, source: RandomnessSource = SideBySide
) -> Iterator[tuple[Message, tuple[Shards, Shards]]]:
    """The messages of `each` runs over the first data set and as many over the second, with both as they would be."""
    cohort = _cohort(scene, each, source(seed, scene.agents))
    victims = np.arange(0, 2 * each * scene.agents, scene.agents)
    sides = scene.victims(2 * each, 0), scene.victims(2 * each, 1)
    for message in messages(cohort, _opened(scene, cohort), victims):
        yield message, sides


def _batch(scene: Scene, each: int, seed: int, source: RandomnessSource) -> FloatArray:
    count, found = scene.plan.setting.dimension, []
    for message, sides in heard(scene, each, seed, source):
        found.append(np.concatenate((evidence(message, sides), written(message.release, count)), axis=1))
    return np.stack(found, axis=1).reshape(2, each, len(found), -1)


def _cohort(scene: Scene, each: int, randomness: Randomness) -> Cohort:
    """`each` runs over the first data set, then as many over the second."""
    agents = np.tile(np.arange(scene.agents), 2 * each)
    side = np.repeat([0, scene.agents], each * scene.agents)
    return Cohort(
        plan=scene.plan,
        rows=scene.plan.take(agents),
        shards=scene.shards.take(agents + side),
        runs=np.repeat(np.arange(2 * each), scene.agents),
        agents=agents,
        randomness=randomness,
    )


def _opened(scene: Scene, cohort: Cohort) -> SimulationState:
    state = SimulationState.of(cohort)
    if scene.broadcast is None:
        return state
    server = state.shared.server
    common = np.broadcast_to(scene.broadcast, server.common.shape).copy()
    return replace(state, shared=replace(state.shared, server=replace(server, common=common)))
