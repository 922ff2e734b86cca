"""The ledger's page: its theorem and lemmas computed exactly, and its table against the library."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from adaptive_runs import Curve, Floats, adaptive_delta, gaussian, poisson, pure
from scipy.stats import norm

from dpadmm.privacy.accounting import best
from dpadmm.privacy.calibration import Budget, gaussian_multiplier, smallest
from dpadmm.privacy.events import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    PureDpEvent,
    Relation,
)
from dpadmm.privacy.filter import Bound, Cap, Charge
from dpadmm.privacy.gdp import entry, mu_of_pure
from dpadmm.privacy.units import Unit

RECORD = Unit(1, Relation.ZERO_OUT)
EPSILONS = np.linspace(0.0, 12.0, 4001)


def bounded(mu: float, delta0: float) -> Curve:
    """The curve of the pair: with probability delta0 the neighbour's name, else a Gaussian."""
    return lambda e: delta0 + (1.0 - delta0) * gaussian(mu)(e) if mu else np.maximum(delta0, -np.expm1(e))


def reversed_poisson(chance: float, noise: float) -> Curve:
    """Of the data set without the record against the one with it."""
    return lambda e: -np.expm1(e) + np.exp(e) * poisson(chance, noise)(-e)


@pytest.mark.parametrize(("chance", "noise", "delta0"), [(0.1, 1.0, 1e-6), (0.01, 0.6, 1e-7), (0.5, 3.0, 1e-8)])
def test_a_certified_pair_lies_above_the_exact_curve_and_hardly_above_it(
    chance: float, noise: float, delta0: float
) -> None:
    event = PoissonSampledDpEvent(chance, GaussianDpEvent(noise))
    mu = entry({event: 1}, Relation.ZERO_OUT, delta0)
    assert mu is not None
    curves = [poisson(chance, noise)(EPSILONS), reversed_poisson(chance, noise)(EPSILONS)]
    for curve in curves:
        assert (curve <= bounded(mu, delta0)(EPSILONS) + 1e-13).all()
    assert any((curve > bounded(0.97 * mu, delta0)(EPSILONS)).any() for curve in curves)


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 0.3, 1.0, 4.0, 20.0])
def test_a_pure_release_is_below_its_gaussian_and_no_smaller_one_will_do(epsilon: float) -> None:
    mu, at = mu_of_pure(epsilon), np.linspace(0.0, epsilon, 101)
    assert (pure(epsilon)(at) <= gaussian(mu)(at) + 1e-15).all()
    assert (pure(epsilon)(at) > gaussian(0.999 * mu)(at)).any()


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (4.0, 1e-6)])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_no_choice_of_a_second_run_exceeds_the_cap(epsilon: float, delta: float, share: float) -> None:
    """A Gaussian run, and then, by what it released, whichever run that the filter permits makes most of it."""
    cap = Cap(epsilon, delta, RECORD)
    mu1 = share * cap.mu_total
    spent, rest = Charge({GaussianDpEvent(1.0 / mu1): 1}, RECORD), cap.mu_total * math.sqrt(1 - share**2)
    # The largest of each kind: all of mu_total, all of the slack, both, and real mechanisms near them.
    exponent = next(e for e in np.linspace(3.0 * rest, 0.0, 2000) if mu_of_pure(e) <= rest * (1 - 1e-9))
    mixed = Bound(rest * (1 - 1e-9), float(cap.slack) * (1 - 1e-9))
    tallies = [
        Charge({GaussianDpEvent(1.0 / (rest * (1 - 1e-9))): 1}, RECORD),
        Charge({PureDpEvent(float(exponent)): 1}, RECORD),
        Charge({PoissonSampledDpEvent(1e-7, GaussianDpEvent(0.01)): 1}, RECORD, mixed),
    ]
    for second in tallies:
        assert cap.within(cap.total([spent, second]))
    rare = float(cap.slack) * (1 - 1e-9)
    curves = [gaussian(rest), pure(float(exponent)), bounded(rest, float(cap.slack)), poisson(rare, 0.05)]
    assert 0.85 * delta < adaptive_delta(epsilon, mu1, curves) <= delta
    # What is permitted is permitted to the last: a little more of either is refused.
    more = [Bound(mixed.mu * 1.001, mixed.delta0), Bound(mixed.mu, mixed.delta0 * 1.001)]
    for bound in more:
        assert not cap.within(cap.total([spent, Charge(tallies[2].tally, RECORD, bound)]))


