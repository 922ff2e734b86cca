"""Mixtures of Gaussians, and samples of a fixed size, cost what dp_accounting, quadrature and plain simulation say."""

import functools
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution as plds
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm

from dpadmm.errors import InputError
from dpadmm.privacy import accounting, curves, gaussian, mixtures
from dpadmm.privacy.accountants import _SAMPLED_ORDERS
from dpadmm.privacy.accounting import ACCOUNTANTS, best
from dpadmm.privacy.composition import Composition
from dpadmm.privacy.events import (
    DpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    PoissonSampledDpEvent,
    PureDpEvent,
    Relation,
    SampledWithoutReplacementDpEvent,
)

SMALLEST = 1e-12
REPLACE, ZERO_OUT = Relation.REPLACE, Relation.ZERO_OUT
MIXTURES = {
    "anchor and batch": (MixtureOfGaussiansDpEvent(2.0, (0.3, 3.0), (0.9, 0.1)), 30),
    "three": (MixtureOfGaussiansDpEvent(1.5, (0.0, 1.0, 2.5), (0.6, 0.3, 0.1)), 20),
    "rare and long": (MixtureOfGaussiansDpEvent(1.0, (0.05, 4.0), (0.995, 0.005)), 50),
}
SUBSAMPLED = {
    "few of many": (PoissonSampledDpEvent(0.02, GaussianDpEvent(1.0)), 100),
    "most": (PoissonSampledDpEvent(0.7, GaussianDpEvent(4.0)), 20),
}
every_mixture = pytest.mark.parametrize(("event", "count"), MIXTURES.values(), ids=MIXTURES)
DIRECTIONS = pytest.mark.parametrize("added", [False, True], ids=["taken away", "added"])


def parts(event: DpEvent) -> tuple[np.ndarray, np.ndarray]:
    """Shifts in units of the noise, and how likely they are."""
    if isinstance(event, PoissonSampledDpEvent):
        q = event.sampling_probability
        return np.array([0.0, 1.0 / event.event.noise_multiplier]), np.array([1.0 - q, q])
    return np.array(event.sensitivities) / event.standard_deviation, np.array(event.sampling_probs)


def epsilon_of(event: DpEvent, count: int, added: bool, delta: float) -> float:
    """In one direction."""
    return curves._epsilon(*directions(event, count, delta)[added], delta)


def delta_of(event: DpEvent, count: int, added: bool, epsilon: float) -> float:
    pair = directions(event, count, SMALLEST)[added]
    return float(curves._deltas(*pair, np.array([epsilon]), math.log(SMALLEST))[0])


@functools.cache
def directions(event: DpEvent, count: int, smallest: float) -> list[tuple[Composition, Composition]]:
    return curves.LossCurve({event: count}, smallest)._directions


# -- against dp_accounting ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("event", "count"), [*MIXTURES.values(), *SUBSAMPLED.values()], ids=[*MIXTURES, *SUBSAMPLED])
def test_it_is_the_distribution_that_dp_accounting_finds(event: DpEvent, count: int) -> None:
    if isinstance(event, PoissonSampledDpEvent):
        q, z = event.sampling_probability, event.event.noise_multiplier
        theirs = plds.from_gaussian_mechanism(z, sampling_prob=q, value_discretization_interval=2e-4)
    else:
        given = event.standard_deviation, event.sensitivities, event.sampling_probs
        theirs = plds.from_mixture_gaussian_mechanism(*given, value_discretization_interval=1e-2)
    for added, times in itertools.product((False, True), (1, count)):
        other = plds.PrivacyLossDistribution(theirs._pmf_add if added else theirs._pmf_remove).self_compose(times)
        for delta in (1e-8, 1e-5, 1e-3, 1e-1):
            expected = other.get_epsilon_for_delta(delta)
            assert epsilon_of(event, times, added, delta) == pytest.approx(expected, rel=1e-2, abs=2e-4)
        for epsilon in (0.1, 1.0):
            expected = other.get_delta_for_epsilon(epsilon)
            assert delta_of(event, times, added, epsilon) == pytest.approx(expected, rel=1e-2, abs=2e-4)


@every_mixture
def test_the_accountant_takes_the_worse_direction(event: DpEvent, count: int) -> None:
    for delta in (1e-7, 1e-4):
        both = [epsilon_of(event, count, added, delta) for added in (False, True)]
        assert min(both) < max(both) == ACCOUNTANTS["pld"].epsilon({event: count}, delta, ZERO_OUT)


