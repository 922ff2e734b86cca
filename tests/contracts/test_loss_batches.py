"""How a loss is computed must not matter: dense or sparse, alone or in a batch, on one thread or on two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from dpadmm.errors import InputError
from dpadmm.problems.losses import Softmax
from dpadmm.release.sums import CHUNK
from dpadmm.testing.batches import check_alone, check_order, check_sparse, check_sums, supported
from dpadmm.testing.integers import check_equal, check_gradient, check_storage, integers

SIZES = [1, 3, 2 * CHUNK + 276, 40, CHUNK, CHUNK + 1, 31, 700]


@pytest.fixture(autouse=True)
def one_blas_thread() -> Iterator[None]:
    """As the engine has it: BLAS itself adds in another order on two threads."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(params=[4, 107])
def wide(case: Any, request: pytest.FixtureRequest) -> Any:
    """The loss over few and over more columns, so that vector loops have whole and broken parts."""
    return replace(case, width=request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(77)


def problem(case: Any, rng: np.random.Generator, sparse: bool) -> tuple[Any, Any, Any]:
    """Ragged shards, and a model and a weight for each agent."""
    return case.ragged(rng, SIZES, sparse=sparse), case.models(rng, len(SIZES)), rng.uniform(0.001, 1.0, len(SIZES))


def test_sparse_rows_give_what_dense_rows_give(wide: Any) -> None:
    dense, x, weights = problem(wide, np.random.default_rng(5), sparse=False)
    sparse, _, _ = problem(wide, np.random.default_rng(5), sparse=True)
    assert sparse.sparse
    assert not dense.sparse
    np.testing.assert_array_equal(sparse.features.toarray(), dense.features)
    check_sparse(wide, dense, sparse, x, weights)


def test_softmax_refuses_a_hessian_over_sparse_rows_and_no_other_loss_does(case: Any, rng: np.random.Generator) -> None:
    shards, _, _ = problem(case, rng, sparse=True)
    assert (supported(case, shards) == case.methods) == (not isinstance(case.loss, Softmax))
    if isinstance(case.loss, Softmax):
        with pytest.raises(InputError, match="no Hessian over sparse rows"):
            case.loss.hessian(shards, np.zeros((len(SIZES), 12)), np.ones(len(SIZES)))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_batch_equals_batches_of_one_bit_for_bit(wide: Any, rng: np.random.Generator, sparse: bool) -> None:
    check_alone(wide, *problem(wide, rng, sparse))


@pytest.mark.parametrize("sparse", [False, True])
def test_taking_and_tiling_agents_changes_no_bit(case: Any, rng: np.random.Generator, sparse: bool) -> None:
    check_order(case, *problem(case, rng, sparse))


@pytest.mark.parametrize("sparse", [False, True])
def test_the_number_of_threads_changes_no_bit(wide: Any, rng: np.random.Generator, sparse: bool) -> None:
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one thread only")
    shards, x, weights = problem(wide, rng, sparse)
    before = numba.get_num_threads()
    try:
        for method in supported(wide, shards):
            numba.set_num_threads(1)
            one = method(shards, x, weights)
            numba.set_num_threads(2)
            two = method(shards, x, weights)
            assert np.array_equal(one, two)
    finally:
        numba.set_num_threads(before)


def test_an_agents_answer_is_the_weighted_sum_over_its_records(case: Any, rng: np.random.Generator) -> None:
    check_sums(case, *problem(case, rng, sparse=False))


# What is released: integers


@pytest.mark.parametrize("sparse", [False, True])
def test_the_released_sum_is_the_same_however_it_is_computed(wide: Any, rng: np.random.Generator, sparse: bool) -> None:
    shards, x, _ = problem(wide, rng, sparse)
    check_equal(wide, shards, x, rng)
    check_gradient(wide, shards, x)


def test_dense_and_sparse_rows_give_equal_integers(wide: Any) -> None:
    """Of a margin only 20 of 53 binary digits are seen. Scores of several classes are in single precision, and may
    come out differently: within the rounding that is allowed for."""
    (dense, x, _), (sparse, _, _) = (problem(wide, np.random.default_rng(5), sparse=kind) for kind in (False, True))
    if isinstance(wide.loss, Softmax):
        check_storage(wide, dense, sparse, x)
    else:
        np.testing.assert_array_equal(*(integers(wide.query.total(shards, x)) for shards in (dense, sparse)))


def test_float32_records_give_the_integers_of_the_same_records_in_float64(wide: Any, rng: np.random.Generator) -> None:
    rows, targets = wide.rows(rng, 500).astype(np.float32), wide.targets(rng, 500)
    x = wide.models(rng, 1)
    one, other = (wide.shards(rows.astype(kind), targets, np.zeros(500, int)) for kind in (np.float32, np.float64))
    np.testing.assert_array_equal(*(integers(wide.query.total(shards, x)) for shards in (one, other)))
