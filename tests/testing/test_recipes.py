"""`check_recipe` passes every recipe of the library, and refuses the mistakes that are planted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from outside_losses import Outside, OutsideBinary

from dpadmm.admm.algorithm import Algorithm, Phase
from dpadmm.admm.perturbations import Gradient, Unperturbed
from dpadmm.admm.perturbations.base import Release
from dpadmm.admm.setting import Multiplier, Noise
from dpadmm.admm.solvers import Linearised
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import NoOpDpEvent
from dpadmm.privacy.mechanisms import Gaussian
from dpadmm.problems.losses import Quantile
from dpadmm.testing import ContractError, check_recipe
from dpadmm.testing.privacy import check_budget
from dpadmm.testing.runs import small_run

DP_ADMM = ALGORITHMS["dp-admm"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_recipe_of_the_library_passes(name: str) -> None:
    recipe = ALGORITHMS[name]
    report = check_recipe(recipe)
    spent = report.measured.get("epsilon by its account")
    assert (spent is not None) == recipe.private
    assert ("audit" in report.promises) == ("twin" in report.promises) == recipe.private
    if recipe.private and not recipe.as_printed:
        assert report.measured["epsilon that an attack proves"] <= spent <= 2.0
        assert spent > 1.99
    best = report.measured.get("objective at the pooled optimum")
    if best is not None:
        began, end = (report.measured[f"objective {when}"] for when in ("at zero", "after 60 rounds without noise"))
        assert (began - end) / (began - best) > 0.7


@pytest.mark.parametrize("loss", [Outside(), OutsideBinary()], ids=["regression", "binary"])
def test_a_recipe_passes_with_a_loss_from_outside(loss: Outside) -> None:
    assert "audit" in check_recipe(DP_ADMM, loss=loss).promises


def own(name: str = "own", *perturbations: Any, **changes: Any) -> Algorithm:
    """A recipe like dp-admm with these perturbations in turn."""
    phases = tuple(Phase(Linearised(), each) for each in perturbations) or DP_ADMM.phases
    return replace(DP_ADMM, **{"name": name, "phases": phases, **changes})


def test_a_recipe_of_ones_own_passes() -> None:
    twin = replace(ALGORITHMS["linearised-admm"], name="own-twin")
    recipe = own("own", Gradient("laplace"), twin="own-twin")
    with pytest.raises(ContractError, match="no recipe of the library has the name 'own-twin'"):
        check_recipe(recipe)
    report = check_recipe(recipe, twin=twin)
    assert {"budget", "noise and events", "twin", "audit", "progress"} <= set(report.promises)


@dataclass(frozen=True)
class Claims(Gradient):
    """Names the event, and adds nothing."""

    def release(self, task: Any) -> Any:
        answer, memory = task.solve()
        return Release(answer, task.noise.events), memory


@dataclass(frozen=True)
class SomeNumbers(Gradient):
    """The first number of a release has no noise."""

    def release(self, task: Any) -> Any:
        release, memory = super().release(task)
        value = release.value.copy()
        value[:, 0] = task.solve()[0][:, 0]
        return replace(release, value=value), memory


@dataclass(frozen=True)
class Half(Gradient):
    """Half the noise, and the event of all of it."""

    def release(self, task: Any) -> Any:
        noise = replace(task.noise, mechanism=Gaussian(0.5 * task.noise.mechanism.noise_multiplier))
        return super().release(replace(task, noise=noise))


@dataclass(frozen=True)
class ForNothing(Gradient):
    """Noise, and an event that says that nothing was released."""

    def calibrate(self, setting: Any, solver: Any, request: Any, kappas: Any = None) -> Noise:
        noise = super().calibrate(setting, solver, request, kappas)
        return replace(noise, events=(NoOpDpEvent(),) * setting.agents)


@dataclass(frozen=True)
class OtherEvents(Gradient):
    """The release says less than the plan."""

    def release(self, task: Any) -> Any:
        release, memory = super().release(task)
        return replace(release, events=(NoOpDpEvent(),) * len(release.events)), memory


@dataclass(frozen=True)
class ByPlace(Linearised):
    """An agent's answer depends on its place in the batch."""

    def solve(self, subproblem: Any, oracle: Any, memory: Any, eta: Any, emit: Any) -> Any:
        answer, memory = super().solve(subproblem, oracle, memory, eta, emit)
        return answer * (1.0 + 1e-12 * np.arange(len(answer)))[:, None], memory


@dataclass(frozen=True)
class Uphill(Linearised):
    """The wrong way along the gradient."""

    def solve(self, subproblem: Any, oracle: Any, memory: Any, eta: Any, emit: Any) -> Any:
        return super().solve(subproblem, lambda point: -oracle(point), memory, eta, emit)


CALLS: list[int] = []


