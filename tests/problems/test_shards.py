"""Records over agents: who owns what, what is enforced on every row, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpadmm.errors import InputError
from dpadmm.problems.losses import Logistic
from dpadmm.problems.shards import Shards, gather
from dpadmm.release.rows import SIDE
from dpadmm.release.sums import CHUNK

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
    """The rows in the units of the records; all of them are integers within the bound."""
    whole = shards.features.toarray() if shards.sparse else shards.features
    assert whole.dtype == np.float32
    assert all(sum(int(number) ** 2 for number in row) <= SIDE**2 for row in whole)
    real = shards.real_rows
    return real.toarray() if shards.sparse else real


def cells(shards: Shards, count: float) -> float:
    return count * shards.norm_bound / SIDE


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
    np.testing.assert_allclose(dense(shards), features[[1, 3, 5, 0, 4, 2]], atol=cells(shards, 0.5))
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
def test_rows_over_the_bound_are_scaled_to_it_and_others_are_rounded(table: Any, rows: Any, bound: float) -> None:
    shards = gather(table(rows), np.arange(200), np.zeros(200, dtype=int), norm_bound=bound)
    after, lengths = dense(shards), np.linalg.norm(rows, axis=1)
    over = lengths > bound
    assert shards.clipped == over.sum()
    assert shards.norm_bound == bound
    np.testing.assert_allclose(after[~over], rows[~over], atol=cells(shards, 0.501))
    scaled = rows[over] * (bound / lengths[over])[:, None]
    np.testing.assert_allclose(after[over], scaled, atol=cells(shards, 1.6))


def test_numbers_too_large_to_square_are_still_brought_under_the_bound(table: Any) -> None:
    shards = gather(table(np.full((2, 3), 1e200)), np.zeros(2), np.zeros(2, dtype=int), norm_bound=1.0)
    np.testing.assert_allclose(dense(shards), np.full((2, 3), 3.0**-0.5), atol=cells(shards, 1.6))
    assert shards.clipped == 2


def test_repeated_entries_of_a_sparse_row_are_added_before_its_length_is_taken() -> None:
    doubled = csr_array((np.array([0.8, 0.8]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    shards = gather(doubled, np.zeros(1), np.zeros(1, dtype=int), norm_bound=1.0)
    np.testing.assert_array_equal(dense(shards), [[0.0, 1.0, 0.0]])
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
    np.testing.assert_allclose(dense(shards), np.hstack([dense(plain), np.ones((200, 1))]), atol=cells(shards, 2.5))


@pytest.mark.parametrize("kind", [np.float32, np.int64, bool])
def test_numbers_of_any_kind_become_integers_of_single_precision(table: Any, kind: type) -> None:
    shards = gather(table(np.eye(3, dtype=kind)), np.zeros(3), np.zeros(3, dtype=int), norm_bound=1.0)
    assert shards.storage[0].dtype == np.float32
    assert set(shards.storage[0].ravel().tolist()) <= {0.0, float(SIDE)}
    np.testing.assert_array_equal(dense(shards), np.eye(3))


@pytest.mark.parametrize("intercept", [False, True])
def test_records_that_cannot_be_used_count_as_zero_where_others_are_told(
    table: Any, rows: Any, intercept: bool
) -> None:
    rows[31, 4], usable = np.nan, np.ones(200, dtype=bool)
    usable[60] = False
    owner = np.zeros(200, dtype=int)
    shards = gather(table(rows), np.arange(200), owner, norm_bound=1.0, intercept=intercept, usable=usable)
    assert shards.unusable == 2
    found = dense(shards)
    assert not found[[31, 60]].any()
    rest = np.delete(np.arange(200), [31, 60])
    alone = gather(table(rows[rest]), rest, owner[rest], norm_bound=1.0, intercept=intercept)
    np.testing.assert_array_equal(found[rest], dense(alone))
    assert (shards.counts[0], shards.clipped) == (200, alone.clipped)


# What is refused


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused_with_its_row_and_column(table: Any, rows: Any, value: float) -> None:
    rows[[31, 60], [4, 0]] = value
    with pytest.raises(InputError, match=r"row 31, column 4 is not a finite number"):
        gather(table(rows), np.arange(200), np.zeros(200, dtype=int), norm_bound=1.0)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf])
def test_a_norm_bound_that_bounds_nothing_is_refused(table: Any, bound: float) -> None:
    with pytest.raises(InputError, match=rf"rows: norm_bound = {bound} must be a number from 1e-09 to 1e\+09"):
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
    start, stop, agent = shards.chunks()
    assert ((stop - start >= 1) & (stop - start <= CHUNK)).all()
    assert (np.diff(agent) >= 0).all()
    for i in range(shards.agents):
        mine = agent == i
        rows = np.concatenate([np.arange(a, b) for a, b in zip(start[mine], stop[mine], strict=True)])
        np.testing.assert_array_equal(rows, np.arange(shards.starts[i], shards.stops[i]))


def test_an_agents_chunks_do_not_depend_on_the_agents_beside_it() -> None:
    shards = ragged(np.asarray)
    alone = shards.take([4])
    for size in (CHUNK, 100):
        start, stop, agent = shards.chunks(size)
        np.testing.assert_array_equal(alone.chunks(size)[0], start[agent == 4])
        np.testing.assert_array_equal(alone.chunks(size)[1], stop[agent == 4])
        assert (stop - start).max() == size


def test_a_reduction_takes_models_that_are_not_contiguous(table: Any) -> None:
    shards = ragged(table)
    models = np.random.default_rng(2).normal(size=(3, len(SIZES))).T
    weights = np.ones(len(SIZES))
    loss = Logistic()
    assert not models.flags.c_contiguous
    expected = loss.gradient(shards, np.ascontiguousarray(models), weights)
    np.testing.assert_array_equal(loss.gradient(shards, models, weights), expected)
