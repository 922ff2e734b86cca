"""The numbers of the theory pages, computed anew."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from dpadmm.admm.perturbations import Gradient, SampledGradient
from dpadmm.admm.setting import Density, Multiplier, Setting
from dpadmm.admm.solvers import GradientSteps, Sgd, Svrg
from dpadmm.admm.topology.graph import parse_topology
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy import Relation, best, classic_multiplier, gaussian
from dpadmm.privacy.claims import comparisons
from dpadmm.problems.losses import ClippedSquared, Logistic, Softmax
from dpadmm.problems.penalties import L2
from dpadmm.problems.problem import Problem

ZERO_OUT = Relation.ZERO_OUT
M, K, S = 6838, 50, 100


def test_totals_that_papers_claim_are_those_of_the_library(table, agrees):
    rows, truths = table("claims.md", "A2 Ryu & Kim: the total"), comparisons()
    for row, truth in zip(rows, truths, strict=True):
        claim = truth.claim
        assert row["setting"] == claim.setting
        assert (float(row["ε a step"]), float(row["δ"])) == (claim.epsilon_step, claim.delta)
        assert int(row["steps"]) == claim.steps
        for column, number in (("claimed", truth.claimed), ("Rényi", truth.rdp), ("exact", truth.exact)):
            assert agrees(number, row[column]), (row, number)
        assert agrees(truth.true_delta, row["δ at the claimed ε"]), (row, truth.true_delta)
        assert row["holds"] == ("yes" if truth.holds else "no")
    theirs = [row["holds"] for row in rows if row["setting"].startswith("Ryu-Kim")]
    assert (len(theirs), theirs.count("no")) == (18, 12)


def test_classic_noise_is_so_much_louder_than_it_must_be(table, agrees):
    for row in table("claims.md", "A3 The noise of one release"):
        delta = float(row["δ"])
        for epsilon in (0.01, 0.1, 0.2, 1.0):
            ratio = classic_multiplier(epsilon, delta) * gaussian.mu(epsilon, delta)
            assert agrees(ratio, row[f"ε = {epsilon:g}"]), (delta, epsilon, ratio)


def stochastic(solver, perturbation, sigma, delta, loss=None):
    """What K rounds cost with noise sigma, in units of G, on every gradient."""
    loss = loss or Logistic()
    dimension = 3 * loss.outputs(3)
    setting = Setting(Problem(loss), np.array([M]), dimension, 1.0, ZERO_OUT, rounds=K, width=3)
    level = sigma * loss.gradient_bound(1.0) / float(setting.gradient_sensitivity()[0])
    noise = perturbation.calibrate(setting, solver, Multiplier(level))
    return best({noise.events[0]: K}, delta, ZERO_OUT).epsilon


@pytest.mark.parametrize("number", range(6))
def test_the_printed_noise_of_ps_admm_costs_what_the_table_says(number, table, agrees):
    row = table("claims.md", "B5 PS-ADMM, theorem 2")[number]
    sigma = math.sqrt(float(row["c"]) * K * S * math.log(1e3)) / (M * float(row["ε claimed"]))
    assert agrees(sigma, row["σ/G"])
    assert agrees(stochastic(Svrg(S, batch=1), SampledGradient(), sigma, 1e-3), row["true ε"])


COLUMNS = {
    "SVRG, B = 1": (Svrg(S, batch=1), SampledGradient()),
    "SVRG, B = 64": (Svrg(S, batch=64), SampledGradient()),
    "SVRG, B = 512": (Svrg(S, batch=512), SampledGradient()),
    "noisy anchor (a tenth), B = 64": (Svrg(S, batch=64), SampledGradient(anchor_share=0.1)),
    "mini-batches, B = 64": (Sgd(S, batch=64), SampledGradient()),
    "whole gradients": (GradientSteps(S), Gradient()),
}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("number", [0, 1])
def test_calibrated_noise_of_ps_admm_is_what_the_table_says(number, column, table):
    """A hundredth more of it is within the budget, a hundredth less is not."""
    row = table("claims.md", "B5 PS-ADMM, theorem 2", 1)[number]
    assert list(row) == ["budget", *COLUMNS]
    epsilon, delta = (float(part) for part in row["budget"].strip("()").split(","))
    solver, perturbation = COLUMNS[column]
    sigma = float(row[column])
    assert stochastic(solver, perturbation, 1.01 * sigma, delta) <= epsilon
    assert stochastic(solver, perturbation, 0.99 * sigma, delta) > epsilon


OTHER_LOSSES = {
    "both signs, B = 64": (Svrg(S, batch=64), SampledGradient(), ClippedSquared(1.0)),
    "both signs, B = 512": (Svrg(S, batch=512), SampledGradient(), ClippedSquared(1.0)),
    "both signs, noisy anchor, B = 64": (Svrg(S, batch=64), SampledGradient(anchor_share=0.1), ClippedSquared(1.0)),
    "softmax, B = 64": (Svrg(S, batch=64), SampledGradient(), Softmax()),
    "softmax, B = 512": (Svrg(S, batch=512), SampledGradient(), Softmax()),
}


@pytest.mark.parametrize("column", OTHER_LOSSES)
@pytest.mark.parametrize("number", [0, 1])
def test_calibrated_noise_for_other_losses_is_what_the_table_says(number, column, table):
    """A hundredth more of it is within the budget, a hundredth less is not."""
    row = table("claims.md", "B5 PS-ADMM, theorem 2", 2)[number]
    assert list(row) == ["budget", *OTHER_LOSSES]
    epsilon, delta = (float(part) for part in row["budget"].strip("()").split(","))
    solver, perturbation, loss = OTHER_LOSSES[column]
    sigma = float(row[column])
    assert stochastic(solver, perturbation, 1.01 * sigma, delta, loss) <= epsilon
    assert stochastic(solver, perturbation, 0.99 * sigma, delta, loss) > epsilon


def test_mr_admm_s_bounds_for_its_experiment(table, agrees):
    problem = Problem(penalty=L2(), strength=0.22 / 5 / 1750)
    setting = Setting(
        problem, np.full(5, 8000), 3, 1.0, Relation.REPLACE, rounds=50, rho=1 / 1750, graph=parse_topology("complete:5")
    )
    for row in table("graphs.md", "6.5 Private R-ADMM and MR-ADMM"):
        alpha = float(row["α"])
        recipe = ALGORITHMS["private-mr-admm"].tuned(mechanism="gamma-norm")
        plan = recipe.plan(setting, Density((1750.0 * alpha,)))
        assert agrees(plan.printed()[-1], row["printed"])
        output = 0.01 * 25 * 2 * 1750 / 8000 * alpha  # a hundredth, for minimisers that are not exact
        assert agrees(plan.accounts().worst(0.0).epsilon - output, row["tight"])


@cache
def left_sides():
    """P = 50 agents, f = (x - 1)²/2 on [-1, 1] from -1, rho 10, eta 1, E = 1, written out."""
    agents, rho, eta = 50, 10.0, 1.0
    x, y, total, sums = -1.0, 0.0, 0.0, []
    for _ in range(20):
        z = x - y / rho
        x = min(max((x / eta + rho * z + y - (x - 1.0)) / (1.0 / eta + rho), -1.0), 1.0)
        y += rho * (z - x)
        total += x
        sums.append(agents * 0.5 * (total / (len(sums) + 1) - 1.0) ** 2)
    return sums


def test_the_counterexample_of_ryu_and_kim(table, agrees):
    for row in table("claims.md", "C2 Ryu & Kim, theorems 5.3 to 5.5"):
        rounds = int(row["T"])
        assert agrees(left_sides()[rounds - 1], row["left side"])
        printed = 4.0 * (10.0 + 1.0) / (2 * rounds)
        assert agrees(printed, row["printed bound"])
        assert agrees(50 * printed, row["corrected bound"])
        assert printed < left_sides()[rounds - 1] < 50 * printed


@pytest.mark.parametrize(("loss", "sign"), [(Logistic(), "one sign"), (ClippedSquared(1.0), "both signs")])
def test_shifts_of_mini_batches_are_those_that_are_charged(loss, sign, table):
    """||u||, ||v|| and the mean shift, at w G = 1 and a rate of 0.1."""
    setting = Setting(Problem(loss), np.array([1000]), 3, norm_bound=1.0, relation=ZERO_OUT, rounds=1)
    solvers = {
        "ps-admm": (Svrg(1, batch=0.1), 0.0),
        "ps-admm-anchor": (Svrg(1, batch=0.1), 1 / 3),
        "ps-admm-sgd": (Sgd(1, batch=0.1), 0.0),
    }
    known = {"w": 1.0, "G": 1.0, "q": 0.1}
    for row in table("stochastic.md", "5.2 With noise"):
        if row["recipe"] == "ps-admm-full":
            assert row["‖u‖"] == row[f"‖v‖, {sign}"] == row[f"mean shift, {sign}"] == "w G"
            continue
        solver, share = solvers[row["recipe"]]
        perturbation = SampledGradient(anchor_share=share)
        cost = perturbation.cost(setting, solver, 1e-5)
        formulas = [row["‖u‖"], row[f"‖v‖, {sign}"], row[f"mean shift, {sign}"].partition(",")[0]]
        expected = [eval(_python(text), {}, known) for text in formulas]
        assert cost.shifts(0)[0] == pytest.approx(expected[:2], rel=1e-3)
        assert cost.mean_shift(0) == pytest.approx(expected[2], rel=1e-3)


def _python(formula: str) -> str:
    text = formula.replace("w G", "w*G").replace("w (", "w*(").replace("2G", "2*G").replace("3 w", "3*w")
    return text.replace("2 w", "2*w").replace("2 q w", "2*q*w")