@dataclass(frozen=True)
class Remembers(Linearised):
    """State outside the run."""

    def solve(self, subproblem: Any, oracle: Any, memory: Any, eta: Any, emit: Any) -> Any:
        CALLS.append(1)
        answer, memory = super().solve(subproblem, oracle, memory, eta, emit)
        return answer * (1.0 + 1e-9 * len(CALLS)), memory


LAST: list[Any] = [None]


@dataclass(frozen=True)
class WarmOutside(Linearised):
    """What it knows of the last round is kept beside the arrays of a checkpoint."""

    def solve(self, subproblem: Any, oracle: Any, memory: Any, eta: Any, emit: Any) -> Any:
        warm = LAST[0] is memory.point
        answer, memory = super().solve(subproblem, oracle, memory, eta, emit)
        LAST[0] = memory.point
        return answer * (1.0 + 1e-9 * warm), memory


def solving(solver: Any, perturbation: Any) -> Algorithm:
    return replace(DP_ADMM, phases=(Phase(solver, perturbation),), twin=None)


MISTAKES = {
    "claims an event without noise": (
        own("own", Claims()),
        "every release that reads records has noise",
        r"in round 1 .*agent 0's release is .* whatever the random bits are",
    ),
    "a number without noise": (
        own("own", SomeNumbers()),
        "every release that reads records has noise",
        r"number 0 of agent 0's",
    ),
    "a phase without noise": (
        own("own", Gradient(), Claims()),
        "every release that reads records has noise",
        r"in round 2 \(perturbation 'gradient'\)",
    ),
    "an unperturbed phase": (
        own("own", Gradient(), Unperturbed()),
        "every phase is private, or none is",
        r"perturbation 'none' releases without noise",
    ),
    "half the noise": (
        own("own", Half()),
        "an audit does not refute its epsilon",
        r"says epsilon 2 at delta 1e-05, and an attack on 4,000 transcripts proves at least [2-4]\.",
    ),
    "an event for nothing": (
        own("own", Gradient(), ForNothing()),
        "every release that reads records has a price",
        r"round 2, and the event is NoOpDpEvent",
    ),
    "other events": (own("own", OtherEvents()), "releases cost what was planned", r"names the event NoOpDpEvent"),
    "another twin": (own("own", Gradient(), twin="admm"), "without noise it is its twin", r"differs from 'admm'"),
    "a private twin": (own("own", Gradient(), twin="dp-admm"), "its twin has no noise", r"'dp-admm' is private"),
    "position": (
        solving(ByPlace(), Unperturbed()),
        "an agent alone equals itself in a batch",
        r"agent 1 of 4 differs in round 1",
    ),
    "uphill": (solving(Uphill(), Unperturbed()), "it lowers the objective", r"after 60 rounds without noise"),
    "state outside": (solving(Remembers(), Unperturbed()), "one seed gives one run", r"two runs of one seed differ"),
    "lost memory": (
        solving(WarmOutside(), Unperturbed()),
        "a resumed run equals the uninterrupted one",
        r"goes on after round 1",
    ),
    "more than its budget": (own("own", Gradient(), Gradient()), "it plans", r"the run would cost epsilon 2\.9"),
    "no name of a paper": (own("own", paper=""), "paper is declared", r"it is empty"),
    "no phases": (own("own", phases=()), "it has phases", r"there are none"),
}


@pytest.mark.parametrize(("recipe", "promise", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_found_and_named(recipe: Algorithm, promise: str, said: str) -> None:
    with pytest.raises(ContractError, match=said) as caught:
        check_recipe(recipe)
    assert caught.value.promise == promise
    assert caught.value.part == f"recipe {recipe.name!r}"


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_half_the_noise_is_refuted_at_other_budgets_and_the_sound_one_is_not(epsilon: float) -> None:
    with pytest.raises(ContractError, match="proves at least"):
        check_recipe(own("own", Half()), epsilon=epsilon)
    assert check_recipe(own("own", Gradient()), epsilon=epsilon).measured["epsilon that an attack proves"] < epsilon


def test_the_audit_can_be_left_out() -> None:
    assert "audit" not in check_recipe(own("own", Half()), transcripts=0).promises


def test_a_loss_that_a_recipe_refuses_is_said() -> None:
    with pytest.raises(ContractError, match=r"with loss 'quantile' .* its check says: ") as caught:
        check_recipe(ALGORITHMS["dvp"], loss=Quantile())
    assert caught.value.promise == "it accepts a small problem"


def test_a_plan_that_exceeds_its_budget_is_refused() -> None:
    """The planner refuses first, in words of its own; the check compares the account once more."""
    run = small_run(DP_ADMM, None, 4)
    with pytest.raises(ContractError, match=r"costs epsilon .* and the budget is 1\."):
        check_budget(run, run.plan(Multiplier(0.5)), Budget(1.0, 1e-5))
