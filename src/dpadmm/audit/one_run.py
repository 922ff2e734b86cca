"""One run with many canaries, each put in or left out by a coin; the attacker guesses the coins (Steinke et al. 2023).

It needs one transcript where the distinguishing attack needs thousands, so it is the one for large models. What it can
refute is much less: with 1,000 canaries about half of an epsilon of 4.

Canary j lies along axis j, so canaries do not disturb each other. Its score is how far the victim's releases lean its
way. The highest and the lowest scores are guessed, and there is no guess on those between; how many are guessed is
fixed on another run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dpadmm._arrays import BoolArray, FloatArray, IntArray
from dpadmm.admm.algorithm import Algorithm, Plan
from dpadmm.admm.setting import NoiseRequest
from dpadmm.audit.bounds import Measured, guessed
from dpadmm.audit.likelihood import noise_scale, silent
from dpadmm.audit.neighbours import Record, blank, sheet, worst_pair
from dpadmm.audit.observed import messages
from dpadmm.audit.scene import Scenario, chosen, noise_norm
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.errors import InputError
from dpadmm.privacy.randomness import derived, generator
from dpadmm.problems.shards import Shards
from dpadmm.release.random_bits import SeededRandomness

FEWEST, MOST = 20, 4_000


@dataclass(frozen=True, eq=False)
class Crowd:
    """A plan whose victim has canaries and nothing else, and the two records that each coin decides between."""

    plan: Plan
    pairs: tuple[list[Record], list[Record]]
    norm_bound: float

    @property
    def canaries(self) -> int:
        return len(self.pairs[0])

    def shards(self, coins: BoolArray) -> Shards:
        """All agents' records: the victim's by the coins, the others' blank."""
        drawn = [self.pairs[int(coin)][j] for j, coin in enumerate(coins)]
        others = [[blank(record, len(record[0])) for record in drawn]] * (self.plan.setting.agents - 1)
        return sheet(self.plan.setting.problem.loss, [drawn, *others], self.norm_bound)

    def alone(self, side: int) -> Shards:
        """Every canary as the one record of an agent of its own."""
        return sheet(self.plan.setting.problem.loss, [[record] for record in self.pairs[side]], self.norm_bound)


def crowd(recipe: Algorithm, request: NoiseRequest, stage: Scenario, canaries: int) -> Crowd:
    """The run to be attacked, with the noise asked for."""
    if not FEWEST <= canaries <= MOST:
        raise InputError(f"{canaries} canaries: between {FEWEST} and {MOST:,} fit into one run.")
    if stage.evaluation_epsilon is not None:
        raise InputError("an estimate of the error is not attacked in one run; use many transcripts, or leave it out.")
    setting = chosen(recipe, replace(stage, width=canaries, records=canaries))
    pair = worst_pair(
        setting.problem.loss, setting.relation, noise_norm(recipe), canaries, stage.norm_bound, one_axis=True
    )
    turned = tuple([(np.roll(row, j), target) for j in range(canaries)] for row, target in pair)
    plan = recipe.plan(setting, request)
    return Crowd(plan, (turned[0], turned[1]), stage.norm_bound)


def guess(run: Crowd, confidence: float, delta: float, seed: int) -> Measured:
    """Fixes on one run how many coins to guess, and guesses those of another."""
    bound = _bound(run.canaries, confidence, delta)
    coins, scores = _scored(run, derived(seed, "training"))
    numbers = np.unique(np.geomspace(4, run.canaries, 20).astype(np.int64) // 2 * 2)
    number = int(max(numbers, key=lambda n: bound(int(n), int(_right(coins, scores, int(n)).sum()))))
    coins, scores = _scored(run, derived(seed, "trial"))
    right = _right(coins, scores, number)
    return Measured(
        lower_bound=bound(number, int(right.sum())),
        transcripts=1,
        training=1,
        canaries=run.canaries,
        statistic=f"{int(right.sum())} of {number} guesses right",
        false_positives=float(1.0 - right[number // 2 :].mean()),
        false_negatives=float(1.0 - right[: number // 2].mean()),
    )


def _bound(canaries: int, confidence: float, delta: float) -> Callable[[int, int], float]:
    return lambda guesses, right: guessed(canaries, guesses, right, confidence, delta)


def _right(coins: BoolArray, scores: FloatArray, number: int) -> BoolArray:
    """Which guesses are right: of the lowest scores, that the coin fell for the first, then of the highest."""
    order: IntArray = np.argsort(scores, kind="stable")
    low, high = order[: number // 2], order[-(number // 2) :]
    return np.concatenate((~coins[low], coins[high]))


def _scored(run: Crowd, seed: int) -> tuple[BoolArray, FloatArray]:
    """Coins, and how far the releases of a run with them lean towards each canary's second record."""
    coins = generator(seed, "coins").random(run.canaries) < 0.5
    cohort = Cohort.of(run.plan, run.shards(coins), [0], SeededRandomness(seed))
    sides, scores = (run.alone(0), run.alone(1)), np.zeros(run.canaries)
    nobody = sheet(run.plan.setting.problem.loss, [[blank(run.pairs[0][0], run.canaries)]], run.norm_bound)
    for message in messages(cohort, SimulationState.of(cohort), np.zeros(1, dtype=np.int64)):
        if message.phase.solver.reads_records:
            one, other = (silent(message.repeated(run.canaries), side) for side in sides)
            noise = (message.release - silent(message, nobody))[0] / noise_scale(message, nobody)[0, 0] ** 2
            scores += (other - one) @ noise
    return coins, scores
