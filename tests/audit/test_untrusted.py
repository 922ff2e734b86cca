"""What comes after the noise need not be trusted: solvers, schedules, consensus and duals of gradient recipes are
replaced by functions that see what is public and do their worst.

What leaves an agent is the noisy sums (a solver may hand them on as they are), so those are attacked, by the exact
likelihood of the integers that the release path makes of two neighbouring data sets at the same public points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from dpadmm.admm.algorithm import Algorithm
from dpadmm.admm.consensus.base import Server, Star
from dpadmm.admm.perturbations import base
from dpadmm.admm.schedules import Fixed
from dpadmm.admm.setting import TotalBudget
from dpadmm.admm.solvers import exact
from dpadmm.admm.solvers.base import Memory
from dpadmm.admm.solvers.linearised import LocalUpdates
from dpadmm.admm.solvers.newton import newton
from dpadmm.audit.attacks import trained
from dpadmm.audit.bounds import BOUNDS
from dpadmm.audit.run import audit, usual_method
from dpadmm.audit.scene import Scenario, Scene, scene
from dpadmm.audit.transcripts import SideBySide, _cohort
from dpadmm.engine.cohort import SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.errors import Refused
from dpadmm.owner import request
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy import gaussian
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.mechanisms import Gaussian
from dpadmm.release import sums
from dpadmm.release.perturb import SMOOTHING, add_noise, noise_scales

DELTA, EACH = 1e-5, 4_000
FAR = 1e6  # from where the slope of a logistic loss is its bound, on one side

# What a part may compute, from the shape of what it must return and all that was released so far.
Play = Callable[[tuple[int, ...], np.ndarray], np.ndarray]


def filled(*numbers: float) -> Play:
    return lambda shape, seen: np.broadcast_to(np.resize(numbers, shape[-1]), shape).copy()


def against(shape: tuple[int, ...], seen: np.ndarray) -> np.ndarray:
    """Where the canary is taken for the other class: its slope is the largest there is. (The canary is public.)"""
    return np.broadcast_to(np.resize([FAR, 0.0], shape[-1]), shape).copy()


def turning(shape: tuple[int, ...], seen: np.ndarray) -> np.ndarray:
    """To one side or the other, by what was released last."""
    return FAR * np.broadcast_to(np.sign(np.nan_to_num(seen)) + 0.5, shape)


PLAYS: dict[str, Play] = {
    "NaN": filled(np.nan),
    "1e300": filled(1e300),
    "the largest numbers": filled(np.finfo(float).max, -np.finfo(float).max),
    "infinity and zero": filled(np.inf, 0.0),
    "infinity and its negative": filled(-np.inf, np.inf),
    "NaN and 1": filled(1.0, np.nan),
    "the smallest number": filled(5e-324),
    "against the canary": against,
    "turning": turning,
}


@dataclass(frozen=True)
class AnySolver(LocalUpdates):
    """Asks for gradients wherever it likes, and hands on what it got, or anything."""

    ask: Play = against
    answer: Play | None = None

    name = "any"

    def solve(self, subproblem, oracle, memory, eta, emit=None):
        seen = memory.point
        for _ in range(self.updates):
            seen = oracle(self.ask(memory.point.shape, seen))
        return (seen if self.answer is None else self.answer(seen.shape, seen)), Memory(seen)


@dataclass(frozen=True)
class AnyConsensus(Star):
    """Broadcasts, duals, tilts and centres that are anything."""

    play: Play = against

    name = "any"

    def opening(self, setting, first, runs):
        return Server(self.play((runs, first.shape[1]), first[:1]), np.zeros((runs, first.shape[1])))

    def dual(self, setting, rho, dual, released, common):
        return self.play(dual.shape, released)

    def terms(self, setting, rho, dual, released, common):
        centre = self.play(common.shape, released)
        return centre, self.kappa(setting, rho)[:, None], centre

    def combine(self, setting, server, releases, *, round, eta, rho, next_rho):
        return replace(server, common=self.play(server.common.shape, releases.mean(axis=1)))


@dataclass(frozen=True)
class AnySteps(Fixed):
    """Steps that are as they should be in the first round and the last, which are looked at, and anything between."""

    play: Play = against

    name = "any"

    def eta(self, setting, level, round):
        usual = super().eta(setting, level, round)
        return usual if round in (1, setting.rounds) else self.play(usual.shape, usual)


def with_solver(recipe: Algorithm, **changes: Any) -> Algorithm:
    (phase,) = recipe.phases
    return replace(recipe, phases=(replace(phase, solver=AnySolver(updates=phase.solver.steps, **changes)),))


# What leaves


class Overheard:
    """The integers of every release of some runs, and those of the neighbouring data sets at the same public points."""

    def __init__(self, run: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        self._run = run
        self._others: list[Any] = []
        self._total = sums.MarginGradient.total
        self.evidence: list[np.ndarray] = []  # (rows, kinds) for each release
        self.moved: list[np.ndarray] = []  # (rows,) how far apart the two are: mu² or epsilon of a release
        self.scales: list[np.ndarray] = []
        self.neighbours: Any = None
        monkeypatch.setattr(sums.MarginGradient, "total", lambda query, table, x: self.total(query, table, x))
        monkeypatch.setattr(base, "add_noise", self.add_noise)

    def play(self, each: int, seed: int) -> list[np.ndarray]:
        """`each` runs over either data set; the victim's releases, (rows, D) for each round."""
        run, agents = self._run, self._run.agents
        cohort = _cohort(run, each, SideBySide(seed, agents))
        side = np.repeat([agents, 0], each * agents)
        self.neighbours = run.shards.take(np.tile(np.arange(agents), 2 * each) + side)
        self.victims = np.arange(0, 2 * each * agents, agents)
        self.evidence, self.moved, self.scales = [], [], []
        with np.errstate(all="ignore"):
            states = rounds(cohort, SimulationState.of(cohort), InProcessExecutor())
            return [state.agents.released[self.victims] for state in states]

    def total(self, query: Any, table: Any, x: np.ndarray) -> Any:
        assert table.agents == self.neighbours.agents
        self._others.append(self._total(query, self.neighbours, x))
        return self._total(query, table, x)

    def add_noise(self, counts: Any, mechanism: Any, sensitivity: Any, stream: Any) -> Any:
        noisy = add_noise(counts, mechanism, sensitivity, stream)
        other = self._others.pop().rounded(self._run.plan.setting.bounds.shift)
        scale = noise_scales(mechanism, np.broadcast_to(sensitivity, mechanism.noise_multiplier.shape))
        rows = self.victims
        first = np.arange(len(rows)) < len(rows) // 2
        own, there, scale = counts[rows], other[rows], scale[rows].astype(float)[:, None]
        one, two = (np.where(first[:, None], a, b) for a, b in ((own, there), (there, own)))
        noise, instead = (noisy[rows] - one) / scale, (noisy[rows] - two) / scale
        way = (two - one) / scale
        ratio = mechanism.log_density(instead) - mechanism.log_density(noise)
        length = np.sqrt((way**2).sum(axis=1))
        along = np.divide((noise * way).sum(axis=1), length, out=np.zeros_like(length), where=length > 0.0)
        self.evidence.append(np.stack((ratio, along), axis=1))
        if isinstance(mechanism, Gaussian):
            self.moved.append((((two - one) ** 2).astype(float) / (scale**2 - SMOOTHING)).sum(axis=1))
        else:
            self.moved.append(np.abs(way).sum(axis=1))
        self.scales.append(scale[:, 0])
        return noisy

    def found(self) -> np.ndarray:
        """(2, transcripts, releases, kinds)"""
        evidence = np.stack(self.evidence, axis=1)
        return evidence.reshape(2, -1, *evidence.shape[1:])


