"""The worst of linked shifts: no pair of slopes has a higher curve, and some pair has one that is hardly lower."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from dpadmm.privacy.accounting import best, deltas
from dpadmm.privacy.events import (
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    PoissonSampledDpEvent,
    Relation,
    VarianceReducedDpEvent,
    event_from_dict,
    event_to_dict,
)
from dpadmm.privacy.filter import Cap
from dpadmm.privacy.linked import Linked
from dpadmm.privacy.regions import of_pair
from dpadmm.privacy.units import Unit, for_groups

ZERO_OUT = Relation.ZERO_OUT
UNIT = Unit(relation=ZERO_OUT)
EPSILONS = np.array([-3.0, -0.5, -0.05, -0.009, -0.002, -1e-4, 0.0, 1e-5, 1e-3, 0.01, 0.1, 0.5, 2.0])
CASES = [
    VarianceReducedDpEvent(350.0, 0.0094, True),
    VarianceReducedDpEvent(430.0, 0.0094, False),
    VarianceReducedDpEvent(330.0, 0.075, False),
    VarianceReducedDpEvent(20.0, 0.05, True, 0.2),
    VarianceReducedDpEvent(20.0, 0.05, False, 0.7),
    VarianceReducedDpEvent(20.0, 0.05, False, 1.4),
    VarianceReducedDpEvent(2.0, 0.3, True),
    VarianceReducedDpEvent(2.0, 0.3, False),
    VarianceReducedDpEvent(1.0, 0.7, False),
    VarianceReducedDpEvent(1.5, 0.9, True, 0.5),
    VarianceReducedDpEvent(50.0, 0.002, False),
]
every_case = pytest.mark.parametrize("event", CASES, ids=str)


def delta_of(rate, u, v, epsilons):
    """The hockey-stick divergence of one pair, in closed form."""
    regions = of_pair(rate, u, v, epsilons)
    return regions.outside(rate)[0] - np.exp(epsilons) * regions.outside()[0]


def slopes(event, count=41):
    """Pairs of slopes on a grid, the corners of their range among them."""
    least = 0.0 if event.one_sided else -1.0
    for p2 in np.linspace(least, 1.0, count):
        low, high = max(least, p2 - event.change), min(1.0, p2 + event.change)
        for p1 in np.linspace(low, high, 9):
            yield p1, p2


@every_case
def test_no_pair_of_slopes_has_a_higher_curve_and_some_pair_nearly_reaches_it(event):
    q, scale = event.sampling_probability, event.noise_multiplier
    highest = np.zeros(EPSILONS.size)
    for p1, p2 in slopes(event):
        found = delta_of(q, p2 / scale, (p1 - (1.0 - q) * p2) / (q * scale), EPSILONS)
        highest = np.maximum(highest, found)
    regions = Linked(event).worst(EPSILONS)
    curve = regions.outside(q)[0] - np.exp(EPSILONS) * regions.outside()[0]
    above = -np.expm1(np.minimum(EPSILONS, 0.0))  # the least that a curve can be
    assert (curve >= highest - 1e-14).all()
    assert (curve - above <= (highest - above) * 1.03 + 1e-12).all()


@every_case
def test_the_law_on_the_grid_is_above_the_curve_in_both_directions(event):
    pair = Linked(event)
    ends = pair.ends(math.log(1e-14), math.inf)
    interval = (ends[1] - ends[0]) / 3000
    q, knots = event.sampling_probability, np.linspace(0.9 * ends[0], 0.5 * ends[1], 300)
    regions = pair.worst(knots)
    curves = (
        regions.outside(q)[0] - np.exp(knots) * regions.outside()[0],
        regions.inside()[0] - np.exp(-knots) * regions.inside(q)[0],
    )
    for losses, curve, levels in zip(pair.losses(interval, ends), curves, (knots, -knots), strict=True):
        places = losses.first + interval * np.arange(losses.masses.size)
        gains = -np.expm1(np.minimum(levels[:, None] - places, 0.0))
        law = gains @ losses.masses + losses.certain
        assert (law >= curve - 1e-15).all()
        assert interval > 0.01 or (law <= curve * 1.02 + 1e-7).all()
        assert losses.masses.min() >= 0.0
        assert losses.masses.sum() + losses.certain >= 1.0


def test_pairs_are_where_the_densities_cross():
    rate, u, v = 0.2, -0.4, 1.5
    levels = np.array([-0.05, 0.0, 0.3, 2.0])
    regions = of_pair(rate, u, v, levels)
    for edge in (regions.left, regions.right):
        ratio = (1 - rate) * np.exp(u * edge - u * u / 2) + rate * np.exp(v * edge - v * v / 2)
        np.testing.assert_allclose(np.log(ratio), levels, atol=1e-10)
    inside, outside = regions.inside(rate)[0], regions.outside(rate)[0]
    np.testing.assert_allclose(inside + outside, 1.0, atol=1e-14)
    both = (1 - rate) * ndtr(regions.right - u) + rate * ndtr(regions.right - v)
    both -= (1 - rate) * ndtr(regions.left - u) + rate * ndtr(regions.left - v)
    np.testing.assert_allclose(inside, both, atol=1e-14)


def test_where_every_record_is_drawn_a_step_is_a_gaussian():
    event, gaussian = VarianceReducedDpEvent(30.0, 1.0, True), GaussianDpEvent(30.0)
    found = best({event: 100}, 1e-5, ZERO_OUT).epsilon
    exact = best({gaussian: 100}, 1e-5, ZERO_OUT).epsilon
    assert exact <= found <= 1.001 * exact


@pytest.mark.parametrize("one_sided", [True, False])
def test_a_step_costs_no_less_than_pairs_of_the_family_and_less_than_lengths_that_add_up(one_sided):
    q, scale, steps = 0.01, 200.0, 500
    found = best({VarianceReducedDpEvent(scale, q, one_sided): steps}, 1e-5, ZERO_OUT).epsilon
    below = {GaussianDpEvent(scale): steps}, {PoissonSampledDpEvent(q, GaussianDpEvent(scale * q)): steps}
    assert all(best(each, 1e-5, ZERO_OUT).epsilon <= found for each in below)
    lengths = MixtureOfGaussiansDpEvent(scale, (1.0, (1.0 if one_sided else 2.0) / q), (1.0 - q, q))
    assert found < 0.85 * best({lengths: steps}, 1e-5, ZERO_OUT).epsilon


def test_a_shorter_change_costs_less():
    costs = [
        best({VarianceReducedDpEvent(50.0, 0.02, False, change): 50}, 1e-5, ZERO_OUT).epsilon
        for change in (0.05, 0.5, 1.0, 2.0)
    ]
    assert costs == sorted(costs)
    assert costs[0] < 0.9 * costs[-1]


def test_several_directions_cost_a_gaussian_release_more():
    """Slopes in the plane, by quadrature: what is orthogonal to their difference shifts drawn and undrawn alike."""
    q, scale, rng = 0.1, 8.0, np.random.default_rng(0)
    grid, weights = np.polynomial.hermite_e.hermegauss(90)
    first, second = np.meshgrid(grid, grid, indexing="ij")
    mass = np.multiply.outer(weights, weights) / (2.0 * math.pi)
    epsilons = np.array([0.0, 0.02, 0.1, 0.3])
    bound = deltas({VarianceReducedDpEvent(scale, q, False): 1, GaussianDpEvent(scale): 1}, epsilons, ZERO_OUT)
    closest = np.inf
    for turn in np.concatenate([np.linspace(0.0, math.pi, 13), rng.uniform(0.0, math.pi, 12)]):
        p1, p2 = np.array([1.0, 0.0]), np.array([math.cos(turn), math.sin(turn)])
        undrawn, drawn = p2 / scale, (p1 - (1.0 - q) * p2) / (q * scale)
        ratio = sum(
            share * np.exp(shift[0] * first + shift[1] * second - 0.5 * shift @ shift)
            for share, shift in ((1.0 - q, undrawn), (q, drawn))
        )
        for epsilon, limit in zip(epsilons, bound, strict=True):
            removed = (mass * np.maximum(ratio - math.exp(epsilon), 0.0)).sum()
            added = (mass * np.maximum(1.0 - math.exp(epsilon) * ratio, 0.0)).sum()
            assert max(removed, added) <= limit + 1e-4  # of the quadrature, at the kink
            closest = min(closest, limit / max(removed, 1e-12))
    assert closest < 2.0


def test_the_filter_takes_a_run_of_such_steps_by_mu_and_delta0():
    tally = {VarianceReducedDpEvent(200.0, 0.02, True): 200}
    cap = Cap(2.0, 1e-5, UNIT)
    bound = cap.bound(tally, UNIT)
    assert bound is not None
    assert 0.0 < bound.mu < 1.0
    assert bound.delta0 <= float(cap.slack)
    assert for_groups(tally, 2) is None


def test_it_is_kept_in_a_ledger_and_read_back():
    event = VarianceReducedDpEvent(123.456, 0.01, True, 0.3)
    assert event_from_dict(event_to_dict(event)) == event
    for wrong in ({"sampling_probability": 0.0}, {"sampling_probability": 1.5}, {"change": 0.0}):
        with pytest.raises(ValueError, match="must be"):
            VarianceReducedDpEvent(**{"noise_multiplier": 1.0, "sampling_probability": 0.5, "one_sided": True} | wrong)
