"""What runs may cost together when each is chosen by somebody who has seen what the earlier ones released.

Composing the events of several runs as if they had been fixed beforehand is not valid then. A filter is: each run
enters as (mu, delta0) (see `gdp`), and runs are permitted while the sum of mu^2 stays within mu_total^2 and the sum of
delta0 within a slack, both fixed by the owner's policy. Together they are then (epsilon, delta)-private with the
policy's numbers, however they were chosen and interleaved (docs/theory/ledger.md has the proof). Sums are of exact
fractions, each term rounded up, so no drift of floating point permits more. A policy of delta = 0 permits pure
releases, by the sum of their epsilons.

One run alone, before which nothing was released and after which nothing will be, may also enter by its own guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from scipy.special import ndtr, ndtri_exp

from dpadmm.errors import InputError
from dpadmm.privacy import gaussian
from dpadmm.privacy.accounting import best
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PureDpEvent,
    Relation,
    Tally,
    flatten,
)
from dpadmm.privacy.gdp import entry, mu_of_pure
from dpadmm.privacy.units import RECORD, Unit, for_groups, round_up

SLACK_SHARE = 0.1
"""Of a policy's delta: what the delta0 of all runs may add up to."""

_UNITS = 2**128  # fractions are sums of 1/_UNITS, so that adding them stays quick
_PARTS = tuple(2.0**-part for part in range(1, 11))  # of the slack, for one run


@dataclass(frozen=True)
class Bound:
    """A whole run as (mu, delta0)."""

    mu: float
    delta0: float


@dataclass(frozen=True)
class Charge:
    """What a run is debited with.

    Attributes:
        tally: Its events.
        unit: What they protect.
        whole: The run as one bound, which is debited in full; None where every event enters by itself.
        claimed: The version whose claim the events are, where that is not this one's.
    """

    tally: Tally
    unit: Unit
    whole: Bound | None = None
    claimed: str = ""


@dataclass(frozen=True)
class Cost:
    """What charges come to for a unit; fields are infinite where no valid rule gives a number.

    Attributes:
        mu2: Sum of mu^2.
        delta0: Sum of delta0.
        pure: Sum of the epsilons of pure releases.
    """

    mu2: Fraction | float = Fraction(0)
    delta0: Fraction | float = Fraction(0)
    pure: Fraction | float = Fraction(0)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.mu2 + other.mu2, self.delta0 + other.delta0, self.pure + other.pure)

    def times(self, count: int) -> Cost:
        """The same so many times."""
        return Cost(count * self.mu2, count * self.delta0, count * self.pure)

    def epsilon(self, delta: float) -> float:
        """The amount as an epsilon at this delta. Of what was spent so far it is no guarantee: only the cap is."""
        if delta == 0.0 or self.mu2 == math.inf:
            return round_up(self.pure) if delta == 0.0 else math.inf
        if not self.delta0 < delta:
            return math.inf if self.mu2 or self.delta0 else 0.0
        left = float((Fraction(delta) - self.delta0) / (1 - self.delta0)) * (1.0 - 1e-15)
        return gaussian.epsilon(math.sqrt(round_up(self.mu2)) * (1.0 + 1e-15), left)


FREE = Cost()
UNKNOWN = Cost(math.inf, math.inf, math.inf)