# -- against what a mixture is -----------------------------------------------------------------------------------------


@DIRECTIONS
@every_mixture
def test_the_delta_of_one_step_is_the_integral_it_stands_for(event: DpEvent, count: int, added: bool) -> None:
    shifts, shares = parts(event)
    x, width = np.linspace(-12.0, 12.0 + shifts.max(), 2_000_001, retstep=True)
    alone, mixed = norm.pdf(x), norm.pdf(np.subtract.outer(x, shifts)) @ shares
    upper, lower = (alone, mixed) if added else (mixed, alone)
    for epsilon in (0.0, 0.05, 0.5, 2.0):
        area = float(np.maximum(upper - math.exp(epsilon) * lower, 0.0).sum() * width)
        assert delta_of(event, 1, added, epsilon) == pytest.approx(area, rel=2e-4, abs=1e-10)
    assert delta_of(event, 1, added, 0.0) > 1e-3


def simulated_deltas(
    draw: Callable[[], np.ndarray], steps: int, epsilons: tuple[float, ...]
) -> Iterator[tuple[float, float, float]]:
    """(epsilon, delta, standard error) by simulation: E[(1 - e^(epsilon - L))+] over the sum L of all steps' losses."""
    total = sum(draw() for _ in range(steps))
    for epsilon in epsilons:
        excess = np.maximum(-np.expm1(epsilon - total), 0.0)
        yield epsilon, float(excess.mean()), float(excess.std() / math.sqrt(excess.size))


RUNS = 60_000


@DIRECTIONS
@every_mixture
def test_composed_steps_cost_what_a_simulation_of_them_shows(event: DpEvent, count: int, added: bool) -> None:
    shifts, shares = parts(event)
    rng = np.random.default_rng(5)

    def losses() -> np.ndarray:
        x = rng.standard_normal(RUNS)
        if not added:
            x = x + rng.choice(shifts, size=RUNS, p=shares)
        loss = logsumexp(np.multiply.outer(x, shifts) - 0.5 * shifts**2, axis=1, b=shares)
        return -loss if added else loss

    seen = list(simulated_deltas(losses, count, (0.1, 0.5, 1.0, 2.0)))
    assert seen[1][1] > 20 * seen[1][2]  # the bands are narrow where it matters
    for epsilon, delta, error in seen:
        found = delta_of(event, count, added, epsilon)
        assert found == pytest.approx(delta, abs=5 * error + 1e-6, rel=2e-3)


