"""F5: DP-ADMM's constant-step convergence bounds (theory 3.4, proved forms) hold in the mean over many runs."""

import math

import numpy as np
import pytest

from dpadmm.admm.schedules import Constant3, Constant4
from dpadmm.admm.setting import Multiplier
from dpadmm.papers import ALGORITHMS
from dpadmm.problems.losses import Logistic
from dpadmm.problems.penalties import L1, L2, ElasticNet
from dpadmm.problems.problem import Problem
from dpadmm.problems.reference import optimum

RUNS = 50
SIZES = (20, 40, 30)
RHO = 0.1
CASES = {
    "kink": (L1(), Constant3(), 0.02),
    "kink and quadratic": (ElasticNet(0.3), Constant3(), 0.3),
    "smooth": (L2(), Constant4(), 0.02),
}


@pytest.mark.parametrize("noise", [0.5, 5.0])
@pytest.mark.parametrize("rounds", [10, 80])
@pytest.mark.parametrize("case", CASES)
def test_the_mean_gap_is_below_the_constant_step_bound(case, rounds, noise, simulated, terms, played):
    penalty, schedule, strength = CASES[case]
    problem = Problem(Logistic(), penalty, strength)
    shards = simulated(sizes=SIZES)
    best = optimum(problem, shards, 3)
    c_w = float(np.linalg.norm(best))
    setting = terms(problem, shards, rounds=rounds, radius=c_w, rho=RHO)
    plan = ALGORITHMS["dp-admm"].tuned(schedule=schedule).plan(setting, Multiplier(noise))
    state = played(plan, shards, runs=range(RUNS))[-1]
    everyone = shards.tile(RUNS)

    # With a kink f is taken at the mean over rounds 0..T-1, the residual always at the mean over rounds 1..T.
    where = state.mean_local if case == "smooth" else state.mean_local_before
    at_best = problem.objective(shards, np.tile(best, (3, 1)))
    gap = problem.objective(everyone, where).reshape(RUNS, 3) - at_best
    apart = state.mean_local.reshape(RUNS, 3, 3) - state.shared.mean_model[:, None]
    residual = np.linalg.norm(apart, axis=2)

    n, T, D = 3, rounds, 3
    sigma = noise * 2.0 / np.array(SIZES)  # from the lemma, not from the plan
    for beta in (0.0, RHO, 1.0):
        left = (gap + beta * residual).sum(axis=1)
        tail = n * (RHO * c_w**2 + beta**2 / RHO) / (2 * T)
        if case != "smooth":
            kink, curve = (1.0, 0.0) if case == "kink" else (0.3, 0.7)
            X = (1.0 + strength * kink * math.sqrt(D)) ** 2 + D * sigma**2
            bound = c_w * np.sqrt(X / T).sum() + n * strength * curve * c_w**2 / (2 * T) + tail
        else:
            L_f = 0.25 + strength
            bound = c_w * sigma.sum() * math.sqrt(D / T) + n * c_w**2 * L_f / (2 * T) + tail
        assert left.mean() + 3 * left.std() / math.sqrt(RUNS) <= bound
        assert left.mean() > bound / 1000
    assert gap.sum(axis=1).std() > 0


def test_the_bound_can_fail(simulated, terms, played):
    """A thousand times the c_w that the theorem allows, and it breaks: the test above is not satisfied by anything."""
    problem = Problem(Logistic(), L2(), 0.02)
    shards = simulated(sizes=SIZES)
    best = optimum(problem, shards, 3)
    c_w = float(np.linalg.norm(best))
    setting = terms(problem, shards, rounds=80, radius=1000 * c_w, rho=RHO)
    plan = ALGORITHMS["dp-admm"].tuned(schedule=Constant4()).plan(setting, Multiplier(40.0))
    state = played(plan, shards, runs=range(RUNS))[-1]
    gap = problem.objective(shards.tile(RUNS), state.mean_local).reshape(RUNS, 3) - problem.objective(
        shards, np.tile(best, (3, 1))
    )
    sigma = 40.0 * 2.0 / np.array(SIZES)
    bound = c_w * sigma.sum() * math.sqrt(3 / 80) + 3 * c_w**2 * (0.27 + RHO) / 160
    assert gap.sum(axis=1).mean() > bound
