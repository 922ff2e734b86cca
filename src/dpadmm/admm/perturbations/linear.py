"""What a random linear term costs in each round, and how loud it must be for a total budget.

Objective perturbation's cost is not its mechanism's: the curvature that one record can add, over the curvature that is
guaranteed without it, enters as well (`ratio`, the spec's kappa). It falls as penalties grow, so rounds may cost
different amounts or be differently loud; here all of them are settled together.

The lemmas are about noise with a density. Gamma-norm noise is drawn in floating point, outside the release path, and is
for simulations. Gaussian noise is drawn as integers times a power of two, the cell: a randomised rounding of an exact
Gaussian of at least the scale that is paid for (theory, "The release path"). The two lie within `APART` cells of each
other in each coordinate, but for a probability of 1e-347. So the minimiser lies as near to that of the exact noise as
`blur` says, which joins the solver's tolerance under the output noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.base import simulated
from dpadmm.admm.setting import Noise, Setting
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian
from dpadmm.privacy.accounting import best
from dpadmm.privacy.calibration import Budget, noise_multipliers, smallest_near
from dpadmm.privacy.events import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    GaussianObjectiveDpEvent,
    NonPrivateDpEvent,
    PureDpEvent,
    Relation,
)
from dpadmm.privacy.mechanisms import GammaNorm, Gaussian, Mechanism
from dpadmm.problems.losses.base import MarginLoss
from dpadmm.release.perturb import add_noise
from dpadmm.release.random_bits import Stream

CELL_BITS = 45  # cells to a noise scale, as a power of two; numbers of less than 2^53 cells are exact doubles
APART = 320.0  # 40 standard deviations of a rounding, which is one of 8 cells
FAR = 40.0  # scales that no coordinate of Gaussian noise exceeds, but for a probability of 1e-348

OUTPUT_SHARE = 0.01  # of the linear term's cost, for the noise that covers the solver's tolerance
JACOBIAN_SHARE = 0.5  # of the budget at most, for the determinants (as Zhang & Zhu 2017); extra curvature sees to it

RATIO_SHARE = {Relation.REPLACE: 0.4, Relation.ZERO_OUT: 0.9}  # of a Gaussian round's mu, up to which a ratio is free


@dataclass(frozen=True, eq=False)
class LinearTerm(ABC):
    """The rounds of one phase. Arrays are (rounds, n), or (1, n) where all rounds are alike."""

    setting: Setting
    base: FloatArray  # curvature of the subproblem before any record is counted
    louder: FloatArray  # scale of a round's noise in units of the first round's

    mechanism: ClassVar[type[Mechanism]]

    @property
    def record_curvature(self) -> FloatArray:
        """How much curvature one record can add, in each of `rank` directions; (n,)."""
        return self.setting.weights * self._added[1]

    @property
    def rank(self) -> int:
        """In how many directions a record adds curvature."""
        return self._added[0]

    @property
    def _added(self) -> tuple[int, float]:
        setting = self.setting
        found = setting.problem.loss.added_curvature(setting.norm_bound, setting.dimension // setting.columns)
        assert found is not None  # checked beforehand
        return found

    def ratios(self, extra: FloatArray) -> FloatArray:
        """A record's curvature over what is guaranteed without it, with this much extra (n,)."""
        return self.record_curvature / (self.base + extra)

    def jacobian(self, extra: FloatArray) -> FloatArray:
        """ln of how much determinants of neighbours can differ; once for each record that is protected together."""
        return self.rank * self.setting.unit_size * np.log1p(self.ratios(extra))

    @abstractmethod
    def extra(self, budgets: Sequence[Budget]) -> FloatArray:
        """The extra curvature that keeps the determinants within their share of the budget; (n,)."""

    @abstractmethod
    def event(self, multiplier: float, ratio: float) -> DpEvent:
        """What a round costs, its output noise included."""

    @abstractmethod
    def output(self, multiplier: FloatArray) -> Mechanism:
        """The noise that covers a minimiser which is exact only to a tolerance."""

    @classmethod
    @abstractmethod
    def drawn(cls, mechanism: Mechanism, sensitivity: FloatArray, dimension: int, stream: Stream) -> FloatArray:
        """The linear terms of a batch, (n, D), for noise multipliers and sensitivities (n,) of each agent."""

    @classmethod
    @abstractmethod
    def longest(cls, mechanism: Mechanism, sensitivity: FloatArray, dimension: int) -> FloatArray:
        """A bound on their lengths, from public numbers; (n,). What is refused must not depend on what is drawn."""

    @classmethod
    @abstractmethod
    def blur(cls, mechanism: Mechanism, sensitivity: FloatArray, dimension: int) -> FloatArray:
        """How far they may be from noise with the density that the lemma speaks of; (n,)."""

    def calibrated(self, budgets: Sequence[Budget], extra: FloatArray) -> FloatArray:
        """Multipliers (rounds or 1, n) that exhaust the budgets."""
        found: dict[tuple[Budget, bytes, bytes], float] = {}
        ratios = np.broadcast_to(self.ratios(extra), self.louder.shape)
        first = np.empty(self.setting.agents)
        for agent, budget in enumerate(budgets):
            key = (budget, ratios[:, agent].tobytes(), self.louder[:, agent].tobytes())
            if key not in found:
                found[key] = self._smallest(budget, ratios[:, agent], self.louder[:, agent])
            first[agent] = found[key]
        return self.louder * first

    def _smallest(self, budget: Budget, ratios: FloatArray, louder: FloatArray) -> float:
        rounds, relation = self.setting.rounds, self.setting.relation
        each = rounds // louder.size

        def cost_of_rounds(multiplier: float) -> float:
            tally: Counter[DpEvent] = Counter()
            for ratio, factor in zip(ratios, louder, strict=True):
                tally[self.event(multiplier * float(factor), float(ratio))] += each
            return best(tally, budget.delta, relation).epsilon

        start = self._guess(budget, rounds)
        if cost_of_rounds(1e12 * start) > budget.epsilon:
            raise InputError(
                f"perturbation 'objective': without any noise the determinants alone cost "
                f"{cost_of_rounds(1e12 * start):.3g} in {rounds} rounds, and the budget is "
                f"{budget.epsilon:g}. Leave the extra curvature to be chosen, or use fewer rounds."
            )
        return smallest_near(cost_of_rounds, budget.epsilon, start, tolerance=1e-6)

    @abstractmethod
    def _guess(self, budget: Budget, rounds: int) -> float:
        """Where to look for a multiplier."""

    def noise(self, multipliers: FloatArray, extra: FloatArray) -> Noise:
        """The noise of all rounds, with its events."""
        ratios = np.broadcast_to(self.ratios(extra), multipliers.shape)
        course = tuple(self._round(z, ratio, extra) for z, ratio in zip(multipliers, ratios, strict=True))
        return course[0] if len(course) == 1 else replace(course[0], course=course)

    def _round(self, multipliers: FloatArray, ratios: FloatArray, extra: FloatArray) -> Noise:
        pairs = list(zip(multipliers.tolist(), ratios.tolist(), strict=True))
        known = {pair: self.event(*pair) if pair[0] > 0.0 else NonPrivateDpEvent() for pair in set(pairs)}
        events = tuple(known[pair] for pair in pairs)
        return Noise(self.mechanism(multipliers), events, self.output(multipliers), extra)