@DIRECTIONS
@every_mixture
def test_vectors_of_those_lengths_cost_no_more_in_any_direction(event: DpEvent, count: int, added: bool) -> None:
    """In three dimensions, every step with directions of its own: the line is the worst case."""
    lengths, shares = parts(event)
    rng = np.random.default_rng(6)

    def losses(spread: float) -> np.ndarray:
        towards = np.array([1.0, 0.0, 0.0]) + spread * rng.standard_normal((lengths.size, 3))
        shifts = lengths[:, None] * towards / np.linalg.norm(towards, axis=1, keepdims=True)
        x = rng.standard_normal((RUNS // 3, 3))
        if not added:
            x = x + shifts[rng.choice(lengths.size, size=RUNS // 3, p=shares)]
        loss = logsumexp(x @ shifts.T - 0.5 * lengths**2, axis=1, b=shares)
        return -loss if added else loss

    epsilons = (0.1, 0.5, 1.0)
    scattered = list(simulated_deltas(lambda: losses(3.0), count, epsilons))
    for epsilon, delta, error in scattered:
        assert delta - 5 * error <= delta_of(event, count, added, epsilon)
    for epsilon, delta, error in simulated_deltas(lambda: losses(0.0), count, epsilons):
        assert delta == pytest.approx(delta_of(event, count, added, epsilon), abs=5 * error + 1e-6, rel=5e-3)


def rarely_taken_away(epsilon: float, share: float, shift: float) -> float:
    """The exact delta of a subsampled Gaussian, share delta_0(ln(1 + (e^epsilon - 1)/share)), without e^epsilon."""
    return share * gaussian.delta(epsilon + math.log1p((share - 1.0) * math.exp(-epsilon)) - math.log(share), shift)


@pytest.mark.parametrize("share", [1e-4, 0.1, 0.999])
@pytest.mark.parametrize("shift", [20.0, 40.0, 100.0, 8000.0])
def test_epsilon_is_right_where_losses_are_beyond_any_exponential(share: float, shift: float) -> None:
    event = PoissonSampledDpEvent(share, GaussianDpEvent(1.0 / shift))
    for epsilon in mixtures.Mixture(event).loss(shift + np.linspace(-3.0, 5.0, 5)).tolist():
        delta = rarely_taken_away(epsilon, share, shift)
        assert epsilon <= ACCOUNTANTS["pld"].epsilon({event: 1}, delta, ZERO_OUT) <= epsilon * 1.0001


@pytest.mark.parametrize("share", [0.1, 0.9])
@pytest.mark.parametrize("epsilon", [800.0, 900.0])
def test_where_losses_are_large_epsilon_is_hardly_above_the_exact_one(share: float, epsilon: float) -> None:
    event, delta = PoissonSampledDpEvent(share, GaussianDpEvent(1.0 / 40.0)), rarely_taken_away(epsilon, share, 40.0)
    assert epsilon <= ACCOUNTANTS["pld"].epsilon({event: 1}, delta, ZERO_OUT) <= 1.0001 * epsilon


def test_more_noise_costs_less() -> None:
    events = [MixtureOfGaussiansDpEvent(scale, (1.0, 20.0), (0.95, 0.05)) for scale in (5.0, 6.0, 10.0, 30.0, 100.0)]
    costs = [best({event: 40}, 1e-5, ZERO_OUT).epsilon for event in events]
    assert all(after < before for before, after in itertools.pairwise(costs))
    assert costs[-1] > 0.0


def test_what_is_always_drawn_is_a_gaussian_and_what_never_is_costs_nothing() -> None:
    plain = gaussian.epsilon(math.sqrt(20) / 4.0, 1e-5)
    always = PoissonSampledDpEvent(1.0 - 1e-13, GaussianDpEvent(4.0))
    assert best({always: 20}, 1e-5, ZERO_OUT).epsilon == pytest.approx(plain, rel=1e-3)
    both_alike = MixtureOfGaussiansDpEvent(4.0, (1.0, 1.0), (0.3, 0.7))
    assert best({both_alike: 20}, 1e-5, ZERO_OUT).epsilon == pytest.approx(plain, rel=1e-3)
    second_never = MixtureOfGaussiansDpEvent(4.0, (1.0, 50.0), (1.0, 0.0))
    assert best({second_never: 20}, 1e-5, ZERO_OUT).epsilon == pytest.approx(plain, rel=1e-3)
    never = PoissonSampledDpEvent(0.0, GaussianDpEvent(4.0))
    assert best({never: 20}, 1e-5, ZERO_OUT).epsilon == 0.0
    nowhere = MixtureOfGaussiansDpEvent(4.0, (0.0, 0.0), (0.5, 0.5))
    assert best({nowhere: 20}, 1e-5, ZERO_OUT).epsilon == 0.0
    assert best({nowhere: 20, GaussianDpEvent(4.0): 20}, 1e-5, ZERO_OUT).epsilon == pytest.approx(plain, rel=1e-3)


def test_a_mixture_without_noise_is_no_privacy() -> None:
    assert best({MixtureOfGaussiansDpEvent(0.0, (0.0, 1.0), (0.5, 0.5)): 1}, 1e-5, ZERO_OUT).epsilon == math.inf


@st.composite
def some_mixture(draw: st.DrawFn) -> mixtures.Mixture:
    size = draw(st.integers(1, 4))
    shifts = draw(st.lists(st.floats(0.01, 30.0), min_size=size, max_size=size))
    if size > 1 and draw(st.booleans()):
        shifts[0] = 0.0
    weights = np.array(draw(st.lists(st.floats(0.001, 1.0), min_size=size, max_size=size)))
    shares = weights / weights.sum()
    shares[-1] = 1.0 - shares[:-1].sum()
    return mixtures.Mixture(MixtureOfGaussiansDpEvent(1.0, tuple(shifts), tuple(shares.tolist())))


@settings(max_examples=150, deadline=None)
@given(some_mixture(), st.lists(st.floats(-60.0, 60.0), min_size=1, max_size=20))
def test_where_inverts_the_loss(mixture: mixtures.Mixture, losses: list[float]) -> None:
    asked = np.array(losses)
    still = mixture.shares[mixture.shifts == 0.0].sum()
    floor = math.log(still) if still > 0 else -math.inf
    places = mixture.where(asked)
    below = asked <= floor
    assert (places[below] == -math.inf).all()
    reached = asked[~below & (asked > floor + 1e-9)]
    found = mixture.loss(mixture.where(reached))
    np.testing.assert_allclose(found, reached, rtol=1e-9, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(some_mixture(), st.floats(1e-3, 0.5))
def test_laws_of_losses_are_laws_and_each_direction_is_the_other_s_mirror(
    mixture: mixtures.Mixture, interval: float
) -> None:
    ends = mixture.ends(-40.0, 60.0)
    removed, added = mixture.losses(interval, ends)
    for law in (removed, added):
        assert law.masses.min() >= 0.0
        assert 1.0 - 1e-12 <= law.masses.sum() + law.certain < 1.0 + 1e-9
    # The mean of e^-L is what the other side has where this one has anything: at most 1, for no loss is too small.
    for law in (removed, added):
        places = law.first + interval * np.arange(law.masses.size)
        assert float((law.masses * np.exp(-places)).sum()) <= 1.0 + 1e-9


# -- samples of a fixed size, relations, and what is kept --------------------------------------------------------------

ONE_OF_MANY = SampledWithoutReplacementDpEvent(200, 1, GaussianDpEvent(1.5))
MIXED = MixtureOfGaussiansDpEvent(3.0, (1.0, 10.0), (0.9, 0.1))
POISSON = PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0))


def test_renyi_composition_of_samples_of_a_fixed_size_is_dp_accounting_s() -> None:
    plain = GaussianDpEvent(9.0)
    for count, delta in ((50, 1e-5), (2000, 1e-3)):
        theirs = RdpAccountant(_SAMPLED_ORDERS, NeighboringRelation.REPLACE_ONE).compose(ONE_OF_MANY, count)
        found = ACCOUNTANTS["rdp"].epsilon({ONE_OF_MANY: count}, delta, REPLACE)
        assert found == pytest.approx(theirs.get_epsilon(delta), rel=1e-6)
        theirs.compose(plain, 7)
        more = ACCOUNTANTS["rdp"].epsilon({ONE_OF_MANY: count, plain: 7}, delta, REPLACE)
        assert more == pytest.approx(theirs.get_epsilon(delta), rel=1e-6)
        assert more > found > 0.0


@pytest.mark.parametrize(("count", "delta"), [(50, 1e-5), (2000, 1e-3)])
def test_by_privacy_loss_distributions_a_sample_of_a_fixed_size_costs_less_but_no_less_than_coins(
    count: int, delta: float
) -> None:
    """Both neighbours may hold the record, so no less than Poisson by its worse direction."""
    found = best({ONE_OF_MANY: count}, delta, REPLACE)
    coins = best({PoissonSampledDpEvent(1 / 200, ONE_OF_MANY.event): count}, delta, ZERO_OUT).epsilon
    assert found.accountant == "pld"
    assert coins * (1 - 1e-6) <= found.epsilon < ACCOUNTANTS["rdp"].epsilon({ONE_OF_MANY: count}, delta, REPLACE)


@pytest.mark.parametrize(("size", "scale", "steps"), [(1, 1.0, 20), (5, 2.0, 30)])
def test_records_that_differ_as_much_as_they_can_are_within_the_account(size: int, scale: float, steps: int) -> None:
    """The old value, the new one and everybody else's, pairwise one sensitivity apart in the plane."""
    event, share = SampledWithoutReplacementDpEvent(20, size, GaussianDpEvent(scale)), size / 20
    others, old, new = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(0.75)]]) / scale
    rng = np.random.default_rng(7)

    def losses() -> np.ndarray:
        x = rng.standard_normal((RUNS, 2)) + np.where(rng.random((RUNS, 1)) < share, old, others)
        here, there = (share * np.exp(x @ value - 0.5 * value @ value) + 1.0 - share for value in (old, new))
        return np.log(here / there)

    for epsilon, delta, error in simulated_deltas(losses, steps, (0.1, 0.5, 1.0, 2.0)):
        allowed = delta_of(event, steps, False, epsilon)
        assert delta - 5 * error <= allowed
        assert allowed < 10 * delta


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_a_sample_of_a_fixed_size_is_amplified_as_joint_convexity_says(epsilon: float) -> None:
    """delta = q delta_0(ln(1 + (e^epsilon - 1)/q)) with the Gaussian's own delta_0; swapped likewise."""
    share, mu = 1 / 200, 1 / 1.5
    stretched = math.log1p(math.expm1(epsilon) / share)
    expected = share * gaussian.delta(stretched, mu)
    assert delta_of(ONE_OF_MANY, 1, False, epsilon) == pytest.approx(expected, rel=1e-4, abs=1e-12)
    swapped = -math.expm1(-epsilon) + math.exp(-epsilon) * expected
    mixture, interval = mixtures.Mixture(ONE_OF_MANY), 1e-3
    law = mixture.symmetric_losses(interval, mixture.ends(-40.0, math.inf))
    losses = law.first + interval * np.arange(law.masses.size)
    assert float(law.masses @ np.maximum(-np.expm1(-epsilon - losses), 0.0)) == pytest.approx(swapped, rel=1e-4)


