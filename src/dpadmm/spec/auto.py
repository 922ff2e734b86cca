"""`algorithm = "auto"`: recipe, loss, rounds, step and the rest from public facts alone (docs/auto.md).

The facts are the number of agents, records of each, columns, classes, budget and topology. What they come to is one
number: how far the noise of a single gradient step at the whole budget would lead, beside a record's longest gradient,

    nu = sqrt(columns) sigma / G.

Everything is a function of nu and of the kind of target. What the constants cost on simulated problems is shown by
benchmarks/auto_rule.py; a run looks at no record for them. What a spec says itself is left as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpadmm._arrays import IntArray
from dpadmm.admm.setting import NoiseLevel, Setting, TotalBudget
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.events import Relation
from dpadmm.privacy.mechanisms import Gaussian
from dpadmm.problems.losses import Loss
from dpadmm.problems.problem import Problem
from dpadmm.spec import resolve
from dpadmm.spec.declare import RunSpec
from dpadmm.spec.resolve import NOISE_FIELDS, requested

STAR, GRAPH = "dp-accelerated", "pvp-graph"

ROUNDS, PURE_ROUNDS = 100, 5  # pure noise adds up round by round, and so pays for fewer
GRAPH_ROUNDS = 20
MOMENTUM = 0.8
QUIET = 0.02  # the nu from which rows are standardised for a larger share


@dataclass(frozen=True)
class Kind:
    """What differs between classes and numbers."""

    travel: float  # of the step's horizon: how much noise a score may collect; numbers are at most 1, scores are not
    loudest: float  # the nu from which means and squares would be mostly noise


CLASSES, NUMBERS = Kind(travel=0.5, loudest=1.0), Kind(travel=0.05, loudest=0.06)


@dataclass(frozen=True)
class Facts:
    """What is known of the records without looking at their values."""

    counts: IntArray
    width: int  # with the intercept
    classes: int  # 0: targets are numbers
    plain: bool  # dense rows in memory, which can be standardised


def check(run: RunSpec) -> Loss | None:
    """Raises an `InputError` for what can be seen to be wrong before records are there.

    Returns:
        The loss, if it does not depend on the records' targets.
    """
    draft = _with_recipe(run)
    _budget(draft)
    found = resolve.problem(draft)  # with the recipe's own loss, where targets are to say which
    return None if draft.loss is None else found.loss


def choose(run: RunSpec, facts: Facts) -> tuple[RunSpec, tuple[str, ...]]:
    """The spec with recipe, loss and all of its numbers, and why."""
    run = _with_loss(_with_recipe(run), facts.classes)
    if run.mechanism is None and not (run.delta or run.deltas):
        run = replace(run, mechanism="laplace")  # the pure noise that real owners can add
    loss = resolve.loss(run)
    nu, gaussian = _noise(run, loss, facts)
    kind = CLASSES if facts.classes else NUMBERS
    can = facts.plain and run.set == "whole" and not run.non_crossing
    alone = run.components is None and run.evaluation_epsilon is None  # of what takes a share of the budget
    if run.standardise is None and can and alone and nu < kind.loudest:
        run = replace(run, standardise=_share(nu, gaussian))
    elif run.standardise == 0.0:
        run = replace(run, standardise=None)
    rows = "as they are"
    if run.standardise is not None:
        rows = f"standardised by means and squares at {run.standardise:.0%} of the budget"
    chosen = _steps(run, loss, facts, kind, gaussian) if run.topology is None else _minimisers(run, nu, gaussian)
    return chosen, (
        f"{chosen.algorithm}, {chosen.rounds} rounds, for {facts.counts.size} agent(s) "
        + ("and a server" if run.topology is None else f"on {run.topology}"),
        f"loss {resolve.loss_text(chosen)}: noise scales with the largest gradient norm that a record can have",
        f"rows {rows}: the noise of one step at the whole budget is {nu:.2g} of a record's gradient",
    )


def with_intercept(run: RunSpec) -> bool:
    """Whether rows get a column of ones: unless the spec says otherwise."""
    return True if run.intercept is None else run.intercept


def _with_recipe(run: RunSpec) -> RunSpec:
    recipe = STAR if run.topology is None else GRAPH
    loss = run.loss or ("smoothed-quantile" if len(run.tau) == 1 else "quantiles" if run.tau else None)
    return replace(run, algorithm=recipe, loss=loss, intercept=with_intercept(run))


def _with_loss(run: RunSpec, classes: int) -> RunSpec:
    """With a loss for targets of this kind, if none is named."""
    if run.loss is not None:
        return run
    if classes == 0:
        return replace(run, loss="squared:0.1")
    plain = "logistic" if classes == 2 else "softmax"
    # Where the cap begins the second derivative jumps, and Newton's method, which graphs need, takes many more steps.
    return replace(run, loss=f"capped-{plain}" if run.topology is None else plain)


def _share(nu: float, gaussian: bool) -> float:
    """Of the budget, for standardising rows: of mu² where noise is Gaussian, of epsilon where it is pure."""
    if not gaussian:
        return 0.25
    return 0.1 if nu < QUIET else 0.2


def _steps(run: RunSpec, loss: Loss, facts: Facts, kind: Kind, gaussian: bool) -> RunSpec:
    """Gradient steps, as long as the noise allows. Rows as they are may all point the same way; the curvature of
    standardised ones is spread over the columns."""
    momentum = MOMENTUM if run.momentum is None else run.momentum
    bend = loss.curvature_bound(1.0) or 1.0  # a kink has none: steps as of a square
    longest = facts.width / bend if run.standardise else 1.0 / (bend * run.row_bound**2)
    return replace(
        run,
        rounds=run.rounds or (ROUNDS if gaussian else PURE_ROUNDS),
        momentum=momentum,
        schedule=run.schedule or f"horizon:{kind.travel}:{longest / (1.0 - momentum):.6g}",
    )


def _minimisers(run: RunSpec, nu: float, gaussian: bool) -> RunSpec:
    """On a graph: exact minimisers, held together more firmly where noise is louder."""
    rounds = run.rounds or (GRAPH_ROUNDS if gaussian else PURE_ROUNDS)
    return replace(run, rounds=rounds, rho=run.rho or (min(1.0, nu) if run.rho_schedule is None else None))


def _noise(run: RunSpec, loss: Loss, facts: Facts) -> tuple[float, bool]:
    """nu, and whether it is Gaussian: of one step of a star, whatever the run's own recipe has of parts."""
    star = ALGORITHMS[STAR] if run.mechanism is None else ALGORITHMS[STAR].tuned(mechanism=run.mechanism)
    setting = Setting(
        problem=Problem(loss, records=int(facts.counts.sum()) if run.weighting == "records" else None),
        counts=facts.counts,
        dimension=loss.dimension(facts.width, facts.classes),
        norm_bound=run.row_bound,
        relation=Relation.parse(run.relation),
        rounds=1,
        width=facts.width,
    )
    star.check(setting)
    step = star.phases[0]
    noise = step.perturbation.calibrate(setting, step.solver, _budget(run))
    level = NoiseLevel(step.perturbation.gradient_noise(setting, noise), math.inf)
    nu = math.sqrt(facts.width) * level.together / float(setting.gradient_bound.mean())
    return nu, isinstance(noise.mechanism, Gaussian)


def _budget(run: RunSpec) -> TotalBudget:
    """The total budget of a run whose recipe is chosen."""
    request = requested(resolve.named_recipe(run), **{name: getattr(run, name) for name in NOISE_FIELDS})
    if not isinstance(request, TotalBudget):
        raise InputError("algorithm 'auto' chooses for a total budget; give one, as epsilon and delta.")
    return request
