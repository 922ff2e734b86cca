"""How a loss is computed must not matter: dense or sparse, alone or in a batch, on one thread or on two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from dpadmm.errors import InputError
from dpadmm.problems.losses import Softmax
from dpadmm.problems.shards import CHUNK, gather

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


def problem(case: Any, rng: np.random.Generator, sparse: bool) -> tuple[Any, Any, Any, list[Any]]:
    """Ragged shards, a model and a weight for each agent, and what can be computed of them."""
    shards = case.ragged(rng, SIZES, sparse=sparse)
    no_hessian = sparse and isinstance(case.loss, Softmax)
    methods = [method for method in case.methods if not (no_hessian and method == case.loss.hessian)]
    return shards, case.models(rng, len(SIZES)), rng.uniform(0.001, 1.0, len(SIZES)), methods


def test_sparse_rows_give_what_dense_rows_give(wide: Any) -> None:
    dense, x, weights, _ = problem(wide, np.random.default_rng(5), sparse=False)
    sparse, _, _, methods = problem(wide, np.random.default_rng(5), sparse=True)
    assert sparse.sparse
    assert not dense.sparse
    np.testing.assert_array_equal(sparse.features.toarray(), dense.features)
    for method in methods:
        answer = method(dense, x, weights)
        np.testing.assert_allclose(method(sparse, x, weights), answer, rtol=1e-11, atol=1e-12 * np.abs(answer).max())


def test_softmax_refuses_a_hessian_over_sparse_rows(rng: np.random.Generator) -> None:
    rows = csr_array(np.eye(3))
    shards = gather(rows, np.arange(3), np.zeros(3, dtype=int), norm_bound=1.0)
    with pytest.raises(InputError, match="no Hessian over sparse rows"):
        Softmax().hessian(shards, np.zeros((1, 9)), np.ones(1))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_batch_equals_batches_of_one_bit_for_bit(wide: Any, rng: np.random.Generator, sparse: bool) -> None:
    shards, x, weights, methods = problem(wide, rng, sparse)
    for method in methods:
        together = method(shards, x, weights)
        for i, (start, stop) in enumerate(zip(shards.starts, shards.stops, strict=True)):
            selected = method(shards.take([i]), x[[i]], weights[[i]])
            own = gather(
                shards.features[start:stop],
                shards.targets[start:stop],
                np.zeros(stop - start, dtype=int),
                norm_bound=shards.norm_bound,
            )
            alone = method(own, x[[i]], weights[[i]])
            assert np.array_equal(together[i], selected[0])
            assert np.array_equal(together[i], alone[0])


@pytest.mark.parametrize("sparse", [False, True])
def test_taking_and_tiling_agents_changes_no_bit(case: Any, rng: np.random.Generator, sparse: bool) -> None:
    shards, x, weights, methods = problem(case, rng, sparse)
    some = np.array([5, 2, 2, 0])
    for method in methods:
        together = method(shards, x, weights)
        assert np.array_equal(method(shards.take(some), x[some], weights[some]), together[some])
        runs = method(shards.tile(3), np.tile(x, (3, 1)), np.tile(weights, 3))
        assert np.array_equal(runs, np.concatenate([together] * 3))


@pytest.mark.parametrize("sparse", [False, True])
def test_the_number_of_threads_changes_no_bit(wide: Any, rng: np.random.Generator, sparse: bool) -> None:
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one thread only")
    shards, x, weights, methods = problem(wide, rng, sparse)
    before = numba.get_num_threads()
    try:
        for method in methods:
            numba.set_num_threads(1)
            one = method(shards, x, weights)
            numba.set_num_threads(2)
            two = method(shards, x, weights)
            assert np.array_equal(one, two)
    finally:
        numba.set_num_threads(before)


def test_an_agents_answer_is_the_weighted_sum_over_its_records(case: Any, rng: np.random.Generator) -> None:
    shards, x, weights, methods = problem(case, rng, sparse=False)
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    rows = np.arange(owner.size)
    singles = replace(shards, starts=rows, stops=rows + 1, names=tuple(map(str, rows)))
    for method in methods:
        per_record = method(singles, x[owner], np.ones(owner.size))
        sums = np.stack([weights[i] * per_record[owner == i].sum(axis=0) for i in range(len(SIZES))])
        np.testing.assert_allclose(method(shards, x, weights), sums, rtol=1e-11, atol=1e-11 * np.abs(sums).max())
