"""What steps on mini-batches cost, by their noise multiplier: the numbers of `sampled.SampledGradient`'s lemmas.

Multipliers and shifts are in units of Delta = `Setting.sensitivity`, k n + r in units of the lattice: a person's k
records contribute at most n each, and rounding moves two neighbours apart by at most r = sqrt(D) (0 where sums are not
rounded). Noise is z Delta `finer` in units of an estimate's own lattice, of which `finer` make one of the lattice of
whole gradients. So a shift of X own units is one of X / (Delta finer) here. What X is:

* `sgd`, finer = q: j of the records are drawn, j n + r <= j (n + r); where none is, both neighbours round alike: 0.
* `svrg`, A / B = q, finer = A / 2^digits >= 1: an estimate is the multiple A s(anchor) and the correction
  B (s(x) - s(anchor)), each rounded by itself. The first moves by finer k n + r <= finer Delta. A contribution changes
  by at most c: by n for a margin loss whose slopes keep their sign (`Svrg.query` enforces it), else by 2 n, or by what
  is within reach. So j drawn records move the second by finer j c / q + r <= finer j (c / q + r). Together, before
  rounding, a drawn record counts A s(anchor) + B (s(x) - s(anchor)), which moves by at most B n if its slopes keep
  their sign, else by (2 B - A) n: beyond what the anchor moves by, no more than n / q - n, or 2 n / q - 2 n.
* one uniform record of m, replace, finer = A = 1 and B = m: the anchor moves by Delta, and the correction of the record
  drawn by at most 2 c m + r.

A single record's two shifts are linked (theory 5.3), which costs less than their lengths do. Before rounding, they are
finer (p2, (p1 - (1-q) p2) / q) times the row for a margin loss, with slopes p1 and p2: cutting a correction to c only
moves p1 towards p2. Rounding adds e to both, |e| <= r, and e' to that of a drawn record, |e'| <= r; cutting truncates a
record's change by less than sqrt(D) cells. With v the longest drawn shift and t = 2 r + sqrt(D) cells / q, no inner
product of shifts grows by more than 2 v t + t²: a Gaussian release whose sensitivity squared is that pays for it beside
the linked step. Other losses contribute matrices. What is orthogonal to the change of a record's contribution is common
to both shifts, and a Gaussian release of sensitivity n beside the linked step pays for that.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from dpadmm._arrays import FloatArray
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.stochastic import Sgd, Svrg
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian
from dpadmm.privacy.accounting import best
from dpadmm.privacy.calibration import Budget, smallest_near
from dpadmm.privacy.events import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    VarianceReducedDpEvent,
)
from dpadmm.release.sums import MarginGradient

_UP = 1.0 + 2.0**-40  # more than the arithmetic on shifts can lose
_LITTLE = 0.4  # of a contribution: 1 + 0.4 is less than sqrt(2)
PRECISE = 1e-4  # of a calibrated multiplier, always on the side of more noise

Found = TypeVar("Found")


class Cost(ABC):
    """The events of rounds of S steps. Agents whose facts are equal are looked at once."""

    def __init__(self, setting: Setting, solver: Sgd) -> None:
        self.setting, self.solver = setting, solver
        self.kinds: tuple[Hashable, ...] = ()  # of each agent: what its cost depends on
        bounds = setting.bounds
        query = solver.query(setting) if isinstance(solver, Svrg) else setting.query
        self._aligned = isinstance(query, MarginGradient)  # whether all that a record contributes has one direction,
        self._one_sided = isinstance(query, MarginGradient) and query.one_sided  # and always the same sense
        longest = solver.longest_change(setting) if isinstance(solver, Svrg) else None
        self._unit = setting.sensitivity()  # Delta
        self._norm = math.ldexp(bounds.norm, -bounds.shift)  # n
        sides = 1.0 if self._one_sided else 2.0
        self._change = sides * self._norm  # c
        self._cut = 0.0  # by truncation, before the weight 1/q
        if longest is not None:
            self._change = min(self._change, math.ldexp(longest, -bounds.shift))
            self._cut = math.ldexp(math.sqrt(bounds.dimension), -bounds.shift)
        self._farthest = sides * self._norm  # times 1/q - 1: what being drawn adds at most
        self._rounding = math.sqrt(bounds.dimension) if bounds.shift else 0.0  # r

    @abstractmethod
    def round(self, agent: int, multiplier: float) -> DpEvent:
        """A whole round of one agent, with noise."""

    @abstractmethod
    def mean_shift(self, agent: int) -> float:
        """Of one step: where noise is loud, a step costs as much as a Gaussian release that always shifts by this."""

    @abstractmethod
    def drawn_shift(self, agent: int) -> float:
        """By a record's being drawn: where that is rare, noise must be of this size."""

    def rounds(self, multipliers: FloatArray) -> tuple[DpEvent, ...]:
        """A whole round of every agent."""

        def event(agent: int) -> DpEvent:
            level = float(multipliers[agent])
            return self.round(agent, level) if level > 0.0 else NonPrivateDpEvent()

        return tuple(_once(list(zip(self.kinds, multipliers.tolist(), strict=True)), event))

    def calibrated(self, budgets: Sequence[Budget]) -> FloatArray:
        """The smallest multipliers with which all rounds stay within the budgets; (n,)."""
        kinds = list(zip(self.kinds, budgets, strict=True))
        return np.array(_once(kinds, lambda agent: self._calibrated(agent, budgets[agent])))

    def _calibrated(self, agent: int, budget: Budget) -> float:
        return self._search(lambda level: self.round(agent, level), agent, budget, PRECISE)

    def _search(
        self, round: Callable[[float], DpEvent], agent: int, budget: Budget, precise: float, start: float | None = None
    ) -> float:
        if budget.delta == 0.0:
            raise InputError("Gaussian noise cannot meet delta = 0; allow a small delta such as 1e-6.")

        def cost_of_steps(level: float) -> float:
            return self.total(round(level), budget.delta)

        if start is None:
            steps = self.setting.rounds * self.solver.steps
            always = math.sqrt(steps) * self.mean_shift(agent) / gaussian.mu(budget.epsilon, budget.delta)
            start = max(always, 0.3 * self.drawn_shift(agent))
        return smallest_near(cost_of_steps, budget.epsilon, start, precise)

    def total(self, round: DpEvent, delta: float) -> float:
        """What all rounds cost, as the account will say it."""
        return best({round: self.setting.rounds}, delta, self.setting.relation).epsilon

    def anchor_factors(self) -> FloatArray:
        """The multiplier of a noisy anchor over that of a step's noise; (n,)."""
        raise InputError("a noisy anchor needs Poisson sampling.")