def test_a_pair_for_groups_lies_above_exact_mechanisms() -> None:
    """A name told with a small chance beside a shift for each record; and mini-batches of which each record is part."""
    mu, delta0, chance, noise = 0.4, 1e-5, 0.02, 0.8
    sampled = entry({PoissonSampledDpEvent(chance, GaussianDpEvent(noise)): 1}, Relation.ZERO_OUT, 1e-6)
    assert sampled is not None
    for steps in (2, 3, 5):
        cap = Cap(1.0, 1e-3, Unit(steps, Relation.ZERO_OUT))

        def above(bound: Bound, cap: Cap = cap) -> Floats:
            cost = cap.cost(Charge({}, RECORD, bound))
            return bounded(math.sqrt(cost.mu2), float(cost.delta0))(EPSILONS)

        assert (bounded(steps * mu, delta0)(EPSILONS) <= above(Bound(mu, delta0))).all()
        # How many of the group are drawn is binomial; the exact curve by integration.
        x = np.linspace(-9.0, 9.0 + steps / noise, 20_001)
        shares = [math.comb(steps, k) * chance**k * (1 - chance) ** (steps - k) for k in range(steps + 1)]
        with_them = sum(share * norm.pdf(x, k / noise) for k, share in enumerate(shares))
        without = norm.pdf(x)
        width = x[1] - x[0]
        for first, second in ((with_them, without), (without, with_them)):
            exact = [width * np.maximum(first - math.exp(e) * second, 0.0).sum() for e in EPSILONS[::40]]
            assert (np.array(exact) <= above(Bound(sampled, 1e-6))[::40] + 1e-12).all()


def test_a_rule_for_groups_that_forgets_the_shift_of_small_chances_would_be_false() -> None:
    """Tests of level delta0 gain, too: where every step tells a name, a Gaussian one lies below the second."""
    mu, delta0 = 1.0, 1e-3
    level = norm.cdf(norm.ppf(delta0) + mu)
    cap = Cap(1.0, 0.5, Unit(2, Relation.ZERO_OUT))
    found = float(cap.cost(Charge({}, RECORD, Bound(mu, delta0))).delta0)
    assert found >= delta0 + level > 2 * delta0


def test_the_table_of_costs_is_what_the_library_says(table: Callable[..., list[dict[str, str]]]) -> None:
    rows = {row["ten runs"]: row for row in table("ledger.md", "10.6 What it costs")}
    plain: dict[DpEvent, int] = {GaussianDpEvent(gaussian_multiplier(Budget(1.0, 1e-5), 1)): 1}
    noise = smallest(lambda level: best({LaplaceDpEvent(level): 20}, 1e-5, Relation.ZERO_OUT).epsilon, 1.0)
    laplace: dict[DpEvent, int] = {LaplaceDpEvent(noise): 20}
    pure_run: dict[DpEvent, int] = {PureDpEvent(1.0): 1}
    for name, runs in (
        ("ten Gaussian", [plain] * 10),
        ("five Gaussian, five Laplace, 20 steps", [plain] * 5 + [laplace] * 5),
        ("ten pure releases of epsilon 1", [pure_run] * 10),
    ):
        shown = float(rows[name]["smallest cap"])
        for epsilon, permitted in ((shown * 1.003, True), (shown * 0.995, False)):
            cap = Cap(epsilon, 1e-5, RECORD)
            charges = [Charge(run, RECORD, cap.bound(run, RECORD)) for run in runs]
            assert cap.within(cap.total(charges)) == permitted
    fixed = best({event: 10 * count for event, count in plain.items()}, 1e-5, Relation.ZERO_OUT).epsilon
    assert f"{fixed:.2f}" == rows["ten Gaussian"]["as if fixed beforehand"]
