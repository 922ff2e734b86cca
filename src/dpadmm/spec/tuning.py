"""Mini-batches and inner steps chosen for the least noise at a total budget, from public facts alone.

The mean of K S noisy gradient steps of the size that `averaged` takes is off by no more than

    c_w sqrt((D sigma² + spread²) / (K S)) + c_w² (L + rho) / (2 K S),

noise (privacy's, and that of drawing records) plus the way that so many steps have not yet gone. By noise alone a
single step would do as well as any number: more steps need louder noise each, and average it away again. So both count,
for the agent that has most of it. Choices within 2 % of the best are as good as it, and of them the one is taken that
reads the fewest records.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dpadmm._arrays import IntArray
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.setting import TotalBudget
from dpadmm.admm.solvers import Sgd, Svrg
from dpadmm.errors import InputError
from dpadmm.spec.resolve import ResolvedRun

BATCHES = (0.01, 0.03, 0.1, 0.3)
UPDATES = (3, 10, 30, 100)
AS_GOOD = 1.02


@dataclass(frozen=True)
class Choice:
    """One pair, and what it comes to."""

    batch: float
    updates: int
    sigma: float  # standard deviation of a step's noise, in units of a record's longest gradient
    noise: float  # what privacy's noise and the drawing leave of error
    way: float  # and what too few steps leave
    records: int  # that all agents together read in a round
    chosen: bool = False

    @property
    def error(self) -> float:
        return self.noise + self.way

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def choose(asked: ResolvedRun, counts: IntArray, width: int, classes: int) -> tuple[ResolvedRun, tuple[Choice, ...]]:
    """The run with its mini-batches and inner steps filled in, and all that was looked at.

    What the spec names itself is left as it is.
    """
    run = asked.run
    solver = asked.recipe.phases[0].solver
    if not isinstance(solver, Sgd) or (isinstance(solver, Svrg) and solver.sampling != "poisson"):
        raise InputError(
            f"algorithm {run.algorithm!r} has no mini-batches whose size could be chosen; auto is for 'ps-admm' and "
            f"its kin."
        )
    if not (asked.recipe.private and isinstance(asked.noise, TotalBudget)):
        raise InputError("choosing mini-batches for the least noise needs a total budget: epsilon and delta.")
    batches = BATCHES if run.batch is None else (run.batch,)
    updates = UPDATES if run.updates is None else (run.updates,)
    found = [
        _looked_at(asked.tuned(batch=batch, updates=steps), counts, width, classes)
        for batch in batches
        for steps in updates
    ]
    least = min(choice.error for choice in found)
    good = [choice for choice in found if choice.error <= AS_GOOD * least]
    taken = min(good, key=lambda choice: (choice.records, choice.error))
    table = tuple(replace(choice, chosen=choice is taken) for choice in found)
    return asked.tuned(batch=taken.batch, updates=taken.updates), table


def _looked_at(candidate: ResolvedRun, counts: IntArray, width: int, classes: int) -> Choice:
    plan = candidate.plan(counts, width, classes)
    setting, solver = plan.local, plan.algorithm.phases[0].solver
    assert isinstance(solver, Sgd)
    assert plan.level.spread is not None
    steps = setting.rounds * solver.steps
    second = setting.dimension * plan.level.sigma**2 + plan.level.spread**2
    noise = setting.radius * np.sqrt(second / steps)
    bend = np.zeros(setting.agents) if setting.smoothness is None else setting.smoothness
    way = setting.radius**2 * (bend + float(plan.rho(1))) / (2.0 * steps)
    worst = int(np.argmax(noise + way))
    share = setting.weights * counts * setting.problem.loss.gradient_bound(setting.norm_bound)
    return Choice(
        batch=solver.batch,
        updates=solver.updates,
        sigma=float((plan.level.sigma / share)[worst]),
        noise=float(noise[worst]),
        way=float(way[worst]),
        records=_read(plan, solver),
    )


def _read(plan: Plan, solver: Sgd) -> int:
    """Records that a round reads, in the mean: an anchor reads all of them, and replaces one mini-batch."""
    counts = plan.setting.counts
    drawn = float((solver.rates(counts) * counts).sum())
    if isinstance(solver, Svrg):
        return round(float(counts.sum()) + (solver.steps - 1) * drawn)
    return round(solver.steps * drawn)
