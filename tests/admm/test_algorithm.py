"""What a recipe cannot do it refuses before round one, naming the part and what is missing."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpadmm.admm.algorithm import Algorithm, Phase
from dpadmm.admm.consensus import Star
from dpadmm.admm.perturbations import Gradient, Objective, Output, PenaltyNoise, Unperturbed
from dpadmm.admm.schedules import Fixed, Theorem4
from dpadmm.admm.setting import Multiplier, TotalBudget
from dpadmm.admm.solvers import Exact, Linearised
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.problems.losses import ClippedSquared, Logistic, Quantile, Quantiles, Softmax
from dpadmm.problems.penalties import L1, L2, Mcp
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import Box, Whole

L2_PROBLEM = Problem(penalty=L2(), strength=0.1)
L1_PROBLEM = Problem(penalty=L1(), strength=0.1)


@dataclass(frozen=True)
class Bumpy(Logistic):
    """A loss that is not convex."""

    name = "bumpy"
    convex = False


@dataclass(frozen=True)
class Kinked(Logistic):
    """A loss with a kink."""

    name = "kinked"

    def curvature_bound(self, norm_bound):
        return None


@dataclass(frozen=True)
class Ball(Whole):
    """A set that is no product of intervals."""

    name = "ball"
    separable = False


def recipe(solver, perturbation, **changes):
    return Algorithm("mine", "", "", Star(), (Phase(solver, perturbation),), **changes)


REFUSED = {
    "no such noise": (
        recipe(Linearised(), Gradient("laplas")),
        L2_PROBLEM,
        r"mechanism 'laplas'; did you mean 'laplace'",
    ),
    "laplace on the objective": (
        recipe(Exact(), Objective("laplace")),
        L2_PROBLEM,
        r"perturbation 'objective' has a lemma for 'gamma-norm' and 'gaussian' noise only, not 'laplace'",
    ),
    "laplace on the penalty": (
        recipe(Exact(), PenaltyNoise("laplace")),
        L2_PROBLEM,
        r"perturbation 'penalty' has a lemma for 'gamma-norm' and 'gaussian' noise only, not 'laplace'",
    ),
    "an unknown mechanism": (
        recipe(Exact(), Output("gausian")),
        L2_PROBLEM,
        r"unknown mechanism 'gausian'; did you mean 'gaussian'",
    ),
    "gradient noise for an exact solver": (
        recipe(Exact(), Gradient()),
        L2_PROBLEM,
        r"perturbation 'gradient' needs a solver .* gradients only; 'exact' does not",
    ),
    "objective noise for a linearised solver": (
        recipe(Linearised(), Objective()),
        L2_PROBLEM,
        r"perturbation 'objective' needs an exact minimiser, not solver 'linearised'",
    ),
    "objective noise with l1": (
        ALGORITHMS["dvp"],
        L1_PROBLEM,
        r"perturbation 'objective' needs a twice differentiable penalty; 'l1' has a kink",
    ),
    "objective noise with softmax": (
        ALGORITHMS["dvp"],
        Problem(Softmax()),
        r"perturbation 'objective' needs .* one margin; 'softmax' is not",
    ),
    "objective noise with squared": (
        ALGORITHMS["dvp"],
        Problem(ClippedSquared()),
        r"perturbation 'objective' needs .* one margin; 'squared' is not",
    ),
    "objective noise in a box": (
        ALGORITHMS["dvp"],
        Problem(domain=Box()),
        r"perturbation 'objective' has no lemma for the set 'box'",
    ),
    "output noise in a box": (
        ALGORITHMS["pvp"],
        Problem(domain=Box()),
        r"perturbation 'output' .* would leave the set 'box'",
    ),
    "theorem 4 with l1": (
        ALGORITHMS["dp-admm"].tuned(schedule=Theorem4()),
        L1_PROBLEM,
        r"schedule 'theorem-4' needs a smooth objective; loss 'logistic' with penalty 'l1' has a kink",
    ),
    "exact with a loss that is not convex": (
        ALGORITHMS["admm"],
        Problem(Bumpy()),
        r"solver 'exact' needs a convex loss, 'bumpy' is not",
    ),
    "exact with a kinked loss": (
        ALGORITHMS["admm"],
        Problem(Kinked()),
        r"solver 'exact' proves a minimiser of loss 'kinked', .* to a tolerance of 1e-07 at best, not 1e-08",
    ),
    "exact with a kinked loss in a box": (
        ALGORITHMS["f-admm"],
        Problem(Kinked(), domain=Box(1.0)),
        r"solver 'exact' handles the kink of loss 'kinked' on the whole space and up to 1,000 coefficients",
    ),
    "exact with a penalty that is not convex": (
        ALGORITHMS["admm"],
        Problem(penalty=Mcp(), strength=0.1),
        r"solver 'exact' needs a convex penalty, 'mcp' is not; use a recipe of gradient steps such as 'dp-admm'",
    ),
    "exact over a ball": (
        ALGORITHMS["admm"],
        Problem(domain=Ball()),
        r"solver 'exact' cannot handle the set 'ball'",
    ),
}


@pytest.mark.parametrize(("algorithm", "problem", "message"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_lemma_is_refused(algorithm, problem, message, terms):
    with pytest.raises(InputError, match=message):
        algorithm.check(terms(problem, [5, 6]))
    with pytest.raises(InputError, match=message):
        algorithm.plan(terms(problem, [5, 6]), Multiplier(1.0))


def test_what_has_a_lemma_passes(terms):
    for problem in (L2_PROBLEM, L1_PROBLEM, Problem(Softmax())):
        for name in ("admm", "pvp", "dp-admm", "dpsgd", "linearised-admm", "gradient-descent"):
            ALGORITHMS[name].check(terms(problem, [5, 6]))
    for problem in (L2_PROBLEM, Problem(Quantile()), Problem(Quantiles(), L1(), 0.1)):
        ALGORITHMS["f-admm"].check(terms(problem, [5, 6]))
        ALGORITHMS["fdp-admm"].check(terms(problem, [5, 6]))
    ALGORITHMS["admm"].check(terms(Problem(penalty=Mcp(), strength=0.0), [5, 6]))  # which is no penalty at all
    ALGORITHMS["fdp-admm"].check(terms(Problem(Quantile(), Mcp(), 0.1), [5, 6]))
    ALGORITHMS["dvp"].check(terms(L2_PROBLEM, [5, 6]))
    ALGORITHMS["dp-admm"].check(terms(Problem(Bumpy(), domain=Ball()), [5, 6]))
    for perturbation in (Output("gamma-norm"), Objective("gaussian"), PenaltyNoise(), PenaltyNoise("gaussian")):
        recipe(Exact(), perturbation).check(terms(L2_PROBLEM, [5, 6]))


def test_every_phase_is_checked(terms):
    sound, unsound = Phase(Exact(), Output()), Phase(Exact(), Gradient())
    with pytest.raises(InputError, match="'gradient' needs a solver"):
        Algorithm("two", "", "", Star(), (sound, unsound)).check(terms(L2_PROBLEM, [5, 6]))


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("admm", {"mechanism": "gaussian"}, r"'admm' has no mechanism"),
        ("linearised-admm", {"tolerance": 1e-6}, r"'linearised-admm' has no tolerance"),
        ("dp-admm", {"extra_curvature": 1.0}, r"'dp-admm' has no extra curvature"),
        ("pvp", {"extra_curvature": 1.0}, r"'pvp' has no extra curvature"),
        ("gradient-descent", {"mechanism": "gaussian"}, r"'gradient-descent' has no mechanism"),
    ],
)
def test_a_field_no_part_has_cannot_be_tuned(name, change, said):
    with pytest.raises(InputError, match=said):
        ALGORITHMS[name].tuned(**change)


def test_tuning_makes_another_recipe_and_leaves_the_first():
    before = ALGORITHMS["dvp"]
    tuned = before.tuned(tolerance=1e-6, extra_curvature=2.0, schedule=Fixed(0.7))
    assert tuned.phases[0].solver == Exact(1e-6)
    assert tuned.phases[0].perturbation == Objective(extra_curvature=2.0)
    assert tuned.schedule == Fixed(0.7)
    assert before is ALGORITHMS["dvp"]
    assert before.phases[0] == Phase(Exact(), Objective())
    assert before.tuned() == before


@pytest.mark.parametrize("value", [0.0, -1e-9, math.nan])
def test_a_tolerance_must_be_positive(value):
    with pytest.raises(InputError, match="tolerance"):
        ALGORITHMS["pvp"].tuned(tolerance=value)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_extra_curvature_must_not_be_negative(value):
    """Below -rho the subproblem would not even be convex, and ln(1 + kappa) would come out negative."""
    with pytest.raises(InputError, match="extra_curvature"):
        ALGORITHMS["dvp"].tuned(extra_curvature=value)


def test_budgets_must_be_one_or_one_each(terms):
    two = TotalBudget((Budget(1.0, 1e-5), Budget(2.0, 1e-5)))
    with pytest.raises(InputError, match="2 budgets for 3 agents"):
        ALGORITHMS["dp-admm"].plan(terms(L2_PROBLEM, [5, 6, 7]), two)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_noise_multiplier_must_be_finite_and_not_negative(value):
    with pytest.raises(InputError, match="noise multiplier"):
        Multiplier(value)


def test_a_gaussian_budget_needs_a_delta(terms):
    with pytest.raises(InputError, match="delta = 0"):
        ALGORITHMS["pvp"].plan(terms(L2_PROBLEM, [5, 6]), TotalBudget((Budget(1.0, 0.0),)))


def test_phases_take_turns(terms):
    one, two = Phase(Exact(), Output()), Phase(Linearised(), Unperturbed())
    cycle = Algorithm("two", "", "", Star(), (one, two))
    assert [cycle.phase(k) for k in range(1, 6)] == [0, 1, 0, 1, 0]
    assert not cycle.private
    assert replace(cycle, phases=(one,)).private
    plan = cycle.plan(terms(L2_PROBLEM, [5, 6]), Multiplier(1.0))
    assert plan.events(1) == plan.events(3) != plan.events(2)


def test_taking_agents_takes_all_their_numbers(terms):
    budgets = TotalBudget(tuple(Budget(e, 1e-5) for e in (1.0, 2.0, 3.0)))
    plan = ALGORITHMS["dp-admm"].plan(terms(L2_PROBLEM, [5, 6, 7]), budgets)
    part = plan.take([2, 0])
    np.testing.assert_array_equal(part.setting.counts, [7, 5])
    np.testing.assert_array_equal(part.eta(3), plan.eta(3)[[2, 0]])
    assert part.events(1) == (plan.events(1)[2], plan.events(1)[0])
    dvp = ALGORITHMS["dvp"].plan(terms(L2_PROBLEM, [5, 6, 7]), TotalBudget((Budget(1.0, 1e-6),)))
    np.testing.assert_array_equal(dvp.take([1]).noise[0].curvature, dvp.noise[0].curvature[[1]])
    np.testing.assert_array_equal(
        dvp.take([1]).noise[0].output.noise_multiplier, dvp.noise[0].output.noise_multiplier[[1]]
    )
