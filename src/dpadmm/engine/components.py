"""Rows in principal components that were found privately: one release of second moments, then everything else.

Every agent releases its matrix of second moments once, with noise (recipe `private-components`); the eigenvectors of
their mean are post-processing. Rows are turned onto the first few of them, which makes no row longer. Both costs are in
one account. In a run that is not private the matrix has no noise, and in no other.

Models are handed back in the coordinates that rows came in, so that predictions and coefficient functions know nothing
of components.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpadmm.admm.algorithm import Plan
from dpadmm.admm.noise import TotalBudget
from dpadmm.engine.loop import Cohort, State, rounds, start
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.randomness import Seeded, derived
from dpadmm.problems.components import Components, Rule, components
from dpadmm.problems.losses import STATISTICS
from dpadmm.problems.losses.second_moment import unpack
from dpadmm.problems.shards import FloatArray, Shards
from dpadmm.spec import RunSpec

_ROUNDING = 1.0 - 1e-9  # of a part of a budget: the parts together must not exceed the whole in the last digit


@dataclass(frozen=True, eq=False)
class Stage:
    """What comes before the rounds: the plan of the one release, and what is left for the rest."""

    rule: Rule
    plan: Plan
    rest: RunSpec
    budgets: tuple[Budget, ...]  # of both together, for every agent or for all; empty: not private
    classes: int
    intercept: bool

    @classmethod
    def of(cls, run: RunSpec, whole: Plan, width: int, classes: int) -> Stage:
        """For a run with components whose plan without them is `whole`; `width` is that of rows, with the intercept."""
        assert run.components is not None
        rule, columns = Rule.parse(run.components), width - run.intercept
        rule.check(columns)
        if whole.setting.problem.loss.name in STATISTICS:
            raise InputError(f"algorithm {run.algorithm!r} finds second moments itself; leave components out.")
        if not 0.0 < run.components_share < 1.0:
            raise InputError(f"components_share {run.components_share:g}: must lie between 0 and 1, such as 0.1.")
        if run.evaluation_epsilon is not None:
            raise InputError("components and evaluation_epsilon both take a part of the budget; give one of the two.")
        request, rest = run.request(), replace(run, components=None)
        first = RunSpec(
            "private-components" if whole.algorithm.private else "components",
            rounds=1, penalty="none", strength=0.0, relation=run.relation, norm_bound=run.norm_bound,
            precision=run.precision, weighting=run.weighting,
        )  # fmt: skip
        budgets: tuple[Budget, ...] = ()
        if whole.algorithm.private:
            if not isinstance(request, TotalBudget):
                raise InputError("private components take a share of a total budget; give one, as epsilon and delta.")
            budgets = request.budgets
            exact = whole.accounts(whole.setting.rounds).worst(request.delta).accountant == "exact"
            parts = [_parts(budget, run.components_share, exact) for budget in budgets]
            first, rest = _asking(first, [part[0] for part in parts]), _asking(rest, [part[1] for part in parts])
        return cls(rule, first.plan(whole.setting.counts, columns, classes), rest, budgets, classes, run.intercept)

    def find(self, shards: Shards, seed: int, run: int) -> Components:
        """One release of every agent, and what follows from all of them."""
        rows = replace(shards, features=shards.features[:, :-1]) if self.intercept else shards
        rows = replace(rows, norm_bound=self.plan.setting.norm_bound)
        cohort = Cohort.of(self.plan, rows, range(run, run + 1), Seeded(derived(seed, "components")))
        (state,) = rounds(cohort, start(cohort))
        return components(unpack(-state.common)[0], self.deviation, self.rule)

    @property
    def deviation(self) -> float:
        """Of an entry off the diagonal of the mean of all agents' matrices; on the diagonal it is sqrt(2) times that.

        Packed, entries off the diagonal stand sqrt(2) times as large, and all numbers have the same noise.
        """
        noise, setting = self.plan.noise[0], self.plan.setting
        packed = noise.mechanism.noise_multiplier * setting.gradient_sensitivity()
        return float(np.sqrt((packed**2).sum() / 2.0)) / setting.agents

    def planned(self, width: int) -> Plan:
        """The plan of the rest, for rows of so many columns and with what was released before."""
        plan = self.rest.plan(self.plan.setting.counts, width, self.classes)
        plan = replace(plan, before=self.plan.events(1))
        if self.budgets:
            plan.check_budget(TotalBudget(self.budgets).of_each(plan.setting.agents))
        return plan


def turned(shards: Shards, rotation: FloatArray, intercept: bool) -> Shards:
    """The same records in other coordinates; a column of ones stays what it is."""
    if not intercept:
        return replace(shards, features=np.ascontiguousarray(shards.features @ rotation, dtype=shards.precision))
    ones = np.ones((shards.features.shape[0], 1), dtype=shards.precision)
    features = np.hstack([shards.features[:, :-1] @ rotation, ones])
    return replace(shards, features=np.ascontiguousarray(features, dtype=shards.precision))


def lifted(models: FloatArray, rotation: FloatArray, intercept: bool) -> FloatArray:
    """Models (runs, D) in the coordinates that rows had before they were turned."""
    width = rotation.shape[1] + intercept
    columns = models.reshape(len(models), width, -1)
    slopes = np.einsum("pk,rkl->rpl", rotation, columns[:, : rotation.shape[1]])
    return np.concatenate([slopes, columns[:, rotation.shape[1] :]], axis=1).reshape(len(models), -1)


def lifted_state(state: State, rotation: FloatArray | None, intercept: bool) -> State:
    """What is kept of a run's end; without a rotation, as it is."""
    if rotation is None:
        return state
    return replace(
        state,
        common=lifted(state.common, rotation, intercept),
        mean_common=lifted(state.mean_common, rotation, intercept),
    )


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
