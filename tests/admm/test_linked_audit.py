"""Attacks on variance-reduced steps by the exact likelihood, coins included: they prove no more than is claimed, and at
least half of what the curve of their pair of slopes allows."""

import numpy as np
import pytest

from dpadmm.admm.perturbations import SampledGradient
from dpadmm.admm.setting import Multiplier, TotalBudget
from dpadmm.admm.solvers import Svrg
from dpadmm.admm.solvers.base import Subproblem
from dpadmm.audit.bounds import Mistakes, clopper_pearson
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.composition import Composition
from dpadmm.privacy.events import Relation
from dpadmm.privacy.linked import Linked
from dpadmm.privacy.regions import of_pair
from dpadmm.problems.losses import ClippedSquared, Logistic
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import gather
from dpadmm.release.random_bits import SeededRandomness

ZERO_OUT, DELTA, STEPS, RECORDS, RUNS, FAR = Relation.ZERO_OUT, 1e-2, 8, 20, 6000, 60.0
SOLVER = Svrg(updates=STEPS, batch=2)
SLOPES = {  # of the record at the point and at the anchor: what is drawn tells, both tell, only what is not drawn tells
    "at the point": (1.0, 0.0),
    "at both": (1.0, 1.0),
    "at the anchor": (0.0, 1.0),
}
OPPOSITE = {"opposite": (1.0, -1.0)}  # where slopes may take both signs
CASES = [
    pytest.param(loss, slopes, id=f"{loss.name}-{name}")
    for loss, found in ((Logistic(), SLOPES), (ClippedSquared(1.0), SLOPES | OPPOSITE))
    for name, slopes in found.items()
]


def shards(loss, present):
    """An agent with one record that contributes, or with none."""
    features = np.zeros((RECORDS, 3))
    features[0, 0] = float(present)
    targets = np.full(RECORDS, 1.0 if loss.task == "binary" else 0.0)
    return gather(features, targets, np.zeros(RECORDS, dtype=np.int64), norm_bound=1.0, names=["0"])


def place(loss, slope):
    """The margin at which the record's slope is -1, 0 or 1 times its bound (for the logistic loss: minus that)."""
    return FAR * (1.0 if slope == 0.0 else -slope) if loss.task == "binary" else FAR * slope


def heard(loss, level, slopes, present, seed, terms, task):
    """The noisy gradients of many runs of one round, in units of the steps' noise; (steps, runs)."""
    records = shards(loss, present).take(np.zeros(RUNS, dtype=np.int64))
    setting = terms(Problem(loss), records, relation=ZERO_OUT, rounds=1)
    zeros = np.zeros((RUNS, 3))
    sub = Subproblem(setting.problem, records, setting.weights, zeros, np.full((RUNS, 1), 0.1), zeros)
    perturbation, names = SampledGradient(), np.arange(RUNS)
    noise, said = perturbation.calibrate(setting, SOLVER, Multiplier(level)), []
    points = [zeros.copy() for _ in slopes]
    for point, slope in zip(points, slopes, strict=True):
        point[:, 0] = place(loss, slope)

    def solve(given, oracle, memory, eta, emit=None):
        said.extend(oracle(points[0 if step else 1])[:, 0] for step in range(STEPS))
        return zeros, memory

    listening = Svrg(updates=STEPS, batch=2)
    object.__setattr__(listening, "solve", solve)
    runs = np.zeros(RUNS, dtype=np.int64)
    perturbation.release(
        task(
            setting,
            noise,
            listening,
            sub,
            random_bits=lambda purpose: SeededRandomness(seed).stream(runs, names, 1, purpose),
        )
    )
    sign = -1.0 if loss.task == "binary" else 1.0
    return sign * np.stack(said) / (level * setting.gradient_sensitivity()[0])


def likelihood(heights, level, rate, slopes, bound):
    """ln of the density with the record over that without it: the first step is at the anchor, the others mix."""
    point, anchor = (slope * bound / level for slope in slopes)
    drawn = (point - (1.0 - rate) * anchor) / rate
    mixed = np.logaddexp(
        np.log1p(-rate) + anchor * heights[1:] - anchor**2 / 2, np.log(rate) + drawn * heights[1:] - drawn**2 / 2
    )
    return anchor * heights[0] - anchor**2 / 2 + mixed.sum(axis=0)


