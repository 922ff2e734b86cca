"""Second moments as a gradient: what they are, how far one row moves them (claims B8), and their release's noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpadmm.admm.algorithm import Plan
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy import gaussian
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses import SecondMoment
from dpadmm.problems.losses.statistics import pack, unpack
from dpadmm.problems.shards import Shards, gather
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec import resolve
from dpadmm.spec.declare import RunSpec

LOSS = SecondMoment()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def fixed(rows: Any) -> NDArray[Any]:
    """The nearest rows whose numbers are multiples of 2^-12: with a norm bound of 1,024 they are kept as they are."""
    return np.rint(np.asarray(rows) * 2.0**12) / 2.0**12


def released(rows: Any, weights: Any, owner: Any = None, **rules: Any) -> NDArray[Any]:
    """The gradient over these rows, at a point that cannot matter."""
    owner = np.zeros(rows.shape[0], dtype=int) if owner is None else owner
    shards = gather(rows, np.zeros(rows.shape[0]), owner, **({"norm_bound": 1024.0} | rules))
    x = np.random.default_rng(0).normal(size=(shards.agents, LOSS.dimension(shards.width, 0)))
    return LOSS.gradient(shards, x, np.asarray(weights, dtype=float))


# What it is


@pytest.mark.parametrize("width", [1, 4, 20])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_gradient_is_the_weighted_sum_of_outer_products(rng: np.random.Generator, width: int, sparse: bool) -> None:
    owner = np.repeat([0, 1, 2], [1, 700, 30])  # one agent has several chunks
    rows = fixed(rng.normal(size=(731, width)) * (rng.random((731, width)) < 0.6))
    found = released(csr_array(rows) if sparse else rows, [1.0, 0.1, 2.5], owner)
    assert found.shape == (3, width * (width + 1) // 2)
    for agent, weight in enumerate([1.0, 0.1, 2.5]):
        moments = weight * rows[owner == agent].T @ rows[owner == agent]
        np.testing.assert_allclose(unpack(found)[agent], moments, atol=1e-12 * max(1.0, np.abs(moments).max()))


def test_it_is_linear_so_the_model_does_not_matter_and_values_are_inner_products(rng: np.random.Generator) -> None:
    rows, x = fixed(rng.normal(size=(9, 3))), rng.normal(size=(1, 6))
    shards = gather(rows, np.zeros(9), np.zeros(9, dtype=int), norm_bound=16.0)
    np.testing.assert_array_equal(LOSS.gradient(shards, x, np.ones(1)), LOSS.gradient(shards, 1e3 * x, np.ones(1)))
    matrix = unpack(x)[0]
    assert LOSS.values(shards, x, np.ones(1))[0] == pytest.approx(sum(row @ matrix @ row for row in rows))
    np.testing.assert_array_equal(LOSS.hessian(shards, x, np.ones(1)), np.zeros((1, 6, 6)))
    assert LOSS.curvature_bound(9.0) == 0.0
    np.testing.assert_allclose(LOSS.predictions(rows, x)[0], [row @ matrix @ row for row in rows])
    np.testing.assert_array_equal(LOSS.encode(np.array([math.nan, 3.0]), 0), [0.0, 0.0])


def test_sums_are_exact_of_the_integer_rows(rng: np.random.Generator) -> None:
    """2,000 rows that add up, of either type: not as float32 would add them, nor as float64 would."""
    rows = np.abs(rng.normal(size=(2000, 5))).astype(np.float32)
    shards = gather(rows, np.zeros(2000), np.zeros(2000, dtype=int), norm_bound=1024.0)
    whole = shards.features.astype(np.int64)
    exact = (whole.T @ whole).astype(np.longdouble) * np.longdouble(shards.cell) ** 2
    for given_rows in (rows, rows.astype(float)):
        np.testing.assert_allclose(unpack(released(given_rows, [1.0]))[0], exact.astype(float), rtol=1e-14)


@given(arrays(float, (4, 4), elements=st.floats(-1e6, 1e6)), arrays(float, (4, 4), elements=st.floats(-1e6, 1e6)))
@settings(max_examples=50, deadline=None)
def test_packing_is_an_isometry_and_unpacking_its_inverse(one: Any, other: Any) -> None:
    one, other = one + one.T, other + other.T
    rows = pack(np.stack([one, other]))
    assert rows.shape == (2, 10)
    np.testing.assert_allclose(unpack(rows), [one, other], rtol=1e-15)
    scale = 1e-14 * (1.0 + np.linalg.norm(one) * np.linalg.norm(other))
    np.testing.assert_allclose(rows[0] @ rows[1], (one * other).sum(), atol=scale)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [np.linalg.norm(one), np.linalg.norm(other)], rtol=1e-14)


@pytest.mark.parametrize("width", [1, 2, 3, 10, 107])
def test_any_row_of_numbers_unpacks_to_a_symmetric_matrix(rng: np.random.Generator, width: int) -> None:
    row = rng.normal(size=width * (width + 1) // 2)
    matrix = unpack(row)
    assert matrix.shape == (width, width)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(pack(matrix), row, rtol=1e-15)


# How far one row moves it


def moved(one: Any, other: Any, bound: float, norm: int = 2) -> float:
    """Between two agents that differ in their last row; None: it is blanked."""
    others = np.random.default_rng(5).normal(size=(4, len(one)))
    blank = np.zeros_like(one)
    pair = [
        released(np.vstack([others, row]), [1.0], norm_bound=bound)[0]
        for row in (one, blank if other is None else other)
    ]
    return float(np.linalg.norm(pair[0] - pair[1], ord=norm))


@pytest.mark.parametrize("bound", [1.0, 3.0])
def test_orthogonal_rows_attain_the_sensitivity_and_opposite_ones_move_nothing(bound: float) -> None:
    u, v = bound * np.eye(4)[:2]
    limit = LOSS.sensitivity(bound, Relation.REPLACE)
    assert limit == pytest.approx(math.sqrt(2.0) * bound**2)
    assert moved(u, v, bound) == pytest.approx(limit)
    assert moved(u, -u, bound) == pytest.approx(0.0, abs=1e-12)
    assert moved(u, None, bound) == pytest.approx(LOSS.sensitivity(bound, Relation.ZERO_OUT)) == pytest.approx(bound**2)


row_of_length_two = arrays(float, 3, elements=st.floats(-2.0, 2.0)).map(
    lambda row: row * min(1.0, 2.0 / max(float(np.linalg.norm(row)), 1e-300))
)


@given(row_of_length_two, row_of_length_two)
@settings(max_examples=100, deadline=None)
def test_no_pair_exceeds_it(one: Any, other: Any) -> None:
    assert moved(one, other, 2.0) <= LOSS.sensitivity(2.0, Relation.REPLACE) * (1.0 + 1e-12)
    assert moved(one, None, 2.0) <= LOSS.sensitivity(2.0, Relation.ZERO_OUT) * (1.0 + 1e-12)
    for norm, relation, pair in ((1, Relation.REPLACE, other), (1, Relation.ZERO_OUT, None)):
        assert moved(one, pair, 2.0, norm) <= LOSS.sensitivity(2.0 * math.sqrt(3.0), relation, norm) * (1.0 + 1e-12)


def test_in_the_1_norm_rows_of_numbers_of_one_size_come_close(rng: np.random.Generator) -> None:
    """|pack(a aᵀ)|_1 = sum a² + sqrt(2) sum_{i<j} |a_i a_j| of at most (sum |a|)²: a share of 1/sqrt(2) and more."""
    row = np.full(9, 1.0 / 3.0)
    limit = LOSS.sensitivity(3.0, Relation.ZERO_OUT, 1)
    assert limit == 9.0
    exactly = 1.0 + math.sqrt(2.0) * 36 / 9.0
    assert moved(row, None, 1.0, 1) == pytest.approx(exactly, rel=3e-6)
    assert 0.7 * limit < exactly <= limit
    assert LOSS.sensitivity(3.0, Relation.REPLACE, 1) == 18.0  # where rows share no column, the two sums add up
    u, v = 3.0 * np.eye(4)[:2]
    assert moved(u, v, 3.0, 1) == pytest.approx(18.0)


# The release: claims B8, option 2


def planned(counts: Any, width: int, **terms: Any) -> Plan:
    run = RunSpec("private-components", rounds=1, penalty="none", strength=0.0, **terms)
    return resolve.plan(run, np.asarray(counts), width, 0)


def deviation(plan: Plan) -> NDArray[Any]:
    """s: of one agent's entries off the diagonal."""
    mechanism = plan.noise[0].mechanism
    return mechanism.noise_multiplier * plan.setting.gradient_sensitivity() / math.sqrt(2.0)


