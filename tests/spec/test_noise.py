"""The noise that a spec asks for: by a budget, a multiplier or a density, and requests that contradict themselves."""

from dataclasses import replace

import pytest

from dpadmm.admm.setting import Density, Multiplier, PaperNoise, TotalBudget
from dpadmm.errors import InputError
from dpadmm.privacy.calibration import Budget
from dpadmm.spec import resolve
from dpadmm.spec.declare import RunSpec


def test_requests():
    assert resolve.noise_request(RunSpec("admm")) == Multiplier(0.0)
    assert resolve.noise_request(RunSpec("dp-admm", epsilon=1.0, delta=1e-5)) == TotalBudget((Budget(1.0, 1e-5),))
    assert resolve.noise_request(RunSpec("dvp", epsilon=1.0)) == TotalBudget((Budget(1.0, 0.0),))
    paper = RunSpec("dp-admm", epsilon=0.1, delta=1e-5, paper_noise=True)
    assert resolve.noise_request(paper) == PaperNoise(Budget(0.1, 1e-5))
    assert resolve.noise_request(RunSpec("dp-admm", noise_multiplier=2.0, delta=1e-5)) == Multiplier(2.0, 1e-5)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (RunSpec("dp-admm"), r"'dp-admm' is private: give a total budget"),
        (RunSpec("dp-admm", delta=1e-5), r"'dp-admm' is private: give a total budget"),
        (RunSpec("admm", epsilon=1.0), r"'admm' is not private, so epsilon 1 means nothing"),
        (RunSpec("admm", noise_multiplier=2.0), r"'admm' is not private, so noise multiplier 2 means nothing"),
        (RunSpec("pvp", epsilon=1.0, noise_multiplier=2.0), r"give an epsilon or a noise multiplier, not both"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(spec, said):
    with pytest.raises(InputError, match=said):
        resolve.noise_request(spec)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"noise_multiplier": -2.0}, r"the run: noise_multiplier = -2.0 must be 0 or a number from 1e-09"),
        ({"epsilon": 0.0}, r"the run: epsilon = 0.0 must be a number from 1e-09 to 1e\+15"),
        ({"epsilon": -1.0}, r"epsilon = -1.0 must be"),
        ({"epsilon": 1.0, "delta": 1.0}, r"delta = 1.0 must be 0 or a number from"),
        ({"epsilon": 1.0, "delta": -0.1}, r"delta = -0.1 must be"),
        ({"epsilons": (1.0, -2.0)}, r"epsilons = -2.0 must be"),
        ({"epsilons": (1.0, 2.0), "deltas": (0.1, 1.5)}, r"deltas = 1.5 must be"),
        ({"alpha": (1.0, 0.0)}, r"alpha = 0.0 must be"),
    ],
)
def test_numbers_outside_of_their_ranges_are_refused_when_a_run_is_declared(numbers, said):
    with pytest.raises(InputError, match=said):
        RunSpec("pvp", **numbers)


def test_requests_for_each_agent_and_by_density():
    spec = RunSpec("private-mr-admm")
    assert resolve.noise_request(replace(spec, alpha=(2.0,))) == Density((2.0,))
    assert resolve.noise_request(replace(spec, alpha=(2.0, 3.0), delta=1e-4)) == Density((2.0, 3.0), 1e-4)
    budgets = (Budget(1.0, 1e-5), Budget(2.0, 1e-5))
    assert resolve.noise_request(replace(spec, epsilons=(1.0, 2.0), delta=1e-5)) == TotalBudget(budgets)
    assert resolve.noise_request(replace(spec, epsilons=(1.0, 2.0), deltas=(1e-5,))) == TotalBudget(budgets)
    assert resolve.noise_request(replace(spec, epsilons=(1.0,), deltas=(1e-5,))) == TotalBudget(budgets[:1])
    apart = (Budget(1.0, 1e-5), Budget(2.0, 0.0))
    assert resolve.noise_request(replace(spec, epsilons=(1.0, 2.0), deltas=(1e-5, 0.0))) == TotalBudget(apart)
    assert resolve.noise_request(replace(spec, epsilons=(1.0, 2.0))) == TotalBudget(
        (Budget(1.0, 0.0), Budget(2.0, 0.0))
    )
    part = resolve.noise_request(replace(spec, epsilons=(1.0, 2.0), evaluation_epsilon=0.25))
    assert [budget.epsilon for budget in part.budgets] == pytest.approx([0.75, 1.75], rel=1e-14)
    assert all(budget.epsilon < rest for budget, rest in zip(part.budgets, (0.75, 1.75), strict=True))  # no ulp over
    assert TotalBudget(apart).delta == 0.0
    assert resolve.noise_request(RunSpec("admm", noise_multiplier=0.0)) == Multiplier(0.0)
    assert resolve.noise_request(RunSpec("admm", delta=1e-5)) == Multiplier(0.0)
    assert resolve.noise_request(replace(spec, noise_multiplier=0.0)) == Multiplier(0.0)
    assert resolve.noise_request(RunSpec("ps-admm-paper", epsilon=1.0, delta=1e-5)) == PaperNoise(Budget(1.0, 1e-5))


