"""Exact solves of losses with a kink: against quadratic programmes, by their own proof, and alike for any batch."""

from dataclasses import replace

import clarabel
import numpy as np
import pytest
from scipy.sparse import block_array, csc_array, diags_array, eye_array

from dpadmm.admm.solvers import Exact, kinks
from dpadmm.admm.solvers.exact import START
from dpadmm.errors import ConvergenceError, InputError
from dpadmm.problems.losses import ClippedSquared, Quantile, Quantiles
from dpadmm.problems.penalties import L1, L2, ElasticNet, Mcp, NoPenalty
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import Ball, Box
from dpadmm.problems.shards import gather

PENALTIES = {"none": (NoPenalty(), 0.0), "l2": (L2(), 0.3), "l1": (L1(), 0.1), "elastic-net": (ElasticNet(0.6), 0.1)}
every_penalty = pytest.mark.parametrize("penalty", PENALTIES)
LOSSES = {"0.5": Quantile(0.5), "0.1": Quantile(0.1), "levels": Quantiles((0.2, 0.7))}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
PAIRS = {f"{level}-{name}": (loss, name) for level, loss in LOSSES.items() for name in PENALTIES}
del PAIRS["levels-l1"]  # takes seconds, and the levels' problems are apart
TOLERANCE, ROUNDING = 1e-6, 1e-13


def one_level(sub, agent, level, index, levels):
    """The terms of one agent's problem at one level, as numbers: rows, targets, weight, tilt, kappa, centre, l2, l1."""
    shards, penalty, strength = sub.shards, sub.problem.penalty, sub.problem.strength
    rows = slice(shards.starts[agent], shards.stops[agent])
    return (
        shards.real_rows[rows],
        shards.targets[rows],
        sub.weights[agent],
        sub.tilt[agent, index::levels],
        sub.kappa[agent, 0],
        sub.centre[agent, index::levels],
        strength * penalty.strong_convexity,
        strength * getattr(penalty, "ratio", 0.0),
        level,
    )


