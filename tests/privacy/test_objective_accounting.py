"""Gaussian objective perturbation: every bound against exact densities, and where it is attained."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import expit, gammaln, i0e, log_ndtr, logsumexp

from dpadmm.errors import InputError
from dpadmm.privacy import gaussian, objective
from dpadmm.privacy.accountants import _is_bare
from dpadmm.privacy.accounting import ACCOUNTANTS, best
from dpadmm.privacy.calibration import smallest
from dpadmm.privacy.events import (
    DpEvent,
    GaussianDpEvent,
    GaussianObjectiveDpEvent,
    LaplaceDpEvent,
    MixtureOfGaussiansDpEvent,
    PoissonSampledDpEvent,
    PureDpEvent,
    Relation,
    SampledWithoutReplacementDpEvent,
    event_from_dict,
    event_to_dict,
)

Array = NDArray[np.float64]
REPLACE, ZERO_OUT = Relation.REPLACE, Relation.ZERO_OUT
KAPPAS = [0.01, 0.1, 0.5, 0.83, 2.0]
SHIFTS = [0.02, 0.2, 1.0]
ORDERS = np.array([1.3, 2.0, 5.0, 20.0])
CURVATURE = 0.25
DELTA = 1e-5


@dataclass(frozen=True)
class Loss:
    """A loss of the margin by its slope (at most 1) and its curvature (at most 1/4), smooth but for the kinks."""

    slope: Callable[[Array], Array]
    bend: Callable[[Array], Array]
    one_sided: bool
    kinks: Sequence[float] = tuple(range(-80, 81, 4))  # or where a quadrature had better look twice


def piecewise(knots: Array, slopes: Array) -> Loss:
    rates = np.concatenate([[0.0], np.diff(slopes) / np.diff(knots), [0.0]])
    return Loss(
        lambda z: np.interp(z, knots, slopes),
        lambda z: rates[np.searchsorted(knots, z)],
        bool(slopes[0] >= 0.0 or slopes[-1] <= 0.0),
        list(knots),
    )


LOGISTIC = Loss(lambda z: -expit(-z), lambda z: expit(z) * expit(-z), True)
HINGE = piecewise(np.array([-2.0, 2.0]), np.array([-1.0, 0.0]))
HUBER = piecewise(np.array([-4.0, 4.0]), np.array([-1.0, 1.0]))
CURVED = Loss(lambda z: np.tanh(z / 4.0), lambda z: 0.25 / np.cosh(np.clip(z / 4.0, -300, 300)) ** 2, False)
LOSSES = {"logistic": LOGISTIC, "hinge": HINGE, "huber": HUBER, "curved": CURVED}

Records = Sequence[tuple[Loss, float] | None]
"""Neighbours: each a loss and the record's feature, or None for a record that is absent."""


def densities(
    records: Records, shift: float, kappa: float, offset: float, reach: float, panel: float = 0.2
) -> tuple[Array, list[Array]]:
    """Weights of a quadrature over the minimiser, and the exact log densities there; sigma = 1, one dimension."""
    strength = shift * CURVATURE / kappa  # lambda_m: of a quadratic, which is all there is besides the record
    stops = {-offset - strength * k / a for found in records if found for loss, a in [found] for k in loss.kinks}
    edges = [-reach, *sorted(stop for stop in stops if -reach < stop < reach), reach]
    nodes, weights = np.polynomial.legendre.leggauss(10)
    places, sizes = [], []
    for low, high in itertools.pairwise(edges):
        grid = np.linspace(low, high, 2 + int((high - low) / panel))
        half = 0.5 * np.diff(grid)[:, None]
        places.append((0.5 * (grid[1:] + grid[:-1])[:, None] + half * nodes).ravel())
        sizes.append((half * weights).ravel())
    absent, size = np.concatenate(places), np.concatenate(sizes)  # the noise without any record names the minimiser
    x = -(absent + offset) / strength
    logs = []
    for found in records:
        noise, determinant = absent, np.ones_like(absent)
        if found is not None:
            loss, a = found
            noise = absent - shift * a * loss.slope(a * x)
            determinant = 1.0 + shift / strength * a * a * loss.bend(a * x)
        logs.append(-0.5 * noise**2 + np.log(determinant) - 0.5 * math.log(2.0 * math.pi))
    assert all(abs(size @ np.exp(log) - 1.0) < 1e-9 for log in logs)
    return size, logs