def test_a_sample_of_fixed_size_without_noise_is_no_privacy() -> None:
    bare = SampledWithoutReplacementDpEvent(200, 1, GaussianDpEvent(0.0))
    assert best({bare: 1}, 1e-5, REPLACE).epsilon == math.inf


@pytest.mark.parametrize("name", ["exact", "pure", "pure+gaussian", "zcdp"])
def test_plain_accountants_do_not_know_samples_of_a_fixed_size(name: str) -> None:
    assert not ACCOUNTANTS[name].supports({ONE_OF_MANY: 1})
    with pytest.raises(InputError, match="cannot account for"):
        ACCOUNTANTS[name].epsilon({ONE_OF_MANY: 1}, 1e-5, REPLACE)


def test_sampled_pure_noise_is_nobody_s() -> None:
    for wrapped in (PoissonSampledDpEvent(0.1, PureDpEvent(0.1)), SampledWithoutReplacementDpEvent(9, 1, MIXED)):
        assert not any(accountant.supports({wrapped: 1}) for accountant in ACCOUNTANTS.values())


@pytest.mark.parametrize(
    ("event", "only", "other"),
    [(ONE_OF_MANY, REPLACE, ZERO_OUT), (MIXED, ZERO_OUT, REPLACE), (POISSON, ZERO_OUT, REPLACE)],
    ids=["fixed size", "mixture", "poisson"],
)
def test_a_kind_of_sampling_is_accounted_for_under_one_relation_only(
    event: DpEvent, only: Relation, other: Relation
) -> None:
    for tally in ({event: 3}, {GaussianDpEvent(5.0): 2, event: 1}):
        assert 0.0 < best(tally, 1e-5, only).epsilon < math.inf
        with pytest.raises(InputError, match=f"under {only} only, not under {other}"):
            best(tally, 1e-5, other)


