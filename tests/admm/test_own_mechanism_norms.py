"""Noise of one's own is scaled by the sensitivity in its own norm, and by the column that is worth most."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpadmm.admm.algorithm import Phase
from dpadmm.admm.perturbations import Gradient, Output
from dpadmm.admm.rounds import begin, solve_and_perturb
from dpadmm.admm.schedules import Fixed
from dpadmm.admm.setting import Multiplier, Setting, TotalBudget
from dpadmm.admm.solvers import Exact, Linearised
from dpadmm.admm.solvers.base import Subproblem
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import PureDpEvent, Relation
from dpadmm.privacy.mechanisms import SimulatedMechanism
from dpadmm.problems.losses import Logistic
from dpadmm.problems.losses.statistics import ColumnMoments
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import gather
from dpadmm.release.random_bits import SeededRandomness

DIMENSION = 100


@dataclass(frozen=True, eq=False)
class Ones(SimulatedMechanism):
    """Laplace noise in name and cost; every number of it is 1, so that its scale can be read off."""

    name = "ones"
    norm = 1

    @staticmethod
    def event(noise_multiplier):
        return PureDpEvent(1.0 / noise_multiplier)

    @staticmethod
    def deviation(dimension):
        return math.sqrt(2.0)

    def words_needed(self, dimension):
        return dimension

    def unit(self, dimension, random_bits):
        return np.ones((len(random_bits), dimension))


def released(plan, row):
    shards = gather(row[None], np.array([1.0]), np.zeros(1, int), norm_bound=1.0, names=["a"])

    def bits(purpose):
        return SeededRandomness(1).stream(np.zeros(1, int), np.zeros(1, int), 1, purpose)

    return solve_and_perturb(plan, begin(plan), shards, np.zeros((1, DIMENSION)), 1, bits)[0].value[0]


def test_noise_on_a_gradient_covers_the_1_norm_of_what_one_record_moves():
    """The 2-norm's sensitivity, which version 0.1.0 took, is sqrt(100) times too small here."""
    phases = (Phase(Linearised(), Gradient(mechanism=Ones)),)
    recipe = replace(ALGORITHMS["dp-admm"], name="mine", phases=phases, schedule=Fixed(1.0), twin="linearised-admm")
    setting = Setting(Problem(Logistic()), np.array([1]), DIMENSION, 1.0, Relation.REPLACE, 1, width=DIMENSION)
    plan, quiet = recipe.plan(setting, TotalBudget((Budget(1.0, 0.0),))), recipe.plan(setting, Multiplier(1e-9))
    row = np.ones(DIMENSION) / math.sqrt(DIMENSION)
    moved = np.abs(released(quiet, row) - released(quiet, -row)).sum()
    scale = np.abs(released(plan, row) - released(quiet, row)).min()
    assert plan.accounts().guarantee(0, 0.0).epsilon == pytest.approx(1.0)
    assert 0.45 < moved / scale <= 0.55  # slopes at zero are half of their bound


@pytest.mark.parametrize("scale", [1.0, 64.0, 1e3])
def test_output_noise_knows_what_a_column_beside_its_square_is_worth(scale):
    """Past 64 times the bound on rows a column's factor is at its limit, and its unit is worth more than a square's."""
    counts, still = np.array([2]), np.zeros((1, 4))
    setting = Setting(Problem(ColumnMoments(scale)), counts, 4, 1.0, Relation.REPLACE, 1, width=2)
    answers = []
    for first in (1.0, -1.0):
        rows = np.array([[first, 0.0], [0.3, 0.4]])
        shards = gather(rows, np.zeros(2), np.zeros(2, int), norm_bound=1.0, names=["a"])
        given = Subproblem(setting.problem, shards, setting.weights, still, np.full((1, 1), 0.1), still)
        answers.append(Exact().solve(given, given.loss_gradient, Exact().start(still), np.ones((1, 1)))[0])
    moved = float(np.linalg.norm(answers[0] - answers[1]))
    paid = Output().sensitivity(setting, Exact(), np.array([0.1]), np.ones(1))[0]
    assert moved <= paid <= 1.5 * moved