class Pair(Linked):
    """One pair of shifts, in place of the worst."""

    def __init__(self, rate, undrawn, drawn):
        self.rate, self.longest, self.pairs, self._first = rate, max(abs(undrawn), 1e-3), [(undrawn, drawn)], 1.0

    def _turning(self, knots):
        return of_pair(self.rate, 0.0, 0.0, knots[:0]), np.zeros(0, dtype=np.int64)


def exact(level, rate, slopes, bound):
    """What the curve of these slopes allows: epsilon at delta, both directions."""
    point, anchor = (slope * bound / level for slope in slopes)
    pair, interval = Pair(rate, anchor, (point - (1.0 - rate) * anchor) / rate), 2e-3
    each = [(pair.losses(interval, pair.ends(np.log(1e-9), 60.0)), STEPS - 1)]
    if anchor:
        alone = Pair(rate, anchor, anchor)
        each.append((alone.losses(interval, alone.ends(np.log(1e-9), 60.0)), 1))
    found = []
    for side in range(2):
        composed = Composition([(losses[side], count) for losses, count in each], interval)
        order = composed.order(np.log(DELTA))
        found.append(composed.bound(order, composed.window(order, np.log(DELTA))).epsilon(DELTA))
    return max(found)


def proved(without, with_it):
    """A lower bound of epsilon at 95 %: the line is drawn by half of the runs, and tried on the others."""
    half = RUNS // 2
    lines = np.quantile(np.concatenate([without[:half], with_it[:half]]), np.linspace(0.02, 0.98, 49))

    def mistakes(line, part):
        said = (without[part] > line).sum(), (with_it[part] <= line).sum()
        return Mistakes(np.array(said[0]), half, np.array(said[1]), half)

    first, second = slice(0, half), slice(half, 2 * half)
    line = max(lines, key=lambda each: float(clopper_pearson(mistakes(each, first), 0.95, DELTA)))
    return float(clopper_pearson(mistakes(line, second), 0.95, DELTA))


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize(("loss", "slopes"), CASES)
def test_the_exact_likelihood_proves_at_least_half_of_its_pair_s_curve_and_no_more_than_the_claim(
    loss, slopes, epsilon, terms, task
):
    setting = terms(Problem(loss), [RECORDS], relation=ZERO_OUT, rounds=1)
    request = TotalBudget((Budget(epsilon, DELTA),))
    level = float(SampledGradient().calibrate(setting, SOLVER, request).mechanism.noise_multiplier[0])
    rate = float(SOLVER.rates(setting.counts)[0])
    bound = 1.0 - 1e-6  # of a slope's part of the sensitivity
    sides = [heard(loss, level, slopes, present, 5 + present, terms, task) for present in (False, True)]
    found = proved(*(likelihood(side, level, rate, slopes, bound) for side in sides))
    assert found <= epsilon
    allowed = exact(level, rate, slopes, bound)
    assert allowed <= epsilon * 1.001  # of its grid
    if allowed > 0.5 * epsilon:  # so many runs tell no smaller ones
        assert found >= 0.5 * allowed


@pytest.mark.parametrize("slopes", [(1.0, -1.0), (1.0, 0.0), (0.0, 1.0)], ids=str)
def test_shifts_are_the_linked_ones(slopes, terms, task):
    """With hardly any noise: p2 where the record is not drawn, (p1 - (1-q) p2) / q where it is, p1 on average."""
    loss, level = ClippedSquared(1.0), 1e-3
    rate = float(SOLVER.rates(np.array([RECORDS]))[0])
    found = heard(loss, level, slopes, True, 11, terms, task) * level
    np.testing.assert_allclose(found[0], slopes[1], atol=0.01)
    drawn = np.abs(found[1:] - slopes[1]) > 0.5
    np.testing.assert_allclose(found[1:][~drawn], slopes[1], atol=0.01)
    np.testing.assert_allclose(found[1:][drawn], (slopes[0] - (1.0 - rate) * slopes[1]) / rate, atol=0.01)
    assert drawn.mean() == pytest.approx(rate, abs=4.0 * np.sqrt(rate / drawn.size))