def renyi(size: Array, p: Array, q: Array, orders: Array) -> Array:
    powers = orders[:, None] * p + (1.0 - orders[:, None]) * q
    return logsumexp(powers, b=size, axis=1) / (orders - 1.0)


def hockey_stick(size: Array, p: Array, q: Array, epsilon: float) -> float:
    return float(size @ np.maximum(np.exp(p) - np.exp(epsilon + q), 0.0))


def both_ways(records: Records, shift: float, kappa: float, offset: float, orders: Array = ORDERS) -> Array:
    """Exact Rényi divergences, (2, orders); in the direction removed, then added, if the second record is absent."""
    reach = 14.0 + 2.5 * float(orders.max()) * shift
    size, (p, q) = densities(records, shift, kappa, offset, reach)
    return np.stack([renyi(size, p, q, orders), renyi(size, q, p, orders)])


def offsets(shift: float, orders: Array = ORDERS) -> Array:
    far = 4.0 + float(orders.max()) * shift
    return np.array([-far, -0.5 * far, -2.0, -0.7, 0.0, 0.3, 1.4, 3.0, 0.5 * far, far])


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("kappa", KAPPAS)
class TestExactDensities:
    @pytest.mark.parametrize("name", LOSSES)
    def test_a_record_zeroed_out(self, name: str, kappa: float, shift: float) -> None:
        loss = LOSSES[name]
        bound = objective.rdp(ORDERS, 1.0 / shift, kappa, ZERO_OUT, loss.one_sided)
        claimed = {d: objective.single_epsilon(1.0 / shift, kappa, loss.one_sided, d, ZERO_OUT) for d in (1e-2, 1e-6)}
        for offset in offsets(shift):
            assert np.all(both_ways([(loss, 1.0), None], shift, kappa, offset) <= bound * (1.0 + 1e-9))
            size, (p, q) = densities([(loss, 1.0), None], shift, kappa, offset, 14.0 + 2.0 * shift, 0.05)
            for delta, epsilon in claimed.items():
                assert max(hockey_stick(size, p, q, epsilon), hockey_stick(size, q, p, epsilon)) <= delta

    @pytest.mark.parametrize("name", LOSSES)
    @pytest.mark.parametrize("other", [-1.0, 1.0, -0.4])
    def test_a_record_replaced(self, name: str, other: float, kappa: float, shift: float) -> None:
        loss = LOSSES[name]
        bound = objective.rdp(ORDERS, 0.5 / shift, kappa, REPLACE, loss.one_sided)
        claimed = {d: objective.single_epsilon(0.5 / shift, kappa, loss.one_sided, d, REPLACE) for d in (1e-2, 1e-6)}
        for offset in offsets(shift)[::3]:
            records: Records = [(loss, 1.0), (loss, other)]
            assert np.all(both_ways(records, shift, kappa, offset) <= bound * (1.0 + 1e-9))
            size, (p, q) = densities(records, shift, kappa, offset, 14.0 + 4.0 * shift, 0.05)
            for delta, epsilon in claimed.items():
                assert max(hockey_stick(size, p, q, epsilon), hockey_stick(size, q, p, epsilon)) <= delta

    def test_any_loss_at_all(self, kappa: float, shift: float) -> None:
        random = np.random.default_rng(round(1e3 * (kappa + 10 * shift)))
        for _ in range(12):
            knots = np.cumsum(np.exp(random.normal(0.0, 1.5, 8)))
            rates = CURVATURE * random.beta(0.3, 0.3, 7)
            slopes = np.clip(np.concatenate([[-1.0], -1.0 + np.cumsum(rates * np.diff(knots))]), -1.0, 1.0)
            if random.random() < 0.5:
                slopes = np.minimum(slopes, 0.0)
            loss = piecewise(knots - random.choice(knots), slopes)
            bound = objective.rdp(ORDERS, 1.0 / shift, kappa, ZERO_OUT, loss.one_sided)
            exact = both_ways([(loss, 1.0), None], shift, kappa, random.normal(0.0, 2.0))
            assert np.all(exact <= bound * (1.0 + 1e-9))