def programme(a, b, weight, tilt, kappa, centre, bend, kink, level):
    """The same as a quadratic programme in (w, r+, r-, s) with b - a w = r+ - r-, r >= 0 and s >= |w|, by Clarabel."""
    records, width = a.shape
    none, one = csc_array((records, width)), eye_array(records)
    quadratic = diags_array(np.concatenate([np.full(width, kappa + bend), np.zeros(2 * records + width)])).tocsc()
    above, below = np.full(records, weight * level), np.full(records, weight * (1.0 - level))
    linear = np.concatenate([tilt - kappa * centre, above, below, np.full(width, kink)])
    wide, square = csc_array((width, records)), eye_array(width)
    rows = block_array(
        [
            [csc_array(a), one, -one, none],
            [none, -one, None, none],
            [none, None, -one, none],
            [square, wide, wide, -square],
            [-square, wide, wide, -square],
        ]
    ).tocsc()
    bounds = np.concatenate([b, np.zeros(2 * records + 2 * width)])
    cones = [clarabel.ZeroConeT(records), clarabel.NonnegativeConeT(2 * records + 2 * width)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    found = np.array(clarabel.DefaultSolver(quadratic, linear, rows, bounds, cones, settings).solve().x)
    return found[:width]


def minimiser(*terms):
    """From Clarabel's answer the records on the kink and the coefficients that are zero; given these, a linear system.

    Its solution is a minimiser if the multipliers are slopes that the kinks have: no tolerance is left to argue with.
    """
    a, b, weight, tilt, kappa, centre, bend, kink, level = terms
    near = programme(*terms)
    left = b - a @ near
    on = np.abs(left) < 1e-6
    zero = (np.abs(near) < 1e-6) & (kink > 0.0)
    slope = weight * np.where(left > 0.0, level, level - 1.0)
    free = kappa * centre - tilt + a[~on].T @ slope[~on] - kink * np.where(zero, 0.0, np.sign(near))
    fixed = np.vstack([a[on], np.eye(near.size)[zero]])
    values = np.concatenate([b[on], np.zeros(zero.sum())])
    stiff = kappa + bend
    multipliers = np.linalg.lstsq(fixed @ fixed.T, stiff * values - fixed @ free, rcond=None)[0]
    x = (free + fixed.T @ multipliers) / stiff
    np.testing.assert_allclose(fixed @ x, values, atol=1e-13)
    slopes, pulls = multipliers[: on.sum()] / weight, multipliers[on.sum() :]
    assert ((slopes > level - 1.0 - 1e-9) & (slopes < level + 1e-9)).all()
    assert (np.abs(pulls) <= kink * (1 + 1e-9)).all()
    assert ((b - a @ x)[~on] * left[~on] > 0.0).all()
    return x, on.sum()


def minimisers(sub):
    """Of every agent, its levels together as the loss keeps them."""
    levels, best, on_kinks = sub.problem.loss.levels, np.empty(sub.tilt.shape), []
    for agent in range(sub.shards.agents):
        for k, level in enumerate(levels):
            best[agent, k :: len(levels)], count = minimiser(*one_level(sub, agent, level, k, len(levels)))
            on_kinks.append(count)
    assert sum(on_kinks) > 1  # else the kink had little part in it
    return best


@pytest.fixture
def posed(subproblem):
    """posed(loss, penalty, seed): agents with 20 to 80 records of three columns, and pulls of very different sizes."""

    def make(loss, penalty="none", seed=0):
        rng = np.random.default_rng(seed)
        owner = np.repeat(np.arange(4), [20, 40, 60, 80])
        rows = rng.normal(size=(200, 3))
        targets = rows @ [1.0, 0.5, 0.0] + 0.3 * rng.standard_cauchy(200)
        shards = gather(rows, targets, owner, norm_bound=2.0, names=[f"owner {i}" for i in range(4)])
        sub = subproblem(Problem(loss, *PENALTIES[penalty]), shards, seed)
        return replace(sub, kappa=np.array([[0.02], [0.05], [0.1], [0.3]]))

    return make


def solved(sub, tolerance=TOLERANCE, start=0.0):
    solver = Exact(tolerance)
    memory = solver.start(np.full(sub.tilt.shape, start))
    return solver.solve(sub, sub.loss_gradient, memory, np.ones((len(sub.tilt), 1)))


@pytest.mark.parametrize(("loss", "penalty"), PAIRS.values(), ids=PAIRS)
def test_the_answer_is_the_minimiser_of_the_quadratic_programme(loss, penalty, posed, terms):
    sub = posed(loss, penalty)
    Exact(TOLERANCE).check(terms(sub.problem, sub.shards))
    answer, memory = solved(sub)
    off = np.linalg.norm(answer - minimisers(sub), axis=1)
    assert (off <= TOLERANCE / (sub.kappa[:, 0] + sub.problem.strong_convexity) + 1e-12).all()
    np.testing.assert_array_equal(memory.private[START], answer)
    assert list(memory.private) == [START]


def test_the_finest_tolerance_that_is_accepted_is_kept(posed):
    sub = posed(Quantile(0.3))
    off = np.linalg.norm(solved(sub, kinks.SHARPEST)[0] - minimisers(sub), axis=1)
    assert (off <= kinks.SHARPEST / sub.kappa[:, 0] + 1e-12).all()


@pytest.mark.parametrize("tolerance", [0.3, 1e-2, 1e-4])
@every_penalty
def test_a_loose_tolerance_is_kept_and_saves_work(penalty, tolerance, posed, monkeypatch):
    sub, widths = posed(Quantile(0.3), penalty), []
    smooth = kinks._smooth_minimiser
    monkeypatch.setattr(kinks, "_smooth_minimiser", lambda part, *rest: widths.append(1) or smooth(part, *rest))
    answer, _ = solved(sub, tolerance)
    off = np.linalg.norm(answer - minimisers(sub), axis=1) * (sub.kappa[:, 0] + sub.problem.strong_convexity)
    assert (off <= tolerance + 1e-12).all()
    assert len(widths) < {0.3: 4, 1e-2: 7, 1e-4: 11}[tolerance]


@every_penalty
@every_loss
def test_what_is_claimed_of_a_point_is_true_of_it(loss, penalty, posed):
    """c |x - x*| <= (|g| + sqrt(|g|² + 4 c e)) / 2 wherever x is, and not much more where it is a rounded minimiser."""
    sub, rng = posed(loss, penalty), np.random.default_rng(1)
    best, stiff = minimisers(sub), sub.kappa[:, 0] + sub.problem.strong_convexity
    for width in (1.0, 1e-2, 1e-4):
        rounded = sub.rounded(width)
        for spread in (0.0, 1e-6, 1e-3, 1.0):
            x = best + spread * rng.standard_normal(best.shape)
            assert (stiff * np.linalg.norm(x - best, axis=1) <= kinks._distance(rounded, x) + ROUNDING).all()
        x = kinks._smooth_minimiser(rounded, np.zeros_like(best), 1e-8)
        claimed, true = kinks._distance(rounded, x), stiff * np.linalg.norm(x - best, axis=1)
        assert (true <= claimed + ROUNDING).all()
        assert (claimed <= np.sqrt(10.0 * stiff * width)).all()  # it falls with the width
    assert (kinks._distance(sub.rounded(1e-4), best + 1.0) >= stiff).all()


@pytest.mark.parametrize(("loss", "penalty"), [(Quantile(0.1), "l1"), (Quantiles((0.2, 0.7)), "l2")], ids=str)
def test_a_batch_of_n_is_n_batches_of_one_bit_for_bit(loss, penalty, posed):
    sub = posed(loss, penalty)
    together, _ = solved(sub)
    for i in range(4):
        np.testing.assert_array_equal(solved(sub.take([i]))[0][0], together[i])
    np.testing.assert_array_equal(solved(sub.take([3, 1]))[0], together[[3, 1]])


def test_where_it_starts_does_not_matter_beyond_the_tolerance_and_is_not_written_to(posed):
    sub = posed(Quantile(0.8), "elastic-net")
    stiff = sub.kappa[:, 0] + sub.problem.strong_convexity
    cold, memory = solved(sub)
    kept = memory.point.copy()
    far, _ = solved(sub, start=1e3)
    warm, _ = Exact(TOLERANCE).solve(sub.tilted(np.ones_like(sub.tilt)), sub.loss_gradient, memory, np.ones((4, 1)))
    assert (np.linalg.norm(far - cold, axis=1) <= 2 * TOLERANCE / stiff).all()
    assert (warm != cold).all()
    np.testing.assert_array_equal(memory.point, kept)


def test_a_median_of_numbers_is_found_where_several_are_minimal(subproblem):
    """All rows alike, and weak pull: every point between the middle two is all but minimal, the pull decides."""
    shards = gather(np.ones((4, 1)), np.array([0.0, 1.0, 3.0, 9.0]), np.zeros(4, dtype=int), norm_bound=1.0)
    sub = subproblem(Problem(Quantile(0.5)), shards)
    for centre, median in ((-5.0, 1.0), (2.0, 2.0), (5.0, 3.0)):
        pulled = replace(sub, tilt=np.zeros((1, 1)), kappa=np.full((1, 1), 1e-3), centre=np.full((1, 1), centre))
        assert solved(pulled)[0][0, 0] == pytest.approx(median, abs=1e-3)


def test_an_agent_with_a_few_records_is_solved_too(posed):
    """Three records and three levels at the tolerance of f-admm: the width that the proof needs is 1e-11, and there the
    gradient has rounding errors of 1e-6 and more."""
    sub = posed(Quantiles((0.1, 0.5, 0.9)))
    few = gather(sub.shards.real_rows[:3], sub.shards.targets[:3], np.zeros(3, dtype=int), norm_bound=2.0)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        terms = {"tilt": 0.1 * rng.standard_normal((1, 9)), "centre": rng.standard_normal((1, 9))}
        solved(replace(sub, shards=few, weights=np.full(1, 1 / 3), kappa=np.full((1, 1), 0.1), **terms))


# What is refused, and what to do instead

REFUSED = {
    "too fine": (1e-8, Problem(Quantile()), r"to a tolerance of 1e-07 at best, not 1e-08; set the tolerance to 1e-6"),
    "the usual": (1e-10, Problem(Quantiles()), r"loss 'quantiles'.* at best, not 1e-10; .*or use 'f-admm'"),
    "a box": (1e-6, Problem(Quantile(), domain=Box(1.0)), r"kink of loss 'quantile' on the whole space.*'fdp-admm'"),
    "a ball": (1e-6, Problem(Quantile(), domain=Ball(1.0)), r"cannot handle the set 'ball'.*'dp-admm' and 'obj-g'"),
    "not convex": (1e-6, Problem(Quantile(), Mcp(), 0.1), r"needs a convex penalty, 'mcp' is not; .*'fdp-admm'"),
}


@pytest.mark.parametrize(("tolerance", "problem", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_proved_is_refused_with_what_to_do(tolerance, problem, message, terms):
    with pytest.raises(InputError, match=message):
        Exact(tolerance).check(terms(problem, [5, 6]))


def test_too_many_coefficients_are_refused(terms):
    Exact(1e-6).check(terms(Problem(Quantile()), [5, 6], dimension=1000))
    with pytest.raises(InputError, match=r"up to 1,000 coefficients; recipes of gradient steps, such as 'fdp-admm'"):
        Exact(1e-6).check(terms(Problem(Quantile()), [5, 6], dimension=1001))


def test_a_loss_without_a_kink_has_no_such_bounds(terms):
    Exact(1e-10).check(terms(Problem(ClippedSquared(), domain=Box(1.0)), [5, 6], dimension=1001))


def test_what_is_not_proved_is_not_answered(posed, monkeypatch):
    monkeypatch.setattr(kinks, "NARROWEST", 1e-3)
    with pytest.raises(ConvergenceError, match=r"agent 'owner \d': no minimiser was proved to the tolerance 1.0e-06"):
        solved(posed(Quantile(0.3)))