class PureTerm(LinearTerm):
    """Noise of density exp(-alpha |.|): alpha * sensitivity + rank * ln(1 + ratio), and a hundredth for the output.

    For simulations only: the noise is drawn in floating point, so nothing is promised of its last digits.
    """

    mechanism = GammaNorm

    @classmethod
    def drawn(cls, mechanism: Mechanism, sensitivity: FloatArray, dimension: int, stream: Stream) -> FloatArray:
        assert isinstance(mechanism, GammaNorm)
        return simulated(np.zeros((sensitivity.size, dimension)), mechanism, sensitivity, stream)

    @classmethod
    def longest(cls, mechanism: Mechanism, sensitivity: FloatArray, dimension: int) -> FloatArray:
        return np.zeros_like(sensitivity)

    @classmethod
    def blur(cls, mechanism: Mechanism, sensitivity: FloatArray, dimension: int) -> FloatArray:
        return np.zeros_like(sensitivity)

    def event(self, multiplier: float, ratio: float) -> DpEvent:
        jacobian = self.rank * self.setting.unit_size * math.log1p(ratio)
        return PureDpEvent((1.0 + OUTPUT_SHARE) / multiplier + jacobian)

    def output(self, multiplier: FloatArray) -> Mechanism:
        return GammaNorm(multiplier / OUTPUT_SHARE)

    def extra(self, budgets: Sequence[Budget]) -> FloatArray:
        allowed = JACOBIAN_SHARE * self._per_round(budgets) / (self.rank * self.setting.unit_size)
        return np.maximum(0.0, self.record_curvature / np.expm1(np.minimum(allowed, 700.0)) - self.base.min(axis=0))

    def calibrated(self, budgets: Sequence[Budget], extra: FloatArray) -> FloatArray:
        if (self.louder != 1.0).any():
            return super().calibrated(budgets, extra)
        # Every round may cost the same, and what its determinants leave of that is the noise's.
        per_round, jacobian = self._per_round(budgets), self.jacobian(extra)
        left = per_round - jacobian
        if (left <= 0).any():
            worst = np.unravel_index(int(np.argmin(left)), left.shape)
            alone = jacobian[worst]
            raise InputError(
                f"perturbation 'objective': with extra curvature {extra[worst[1]]:g} the Jacobian alone costs "
                f"{alone:.3g} a round, {self.setting.rounds * alone:.3g} in all, before any noise; the budget allows "
                f"{per_round[worst[1]]:.3g} a round. Leave the extra curvature to be chosen, or use fewer rounds."
            )
        # Upwards by more than the rounding of these three operations: the accountant has the last word.
        return (1.0 + OUTPUT_SHARE) / left * (1.0 + 1e-12)

    def _per_round(self, budgets: Sequence[Budget]) -> FloatArray:
        return 1.0 / noise_multipliers(budgets, self.setting.rounds, GammaNorm.name)

    def _guess(self, budget: Budget, rounds: int) -> float:
        return rounds / budget.epsilon