def check_attained(loss: Loss, removed: bool, shift: float, kappa: float, order: float) -> None:
    """The supremum over public offsets is the bound itself, not only below it."""
    orders, way = np.array([order]), 0 if removed else 1

    def exact(offset: float) -> float:
        return float(both_ways([(loss, 1.0), None], shift, kappa, offset, orders)[way, 0])

    far = shift / kappa + order * shift + 9.0
    starts = np.linspace(-far, far, 41)
    at = starts[int(np.argmax([exact(start) for start in starts]))]
    step = starts[1] - starts[0]
    found = minimize_scalar(lambda offset: -exact(offset), bounds=(at - step, at + step), method="bounded")
    claimed = objective._removed_and_added(orders - 1.0, orders - 1.0, shift, kappa, loss.one_sided)[way][0]
    assert -found.fun == pytest.approx(claimed, rel=1e-6)
    assert claimed <= objective.rdp(orders, 1.0 / shift, kappa, ZERO_OUT, loss.one_sided)[0] * (1.0 + 1e-12)


@pytest.mark.parametrize("name", ["huber", "hinge"])
@pytest.mark.parametrize("removed", [True, False])
def test_zero_out_is_attained_in_either_direction(name: str, removed: bool) -> None:
    random = np.random.default_rng(5)
    for _ in range(12):
        shift, kappa, order = np.exp(random.uniform(np.log([0.02, 0.03, 1.2]), np.log([1.0, 3.0, 25.0])))
        check_attained(LOSSES[name], removed, shift, kappa, order)


@pytest.mark.parametrize("bend", [-0.04, -1e-6, 0.0, 1e-6, 0.04])
def test_where_the_ramp_neither_humps_nor_sags(bend: float) -> None:
    kappa = 0.05
    check_attained(HUBER, False, 0.05, kappa, 1.0 + (1.0 - bend) / (2.0 * kappa + kappa**2))