PRIVATE_GRAPH = RunSpec("private-r-admm")
CONFLICTS = {
    "epsilon and epsilons": ({"epsilon": 1.0, "epsilons": (1.0,)}, r"give an epsilon or an epsilons, not both"),
    "epsilon and alpha": ({"epsilon": 1.0, "alpha": (1.0,)}, r"give an epsilon or an alpha, not both: each follows"),
    "epsilons and alpha": ({"epsilons": (1.0,), "alpha": (1.0,)}, r"give an epsilons or an alpha, not both"),
    "epsilon and multiplier": (
        {"epsilon": 1.0, "noise_multiplier": 0.0},
        r"an epsilon or a noise multiplier, not both",
    ),
    "epsilons and multiplier": ({"epsilons": (1.0,), "noise_multiplier": 2.0}, r"epsilons or a noise multiplier, not"),
    "alpha and multiplier": (
        {"alpha": (1.0,), "noise_multiplier": 2.0},
        r"give an alpha or a noise multiplier, not both",
    ),
    "nothing": (
        {},
        r"'private-r-admm' is private: give a total budget \(epsilon, and delta unless the noise is pure\)",
    ),
    "deltas alone": ({"deltas": (1e-5,)}, r"is private: give a total budget"),
    "a delta of one": ({"epsilon": 1.0, "delta": 1.0}, r"delta = 1.0 must be 0 or"),
    "a delta below zero": ({"alpha": (1.0,), "delta": -0.5}, r"delta = -0.5 must be 0 or"),
    "a multiplier's delta": ({"noise_multiplier": 1.0, "delta": 2.0}, r"delta = 2.0 must be 0 or"),
    "one of the deltas": ({"epsilons": (1.0, 2.0), "deltas": (0.1, 1.5)}, r"deltas = 1.5 must be 0 or"),
    "one of the epsilons": ({"epsilons": (1.0, -2.0)}, r"epsilons = -2.0 must be a number"),
    "more deltas": ({"epsilons": (1.0,), "deltas": (0.1, 0.2)}, r"2 deltas for 1 epsilons: give one, or one for each"),
    "fewer deltas": ({"epsilons": (1.0,) * 3, "deltas": (0.1, 0.2)}, r"2 deltas for 3 epsilons: give one, or one for"),
    "deltas for one epsilon": ({"epsilon": 1.0, "deltas": (0.1, 0.2)}, r"2 deltas for 1 epsilons"),
    "alpha of zero": ({"alpha": (1.0, 0.0)}, r"alpha = 0.0 must be a number"),
    "alpha below zero": ({"alpha": (-1.0,)}, r"alpha = -1.0 must be a number"),
    "evaluation of alpha": ({"alpha": (1.0,), "evaluation_epsilon": 0.1}, r"evaluation_epsilon is a part of a total"),
    "evaluation of noise": ({"noise_multiplier": 1.0, "evaluation_epsilon": 0.1}, r"is a part of a total budget"),
    "evaluation of nothing": ({"evaluation_epsilon": 0.1}, r"is a part of a total budget; give one, as epsilon and"),
    "evaluation of a round": (
        {"epsilon": 1.0, "paper_noise": True, "evaluation_epsilon": 0.1},
        r"evaluation_epsilon is a part of a total budget",
    ),
    "evaluation of more": (
        {"epsilons": (3.0, 1.0), "evaluation_epsilon": 1.0},
        r"evaluation_epsilon 1.0: must be positive and below epsilon 1",
    ),
    "evaluation below zero": (
        {"epsilon": 1.0, "evaluation_epsilon": -0.1},
        r"evaluation_epsilon = -0.1 must be a number",
    ),
    "paper noise of alpha": (
        {"alpha": (1.0,), "paper_noise": True},
        r"paper_noise .* goes with epsilon and delta only",
    ),
    "paper noise of noise": ({"noise_multiplier": 1.0, "paper_noise": True}, r"paper_noise makes noise of an epsilon"),
    "paper noise of nothing": ({"paper_noise": True}, r"paper_noise makes noise of an epsilon for every round"),
    "paper noise of each": (
        {"epsilons": (1.0, 2.0), "paper_noise": True},
        r"the papers' noise is the same for all agents; give one epsilon and one delta",
    ),
}


@pytest.mark.parametrize(("changes", "said"), CONFLICTS.values(), ids=CONFLICTS)
def test_requests_for_noise_that_contradict_themselves_are_refused(changes, said):
    with pytest.raises(InputError, match=said):
        resolve.noise_request(replace(PRIVATE_GRAPH, **changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epsilon": 1.0}, r"'r-admm' is not private, so epsilon 1 means nothing to it; leave the budget out"),
        ({"epsilons": (1.0, 2.0)}, r"'r-admm' is not private, so epsilons \(1.0, 2.0\) means nothing"),
        ({"alpha": (2.0,)}, r"'r-admm' is not private, so alpha \(2.0,\) means nothing"),
        ({"noise_multiplier": 2.5}, r"'r-admm' is not private, so noise multiplier 2.5 means nothing"),
        ({"paper_noise": True, "epsilon": 1.0}, r"paper_noise makes noise"),
        ({"evaluation_epsilon": 0.1}, r"evaluation_epsilon is a part of a total budget"),
    ],
)
def test_a_recipe_that_is_not_private_takes_no_noise(changes, said):
    with pytest.raises(InputError, match=said):
        resolve.noise_request(replace(RunSpec("r-admm"), **changes))


def test_a_recipe_as_printed_takes_one_budget_and_no_evaluation():
    printed = RunSpec("ps-admm-paper", epsilon=1.0, delta=1e-5)
    with pytest.raises(InputError, match="evaluation_epsilon is a part of a total budget"):
        resolve.noise_request(replace(printed, evaluation_epsilon=0.1))
    with pytest.raises(InputError, match="the papers' noise is the same for all agents"):
        resolve.noise_request(replace(printed, epsilon=None, epsilons=(1.0, 2.0)))


def test_one_delta_or_several_not_both():
    with pytest.raises(InputError, match="give one delta for all agents or deltas for each, not both"):
        resolve.noise_request(RunSpec(epsilons=(1.0, 2.0), deltas=(1e-5, 1e-6), delta=1e-5))
