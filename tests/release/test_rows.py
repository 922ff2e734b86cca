"""Rows of integers: within their bound for every input, and bit for bit a function of one record."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.sparse import csr_array

from dpadmm.errors import InputError
from dpadmm.problems.rows import RowRules
from dpadmm.release.rows import BITS, LARGEST_SQUARE, SIDE, cell, encode, enforce

BOUNDS = [1.0, 0.1, 3.7, 1e-12, 1e12]
TINY, HUGE = 5e-324, float(np.finfo(np.float64).max)
SPECIAL = [0.0, -0.0, 1.0, -1.0, TINY, -TINY, 2.2e-308, 1e-200, 1e-160, 1e154, 1e160, HUGE, -HUGE]
WRONG = [math.nan, math.inf, -math.inf]

numbers = st.one_of(st.floats(-2.0, 2.0), st.sampled_from(SPECIAL), st.sampled_from(WRONG), st.floats())
tables = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=numbers)


def squares(rows: Any) -> list[int]:
    """Of every row, in Python integers."""
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    assert dense.dtype == np.float32
    return [sum(int(number) ** 2 for number in row) for row in dense]


def bits(rows: Any) -> bytes:
    return (rows if isinstance(rows, np.ndarray) else rows.toarray()).tobytes()


def level(width: int, bound: float) -> Any:
    """A row on the bound whose numbers are equal: where 2^22 / sqrt(width) rounds up, its squares exceed 4^22."""
    return np.full((1, width), bound / math.sqrt(width))


# The bound


def test_the_bound_is_what_sums_rely_on() -> None:
    """Rows of 22 binary digits with slopes of 20, 2,048 of them, are exact in doubles."""
    assert (BITS, SIDE, LARGEST_SQUARE) == (22, 4_194_304, 17_592_186_044_416)
    assert cell(3.0) * SIDE == 3.0
    assert LARGEST_SQUARE == SIDE**2


@given(table=tables, bound=st.sampled_from(BOUNDS), intercept=st.booleans())
@settings(max_examples=400, deadline=None)
def test_squares_never_exceed_the_bound(table: Any, bound: float, intercept: bool) -> None:
    row_bound = math.hypot(bound, 1.0) if intercept else bound
    rows, long, lost = encode(table, bound, row_bound, float(intercept))
    assert np.isfinite(rows).all()
    assert (rows == np.rint(rows)).all()
    assert max(squares(rows)) <= LARGEST_SQUARE
    np.testing.assert_array_equal(lost, ~np.isfinite(table).all(axis=1))
    assert not rows[lost].any()
    lengths = np.array([math.hypot(*row) for row in table])
    clear = np.abs(lengths - bound) > 1e-9 * bound
    np.testing.assert_array_equal(long[clear & ~lost], (lengths > bound)[clear & ~lost])


@given(table=tables, public=st.tuples(*[st.floats(min_value=1e-300, allow_infinity=False)] * 2), one=st.floats(0.0))
@settings(max_examples=300, deadline=None)
def test_squares_never_exceed_the_bound_whatever_the_public_numbers_are(table: Any, public: Any, one: float) -> None:
    """A caller who mistakes a bound loses digits or rows, and no guarantee."""
    with np.errstate(over="ignore"):
        rows, _, _ = encode(table, *public, one)
    assert max(squares(rows)) <= LARGEST_SQUARE


@pytest.mark.parametrize("bound", [math.nan, 1e-300, 1e300])
def test_numbers_whose_squares_underflow_are_still_within_the_bound(bound: float) -> None:
    rows, _, _ = encode(np.array([[1e-200, 1e-200], [1e-310, 0.0], [1e200, 1e-200]]), bound, bound)
    assert max(squares(rows)) <= LARGEST_SQUARE


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 2, 3, 5, 6, 7, 16, 33, 1000, 70_000])
def test_a_row_on_the_bound_that_rounds_up_is_shrunk_by_no_more_than_a_cell_each(width: int, kind: Any) -> None:
    rows, _, lost = encode(level(width, 0.7).astype(kind), 0.7, 0.7)
    exact = SIDE / math.sqrt(width)
    assert squares(rows)[0] <= LARGEST_SQUARE
    assert not lost.any()
    assert np.abs(rows - exact).max() <= 1.5
    if math.ceil(exact - 0.5) ** 2 * width > LARGEST_SQUARE and kind is np.float64:
        assert (rows < exact).all()


def test_some_level_rows_do_round_up() -> None:
    assert any(round(SIDE / math.sqrt(width)) ** 2 * width > LARGEST_SQUARE for width in (2, 3, 5, 6, 7, 33, 1000))


@pytest.mark.parametrize(("width", "zero"), [(100, False), (70_000, True)])
def test_a_row_that_shrinking_does_not_bring_within_the_bound_is_zero(width: int, zero: bool) -> None:
    """Only public numbers that contradict each other lead here: each number is cut at twice the longest row."""
    rows, _, lost = encode(np.full((1, width), 1.0), 1e9, 1e-3)
    assert squares(rows)[0] <= LARGEST_SQUARE
    assert rows.any() != zero
    assert not lost.any()


@pytest.mark.parametrize("bound", BOUNDS)
def test_short_rows_are_rounded_to_nearest(bound: float) -> None:
    rng = np.random.default_rng(3)
    table = rng.uniform(-0.3, 0.3, (200, 5)) * bound
    rows, long, lost = encode(table, bound, bound)
    assert not long.any()
    assert not lost.any()
    assert np.abs(rows - table / cell(bound)).max() <= 0.5 * (1.0 + 1e-9)
    halves = np.array([[0.5, 1.5, -0.5, -2.5, 0.4999, 0.5001]]) * cell(bound)
    np.testing.assert_array_equal(encode(halves, bound, bound)[0], [[0.0, 2.0, 0.0, -2.0, 0.0, 1.0]])


def test_long_rows_keep_their_direction() -> None:
    rng = np.random.default_rng(4)
    table = rng.normal(size=(100, 6)) * 10.0 ** rng.uniform(1.0, 150.0, (100, 1))
    rows, long, _ = encode(table, 2.0, 2.0)
    assert long.all()
    unit = np.array([row / math.hypot(*row) for row in table])
    np.testing.assert_allclose(rows * cell(2.0), 2.0 * unit, atol=2.0 * cell(2.0))


def test_zeros_have_no_sign() -> None:
    """Where -0 and 0 were told apart, dense and sparse rows would be."""
    rows, _, _ = encode(np.array([[-0.0, 0.0, -1e-9, -TINY, 1.0]]), 1.0, 1.0)
    assert not np.signbit(rows).any()


# A function of one record


def stored(table: Any, rng: np.random.Generator, repeated: bool) -> csr_array:
    """The same table as CSR, its columns in any order and, if asked for, some numbers stored as two halves."""
    data, indices, indptr = [], [], [0]
    for row in table:
        entries = [(j, number) for j, number in enumerate(row) if number != 0.0 or rng.random() < 0.3]
        for place in rng.permutation(len(entries)):
            j, number = entries[place]
            halves = repeated and rng.random() < 0.5 and 2.0 * (number / 2.0) == number
            data += [number / 2.0] * 2 if halves else [number]
            indices += [j] * (2 if halves else 1)
        indptr.append(len(data))
    arrays_of = np.array(data, dtype=table.dtype), np.array(indices, np.int32), np.array(indptr, np.int32)
    return csr_array(arrays_of, shape=table.shape)


@given(table=tables, seed=st.integers(0, 2**31), bound=st.sampled_from(BOUNDS), intercept=st.booleans())
@settings(max_examples=200, deadline=None)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_no_way_of_storing_a_row_changes_a_bit(kind: Any, table: Any, seed: int, bound: float, intercept: bool) -> None:
    with np.errstate(over="ignore", under="ignore"):
        table = table.astype(kind)
    row_bound, rng = math.hypot(bound, float(intercept)), np.random.default_rng(seed)
    expected = encode(table, bound, row_bound, float(intercept))
    for other in (
        np.asfortranarray(table),
        csr_array(table),
        stored(table, rng, repeated=False),
        stored(table, rng, repeated=True),
    ):
        rows, long, lost = encode(other, bound, row_bound, float(intercept))
        assert bits(rows) == bits(expected[0])
        np.testing.assert_array_equal(long, expected[1])
        np.testing.assert_array_equal(lost, expected[2])
        if not isinstance(rows, np.ndarray):
            assert enforce(rows)[1] == 0
            assert rows.has_canonical_format


def test_what_encoding_is_given_stays_as_it_was() -> None:
    given_rows = csr_array((np.array([3.0, 1.0, 2.0]), np.array([2, 0, 2], np.int32), np.array([0, 3], np.int32)))
    before = given_rows.data.copy(), given_rows.indices.copy()
    encode(given_rows, 1.0, 1.0)
    np.testing.assert_array_equal(given_rows.data, before[0])
    np.testing.assert_array_equal(given_rows.indices, before[1])


@given(table=tables, data=st.data())
@settings(max_examples=100, deadline=None)
def test_blocks_of_a_table_give_the_rows_of_the_whole(table: Any, data: Any) -> None:
    whole, long, lost = encode(table, 1.0, math.hypot(1.0, 1.0), 1.0)
    start = data.draw(st.integers(0, len(table) - 1))
    stop = data.draw(st.integers(start + 1, len(table)))
    rows, long_part, lost_part = encode(table[start:stop], 1.0, math.hypot(1.0, 1.0), 1.0)
    assert bits(rows) == bits(whole[start:stop])
    np.testing.assert_array_equal(long_part, long[start:stop])
    np.testing.assert_array_equal(lost_part, lost[start:stop])


@given(table=tables, data=st.data(), sparse=st.booleans())
@settings(max_examples=100, deadline=None)
def test_replacing_one_record_changes_no_bit_of_another(table: Any, data: Any, sparse: bool) -> None:
    place = data.draw(st.integers(0, len(table) - 1))
    other = table.copy()
    other[place] = data.draw(arrays(np.float64, table.shape[1], elements=numbers))
    one, two = (encode(csr_array(each) if sparse else each, 1.0, 1.0)[0] for each in (table, other))
    left = np.delete(np.arange(len(table)), place)
    assert bits(one[left]) == bits(two[left])


@pytest.mark.parametrize("width", [1, 3, 15, 16, 17, 104])
def test_wide_and_narrow_tables_are_treated_alike(width: int) -> None:
    """Columns of zeros change nothing of the others, nor do rows before or after."""
    table = np.random.default_rng(width).normal(size=(50, width)) * 3.0
    rows = encode(table, 1.0, 1.0)[0]
    wider = encode(np.hstack([np.zeros((50, 7)), table, np.zeros((50, 9))]), 1.0, 1.0)[0]
    np.testing.assert_array_equal(wider[:, 7 : 7 + width], rows)
    longer = encode(np.vstack([table[:3], table]), 1.0, 1.0)[0]
    np.testing.assert_array_equal(longer[3:], rows)


# Intercept and records that cannot be used


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("bound", [0.1, 1.0, 30.0])
def test_the_intercept_is_the_same_in_every_row_and_within_the_bound(bound: float, sparse: bool) -> None:
    rng = np.random.default_rng(6)
    table = np.vstack([rng.normal(size=(300, 4)) * bound, np.zeros((1, 4)), level(4, bound)])
    rules = RowRules(bound, intercept=True)
    rows, _, _ = rules.apply(csr_array(table) if sparse else table)
    last = (rows.toarray() if sparse else rows)[:, -1]
    one = math.floor(1.0 / cell(rules.row_bound))
    assert set(last.tolist()) <= {one, one - 1}  # a row on both bounds may be shrunk by a cell
    assert last[300] == one
    assert one * cell(rules.row_bound) == pytest.approx(1.0, abs=cell(rules.row_bound))
    assert max(squares(rows)) <= LARGEST_SQUARE


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_records_that_may_not_be_used_are_zero_with_their_intercept(sparse: bool, constant: float) -> None:
    table = np.random.default_rng(8).normal(size=(6, 3))
    table[4, 1] = math.nan
    usable = np.array([True, False, True, True, True, False])
    given_table = csr_array(table) if sparse else table
    rows, long, lost = encode(given_table, 1.0, math.hypot(1.0, constant), constant, usable)
    np.testing.assert_array_equal(lost, [False, True, False, False, True, True])
    assert not long[lost].any()
    dense = rows.toarray() if sparse else rows
    assert not dense[lost].any()
    assert dense[~lost].any(axis=1).all()
    alone = encode(given_table[[0, 2, 3]], 1.0, math.hypot(1.0, constant), constant)[0]
    assert bits(rows[[0, 2, 3]]) == bits(alone)


def test_where_records_must_be_numbers_the_first_that_is_none_is_named() -> None:
    table = np.ones((3, 4))
    table[2, 1] = math.inf
    with pytest.raises(InputError, match="row 2, column 1 is not a finite number"):
        RowRules(1.0).apply(table)


# Rows that came from elsewhere


def test_encoded_rows_are_left_alone() -> None:
    rows, _, _ = encode(np.random.default_rng(1).normal(size=(50, 5)) * 5.0, 1.0, 1.0)
    same, wrong = enforce(rows)
    assert same is rows
    assert wrong == 0


FORGED = {
    "longer": [SIDE, 1.0, 0.0],
    "longer in one number": [SIDE + 1.0, 0.0, 0.0],
    "no integer": [0.5, 0.0, 0.0],
    "nearly an integer": [np.nextafter(np.float32(100.0), np.float32(101.0)), 0.0, 0.0],
    "nan": [math.nan, 0.0, 0.0],
    "infinite": [0.0, -math.inf, 0.0],
    "huge": [3e38, 0.0, 0.0],
    "squares that wrap around": [2.0**32, 2.0**32, 0.0],
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", FORGED)
def test_a_row_that_violates_the_bound_becomes_zero_and_no_other_does(name: str, sparse: bool) -> None:
    table = np.array([[SIDE, 0.0, 0.0], FORGED[name], [3.0, -4.0, 0.0]], dtype=np.float32)
    rows, wrong = enforce(csr_array(table) if sparse else table)
    assert wrong == 1
    np.testing.assert_array_equal(rows.toarray() if sparse else rows, [table[0], [0.0, 0.0, 0.0], table[2]])


@pytest.mark.parametrize("columns", [[0, 0], [2, 1], [-1, 1], [0, 3], [0, 2**31 - 1]])
def test_a_sparse_row_whose_columns_are_not_in_order_or_not_there_becomes_zero(columns: list[int]) -> None:
    data, starts = np.array([3.0, 4.0, 5.0], np.float32), np.array([0, 2, 3], np.int32)
    forged = csr_array((2, 3), dtype=np.float32)
    forged.data, forged.indices, forged.indptr = data, np.array([*columns, 1], np.int32), starts
    rows, wrong = enforce(forged)
    assert wrong == 1
    np.testing.assert_array_equal(rows.toarray(), [[0.0, 0.0, 0.0], [0.0, 5.0, 0.0]])
