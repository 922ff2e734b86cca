"""Records over agents: who owns what, what is enforced on every row, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpadmm.errors import InputError
from dpadmm.problems.losses import Logistic
from dpadmm.problems.shards import CHUNK, Shards, gather

SIZES = [1, 2 * CHUNK + 5, 3, CHUNK, CHUNK + 1, 40]


@pytest.fixture(params=[np.asarray, csr_array], ids=["dense", "sparse"])
def table(request: pytest.FixtureRequest) -> Any:
    """Makes a table of rows, dense or CSR."""
    return request.param


@pytest.fixture
def rows() -> Any:
    """Rows of length 0 to 4, some numbers of them zero."""
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(200, 6)) * (rng.random((200, 6)) < 0.6)
    rows[7] = 0.0
    return rows


def dense(shards: Shards) -> Any:
    return shards.features.toarray() if shards.sparse else shards.features


def ragged(table: Any) -> Shards:
    """Shards of very different sizes; the target of a record is its number in the table."""
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    rows = np.random.default_rng(1).uniform(-0.3, 0.3, (owner.size, 3))
    return gather(table(rows), np.arange(owner.size, dtype=float), owner, norm_bound=1.0)


# Who owns what


def test_owner_names_are_numbered_in_sorted_order_and_keep_their_records_in_order(table: Any) -> None:
    owner = np.array(["oslo", "bern", "rome", "bern", "oslo", "bern"])
    features = np.arange(12.0).reshape(6, 2) / 100.0
    shards = gather(table(features), np.arange(6), owner, norm_bound=1.0)
    assert shards.names == ("bern", "oslo", "rome")
    assert shards.agents == 3
    assert shards.width == 2
    assert shards.counts.tolist() == [3, 2, 1]
    assert shards.targets.tolist() == [1, 3, 5, 0, 4, 2]
    assert shards.starts.tolist() == [0, 3, 5]
    np.testing.assert_array_equal(dense(shards), features[[1, 3, 5, 0, 4, 2]])
    assert shards.sparse == (table is csr_array)


def test_a_column_of_numbers_is_a_column_of_owners_too() -> None:
    shards = gather(np.eye(4), np.arange(4), np.array([30, 4, 30, 100]), norm_bound=1.0)
    assert shards.names == ("4", "30", "100")
    assert shards.targets.tolist() == [1, 0, 2, 3]


def test_agent_numbers_keep_their_numbers_and_take_names() -> None:
    shards = gather(np.eye(4), np.arange(4), np.array([2, 0, 1, 0]), norm_bound=1.0, names=["x", "y", "a"])
    assert shards.names == ("x", "y", "a")
    assert shards.targets.tolist() == [1, 3, 2, 0]


@pytest.mark.parametrize("number", [-1, 2, 9])
def test_an_agent_number_without_a_name_is_refused(number: int) -> None:
    with pytest.raises(InputError, match=rf"owner {number} in row 2 is not one of the agents 0\.\.1"):
        gather(np.eye(3), np.arange(3), np.array([0, 1, number]), norm_bound=1.0, names=["a", "b"])


def test_an_agent_without_records_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="agent 'b' has no records"):
        gather(np.eye(3), np.arange(3), np.array([0, 2, 2]), norm_bound=1.0, names=["a", "b", "c"])


@pytest.mark.parametrize(("targets", "owners"), [(4, 5), (5, 4), (6, 5), (5, 6)])
def test_lengths_that_differ_are_refused_with_all_three(table: Any, targets: int, owners: int) -> None:
    with pytest.raises(InputError, match=f"5 rows of features, {targets} targets and {owners} owners"):
        gather(table(np.eye(5)), np.zeros(targets), np.zeros(owners, dtype=int), norm_bound=1.0)


# What is enforced on every row


@pytest.mark.parametrize("bound", [1e-3, 1.0, 1.7, 50.0])
def test_rows_over_the_bound_are_scaled_to_it_and_others_keep_every_bit(table: Any, rows: Any, bound: float) -> None:
    shards = gather(table(rows), np.arange(200), np.zeros(200, dtype=int), norm_bound=bound)
    after, lengths = dense(shards), np.linalg.norm(rows, axis=1)
    over = lengths > bound
    assert shards.clipped == over.sum()
    assert shards.norm_bound == bound
    assert np.linalg.norm(after, axis=1).max() <= bound * (1.0 + 1e-12)
    assert np.array_equal(after[~over], rows[~over])
    np.testing.assert_allclose(after[over], rows[over] * (bound / lengths[over])[:, None], rtol=1e-13)


def test_numbers_too_large_to_square_are_still_brought_under_the_bound(table: Any) -> None:
    shards = gather(table(np.full((2, 3), 1e200)), np.zeros(2), np.zeros(2, dtype=int), norm_bound=1.0)
    assert np.linalg.norm(dense(shards), axis=1).max() <= 1.0 + 1e-12
    assert shards.clipped == 2


def test_repeated_entries_of_a_sparse_row_are_added_before_its_length_is_taken() -> None:
    doubled = csr_array((np.array([0.8, 0.8]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    shards = gather(doubled, np.zeros(1), np.zeros(1, dtype=int), norm_bound=1.0)
    np.testing.assert_allclose(shards.features.toarray(), [[0.0, 1.0, 0.0]])
    assert shards.clipped == 1


def test_clipping_leaves_the_callers_table_alone(table: Any, rows: Any) -> None:
    given = table(rows.copy())
    gather(given, np.arange(200), np.zeros(200, dtype=int), norm_bound=0.5)
    np.testing.assert_array_equal(given.toarray() if table is csr_array else given, rows)


def test_an_intercept_adds_ones_after_clipping_and_raises_the_bound(table: Any, rows: Any) -> None:
    owner = np.zeros(200, dtype=int)
    plain = gather(table(rows), np.arange(200), owner, norm_bound=1.5)
    shards = gather(table(rows), np.arange(200), owner, norm_bound=1.5, intercept=True)
    assert shards.sparse == plain.sparse
    assert shards.norm_bound == pytest.approx(math.sqrt(1.5**2 + 1.0), rel=1e-15)
    assert shards.clipped == plain.clipped > 0
    np.testing.assert_array_equal(dense(shards), np.hstack([dense(plain), np.ones((200, 1))]))
    assert np.linalg.norm(dense(shards), axis=1).max() <= shards.norm_bound * (1.0 + 1e-12)


@pytest.mark.parametrize("kind", [np.float32, np.int64, bool])
def test_numbers_of_any_kind_become_double_precision(table: Any, kind: type) -> None:
    shards = gather(table(np.eye(3, dtype=kind)), np.zeros(3), np.zeros(3, dtype=int), norm_bound=1.0)
    assert dense(shards).dtype == np.float64
    np.testing.assert_array_equal(dense(shards), np.eye(3))


# What is refused


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused_with_its_row_and_column(table: Any, rows: Any, value: float) -> None:
    rows[[31, 60], [4, 0]] = value
    with pytest.raises(InputError, match=r"row 31, column 4 is not a finite number"):
        gather(table(rows), np.arange(200), np.zeros(200, dtype=int), norm_bound=1.0)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf])
def test_a_norm_bound_that_bounds_nothing_is_refused(table: Any, bound: float) -> None:
    with pytest.raises(InputError, match=rf"norm bound {bound}: must be a positive number"):
        gather(table(np.eye(2)), np.zeros(2), np.zeros(2, dtype=int), norm_bound=bound)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_an_empty_table_is_refused(table: Any, shape: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="at least one row and one column"):
        gather(table(np.zeros(shape)), np.zeros(shape[0]), np.zeros(shape[0], dtype=int), norm_bound=1.0)


def test_a_table_of_one_axis_is_refused() -> None:
    with pytest.raises(InputError, match=r"features of shape \(3,\)"):
        gather(np.zeros(3), np.zeros(3), np.zeros(3, dtype=int), norm_bound=1.0)


# Selecting, repeating, chunks


def test_taking_and_tiling_agents_copies_no_record(table: Any) -> None:
    shards = ragged(table)
    for other in (shards.take([3, 1]), shards.tile(4), shards.take([0]).tile(2)):
        assert np.shares_memory(other.targets, shards.targets)
        for mine, theirs in zip(other.storage, shards.storage, strict=True):
            assert np.shares_memory(mine, theirs)
            assert mine.size == theirs.size


def test_taking_agents_takes_their_ranges_and_names_in_that_order() -> None:
    shards = ragged(np.asarray)
    taken = shards.take([4, 1, 4])
    assert taken.counts.tolist() == [SIZES[4], SIZES[1], SIZES[4]]
    assert taken.names == ("4", "1", "4")
    for at, agent in enumerate([4, 1, 4]):
        assert (taken.starts[at], taken.stops[at]) == (shards.starts[agent], shards.stops[agent])


def test_tiling_puts_one_run_after_the_other() -> None:
    shards = ragged(np.asarray)
    assert shards.tile(1) is shards
    assert shards.tile(3).counts.tolist() == SIZES * 3
    assert shards.tile(3).names == shards.names * 3


@pytest.mark.parametrize("select", [lambda s: s, lambda s: s.take([1, 0, 4, 1]), lambda s: s.tile(2)])
def test_chunks_cover_the_rows_of_each_agent_exactly_once_in_order(select: Any) -> None:
    shards = select(ragged(np.asarray))
    start, stop, agent, first = shards.chunks
    assert ((stop - start >= 1) & (stop - start <= CHUNK)).all()
    assert first[-1] == start.size
    for i in range(shards.agents):
        mine = slice(first[i], first[i + 1])
        assert (agent[mine] == i).all()
        rows = np.concatenate([np.arange(a, b) for a, b in zip(start[mine], stop[mine], strict=True)])
        np.testing.assert_array_equal(rows, np.arange(shards.starts[i], shards.stops[i]))


def test_an_agents_chunks_do_not_depend_on_the_agents_beside_it() -> None:
    shards = ragged(np.asarray)
    alone = shards.take([4])
    start, stop, agent, _ = shards.chunks
    np.testing.assert_array_equal(alone.chunks[0], start[agent == 4])
    np.testing.assert_array_equal(alone.chunks[1], stop[agent == 4])


def test_a_reduction_takes_models_that_are_not_contiguous(table: Any) -> None:
    shards = ragged(table)
    models = np.random.default_rng(2).normal(size=(3, len(SIZES))).T
    weights = np.ones(len(SIZES))
    loss = Logistic()
    assert not models.flags.c_contiguous
    expected = loss.gradient(shards, np.ascontiguousarray(models), weights)
    np.testing.assert_array_equal(loss.gradient(shards, models, weights), expected)


# Records in float32


def exact_length(row: Any) -> float:
    """The Euclidean norm of float32 numbers: their squares are exact in float64, and fsum rounds once."""
    return math.sqrt(math.fsum(float(number) ** 2 for number in row))


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, bool])
def test_records_are_kept_in_the_precision_asked_for(table: Any, kind: type) -> None:
    given = np.eye(3, dtype=kind)
    shards = gather(table(given), np.zeros(3), np.zeros(3, dtype=int), norm_bound=1.0, precision="float32")
    assert dense(shards).dtype == np.float32
    assert shards.precision == "float32"
    assert shards.storage[0].dtype == np.float32
    assert shards.sparse == (table is csr_array)
    np.testing.assert_array_equal(dense(shards), np.eye(3))
    plain = gather(table(given), np.zeros(3), np.zeros(3, dtype=int), norm_bound=1.0)
    assert (plain.precision, dense(plain).dtype) == ("float64", np.float64)


def test_short_rows_are_rounded_to_the_nearest_and_not_touched_otherwise(table: Any, rows: Any) -> None:
    shards = gather(table(rows), np.arange(200), np.zeros(200, dtype=int), norm_bound=50.0, precision="float32")
    assert shards.clipped == 0
    np.testing.assert_array_equal(dense(shards), rows.astype(np.float32))
    assert (dense(shards) != rows).any()


@pytest.mark.parametrize("width", [2, 3, 784])
@pytest.mark.parametrize("bound", [1.0, 1.7, 1e-3])
def test_a_row_that_rounding_lifts_over_the_bound_is_clipped_again(table: Any, bound: float, width: int) -> None:
    """On the bound in float64, or a unit of the last place below it: half of them are longer in float32."""
    draw = np.random.default_rng(4)
    given = draw.normal(size=(300, width))
    given *= bound / np.linalg.norm(given, axis=1, keepdims=True)
    given *= 1.0 - 2.0**-52
    lengths = np.array([exact_length(row) for row in given.astype(np.float32)])
    lifted = lengths > bound
    assert (np.linalg.norm(given, axis=1) <= bound * (1.0 + 1e-15)).all()
    assert 60 < lifted.sum() < 240
    shards = gather(table(given), np.zeros(300), np.zeros(300, dtype=int), norm_bound=bound, precision="float32")
    after = dense(shards)
    assert all(exact_length(row) <= bound for row in after)
    assert abs(shards.clipped - int(lifted.sum())) <= 3  # those within the last place of the bound may go either way
    np.testing.assert_allclose(after, given, rtol=1e-6, atol=1e-6 * bound)


@pytest.mark.parametrize("size", [1.0 + 1e-7, 2.0, 1e4, 1e15, 1e30])
@pytest.mark.parametrize("bound", [1e-3, 1.0, 1.7, 28.0])
def test_no_row_is_longer_than_the_bound_after_clipping_not_even_by_a_bit(
    table: Any, rows: Any, bound: float, size: float
) -> None:
    given = np.delete(rows, 7, axis=0)
    given *= size * bound / np.linalg.norm(given, axis=1, keepdims=True)
    owner = np.zeros(199, dtype=int)
    shards = gather(table(given), np.zeros(199), owner, norm_bound=bound, precision="float32")
    lengths = np.array([exact_length(row) for row in dense(shards)])
    assert (lengths <= bound).all()
    assert (lengths > bound * (1.0 - 1e-6)).all()
    assert shards.clipped > 100
    np.testing.assert_allclose(dense(shards), given / size, rtol=2e-6, atol=1e-9 * bound)


def test_an_intercept_in_float32_stays_within_its_bound(table: Any, rows: Any) -> None:
    owner = np.zeros(200, dtype=int)
    shards = gather(table(9.0 * rows), owner, owner, norm_bound=1.5, intercept=True, precision="float32")
    assert dense(shards).dtype == np.float32
    assert (dense(shards)[:, -1] == 1.0).all()
    assert max(exact_length(row) for row in dense(shards)) <= shards.norm_bound == math.hypot(1.5, 1.0)


def test_clipping_in_float32_leaves_the_callers_table_alone(table: Any, rows: Any) -> None:
    given = table(rows.astype(np.float32))
    gather(given, np.arange(200), np.zeros(200, dtype=int), norm_bound=0.5, precision="float32")
    np.testing.assert_array_equal(given.toarray() if table is csr_array else given, rows.astype(np.float32))


def test_chunks_taking_and_tiling_keep_float32(table: Any) -> None:
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    rows = np.random.default_rng(1).uniform(-0.3, 0.3, (owner.size, 3))
    shards = gather(table(rows), np.arange(owner.size, dtype=float), owner, norm_bound=1.0, precision="float32")
    for other in (shards.take([3, 1]), shards.tile(4)):
        assert other.precision == "float32"
        assert np.shares_memory(other.storage[0], shards.storage[0])


@pytest.mark.parametrize("precision", ["float16", "double", "float", "single", ""])
def test_an_unknown_precision_is_refused(table: Any, precision: str) -> None:
    with pytest.raises(InputError, match=f"unknown precision '{precision}'; .*float64"):
        gather(table(np.eye(2)), np.zeros(2), np.zeros(2, dtype=int), norm_bound=1.0, precision=precision)


def test_a_number_too_large_for_float32_is_refused_with_its_row_and_column(table: Any) -> None:
    given = np.eye(3)
    given[1, 2] = 1e39
    with pytest.raises(InputError, match=r"row 1, column 2 is not a finite number in float32"):
        gather(table(given), np.zeros(3), np.zeros(3, dtype=int), norm_bound=1.0, precision="float32")