class GaussianTerm(LinearTerm):
    """Gaussian noise: never its own cost alone, whatever its size (claims B6); see `privacy.objective`."""

    mechanism = Gaussian

    @classmethod
    def drawn(cls, mechanism: Mechanism, sensitivity: FloatArray, dimension: int, stream: Stream) -> FloatArray:
        cells = cls._cells(mechanism, sensitivity)
        nothing = np.zeros((sensitivity.size, dimension), dtype=np.int64)
        return add_noise(nothing, mechanism, sensitivity / cells, stream) * cells[:, None]

    @classmethod
    def longest(cls, mechanism: Mechanism, sensitivity: FloatArray, dimension: int) -> FloatArray:
        return FAR * math.sqrt(dimension) * mechanism.noise_multiplier * sensitivity

    @classmethod
    def blur(cls, mechanism: Mechanism, sensitivity: FloatArray, dimension: int) -> FloatArray:
        return APART * math.sqrt(dimension) * cls._cells(mechanism, sensitivity)

    @staticmethod
    def _cells(mechanism: Mechanism, sensitivity: FloatArray) -> FloatArray:
        """(n,) powers of two, of which a noise scale has from 2^45 to 2^46."""
        _, exponent = np.frexp(mechanism.noise_multiplier * sensitivity)  # exact, where a logarithm would round
        return np.ldexp(1.0, exponent - 1 - CELL_BITS)

    def event(self, multiplier: float, ratio: float) -> DpEvent:
        loss = self.setting.problem.loss
        assert isinstance(loss, MarginLoss)
        # Three digits of the ratio, rounded up, so that agents of about one size share an event.
        unit = 10.0 ** (math.floor(math.log10(ratio)) - 2) if ratio > 0.0 else 1.0
        term = GaussianObjectiveDpEvent(multiplier, max(ratio, math.ceil(ratio / unit) * unit), loss.one_sided)
        return ComposedDpEvent((term, GaussianDpEvent(multiplier / math.sqrt(OUTPUT_SHARE))))

    def output(self, multiplier: FloatArray) -> Mechanism:
        return Gaussian(multiplier / math.sqrt(OUTPUT_SHARE))

    def extra(self, budgets: Sequence[Budget]) -> FloatArray:
        # A ratio that is small beside a round's shift costs next to nothing, and soon very much (decisions.md).
        share = RATIO_SHARE[self.setting.relation] / math.sqrt(self.setting.rounds)
        allowed = share * np.array([gaussian.mu(budget.epsilon, budget.delta) for budget in budgets])
        with np.errstate(divide="ignore"):  # delta = 0 is refused later, by name
            return np.maximum(0.0, self.record_curvature / allowed - self.base.min(axis=0))

    def _guess(self, budget: Budget, rounds: int) -> float:
        if budget.delta == 0.0:
            raise InputError(
                f"Gaussian noise cannot meet delta = 0 (epsilon {budget.epsilon:g}); allow a small delta such as "
                f"1e-6, or use a recipe with Laplace noise such as 'obj-l'. Simulations can meet it with the mechanism "
                f"'gamma-norm'."
            )
        return 1.1 * math.sqrt(rounds) / gaussian.mu(budget.epsilon, budget.delta)


TERMS: dict[str, type[LinearTerm]] = {
    GammaNorm.name: PureTerm,
    Gaussian.name: GaussianTerm,
}
"""By mechanism."""