def test_the_audit_s_figure() -> None:
    """100,000 records of length 1 with ten agents at (1, 1e-6): s = 4.2e-4 for each."""
    plan = planned([10_000] * 10, 16, epsilon=1.0, delta=1e-6)
    np.testing.assert_allclose(deviation(plan), 4.2e-4, rtol=0.01)
    exact = math.sqrt(2.0) / 10_000 / (math.sqrt(2.0) * gaussian.mu(1.0, 1e-6))  # Delta_F / (sqrt(2) mu)
    # Pairs of columns count 17/12 instead of sqrt(2), and that is rounded up: 0.35 % more noise.
    assert (deviation(plan) >= exact).all()
    np.testing.assert_allclose(deviation(plan), exact * math.sqrt(145.0 / 144.0), rtol=1e-6)


@pytest.mark.parametrize(("relation", "unit"), [("replace", math.sqrt(2.0)), ("zero-out", 1.0)])
def test_its_event_is_a_gaussian_one_of_its_own_noise(relation: str, unit: float) -> None:
    """mu = Delta_F / (sqrt(2) s) for each agent, by its own number of records."""
    counts = np.array([50, 400])
    plan = planned(counts, 5, epsilon=2.0, delta=1e-5, norm_bound=3.0, relation=relation)
    sensitivity = unit * 3.0**2 / counts
    for agent, event in enumerate(plan.events(1)):
        assert isinstance(event, GaussianDpEvent)
        mu = sensitivity[agent] / (math.sqrt(2.0) * deviation(plan)[agent])
        assert 1.0 / event.noise_multiplier == pytest.approx(mu * math.sqrt(145.0 / 144.0), rel=1e-6)
    spent = plan.accounts().worst(1e-5)
    assert spent.accountant == "exact"
    assert 0.999999 * 2.0 <= spent.epsilon <= 2.0
    assert gaussian.epsilon(mu, 1e-5) < 2.0  # what is paid for is a little more than what the noise needs