def attacked(recipe: Algorithm, epsilon: float, relation: str, monkeypatch: pytest.MonkeyPatch) -> float:
    """The lower bound over the claim, after all that must hold of every single transcript."""
    # Agents refuse a broadcast that is not finite or very large; privacy needs no such refusal.
    monkeypatch.setattr(request, "_numbers", lambda value, shape: value)
    stage = Scenario(loss="logistic", relation=relation, rounds=3)
    run = scene(recipe, TotalBudget((Budget(epsilon, DELTA),)), stage)
    spent = run.plan.accounts()
    overheard = Overheard(run, monkeypatch)
    overheard.play(EACH, seed=1)
    training = overheard.found()
    releases = overheard.play(EACH, seed=2)
    for release in releases:  # which of its numbers are finite says nothing of the records
        assert len({np.isfinite(row).tobytes() for row in release}) == 1
    assert len(overheard.moved) == 3 * recipe.phases[0].solver.steps
    for scales in overheard.scales:
        assert np.unique(scales).size == 1
    total = np.sum(overheard.moved, axis=0)
    claimed = spent.guarantee(0, DELTA).epsilon
    method = usual_method(spent.tally(0))
    assert total.max() <= (gaussian.mu(claimed, DELTA) ** 2 if method == "gdp" else claimed) * (1.0 + 1e-9)
    attack = trained(training, BOUNDS[method], 0.95, DELTA)
    lower = attack.reaches(overheard.found(), 0.95, DELTA)
    assert lower <= claimed
    return lower / claimed


relations = pytest.mark.parametrize("relation", ["zero-out", "replace"])
plays = pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)


@relations
@plays
@pytest.mark.parametrize("name", ["dp-admm", "obj-l"])
def test_a_solver_may_ask_anywhere(name, play, relation, monkeypatch):
    attacked(with_solver(ALGORITHMS[name], ask=play), 1.0, relation, monkeypatch)


