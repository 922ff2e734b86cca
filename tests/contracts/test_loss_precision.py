"""Records in float32: the same numbers as in float64 to a stated error, sums in float64, and no bit by company."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from dpadmm.problems.losses import LOSSES, Softmax
from dpadmm.problems.shards import CHUNK, Shards, gather
from dpadmm.testing.batches import check_alone, check_order

SIZES = [1, 3, 2 * CHUNK + 276, 40, CHUNK, CHUNK + 1, 31, 700]
BOTH = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
UNIT = 2.0**-24


@pytest.fixture(autouse=True)
def one_blas_thread() -> Iterator[None]:
    """As the engine has it: BLAS itself adds in another order on two threads."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(params=[4, 107])
def wide(case: Any, request: pytest.FixtureRequest) -> Any:
    return replace(case, width=request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(78)


def narrow(shards: Shards) -> Shards:
    """The same records, rounded."""
    return replace(shards, features=shards.features.astype(np.float32))


def widened(shards: Shards) -> Shards:
    """The same numbers, as they were rounded, in float64."""
    return replace(shards, features=shards.features.astype(np.float64))


def problem(case: Any, rng: np.random.Generator, sparse: bool) -> tuple[Shards, Any, Any]:
    """Ragged shards in float32, and a model (of numbers that float32 has) and a weight for each agent."""
    shards = narrow(case.ragged(rng, SIZES, sparse=sparse))
    x = case.models(rng, len(SIZES)).astype(np.float32).astype(np.float64)
    return shards, x, rng.uniform(0.001, 1.0, len(SIZES))


def singles(shards: Shards) -> Shards:
    """Every record as an agent of its own."""
    rows = np.arange(shards.targets.size)
    return replace(shards, starts=rows, stops=rows + 1, names=tuple(map(str, rows)))


# The same numbers


def gradients_between(case: Any, shards: Shards, x: Any, weights: Any, off: Any) -> Any:
    """How far gradients can be apart that see margins off by this much: they are monotone, also across a kink."""
    if case.bends:
        return weights * shards.counts * case.loss.curvature_bound(1.0) * off * case.loss.gradient_bound(case.bound)
    owner = np.repeat(np.arange(shards.agents), shards.counts)
    low, high = (
        case.loss.gradient(
            singles(replace(shards, targets=shards.targets + side * off[owner])), x[owner], weights[owner]
        )
        for side in (-1.0, 1.0)
    )
    return np.bincount(owner, np.linalg.norm(high - low, axis=1))


@BOTH
def test_float32_records_give_what_the_same_records_give_in_float64(wide: Any, rng: Any, sparse: bool) -> None:
    """The margin is off by at most about width units of |a| |x|; a gradient follows by the loss's curvature."""
    shards, x, weights = problem(wide, rng, sparse)
    assert shards.precision == "float32"
    assert widened(shards).precision == "float64"
    off = (wide.width + 16) * UNIT * wide.bound * np.linalg.norm(x, axis=1)
    total = weights * shards.counts
    rounding = total * 80 * UNIT * wide.loss.gradient_bound(wide.bound)
    for method, most in (
        (wide.loss.values, total * wide.loss.gradient_bound(1.0) * off),
        (wide.loss.gradient, gradients_between(wide, widened(shards), x, weights, off) + rounding),
    ):
        rounded, exact = method(shards, x, weights), method(widened(shards), x, weights)
        assert rounded.dtype == np.float64
        assert rounded.shape == exact.shape
        error = np.abs(rounded - exact).reshape(len(SIZES), -1).max(axis=1)
        assert (error <= most).all()
        # It is float32 that was computed in; a slope that is one of two numbers does not show it.
        assert (error > 0).any() or (method == wide.loss.gradient and not wide.bends)
        np.testing.assert_allclose(rounded, exact, rtol=0, atol=2e-5 * np.abs(exact).max())


@BOTH
def test_sparse_and_dense_records_agree_in_float32(wide: Any, sparse: bool) -> None:
    one, x, weights = problem(wide, np.random.default_rng(5), sparse)
    other, _, _ = problem(wide, np.random.default_rng(5), not sparse)
    for method in (wide.loss.values, wide.loss.gradient):
        exact = method(one, x, weights)
        np.testing.assert_allclose(method(other, x, weights), exact, rtol=0, atol=2e-5 * np.abs(exact).max())


@BOTH
def test_a_model_with_more_digits_than_float32_has_is_rounded_first(case: Any, rng: Any, sparse: bool) -> None:
    shards, x, weights = problem(case, rng, sparse)
    between = x * (1.0 + 2.0**-30)
    assert (between != x).all()
    for method in (case.loss.values, case.loss.gradient):
        np.testing.assert_array_equal(method(shards, between, weights), method(shards, x, weights))


# No bit by company


@BOTH
def test_a_batch_equals_batches_of_one_bit_for_bit(wide: Any, rng: Any, sparse: bool) -> None:
    given = problem(wide, rng, sparse)
    assert given[0].precision == "float32"
    check_alone(wide, *given)
    check_order(wide, *given)


@BOTH
def test_the_number_of_threads_changes_no_bit(wide: Any, rng: Any, sparse: bool) -> None:
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one thread only")
    shards, x, weights = problem(wide, rng, sparse)
    before = numba.get_num_threads()
    try:
        for method in (wide.loss.values, wide.loss.gradient):
            numba.set_num_threads(1)
            one = method(shards, x, weights)
            numba.set_num_threads(2)
            assert np.array_equal(one, method(shards, x, weights))
    finally:
        numba.set_num_threads(before)


# What sums lose: privacy pays for it


@pytest.mark.parametrize("name", LOSSES)
def test_the_stated_error_of_a_sum_is_no_looser_than_its_formula(name: str) -> None:
    """k u for k terms and a few more: chunks of 512 and their number in float64; blocks of 64 in float32."""
    counts = np.array([1, 60, 6000, 10**6])
    exact = (512 + counts / 512 + 16) * 2.0**-53
    np.testing.assert_array_equal(LOSSES[name]().summation_error(counts, "float64"), exact)
    blocks = (64 + 16) * UNIT if name in ("softmax", "capped-softmax") else 0.0
    np.testing.assert_array_equal(LOSSES[name]().summation_error(counts, "float32"), exact + blocks)


def lost(loss: Any, shards: Shards, x: NDArray[Any], per_record: NDArray[Any]) -> tuple[float, float]:
    """How far one agent's sum is from the exact sum of its terms, and what is stated, both in the 2-norm."""
    found = loss.gradient(shards, x, np.ones(1))[0]
    exact = per_record.astype(np.longdouble).sum(axis=0).astype(np.float64)
    lengths = np.linalg.norm(per_record, axis=1).sum()
    stated = loss.summation_error(shards.counts, shards.precision)[0]
    assert np.abs(found - exact).sum() <= stated * np.abs(per_record).sum() * (1.0 + 1e-9)  # in the 1-norm too
    return float(np.linalg.norm(found - exact)), stated * lengths


def alike(case: Any, rng: Any, count: int, spread: float) -> Shards:
    """Records of one agent that are nearly the same and all of one target: every rounding goes one way."""
    row = case.level(rng, 1)[0]
    rows = row * (1.0 - spread * rng.random((count, case.width)))
    return case.shards(rows, np.zeros(count, dtype=int), np.zeros(count, dtype=int))


@BOTH
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("spread", [0.0, 1e-6, 0.3])
def test_a_sum_of_many_nearly_equal_terms_loses_no_more_than_stated(
    wide: Any, rng: Any, sparse: bool, precision: str, spread: float
) -> None:
    """Of margin losses in either precision: what a record adds is taken as it is, one by one."""
    if isinstance(wide.loss, Softmax):
        pytest.skip("a block of softmax is one matrix product; see below")
    shards = alike(wide, rng, 6000, spread)
    shards = narrow(shards) if precision == "float32" else shards
    outputs = wide.loss.outputs(wide.classes)
    x = 0.2 * np.repeat(shards.features[:1].astype(np.float64), outputs, axis=1)  # where every loss has a slope
    shards = replace(shards, features=csr_array(shards.features)) if sparse else shards
    per_record = wide.loss.gradient(singles(shards), np.repeat(x, 6000, axis=0), np.ones(6000))
    assert np.linalg.norm(per_record, axis=1).min() > 1e-3
    off, stated = lost(wide.loss, shards, x, per_record)
    assert off <= stated


def softmax_terms(shards: Shards, model: NDArray[Any]) -> NDArray[Any]:
    """Each record's a (p - e_b)ᵀ in float64, flat, by NumPy."""
    rows = (shards.features.toarray() if shards.sparse else shards.features).astype(np.float64)
    scores = rows @ model
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(rows)), shards.targets] -= 1.0
    return np.asarray((rows[:, :, None] * p[:, None, :]).reshape(len(rows), -1))