class PoissonCost(Cost):
    """Mini-batches by independent coins, zero-out."""

    def __init__(self, setting: Setting, solver: Sgd, anchor_share: float) -> None:
        super().__init__(setting, solver)
        self._anchor_share = anchor_share
        self._held = isinstance(solver, Svrg) and not anchor_share  # by an anchor without noise of its own
        self._rates = rates = solver.rates(setting.counts)
        if not isinstance(solver, Svrg):
            moved = (self._norm + self._rounding) / rates
        elif self._held:
            moved = np.minimum(self._farthest * (1.0 / rates - 1.0), self._change / rates) + self._rounding
        else:
            moved = self._change / rates + self._rounding
        drawn = _UP * moved / self._unit
        # Rounded up a little, so that agents who differ by their rounding only are one kind.
        logs = np.log2(np.maximum(drawn, 2.0**-40))
        self._drawn: FloatArray = np.exp2(np.ceil(logs * 2.0**14) / 2.0**14) * _UP
        self.kinds = tuple(zip(self._rates.tolist(), self._drawn.tolist(), strict=True))

    def shifts(self, agent: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """How far a step's estimate moves with j = 0..k records of one person in the batch, and how likely that is."""
        persons, rate = self.setting.unit_size, float(self._rates[agent])
        # The anchor holds all k records, and what one of them adds by being drawn is counted one by one.
        sizes = tuple(float(self._held) + j * float(self._drawn[agent]) for j in range(persons + 1))
        chances = binom.pmf(np.arange(persons + 1), persons, rate)
        return sizes, tuple((chances / chances.sum()).tolist())

    def mean_shift(self, agent: int) -> float:
        if self._linked(agent):
            return 1.0 if self._aligned else math.sqrt(2.0)
        sizes, chances = self.shifts(agent)
        return math.fsum(size * chance for size, chance in zip(sizes, chances, strict=True))

    def drawn_shift(self, agent: int) -> float:
        return float(self._drawn[agent])

    def step(self, agent: int, multiplier: float) -> DpEvent:
        """One step of one agent."""
        if self._linked(agent):
            return self._linked_step(agent, multiplier)
        sizes, chances = self.shifts(agent)
        if chances[-1] == 1.0:
            return GaussianDpEvent(multiplier / sizes[-1])
        if len(sizes) == 2 and sizes[0] == 0.0:
            return PoissonSampledDpEvent(chances[1], GaussianDpEvent(multiplier / sizes[1]))
        return MixtureOfGaussiansDpEvent(multiplier, sizes, chances)

    def _linked(self, agent: int) -> bool:
        """Whether a step is accounted for by its linked shifts. Where contributions have several directions and change
        little, their lengths cost less."""
        single = self._held and self.setting.unit_size == 1 and float(self._rates[agent]) < 1.0
        return single and (self._aligned or self._change > _LITTLE * self._norm)

    def _linked_step(self, agent: int, multiplier: float) -> DpEvent:
        rate, level = float(self._rates[agent]), multiplier * self._unit / _UP
        change = _UP * self._change / self._norm
        step = VarianceReducedDpEvent(level / self._norm, rate, self._one_sided, change)
        moved = 2.0 * self._rounding + self._cut / rate  # t
        beside = (2.0 * (self._norm + self._farthest * (1.0 / rate - 1.0)) + moved) * moved
        if not self._aligned:
            beside += self._norm**2
        if beside == 0.0:
            return step
        return ComposedDpEvent((step, GaussianDpEvent(level / (_UP * math.sqrt(beside)))))

    def round(self, agent: int, multiplier: float) -> DpEvent:
        steps = SelfComposedDpEvent(self.step(agent, multiplier), self.solver.steps)
        if not self._anchor_share:
            return steps
        return ComposedDpEvent((GaussianDpEvent(multiplier * self._anchor_factor(agent)), steps))

    def _anchor_factor(self, agent: int) -> float:
        """So that anchors take their share of mu², where steps cost what their mean shift does."""
        return math.sqrt((1.0 / self._anchor_share - 1.0) / self.solver.steps) / self.mean_shift(agent)

    def anchor_factors(self) -> FloatArray:
        return np.array(_once(self.kinds, self._anchor_factor))


class UniformCost(Cost):
    """One uniform record a step, replace: the noise split in two."""

    def __init__(self, setting: Setting, solver: Svrg, delta: float) -> None:
        super().__init__(setting, solver)
        self._deltas = np.full(setting.agents, delta, dtype=np.float64)  # what the proof is tuned to
        self._drawn = _UP * (2.0 * self._change * setting.counts + self._rounding) / self._unit
        self.kinds = tuple(setting.counts.tolist())
        self._splits: dict[tuple[Hashable, float], float] = {}  # by kind and calibrated multiplier

    def mean_shift(self, agent: int) -> float:
        return 1.0 + float(self._drawn[agent] / self.setting.counts[agent])

    def drawn_shift(self, agent: int) -> float:
        return float(self._drawn[agent])

    def round(self, agent: int, multiplier: float) -> DpEvent:
        split = self._splits.get((self.kinds[agent], multiplier))
        return self._with(agent, multiplier, self._best_split(agent, multiplier) if split is None else split)

    def _calibrated(self, agent: int, budget: Budget) -> float:
        rough = self._search(lambda level: self._with(agent, level, 0.03), agent, budget, 0.05)
        self._deltas[agent] = budget.delta
        split = self._best_split(agent, rough)
        found = self._search(lambda level: self._with(agent, level, split), agent, budget, PRECISE, rough)
        self._splits[self.kinds[agent], found] = split
        return found

    def _with(self, agent: int, multiplier: float, split: float) -> DpEvent:
        anchor = GaussianDpEvent(multiplier * math.sqrt(split))
        drawn = GaussianDpEvent(multiplier * math.sqrt(1.0 - split) / float(self._drawn[agent]))
        sampled = SampledWithoutReplacementDpEvent(int(self.setting.counts[agent]), 1, drawn)
        return SelfComposedDpEvent(ComposedDpEvent((anchor, sampled)), self.solver.steps)

    def _best_split(self, agent: int, multiplier: float) -> float:
        """The share of the noise's variance that the proof gives to the anchor, so that it proves most."""

        def cost_of_split(log_split: float) -> float:
            return self.total(self._with(agent, multiplier, math.exp(log_split)), float(self._deltas[agent]))

        bounds = (math.log(1e-4), math.log(0.9))
        found = minimize_scalar(cost_of_split, bounds=bounds, method="bounded", options={"maxiter": 12})
        return math.exp(float(found.x))


def _once(kinds: Sequence[Hashable], make: Callable[[int], Found]) -> list[Found]:
    """One thing per agent, made once for agents of the same kind."""
    known: dict[Hashable, Found] = {}
    for agent, kind in enumerate(kinds):
        if kind not in known:
            known[kind] = make(agent)
    return [known[kind] for kind in kinds]
