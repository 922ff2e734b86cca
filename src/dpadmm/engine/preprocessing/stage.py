"""What is released before the rounds, so that they can run on better rows; everything is paid from one account.

Every agent releases one statistic of its rows, with noise. What follows from the mean of all of them is post-processing
and public: principal components that rows are turned onto (`components`), or centres and scales that they are
standardised by (`standard`). Neither makes a row longer than the rest of the run expects. In a run that is not private
the statistic has no noise, and in no other.

Models are handed back in the coordinates that rows came in, so that predictions and coefficient functions know nothing
of all this.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.setting import TotalBudget
from dpadmm.admm.state import State
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import Executor, InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.preprocessing.components import Rule, components
from dpadmm.engine.preprocessing.standardise import BOUND, standard
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.randomness import derived
from dpadmm.problems.losses import STATISTICS
from dpadmm.problems.losses.statistics import MeanAndProducts, unpack
from dpadmm.problems.rows import RowRules
from dpadmm.problems.shards import Shards
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec import resolve
from dpadmm.spec.declare import RunSpec
from dpadmm.spec.resolve import ResolvedRun

_ROUNDING = 1.0 - 1e-9  # of a part of a budget: the parts together must not exceed the whole in the last digit


class View(Protocol):
    """How rows are seen after the release, and models before it. `intercept` says whether rows end in a one."""

    def rows(self, shards: Shards, intercept: bool) -> Shards:
        """The records that the rounds run on."""

    def shown(self, shards: Shards, intercept: bool) -> Shards:
        """Records that models of the rounds are tried on: so that they say what models handed back would say."""

    def models(self, models: FloatArray, intercept: bool) -> FloatArray:
        """Models (rows) in the coordinates that records came in."""


@dataclass(frozen=True, eq=False)
class Stage:
    """The one release, and what is left for the rest."""

    purpose: str  # what its noise is keyed by in simulations
    first: RunSpec
    plan: Plan  # of the release
    rest: ResolvedRun  # with the recipe of the whole run
    budgets: tuple[Budget, ...]  # of both together, for every agent or for all; empty: not private
    classes: int
    intercept: bool
    view: Callable[[FloatArray, float], View]  # of what was released, and how far off noise has put each number

    @classmethod
    def of(cls, declared: ResolvedRun, whole: Plan, width: int, classes: int) -> Stage:
        """For a run with a stage whose plan without it is `whole`; `width` is that of rows, with the intercept."""
        run = declared.run
        if whole.setting.problem.loss.name in STATISTICS:
            raise InputError(
                f"algorithm {run.algorithm!r} releases a statistic itself; leave components and standardise out."
            )
        if (run.components is not None) + (run.standardise is not None) + (run.evaluation_epsilon is not None) > 1:
            raise InputError(
                "components, standardise and evaluation_epsilon each take a part of the budget; give one of them."
            )
        if any(run.start):
            raise InputError("a start is in the coordinates that rows come in; leave components and standardise out.")
        columns = width - bool(run.intercept)
        if run.standardise is None:
            purpose, draft, name, share = "components", _components, "components_share", run.components_share
        else:
            purpose, draft, name, share = "standardise", _standardise, "standardise", run.standardise
        if not 0.0 < share < 1.0:
            raise InputError(f"{name} {share:g}: must lie between 0 and 1, such as 0.1.")
        first, rest, view = draft(run, whole, columns)
        budgets: tuple[Budget, ...] = ()
        if whole.algorithm.private:
            request = declared.noise
            if not isinstance(request, TotalBudget):
                raise InputError(f"private {purpose} takes a share of a total budget; give one, as epsilon and delta.")
            budgets = request.budgets
            exact = whole.accounts(whole.setting.rounds).worst(request.delta).accountant == "exact"
            parts = [_parts(budget, share, exact) for budget in budgets]
            first, rest = _asking(first, [part[0] for part in parts]), _asking(rest, [part[1] for part in parts])
        plan = resolve.plan(first, whole.setting.counts, columns, classes)
        # The same parts; only budget and rows are others.
        noise = TotalBudget(tuple(part[1] for part in parts)) if budgets else declared.noise
        others = replace(declared, run=rest, noise=noise)
        return cls(purpose, first, plan, others, budgets, classes, bool(run.intercept), view)

    def records(self, shards: Shards) -> Shards:
        """The rows as the release reads them: without the intercept's one."""
        if not self.intercept:
            return shards
        bound = self.plan.setting.norm_bound
        return shards.encoded(shards.real_rows[:, :-1], RowRules(bound), bound)

    def find(self, shards: Shards, seed: int, run: int, executor: Executor | None = None) -> View:
        """One release of every agent, and the view that follows; an executor has the agents, or they are simulated."""
        randomness = SeededRandomness(derived(seed, self.purpose))
        cohort = Cohort.of(self.plan, self.records(shards), range(run, run + 1), randomness)
        (state,) = rounds(cohort, SimulationState.of(cohort), executor or InProcessExecutor())
        return self.view(-state.shared.model, self.deviation)

    @property
    def deviation(self) -> float:
        """Of each number in the mean of all agents' releases."""
        return self.plan.level.together

    def planned(self, width: int) -> Plan:
        """The plan of the rest, for rows of so many columns and with what was released before."""
        plan = self.rest.plan(self.plan.setting.counts, width, self.classes)
        plan = replace(plan, before=self.plan.events(1))
        if self.budgets:
            plan.check_budget(TotalBudget(self.budgets).of_each(plan.setting.agents))
        return plan