@BOTH
@pytest.mark.parametrize(("width", "classes"), [(107, 2), (8, 10), (300, 3)])
@pytest.mark.parametrize("spread", [0.0, 1e-6, 0.3])
@pytest.mark.parametrize("scale", [0, 3])
def test_softmax_loses_no_more_in_float32_than_stated(
    rng: Any, width: int, classes: int, spread: float, scale: int, sparse: bool
) -> None:
    """6,000 rows whose scores are exact in float32, so that only exponentials, quotients and sums are rounded."""
    grid = 2.0**-6  # with the numbers of rows on this grid and models of whole numbers, all products are exact
    rows = np.rint(np.full((6000, width), 40.0) * (1.0 - spread * rng.random((6000, width)))) * grid
    targets = np.zeros(6000, dtype=np.int64)
    table = csr_array(rows) if sparse else rows
    shards = gather(table, targets, targets, norm_bound=100.0, precision="float32")
    assert shards.clipped == 0
    np.testing.assert_array_equal(shards.features.toarray() if sparse else shards.features, rows)
    model = np.zeros((width, classes))
    model[:4] = scale * rng.integers(-2, 3, (4, classes))
    model[:4, 0] = -scale
    off, stated = lost(Softmax(), shards, model.reshape(1, -1), softmax_terms(shards, model))
    assert off <= stated
    doubled, finer = lost(
        Softmax(), gather(table, targets, targets, norm_bound=100.0), model.reshape(1, -1), softmax_terms(shards, model)
    )
    assert doubled <= finer < stated / 1000


