"""Phases of different kinds in one recipe: a later step starts from a release, whatever an earlier one found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Algorithm, Phase
from dpadmm.admm.consensus import PenalisedStar, Star
from dpadmm.admm.perturbations import Gradient, Objective, Output
from dpadmm.admm.rounds import begin, solve_and_perturb
from dpadmm.admm.schedules import Fixed
from dpadmm.admm.setting import Multiplier
from dpadmm.admm.solvers import SOLVERS, Exact, GradientSteps, Linearised, LocalUpdates
from dpadmm.admm.solvers.base import Emit, Memory, Oracle, RandomBits, Subproblem
from dpadmm.problems.losses import Logistic
from dpadmm.problems.penalties import L2
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import Shards
from dpadmm.release.random_bits import SeededRandomness

PROBLEM = Problem(Logistic(), L2(), 0.01)
EXACT = {"output": Phase(Exact(), Output("gaussian")), "objective": Phase(Exact(), Objective("gaussian"))}
STEPS = {
    "one step": Phase(Linearised(), Gradient("gaussian")),
    "several": Phase(LocalUpdates(3), Gradient("gaussian")),
    "noise on each result": Phase(LocalUpdates(2), Output("gaussian", may_leave=True)),
    "plain steps": Phase(GradientSteps(2), Gradient("gaussian")),
}


def bits(round: int) -> RandomBits:
    one = np.zeros(1, int)
    return lambda purpose: SeededRandomness(1).stream(one, one, round, purpose)


class Careless(Exact):
    """An exact solver of one's own, which leaves the minimiser in the open."""

    def solve(
        self, subproblem: Subproblem, oracle: Oracle, memory: Memory, eta: FloatArray, emit: Emit = lambda value: value
    ) -> tuple[FloatArray, Memory]:
        raw, _ = super().solve(subproblem, oracle, memory, eta)
        return emit(raw), Memory(raw, {"raw": raw})


@pytest.mark.parametrize("first", [*EXACT, "careless"])
@pytest.mark.parametrize("second", STEPS)
def test_a_step_after_an_exact_round_starts_at_its_release(
    first: str, second: str, simulated: Callable[..., Shards], terms: Callable[..., Any]
) -> None:
    """Version 0.1.0 went on from the minimiser itself. In a recipe of an exact round and a gradient step the second
    release then told two neighbours apart by 86,307 of its deviations, at a claimed epsilon of 0.27."""
    exact = replace(EXACT["output"], solver=Careless()) if first == "careless" else EXACT[first]
    star = PenalisedStar() if second == "plain steps" else Star()
    mixed = Algorithm("mixed", "", "", star, (exact, STEPS[second]), schedule=Fixed(1e-3))
    shards = simulated(agents=1)
    plan = mixed.plan(terms(PROBLEM, shards, graph=None, rounds=2), Multiplier(20.0))
    common = np.zeros((1, plan.setting.dimension))
    release, state = solve_and_perturb(plan, begin(plan), shards, common, 1, bits(1))
    np.testing.assert_array_equal(state.memory.point, release.value)
    public = replace(state, memory=Memory(release.value))  # as somebody knows it who has seen releases only
    one, _ = solve_and_perturb(plan, state, shards, common, 2, bits(2))
    two, _ = solve_and_perturb(plan, public, shards, common, 2, bits(2))
    np.testing.assert_array_equal(one.value, two.value)


class Curious(Linearised):
    """A step of one's own that looks into the private part of the memory."""

    seen: ClassVar[dict[str, Any]] = {}

    def solve(
        self, subproblem: Subproblem, oracle: Oracle, memory: Memory, eta: FloatArray, emit: Emit = lambda value: value
    ) -> tuple[FloatArray, Memory]:
        self.seen.update(memory.private)
        return super().solve(subproblem, oracle, memory, eta, emit)


def test_a_step_sees_nothing_of_what_an_exact_solver_keeps_and_the_solver_finds_it_again(
    simulated: Callable[..., Shards], terms: Callable[..., Any]
) -> None:
    step = Phase(Curious(), Gradient("gaussian"))
    mixed = Algorithm("mixed", "", "", Star(), (EXACT["output"], step), schedule=Fixed(1e-3))
    shards = simulated(agents=1)
    plan = mixed.plan(terms(PROBLEM, shards, graph=None, rounds=2), Multiplier(20.0))
    common, state = np.zeros((1, plan.setting.dimension)), begin(plan)
    kept = []
    for round in (1, 2):
        _, state = solve_and_perturb(plan, state, shards, common, round, bits(round))
        kept.append(state.memory.private)
    assert not Curious.seen
    assert kept[0]
    assert kept[0].keys() == kept[1].keys()


def test_every_solver_is_of_one_kind_or_the_other() -> None:
    assert {name for name, kind in SOLVERS.items() if not kind.first_order} == {"exact"}