@pytest.mark.parametrize("relation", list(Relation), ids=str)
def test_two_kinds_of_sampling_in_one_account_have_no_relation_in_common(relation: Relation) -> None:
    with pytest.raises(InputError, match="only, not under"):
        best({ONE_OF_MANY: 1, MIXED: 1}, 1e-5, relation)


def test_what_is_kept_of_one_account_is_never_another_s() -> None:
    accounting._kept.cache_clear()
    tallies = [{MIXED: 3}, {MIXED: 4}, {POISSON: 3}, {MIXED: 3, POISSON: 3}]
    asked = [(tally, delta) for tally in tallies for delta in (1e-5, 1e-3)]
    first = [best(tally, delta, ZERO_OUT).epsilon for tally, delta in asked]
    assert len(set(first)) == len(asked)
    assert accounting._kept.cache_info().misses == len(asked)
    again = [best(dict(reversed(tally.items())), delta, ZERO_OUT).epsilon for tally, delta in reversed(asked)]
    assert accounting._kept.cache_info().hits == len(asked)
    assert again == first[::-1]
    for (tally, delta), epsilon in zip(asked, first, strict=True):
        assert ACCOUNTANTS["pld"].epsilon(tally, delta, ZERO_OUT) == pytest.approx(epsilon, rel=1e-9)
        with pytest.raises(InputError, match="zero-out only"):
            best(tally, delta, REPLACE)
    assert best({ONE_OF_MANY: 50}, 1e-5, REPLACE).epsilon != best({ONE_OF_MANY: 51}, 1e-5, REPLACE).epsilon
