"""Noise on mini-batches: no record moves a step's estimate further than its lemma says, and events say as much."""

import math

import numpy as np
import pytest

from dpadmm.admm.perturbations import SampledGradient
from dpadmm.admm.perturbations.batches import PoissonCost, UniformCost
from dpadmm.admm.sampling import SAMPLINGS
from dpadmm.admm.setting import Multiplier, TotalBudget
from dpadmm.admm.solvers import Sgd, Svrg
from dpadmm.admm.solvers.base import Solver, Subproblem
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy import accounting, mixtures
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import (
    ComposedDpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    Relation,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    VarianceReducedDpEvent,
    flatten,
)
from dpadmm.problems.losses import ClippedSquared, Logistic, Quantile, SmoothedHinge, Softmax
from dpadmm.problems.problem import Problem
from dpadmm.problems.shards import gather
from dpadmm.release.changes import change
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec import resolve
from dpadmm.spec.declare import RunSpec
from dpadmm.testing.integers import integers

ZERO_OUT, REPLACE = Relation.ZERO_OUT, Relation.REPLACE
ROWS, RECORDS, WIDTH, REACH = 3000, 10, 3, 0.05
LOSSES = [Logistic(), ClippedSquared(), SmoothedHinge(0.5), Softmax()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
KINDS = {
    "sgd": (Sgd(batch=2), 0.0),
    "svrg": (Svrg(batch=2), 0.0),
    "svrg within reach": (Svrg(batch=2, reach=REACH), 0.0),
    "noisy anchor": (Svrg(batch=2), 0.3),
    "noisy anchor within reach": (Svrg(batch=2, reach=REACH), 0.3),
}
every_kind = pytest.mark.parametrize(("solver", "anchor_share"), KINDS.values(), ids=KINDS)


def batch(features, targets):
    """One agent for each of the first axis."""
    rows, records = features.shape[:2]
    owner = np.repeat(np.arange(rows), records)
    targets = targets.reshape(rows * records)
    names = [str(i) for i in range(rows)]
    return gather(features.reshape(rows * records, -1), targets, owner, norm_bound=1.0, names=names)


def estimate(solver, anchor_share, setting, shards, anchor, point, drawn, monkeypatch):
    """A step's estimate with these records drawn (rows of booleans), and what the anchor said, as (Sum, Sum). With
    noise of its own the anchor is a release, so that both neighbours have the same."""
    zeros = np.zeros_like(point)
    sub = Subproblem(setting.problem, shards, setting.weights, zeros, np.full((len(point), 1), 0.1), zeros)
    monkeypatch.setitem(SAMPLINGS, "poisson", lambda *_: (np.nonzero(drawn)[1], drawn.sum(axis=1)))

    def no_bits(purpose):
        return None

    whole = (solver.whole(setting, sub) if isinstance(solver, Svrg) else Solver.sums(solver, setting, sub, no_bits))(
        anchor
    )
    sums = solver.corrections(setting, sub, no_bits) if anchor_share else solver.sums(setting, sub, no_bits)
    sums(anchor)
    return sums(point), whole


def moved_by(one, other, setting):
    """How far apart two sums are, in units of Delta; (n,)."""
    assert np.array_equal(one.units, other.units)
    return np.linalg.norm(one.counts - other.counts, axis=1) / (setting.sensitivity() * one.finer)


@pytest.mark.parametrize("persons", [1, 3])
@pytest.mark.parametrize("weighting", ["owners", "records"])
@every_kind
@every_loss
def test_no_record_moves_an_estimate_further_than_the_lemma_says(
    loss, solver, anchor_share, weighting, persons, terms, monkeypatch
):
    """Brute force: random records, points and draws; the first records of an agent are blanked, drawn or not."""
    rng = np.random.default_rng(persons)
    features = rng.standard_normal((ROWS, RECORDS, WIDTH)) * rng.choice([0.3, 1.0, 5.0], size=(ROWS, RECORDS, 1))
    labels = {"binary": [-1.0, 1.0], "multiclass": [0, 1, 2], "regression": [-1.0, 0.0, 1.0]}[loss.task]
    targets, blanked = rng.choice(labels, size=(ROWS, RECORDS)), features.copy()
    blanked[:, :persons] = 0.0
    problem = Problem(loss, records=ROWS * RECORDS if weighting == "records" else None)
    setting = terms(problem, batch(features, targets), relation=ZERO_OUT, unit_size=persons, width=WIDTH)
    dimension = setting.dimension
    anchor = rng.standard_normal((ROWS, dimension)) * rng.choice([0.1, 3.0, 100.0], size=(ROWS, 1))
    move = rng.standard_normal((ROWS, dimension))
    if getattr(solver, "reach", None) is None:
        point = anchor + move * rng.choice([0.1, 3.0, 300.0], size=(ROWS, 1))
    else:
        point = anchor + REACH * move / np.linalg.norm(move, axis=1, keepdims=True)
    drawn = rng.random((ROWS, RECORDS)) < 0.4
    (with_it, its_anchor), (without, other_anchor) = (
        estimate(solver, anchor_share, setting, batch(rows, targets), anchor, point, drawn, monkeypatch)
        for rows in (features, blanked)
    )
    assert (moved_by(its_anchor, other_anchor, setting) <= 1.0).all()
    cost = PoissonCost(setting, solver, anchor_share)
    sizes, chances = cost.shifts(0)
    assert len(sizes) == persons + 1
    together = drawn[:, :persons].sum(axis=1)
    moved = moved_by(with_it, without, setting)
    for j in range(persons + 1):
        assert (moved[together == j] <= sizes[j]).all()
    assert moved.max() > 0.2 * sizes[persons]
    q = float(solver.rates(setting.counts)[0])
    assert q == pytest.approx(0.2, rel=1e-3)
    binomial = [math.comb(persons, j) * q**j * (1.0 - q) ** (persons - j) for j in range(persons + 1)]
    np.testing.assert_allclose(chances, binomial, rtol=1e-12)


@pytest.mark.parametrize("reach", [None, REACH])
@pytest.mark.parametrize("loss", LOSSES[:3], ids=lambda loss: loss.name)
def test_a_record_s_two_shifts_are_linked_but_for_what_is_paid_for_beside(loss, reach, terms, monkeypatch):
    """Not their lengths alone: their three inner products, drawn or not, are those of two slopes within the accounted
    range, and no more than the Gaussian release beside the linked step adds (theory 5.3)."""
    rng, solver = np.random.default_rng(3), Svrg(batch=2, reach=reach)
    features = rng.standard_normal((ROWS, RECORDS, WIDTH)) * rng.choice([0.3, 1.0, 5.0], size=(ROWS, RECORDS, 1))
    labels = [-1.0, 1.0] if loss.task == "binary" else [-1.0, 0.0, 1.0]
    targets, blanked = rng.choice(labels, size=(ROWS, RECORDS)), features.copy()
    blanked[:, 0] = 0.0
    setting = terms(Problem(loss), batch(features, targets), relation=ZERO_OUT, width=WIDTH)
    anchor = rng.standard_normal((ROWS, WIDTH)) * rng.choice([0.1, 3.0, 100.0], size=(ROWS, 1))
    move = rng.standard_normal((ROWS, WIDTH))
    if reach is None:
        move *= rng.choice([0.1, 3.0, 300.0], size=(ROWS, 1))
    else:
        move *= REACH / np.linalg.norm(move, axis=1, keepdims=True)
    point, drawn = anchor + move, rng.random((ROWS, RECORDS)) < 0.4

    def sums(rows, coin):
        coins = drawn.copy()
        coins[:, 0] = coin
        return estimate(solver, 0.0, setting, batch(rows, targets), anchor, point, coins, monkeypatch)[0]

    without, unit = sums(blanked, False), setting.sensitivity()
    np.testing.assert_array_equal(sums(blanked, True).counts, without.counts)
    undrawn, being_drawn = (
        (sums(features, coin).counts - without.counts) / (unit * without.finer)[:, None] for coin in (False, True)
    )
    step, beside = PoissonCost(setting, solver, 0.0).step(0, 1.0).events
    q, longest = step.sampling_probability, 1.0 / step.noise_multiplier
    # What the record alone contributes, before rounding: along its row, so numbers say all.
    alone, query = batch(features[:, :1], targets[:, :1]), solver.query(setting)
    of_anchor = integers(query.total(alone, anchor)).astype(float)
    moved = integers(change(query, alone, point, anchor, solver.longest_change(setting))).astype(float)
    of_point, worth = of_anchor + moved, math.ldexp(1.0, -setting.bounds.shift) / unit
    farther = np.linalg.norm(of_anchor, axis=1) > np.linalg.norm(of_point, axis=1)
    way = np.where(farther[:, None], of_anchor, of_point)
    way /= np.maximum(np.linalg.norm(way, axis=1), 1.0)[:, None]
    p1, p2 = (np.clip(worth * (each * way).sum(axis=1), -longest, longest) for each in (of_point, of_anchor))
    if step.one_sided:
        p1, p2 = np.maximum(p1, 0.0), np.maximum(p2, 0.0)
    p1 = np.clip(p1, p2 - step.change * longest, p2 + step.change * longest)
    v = (p1 - (1.0 - q) * p2) / q
    shifts = ((undrawn, undrawn, p2 * p2), (undrawn, being_drawn, p2 * v), (being_drawn, being_drawn, v * v))
    for one, other, linked in shifts:
        assert ((one * other).sum(axis=1) - linked).max() <= 1.0 / beside.noise_multiplier**2
    assert np.abs(v).max() > 0.9 * min(1.0, step.change) * longest / q - longest


@pytest.mark.parametrize("persons", [1, 3])
@pytest.mark.parametrize("weighting", ["owners", "records"])
@every_kind
def test_some_records_move_an_estimate_nearly_as_far(solver, anchor_share, weighting, persons, terms, monkeypatch):
    """A loss whose slope can turn round, and points far to either side: none of the lemma's shifts is far too long."""
    loss, reach = ClippedSquared(1.0), getattr(solver, "reach", None)
    features = np.zeros((persons + 1, RECORDS, WIDTH))
    features[:, :persons, 0] = 1.0
    problem = Problem(loss, records=7 * RECORDS if weighting == "records" else None)
    drawn = np.zeros((persons + 1, RECORDS), dtype=bool)
    for j in range(persons + 1):
        drawn[j, :j] = True
    anchor = np.zeros((persons + 1, WIDTH))
    point = anchor.copy()
    if reach is None:
        anchor[:, 0], point[:, 0] = -100.0, 100.0
    else:  # up to where the slope stops growing
        anchor[:, 0], point[:, 0] = 1.0 - reach, 1.0
    # Where the anchor is far, those not drawn pull the way that the corrections of the others do.
    targets = np.where(drawn | (reach is not None), 0.0, -1000.0)
    shards, empty = batch(features, targets), batch(0.0 * features, targets)
    setting = terms(problem, shards, relation=ZERO_OUT, unit_size=persons)
    found, other = (
        estimate(solver, anchor_share, setting, records, anchor, point, drawn, monkeypatch)[0]
        for records in (shards, empty)
    )
    moved = moved_by(found, other, setting)
    sizes, _ = PoissonCost(setting, solver, anchor_share).shifts(0)
    assert (moved <= np.array(sizes)).all()
    assert (moved >= 0.9 * np.array(sizes)).all()


def test_the_lemma_in_numbers(terms):
    """Theory 5.2 and 5.3, for slopes of one sign: G/M and G/B in units of G/M; sgd 0 and G/B; a noisy anchor 0 and G/B,
    within reach less. These numbers are met to one part in a million, and never from below."""
    setting = terms(Problem(), [1000, 50], relation=ZERO_OUT)
    for agent in range(2):
        solvers = {
            "svrg": (Svrg(batch=10), 0.0),
            "sgd": (Sgd(batch=10), 0.0),
            "anchor": (Svrg(batch=10), 0.3),
            "near": (Svrg(batch=10, reach=0.1), 0.0),
            "near anchor": (Svrg(batch=10, reach=0.1), 0.3),
        }
        q = float(Sgd(batch=10).rates(setting.counts)[agent])
        bend = 0.25 * 0.1  # of a record's gradient, within reach
        expected = {
            "svrg": (1.0, 1 / q),
            "sgd": (0.0, 1 / q),
            "anchor": (0.0, 1 / q),
            "near": (1.0, 1 + bend / q),
            "near anchor": (0.0, bend / q),
        }
        for name, (solver, share) in solvers.items():
            cost = PoissonCost(setting, solver, share)
            sizes, chances = cost.shifts(agent)
            assert sizes == pytest.approx(expected[name], rel=5e-5)  # rounded up, for agents that differ by rounding
            real = np.array(sizes) * setting.gradient_sensitivity()[agent] * setting.counts[agent]
            assert all(size >= least for size, least in zip(real, expected[name], strict=True))
            assert chances == pytest.approx((1 - q, q), rel=1e-12)


@pytest.mark.parametrize("dimension", [3, 99_999])
@pytest.mark.parametrize("persons", [1, 4])
@pytest.mark.parametrize("loss", [Logistic(), Softmax(), ClippedSquared(0.3)], ids=lambda loss: loss.name)
def test_shifts_are_those_of_the_integer_sums_with_what_rounding_adds(loss, persons, dimension, terms):
    """Written out in whole numbers: what the records of a person contribute at most, weighted, then rounded, which
    moves two neighbours apart by at most sqrt(D)."""
    columns = dimension // loss.outputs(3)
    setting = terms(
        Problem(loss), [1000, 37, 3], dimension=dimension, width=columns, relation=ZERO_OUT, unit_size=persons
    )
    assert setting.bounds.dimension == dimension
    norm, shift = setting.bounds.norm, setting.bounds.shift
    for solver, share in KINDS.values():
        solver = type(solver)(**{**{f: getattr(solver, f) for f in solver.__dataclass_fields__}, "batch": 3})
        reach = getattr(solver, "reach", None)
        sides = 1 if loss.name == "logistic" else 2
        moved = math.ceil(loss.curvature_bound(1.0) * REACH / setting.bounds.worth) if reach else sides * norm
        cost, (drawn, of) = PoissonCost(setting, solver, share), solver.odds(setting.counts)
        finer = solver.finer(setting)
        for agent in range(3):
            a, b = int(drawn[agent]), int(of[agent])
            digits = a.bit_length() - 1
            for j, size in enumerate(cost.shifts(agent)[0]):
                rounding = math.sqrt(dimension) * (j > 0)
                if not isinstance(solver, Svrg):
                    cells, lattice = j * norm, 2**shift
                    assert finer[agent] == a / b
                else:
                    cells, lattice = j * b * moved, 2 ** (shift + digits)
                    assert lattice * finer[agent] == a * 2**shift
                    if not share:  # the anchor's rounding, and the correction's
                        cells = (persons - j) * a * norm + j * min(
                            a * norm + sides * (b - a) * norm, a * norm + b * moved
                        )
                        rounding += math.sqrt(dimension)
                least = (cells / lattice + rounding) / (setting.sensitivity() * finer[agent])
                assert least <= size <= least * 1.0002 + 1e-4 * (persons > 1)


# -- reach -------------------------------------------------------------------------------------------------------------


class Cliff(Quantile):
    """Has a kink, where its slope jumps by twice its bound, and says that it bends little."""

    def curvature_bound(self, norm_bound):
        return 1e-3


@pytest.mark.parametrize("anchor_share", [0.0, 0.3], ids=["held", "noisy anchor"])
def test_a_record_whose_slope_jumps_moves_an_estimate_no_further_than_within_reach(anchor_share, terms, monkeypatch):
    """The bound on curvature is wrong here: the slope jumps from -1/2 to 1/2 within reach. Privacy must not need it."""
    loss, reach, persons = Cliff(0.5), 0.02, 2
    solver = Svrg(batch=2, reach=reach)
    features = np.zeros((1, RECORDS, WIDTH))
    features[:, :persons, 0] = 1.0
    targets = np.zeros((1, RECORDS))
    drawn = np.zeros((1, RECORDS), dtype=bool)
    drawn[:, :persons] = True
    anchor, point = np.zeros((1, WIDTH)), np.zeros((1, WIDTH))
    anchor[:, 0], point[:, 0] = -reach / 2, reach / 2
    shards, empty = batch(features, targets), batch(0.0 * features, targets)
    setting = terms(Problem(loss), shards, relation=ZERO_OUT, unit_size=persons)
    found, other = (
        estimate(solver, anchor_share, setting, records, anchor, point, drawn, monkeypatch)[0]
        for records in (shards, empty)
    )
    sizes, _ = PoissonCost(setting, solver, anchor_share).shifts(0)
    moved = moved_by(found, other, setting)[0]
    assert moved <= sizes[persons]
    free = Svrg(batch=2)
    found, other = (
        estimate(free, anchor_share, setting, records, anchor, point, drawn, monkeypatch)[0]
        for records in (shards, empty)
    )
    assert moved_by(found, other, setting)[0] > 2.0 * sizes[persons]  # so without being cut it would


# -- events ------------------------------------------------------------------------------------------------------------


def test_a_round_of_svrg_is_a_step_of_linked_shifts_for_every_step(terms):
    setting = terms(Problem(), [40, 100], relation=ZERO_OUT)
    noise = SampledGradient().calibrate(setting, Svrg(updates=7, batch=10), Multiplier(30.0))
    for event, count in zip(noise.events, (40, 100), strict=True):
        assert isinstance(event, SelfComposedDpEvent)
        assert event.count == 7
        step, beside = event.event.events
        q = next(iter(Svrg(batch=10).rates(np.array([count]))))
        assert q == pytest.approx(10 / count, rel=1e-3)
        assert isinstance(step, VarianceReducedDpEvent)
        assert (step.sampling_probability, step.one_sided) == (q, True)
        assert step.noise_multiplier == pytest.approx(30.0, rel=1e-6)
        assert step.change == pytest.approx(1.0, rel=1e-6)
        assert beside.noise_multiplier > 1e4  # what rounding adds
    assert noise.anchor is None


def test_a_round_of_plain_mini_batches_is_a_subsampled_gaussian_for_every_step(terms):
    setting = terms(Problem(), [40], relation=ZERO_OUT)
    (event,) = SampledGradient().calibrate(setting, Sgd(updates=7, batch=10), Multiplier(30.0)).events
    assert (event.count, event.event.sampling_probability) == (7, 0.25)
    assert isinstance(event.event, PoissonSampledDpEvent)
    assert event.event.event.noise_multiplier == pytest.approx(30.0 * 0.25, rel=1e-4)


def test_a_noisy_anchor_is_one_gaussian_more_a_round(terms):
    setting = terms(Problem(), [40], relation=ZERO_OUT)
    perturbation = SampledGradient(anchor_share=0.2)
    noise = perturbation.calibrate(setting, Svrg(updates=7, batch=10), Multiplier(30.0))
    (event,) = noise.events
    assert isinstance(event, ComposedDpEvent)
    anchor, steps = event.events
    assert (steps.count, steps.event.sampling_probability) == (7, 0.25)
    assert steps.event.event.noise_multiplier == pytest.approx(30.0 * 0.25, rel=1e-4)
    assert isinstance(anchor, GaussianDpEvent)
    assert anchor.noise_multiplier == noise.anchor.noise_multiplier[0]
    # Its share of mu², where every step costs what its mean shift of 1 unit does.
    mine, all_steps = 1 / anchor.noise_multiplier**2, 7 * (1.0 / 30.0) ** 2
    assert mine / (mine + all_steps) == pytest.approx(0.2, rel=1e-3)


def test_a_batch_of_everything_is_a_gaussian(terms):
    setting = terms(Problem(), [40], relation=ZERO_OUT)
    (event,) = SampledGradient().calibrate(setting, Svrg(updates=7, batch=40), Multiplier(30.0)).events
    assert event.event.noise_multiplier == pytest.approx(30.0, rel=1e-4)
    (event,) = SampledGradient().calibrate(setting, Sgd(updates=7, batch=40), Multiplier(30.0)).events
    assert event.event.noise_multiplier == pytest.approx(30.0, rel=1e-4)


def test_several_records_of_a_person_are_drawn_each_by_itself(terms):
    """Three records: the anchor holds them all, and each that is drawn adds its own; in units of three."""
    setting = terms(Problem(), [40], relation=ZERO_OUT, unit_size=3)
    (event,) = SampledGradient().calibrate(setting, Svrg(updates=2, batch=10), Multiplier(30.0)).events
    assert event.event.sensitivities == pytest.approx([1 + j * (4 - 1) / 3 for j in range(4)], rel=1e-4)
    assert event.event.sampling_probs == pytest.approx([27 / 64, 27 / 64, 9 / 64, 1 / 64])


def test_one_uniform_record_is_a_release_of_the_anchor_and_one_of_the_correction(terms, monkeypatch):
    """The noise is split; the parts' variances add up, and neither is counted as louder than it is (claims B5)."""
    monkeypatch.setattr(UniformCost, "_best_split", lambda *_: 0.1)
    setting = terms(Problem(), [40], relation=REPLACE)
    solver = Svrg(updates=7, batch=1, sampling="uniform")
    (event,) = SampledGradient().calibrate(setting, solver, Multiplier(300.0)).events
    flat = flatten({event: 1})
    assert set(flat.values()) == {7}
    anchor = next(e for e in flat if isinstance(e, GaussianDpEvent))
    drawn = next(e for e in flat if isinstance(e, SampledWithoutReplacementDpEvent))
    assert (drawn.source_dataset_size, drawn.sample_size) == (40, 1)
    sigma = 300.0 * setting.gradient_sensitivity()[0]
    first, second = anchor.noise_multiplier * 2 / 40, drawn.event.noise_multiplier * 2.0
    assert first**2 + second**2 == pytest.approx(sigma**2, rel=1e-6)
    assert first**2 == pytest.approx(0.1 * sigma**2, rel=1e-6)


def test_the_split_of_the_proof_is_better_than_others(terms):
    setting = terms(Problem(), [40], relation=REPLACE, rounds=2)
    cost = UniformCost(setting, Svrg(updates=3, batch=1, sampling="uniform"), 1e-5)
    chosen = cost.total(cost.round(0, 100.0), 1e-5)
    others = [cost.total(cost._with(0, 100.0, split), 1e-5) for split in (0.001, 0.01, 0.1, 0.6)]
    assert chosen <= min(others) * 1.001
    assert chosen < 0.9 * max(others)


def test_agents_with_as_many_records_but_other_budgets_have_each_their_own_split(terms, monkeypatch):
    monkeypatch.setattr(mixtures, "POINTS", 2000)  # rough, which is as good here, and quick
    monkeypatch.setattr(accounting, "_kept", accounting._kept.__wrapped__)  # so nothing rough is kept
    recipe = ALGORITHMS["ps-admm"].tuned(batch=1, sampling="uniform", updates=2)
    setting, budgets = terms(Problem(), [40, 40], relation=REPLACE, rounds=2), (Budget(0.5, 1e-5), Budget(8.0, 1e-3))
    together = recipe.plan(setting, TotalBudget(budgets))
    alone = [recipe.plan(setting.take([i]), TotalBudget((budgets[i],))) for i in range(2)]
    assert together.events(1) == tuple(plan.events(1)[0] for plan in alone)
    for agent, budget in enumerate(budgets):
        assert 0.99 * budget.epsilon < together.accounts().guarantee(agent, budget.delta).epsilon <= budget.epsilon


@pytest.mark.parametrize("algorithm", ["ps-admm", "ps-admm-anchor", "ps-admm-sgd"])
def test_noise_is_found_where_drawing_a_record_is_about_as_rare_as_delta(algorithm):
    """Noise of the size of a drawn record's shift is then hundreds of times too loud."""
    spec = RunSpec(algorithm, epsilon=1.0, delta=1e-2, relation="zero-out", batch=0.001, rounds=1, updates=1)
    plan = resolve.plan(spec, np.array([2000]), 3, 2)
    spent = plan.accounts().worst(1e-2).epsilon
    assert spent <= 1.0
    # Without an anchor nothing happens but with the chance of being drawn, which delta covers whatever the noise.
    assert (spent == 0.0) if algorithm == "ps-admm-sgd" else (spent > 0.99)
    assert 0.0 < plan.noise[0].mechanism.noise_multiplier[0] < 10.0


# -- noise -------------------------------------------------------------------------------------------------------------


def heard(perturbation, solver, multiplier, terms, task, steps=4, rows=4000):
    """What the solver hears of its gradients, step by step at given points, less what they are."""
    rng = np.random.default_rng(0)
    shards = batch(rng.standard_normal((1, 20, WIDTH)), np.ones((1, 20))).take(np.zeros(rows, dtype=np.int64))
    setting = terms(Problem(), shards, relation=ZERO_OUT)
    zeros = np.zeros((rows, WIDTH))
    sub = Subproblem(setting.problem, shards, setting.weights, zeros, np.full((rows, 1), 0.1), zeros)
    names, runs = np.arange(rows), np.zeros(rows, dtype=np.int64)

    def random_bits(purpose):
        return SeededRandomness(1).stream(runs, names, 1, purpose)

    said = {}
    for level in (multiplier, 0.0):
        noise = perturbation.calibrate(setting, solver, Multiplier(level))
        said[level] = []

        def solve(given, oracle, memory, eta, emit=None, said=said[level]):
            said.extend(oracle(zeros + s) for s in range(steps))
            return zeros, memory

        listening = type(solver)(**{f: getattr(solver, f) for f in solver.__dataclass_fields__})
        object.__setattr__(listening, "solve", solve)
        perturbation.release(task(setting, noise, listening, sub, random_bits=random_bits))
    return (np.stack(said[multiplier]) - np.stack(said[0.0])) / setting.gradient_sensitivity()[0]


@pytest.mark.parametrize("solver", [Sgd(updates=4, batch=5), Svrg(updates=4, batch=5)], ids=["sgd", "svrg"])
def test_every_step_s_noise_is_fresh_and_as_loud_as_its_event_says(solver, terms, task):
    noise = heard(SampledGradient(), solver, 1.7, terms, task)
    assert noise.std(axis=(1, 2)) == pytest.approx([1.7] * 4, rel=0.03)
    together = np.corrcoef(noise.reshape(4, -1))
    assert np.abs(together - np.eye(4)).max() < 4.5 / math.sqrt(noise[0].size)


def test_a_noisy_anchor_s_noise_stays_for_the_round_beside_every_step_s_own(terms, task):
    solver, perturbation = Svrg(updates=4, batch=5), SampledGradient(anchor_share=0.3)
    noise = heard(perturbation, solver, 1.7, terms, task, rows=16_000)
    (event,) = set(perturbation.calibrate(terms(Problem(), [20], relation=ZERO_OUT), solver, Multiplier(1.7)).events)
    anchor = event.events[0].noise_multiplier ** 2
    covariance = np.cov(noise.reshape(4, -1))
    error = (anchor + 1.7**2) * math.sqrt(2.0 / noise[0].size)
    np.testing.assert_allclose(covariance, anchor + 1.7**2 * np.eye(4), atol=4.5 * error)
    assert anchor > 0.4


def test_a_solver_cannot_ask_more_often_than_is_paid_for(terms, task):
    for solver in (Sgd(updates=4, batch=5), Svrg(updates=4, batch=5)):
        with pytest.raises(RuntimeError, match="more steps than the 4 it pays"):
            heard(SampledGradient(), solver, 1.7, terms, task, steps=5, rows=3)


@pytest.mark.parametrize("share", [-0.1, 1.0, 1.5, math.nan])
def test_an_anchor_s_share_lies_between_nothing_and_all(share):
    with pytest.raises(InputError, match=r"anchor_share = .* must be"):
        SampledGradient(anchor_share=share)
