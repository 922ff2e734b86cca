"""How far one record can move what an agent computes: by the formulas, and by real neighbours."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from dpadmm.admm.perturbations import Output
from dpadmm.admm.setting import Multiplier
from dpadmm.admm.solvers import LocalUpdates
from dpadmm.admm.solvers.base import Subproblem
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses import LOSSES, ClippedSquared, Logistic, Quantile, Quantiles, SmoothedHinge, Softmax
from dpadmm.problems.penalties import L1, L2
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import Ball, Box, Simplex, Whole
from dpadmm.problems.shards import gather

COUNTS = np.array([10, 20, 6000])
LATTICE = 5e-6  # what slopes of several classes, the lattice and rounding to it add, relative to the papers' formulas
RELATIONS = pytest.mark.parametrize("relation", list(Relation), ids=str)


def slopes(loss, relation):
    """(2-norm, 1-norm) of what one record of length one can do to a sum of gradients, by hand (theory 1)."""
    one, other = {
        "logistic": (1.0, 1.0),
        "smoothed-hinge": (1.0, 1.0),
        "squared": (0.3, 0.3),
        "softmax": (math.sqrt(2), 2.0),
        "quantile": (0.8, 0.8),
        "quantiles": (math.sqrt(0.7**2 + 0.8**2), 0.7 + 0.8),
    }[loss.name]
    times = 2.0 if relation is Relation.REPLACE else 1.0
    return times * one, times * other


# -- the formulas ------------------------------------------------------------------------------------------------------


@RELATIONS
@pytest.mark.parametrize(
    "loss",
    [Logistic(), SmoothedHinge(), ClippedSquared(0.3), Softmax(), Quantile(0.2), Quantiles((0.3, 0.8))],
    ids=lambda x: x.name,
)
def test_the_1_norm_is_of_rows_and_not_of_models(loss, relation, terms):
    """A row of 4 numbers no longer than 3 has a 1-norm of at most 3 sqrt(4), however many classes the model has."""
    setting = terms(Problem(loss), COUNTS, dimension=12, width=4, norm_bound=3.0, relation=relation)
    euclidean, manhattan = slopes(loss, relation)
    np.testing.assert_allclose(setting.gradient_sensitivity(), 3 * euclidean / COUNTS, rtol=LATTICE)
    np.testing.assert_allclose(setting.gradient_sensitivity(1), 3 * math.sqrt(4) * manhattan / COUNTS, rtol=LATTICE)


def test_without_a_width_the_models_size_stands_for_it_and_errs_on_the_safe_side(terms):
    setting = terms(Problem(Softmax()), COUNTS, dimension=12)
    known = replace(setting, width=4)
    assert (known.gradient_sensitivity(1) < setting.gradient_sensitivity(1)).all()
    assert (setting.gradient_sensitivity(1) <= math.sqrt(3) * known.gradient_sensitivity(1)).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_gaussian_noise_does_not_care_for_the_width(loss, terms):
    setting = terms(Problem(LOSSES[loss]()), COUNTS, dimension=12)
    scales = []
    for width in (None, 4, 12):
        wide = replace(setting, width=width)
        plan = ALGORITHMS["obj-g"].plan(wide, Multiplier(2.0))
        assert plan.noise[0].mechanism.norm == 2
        scales.append((*wide.gradient_sensitivity(), *plan.level.sigma))
    np.testing.assert_allclose(scales[1:], scales[:1] * 2, rtol=2e-5)  # classes count, and rounding


def test_an_intercept_is_within_the_bound_in_both_norms():
    """(a, 1) with |a| <= R: |(a, 1)|_1 <= sqrt(d) R + 1 <= sqrt(d + 1) sqrt(R² + 1)."""
    rng = np.random.default_rng(0)
    rows = 2.0 * rng.choice([-1.0, 1.0], (50, 8)) / math.sqrt(8)
    shards = gather(rows, np.ones(50), np.zeros(50, dtype=int), norm_bound=2.0, intercept=True)
    longest = np.abs(shards.real_rows).sum(axis=1).max()
    limit = shards.norm_bound * math.sqrt(shards.width)
    assert longest == pytest.approx(2.0 * math.sqrt(8) + 1.0, rel=1e-5)
    assert 0.9 * limit < longest <= limit


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("records", [None, 50_000], ids=["owners", "records"])
@pytest.mark.parametrize(("persons", "relation"), [(1, Relation.REPLACE), (3, Relation.ZERO_OUT)])
@pytest.mark.parametrize("loss", [Logistic(), Softmax()], ids=lambda loss: loss.name)
def test_what_the_lattice_adds_is_paid_for_and_little(loss, norm, records, persons, relation, terms):
    """Never less than the formula on paper; the rounding of D numbers is sqrt(D) or D units of about 2^-30 of it."""
    setting = terms(
        Problem(loss, records=records),
        COUNTS,
        dimension=4 * loss.outputs(3),
        width=4,
        norm_bound=3.0,
        relation=relation,
        unit_size=persons,
    )
    weight = 1 / COUNTS if records is None else np.full(3, 1 / records)
    exact = persons * slopes(loss, relation)[2 - norm] * (3 if norm == 2 else 6) * weight
    found = setting.gradient_sensitivity(norm)
    bounds = setting.bounds
    rounding = bounds.dimension if norm == 1 else math.sqrt(bounds.dimension)
    assert (exact + weight * bounds.coarse * rounding < found).all()
    assert (found < exact * (1 + LATTICE)).all()
    assert 2**29 < bounds.norm / 2**bounds.shift <= 2**30


# -- where all records count alike -------------------------------------------------------------------------------------


def test_a_record_weighs_the_same_wherever_it_lies(terms):
    owners, records = (terms(Problem(Softmax(), records=n), COUNTS, dimension=12, width=4) for n in (None, 6030))
    np.testing.assert_allclose(owners.gradient_sensitivity(), 2 * math.sqrt(2) / COUNTS, rtol=LATTICE)
    np.testing.assert_allclose(records.gradient_sensitivity(), np.full(3, 2 * math.sqrt(2) / 6030), rtol=LATTICE)
    np.testing.assert_allclose(records.gradient_sensitivity(1), np.full(3, 4 * math.sqrt(4) / 6030), rtol=LATTICE)
    np.testing.assert_allclose(owners.gradient_bound, np.full(3, math.sqrt(2)), rtol=1e-14)
    np.testing.assert_allclose(records.gradient_bound, math.sqrt(2) * COUNTS / 6030, rtol=1e-14)
    np.testing.assert_allclose(records.smoothness, 0.5 * COUNTS / 6030, rtol=1e-14)


def test_an_agent_alone_still_knows_how_many_records_there_are(terms):
    setting = terms(Problem(records=6030), COUNTS)
    for agent in range(3):
        alone = setting.take([agent])
        np.testing.assert_array_equal(alone.weights, [1 / 6030])
        for norm in (1, 2):
            np.testing.assert_array_equal(alone.gradient_sensitivity(norm), setting.gradient_sensitivity(norm)[[agent]])
    np.testing.assert_array_equal(terms(Problem(), COUNTS).take([2, 0]).weights, [1 / 6000, 1 / 10])


# -- real neighbours ---------------------------------------------------------------------------------------------------

RECORDS, WIDTH, KAPPA, ETA = 6, 5, 0.3, 0.5
SETS = {"whole": Whole(), "box": Box(0.1), "ball": Ball(0.2), "simplex": Simplex(0.5)}
TRUE_LOSSES = {
    "logistic": (Logistic(), 1),
    "softmax": (Softmax(), 3),
    "squared": (ClippedSquared(0.3), 1),
    "quantiles": (Quantiles((0.3, 0.8)), 2),
}


def neighbours(loss, relation, rng, count=120):
    """An agent's records, in as many versions as there are others for the last; under zero-out one is blank.

    A row of zeros has a constant loss, so it is the blanked record.
    """
    rows = rng.standard_normal((RECORDS - 1 + count, WIDTH))
    rows[-count // 2 :] = rng.choice([-1.0, 1.0], (count // 2, WIDTH))  # long in the 1-norm
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = rng.integers(3, size=len(rows)) if loss.task == "multiclass" else rng.choice([-1.0, 1.0], len(rows))
    others = np.array(rows[RECORDS - 1 :])
    if relation is Relation.ZERO_OUT:
        others[0] = 0.0
    features = np.concatenate([np.vstack([rows[: RECORDS - 1], other]) for other in others])
    targets = np.concatenate([np.append(labels[: RECORDS - 1], label) for label in labels[RECORDS - 1 :]])
    owner = np.repeat(np.arange(count), RECORDS)
    return gather(features, targets, owner, norm_bound=1.0, names=[str(i) for i in range(count)])


def far_apart(values, relation, metric):
    """The largest distance between two neighbours: any two versions, or any from the one with the record blanked."""
    return cdist(values if relation is Relation.REPLACE else values[:1], values, metric).max()


@RELATIONS
@pytest.mark.parametrize("updates", [1, 3])
@pytest.mark.parametrize("weighting", [None, 40], ids=["owners", "records"])
@pytest.mark.parametrize("kind", TRUE_LOSSES)
@pytest.mark.parametrize("name", SETS)
def test_no_neighbour_moves_the_result_of_a_step_further_than_stated(name, kind, weighting, updates, relation, terms):
    """Every step of a round starts where the noisy result before it was, which is the same for both neighbours."""
    rng = np.random.default_rng(5)
    loss, outputs = TRUE_LOSSES[kind]
    problem = Problem(loss, L1(), 0.02, SETS[name], weighting)
    shards = neighbours(loss, relation, rng)
    dimension = WIDTH * outputs
    setting = terms(problem, shards, dimension=dimension, width=WIDTH, relation=relation)
    solver, perturbation = LocalUpdates(updates), Output("laplace", may_leave=True)
    kappa, eta = np.full((shards.agents, 1), KAPPA), np.full((shards.agents, 1), ETA)
    limits = {norm: perturbation.sensitivity(setting, solver, kappa[:, 0], eta[:, 0], norm).max() for norm in (1, 2)}
    reached = dict.fromkeys(limits, 0.0)
    for spread in (0.0, 0.1, 1.0, 10.0):
        start, centre, tilt, *path = spread * rng.standard_normal((3 + updates, dimension))
        rows = [np.tile(row, (shards.agents, 1)) for row in (tilt, centre)]
        sub = Subproblem(problem, shards, setting.weights, rows[0], kappa, rows[1])
        seen = []

        def public(value, seen=seen, path=path):
            seen.append(value)
            return np.tile(path[len(seen) - 1], (len(value), 1))

        first = np.tile(problem.domain.project(start[None]), (shards.agents, 1))
        sums = solver.sums(setting, sub, None)
        answer, memory = solver.solve(sub, lambda x, sums=sums: sums(x).value, solver.start(first), eta, public)
        assert len(seen) == updates
        np.testing.assert_array_equal(np.ptp(answer, axis=0), 0.0)  # made of what was emitted, and of nothing else
        np.testing.assert_array_equal(np.ptp(memory.point, axis=0), 0.0)
        for value in seen:
            assert problem.domain.contains(value).all()
            for norm, metric in ((1, "cityblock"), (2, "euclidean")):
                moved = far_apart(value, relation, metric)
                assert moved <= limits[norm]
                reached[norm] = max(reached[norm], moved / limits[norm])
    assert reached[2] > 0.2  # so that the limit was put to the test
    assert reached[1] > (0.15 if problem.domain.separable else 0.04)


@RELATIONS
@pytest.mark.parametrize("kind", ["logistic", "softmax"])
@pytest.mark.parametrize("name", SETS)
def test_no_neighbour_moves_a_release_without_noise_further_than_stated(name, kind, relation, terms, task):
    """The whole way, from records to what would be sent, with one step a round and the noise turned off."""
    rng = np.random.default_rng(6)
    loss, outputs = TRUE_LOSSES[kind]
    problem = Problem(loss, L2(), 0.05, SETS[name])
    shards = neighbours(loss, relation, rng)
    setting = terms(problem, shards, dimension=WIDTH * outputs, width=WIDTH, relation=relation)
    centre = np.tile(0.3 * rng.standard_normal(WIDTH * outputs), (shards.agents, 1))
    kappa = np.full((shards.agents, 1), KAPPA)
    sub = Subproblem(problem, shards, setting.weights, np.zeros_like(centre), kappa, centre)
    for mechanism, metric in (("gaussian", "euclidean"), ("laplace", "cityblock")):
        perturbation, solver = Output(mechanism, may_leave=True), LocalUpdates()
        silent = perturbation.calibrate(setting, solver, Multiplier(0.0))
        release, _ = perturbation.release(task(setting, silent, solver, sub, ETA))
        norm = silent.mechanism.norm
        limit = perturbation.sensitivity(setting, solver, kappa[:, 0], np.full(shards.agents, ETA), norm).max()
        assert 0.02 * limit < far_apart(release.value, relation, metric) <= limit


@pytest.mark.parametrize("domain", [Ball(1.0), Simplex(1.0)], ids=lambda domain: domain.name)
@pytest.mark.parametrize("dimension", [10, 50])
def test_elsewhere_than_over_intervals_a_projection_can_lengthen_a_change_in_the_1_norm(domain, dimension):
    """claims B4: so gain * (1-norm of the gradient's change) would be no bound there; sqrt(D) times the 2-norm is."""
    one = np.full(dimension, 1.0 / (dimension if domain.name == "simplex" else math.sqrt(dimension)))
    other = one + 1e-4 * np.eye(dimension)[0]
    moved = np.subtract(*domain.project(np.stack([other, one])))
    assert np.abs(moved).sum() == pytest.approx(2e-4 * (1 - 1 / dimension), rel=1e-3)
    assert 1.7e-4 < np.abs(moved).sum() <= math.sqrt(dimension) * np.linalg.norm(moved) <= math.sqrt(dimension) * 1e-4
    apart = np.subtract(*Box(one[0]).project(np.stack([other, one - 1e-4 * np.eye(dimension)[1]])))
    assert np.abs(apart).sum() <= 2e-4


# -- what the noise is -------------------------------------------------------------------------------------------------


@RELATIONS
@pytest.mark.parametrize("name", ["obj-l", "out-l"])
def test_laplace_noise_has_the_scale_of_the_1_norm(name, relation, terms, task):
    """A crowd of agents with one record each: one release of them is many draws."""
    agents, width = 1500, 4
    rng = np.random.default_rng(1)
    shards = gather(rng.standard_normal((agents, width)), np.ones(agents), np.arange(agents), norm_bound=1.0)
    setting = terms(Problem(), shards, width=width, relation=relation)
    zeros, kappa = np.zeros((agents, width)), np.full((agents, 1), KAPPA)
    sub = Subproblem(setting.problem, shards, setting.weights, zeros, kappa, zeros)
    phase = ALGORITHMS[name].phases[0]
    values = []
    for multiplier in (1.7, 0.0):
        noise = phase.perturbation.calibrate(setting, phase.solver, Multiplier(multiplier))
        values.append(phase.perturbation.release(task(setting, noise, phase.solver, sub, ETA))[0].value)
    scale = 1.7 * math.sqrt(width) * (2.0 if relation is Relation.REPLACE else 1.0) / (KAPPA + 1 / ETA)
    assert stats.kstest((values[0] - values[1]).ravel(), stats.laplace(scale=scale).cdf).pvalue > 0.01