def test_the_noise_of_the_matrix_is_symmetric_and_louder_by_sqrt_2_on_the_diagonal(rng: np.random.Generator) -> None:
    """Over 4,000 releases: mean, standard deviations, and no two entries that go together."""
    width, runs = 4, 4000
    rows = rng.normal(size=(60, width))
    shards: Shards = gather(rows, np.zeros(60), np.repeat([0, 1], [20, 40]), norm_bound=2.0)
    plan = planned(shards.counts, width, noise_multiplier=3.0, delta=1e-5, norm_bound=2.0)
    cohort = Cohort.of(plan, shards, range(runs), SeededRandomness(3))
    (state,) = rounds(cohort, SimulationState.of(cohort), InProcessExecutor())
    given_away = state.agents.released.reshape(runs, 2, -1)
    silent = LOSS.gradient(shards, np.zeros((2, 10)), 1.0 / shards.counts)
    for agent, s in enumerate(deviation(plan)):
        assert s == pytest.approx(
            3.0 * 4.0 / shards.counts[agent] * math.sqrt(145.0 / 144.0), rel=1e-6
        )  # z Delta_F / sqrt(2)
        noise = unpack(given_away[:, agent] - silent[agent])
        assert np.abs(noise.mean(axis=0)).max() < 5.0 * math.sqrt(2.0) * s / math.sqrt(runs)
        row, column = np.triu_indices(width)
        covariance = np.cov(noise[:, row, column].T)
        expected = np.where(row == column, 2.0, 1.0) * s**2
        np.testing.assert_allclose(np.diag(covariance), expected, rtol=0.15)
        together = covariance / np.sqrt(np.outer(expected, expected))
        assert np.abs(together[np.triu_indices(10, 1)]).max() < 5.0 / math.sqrt(runs)
    # From zero, one step of length one along the mean: what is broadcast is minus the mean of the releases.
    np.testing.assert_allclose(state.shared.model, -given_away.mean(axis=1), rtol=1e-12)


def test_a_recipe_of_a_statistic_goes_with_it_and_with_no_loss() -> None:
    for algorithm, loss in (
        ("private-components", "logistic"),
        ("components", "quantile"),
        ("dp-admm", "second-moment"),
    ):
        with pytest.raises(InputError, match=f"algorithm '{algorithm}' does not go with loss '{loss}'"):
            resolve.problem(RunSpec(algorithm, loss=loss))
    assert isinstance(resolve.problem(RunSpec("private-components")).loss, SecondMoment)
    assert ALGORITHMS["private-components"].twin == "components"