def test_the_stated_loss_of_softmax_is_needed(rng: Any) -> None:
    """Without the float32 part it would be false, and by a wide margin: this is what the widening pays for."""
    rows = np.full((6000, 100), 1.0 / 3.0) * (1.0 - 0.3 * rng.random((6000, 100)))
    targets = np.zeros(6000, dtype=np.int64)
    shards = gather(rows, targets, targets, norm_bound=100.0, precision="float32")
    model = np.zeros((100, 3))
    off, stated = lost(Softmax(), shards, model.reshape(1, -1), softmax_terms(shards, model))
    without = Softmax().summation_error(shards.counts, "float64")[0]
    assert off > 100 * without / Softmax().summation_error(shards.counts, "float32")[0] * stated
    assert stated / 1000 < off <= stated


@BOTH
def test_no_gradient_of_a_record_is_longer_in_float32_than_its_bound_and_what_is_stated(
    case: Any, rng: Any, sparse: bool
) -> None:
    rows = np.vstack([case.rows(rng, 3000), case.level(rng, 1000)])
    shards = case.shards(rows, case.targets(rng, 4000), sparse=sparse)
    x = case.models(rng, 4000, 10.0 ** rng.uniform(-2.0, 6.0, (4000, 1)))
    gradients = case.loss.gradient(narrow(shards), x, np.ones(4000))
    for norm, bound in ((2, case.bound), (1, case.bound * math.sqrt(case.width))):
        limit = case.loss.gradient_bound(bound, norm) * (1.0 + 16 * UNIT)
        lengths = np.linalg.norm(gradients, ord=norm, axis=1)
        assert np.isfinite(lengths).all()
        assert 0.9 * limit < lengths.max() <= limit


# Models too large for float32


@BOTH
@pytest.mark.parametrize("size", [1e16, 1e39, 1e100, 1e308])
def test_a_model_too_large_for_float32_is_cut_and_still_has_a_gradient(
    case: Any, rng: Any, sparse: bool, size: float
) -> None:
    """Whether a sum is a number must not depend on the records: some of these rows have zeros, and that would show."""
    shards = narrow(case.shards(case.rows(rng, 50), case.targets(rng, 50), np.zeros(50, dtype=int), sparse=sparse))
    signs = rng.choice([-1.0, 1.0], (1, case.dimension))
    for method in (case.loss.values, case.loss.gradient):
        found = method(shards, size * signs, np.ones(1))
        assert np.isfinite(found).all()
        np.testing.assert_array_equal(found, method(shards, 1e15 * signs, np.ones(1)))
    assert np.linalg.norm(found) <= 50 * case.loss.gradient_bound(case.bound) * (1.0 + 80 * UNIT)