def lifted_state(state: State, view: View, intercept: bool) -> State:
    """What is kept of a run's end: models in the coordinates that records came in."""
    return replace(
        state,
        model=view.models(state.model, intercept),
        mean_model=view.models(state.mean_model, intercept),
    )


Draft = tuple[RunSpec, RunSpec, Callable[[FloatArray, float], View]]
"""The release, the rest and the view, before the budget is shared."""


def _components(run: RunSpec, whole: Plan, columns: int) -> Draft:
    assert run.components is not None
    rule = Rule.parse(run.components)
    rule.check(columns)

    if run.centred:
        return _covariance(run, whole, columns, rule)

    def onto_components(released: FloatArray, deviation: float) -> View:
        # Packed, entries off the diagonal stand sqrt(2) times as large, and all numbers have the same noise.
        return components(unpack(released)[0], deviation / math.sqrt(2.0), rule)

    return _release(run, whole, "components"), replace(run, components=None), onto_components


def _covariance(run: RunSpec, whole: Plan, columns: int, rule: Rule) -> Draft:
    if not run.intercept:
        raise InputError("centred components need an intercept, which takes the mean of the rows up; set intercept.")
    scale = run.clip

    def onto_centred_components(released: FloatArray, deviation: float) -> View:
        mean, products = released[0, :columns] / scale, unpack(released[:, columns:])[0]
        return components(products, deviation / math.sqrt(2.0), rule, mean)

    rest = replace(run, components=None, centred=False)
    return _release(run, whole, "covariance", f"{MeanAndProducts.name}:{scale!r}"), rest, onto_centred_components


def _standardise(run: RunSpec, whole: Plan, columns: int) -> Draft:
    if run.set != "whole" or run.non_crossing:
        raise InputError("standardised rows have other coordinates than the set speaks of; leave standardise out.")
    bound, intercept = run.clip, bool(run.intercept)
    classes = whole.setting.problem.loss.task != "regression"

    def standardised(released: FloatArray, deviation: float) -> View:
        return standard(released[0], deviation, bound, intercept, tight=classes)

    # Its rows bring a constant column of their own, and a bound.
    rest = replace(run, standardise=None, intercept=False, norm_bound=BOUND)
    return _release(run, whole, "column-moments", f"column-moments:{bound!r}"), rest, standardised


def _release(run: RunSpec, whole: Plan, statistic: str, loss: str | None = None) -> RunSpec:
    """The terms of one round of a statistic's recipe, on the same rows as the run's."""
    pure = whole.algorithm.private and not (run.delta or run.deltas)
    return RunSpec(
        f"private-{statistic}" if whole.algorithm.private else statistic,
        loss=loss, rounds=1, penalty="none", strength=0.0, relation=run.relation, norm_bound=run.norm_bound,
        weighting=run.weighting, mechanism="laplace" if pure else None,
    )  # fmt: skip


def _parts(budget: Budget, share: float, exact: bool) -> tuple[Budget, Budget]:
    """A budget in two. Gaussian releases add up by mu², so that is what is shared, and both parts have the whole delta;
    otherwise epsilon and delta are."""
    if not exact:
        first = Budget(share * budget.epsilon, share * budget.delta)
        return first, Budget(budget.epsilon * (1.0 - share) * _ROUNDING, budget.delta * (1.0 - share) * _ROUNDING)
    mu = gaussian.mu(budget.epsilon, budget.delta) * _ROUNDING
    shares = (math.sqrt(share), math.sqrt(1.0 - share))
    found = [Budget(gaussian.epsilon(part * mu, budget.delta), budget.delta) for part in shares]
    return found[0], found[1]


def _asking(run: RunSpec, budgets: list[Budget]) -> RunSpec:
    """The same run with these budgets."""
    epsilons, deltas = (tuple(getattr(budget, name) for budget in budgets) for name in ("epsilon", "delta"))
    return replace(run, epsilon=None, delta=None, epsilons=epsilons, deltas=deltas)