@plays
def test_a_solver_may_ask_and_answer_anything(play, monkeypatch):
    recipe = with_solver(ALGORITHMS["obj-g"].tuned(updates=2), ask=turning, answer=play)
    attacked(recipe, 1.0, "zero-out", monkeypatch)


@plays
@pytest.mark.parametrize("name", ["dp-admm", "dpsgd", "obj-g", "ps-admm-full"])
def test_broadcasts_and_duals_may_be_anything(name, play, monkeypatch):
    attacked(replace(ALGORITHMS[name], consensus=AnyConsensus(play=play)), 1.0, "replace", monkeypatch)


@plays
@pytest.mark.parametrize("name", ["dpsgd", "obj-g"])
def test_a_refusal_tells_what_was_broadcast_and_nothing_of_the_records(name, play):
    recipe = replace(ALGORITHMS[name], consensus=AnyConsensus(play=play))
    run = scene(recipe, TotalBudget((Budget(1.0, DELTA),)), Scenario(loss="logistic", rounds=3))
    ends = []
    for side in (0, 1):
        one = replace(run, shards=run.shards.take(np.tile(np.arange(run.agents) + side * run.agents, 2)))
        cohort, answered = _cohort(one, 5, SideBySide(1, run.agents)), 0
        said = ""
        with np.errstate(all="ignore"):
            try:
                for _ in rounds(cohort, SimulationState.of(cohort), InProcessExecutor()):
                    answered += 1
            except Refused as refused:
                said = str(refused)
        ends.append((answered, said))
    assert ends[0] == ends[1]


@plays
def test_steps_may_be_anything(play, monkeypatch):
    recipe = replace(ALGORITHMS["dp-admm"], schedule=AnySteps(step=0.1, play=play))
    attacked(recipe, 1.0, "replace", monkeypatch)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_an_adversary_reaches_twice_what_an_honest_run_shows(epsilon, monkeypatch):
    """A logistic slope is half of its bound at zero, and all of it where the adversary asks: the test has teeth."""
    recipe = ALGORITHMS["dpsgd"]
    reached = attacked(replace(recipe, consensus=AnyConsensus(play=against)), epsilon, "zero-out", monkeypatch)
    assert reached > 0.8
    monkeypatch.undo()
    honest = audit(recipe, epsilon, DELTA, stage=Scenario(loss="logistic", relation="zero-out"), transcripts=EACH)
    assert honest.ratio < 0.6


def test_a_solver_that_asks_too_often_is_stopped_whatever_the_records(monkeypatch):
    recipe = with_solver(ALGORITHMS["dp-admm"])

    def greedy(solver, subproblem, oracle, memory, eta, emit=None):
        for _ in range(solver.steps + 1):
            seen = oracle(memory.point)
        return seen, memory

    monkeypatch.setattr(AnySolver, "solve", greedy)
    for loss in ("quantile", "logistic"):
        run = scene(recipe, TotalBudget((Budget(1.0, DELTA),)), Scenario(loss=loss))
        with pytest.raises(RuntimeError, match="more steps than"):
            Overheard(run, monkeypatch).play(1, seed=1)


# Exact minimisers: what finds a candidate is not trusted, what proves it is


def leaking(subproblem, point, private, aim):
    """Nearly as far from the minimiser as is paid for, to the side that one of the records decides."""
    found, kept = newton(subproblem, point, private, aim)
    curvature = (subproblem.kappa + subproblem.smoothness)[:, 0]
    first = subproblem.shards.real_rows[subproblem.shards.starts]
    lengths = np.maximum(np.linalg.norm(first, axis=1), 1e-300)
    towards = first / lengths[:, None] * subproblem.shards.targets[subproblem.shards.starts][:, None]
    return found - 0.9 * TOLERANCE * towards / curvature[:, None], kept


def failing(subproblem, point, private, aim):
    raise FloatingPointError("no minimiser was found")


def everywhere(number: float):
    return lambda subproblem, point, private, aim: (np.full_like(point, number), private)


TOLERANCE = 0.02
FINDERS = {"leaking": leaking, "failing": failing, "NaN": everywhere(np.nan), "1e300": everywhere(1e300)}


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("finder", FINDERS.values(), ids=FINDERS)
def test_whoever_finds_a_minimiser_may_do_so_badly(finder, epsilon, monkeypatch):
    monkeypatch.setattr(exact, "newton", finder)
    recipe = ALGORITHMS["pvp"].tuned(tolerance=TOLERANCE)
    each = 500 if finder is failing else EACH  # after a failure agents are tried one by one
    found = audit(recipe, epsilon, DELTA, stage=Scenario(loss="smoothed-hinge"), transcripts=each, seed=1)
    assert not found.violated
    assert found.ratio > 0.5