def test_the_ramp_is_found_in_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for the noise asks for hundreds of curves."""
    steps, places = [], objective._Ramp._places
    monkeypatch.setattr(objective._Ramp, "_places", lambda self, centre: (steps.append(1), places(self, centre))[1])
    for shift, kappa, one_sided in itertools.product((0.01, 0.1, 1.0), KAPPAS, (True, False)):
        steps.clear()
        objective.rdp(np.array(objective.ORDERS), 1.0 / shift, kappa, ZERO_OUT, one_sided)
        assert len(steps) <= 16


def test_either_direction_may_be_the_worse() -> None:
    removed, added = objective._removed_and_added(np.array([1.0, 50.0]), np.array([1.0, 50.0]), 0.05, 0.05, False)
    assert added[1] > 1.1 * removed[1]
    removed, added = objective._removed_and_added(np.array([1.0, 50.0]), np.array([1.0, 50.0]), 0.05, 0.5, False)
    assert removed[0] > 1.1 * added[0]


@pytest.mark.parametrize("name", ["logistic", "curved"])
@pytest.mark.parametrize("angle", [0.0, 1.0, 1.5707963, 2.5, 3.1415926])
@pytest.mark.parametrize(
    ("shift", "kappa", "offset"), [(0.2, 0.1, (0.0, 0.0)), (0.5, 0.83, (1.0, -0.5)), (1, 2, (2, 1))]
)
def test_two_dimensions_and_another_record(
    name: str, angle: float, shift: float, kappa: float, offset: tuple[float, float]
) -> None:
    loss = LOSSES[name]
    strength = shift * CURVATURE / kappa
    reach = (8.0 + 6.0 * shift) / strength
    line = np.linspace(-reach, reach, 401)
    x = np.stack(np.meshgrid(line, line, indexing="ij"))
    x -= np.array(offset)[:, None, None] / strength
    third = np.array([0.6, 0.6])

    def log_density(records: Sequence[Array]) -> Array:
        noise = -strength * x - np.array(offset)[:, None, None]
        hessian = strength * np.eye(2)[:, :, None, None] * np.ones_like(x[0])
        for a in records:
            margin = np.tensordot(a, x, 1)
            noise = noise - shift * loss.slope(margin) * a[:, None, None]
            hessian = hessian + shift * loss.bend(margin) * np.outer(a, a)[:, :, None, None]
        determinant = hessian[0, 0] * hessian[1, 1] - hessian[0, 1] ** 2
        return (-0.5 * (noise**2).sum(axis=0) + np.log(determinant / (2.0 * math.pi))).ravel()

    size = np.full(line.size**2, (line[1] - line[0]) ** 2)
    first, second = np.array([1.0, 0.0]), np.array([math.cos(angle), math.sin(angle)])
    absent, p, q = (log_density(records) for records in ([third], [third, first], [third, second]))
    assert all(size @ np.exp(log) == pytest.approx(1.0, abs=1e-5) for log in (absent, p, q))
    orders = np.array([1.5, 2.0, 4.0])
    for relation, pair, sensitivity in ((ZERO_OUT, (p, absent), 1.0), (REPLACE, (p, q), 2.0)):
        z = 1.0 / (shift * sensitivity)
        bound = objective.rdp(orders, z, kappa, relation, loss.one_sided)
        epsilon = objective.single_epsilon(z, kappa, loss.one_sided, 1e-4, relation)
        for one, other in (pair, pair[::-1]):
            assert np.all(renyi(size, one, other, orders) <= bound * (1.0 + 1e-5))
            assert hockey_stick(size, one, other, epsilon) <= 1e-4


def test_it_is_not_gaussian_privacy() -> None:
    """claims B6: w = 1, lambda = 0.3, sigma = 10, so mu = 0.1 and kappa = 0.83; here in units of sigma."""
    shift, kappa = 0.1, 0.25 / 0.3
    pair: Records = [(LOGISTIC, 1.0), None]
    orders = np.array([2.0, 20.0])
    scan = np.linspace(0.0, 1.0, 11)  # public offsets from 0 to 10
    exact = np.array([both_ways(pair, shift, kappa, offset, orders).max(axis=0) for offset in scan]).max(axis=0)
    assert exact == pytest.approx([0.0269, 0.440], rel=0.01)
    assert np.all(exact > 2.0 * orders * shift**2 / 2.0)
    assert np.all(exact <= objective.rdp(orders, 1.0 / shift, kappa, ZERO_OUT, True))
    deltas = {}
    for offset in (0.5, 0.8, 1.5):
        size, (p, q) = densities(pair, shift, kappa, offset, 14.0, 0.002)
        deltas[offset] = hockey_stick(size, p, q, 0.626)
    assert deltas[0.8] == pytest.approx(1.8e-4, rel=0.02)
    assert deltas[0.5] < deltas[0.8] < deltas[1.5]  # the audit's number is not the worst
    assert gaussian.delta(0.626, shift) == pytest.approx(4e-12, rel=0.01)
    assert objective.single_epsilon(1.0 / shift, kappa, True, deltas[1.5], ZERO_OUT) >= 0.626


def lam(t: float, shift: float, kappa: float, q: float) -> float:
    """The closed form of theory 6.6."""
    room = 1.0 - 2.0 * t * q
    if room <= 0.0:
        return math.inf
    parts = [t * shift * (kappa + sign) for sign in (1.0, -1.0)]
    logs = [c * c / (2.0 * room) + log_ndtr(c / math.sqrt(room)) for c in parts]
    return shift**2 / 2.0 + (np.logaddexp(*logs) - 0.5 * math.log(room)) / t


@pytest.mark.parametrize("shift", [0.02, 0.2, 1.0])
@pytest.mark.parametrize("kappa", [0.001, 0.02, 0.2])
def test_no_looser_than_the_specification(shift: float, kappa: float) -> None:
    for order in (1.2, 2.0, 8.0, 30.0):
        t, jacobian, q = order - 1.0, math.log1p(kappa), kappa + kappa**2 / 2.0
        for one_sided in (True, False):
            ours = objective.rdp(np.array([order]), 1.0 / shift, kappa, ZERO_OUT, one_sided)[0]
            theirs = max(jacobian + lam(t, shift, kappa, kappa**2 / 2.0), lam(t, shift, kappa, q))
            assert order * shift**2 / 2.0 <= ours <= theirs
            room = 1.0 - 2.0 * t * q
            if room <= 0.0:
                continue
            pull = t * shift

            def radial(r: float, room: float = room, pull: float = pull) -> float:
                peak = pull * (1.0 + kappa) / room
                return r * float(i0e(pull * r)) * math.exp(-0.5 * room * (r - peak) ** 2)

            top = pull * (1.0 + kappa)
            mass = quad(radial, max(0.0, top / room - 12.0 / math.sqrt(room)), top / room + 12.0 / math.sqrt(room))[0]
            theirs = jacobian + shift**2 / 2.0 + (math.log(mass) + top**2 / (2.0 * room)) / t
            ours = objective.rdp(np.array([order]), 1.0 / shift, kappa, REPLACE, one_sided)[0]
            assert order * shift**2 / 2.0 <= ours <= theirs


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("one_sided", [True, False])
class TestShape:
    def test_little_curvature_leaves_a_gaussian(self, one_sided: bool, relation: Relation) -> None:
        for z in (0.3, 2.0, 50.0):
            plain = ORDERS / (2.0 * z * z)
            assert objective.rdp(ORDERS, z, 0.0, relation, one_sided) == pytest.approx(plain, rel=1e-12)
            assert objective.rdp(ORDERS, z, 1e-12, relation, one_sided) == pytest.approx(plain, rel=1e-7)
            assert objective.rdp(ORDERS, z, 0.001, relation, one_sided) == pytest.approx(plain, rel=1e-3)

    def test_more_curvature_and_less_noise_cost_more(self, one_sided: bool, relation: Relation) -> None:
        z = np.geomspace(1e-4, 1e7, 45)
        for kappa in (1e-6, 0.01, 1.0, 100.0):
            curves = np.array([objective.rdp(ORDERS, float(level), kappa, relation, one_sided) for level in z])
            assert np.all(np.diff(curves, axis=0) < 0.0)
            assert np.all(curves >= ORDERS / (2.0 * z[:, None] ** 2) * (1.0 - 1e-12))
        for level in (0.5, 5.0, 100.0):
            many = [objective.rdp(ORDERS, level, float(k), relation, one_sided) for k in np.geomspace(1e-5, 1e4, 40)]
            assert np.all(np.diff(many, axis=0) >= -1e-7 * np.array(many[1:]))
            single = [objective.single_epsilon(level, k, one_sided, DELTA, relation) for k in (0.0, 0.1, 3.0)]
            assert single[0] <= single[1] < single[2]

    def test_higher_orders_cost_no_less(self, one_sided: bool, relation: Relation) -> None:
        for z, kappa in itertools.product((0.1, 2.0, 30.0), (0.01, 3.0)):
            curve = objective.rdp(np.array(objective.ORDERS), z, kappa, relation, one_sided)
            assert np.all(np.diff(curve) > 0.0)
            # Where it stops looking for the ramp.
            far = 1e3 * z * (1.0 + 1e-9 * np.array([-1.0, 1.0]))
            for way in objective._removed_and_added(far, far, 1.0 / z, kappa, one_sided):
                assert way[0] < way[1] <= way[0] + math.log1p(kappa) + 1e-2 / z

    def test_without_noise_or_without_curvature_of_its_own_there_is_no_privacy(
        self, one_sided: bool, relation: Relation
    ) -> None:
        for bare in (GaussianObjectiveDpEvent(0.0, 0.1, one_sided), GaussianObjectiveDpEvent(1.0, math.inf, one_sided)):
            assert _is_bare(bare)
            assert best({bare: 1, PureDpEvent(0.1): 1}, DELTA, relation).epsilon == math.inf
            assert np.all(objective.rdp(ORDERS, *(bare.noise_multiplier, bare.kappa), relation, one_sided) == math.inf)
            assert objective.single_epsilon(bare.noise_multiplier, bare.kappa, one_sided, DELTA, relation) == math.inf
        event = GaussianObjectiveDpEvent(1.0, 0.1, one_sided)
        assert best({event: 1}, 0.0, relation).epsilon == math.inf
        assert best({GaussianObjectiveDpEvent(math.inf, 0.1, one_sided): 3}, DELTA, relation).epsilon < 1e-6

    def test_a_single_release_meets_its_delta_and_no_less(self, one_sided: bool, relation: Relation) -> None:
        for z, kappa, delta in itertools.product((0.4, 3.0, 40.0), (0.0, 0.05, 2.0), (1e-2, 1e-8)):
            epsilon = objective.single_epsilon(z, kappa, one_sided, delta, relation)
            left = epsilon - math.log1p(kappa)
            if relation is ZERO_OUT:
                removed = gaussian.delta(left, 1.0 / z)
                added = (1.0 if one_sided else 2.0) * gaussian.delta(epsilon, 1.0 / z)
                total = max(removed, added)
            elif one_sided:
                total = gaussian.delta(left, 1.0 / z) + 2.0 * gaussian.delta(left, 0.5 / z)
            else:
                total = 2.0 * gaussian.delta(left, 1.0 / z) + 2.0 * gaussian.delta(left, math.sqrt(0.5) / z)
            assert total <= delta
            assert total == pytest.approx(delta, rel=1e-6) or left < 1e-14


def test_determinants() -> None:
    """F9: |ln det ratio| <= ln(1 + kappa), whether a record goes or is replaced."""
    random = np.random.default_rng(3)
    for _ in range(3000):
        size = int(random.integers(1, 6))
        others = random.normal(size=(size, 4)) * random.exponential(1.0)
        floor, kappa = random.exponential(1.0), math.exp(random.normal(0.0, 2.0))
        without = floor * np.eye(size) + others @ others.T
        hessians = [without]
        for _ in range(2):
            a = random.normal(size=size)
            a *= random.random() ** 0.1 / np.linalg.norm(a)
            hessians.append(without + random.random() ** 0.1 * kappa * floor * np.outer(a, a))
        logs = [np.linalg.slogdet(hessian)[1] for hessian in hessians]
        assert max(logs) - min(logs) <= math.log1p(kappa) * (1.0 + 1e-9) + 1e-12


@pytest.mark.parametrize("kappa", KAPPAS)
@pytest.mark.parametrize("alpha", [0.3, 3.0])
def test_pure_loss_of_gamma_norm_noise(alpha: float, kappa: float) -> None:
    """F9, with noise of density exp(-alpha |b|): wa + ln(1 + kappa), and 2wa + ln(1 + kappa) where it is replaced."""
    weight, x = 0.7, np.linspace(-400.0, 400.0, 20001)
    strength = weight * CURVATURE / kappa
    nearest = 0.0
    for offset in (-20.0, -1.0, 0.0, 0.5, 3.0):
        logs = {}
        for label in (0.0, 1.0, -1.0, 0.5):
            noise = -(strength * x + offset + weight * label * LOGISTIC.slope(label * x))
            logs[label] = -alpha * np.abs(noise) + np.log(strength + weight * label**2 * LOGISTIC.bend(label * x))
        for one, other in itertools.permutations(logs, 2):
            bound = weight * alpha * (1.0 if 0.0 in (one, other) else 2.0) + math.log1p(kappa)
            loss = float(np.max(logs[one] - logs[other]))
            nearest = max(nearest, loss / bound)
            assert loss <= bound
    assert nearest > 0.6


WEIGHT = 1750 / 8000


def ratio(cycle: int) -> float:
    return WEIGHT * CURVATURE / (0.22 / 5 + 2 * 1.04**cycle * 4)


@pytest.mark.parametrize(("alpha", "printed", "tight"), [(1.0, 11.24, 11.04), (2.0, 22.17, 21.98)])
def test_recycled_admm_in_pure_privacy(alpha: float, printed: float, tight: float) -> None:
    assert math.fsum(2 * WEIGHT * alpha + 2.8 * ratio(k) for k in range(1, 26)) == pytest.approx(printed, abs=0.005)
    tally = {PureDpEvent(2 * WEIGHT * alpha + math.log1p(ratio(k))): 1 for k in range(1, 26)}
    assert best(tally, 0.0, REPLACE).epsilon == pytest.approx(tight, abs=0.005)


@pytest.mark.parametrize(
    ("relation", "epsilon", "audited"),
    [(REPLACE, 1, 150), (REPLACE, 4, 29), (REPLACE, 11, 11), (ZERO_OUT, 1, 55), (ZERO_OUT, 4, 14), (ZERO_OUT, 11, 5.6)],
)
def test_recycled_admm_needs_no_more_noise_than_audited(relation: Relation, epsilon: float, audited: float) -> None:
    sensitivity = WEIGHT * (2.0 if relation is REPLACE else 1.0)
    length = math.sqrt(2.0) * math.exp(gammaln(53.0) - gammaln(52.5))  # of a standard normal in R^105
    limit = 5.0 / gaussian.mu(epsilon, DELTA)  # if it were 25 plain Gaussians

    def cost(z: float) -> float:
        return best({GaussianObjectiveDpEvent(z, ratio(k), True): 1 for k in range(1, 26)}, DELTA, relation).epsilon

    z = smallest(cost, epsilon, 0.9 * limit, 2.0 * limit, 1e-4)
    assert z * sensitivity * length <= 1.05 * audited
    assert limit < z <= 1.1 * limit


class TestAccounting:
    one = GaussianObjectiveDpEvent(8.0, 0.02, True)
    other = GaussianObjectiveDpEvent(6.0, 0.3, False)

    @pytest.mark.parametrize("relation", Relation)
    def test_renyi_adds_curves(self, relation: Relation) -> None:
        tally: dict[DpEvent, int] = {self.one: 7, self.other: 2, GaussianDpEvent(5.0): 3, PureDpEvent(0.1): 4}
        orders = np.array(objective.ORDERS)
        total = 7 * objective.rdp(orders, 8.0, 0.02, relation, True) + 3 * orders / 50.0
        total += 2 * objective.rdp(orders, 6.0, 0.3, relation, False)
        odds = 1.0 / (1.0 + math.exp(-0.1))
        logs = [
            0.1 * (2 * heads - 1) * (orders - 1.0) + math.log(chance) for heads, chance in ((1, odds), (0, 1 - odds))
        ]
        total += 4 * np.logaddexp(*logs) / (orders - 1.0)
        by_hand = total + np.log1p(-1.0 / orders) - np.log(DELTA * orders) / (orders - 1.0)
        assert ACCOUNTANTS["rdp"].epsilon(tally, DELTA, relation) == pytest.approx(by_hand.min(), rel=1e-6)

    @pytest.mark.parametrize("relation", Relation)
    def test_single_steps_share_delta(self, relation: Relation) -> None:
        def steps(tally: dict[DpEvent, int]) -> float:
            return ACCOUNTANTS["single-steps"].epsilon(tally, DELTA, relation)

        def one(parts: int) -> float:
            return objective.single_epsilon(8.0, 0.02, True, DELTA / parts, relation)

        def other(parts: int) -> float:
            return objective.single_epsilon(6.0, 0.3, False, DELTA / parts, relation)

        assert steps({self.one: 1}) == pytest.approx(one(1), rel=1e-14)
        assert steps({self.one: 2, self.other: 1}) == pytest.approx(2 * one(3) + other(3), rel=1e-12)
        assert steps({self.one: 2, PureDpEvent(0.5): 2, LaplaceDpEvent(4.0): 1}) == pytest.approx(2 * one(2) + 1.25)
        mixed = 2 * one(3) + 0.5 + gaussian.epsilon(0.5, DELTA / 3)
        assert steps({self.one: 2, PureDpEvent(0.5): 1, GaussianDpEvent(4.0): 4}) == pytest.approx(mixed, rel=1e-12)
        assert steps({GaussianDpEvent(4.0): 4}) == gaussian.epsilon(0.5, DELTA)

    def test_best_takes_the_smaller(self) -> None:
        for relation in Relation:
            names = set()
            for tally in ({self.one: 1}, {self.one: 25}, {self.other: 1, GaussianDpEvent(9.0): 1}, {self.other: 40}):
                found = best(tally, DELTA, relation)
                bounds = {name: ACCOUNTANTS[name].epsilon(tally, DELTA, relation) for name in ("rdp", "single-steps")}
                assert found.epsilon == min(bounds.values()) == bounds[found.accountant]
                names.add(found.accountant)
            assert names == {"rdp", "single-steps"}
        assert best({self.one: 5}, DELTA, REPLACE).epsilon != best({self.one: 5}, DELTA, ZERO_OUT).epsilon

    def test_together_with_mini_batches(self) -> None:
        batch = PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0))
        together = best({self.one: 5, batch: 10}, DELTA, ZERO_OUT)
        assert together.accountant == "rdp"
        assert together.epsilon > best({self.one: 5}, DELTA, ZERO_OUT).epsilon
        fixed = SampledWithoutReplacementDpEvent(1000, 10, GaussianDpEvent(2.0))
        assert best({self.one: 5, fixed: 10}, DELTA, REPLACE).accountant == "rdp"
        with pytest.raises(InputError, match="cannot account for"):
            best({self.one: 1, MixtureOfGaussiansDpEvent(1.0, (0.0, 1.0), (0.5, 0.5)): 1}, DELTA, ZERO_OUT)
        with pytest.raises(InputError, match="cannot account for"):  # a sample of an objective is another mechanism
            ACCOUNTANTS["rdp"].epsilon({PoissonSampledDpEvent(0.1, self.one): 1}, DELTA, ZERO_OUT)

    def test_it_never_passes_for_a_plain_gaussian(self) -> None:
        for name in ("exact", "pure", "pure+gaussian", "zcdp", "pld"):
            assert not ACCOUNTANTS[name].supports({self.one: 1})

    def test_the_event(self) -> None:
        assert event_from_dict(event_to_dict(self.one)) == self.one
        assert event_from_dict(event_to_dict(self.other)) == self.other != self.one
        for wrong in ((-1.0, 0.1), (1.0, -0.1), (math.nan, 0.1)):
            with pytest.raises(ValueError, match="must be >= 0"):
                GaussianObjectiveDpEvent(*wrong, True)