@dataclass(frozen=True)
class Cap:
    """What an owner allows over a data set's life, all runs together.

    Args:
        epsilon: Positive and finite.
        delta: In [0, 1); 0 permits pure releases only.
        unit: What is protected by it.
        slack_share: Share of delta that the delta0 of runs may add up to; the rest bounds the sum of mu^2.
    """

    epsilon: float
    delta: float
    unit: Unit = RECORD
    slack_share: float = SLACK_SHARE

    def __post_init__(self) -> None:
        Budget(self.epsilon, self.delta)
        if not 0.0 <= self.slack_share < 1.0:
            raise InputError(f"slack_share {self.slack_share!r} must be at least 0 and less than 1, such as 0.1.")

    @property
    def slack(self) -> Fraction:
        """What the delta0 of all runs may add up to."""
        return Fraction(self.delta) * Fraction(self.slack_share)

    @property
    def mu_total(self) -> float:
        """slack + delta_G(mu_total)(epsilon) <= delta; rounded down."""
        return _mu_total(self.epsilon, float(Fraction(self.delta) - self.slack))

    def within(self, cost: Cost) -> bool:
        """Whether the filter permits this."""
        if self.delta == 0.0:
            return cost.pure <= Fraction(self.epsilon)
        return cost.mu2 <= Fraction(self.mu_total) ** 2 and cost.delta0 <= self.slack

    def cost(self, charge: Charge) -> Cost:
        """What a charge costs for the unit that is protected; infinite where that cannot be said."""
        steps = self._steps(charge)
        if steps is None:
            return UNKNOWN
        by_event = _by_event(for_groups(charge.tally, steps))
        if charge.whole is None or self.delta == 0.0:
            return by_event
        return replace(_of_groups(charge.whole, steps), pure=by_event.pure)

    def total(self, charges: Sequence[Charge]) -> Cost:
        """What several cost together."""
        return sum((self.cost(charge) for charge in charges), FREE)

    def bound(self, tally: Tally, unit: Unit) -> Bound | None:
        """How a run enters as a whole, where that is cheaper than event by event, or the only way.

        Its delta0 is a part of the slack, a power of 1/2: the one with which the run's larger share, of mu^2 or of the
        slack, is smallest. It depends on public numbers only.
        """
        flat = flatten(tally)
        if self.delta == 0.0 or not flat or all(isinstance(event, GaussianDpEvent) for event in flat):
            return None
        steps, found = unit.steps_to(self.unit), []
        for part in _PARTS:
            delta0 = float(self.slack) * part
            mu = entry(flat, unit.relation, delta0, float(self.slack) * _PARTS[-1])
            if mu is None:
                continue
            shares = self._shares(_of_groups(Bound(mu, delta0), steps))
            found.append((max(shares), sum(shares), Bound(mu, delta0)))
            if shares[0] > shares[1]:  # smaller parts only make mu larger
                break
        if not found:
            return None
        _, total, bound = min(found, key=lambda each: each[:2])
        return bound if total < sum(self._shares(_by_event(for_groups(flat, steps)))) else None

    def alone(self, charge: Charge) -> float:
        """A run's own guarantee: the epsilon of its events, fixed at joining, at the cap's delta."""
        steps = self._steps(charge)
        tally = None if steps is None else for_groups(charge.tally, steps)
        if tally is None:
            return math.inf
        return _own(frozenset(tally.items()), self.delta, charge.unit.relation)

    def left(self, cost: Cost) -> float:
        """The epsilon at the cap's delta of the largest Gaussian run still permitted; of a pure one for delta = 0."""
        if not self.within(cost):
            return 0.0
        if self.delta == 0.0:
            return max(float(Fraction(self.epsilon) - cost.pure), 0.0)
        return gaussian.epsilon(math.sqrt(float(Fraction(self.mu_total) ** 2 - cost.mu2)), self.delta)

    def left_after(self, charges: Sequence[Charge]) -> float:
        """The same after these charges; before the first, the whole cap: a first run may enter alone."""
        return self.left(self.total(charges)) if charges else self.epsilon

    def amount(self, charges: Sequence[Charge]) -> float:
        """What charges come to, as an epsilon at the cap's delta: of what was spent so far it is no guarantee.

        A single run's own guarantee is taken where that is less.
        """
        found = self.total(charges).epsilon(self.delta)
        return min(found, self.alone(charges[0])) if len(charges) == 1 else found

    def tightened_by(self, other: Cap) -> Cap:
        """A cap that guarantees what both of them do.

        The smaller epsilon, delta and slack; what delta keeps for mu_total is no more than in either. So its filter
        permits nothing that either of them refuses, unless only one of them has a delta: then pure releases are added
        up, whose sum is guaranteed without a delta.
        """
        records = max(self.unit.records, other.unit.records)
        unit, epsilon = replace(self.unit, records=records), min(self.epsilon, other.epsilon)
        if self.slack_share == other.slack_share:
            return Cap(epsilon, min(self.delta, other.delta), unit, self.slack_share)
        slack = min(self.slack, other.slack)
        rest = min(Fraction(cap.delta) - cap.slack for cap in (self, other))
        if not slack + rest:
            return Cap(epsilon, 0.0, unit)
        share = min(float(slack / (slack + rest)), 1.0 - 2.0**-53)
        # What the share's rounding would add to either part is taken from delta, however close to 1 the share is.
        parts = [rest / (1 - Fraction(share)), *([slack / Fraction(share)] if share else [])]
        return Cap(epsilon, float(min(parts)) * (1.0 - 1e-15), unit, share)

    def why_not(self, cost: Cost) -> str:
        """What a total that the filter refuses comes to, and what is allowed."""
        if self.delta == 0.0 or cost.mu2 == math.inf:
            return self.too_much(cost.epsilon(self.delta))
        if cost.mu2 > Fraction(self.mu_total) ** 2:  # at what the slack leaves of delta, which mu_total is made of
            left = float(Fraction(self.delta) - self.slack)
            kept = f", {float(self.slack):.3g} of which is set aside" if self.slack else ""
            return self.too_much(gaussian.epsilon(math.sqrt(round_up(cost.mu2)), left), kept)
        return (
            f"would take {round_up(cost.delta0):.3g} of delta for runs that are more than Gaussian noise, and its "
            f"owner sets aside {float(self.slack):.3g} for them (slack_share in the policy)"
        )

    def too_much(self, epsilon: float, kept: str = "") -> str:
        """The same of an epsilon."""
        allowed = f"its owner allows {self.epsilon:g} over its life"
        return f"would come to epsilon {epsilon:.4g} at delta {self.delta:g}{kept}; {allowed}"

    def _steps(self, charge: Charge) -> int | None:
        """How many steps of the charge's unit make one of the cap's; None where that is not known."""
        replaced_for_blanked = charge.unit.relation is Relation.REPLACE and self.unit.relation is Relation.ZERO_OUT
        # Blank records are records to this version; whether they were to another is not known.
        return None if charge.claimed and replaced_for_blanked else charge.unit.steps_to(self.unit)

    def _shares(self, cost: Cost) -> tuple[float, float]:
        """Of mu_total^2 and of the slack."""
        if cost.mu2 == math.inf:
            return math.inf, math.inf
        of_slack = float(cost.delta0 / self.slack) if self.slack else math.inf if cost.delta0 else 0.0
        return float(cost.mu2) / self.mu_total**2, of_slack


