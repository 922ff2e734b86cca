"""The filter's sums, entries, caps and units."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from dpadmm.errors import InputError
from dpadmm.privacy import gaussian
from dpadmm.privacy.events import (
    DpEvent,
    GaussianDpEvent,
    GaussianObjectiveDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    PureDpEvent,
    Relation,
)
from dpadmm.privacy.filter import UNKNOWN, Bound, Cap, Charge
from dpadmm.privacy.units import RECORD, Unit

BLANKED = Unit(1, Relation.ZERO_OUT)
POISSON: dict[DpEvent, int] = {PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)): 5}


def test_the_cap_is_made_of_the_slack_and_of_mu_total() -> None:
    for share in (0.0, 0.1, 0.5):
        cap = Cap(2.0, 1e-5, RECORD, share)
        assert cap.slack == Fraction(1e-5) * Fraction(share)
        assert float(cap.slack) + gaussian.delta(2.0, cap.mu_total) <= 1e-5
        assert float(cap.slack) + gaussian.delta(2.0, cap.mu_total * (1 + 1e-8)) > 1e-5
    for wrong in (-0.1, 1.0, math.nan):
        with pytest.raises(InputError, match="slack_share"):
            Cap(2.0, 1e-5, RECORD, wrong)


def test_sums_do_not_drift() -> None:
    """Ten times 0.1 is more than 1 in exact arithmetic, and adding floats would say that it is less."""
    assert sum([0.1] * 10) < 1.0
    cap, tenth = Cap(1.0, 0.0), Charge({PureDpEvent(0.1): 1}, RECORD)
    assert cap.within(cap.total([tenth] * 9))
    assert not cap.within(cap.total([tenth] * 10))
    # A million small releases, one by one: floats would lose every one of them beside the first.
    cap = Cap(1.0, 1e-5)
    large, small = (Charge({GaussianDpEvent(1.0 / mu): 1}, RECORD) for mu in (cap.mu_total * (1 - 1e-13), 3e-11))
    times = Charge({GaussianDpEvent(1.0 / 3e-11): 10**9}, RECORD)
    assert cap.total([small] * 2).mu2 == 2 * cap.cost(small).mu2 > 2 * Fraction(1 / (1.0 / 3e-11)) ** 2 * (1 - 10**-9)
    assert cap.within(cap.total([large, small]))
    assert not cap.within(cap.total([large, times]))


@pytest.mark.parametrize(
    "event", [GaussianDpEvent(0.0), NonPrivateDpEvent(), PureDpEvent(math.inf), LaplaceDpEvent(0.0)]
)
def test_what_has_no_noise_costs_infinity(event: DpEvent) -> None:
    for cap in (Cap(1e6, 0.4), Cap(1e6, 0.0)):
        assert not cap.within(cap.cost(Charge({event: 1}, RECORD)))
    assert Cap(1.0, 1e-5).bound({event: 1}, RECORD) is None


def test_without_delta_pure_releases_only() -> None:
    cap = Cap(1.0, 0.0)
    assert cap.within(cap.cost(Charge({LaplaceDpEvent(4.0): 4}, RECORD)))
    assert not cap.within(cap.cost(Charge({LaplaceDpEvent(4.0): 4, PureDpEvent(1e-300): 1}, RECORD)))
    for other in ({GaussianDpEvent(1e9): 1}, POISSON):
        assert not cap.within(cap.cost(Charge(other, BLANKED)))
    assert cap.left(cap.cost(Charge({PureDpEvent(0.25): 1}, RECORD))) == 0.75


def test_a_run_enters_as_a_whole_where_that_is_cheaper_or_the_only_way() -> None:
    cap = Cap(2.0, 1e-5, BLANKED)
    assert cap.bound({GaussianDpEvent(5.0): 3}, BLANKED) is None
    assert cap.bound({PureDpEvent(0.3): 1}, BLANKED) is None
    sampled = cap.bound(POISSON, BLANKED)
    assert sampled is not None
    assert sampled.delta0 / float(cap.slack) in {2.0**-part for part in range(1, 11)}
    many: dict[DpEvent, int] = {LaplaceDpEvent(20.0): 100}
    laplace = cap.bound(many, BLANKED)
    assert laplace is not None
    assert laplace.mu**2 < 0.8 * cap.cost(Charge(many, BLANKED)).mu2
    assert cap.bound({GaussianObjectiveDpEvent(9.0, 0.1, True): 3}, BLANKED) is not None
    assert Cap(2.0, 1e-5, BLANKED, 0.0).bound(POISSON, BLANKED) is None  # nothing is set aside for them
    assert Cap(2.0, 1e-5, BLANKED, 0.0).cost(Charge(POISSON, BLANKED)) == UNKNOWN


def test_a_run_s_own_guarantee_is_its_accountant_s() -> None:
    cap = Cap(2.0, 1e-5, BLANKED)
    assert cap.alone(Charge({GaussianDpEvent(5.0): 4}, BLANKED)) == pytest.approx(
        gaussian.epsilon(0.4, 1e-5), rel=1e-12
    )
    assert 0.0 < cap.alone(Charge(POISSON, BLANKED)) < 2.0
    two = Cap(2.0, 1e-5, Unit(2, Relation.ZERO_OUT))
    assert two.alone(Charge({GaussianDpEvent(5.0): 4}, BLANKED)) == pytest.approx(
        gaussian.epsilon(0.8, 1e-5), rel=1e-12
    )
    assert two.alone(Charge(POISSON, BLANKED)) == math.inf  # no rule says what two records cost


@pytest.mark.parametrize(
    ("of_entry", "of_policy", "steps"),
    [
        (Unit(1, Relation.REPLACE), Unit(10, Relation.REPLACE), 10),
        (Unit(4, Relation.REPLACE), Unit(10, Relation.REPLACE), 3),
        (Unit(10, Relation.REPLACE), Unit(1, Relation.REPLACE), 1),
        (Unit(1, Relation.ZERO_OUT), Unit(1, Relation.REPLACE), 2),
        (Unit(2, Relation.ZERO_OUT), Unit(3, Relation.REPLACE), 4),
        (Unit(1, Relation.REPLACE), Unit(2, Relation.ZERO_OUT), 2),
    ],
)
def test_an_entry_for_another_unit_counts_for_groups(of_entry: Unit, of_policy: Unit, steps: int) -> None:
    assert of_entry.steps_to(of_policy) == steps
    cap = Cap(2.0, 1e-5, of_policy)
    cost = cap.cost(Charge({GaussianDpEvent(8.0): 2}, of_entry))
    assert float(cost.mu2) == pytest.approx(2 * steps**2 / 64, rel=1e-12)
    assert float(cap.cost(Charge({PureDpEvent(0.1): 3}, of_entry)).pure) == pytest.approx(3 * steps * 0.1, rel=1e-15)
    bound = cap.cost(Charge({}, of_entry, Bound(0.1, 1e-9)))
    assert float(bound.mu2) == pytest.approx((0.1 * steps) ** 2, rel=1e-9)
    assert (float(bound.delta0) > 1.01e-9 * steps) == (steps > 1)


def test_what_counts_for_groups_is_never_rounded_in_favour_of_the_run() -> None:
    """3 times the binary number next to 0.3 is more than the one next to 0.9: rounded to nearest, a third of all were
    counted too low in their last digit."""
    draw = random.Random(0)
    for number, steps in [(0.3, 3), (0.7, 3)] + [(draw.uniform(1e-3, 2.0), draw.randint(2, 30)) for _ in range(300)]:
        for event, exact in (
            (PureDpEvent(number), steps * Fraction(number)),
            (LaplaceDpEvent(number), steps / Fraction(number)),
        ):
            cap = Cap(1e6, 0.0, Unit(steps))
            assert exact <= cap.cost(Charge({event: 1}, RECORD)).pure <= exact * (1 + Fraction(2) ** -52)
        exact = steps**2 / Fraction(number) ** 2
        squared = Cap(1.0, 1e-5, Unit(steps)).cost(Charge({GaussianDpEvent(number): 1}, RECORD)).mu2
        assert exact <= squared <= exact * (1 + Fraction(2) ** -50)


def test_a_tightened_cap_permits_nothing_that_either_refuses() -> None:
    caps = [Cap(2.0, 1e-5), Cap(1.5, 1e-4), Cap(2.0, 1e-5, Unit(3)), Cap(2.0, 1e-5, slack_share=0.4), Cap(3.0, 0.0)]
    caps += [Cap(2.0, 1e-5, slack_share=share) for share in (0.0, 1e-12, 1.0 - 1e-9, 1.0 - 1e-12, 1.0 - 2.0**-53)]
    for one in caps:
        for other in caps:
            both = one.tightened_by(other)
            assert both.epsilon == min(one.epsilon, other.epsilon)
            assert both.unit.records == max(one.unit.records, other.unit.records)
            for each in (one, other):
                assert both.slack <= each.slack
                assert Fraction(both.delta) - both.slack <= Fraction(each.delta) - each.slack
                assert both.mu_total <= each.mu_total


def test_pure_releases_under_caps_of_which_one_has_a_delta_are_added_up() -> None:
    """Their sum is a guarantee without a delta, so it is one of either cap; the Gaussian filter alone would refuse."""
    pure, one = Cap(1.0, 0.0), Charge({PureDpEvent(0.5): 2}, RECORD)
    for both in (pure.tightened_by(Cap(1.0, 1e-5)), Cap(1.0, 1e-5).tightened_by(pure)):
        assert both.within(both.total([one]))
        assert not both.within(both.total([one, Charge({PureDpEvent(1e-9): 1}, RECORD)]))
        assert not both.within(both.total([Charge({GaussianDpEvent(1e9): 1}, RECORD)]))


def test_a_refusal_says_what_and_how_much() -> None:
    cap = Cap(1.0, 1e-5)
    much = cap.cost(Charge({GaussianDpEvent(1.0): 1}, RECORD))
    assert "would come to epsilon 4.4" in cap.why_not(much)
    assert "at delta 1e-05, 1e-06 of which is set aside; its owner allows 1 over its life" in cap.why_not(much)
    slack = cap.total([Charge(POISSON, RECORD, Bound(0.01, 6e-7))] * 2)
    assert "would take 1.2e-06 of delta" in cap.why_not(slack)
    assert "sets aside 1e-06" in cap.why_not(slack)
    assert "epsilon inf" in cap.why_not(UNKNOWN)
