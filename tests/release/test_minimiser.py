"""Minimisers end within the paid distance, whoever offers a candidate; what is refused is refused by public numbers."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from dpadmm.admm.solvers import Exact
from dpadmm.admm.solvers.base import Subproblem
from dpadmm.errors import InputError
from dpadmm.problems.losses import ClippedSquared, Logistic, Softmax
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import gather
from dpadmm.release import minimiser
from dpadmm.release.minimiser import Bounds, Quadratic, minimisers

TOLERANCE = 1e-8


class Logistics:
    """Means of logistic losses of random rows of length one, times `scale`: B = scale, L = scale / 4."""

    def __init__(self, agents, dimension, scale=1.0, records=20, seed=0):
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((agents, records, dimension))
        self.rows = rows / np.linalg.norm(rows, axis=2, keepdims=True)
        self.signs, self.scale = rng.choice([-1.0, 1.0], (agents, records)), scale
        self.asked = np.zeros(agents, dtype=int)  # how many gradients

    def gradient(self, points, agents):
        self.asked[agents] += 1
        rows, signs = self.rows[agents], self.signs[agents]
        slopes = -signs * expit(-signs * np.einsum("nrd,nd->nr", rows, points))
        return self.scale * np.einsum("nr,nrd->nd", slopes, rows) / rows.shape[1]

    def bounds(self, stiffness, tolerance=TOLERANCE):
        agents, records, columns = self.rows.shape
        one = np.ones(agents)
        return Bounds(
            self.scale * one, self.scale / 4.0 * one, stiffness * one, np.full(agents, records), columns, tolerance
        )


def random_problem(losses, stiffness, prox=None, seed=1, spread=1.0, l2=0.0):
    agents, _, dimension = losses.rows.shape
    rng = np.random.default_rng(seed)
    tilt, centre = spread * stiffness * rng.standard_normal((2, agents, dimension))
    return Quadratic(losses.bounds(stiffness), tilt, np.full(agents, stiffness - l2), centre / stiffness, prox)


def soft(points, steps, agents, pull=0.01):
    return np.sign(points) * np.maximum(np.abs(points) - pull * steps, 0.0)


def boxed(points, steps, agents):
    return np.clip(points, -0.2, 0.3)


def both(points, steps, agents):
    return np.clip(soft(points, steps, agents), -0.2, 0.3)


PROXES = {"nothing": None, "l1": soft, "box": boxed, "both": both}
every_prox = pytest.mark.parametrize("prox", PROXES.values(), ids=PROXES)


def reference(problem, losses):
    """Accelerated steps of another length, in extended precision, to a thousandth of the tolerance."""
    every = np.arange(len(problem.tilt))
    stiffness = problem.bounds.stiffness[:, None]
    bound = problem.bounds.curvature[:, None] + stiffness
    momentum = (1.0 - np.sqrt(stiffness / bound)) / (1.0 + np.sqrt(stiffness / bound))
    x = ahead = problem.start.astype(np.longdouble)
    asked = losses.asked.copy()
    for _ in range(200_000):
        slope = losses.gradient(ahead, every) + stiffness * (ahead - problem.anchor)
        after = problem.mapped(ahead - slope / bound, 1.0 / bound[:, 0], every)
        residual = np.abs(bound * (after - ahead)).max()
        ahead, x = after + momentum * (after - x), after
        if residual < 1e-4 * TOLERANCE:
            losses.asked = asked
            return x
    raise AssertionError("the reference does not settle")


def apart(x, y):
    return np.linalg.norm(np.asarray(x - y, dtype=np.float64), axis=1)


# -- the proved number of steps ----------------------------------------------------------------------------------------


@every_prox
@pytest.mark.parametrize("condition", [1.0001, 1.5, 4.0, 100.0])
def test_the_proved_steps_end_within_the_paid_distance(condition, prox):
    """Q = (L + lambda) / lambda, from next to no losses on."""
    stiffness = 0.25 / (condition - 1.0)
    for seed in range(5):
        losses = Logistics(3, 4, seed=seed)
        problem = random_problem(losses, stiffness, prox, seed=seed, spread=min(1.0, 1.0 / stiffness))
        found = minimisers(problem, losses.gradient, fixed_steps=True)
        assert (apart(found, reference(problem, losses)) <= TOLERANCE / stiffness).all()


@pytest.mark.parametrize("prox", [None, both], ids=["nothing", "both"])
def test_so_they_do_with_next_to_no_quadratic_term(prox):
    stiffness, tolerance = 0.25 / 1e4, 1e-6
    losses = Logistics(2, 3, records=6)
    problem = random_problem(losses, stiffness, prox, spread=0.1)
    problem = replace(problem, bounds=losses.bounds(stiffness, tolerance))
    assert problem.bounds.steps()[0] > 50_000
    found = minimisers(problem, losses.gradient, fixed_steps=True)
    assert (apart(found, reference(problem, losses)) <= tolerance / stiffness).all()


@settings(max_examples=40, deadline=None)
@given(
    stiffness=st.floats(1e-3, 10.0),
    scale=st.floats(1e-6, 30.0),
    spread=st.floats(0.0, 1e3),
    dimension=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
    prox=st.sampled_from(list(PROXES.values())),
    fixed=st.booleans(),
)
def test_any_problem_is_answered_within_the_paid_distance(stiffness, scale, spread, dimension, seed, prox, fixed):
    losses = Logistics(2, dimension, scale, records=7, seed=seed)
    problem = random_problem(losses, stiffness, prox, seed, spread, l2=0.3 * stiffness)
    found = minimisers(problem, losses.gradient, fixed_steps=fixed)
    assert (apart(found, reference(problem, losses)) <= TOLERANCE / stiffness).all()


@pytest.mark.parametrize("condition", [1.01, 2.0, 100.0])
def test_the_number_of_steps_is_needed_and_the_shorthand_for_it_would_not_do(condition):
    """A loss that is straight attains the factor (Q - 1) / (Q + 1) with Q = (L + lambda) / lambda."""
    stiffness = 0.25 / (condition - 1.0)
    bounds = Logistics(1, 1).bounds(stiffness)
    problem = Quadratic(bounds, np.zeros((1, 1)), bounds.stiffness, np.zeros((1, 1)))

    def straight(points, agents):
        return np.ones_like(points)

    found = minimisers(problem, straight, fixed_steps=True)
    assert abs(found[0, 0] + 1.0 / stiffness) <= 0.51 * TOLERANCE / stiffness
    factor = 1.0 - bounds.step[0] * stiffness
    assert factor == pytest.approx((condition - 1.0) / (condition + 1.0))
    (steps,) = bounds.steps()
    assert steps == math.ceil(math.log(2.0 / TOLERANCE) / math.log(1.0 / factor)) + 1
    assert factor ** (steps - 2 - math.log(2.0) / -math.log(factor)) / stiffness > TOLERANCE / stiffness
    if condition > 2.0:
        shorthand = condition - 1.0  # L / lambda
        claimed = math.log(1.0 / TOLERANCE) / math.log((shorthand + 1.0) / (shorthand - 1.0))
        assert factor**claimed > TOLERANCE


def test_a_minimiser_as_far_away_as_can_be_is_accepted():
    """A straight loss has its minimiser at the distance B / lambda from the start."""
    bounds, asked = Logistics(1, 1).bounds(0.1), []
    problem = Quadratic(bounds, np.zeros((1, 1)), bounds.stiffness, np.zeros((1, 1)))

    def straight(points, agents):
        asked.append(points)
        return np.ones_like(points)

    minimisers(problem, straight, np.array([[-10.0]]))
    assert len(asked) == 1


@every_prox
def test_fixed_steps_are_as_many_whatever_the_records_and_the_candidate(prox):
    for seed in range(3):
        losses = Logistics(3, 4, seed=seed)
        problem = random_problem(losses, 0.05, prox)
        found = minimisers(problem, losses.gradient, reference(problem, losses).astype(float), fixed_steps=True)
        np.testing.assert_array_equal(losses.asked, problem.bounds.steps())
        assert (apart(found, reference(problem, losses)) <= TOLERANCE / 0.05).all()


def test_without_fixed_steps_no_more_than_those_are_made_and_fewer_if_a_proof_comes_sooner():
    losses = Logistics(3, 4)
    problem = random_problem(losses, 0.05)
    minimisers(problem, losses.gradient)
    assert (losses.asked < problem.bounds.steps()).all()


# -- candidates --------------------------------------------------------------------------------------------------------


@every_prox
def test_a_candidate_is_accepted_up_to_the_tolerance_less_rounding_and_not_beyond(prox):
    losses = Logistics(1, 3)
    problem = random_problem(losses, 0.1, prox)
    best, step = reference(problem, losses).astype(float), problem.bounds.step
    _, allowed = problem.bounds.check(problem.size, np.linalg.norm(problem.start, axis=1))
    assert 0.5 * TOLERANCE <= allowed[0] <= TOLERANCE

    def residual(x):
        slope = losses.gradient(x, np.arange(1)) + 0.1 * (x - problem.anchor)
        return float(apart(x, problem.mapped(x - step * slope, step, np.arange(1)))[0] / step[0])

    direction = np.random.default_rng(5).standard_normal((1, 3))
    low, high = 0.0, 1e-3  # how far along it the residual is exactly what is allowed
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if residual(best + middle * direction) <= allowed[0] else (low, middle)
    for distance, accepted in ((low * 0.999, True), (high * 1.001, False)):
        losses.asked[:] = 0
        found = minimisers(problem, losses.gradient, best + distance * direction)
        assert (losses.asked[0] == 1) == accepted
        assert apart(found, best)[0] <= TOLERANCE / 0.1


class Nasty(np.ndarray):
    """An array that is no array of numbers."""


GARBAGE = {
    "nothing": lambda best: None,
    "not a number": lambda best: np.full_like(best, np.nan),
    "one number missing": lambda best: np.where(np.arange(best.size).reshape(best.shape) == 1, np.nan, best),
    "infinite": lambda best: np.full_like(best, np.inf),
    "huge": lambda best: np.full_like(best, 1e300),
    "far": lambda best: best + 1e3,
    "near": lambda best: best + 1e-5,
    "zeros": np.zeros_like,
    "the minimiser": lambda best: best,
    "another shape": lambda best: best[:, :1],
    "a row too many": lambda best: np.vstack([best, best[:1]]),
    "single precision": lambda best: best.astype(np.float32),
    "complex": lambda best: best + 1j,
    "objects": lambda best: best.astype(object),
    "text": lambda best: "the minimiser",
    "a list": lambda best: best.tolist(),
    "no memory order": lambda best: np.asfortranarray(best),
}


@every_prox
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_whatever_is_offered_the_answer_is_within_the_paid_distance(garbage, prox):
    losses = Logistics(3, 4)
    problem = random_problem(losses, 0.1, prox)
    best = reference(problem, losses).astype(float)
    found = minimisers(problem, losses.gradient, garbage(best))
    assert (apart(found, best) <= TOLERANCE / 0.1).all()


@pytest.mark.parametrize("prox", [boxed, both])
def test_answers_lie_in_the_set_also_where_a_candidate_does_not(prox):
    losses = Logistics(3, 4)
    problem = random_problem(losses, 0.1, prox)
    best = reference(problem, losses).astype(float)
    outside = best + 1e-10 * np.sign(best)
    found = minimisers(problem, losses.gradient, outside)
    assert (losses.asked == 1).all()
    assert (found <= 0.3).all()
    assert (found >= -0.2).all()


def test_what_was_offered_is_not_written_into():
    losses = Logistics(3, 4)
    problem = random_problem(losses, 0.1)
    for offered in (reference(problem, losses).astype(float), np.zeros((3, 4))):
        before = offered.copy()
        minimisers(problem, losses.gradient, offered)
        np.testing.assert_array_equal(offered, before)


@every_prox
def test_a_row_does_not_depend_on_the_rest_of_the_batch(prox):
    losses = Logistics(4, 4)
    problem = random_problem(losses, 0.1, prox)
    best = reference(problem, losses).astype(float)
    best[1], best[2] = np.nan, 7.0
    together = minimisers(problem, losses.gradient, best)
    for i in range(4):
        alone = Quadratic(
            replace(losses.bounds(0.1), **{name: getattr(losses.bounds(0.1), name)[[i]] for name in ARRAYS}),
            problem.tilt[[i]],
            problem.kappa[[i]],
            problem.centre[[i]],
            prox,
        )

        def gradient(points, agents, i=i):
            return losses.gradient(points, agents + i)

        np.testing.assert_array_equal(minimisers(alone, gradient, best[[i]])[0], together[i])


ARRAYS = ("gradient", "curvature", "stiffness", "records")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("fixed", [False, True])
def test_a_gradient_that_is_no_number_does_not_make_the_answer_one(value, fixed):
    """It breaks the guarantee; but not the promise that an answer is finite and within public limits."""
    losses = Logistics(3, 4)
    problem = random_problem(losses, 0.1)

    def broken(points, agents):
        gradient = losses.gradient(points, agents)
        gradient[:, 0] = value
        return gradient

    found = minimisers(problem, broken, np.zeros((3, 4)), fixed)
    assert np.isfinite(found).all()
    assert (apart(found, problem.start) <= 2.0 * problem.bounds.radius).all()


# -- refusals ----------------------------------------------------------------------------------------------------------


def never(points, agents):
    raise AssertionError("a record was looked at")


BAD = {
    "too many steps": (
        {"stiffness": np.full(2, 1e-8)},
        {},
        r"would need .* steps to prove a minimiser; 1,000,000 are",
    ),
    "steps without end": ({"curvature": np.full(2, np.inf)}, {}, "would need inf"),
    "an unbounded loss": ({"gradient": np.full(2, np.inf)}, {}, "would need inf"),
    "a tolerance below rounding": ({"tolerance": 1e-14}, {}, r"Set the tolerance to 1e-12 or more"),
    "a long centre": ({}, {"centre": np.full((2, 4), 1e9)}, "rounding may change a gradient"),
    "a long tilt": ({}, {"tilt": np.full((2, 4), 1e9)}, "rounding may change a gradient"),
    "a tilt that cancels": (
        {},
        {"tilt": np.full((2, 4), 1e7), "centre": np.full((2, 4), 1e8)},
        "rounding may change a gradient",
    ),
    "no number in the tilt": ({}, {"tilt": np.full((2, 4), np.nan)}, "rounding may change a gradient by nan"),
    "an infinite centre": ({}, {"centre": np.full((2, 4), np.inf)}, "rounding may change a gradient by"),
}


@pytest.mark.parametrize(("bounds", "changes", "message"), BAD.values(), ids=BAD)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_refusal_looks_at_public_numbers_alone(bounds, changes, message):
    losses = Logistics(2, 4)
    problem = Quadratic(replace(losses.bounds(0.1), **bounds), np.zeros((2, 4)), np.full(2, 0.1), np.zeros((2, 4)))
    with pytest.raises(InputError, match=message):
        minimisers(replace(problem, **changes), never, np.zeros((2, 4)))


def test_the_largest_number_of_steps_is_still_allowed(monkeypatch):
    bounds = Logistics(2, 4).bounds(0.001)
    monkeypatch.setattr(minimiser, "MOST_STEPS", int(bounds.steps()[0]))
    bounds.steps()
    monkeypatch.setattr(minimiser, "MOST_STEPS", int(bounds.steps()[0]) - 1)
    with pytest.raises(InputError, match="steps to prove"):
        bounds.steps()


def test_rounding_may_take_half_of_the_tolerance_and_no_more():
    for share, fits in ((0.49, True), (0.51, False)):
        bounds = Logistics(2, 4).bounds(0.1)
        error = bounds.rounding(5.0, 50.0)[0]
        bounds = replace(bounds, tolerance=error / share)
        if fits:
            np.testing.assert_allclose(bounds.check(5.0, 50.0)[1], bounds.tolerance - error, rtol=1e-6)
        else:
            with pytest.raises(InputError, match="more than half of the tolerance"):
                bounds.check(5.0, 50.0)


def test_the_bound_on_rounding_is_the_formula():
    """Sums in chunks and slopes; margins; the quadratic term and the step; the anchor."""
    bounds = Bounds(np.array([3.0]), np.array([7.0]), np.array([0.5]), np.array([10 * 2048]), 100, tolerance=1.0)
    unit, longest = 2.0**-53, 11.0 + (3.0 + 1.0) / 0.5
    sums = 3.0 * ((2048 + 10 + 32) * unit + 2.0**-42)
    margins = 7.0 * (100 + 24) * unit * longest
    others = 32 * unit * (0.5 * longest + 13.0)
    np.testing.assert_allclose(bounds.rounding(13.0, 11.0), sums + margins + others, rtol=1e-14)


def test_without_losses_the_start_is_the_answer():
    bounds = Bounds(np.zeros(1), np.zeros(1), np.ones(1), np.ones(1, dtype=int), 1, TOLERANCE)
    problem = Quadratic(bounds, np.array([[3.0]]), np.ones(1), np.array([[5.0]]))
    for fixed in (False, True):
        assert minimisers(problem, lambda points, agents: np.zeros_like(points), None, fixed) == [[2.0]]


# -- the rounding bound, for the kernels as they are -------------------------------------------------------------------


def exact_gradient(loss, rows, targets, weight, x, classes):
    """The gradient of the losses of rows (lists of fractions) in 60 digits."""
    total = [mpmath.mpf(0)] * len(x)
    model = [mpmath.mpf(float(number)) for number in x]
    for row, target in zip(rows, targets, strict=True):
        row = [mpmath.mpf(number.numerator) / number.denominator for number in row]
        scores = [mpmath.fsum(entry * model[j * classes + k] for j, entry in enumerate(row)) for k in range(classes)]
        if loss == "softmax":
            odds = [mpmath.exp(score) for score in scores]
            slopes = [each / mpmath.fsum(odds) for each in odds]
            slopes[int(target)] -= 1
        elif loss == "logistic":
            slopes = [-target / (1 + mpmath.exp(target * scores[0]))]
        else:
            slopes = [max(min(scores[0] - mpmath.mpf(float(target)), mpmath.mpf(1)), mpmath.mpf(-1))]
        for j, entry in enumerate(row):
            for k in range(classes):
                total[j * classes + k] += entry * slopes[k]
    return [mpmath.mpf(1) * weight * number for number in total]


KERNELS = {"logistic": (Logistic(), 1), "squared": (ClippedSquared(), 1), "softmax": (Softmax(), 3)}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("length", [1.0, 1e3, 1e6])
def test_rounding_in_a_gradient_is_below_its_bound(name, length):
    """At points of any length: the bound must cover the sum, the slopes and the margins."""
    loss, classes = KERNELS[name]
    rng = np.random.default_rng(0)
    features = rng.standard_normal((60, 9))
    targets = {
        "logistic": rng.choice([-1.0, 1.0], 60),
        "squared": length * rng.standard_normal(60),
        "softmax": rng.integers(0, 3, 60),
    }[name]
    shards = gather(features, targets, np.zeros(60, dtype=int), norm_bound=1.0, names=["a"])
    weight = Fraction(1, 60)
    problem, cell = Problem(loss), Fraction(getattr(shards, "cell", 1.0))
    rows = [[Fraction(float(number)) * cell for number in row] for row in shards.features]
    size = 9 * classes
    worst = 0.0
    with mpmath.workdps(60):
        for _ in range(5):
            centre, tilt = rng.standard_normal((2, 1, size))
            centre *= length / np.linalg.norm(centre)
            sub = Subproblem(problem, shards, np.array([1 / 60]), tilt, np.array([[0.1]]), centre)
            given = Exact(1e-3)._quadratic(sub)
            x = given.start + rng.uniform(-0.3, 0.3, (1, size)) * given.bounds.radius
            bound = given.bounds.rounding(given.size, np.linalg.norm(given.start, axis=1))[0]
            computed = sub.loss_gradient(x)[0] + given.bounds.stiffness[0] * (x - given.anchor)[0]
            true = exact_gradient(name, rows, targets, mpmath.mpf(1) / 60, x[0], classes)
            kappa = mpmath.mpf(0.1)
            for j in range(size):
                away = mpmath.mpf(float(x[0, j])) - mpmath.mpf(float(centre[0, j]))
                true[j] += mpmath.mpf(float(tilt[0, j])) + kappa * away
            error = float(mpmath.norm([mpmath.mpf(float(a)) - b for a, b in zip(computed, true, strict=True)]))
            assert error <= bound
            worst = max(worst, error / bound)
    assert worst > 1e-6  # the bound is generous, not absent
    assert weight == Fraction(1, 60)