def _by_event(flat: Tally | None) -> Cost:
    """Every event by itself: Gaussian and pure ones."""
    if flat is None:
        return UNKNOWN
    total = FREE
    for event, count in flat.items():
        total += _event(event).times(count)
    return total


@lru_cache(maxsize=4096)
def _event(event: DpEvent) -> Cost:
    if isinstance(event, GaussianDpEvent) and event.noise_multiplier > 0.0:
        return Cost(_ceil(1 / Fraction(event.noise_multiplier) ** 2), pure=math.inf)
    if isinstance(event, LaplaceDpEvent) and event.noise_multiplier > 0.0:
        exact = 1 / Fraction(event.noise_multiplier)
    elif isinstance(event, PureDpEvent) and event.epsilon < math.inf:
        exact = Fraction(event.epsilon)
    else:
        return UNKNOWN
    return Cost(_ceil(Fraction(mu_of_pure(round_up(exact))) ** 2), pure=_ceil(exact))


def _of_groups(bound: Bound, steps: int) -> Cost:
    """A bounded run for neighbours that are so many steps apart (docs/theory/ledger.md, 10.5).

    With T(a) = Phi(Phi^-1(a) + mu), a test of power a at one end has at most delta0 + T(a) one step on. T is concave
    with T(0) = 0, so after all steps it is at most delta_1 + T_{steps mu}(a), delta_1 the sum of T_{i mu}(delta0) over
    i < steps. (The division makes that a bound of the same form.)
    """
    if steps == 1:
        return Cost(_ceil(Fraction(bound.mu) ** 2), Fraction(bound.delta0))
    wider = steps * bound.mu * (1.0 + 1e-15)
    moved = [_power(bound.delta0, i * bound.mu) for i in range(steps)]
    apart = gaussian.delta(0.0, wider) * (1.0 + 1e-9)
    delta0 = math.fsum(moved) * (1.0 + 1e-9) / (1.0 - apart) if apart < 1.0 else math.inf
    return Cost(_ceil(Fraction(wider) ** 2), Fraction(delta0)) if delta0 < 1.0 else UNKNOWN


def _power(level: float, shift: float) -> float:
    """Of the best test of this level for a Gaussian shift."""
    return float(ndtr(float(ndtri_exp(math.log(level))) + shift)) * (1.0 + 1e-9) if level > 0.0 else 0.0


@lru_cache(maxsize=256)
def _own(flat: frozenset[tuple[DpEvent, int]], delta: float, relation: Relation) -> float:
    return best(dict(flat), delta, relation).epsilon


@lru_cache(maxsize=256)
def _mu_total(epsilon: float, delta: float) -> float:
    return gaussian.mu(epsilon, delta * (1.0 - 1e-15))


def _ceil(exact: Fraction) -> Fraction:
    return Fraction(-(-exact.numerator * _UNITS // exact.denominator), _UNITS)
